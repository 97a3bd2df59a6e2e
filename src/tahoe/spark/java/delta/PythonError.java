package delta;

import java.util.Map;
import org.apache.spark.SparkThrowable;

/** An error that Python raised. {@code id} is where Python keeps the original, for the user who called from there. */
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
