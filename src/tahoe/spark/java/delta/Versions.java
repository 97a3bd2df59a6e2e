package delta;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import scala.Option;

/**
 * The version of each table that the query being planned in this thread reads, so that a query reads one version of a table wherever it
 * names it. A query is identified by Spark's {@link QueryPlanningTracker}, which its subqueries share. If the tracker has recorded another
 * optimization since, the query is being planned again, and its versions are forgotten.
 */
public class Versions {
  private static final Map QUERIES = new WeakHashMap();

  private final Option planned;
  private final Map versions = new HashMap();

  private Versions(Option planned) { this.planned = planned; }

  /** The version that the reader is pinned to or the query already reads; -1 if there is none yet. */
  public static long seen(Files files) {
    if (files.pinned()) return files.version();
    Map versions = ofQuery();
    Object version = versions == null ? null : versions.get(files.table());
    return version == null ? -1 : ((Long) version).longValue();
  }

  /** Records the version with which the query reads a table. */
  public static void see(Files files, long version) {
    Map versions = ofQuery();
    if (!files.pinned() && versions != null) versions.put(files.table(), Long.valueOf(version));
  }

  /** The versions of the tables that a query has read, by their urls; without those whose rows were cached. */
  static Map read(Dataset query) {
    Object tracker = ((org.apache.spark.sql.classic.Dataset) query).queryExecution().tracker();
    synchronized (QUERIES) {
      Versions read = (Versions) QUERIES.get(tracker);
      return read == null ? new HashMap() : new HashMap(read.versions);
    }
  }

  private static Map ofQuery() {
    Option tracker = QueryPlanningTracker.get();
    if (tracker.isEmpty()) return null;
    Option planned = ((QueryPlanningTracker) tracker.get()).phases().get(QueryPlanningTracker.OPTIMIZATION());
    synchronized (QUERIES) {
      Versions query = (Versions) QUERIES.get(tracker.get());
      if (query == null || !query.planned.equals(planned)) {
        query = new Versions(planned);
        QUERIES.put(tracker.get(), query);
      }
      return query.versions;
    }
  }
}
