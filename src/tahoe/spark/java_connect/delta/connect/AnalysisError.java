package delta.connect;

import delta.PythonError;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Map$;

/** A Python error that clients know as Spark's AnalysisException. */
public class AnalysisError extends AnalysisException {
  private final PythonError told;

  public AnalysisError(PythonError told) {
    super(
        told.getMessage(), Option.empty(), Option.empty(), new Some(told), new Some(told.getCondition()),
        (scala.collection.immutable.Map) Map$.MODULE$.empty(), new QueryContext[0]);
    this.told = told;
  }

  public String getMessage() { return told.getMessage(); }
  public String getCondition() { return told.getCondition(); }
  public String getErrorClass() { return told.getCondition(); }
  public String getSqlState() { return told.getSqlState(); }
  public Map getMessageParameters() { return told.getMessageParameters(); }

  /** Spark would make a copy, which is another class. */
  public AnalysisException withPosition(Origin origin) { return this; }
}
