package delta;

import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.scheduler.DAGScheduler;
import org.apache.spark.scheduler.DAGSchedulerEvent;
import org.apache.spark.scheduler.DAGSchedulerEventProcessLoop;
import org.apache.spark.scheduler.JobSubmitted;
import org.apache.spark.scheduler.MapStageSubmitted;

/**
 * Replaces the event loop of Spark's {@link DAGScheduler}, observes all events and passes them on to the original loop. Spark cancels only
 * running jobs, and a command between two jobs would go on. So an event that cancels jobs marks the matching commands, see {@link Running},
 * and a job that a marked command submits later is cancelled. It calls no Python.
 */
class Cancellations extends DAGSchedulerEventProcessLoop {
  private final DAGSchedulerEventProcessLoop beneath;
  private final Queue queue = new Queue();

  private Cancellations(DAGScheduler scheduler) {
    super(scheduler);
    beneath = scheduler.eventProcessLoop();
  }

  /** Installs the loop in a scheduler, once. */
  static synchronized void hear(DAGScheduler scheduler) {
    if (!(scheduler.eventProcessLoop() instanceof Cancellations)) scheduler.eventProcessLoop_$eq(new Cancellations(scheduler));
  }

  /**
   * The queue that {@code post} fills. {@code post} itself cannot be overridden: its parameter has a generic type, which javac sees and
   * Janino does not.
   */
  private class Queue extends LinkedBlockingQueue {
    public void put(Object event) {
      Running.hear((DAGSchedulerEvent) event);
      beneath.post((DAGSchedulerEvent) event);
      Properties properties = properties(event);
      Running stopped = properties == null ? null : Running.stopped(properties);
      if (stopped != null) beneath.post(stopped.asEvent());
    }
  }

  public BlockingQueue org$apache$spark$util$EventLoop$$eventQueue() { return queue; }
  public AtomicBoolean org$apache$spark$util$EventLoop$$stopped() { return beneath.org$apache$spark$util$EventLoop$$stopped(); }
  public Thread eventThread() { return beneath.eventThread(); }
  public void start() { }
  public void stop() { beneath.stop(); }

  private static Properties properties(Object event) {
    if (event instanceof JobSubmitted) return ((JobSubmitted) event).properties();
    return event instanceof MapStageSubmitted ? ((MapStageSubmitted) event).properties() : null;
  }
}
