package delta;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * A class of a user that extends {@code io.delta.storage.LogStore}, for Python: paths, lines and listings are strings, and each request is
 * one call. It is called by reflection, because only those who have such a class have {@code io.delta.storage} on the class path.
 */
public class LogStoreAdapter {
  private static final String INTERFACE = "io.delta.storage.LogStore";
  private static final String OF_THE_REFERENCE = "org.apache.spark.sql.delta.storage.LogStore";
  private static final int OPEN_MAX = 64;
  private static final Map OPEN = new HashMap();
  private static final Object[] LOCKS = new Object[64];

  static {
    for (int i = 0; i < LOCKS.length; i++) LOCKS[i] = new Object();
  }

  private final Class found;
  private final Class type;
  private final String settings;
  private Configuration base;
  private Configuration hadoop;
  private Object store;

  private LogStoreAdapter(Class found, String settings) throws ClassNotFoundException {
    this.found = found;
    this.type = Class.forName(INTERFACE, true, found.getClassLoader());
    this.settings = settings;
  }

  /**
   * The adapter of a class. There is one object of the class for the same settings, because it may exclude other writers by its own lock.
   *
   * @param settings name, value, name, value, ..., each ended by a zero character; they take precedence over the Hadoop configuration
   * @throws ClassCastException the class does not extend the interface; names the one that the reference has for itself if it is that
   */
  public static synchronized LogStoreAdapter of(String name, String settings) throws Throwable {
    if (OPEN.size() >= OPEN_MAX) OPEN.clear();
    String key = name + "\u0000" + settings;
    LogStoreAdapter known = (LogStoreAdapter) OPEN.get(key);
    if (known != null) return known;
    Class found = Class.forName(name, true, Thread.currentThread().getContextClassLoader());
    if (isA(found, OF_THE_REFERENCE)) throw new ClassCastException(OF_THE_REFERENCE);
    if (!isA(found, INTERFACE)) throw new ClassCastException(INTERFACE);
    LogStoreAdapter made = new LogStoreAdapter(found, settings);
    made.store();
    OPEN.put(key, made);
    return made;
  }

  private static boolean isA(Class found, String type) {
    try {
      return Class.forName(type, false, found.getClassLoader()).isAssignableFrom(found);
    } catch (ClassNotFoundException missing) {
      return false;
    }
  }

  /** The object of the class: another one for each SparkContext, whose configuration may differ. */
  private synchronized Object store() throws Throwable {
    Configuration current = Storage.base();
    if (store != null && current == base) return store;
    Configuration configured = Storage.configured(current, settings);
    Constructor constructor = found.getConstructor(new Class[] { Configuration.class });
    try {
      store = constructor.newInstance(new Object[] { configured });
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
    base = current;
    hadoop = configured;
    return store;
  }

  private Object call(String method, Class[] types, Object[] arguments) throws Throwable {
    Object called = store();
    Method found = type.getMethod(method, types);
    arguments[arguments.length - 1] = hadoop;
    try {
      return found.invoke(called, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  private Object call(String method, Path path) throws Throwable {
    return call(method, new Class[] { Path.class, Configuration.class }, new Object[] { path, null });
  }

  /** Where a folder is for those who do not ask the class. */
  public String resolve(String path) throws Throwable {
    return call("resolvePathOnPhysicalStorage", new Path(path)).toString();
  }

  /** The files of a folder whose names are at least that of a path, as {@code Storage.list}; none if there is no such folder. */
  public String list(String path) throws Throwable {
    StringBuilder listing = new StringBuilder();
    Iterator files = files(path);
    while (files.hasNext()) {
      FileStatus file = (FileStatus) files.next();
      if (file.isFile()) Storage.add(listing, file.getPath().getName(), file);
    }
    return listing.toString();
  }

  /** A listing with one file; empty if it does not exist. */
  public String status(String path) throws Throwable {
    String name = new Path(path).getName();
    StringBuilder listing = new StringBuilder();
    Iterator files = files(path);
    while (files.hasNext() && listing.length() == 0) {
      FileStatus file = (FileStatus) files.next();
      if (file.isFile() && file.getPath().getName().equals(name)) Storage.add(listing, name, file);
    }
    return listing.toString();
  }

  private Iterator files(String path) throws Throwable {
    try {
      return (Iterator) call("listFrom", new Path(path));
    } catch (FileNotFoundException missing) {
      return Collections.emptyIterator();
    }
  }

  /** The lines of a file, each ended by a line feed, until they have at least so many bytes. */
  public byte[] read(String path, int atLeast) throws Throwable {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    Object lines = call("read", new Path(path));
    try {
      Iterator each = (Iterator) lines;
      while (content.size() < atLeast && each.hasNext()) {
        content.write(((String) each.next()).getBytes(StandardCharsets.UTF_8));
        content.write('\n');
      }
    } catch (UncheckedIOException error) {
      throw error.getCause();
    } finally {
      ((Closeable) lines).close();
    }
    return content.toByteArray();
  }

  /**
   * Writes lines to a file; returns false if it exists and is not to be overwritten. Where a partial write is visible, the writers of a
   * folder wait for each other, as in the reference, whose classes may rely on it.
   */
  public boolean write(String path, byte[] content, boolean overwrite) throws Throwable {
    Path file = new Path(path);
    Boolean partial = (Boolean) call("isPartialWriteVisible", file.getParent());
    Object lock = partial.booleanValue() ? LOCKS[(file.getParent().hashCode() & Integer.MAX_VALUE) % LOCKS.length] : new Object();
    try {
      synchronized (lock) {
        write(file, content, Boolean.valueOf(overwrite));
      }
    } catch (FileAlreadyExistsException there) {
      if (overwrite) throw there;
      return false;
    }
    return true;
  }

  /** A class may expect that the folder is there, because the reference makes it. */
  private void write(Path file, byte[] content, Boolean overwrite) throws Throwable {
    Class[] types = new Class[] { Path.class, Iterator.class, Boolean.class, Configuration.class };
    try {
      call("write", types, new Object[] { file, lines(content), overwrite, null });
    } catch (IOException error) {
      boolean isMissing = error instanceof FileNotFoundException || error instanceof NoSuchFileException;
      if (!isMissing || !isMade(file.getParent())) throw error;
      call("write", types, new Object[] { file, lines(content), overwrite, null });
    }
  }

  private boolean isMade(Path folder) {
    try {
      return folder.getFileSystem(hadoop).mkdirs(folder);
    } catch (IOException unknown) {
      return false;
    }
  }

  /** The lines of a content, whether or not its last one has an end. */
  private static Iterator lines(byte[] content) {
    String text = new String(content, StandardCharsets.UTF_8);
    if (text.isEmpty()) return Collections.emptyIterator();
    String whole = text.endsWith("\n") ? text.substring(0, text.length() - 1) : text;
    return Arrays.asList(whole.split("\n", -1)).iterator();
  }
}
