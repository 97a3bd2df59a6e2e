package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
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
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Function1;
import scala.PartialFunction;
import scala.Product;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Post-hoc analyzer rule: replaces a resolved DELETE, UPDATE or MERGE on a Delta table with a {@link Command}. The optimizer would be too
 * late: by then the statement has no result columns, and its expressions are optimized. Where an INSERT reads its table, the table
 * becomes readable. Python: {@code resolved_plans.instead_of}.
 */
public class Statements extends Rule {
  private final SparkSession session;

  public Statements(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    if (Rewrite.isCommands(plan) && plan.resolved()) return several(plan);
    if (isOurs(plan) && plan.resolved()) return reading(plan, new Read(session));
    if (!isOfRows(plan) || !plan.resolved()) return tree;
    Object command = Ask.answer(Ask.python.command(session, plan.getClass().getSimpleName(), readable(plan)));
    if (command == null) return tree;
    // Spark would check the command only. The check marks a plan as analyzed, so it gets a copy.
    session.sessionState().analyzer().checkAnalysis((LogicalPlan) ((LogicalPlan) plan.clone()).transformExpressions(new Settled()));
    return (LogicalPlan) command;
  }

  /** Several INSERTs, which read what tables were before the statement, also if another one of them writes the table earlier. */
  private LogicalPlan several(LogicalPlan inserts) {
    HashSet written = new HashSet();
    ArrayList each = new ArrayList();
    for (Iterator it = inserts.children().iterator(); it.hasNext(); ) {
      LogicalPlan insert = (LogicalPlan) it.next();
      each.add(reading(reading(insert, new Read(session)), new Before(written)));
      if (!isOurs(insert)) continue;
      LogicalPlan table = read(session, (DataSourceV2Relation) ((V2WriteCommand) insert).table());  // its catalog may spell the url otherwise
      written.add(Files.of((LogicalPlan) table.collectLeaves().head()).table());
    }
    return (LogicalPlan) inserts.withNewChildren(CollectionConverters.asScala(each).toSeq());
  }

  /** Partial function over plans: makes reads of some tables, given by url (all tables if null), read the version that is the newest now. */
  static class Before extends AbstractPartialFunction {
    private final HashSet tables;

    Before(HashSet tables) { this.tables = tables == null ? null : new HashSet(tables); }

    public boolean isDefinedAt(Object node) {
      Files files = Files.of((LogicalPlan) node);
      if (files == null || files instanceof Changes || files.pinned()) return false;
      return tables == null || tables.contains(files.table());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      return Relation.with((LogicalRelation) node, Files.of((LogicalPlan) node).asOfNow());
    }
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

  /** An INSERT with a rule applied to the plan of its rows, and to the subqueries in it. */
  private static LogicalPlan reading(LogicalPlan insert, PartialFunction rule) {
    Object query = Cases.field((Product) insert, "query");
    if (query == null) return insert;
    LogicalPlan after = (LogicalPlan) ((LogicalPlan) query).transformDownWithSubqueries(rule);
    if (after == query) return insert;
    if (insert instanceof V2WriteCommand) return (LogicalPlan) ((V2WriteCommand) insert).withNewQuery(after);
    return (LogicalPlan) Cases.changed((Product) insert, Collections.singletonMap("query", after));
  }

  private static boolean isOurs(LogicalPlan insert) {
    if (!(insert instanceof V2WriteCommand)) return false;
    NamedRelation table = ((V2WriteCommand) insert).table();
    return table instanceof DataSourceV2Relation && ((DataSourceV2Relation) table).table() instanceof WriteTable;
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
      return Aliases.project(read(session, relation), CollectionConverters.asJava(relation.output()), false);
    }
  }

  /** A query of the table that a relation writes. */
  private static LogicalPlan read(SparkSession session, DataSourceV2Relation relation) {
    CatalogTable table = ((V1Table) ((WriteTable) relation.table()).read()).v1Table();
    return Dataset$.MODULE$.ofRows(session, new UnresolvedCatalogRelation(table, relation.options(), false)).queryExecution().analyzed();
  }

  /** Whether a plan is a DML statement that this rule replaces. */
  static boolean isOfRows(LogicalPlan plan) {
    return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Statements((SparkSession) session); }
  }
}
