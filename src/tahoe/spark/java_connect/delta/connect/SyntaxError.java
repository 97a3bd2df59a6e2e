package delta.connect;

import delta.PythonError;
import java.util.Map;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;
import scala.collection.immutable.Map$;

/** A Python error that clients know as Spark's ParseException. */
public class SyntaxError extends ParseException {
  private final PythonError told;

  public SyntaxError(PythonError told) {
    super(Option.empty(), CurrentOrigin.get(), "PARSE_EMPTY_STATEMENT", (scala.collection.immutable.Map) Map$.MODULE$.empty());
    this.told = told;
  }

  public synchronized Throwable getCause() { return told; }
  public String getMessage() { return told.getMessage(); }
  public String getCondition() { return told.getCondition(); }
  public String getErrorClass() { return told.getCondition(); }
  public String getSqlState() { return told.getSqlState(); }
  public Map getMessageParameters() { return told.getMessageParameters(); }
  public AnalysisException withPosition(Origin origin) { return this; }
}
