package delta;

import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over plans: replaces Spark's {@code RelationChanges} of a Delta table, which Spark has since 4.2, with the rows of its
 * change data feed. Python: {@code changes_clause.rows_of}.
 */
class ChangesClause extends AbstractPartialFunction {
  private final SparkSession session;

  ChangesClause(SparkSession session) { this.session = session; }

  /** Whether a plan has such a node. */
  static boolean isIn(LogicalPlan plan) {
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      if (isOne(leaves.next())) return true;
    }
    return false;
  }

  private static boolean isOne(Object node) { return node.getClass().getName().equals("org.apache.spark.sql.catalyst.analysis.RelationChanges"); }

  public boolean isDefinedAt(Object node) { return isOne(node); }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isOne(node)) return otherwise.apply(node);
    String home = AnalysisContext.get().catalogAndNamespace().mkString("\u0000");
    Object rows = Ask.answer(Ask.python.changesClause(session, home, (LogicalPlan) node));
    return rows == null ? node : ((Dataset) rows).logicalPlan();
  }
}
