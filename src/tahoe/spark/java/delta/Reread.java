package delta;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: makes the subqueries of a condition read again what a query of the statement has read, for
 * {@link Condition}. Subqueries that do not depend on the row run at once, and are replaced with their results.
 */
class Reread extends AbstractPartialFunction {
  /** Of other types, such as floats with their two zeros, equal values may be different objects. */
  private static final HashSet EQUAL_IF_SAME = new HashSet(Arrays.asList(new Object[] {
      "boolean", "byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string"
  }));

  private final SparkSession session;
  private final int mostMembers;
  private final Nodes nodes;

  /**
   * @param versions of the tables that the query has read, by their urls
   * @param mostMembers a subquery of IN with more results stays a query
   */
  Reread(SparkSession session, Map versions, int mostMembers) {
    this.session = session;
    this.mostMembers = mostMembers;
    this.nodes = new Nodes(versions);
  }

  public boolean isDefinedAt(Object node) { return node instanceof InSubquery || node instanceof SubqueryExpression; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    if (node instanceof InSubquery) {
      InSubquery in = (InSubquery) node;
      Object members = in.values().size() == 1 && !in.query().isCorrelated() ? members(in) : null;
      return members == null ? node : members;  // its query is a child, which is replaced next
    }
    SubqueryExpression subquery = (SubqueryExpression) node;
    LogicalPlan plan = same(subquery);
    if (subquery.isCorrelated()) return subquery.withNewPlan(plan);
    if (node instanceof Exists) return Literal$.MODULE$.apply(Boolean.valueOf(rows(session, plan, 1).length > 0));
    if (!(node instanceof ScalarSubquery)) return subquery.withNewPlan(plan);
    InternalRow[] rows = rows(session, plan, 2);
    if (rows.length > 1) throw new UnsupportedOperationException(Condition.FAILS);
    DataType type = ((Expression) node).dataType();
    return new Literal(rows.length == 0 ? null : rows[0].get(0, type), type);
  }

  private LogicalPlan same(SubqueryExpression subquery) {
    if (!((LogicalPlan) subquery.plan()).deterministic()) throw new UnsupportedOperationException(Condition.ORDER);
    return (LogicalPlan) ((LogicalPlan) subquery.plan()).transformDownWithSubqueries(nodes);
  }

  private Expression members(InSubquery in) { return among(session, (Expression) in.values().head(), same(in.query()), mostMembers); }

  /** That a value is one of a query's results, of which it has one column; null if they are too many, or of a type whose equal values differ. */
  static Expression among(SparkSession session, Expression value, LogicalPlan query, int most) {
    DataType type = value.dataType();
    if (!EQUAL_IF_SAME.contains(type.typeName()) && !(type instanceof DecimalType)) return null;
    InternalRow[] rows = rows(session, query, most + 1);
    if (rows.length > most) return null;
    HashSet members = new HashSet();
    for (int i = 0; i < rows.length; i++) members.add(rows[i].get(0, type));
    return new InSet(value, CollectionConverters.asScala(members).toSet());
  }

  private static InternalRow[] rows(SparkSession session, LogicalPlan plan, int most) {
    return Dataset$.MODULE$.ofRows(session, plan).queryExecution().executedPlan().executeTake(most);
  }

  /** Partial function over plans: reads of tables, at the versions that the query has read. Refuses what may have other rows. */
  private static class Nodes extends AbstractPartialFunction {
    /** The nodes that have the same rows if their children have. Others, such as a limit or a window, pick some of several orders. */
    private static final HashSet SAME = new HashSet(Arrays.asList(new Object[] {
        "Project", "Filter", "Join", "LateralJoin", "Union", "SubqueryAlias", "View", "Aggregate", "Distinct", "Sort", "Except", "Intersect",
        "Expand", "Generate", "WithCTE", "CTERelationDef", "CTERelationRef", "ResolvedHint"
    }));

    private final Map versions;

    Nodes(Map versions) { this.versions = versions; }

    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (SAME.contains(node.getClass().getSimpleName())) return node;
      if (!(node instanceof LeafNode)) throw new UnsupportedOperationException(Condition.ORDER);
      Files files = Files.of((LogicalPlan) node);
      if (files == null ? isSame(node) : files.isTimeTravel()) return node;
      Long version = files == null || files instanceof Changes ? null : (Long) versions.get(files.table());
      if (version == null) throw new UnsupportedOperationException(Condition.SOURCE);
      return Relation.with((LogicalRelation) node, files.asOf(version.longValue()));
    }

    /** Whether a leaf has the same rows each time: it has them itself, or reads files that are listed once. */
    private static boolean isSame(Object leaf) {
      if (leaf instanceof LogicalRDD) return ((LogicalRDD) leaf).rdd().isCheckpointed();
      if (leaf instanceof LogicalRelation) return ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation;
      return leaf instanceof LocalRelation || leaf instanceof Range || leaf instanceof OneRowRelation;
    }
  }
}
