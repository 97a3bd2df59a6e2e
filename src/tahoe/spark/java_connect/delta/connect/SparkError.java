package delta.connect;

import delta.PythonError;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkException;
import scala.Some;
import scala.collection.immutable.Map$;

/** A Python error that clients know as SparkException. */
public class SparkError extends SparkException {
  private final PythonError told;

  public SparkError(PythonError told) {
    super(
        told.getMessage(), told, new Some(told.getCondition()), (scala.collection.immutable.Map) Map$.MODULE$.empty(), new QueryContext[0]);
    this.told = told;
  }

  public String getCondition() { return told.getCondition(); }
  public String getErrorClass() { return told.getCondition(); }
  public String getSqlState() { return told.getSqlState(); }
  public Map getMessageParameters() { return told.getMessageParameters(); }
}
