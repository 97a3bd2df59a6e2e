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
 * Hears what Spark's scheduler is told, and passes it on. Spark cancels the jobs that run at the moment: a command that is between two of
 * them would never know. It is told here, and the jobs that it begins afterwards are cancelled too.
 */
class Cancellations extends DAGSchedulerEventProcessLoop {
  private final DAGSchedulerEventProcessLoop beneath;
  private final Queue queue = new Queue();

  private Cancellations(DAGScheduler scheduler) {
    super(scheduler);
    beneath = scheduler.eventProcessLoop();
  }

  /** Let everything that a scheduler is told pass by here. */
  static synchronized void hear(DAGScheduler scheduler) {
    if (!(scheduler.eventProcessLoop() instanceof Cancellations)) scheduler.eventProcessLoop_$eq(new Cancellations(scheduler));
  }

  /** Where `post` puts what the scheduler is told. `post` itself has a type parameter, of which only one of our compilers knows. */
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
