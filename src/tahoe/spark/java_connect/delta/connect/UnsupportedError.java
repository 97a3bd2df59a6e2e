package delta.connect;

import delta.PythonError;
import java.util.Map;
import org.apache.spark.SparkThrowable;

/** A Python error that clients know as UnsupportedOperationException. */
public class UnsupportedError extends UnsupportedOperationException implements SparkThrowable {
  private final PythonError told;

  public UnsupportedError(PythonError told) {
    super(told.getMessage(), told);
    this.told = told;
  }

  public String getCondition() { return told.getCondition(); }
  public String getErrorClass() { return told.getCondition(); }
  public String getSqlState() { return told.getSqlState(); }
  public Map getMessageParameters() { return told.getMessageParameters(); }
}
