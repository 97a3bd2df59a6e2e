package delta;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What streams were when Spark analysed them. Spark asks for the schema of a stream when its DataFrame is created, and for its source when a
 * query starts, perhaps after the table has changed; it passes the same options, one object, to both.
 */
class Analysed {
  private static final Map KNOWN = new ConcurrentHashMap();
  private static final ReferenceQueue GONE = new ReferenceQueue();

  static void keep(Object options, String told) {
    for (Object gone = GONE.poll(); gone != null; gone = GONE.poll()) KNOWN.remove(gone);
    KNOWN.put(new Same(options), told);
  }

  /** What was kept for these options; null if nothing was. */
  static String of(Object options) { return (String) KNOWN.get(new Same(options)); }

  /** An object as a key by its identity, which does not keep the object alive. */
  private static class Same extends WeakReference {
    private final int hash;

    Same(Object object) {
      super(object, GONE);
      hash = System.identityHashCode(object);
    }

    public int hashCode() { return hash; }

    public boolean equals(Object other) { return this == other || (other instanceof Same && get() != null && get() == ((Same) other).get()); }
  }
}
