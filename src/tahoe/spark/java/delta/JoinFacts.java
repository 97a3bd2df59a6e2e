package delta;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What Python is told about joins, as JSON, for {@code reading.join_rules}. It is Java because it walks over plans. It calls no Python. */
class JoinFacts {
  static final String[] SIDES = {"left", "right"};

  private final Map reads;
  private final Map conditions;

  /**
   * @param reads the {@link Files} of the reads, by their plans
   * @param conditions the lists of the conditions that the plans of reads apply themselves
   */
  JoinFacts(Map reads, Map conditions) {
    this.reads = reads;
    this.conditions = conditions;
  }

  /** @param joins the {@link Joins.Joined} of a query */
  String json(List joins) {
    ArrayList told = new ArrayList();
    for (int i = 0; i < joins.size(); i++) {
      Joins.Joined joined = (Joins.Joined) joins.get(i);
      Map join = new LinkedHashMap();
      join.put("type", type(joined.join));
      join.put("deterministic", Boolean.valueOf(isDeterministic(joined.join)));
      for (int side = 0; side < 2; side++) join.put(SIDES[side], side(joined, side));
      ArrayList keys = new ArrayList();
      for (int k = 0; k < joined.keys.size(); k++) keys.add(key((Joins.Key) joined.keys.get(k)));
      join.put("keys", keys);
      told.add(join);
    }
    try {
      return new ObjectMapper().writeValueAsString(told);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  private Map key(Joins.Key key) {
    Map told = new LinkedHashMap();
    told.put("null_safe", Boolean.valueOf(key.nullSafe));
    for (int side = 0; side < 2; side++) {
      ArrayList ends = new ArrayList();
      for (int i = 0; i < key.ends[side].size(); i++) ends.add(end((Joins.End) key.ends[side].get(i)));
      told.put(SIDES[side], ends);
    }
    return told;
  }

  private Map end(Joins.End end) {
    Files files = (Files) reads.get(end.read);
    Map told = new LinkedHashMap();
    told.put("table", files.key());
    told.put("metadata", files.metadata());
    told.put("version", Long.valueOf(files.version()));
    told.put("selection", files.selection());
    told.put("steps", end.steps);
    ArrayList types = new ArrayList();
    Expression column = end.expression;
    types.add(column.dataType().simpleString());
    while (column instanceof Cast) {
      column = (Expression) ((Cast) column).child();
      types.add(column.dataType().simpleString());
    }
    told.put("types", types);
    told.put("column", Files.json(Arrays.asList(new Object[] {column})));
    return told;
  }

  private Map side(Joins.Joined joined, int side) {
    Map told = new LinkedHashMap();
    told.put("bytes", joined.side(side).stats().sizeInBytes().toString());
    ArrayList nodes = new ArrayList();
    nodes(joined.side(side), nodes);
    ArrayList functions = new ArrayList();
    nodes.add(node("Project", isDeterministic(joined.join), "", false, functions));  // of the keys
    for (int i = 0; i < joined.keys.size(); i++) expression(((Joins.Key) joined.keys.get(i)).sides[side], functions, nodes);
    told.put("nodes", nodes);
    return told;
  }

  /** @param functions see {@link #expression} */
  private static Map node(String name, boolean deterministic, String source, boolean selects, List functions) {
    Map node = new LinkedHashMap();
    node.put("name", name);
    node.put("deterministic", Boolean.valueOf(deterministic));
    node.put("source", source);
    node.put("selects", Boolean.valueOf(selects));
    node.put("functions", functions);
    return node;
  }

  /** Describes the nodes of a plan and of the subqueries in it, down to the reads. */
  private void nodes(LogicalPlan plan, ArrayList nodes) {
    boolean isRead = reads.containsKey(plan);
    List expressions = isRead ? inside(plan) : CollectionConverters.asJava(plan.expressions());
    boolean selects = false;
    for (int i = 0; i < expressions.size(); i++) selects |= (isRead || plan instanceof Filter) && selects((Expression) expressions.get(i));
    ArrayList functions = new ArrayList();
    String source = plan instanceof LogicalRelation ? source((LogicalRelation) plan) : "";
    nodes.add(node(isRead ? "Read" : plan.getClass().getSimpleName(), areDeterministic(expressions), source, selects, functions));
    for (Iterator it = groups(plan).iterator(); it.hasNext(); )
      functions.add("Group " + ((Expression) it.next()).dataType().simpleString());
    for (int i = 0; i < expressions.size(); i++) expression((Expression) expressions.get(i), functions, nodes);
    if (isRead) return;
    for (Iterator it = plan.children().iterator(); it.hasNext(); ) nodes((LogicalPlan) it.next(), nodes);
  }

  /** Whether a plan has the same rows each time. Reads have, whatever their plans use: those that count rows read them in the same order. */
  private boolean isDeterministic(LogicalPlan plan) {
    boolean isRead = reads.containsKey(plan);
    if (!areDeterministic(isRead ? inside(plan) : CollectionConverters.asJava(plan.expressions()))) return false;
    if (isRead) return true;
    for (Iterator it = plan.children().iterator(); it.hasNext(); ) if (!isDeterministic((LogicalPlan) it.next())) return false;
    return true;
  }

  private static boolean areDeterministic(List expressions) {
    for (int i = 0; i < expressions.size(); i++) if (!((Expression) expressions.get(i)).deterministic()) return false;
    return true;
  }

  /** The conditions that the plan of a read applies itself: those of a table with deletion vectors. */
  private List inside(LogicalPlan read) {
    List found = (List) conditions.get(read);
    return found == null ? new ArrayList() : found;
  }

  private static String source(LogicalRelation leaf) {
    boolean isOfFiles = leaf.relation() instanceof HadoopFsRelation;
    return (isOfFiles ? ((HadoopFsRelation) leaf.relation()).location() : leaf.relation()).getClass().getSimpleName();
  }

  private static boolean selects(Expression condition) {
    ArrayList parts = new ArrayList();
    Rewrite.split(condition, parts);
    for (int i = 0; i < parts.size(); i++) {
      Expression part = (Expression) parts.get(i);
      if (!(part instanceof IsNotNull) && !SubqueryExpression.hasSubquery(part)) return true;
    }
    return false;
  }

  /** Adds an expression's aggregates and user-defined functions to {@code functions}, and the nodes of its subqueries to {@code nodes}. */
  private void expression(Expression expression, ArrayList functions, ArrayList nodes) {
    if (expression instanceof UserDefinedExpression) functions.add("user-defined");
    if (expression instanceof AggregateExpression) {
      AggregateExpression function = (AggregateExpression) expression;
      functions.add(function.aggregateFunction().getClass().getSimpleName() + " " + function.dataType().simpleString());
    }
    boolean hasPlan = expression instanceof PlanExpression && ((PlanExpression) expression).plan() instanceof LogicalPlan;
    if (hasPlan) nodes((LogicalPlan) ((PlanExpression) expression).plan(), nodes);
    for (Iterator it = expression.children().iterator(); it.hasNext(); ) expression((Expression) it.next(), functions, nodes);
  }

  /** A node between a join and a read. {@code key}: what the join's key is beneath the node, in its child of this number. */
  static Map step(LogicalPlan node, int child, Expression key) {
    Map step = new LinkedHashMap();
    step.put("name", node.getClass().getSimpleName());
    step.put("deterministic", Boolean.valueOf(areDeterministic(CollectionConverters.asJava(node.expressions()))));
    step.put("join", node instanceof Join ? type((Join) node) : "");
    step.put("child", SIDES[Math.min(child, 1)]);
    Seq grouped = node instanceof Window ? ((Window) node).partitionSpec() : groups(node);
    ArrayList columns = new ArrayList();
    for (Iterator it = grouped.iterator(); it.hasNext(); ) {
      Object column = it.next();
      if (column instanceof Attribute) columns.add(column);
    }
    AttributeSet known = AttributeSet$.MODULE$.apply(seq(columns));
    step.put("grouped", Boolean.valueOf(key.references().subsetOf(known)));
    return step;
  }

  private static Seq groups(LogicalPlan node) {
    return node instanceof Aggregate ? ((Aggregate) node).groupingExpressions() : seq(new ArrayList());
  }

  /** The SQL of a join's type. Spark makes existence joins of EXISTS and IN under OR; they have no SQL, and throw when asked. */
  private static String type(Join join) {
    return join.joinType() instanceof ExistenceJoin ? "EXISTENCE" : join.joinType().sql();
  }

  private static Seq seq(List items) { return CollectionConverters.asScala(items).toSeq(); }
}
