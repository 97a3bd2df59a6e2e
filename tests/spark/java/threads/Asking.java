package threads;

import org.apache.spark.sql.Dataset;

/** Threads of the JVM that plan queries, as those of a server, of a stream or of a broadcast do. */
public class Asking {
  private Asking() { }

  /** Plan a query in so many threads, of which each is new: so many of them at a time. */
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
