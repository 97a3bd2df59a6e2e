package delta;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.AllJobsCancelled$;
import org.apache.spark.scheduler.DAGSchedulerEvent;
import org.apache.spark.scheduler.JobGroupCancelled;
import org.apache.spark.scheduler.JobTagCancelled;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.mutable.Map;

/**
 * A command that runs in a thread, and whether it was cancelled. Its Spark jobs, and no others, have its job tag. It is Java because
 * {@link Cancellations} needs it. {@code jvm.cancellation} creates it for each command; it calls no Python.
 */
public class Running {
  private static final String TAGS = "spark.job.tags";
  private static final String GROUP = "spark.jobGroup.id";
  private static final Set ALL = ConcurrentHashMap.newKeySet();
  private static final AtomicLong COUNT = new AtomicLong();

  private final SparkContext context;
  private final Thread thread = Thread.currentThread();
  private final Properties properties;
  private final Set tagsOfSession = new HashSet();
  final String tag = "tahoe-command-" + COUNT.incrementAndGet();
  private volatile String reason;

  private Running(SparkSession session) {
    context = session.sparkContext();
    context.addJobTag(tag);
    properties = context.getLocalProperties();
    // Spark gives these tags to the jobs of a query, so cancelling one of them cancels the command too
    tagsOfSession.add(session.sessionJobTag());
    scala.collection.Iterator managed = ((Map) session.managedJobTags().get()).values().iterator();
    while (managed.hasNext()) tagsOfSession.add(managed.next());
  }

  /** Begins a command in this thread, and sets its job tag. */
  public static Running begin(SparkSession session) {
    Cancellations.hear(session.sparkContext().dagScheduler());
    Running running = new Running(session);
    ALL.add(running);
    return running;
  }

  /** Ends the command, in the same thread. */
  public void end() {
    ALL.remove(this);
    if (Thread.currentThread() == thread && !context.isStopped()) context.removeJobTag(tag);
  }

  /** The reason for cancellation; null if the command is not cancelled. */
  public String reason() { return reason == null && thread.isInterrupted() ? "its thread was interrupted" : reason; }

  /** Cancels the command and its running jobs. */
  public void cancel(String why) {
    if (reason == null) reason = why;
    if (!context.isStopped()) context.cancelJobsWithTag(tag);
  }

  // events of Spark's scheduler, from Cancellations

  /** Marks the commands that an event cancels. */
  static void hear(DAGSchedulerEvent event) {
    for (Iterator all = ALL.iterator(); all.hasNext(); ) {
      Running running = (Running) all.next();
      if (running.reason == null) running.reason = running.meant(event);
    }
  }

  /** The reason if the event cancels all jobs, or the command's group or one of its tags; else null. */
  private String meant(DAGSchedulerEvent event) {
    if (event == AllJobsCancelled$.MODULE$) return "all jobs were cancelled";
    if (event instanceof JobGroupCancelled) {
      String group = ((JobGroupCancelled) event).groupId();
      boolean isIn = group.equals(properties.getProperty(GROUP));
      return isIn ? because(((JobGroupCancelled) event).reason(), "job group " + group + " was cancelled") : null;
    }
    if (event instanceof JobTagCancelled) {
      String cancelled = ((JobTagCancelled) event).tagName();
      boolean has = tagsOfSession.contains(cancelled) || has(properties, cancelled);
      return has ? because(((JobTagCancelled) event).reason(), "jobs with tag " + cancelled + " were cancelled") : null;
    }
    return null;
  }

  private static String because(Option reason, String otherwise) { return reason.isDefined() ? (String) reason.get() : otherwise; }

  private static boolean has(Properties properties, String tag) {
    String tags = properties == null ? null : properties.getProperty(TAGS);
    return tags != null && ("," + tags + ",").contains("," + tag + ",");
  }

  /** The cancelled command to which a job with these properties belongs; null if there is none. */
  static Running stopped(Properties properties) {
    for (Iterator all = ALL.iterator(); all.hasNext(); ) {
      Running running = (Running) all.next();
      if (running.reason != null && has(properties, running.tag)) return running;
    }
    return null;
  }

  /** The event that cancels the command's jobs. */
  JobTagCancelled asEvent() { return new JobTagCancelled(tag, Option.apply(reason), Option.empty()); }
}
