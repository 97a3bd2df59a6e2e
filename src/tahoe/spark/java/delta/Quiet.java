package delta;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.spark.sql.SparkSession;

/**
 * Keeps out of this process's log what Spark says of a job that fails because a row was refused, and of a statement that Python refused: the
 * user is told in a sentence, and the traces say nothing more. Of any other failure nothing is left out.
 */
public class Quiet extends AbstractFilter {
  /** Those who tell of a job that fails, each with a trace. A stream that fails is told by another. */
  private static final Set TELLERS = new HashSet(Arrays.asList(new String[] {
      "org.apache.spark.executor.Executor", "org.apache.spark.scheduler.TaskSetManager", "org.apache.spark.util.Utils",
      "org.apache.spark.sql.execution.datasources.FileFormatWriter" }));

  private static final int CAUSES_MAX = 20;
  private static LoggerConfig quiet;

  private final String refused;

  private Quiet(String refused) { this.refused = refused; }

  /** @param refused with which the message of every refusal begins */
  public static synchronized void install(String refused) {
    Object context = LogManager.getContext(SparkSession.class.getClassLoader(), false);
    if (!(context instanceof LoggerContext)) return;
    LoggerConfig root = ((LoggerContext) context).getConfiguration().getRootLogger();
    if (root == quiet) return;
    root.addFilter(new Quiet(refused));
    quiet = root;
  }

  public Filter.Result filter(LogEvent event) {
    return TELLERS.contains(event.getLoggerName()) && isToldOtherwise(event) ? Filter.Result.DENY : Filter.Result.NEUTRAL;
  }

  private boolean isToldOtherwise(LogEvent event) {
    if (isRefusal(event.getMessage().getFormattedMessage())) return true;
    Throwable thrown = event.getThrown();
    for (int i = 0; thrown != null && i < CAUSES_MAX; i++) {
      if (thrown instanceof PythonError || isRefusal(thrown.getMessage())) return true;
      thrown = thrown.getCause();
    }
    return false;
  }

  private boolean isRefusal(String message) { return message != null && message.indexOf(refused) >= 0; }
}
