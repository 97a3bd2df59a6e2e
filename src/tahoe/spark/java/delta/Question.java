package delta;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.Metadata;
import scala.Function1;
import scala.Option;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * An aggregation over the filtered rows of one read of a Delta table, which Python may answer from the log. {@link Rewrite} finds it, asks
 * {@code planning.answer}, and replaces it with {@link #answered}.
 */
class Question {
  private final Aggregate aggregate;
  private final LogicalRelation leaf;
  private final ArrayList conditions;
  private final Inlined inlined;
  private final ArrayList functions = new ArrayList();  // AggregateExpressions, over columns of the leaf

  private Question(Aggregate aggregate, Seq columns, Seq conditions, LogicalRelation leaf) {
    this.aggregate = aggregate;
    this.leaf = leaf;
    this.conditions = new ArrayList(CollectionConverters.asJava(conditions));
    this.inlined = new Inlined(columns);
    for (Iterator it = aggregate.aggregateExpressions().iterator(); it.hasNext(); ) collect((Expression) it.next());
  }

  /** The question of a node; null if it is not an aggregation over the rows of a table as they are now or were at a version. */
  static Question of(LogicalPlan node) {
    if (!(node instanceof Aggregate)) return null;
    Option rows = PhysicalOperation$.MODULE$.unapply(((Aggregate) node).child());
    if (rows.isEmpty()) return null;
    Tuple3 parts = (Tuple3) rows.get();
    LogicalRelation leaf = Files.unplannedRows((LogicalPlan) parts._3());
    if (leaf == null) return null;
    Question question = new Question((Aggregate) node, (Seq) parts._1(), (Seq) parts._2(), leaf);
    return question.isAnswerable() ? question : null;
  }

  LogicalRelation leaf() { return leaf; }
  ArrayList conditions() { return conditions; }

  /** The columns of the table that the aggregation uses. */
  AttributeSet used() {
    AttributeSet used = references(groups());
    for (int i = 0; i < functions.size(); i++) used = used.$plus$plus(((Expression) functions.get(i)).references());
    for (int i = 0; i < conditions.size(); i++) used = used.$plus$plus(((Expression) conditions.get(i)).references());
    return used;
  }

  private List groups() { return CollectionConverters.asJava(aggregate.groupingExpressions()); }

  private static AttributeSet references(List expressions) {
    AttributeSet found = AttributeSet$.MODULE$.empty();
    for (int i = 0; i < expressions.size(); i++) found = found.$plus$plus(((Expression) expressions.get(i)).references());
    return found;
  }

  private void collect(Expression expression) {
    if (expression instanceof AggregateExpression) {
      functions.add(expression.transform(inlined));
      return;
    }
    for (Iterator it = expression.children().iterator(); it.hasNext(); ) collect((Expression) it.next());
  }

  /** Whether all expressions are functions of columns that the log may know, and nothing else. */
  private boolean isAnswerable() {
    for (int i = 0; i < functions.size(); i++) {
      if (!((AggregateExpression) functions.get(i)).mode().equals(Complete$.MODULE$)) return false;
    }
    return isPlain(functions) && isPlain(conditions) && isPlain(groups());
  }

  private boolean isPlain(List expressions) {
    for (int i = 0; i < expressions.size(); i++) {
      Expression expression = (Expression) expressions.get(i);
      if (!expression.deterministic() || !Files.areInFiles(expression, leaf)) return false;
    }
    return true;
  }

  // --- what is asked

  /**
   * The aggregation as JSON, for {@code reading.answers}: the functions with name, distinct, arguments, condition (of FILTER) and
   * references; the groups with expression and references. Expressions are as in {@link Files#json}.
   */
  String json() {
    StringBuilder text = new StringBuilder("{\"functions\":[");
    for (int i = 0; i < functions.size(); i++) {
      AggregateExpression function = (AggregateExpression) functions.get(i);
      AggregateFunction of = function.aggregateFunction();
      text.append(i == 0 ? "" : ",").append("{\"name\":\"").append(of.getClass().getSimpleName());
      text.append("\",\"distinct\":").append(function.isDistinct());
      text.append(",\"arguments\":").append(Files.json(CollectionConverters.asJava(of.children())));
      text.append(",\"condition\":").append(Files.json(new ArrayList(CollectionConverters.asJava(function.filter().toList()))));
      text.append(",\"references\":").append(names(function)).append("}");
    }
    text.append("],\"groups\":[");
    for (int i = 0; i < groups().size(); i++) {
      Expression group = (Expression) groups().get(i);
      text.append(i == 0 ? "" : ",").append("{\"expression\":").append(Literals.visible(group).toJSON());
      text.append(",\"references\":").append(names(group)).append("}");
    }
    return text.append("]}").toString();
  }

  private static String names(Expression expression) {
    return Files.json(new ArrayList(CollectionConverters.asJava(expression.references().toSeq())));
  }

  // --- what takes its place

  /**
   * The plan that takes the place of the aggregation, with the same output.
   *
   * @param rest the plan of the rows that must be read, with all conditions applied; null if there are none
   */
  LogicalPlan answered(SparkSession session, Answered found, LogicalPlan rest) {
    ArrayList keys = keys(found.keys());
    ArrayList values = new ArrayList();
    HashMap results = new HashMap();
    for (int i = 0; i < functions.size(); i++) {
      AggregateExpression function = (AggregateExpression) functions.get(i);
      if (!found.combines(i)) {
        results.put(function.resultId(), function);  // over columns of the leaf, as the rows are
        continue;
      }
      AttributeReference value = value(function, "partial " + i);
      values.add(value);
      results.put(function.resultId(), found.whole() ? value : combined(function, value));
    }
    ArrayList output = new ArrayList(keys);
    output.addAll(values);
    LogicalPlan rows = Answer.of(session, seq(output), found);
    Seq columns = replaced(results);
    if (found.whole()) return new Project(columns, rows);
    if (rest != null) {
      List both = Arrays.asList(new Object[] {rows, new Project(parts(keys, found), rest)});
      Object union = Cases.built("org.apache.spark.sql.catalyst.plans.logical.Union", Arrays.asList(new Object[] {seq(both)}));
      rows = (LogicalPlan) union;
    }
    HashMap fields = new HashMap();
    fields.put("aggregateExpressions", columns);
    fields.put("child", rows);
    return (LogicalPlan) Cases.changed(aggregate, fields);
  }

  /** The table's columns of these names, by which the rows of an answer are grouped. */
  private ArrayList keys(String[] names) {
    ArrayList found = new ArrayList();
    for (int i = 0; i < names.length; i++) {
      for (Iterator it = leaf.output().iterator(); it.hasNext(); ) {
        Attribute column = (Attribute) it.next();
        if (column.name().equalsIgnoreCase(names[i])) found.add(column);
      }
    }
    return found;
  }

  private static AttributeReference value(AggregateExpression function, String name) {
    boolean isCount = function.aggregateFunction() instanceof Count;
    Seq none = seq(new ArrayList());
    return new AttributeReference(name, function.dataType(), !isCount, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), none);
  }

  /** The function over the values of parts. */
  private static Expression combined(AggregateExpression function, AttributeReference value) {
    if (function.aggregateFunction() instanceof Min) return new Min(value).toAggregateExpression();
    if (function.aggregateFunction() instanceof Max) return new Max(value).toAggregateExpression();
    Expression sum = new Sum(value).toAggregateExpression();
    return new Coalesce(seq(Arrays.asList(new Object[] {sum, number(0)})));
  }

  /** For rows that are read: the keys, and the value of each combined function for a single row. */
  private Seq parts(ArrayList keys, Answered found) {
    ArrayList parts = new ArrayList();
    for (int i = 0; i < keys.size(); i++) parts.add(Aliases.named((Expression) keys.get(i), ((Attribute) keys.get(i)).name()));
    for (int i = 0; i < functions.size(); i++) {
      if (found.combines(i)) parts.add(Aliases.named(part((AggregateExpression) functions.get(i)), "partial " + i));
    }
    return seq(parts);
  }

  private static Expression part(AggregateExpression function) {
    AggregateFunction of = function.aggregateFunction();
    boolean isCount = of instanceof Count;
    Expression condition = function.filter().isEmpty() ? null : (Expression) function.filter().get();
    for (Iterator it = of.children().iterator(); isCount && it.hasNext(); ) {
      Expression child = (Expression) it.next();
      if (child.nullable()) condition = condition == null ? new IsNotNull(child) : new And(condition, new IsNotNull(child));
    }
    Expression value = isCount ? number(1) : (Expression) of.children().apply(0);
    if (condition == null) return value;
    return new If(condition, value, isCount ? number(0) : new Literal(null, value.dataType()));
  }

  private static Literal number(long value) { return new Literal(Long.valueOf(value), LongType$.MODULE$); }

  /** The output columns, with the results of functions in their place. */
  private Seq replaced(HashMap results) {
    ArrayList columns = new ArrayList();
    for (Iterator it = aggregate.aggregateExpressions().iterator(); it.hasNext(); )
      columns.add(((Expression) it.next()).transform(new Replaced(results)));
    return seq(columns);
  }

  private static Seq seq(List items) { return CollectionConverters.asScala(items).toSeq(); }

  /** Partial function over expressions: replaces the columns of a projection with what they are beneath it. */
  static class Inlined extends AbstractPartialFunction {
    private final Map named = new HashMap();

    Inlined(Seq columns) {
      for (Iterator it = columns.iterator(); it.hasNext(); ) {
        Object column = it.next();
        if (column instanceof Alias) named.put(((Alias) column).exprId(), ((Alias) column).child());
      }
    }

    public boolean isDefinedAt(Object node) { return node instanceof Attribute && named.containsKey(((Attribute) node).exprId()); }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? named.get(((Attribute) node).exprId()) : otherwise.apply(node);
    }
  }

  /** Partial function over expressions: replaces aggregate functions with their results. */
  private static class Replaced extends AbstractPartialFunction {
    private final Map results;

    Replaced(Map results) { this.results = results; }

    public boolean isDefinedAt(Object node) {
      return node instanceof AggregateExpression && results.containsKey(((AggregateExpression) node).resultId());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? results.get(((AggregateExpression) node).resultId()) : otherwise.apply(node);
    }
  }
}
