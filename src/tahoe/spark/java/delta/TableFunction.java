package delta;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import scala.Option;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A function in Spark's registry of table functions, such as table_changes or delta_files. Spark calls it with resolved arguments, and puts the returned
 * plan in its place. Inside a view it passes the catalog and database in which the view was made. It is Java because the registry holds
 * Scala functions. Python: {@code table_functions.rows_of}.
 */
public class TableFunction extends AbstractFunction1 {
  private final String name;

  public TableFunction(String name) { this.name = name; }

  public Object apply(Object arguments) {
    String home = AnalysisContext.get().catalogAndNamespace().mkString("\u0000");
    Dataset rows = (Dataset) Ask.answer(Ask.python.rowsOf(SparkSession.active(), name, home, (Seq) arguments));
    return rows.queryExecution().analyzed();
  }

  /**
   * Registers the function in the session and in sessions created from it. It is registered through the extensions, because the identifier
   * in the registry differs between Spark versions.
   */
  public void install(org.apache.spark.sql.classic.SparkSession session) {
    ExpressionInfo info = new ExpressionInfo(TableFunction.class.getName(), name);
    session.extensions().injectTableFunction(new Tuple3(new FunctionIdentifier(name, Option.empty()), info, this));
    session.extensions().registerTableFunctions(session.sessionState().tableFunctionRegistry());
  }

  public static boolean installed(org.apache.spark.sql.classic.SparkSession session, String name) {
    for (Iterator it = session.sessionState().tableFunctionRegistry().listFunction().iterator(); it.hasNext(); ) {
      if (((FunctionIdentifier) it.next()).funcName().equals(name)) return true;
    }
    return false;
  }
}
