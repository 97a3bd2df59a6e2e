package delta;

import java.util.Collections;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.UnresolvedCatalogRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Post-hoc analyzer rule: replaces a resolved DELETE, UPDATE or MERGE on a Delta table with a {@link Command}. The optimizer would be too
 * late: by then the statement has no result columns, and its expressions are optimized. The subqueries of an INSERT that name its table
 * become readable. Python: {@code resolved_plans.instead_of}.
 */
public class Statements extends Rule {
  private final SparkSession session;

  public Statements(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    if (plan instanceof V2WriteCommand && plan.resolved()) return readable((V2WriteCommand) plan);
    if (!isOfRows(plan) || !plan.resolved()) return tree;
    Object command = Ask.answer(Ask.python.command(session, plan.getClass().getSimpleName(), readable(plan)));
    if (command == null) return tree;
    // Spark would check the command only. The check marks a plan as analyzed, so it gets a copy.
    session.sessionState().analyzer().checkAnalysis((LogicalPlan) ((LogicalPlan) plan.clone()).transformExpressions(new Settled()));
    return (LogicalPlan) command;
  }

  /**
   * Partial function over expressions: makes assigned values deterministic for Spark's check, which refuses other values. tahoe allows
   * them, because it evaluates each value once per row. It evaluates conditions more than once, so these stay as they are for the check.
   */
  private static class Settled extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) { return node instanceof Assignment && !((Assignment) node).value().deterministic(); }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Assignment assignment = (Assignment) node;
      return new Assignment(assignment.key(), (Expression) assignment.value().transform(new OfChance()));
    }
  }

  /** Partial function over expressions: replaces a nondeterministic function of deterministic arguments with a null of its type. */
  private static class OfChance extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (((Expression) node).deterministic()) return false;
      for (Iterator parts = ((Expression) node).children().iterator(); parts.hasNext(); )
        if (!((Expression) parts.next()).deterministic()) return false;
      return true;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? new Literal(null, ((Expression) node).dataType()) : otherwise.apply(node);
    }
  }

  /**
   * The statement with its subqueries, and the source of a MERGE, reading tables as queries do. Once Spark has resolved a name as the
   * target, it uses the target's {@link WriteTable} wherever the statement has that name again.
   */
  private LogicalPlan readable(LogicalPlan plan) {
    Read read = new Read(session);
    LogicalPlan statement = (LogicalPlan) plan.transformExpressions(new InSubqueries(read));
    if (!(statement instanceof MergeIntoTable)) return statement;
    LogicalPlan source = (LogicalPlan) ((MergeIntoTable) statement).sourceTable().transformDownWithSubqueries(read);
    return (LogicalPlan) Cases.changed((Product) statement, Collections.singletonMap("sourceTable", source));
  }

  /** An INSERT into a Delta table with its subqueries reading tables as queries do. */
  private LogicalPlan readable(V2WriteCommand insert) {
    boolean isOurs = insert.table() instanceof DataSourceV2Relation && ((DataSourceV2Relation) insert.table()).table() instanceof WriteTable;
    if (!isOurs) return (LogicalPlan) insert;
    LogicalPlan query = (LogicalPlan) insert.query().transformDownWithSubqueries(new Read(session));
    return query == insert.query() ? (LogicalPlan) insert : (LogicalPlan) insert.withNewQuery(query);
  }

  /** Partial function over expressions: applies {@link Read} to subqueries. */
  private static class InSubqueries extends AbstractPartialFunction {
    private final Read read;

    InSubqueries(Read read) { this.read = read; }

    public boolean isDefinedAt(Object node) { return node instanceof SubqueryExpression; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      SubqueryExpression subquery = (SubqueryExpression) node;
      return subquery.withNewPlan((LogicalPlan) ((LogicalPlan) subquery.plan()).transformDownWithSubqueries(read));
    }
  }

  /** Partial function over plans: replaces a relation over a {@link WriteTable} with a query of it, under the same expression ids. */
  private static class Read extends AbstractPartialFunction {
    private final SparkSession session;

    Read(SparkSession session) { this.session = session; }

    public boolean isDefinedAt(Object node) {
      return node instanceof DataSourceV2Relation && ((DataSourceV2Relation) node).table() instanceof WriteTable;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      CatalogTable table = ((V1Table) ((WriteTable) relation.table()).read()).v1Table();
      LogicalPlan rows = Dataset$.MODULE$.ofRows(session, new UnresolvedCatalogRelation(table, relation.options(), false)).queryExecution().analyzed();
      return Aliases.project(rows, CollectionConverters.asJava(relation.output()), false);
    }
  }

  /** Whether a plan is a DML statement that this rule replaces. */
  static boolean isOfRows(LogicalPlan plan) {
    return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Statements((SparkSession) session); }
  }
}
