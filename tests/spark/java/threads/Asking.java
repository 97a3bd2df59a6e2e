package threads;

import org.apache.spark.sql.Dataset;

/** Plans a query in new JVM threads, each of which calls Python, as the threads of a server, a stream or a broadcast do. */
public class Asking {
  private Asking() { }

  /** Plans a query once in each of {@code threads} new threads, {@code together} of them at a time. */
  public static void each(final Dataset rows, int threads, int together) throws InterruptedException {
    for (int i = 0; i < threads; i += together) {
      Thread[] running = new Thread[together];
      for (int j = 0; j < together; j++) {
        running[j] = new Thread(new Runnable() { public void run() { rows.limit(1).queryExecution().executedPlan(); } });
        running[j].start();
      }
      for (int j = 0; j < together; j++) running[j].join();
    }
  }
}
