package delta;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** A function whose rows Python plans, such as table_changes: Spark calls it with its arguments resolved, and reads what it answers. */
public class TableFunction extends AbstractFunction1 {
  private final String name;

  public TableFunction(String name) { this.name = name; }

  public Object apply(Object arguments) {
    Dataset rows = (Dataset) Ask.answer(Ask.python.rowsOf(SparkSession.active(), name, (Seq) arguments));
    return rows.queryExecution().analyzed();
  }

  private FunctionIdentifier identifier() { return new FunctionIdentifier(name, Option.empty()); }
  private ExpressionInfo info() { return new ExpressionInfo(TableFunction.class.getName(), name); }

  /** Makes a running session know it, and those that are made from it. */
  public void install(org.apache.spark.sql.classic.SparkSession session) {
    session.sessionState().tableFunctionRegistry().registerFunction(identifier(), info(), this);
    session.extensions().injectTableFunction(new Tuple3(identifier(), info(), this));
  }

  public static boolean installed(org.apache.spark.sql.classic.SparkSession session, String name) {
    return session.sessionState().tableFunctionRegistry().functionExists(new FunctionIdentifier(name, Option.empty()));
  }
}
