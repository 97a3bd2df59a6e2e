package logs;

import io.delta.storage.CloseableIterator;
import io.delta.storage.LogStore;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Keeps what it writes in a folder of its own, `logs.folder`, so that whoever does not ask it finds no commit. Its listing has what it keeps,
 * and the Parquet files of the log; of each file twice, and in the wrong order, if `logs.twice` is set.
 */
public class ElsewhereLogStore extends LogStore {
  /** How writes of commits fail: "before" or "after" they have written; empty if they succeed. */
  public static volatile String fault = "";

  /** Whether a partial write is visible. */
  public static volatile boolean partial = false;

  /** What was asked: the method and the file's name. */
  private static final List calls = Collections.synchronizedList(new ArrayList());

  /** How many write at once, and the most that ever did. */
  public static final AtomicInteger writing = new AtomicInteger();
  public static final AtomicInteger most = new AtomicInteger();

  /** How many iterators were opened, and not closed. */
  public static final AtomicInteger open = new AtomicInteger();

  public ElsewhereLogStore(Configuration hadoop) {
    super(hadoop);
    if (hadoop.get("logs.folder") == null) throw new IllegalStateException("logs.folder is not set");
  }

  /** What was asked since the last time, each ended by a line feed; counts how many write at once anew. */
  public static synchronized String asked() {
    most.set(0);
    StringBuilder asked = new StringBuilder();
    while (!calls.isEmpty()) asked.append((String) calls.remove(0)).append('\n');
    return asked.toString();
  }

  private static File kept(Path path, Configuration hadoop) {
    return new File(hadoop.get("logs.folder"), path.toUri().getPath().substring(1));
  }

  public CloseableIterator read(Path path, Configuration hadoop) throws IOException {
    calls.add("read " + path.getName());
    File file = kept(path, hadoop);
    if (!file.exists()) throw new FileNotFoundException(path.toString());
    return new Lines(Files.readAllLines(file.toPath(), StandardCharsets.UTF_8).iterator());
  }

  public static class Lines implements CloseableIterator {
    private final Iterator lines;
    private boolean closed;

    public Lines(Iterator lines) {
      this.lines = lines;
      open.incrementAndGet();
    }

    public boolean hasNext() { return lines.hasNext(); }

    public Object next() { return lines.next(); }

    public void remove() { throw new UnsupportedOperationException(); }

    public void close() {
      if (!closed) open.decrementAndGet();
      closed = true;
    }
  }

  public void write(Path path, Iterator lines, Boolean overwrite, Configuration hadoop) throws IOException {
    calls.add((overwrite.booleanValue() ? "replace " : "write ") + path.getName());
    int now = writing.incrementAndGet();
    if (now > most.get()) most.set(now);
    try {
      Thread.sleep(20);
      String wrong = path.getName().endsWith(".json") ? fault : "";
      if (wrong.equals("before")) throw new IOException("the network is down");
      if (wrong.equals("often")) throw new IllegalStateException("try again later");
      File target = kept(path, hadoop);
      target.getParentFile().mkdirs();
      StringBuilder content = new StringBuilder();
      while (lines.hasNext()) content.append((String) lines.next()).append('\n');
      File temporary = new File(target.getParentFile(), "." + UUID.randomUUID() + ".tmp");
      Files.write(temporary.toPath(), content.toString().getBytes(StandardCharsets.UTF_8));
      if (overwrite.booleanValue()) {
        Files.move(temporary.toPath(), target.toPath(), new StandardCopyOption[] { StandardCopyOption.REPLACE_EXISTING });
      } else {
        try {
          Files.createLink(target.toPath(), temporary.toPath());
        } catch (FileAlreadyExistsException there) {
          throw new FileAlreadyExistsException(path.toString());
        } finally {
          temporary.delete();
        }
      }
      if (wrong.equals("after")) throw new IOException("the answer was lost");
    } catch (InterruptedException error) {
      throw new IOException(error);
    } finally {
      writing.decrementAndGet();
    }
  }

  public Iterator listFrom(Path path, Configuration hadoop) throws IOException {
    calls.add("list " + path.getName());
    List found = new ArrayList();
    File folder = kept(path, hadoop).getParentFile();
    File[] files = folder.listFiles();
    for (int i = 0; files != null && i < files.length; i++) {
      Path file = new Path(path.getParent(), files[i].getName());
      if (files[i].getName().compareTo(path.getName()) >= 0) {
        found.add(new FileStatus(files[i].length(), false, 1, 1, files[i].lastModified(), file));
      }
    }
    FileStatus[] others = new FileStatus[0];
    try {
      others = path.getFileSystem(hadoop).listStatus(path.getParent());
    } catch (FileNotFoundException missing) {
      if (found.isEmpty()) throw missing;
    }
    for (int i = 0; i < others.length; i++) {
      String name = others[i].getPath().getName();
      if ((others[i].isDirectory() || name.endsWith(".parquet")) && name.compareTo(path.getName()) >= 0) found.add(others[i]);
    }
    Collections.sort(found);
    if (hadoop.get("logs.twice") != null) {
      found.addAll(new ArrayList(found));
      Collections.reverse(found);
    }
    return found.iterator();
  }

  public Path resolvePathOnPhysicalStorage(Path path, Configuration hadoop) { return path; }

  public Boolean isPartialWriteVisible(Path path, Configuration hadoop) { return Boolean.valueOf(partial); }
}
