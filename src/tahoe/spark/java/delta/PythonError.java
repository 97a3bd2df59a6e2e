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

  public long id() { return id; }
  public String getCondition() { return condition; }
  public String getErrorClass() { return condition; }
  public String getSqlState() { return state; }
  public Map getMessageParameters() { return parameters; }
}
