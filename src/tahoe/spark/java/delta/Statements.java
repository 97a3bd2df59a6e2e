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
 * The last rule of the analysis of DELETE, UPDATE and MERGE: those on our tables become a {@link Command}. Later would be too late: by then
 * Spark knows that they answer nothing, and has optimised what Python will ask in its own way.
 */
public class Statements extends Rule {
  private final SparkSession session;

  public Statements(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    if (!isOfRows(plan) || !plan.resolved()) return tree;
    Object command = Ask.answer(Ask.python.command(session, plan.getClass().getSimpleName(), readable(plan)));
    if (command == null) return tree;
    // Spark checks what it will run, and so not what it does not see any more; a plan that is checked counts as analysed
    session.sessionState().analyzer().checkAnalysis((LogicalPlan) ((LogicalPlan) plan.clone()).transformExpressions(new Settled()));
    return (LogicalPlan) command;
  }

  /**
   * Assignments whose values are the same each time, for Spark's check: it allows no others in the statements that it runs itself. Each row
   * gets its value once, so that ours may have them. Conditions are evaluated more than once, and stay as they are.
   */
  private static class Settled extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) { return node instanceof Assignment && !((Assignment) node).value().deterministic(); }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Assignment assignment = (Assignment) node;
      return new Assignment(assignment.key(), (Expression) assignment.value().transform(new OfChance()));
    }
  }

  /** A function that is another one each time, with its arguments, is null of its type instead. */
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
   * The statement with the tables that it reads as they are read: where Spark has met a name as that of the target, it takes the target
   * for whatever else has that name.
   */
  private LogicalPlan readable(LogicalPlan plan) {
    Read read = new Read(session);
    LogicalPlan statement = (LogicalPlan) plan.transformExpressions(new InSubqueries(read));
    if (!(statement instanceof MergeIntoTable)) return statement;
    LogicalPlan source = (LogicalPlan) ((MergeIntoTable) statement).sourceTable().transformDownWithSubqueries(read);
    return (LogicalPlan) Cases.changed((Product) statement, Collections.singletonMap("sourceTable", source));
  }

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

  /** A table that could be written to as the rows that it has, under the same identities. */
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

  static boolean isOfRows(LogicalPlan plan) {
    return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Statements((SparkSession) session); }
  }
}
