package delta;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceCurrentLike;
import org.apache.spark.sql.catalyst.optimizer.SpecialDatetimeValues$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: puts in values for the current time, user and catalog, and for words such as 'today', in subqueries
 * too. Spark does so whenever it optimises a query, so that two queries of one statement would have two times. It is Java because the rules
 * are Spark's. Python: {@code touched_rows.at_one_moment}.
 */
public class Moment extends AbstractPartialFunction {
  private final SparkSession session;

  private Moment(SparkSession session) { this.session = session; }

  /** The query with these values; null if it depends on none of them. */
  public static Dataset of(Dataset rows) {
    final org.apache.spark.sql.classic.Dataset dataset = (org.apache.spark.sql.classic.Dataset) rows;
    final LogicalPlan plan = dataset.queryExecution().analyzed();
    final SparkSession session = dataset.sparkSession();
    LogicalPlan now = (LogicalPlan) session.withActive(new AbstractFunction0() {
      public Object apply() { return new Moment(session).now(plan); }
    });
    return now.fastEquals(plan) ? null : Dataset$.MODULE$.ofRows(session, now);
  }

  /** The query, in which each table is read at the version that is the newest now. */
  public static Dataset pinned(Dataset rows) {
    org.apache.spark.sql.classic.Dataset dataset = (org.apache.spark.sql.classic.Dataset) rows;
    LogicalPlan plan = (LogicalPlan) dataset.queryExecution().analyzed().transformDownWithSubqueries(new Statements.Before(null));
    return Dataset$.MODULE$.ofRows(dataset.sparkSession(), plan);
  }

  private LogicalPlan now(LogicalPlan plan) {
    LogicalPlan timed = ComputeCurrentTime$.MODULE$.apply(plan);
    LogicalPlan named = new ReplaceCurrentLike(session.sessionState().catalogManager()).apply(timed);
    return (LogicalPlan) SpecialDatetimeValues$.MODULE$.apply(named).transformAllExpressions(this);
  }

  public boolean isDefinedAt(Object node) { return node instanceof SubqueryExpression; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    SubqueryExpression subquery = (SubqueryExpression) node;
    LogicalPlan plan = (LogicalPlan) subquery.plan();
    LogicalPlan now = now(plan);
    return now.fastEquals(plan) ? node : subquery.withNewPlan(now);
  }
}
