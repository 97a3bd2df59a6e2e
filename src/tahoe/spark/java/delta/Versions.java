package delta;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import scala.Option;

/**
 * Which version of each table the query in hand reads, so that it reads one however often it names the table. A query is known by its
 * tracker, which is there for its subqueries too; where an action has planned a query before under the same tracker, it starts anew.
 */
public class Versions {
  private static final Map QUERIES = new WeakHashMap();

  private final Option planned;
  private final Map versions = new HashMap();

  private Versions(Option planned) { this.planned = planned; }

  /** The version that the query has met or that the reader is pinned to, or -1. */
  public static long seen(Files files) {
    if (files.pinned()) return files.version();
    Map versions = ofQuery();
    Object version = versions == null ? null : versions.get(files.table());
    return version == null ? -1 : ((Long) version).longValue();
  }

  public static void see(Files files, long version) {
    Map versions = ofQuery();
    if (!files.pinned() && versions != null) versions.put(files.table(), Long.valueOf(version));
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
