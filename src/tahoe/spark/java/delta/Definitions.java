package delta;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.expressions.CheckConstraint;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.AddCheckConstraint;
import org.apache.spark.sql.catalyst.plans.logical.AddConstraint;
import org.apache.spark.sql.catalyst.plans.logical.AlterColumnSpec;
import org.apache.spark.sql.catalyst.plans.logical.AlterColumns;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowPartitions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Analyzer rules for the DDL and SHOW statements that Spark does not pass to the catalog: ADD CONSTRAINT ... CHECK, SET NOT NULL and SHOW
 * PARTITIONS. The first becomes an {@code alterTable} of a catalog, the others become a {@link Command}. And for the start of a stream.
 */
public class Definitions {
  private Definitions() { }

  public static class EarlyBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new Early((SparkSession) session); }
  }

  public static class LateBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new Late(); }
  }

  /**
   * Runs before names are resolved: replaces ADD CONSTRAINT ... CHECK on a Delta table with a plan that Spark passes to the catalog as a
   * table change, because Spark's own plan reads the table as a query does. Passes the start of a stream to Python, which may refuse it, and
   * what {@link Reads} finds.
   */
  public static class Early extends Rule {
    private final SparkSession session;

    public Early(SparkSession session) { this.session = session; }

    public TreeNode apply(TreeNode plan) {
      if (plan instanceof WriteToStreamStatement) Ask.answer(Ask.python.command(session, "WriteToStreamStatement", (LogicalPlan) plan));
      Reads.check(session, (LogicalPlan) plan);
      if (ChangesClause.isIn((LogicalPlan) plan)) return ((LogicalPlan) plan).transform(new ChangesClause(session));
      if (!(plan instanceof AddCheckConstraint)) return plan;
      AddCheckConstraint statement = (AddCheckConstraint) plan;
      LogicalPlan broken = statement.child();  // the query for the rows that violate the condition
      LogicalPlan table = broken instanceof Filter ? ((Filter) broken).child() : broken;
      if (!(table instanceof UnresolvedRelation)) return plan;
      Seq name = ((UnresolvedRelation) table).multipartIdentifier();
      if (!isOurs(name)) return plan;
      return new AddConstraint(new UnresolvedTable(name, "ALTER TABLE ... ADD CONSTRAINT", true), asText(statement.checkConstraint()));
    }

    /** A condition with a subquery keeps only its text: Spark would not resolve the subquery, and Python refuses it. */
    private static CheckConstraint asText(CheckConstraint constraint) {
      if (!SubqueryExpression$.MODULE$.hasSubquery(constraint.child())) return constraint;
      return (CheckConstraint) Cases.changed(constraint, Collections.singletonMap("child", Literal$.MODULE$.TrueLiteral()));
    }

    /** Whether a name is of a Delta table: delta.`/path`, or a table with provider delta in the session's catalog. */
    private boolean isOurs(Seq name) {
      return ((Boolean) Ask.answer(Ask.python.isDelta(session, name.mkString("\u0000")))).booleanValue();
    }
  }

  /**
   * Runs once a statement is resolved: replaces SET NOT NULL, which Spark refuses without reading the rows, and SHOW PARTITIONS, whose
   * result has one typed column for each partition column, with a {@link Command}.
   */
  public static class Late extends Rule {
    public TreeNode apply(TreeNode tree) {
      LogicalPlan plan = (LogicalPlan) tree;
      if (plan instanceof AlterColumns && tightens((AlterColumns) plan) && defined(((AlterColumns) plan).table()) != null)
        return Command.of("Delta ALTER COLUMN", plan, Collections.emptyList());
      if (plan instanceof ShowPartitions && plan.resolved() && !SessionCatalog.isForCatalog()) {
        ShowPartitions shown = (ShowPartitions) plan;
        DefinedTable table = defined(shown.table());
        if (table != null) {
          Seq columns = DataTypeUtils.toAttributes(table.partitionSchema());
          return Command.of("Delta SHOW PARTITIONS", shown.copy(shown.table(), shown.pattern(), columns), Collections.emptyList());
        }
      }
      return tree;
    }

    /** Whether a statement sets a column to NOT NULL. */
    private static boolean tightens(AlterColumns plan) {
      if (!plan.resolved()) return false;
      for (Iterator it = plan.specs().iterator(); it.hasNext(); ) {
        if (((AlterColumnSpec) it.next()).newNullability().contains(Boolean.FALSE)) return true;
      }
      return false;
    }

    private static DefinedTable defined(LogicalPlan table) {
      if (!(table instanceof ResolvedTable) || !(((ResolvedTable) table).table() instanceof DefinedTable)) return null;
      return (DefinedTable) ((ResolvedTable) table).table();
    }
  }
}
