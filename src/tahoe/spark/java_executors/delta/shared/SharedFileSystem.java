package delta.shared;

import java.io.IOException;
import java.net.URI;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;

/**
 * The file system of a bucket for one scan or write, with the credentials in its configuration. Those with the same credentials share one of
 * a process: Hadoop itself would share one among all credentials, or open one for each file. Python: {@code jvm.handed_credentials}.
 */
public class SharedFileSystem extends FilterFileSystem {
  private static final String SETTINGS = "tahoe.shared.";

  /** So long after its credentials have expired, nothing uses a file system any more. */
  private static final long KEPT_MS = 600000;

  /** By the names of their credentials and their places: what is shared, and when its credentials expire. */
  private static final Map SYSTEMS = new HashMap();
  private static final Map EXPIRES = new HashMap();

  public void initialize(URI place, Configuration scan) throws IOException {
    fs = shared(place, scan);
    super.initialize(place, scan);
  }

  private static FileSystem shared(URI place, Configuration scan) throws IOException {
    String key = scan.get(SETTINGS + "name") + " " + place.getScheme() + "://" + place.getAuthority();
    synchronized (SYSTEMS) {
      closeExpired();
      FileSystem known = (FileSystem) SYSTEMS.get(key);
      if (known != null) return known;
      String implementation = "fs." + place.getScheme() + ".impl";
      Configuration own = new Configuration(scan);
      if (scan.get(SETTINGS + "impl") == null) own.unset(implementation);
      else own.set(implementation, scan.get(SETTINGS + "impl"));
      FileSystem opened = FileSystem.newInstance(place, own);
      SYSTEMS.put(key, opened);
      EXPIRES.put(key, Long.valueOf(scan.getLong(SETTINGS + "expires", Long.MAX_VALUE - KEPT_MS)));
      return opened;
    }
  }

  private static void closeExpired() throws IOException {
    long now = System.currentTimeMillis();
    for (Iterator it = EXPIRES.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry entry = (Map.Entry) it.next();
      if (now < ((Long) entry.getValue()).longValue() + KEPT_MS) continue;
      it.remove();
      ((FileSystem) SYSTEMS.remove(entry.getKey())).close();
    }
  }

  /** How many are open in this process. */
  public static int opened() {
    synchronized (SYSTEMS) {
      return SYSTEMS.size();
    }
  }

  /** Others share it. */
  public void close() {}
}
