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
 * A Log4j filter that removes Spark's stack traces from the driver's log if a row or a statement was refused, because the user gets an
 * error that says the same. Other failures are logged as usual. It calls no Python.
 */
public class Quiet extends AbstractFilter {
  /** The loggers that log a failed job with its stack trace. Failed streams have another logger, which is not filtered. */
  private static final Set TELLERS = new HashSet(Arrays.asList(new String[] {
      "org.apache.spark.executor.Executor", "org.apache.spark.scheduler.TaskSetManager", "org.apache.spark.util.Utils",
      "org.apache.spark.sql.execution.datasources.FileFormatWriter" }));

  private static final int CAUSES_MAX = 20;
  private static LoggerConfig quiet;

  private final String refused;

  private Quiet(String refused) { this.refused = refused; }

  /** Adds the filter to the root logger, once. {@code refused} is the text with which the message of every refused row begins. */
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
