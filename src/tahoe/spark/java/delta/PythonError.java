package delta;

import java.util.Map;
import org.apache.spark.SparkThrowable;

/**
 * A Python exception on its way through Spark, with the condition, SQLSTATE and parameters of a {@code DeltaError}. Python keeps the
 * original under {@code id}, and raises it for the user ({@code jvm.failures}).
 */
public class PythonError extends RuntimeException implements SparkThrowable {
  private final long id;
  private final String condition;
  private final String state;
  private final Map parameters;

  public PythonError(String message, long id, String condition, String state, Map parameters) {
    super(message);
    this.id = id;
    this.condition = condition;
    this.state = state;
    this.parameters = parameters;
  }

  /** The Python error that an exception is, or wraps for clients of Spark Connect; null for any other exception. */
  static PythonError behind(Throwable thrown) {
    if (thrown instanceof PythonError) return (PythonError) thrown;
    return thrown.getCause() instanceof PythonError ? (PythonError) thrown.getCause() : null;
  }

  public long id() { return id; }
  public String getCondition() { return condition; }
  public String getErrorClass() { return condition; }
  public String getSqlState() { return state; }
  public Map getMessageParameters() { return parameters; }
}
