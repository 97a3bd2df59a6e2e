package delta;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/**
 * Lets one scan read its files through the local cache of the machine on which each task runs. The settings, in the scan's configuration
 * alone, replace the file system of a scheme by {@code cache.CachedFileSystem}, which is sent to executors as a JAR. Python:
 * {@code jvm.executor_cache}.
 */
public class LocalCache {
  private static final String SETTINGS = "tahoe.cache.";
  private static final String[] NAMES = {
    "blocks from the local cache", "blocks not in the local cache", "bytes from the local cache", "bytes from the storage"
  };
  private static final Map TOTALS = new HashMap();

  /** The accumulators of scans, by their configurations. */
  private static final Map READING = Collections.synchronizedMap(new WeakHashMap());

  private final String system;
  private final String scheme;
  private final String folder;
  private final long bytesMax;
  private final boolean compresses;
  private final String realm;
  private final String jar;
  private LongAccumulator[] counters;

  /**
   * @param system the class of the file system
   * @param scheme of the table's url
   * @param realm names the endpoint and the credentials
   * @param jar the path of the JAR with the file system
   */
  public LocalCache(String system, String scheme, String folder, long bytesMax, boolean compresses, String realm, String jar) {
    this.system = system;
    this.scheme = scheme;
    this.folder = folder;
    this.bytesMax = bytesMax;
    this.compresses = compresses;
    this.realm = realm;
    this.jar = jar;
  }

  /** For EXPLAIN, which cuts long texts off. */
  public String toString() { return "through the local cache"; }

  /** Puts the cache into the configuration of a scan, and the JAR into its context. The thread is the one that starts the scan's jobs. */
  void install(SparkContext context, Configuration scan) {
    String[] replaced = { "fs." + scheme + ".impl", "fs." + scheme + ".impl.disable.cache" };
    for (int i = 0; i < replaced.length; i++) {
      String value = scan.get(replaced[i]);
      if (value != null) scan.set(SETTINGS + replaced[i], value);
    }
    scan.set(replaced[0], system);
    scan.set(replaced[1], "true");
    scan.set(SETTINGS + "folder", folder);
    scan.setLong(SETTINGS + "bytes", bytesMax);
    scan.setBoolean(SETTINGS + "compresses", compresses);
    scan.set(SETTINGS + "realm", realm);
    scan.set(SETTINGS + "counters", serialized(counters(context)));
    READING.put(scan, counters);
    ExecutorJar.send(context, jar);
  }

  /**
   * The accumulators of the scan. Spark itself holds them weakly. They live as long as the file format that has this object, or as the scan's
   * configuration: that of a job goes on when the DataFrame is dropped.
   */
  private synchronized LongAccumulator[] counters(SparkContext context) {
    if (counters != null) return counters;
    AtomicLong[] totals = totals(folder);
    LongAccumulator[] made = new LongAccumulator[NAMES.length];
    for (int i = 0; i < made.length; i++) {
      made[i] = new Counter(totals[i]);
      context.register(made[i], NAMES[i]);
    }
    counters = made;
    return made;
  }

  private static String serialized(Object object) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      ObjectOutputStream out = new ObjectOutputStream(bytes);
      out.writeObject(object);
      out.close();
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    return Base64.getEncoder().encodeToString(bytes.toByteArray());
  }

  private static synchronized AtomicLong[] totals(String folder) {
    AtomicLong[] totals = (AtomicLong[]) TOTALS.get(folder);
    if (totals == null) {
      totals = new AtomicLong[NAMES.length];
      for (int i = 0; i < totals.length; i++) totals[i] = new AtomicLong();
      TOTALS.put(folder, totals);
    }
    return totals;
  }

  /** What tasks have read through the caches in folders of this path: hits, misses, bytes from them and from storages. */
  public static String metrics(String folder) {
    AtomicLong[] totals = totals(folder);
    return totals[0] + " " + totals[1] + " " + totals[2] + " " + totals[3];
  }
}
