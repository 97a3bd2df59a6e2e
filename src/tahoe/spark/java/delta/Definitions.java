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
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** Rules of the analysis, for the few statements about what a table is of which Spark does not ask its catalog. */
public class Definitions {
  private Definitions() { }

  public static class EarlyBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new Early((SparkSession) session); }
  }

  public static class LateBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new Late(); }
  }

  /** Before names are looked up: ADD CONSTRAINT ... CHECK reads a table as a query does, and so would never come to our catalogs. */
  public static class Early extends Rule {
    private final SparkSession session;

    public Early(SparkSession session) { this.session = session; }

    public TreeNode apply(TreeNode plan) {
      if (!(plan instanceof AddCheckConstraint)) return plan;
      AddCheckConstraint statement = (AddCheckConstraint) plan;
      LogicalPlan broken = statement.child();  // the query of the rows for which the condition does not hold
      LogicalPlan table = broken instanceof Filter ? ((Filter) broken).child() : broken;
      if (!(table instanceof UnresolvedRelation)) return plan;
      Seq name = ((UnresolvedRelation) table).multipartIdentifier();
      if (!isOurs(name)) return plan;
      return new AddConstraint(new UnresolvedTable(name, "ALTER TABLE ... ADD CONSTRAINT", true), asText(statement.checkConstraint()));
    }

    /** The condition as text only, where there is a query in it: nobody would analyse that, and Python refuses it. */
    private static CheckConstraint asText(CheckConstraint constraint) {
      if (!SubqueryExpression$.MODULE$.hasSubquery(constraint.child())) return constraint;
      return (CheckConstraint) Cases.changed(constraint, Collections.singletonMap("child", Literal$.MODULE$.TrueLiteral()));
    }

    private boolean isOurs(Seq name) {
      return ((Boolean) Ask.answer(Ask.python.isDelta(session, name.mkString("\u0000")))).booleanValue();
    }
  }

  /** Once a statement is resolved: Spark refuses NOT NULL without a look at the rows, and has texts for partitions where ours have types. */
  public static class Late extends Rule {
    public TreeNode apply(TreeNode tree) {
      LogicalPlan plan = (LogicalPlan) tree;
      if (plan instanceof AlterColumns && tightens((AlterColumns) plan) && defined(((AlterColumns) plan).table()) != null)
        return Command.of("Delta ALTER COLUMN", plan, Collections.emptyList());
      if (plan instanceof ShowPartitions && plan.resolved()) {
        ShowPartitions shown = (ShowPartitions) plan;
        DefinedTable table = defined(shown.table());
        if (table != null) {
          Seq columns = DataTypeUtils.toAttributes(table.partitionSchema());
          return Command.of("Delta SHOW PARTITIONS", shown.copy(shown.table(), shown.pattern(), columns), Collections.emptyList());
        }
      }
      return tree;
    }

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
