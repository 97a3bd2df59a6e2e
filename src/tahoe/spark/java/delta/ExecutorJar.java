package delta;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkContext;
import scala.Option;

/** Sends the JAR with the classes that tasks need to executors, once. Tasks of a local session find them in the driver. */
public class ExecutorJar {
  /** The sessions whose executors get the JAR, by context. */
  private static final Map SENT = new WeakHashMap();

  /** A JAR is that of a session, if the session has classes of its own. The thread is the one that starts the jobs. */
  public static void send(SparkContext context, String jar) {
    if (context.isLocal()) return;
    Option session = JobArtifactSet.getCurrentJobArtifactState();
    synchronized (SENT) {
      Set sessions = (Set) SENT.get(context);
      if (sessions == null) {
        sessions = new HashSet();
        SENT.put(context, sessions);
      }
      String name = session.isEmpty() ? "" : ((JobArtifactState) session.get()).uuid();
      if (sessions.contains(name)) return;
      context.addJar(jar);
      sessions.add(name);
    }
  }
}
