package delta.cache;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.util.LongAccumulator;

/** What a task has read of a scan through the cache. The driver has put the accumulators into the scan's configuration, serialized. */
class Counters {
  static final int HITS = 0;
  static final int MISSES = 1;
  static final int CACHED_BYTES = 2;
  static final int FETCHED_BYTES = 3;
  private static final Counters NONE = new Counters(null);
  private static final Map TASKS = new WeakHashMap();

  private final Object[] accumulators;

  private Counters(Object[] accumulators) { this.accumulators = accumulators; }

  /** Those of the task of this thread. An accumulator that is deserialized in a task belongs to it. */
  static synchronized Counters of(String serialized) throws IOException {
    TaskContext task = TaskContext.get();
    if (task == null || serialized == null) return NONE;
    Map scans = (Map) TASKS.get(task);
    if (scans == null) {
      scans = new HashMap();
      TASKS.put(task, scans);
    }
    Counters counters = (Counters) scans.get(serialized);
    if (counters == null) {
      counters = new Counters(deserialized(serialized));
      scans.put(serialized, counters);
    }
    return counters;
  }

  private static Object[] deserialized(String text) throws IOException {
    ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(Base64.getDecoder().decode(text)));
    try {
      return (Object[]) in.readObject();
    } catch (ClassNotFoundException impossible) {
      throw new IOException(impossible);
    } finally {
      in.close();
    }
  }

  synchronized void add(int which, long count) {
    if (accumulators != null && count != 0) ((LongAccumulator) accumulators[which]).add(count);
  }
}
