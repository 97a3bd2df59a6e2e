package delta;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import scala.Option;

/**
 * A Hadoop file system for Python: paths and listings are strings, and each request is one call. Reads use FileSystem, as Spark does.
 * Writes use FileContext, because only its rename reports that the target exists.
 */
public class Storage {
  private static final int OPEN_MAX = 64;
  private static final Map OPEN = new HashMap();
  private static Configuration base;

  private final String scheme;
  private final String authority;
  private final Configuration hadoop;
  private FileContext context;

  private Storage(String scheme, String authority, Configuration hadoop) {
    this.scheme = scheme;
    this.authority = authority;
    this.hadoop = hadoop;
  }

  /**
   * The file system of a url's scheme and authority. The object is kept, because each FileContext opens a client of its own. It uses the
   * Hadoop configuration of the running SparkContext, or else of the last one: post-commit hooks may run after the session was stopped.
   *
   * @param authority may be empty
   * @param settings name, value, name, value, ..., each ended by a zero character; they take precedence over the configuration
   */
  public static synchronized Storage of(String scheme, String authority, String settings) {
    Configuration before = base;
    if (base() != before || OPEN.size() >= OPEN_MAX) OPEN.clear();
    String name = scheme + "://" + authority + "\u0000" + settings;
    Storage known = (Storage) OPEN.get(name);
    if (known != null) return known;
    Storage made = new Storage(scheme, authority.isEmpty() ? null : authority, configured(base, settings));
    OPEN.put(name, made);
    return made;
  }

  /** The Hadoop configuration of the running SparkContext, or else of the last one; null if there was none. */
  static synchronized Configuration base() {
    Option active = SparkContext$.MODULE$.getActive();
    if (!active.isEmpty()) base = ((SparkContext) active.get()).hadoopConfiguration();
    return base;
  }

  /** A copy of a configuration with settings as in {@code of}. */
  static Configuration configured(Configuration base, String settings) {
    Configuration hadoop = base == null ? new Configuration() : new Configuration(base);
    String[] parts = settings.split("\u0000", -1);
    for (int i = 0; i + 1 < parts.length; i += 2) hadoop.set(parts[i], parts[i + 1]);
    return hadoop;
  }

  private Path path(String path) { return new Path(scheme, authority, path.isEmpty() ? "/" : path); }

  private FileSystem system() throws IOException { return path("/").getFileSystem(hadoop); }

  private synchronized FileContext context() throws IOException {
    if (context == null) context = FileContext.getFileContext(path("/").toUri(), hadoop);
    return context;
  }

  // a listing is name, size, time, name, size, time, ..., each ended by a zero character

  /** Lists the files directly in a folder whose names come after a given name, in byte order. */
  public String list(String folder, String after) throws IOException {
    StringBuilder found = new StringBuilder();
    byte[] start = after.getBytes(StandardCharsets.UTF_8);
    FileStatus[] entries = entries(path(folder));
    for (int i = 0; i < entries.length; i++) {
      String name = entries[i].getPath().getName();
      if (entries[i].isFile() && Arrays.compareUnsigned(name.getBytes(StandardCharsets.UTF_8), start) > 0) add(found, name, entries[i]);
    }
    return found.toString();
  }

  /** Lists the files below a folder, at any depth, by their paths relative to it. */
  public String walk(String folder) throws IOException {
    StringBuilder found = new StringBuilder();
    walk(path(folder), "", found);
    return found.toString();
  }

  /** The files and folders below a folder, by their paths from there, in pages; the path of a folder ends with a slash. */
  public Listing tree(String folder, int entriesMax) throws IOException { return new Listing(system(), path(folder), entriesMax); }

  private void walk(Path folder, String prefix, StringBuilder found) throws IOException {
    FileStatus[] entries = entries(folder);
    for (int i = 0; i < entries.length; i++) {
      String name = prefix + entries[i].getPath().getName();
      if (entries[i].isFile()) {
        add(found, name, entries[i]);
      } else if (entries[i].isDirectory()) {
        walk(entries[i].getPath(), name + "/", found);
      }
    }
  }

  /** The entries of a folder; none if it does not exist or is a file. */
  private FileStatus[] entries(Path folder) throws IOException {
    FileStatus[] entries;
    try {
      entries = system().listStatus(folder);
    } catch (FileNotFoundException missing) {
      return new FileStatus[0];
    }
    boolean isFile = entries.length == 1 && entries[0].isFile() && entries[0].getPath().toUri().getPath().equals(folder.toUri().getPath());
    return isFile ? new FileStatus[0] : entries;
  }

  /** A listing with one file; empty if it does not exist. */
  public String status(String path) throws IOException {
    StringBuilder found = new StringBuilder();
    try {
      FileStatus status = system().getFileStatus(path(path));
      if (status.isFile()) add(found, status.getPath().getName(), status);
    } catch (FileNotFoundException missing) {
      return "";
    }
    return found.toString();
  }

  static void add(StringBuilder found, String name, FileStatus status) {
    found.append(name).append('\0').append(status.getLen()).append('\0').append(status.getModificationTime()).append('\0');
  }

  // reading

  public FSDataInputStream open(String path) throws IOException { return system().open(path(path)); }

  public byte[] read(String path) throws IOException {
    FSDataInputStream in = open(path);
    try {
      return in.readAllBytes();
    } finally {
      in.close();
    }
  }

  public byte[] readRange(String path, long start, int length) throws IOException {
    FSDataInputStream in = open(path);
    try {
      return part(in, start, length);
    } finally {
      in.close();
    }
  }

  /** At most {@code length} bytes of an open file. */
  public static byte[] part(FSDataInputStream in, long start, int length) throws IOException {
    try {
      in.seek(start);
    } catch (EOFException afterTheEnd) {
      return new byte[0];
    }
    return in.readNBytes(length);
  }

  // writing

  /** Creates a file, and its folder if necessary. */
  public FSDataOutputStream create(String path) throws IOException {
    return context().create(
        path(path), EnumSet.of(CreateFlag.CREATE), new Options.CreateOpts[] { Options.CreateOpts.createParent() });
  }

  /** Syncs a file to disk and closes it. */
  public static void finish(FSDataOutputStream out) throws IOException {
    if (out.hasCapability("hsync")) out.hsync();
    out.close();
  }

  /** The scheme of the file system that holds a file, behind mounts such as those of viewfs. */
  public String schemeOf(String path) throws IOException { return context().resolvePath(path(path)).toUri().getScheme(); }

  /** Renames a file if the target does not exist. Otherwise deletes the file and returns false. */
  public boolean rename(String from, String to) throws IOException {
    try {
      context().rename(path(from), path(to), new Options.Rename[] { Options.Rename.NONE });
    } catch (FileAlreadyExistsException lost) {
      context().delete(path(from), false);
      return false;
    }
    refresh();
    return true;
  }

  /** Renames a file and replaces the target if it exists. */
  public void replace(String from, String to) throws IOException {
    context().rename(path(from), path(to), new Options.Rename[] { Options.Rename.OVERWRITE });
    refresh();
  }

  /** Lets the client of FileSystem see the change: it may read from a namenode that lags behind. Most file systems do not support this. */
  private void refresh() {
    try {
      system().msync();
    } catch (Exception unsupported) {
      return;
    }
  }

  public void delete(String path) throws IOException { system().delete(path(path), false); }

  /**
   * Delete files.
   *
   * @param paths each ended by a zero character
   * @return path, message, path, message, ..., each ended by a zero character, of those that could not be deleted
   */
  public String deleteAll(String paths) throws IOException {
    FileSystem system = system();
    StringBuilder failed = new StringBuilder();
    String[] parts = paths.split("\u0000", -1);
    for (int i = 0; i + 1 < parts.length; i++) {
      try {
        system.delete(path(parts[i]), false);
      } catch (IOException error) {
        String message = String.valueOf(error.getMessage()).split("\n", 2)[0].replace('\0', ' ');
        failed.append(parts[i]).append('\0').append(error.getClass().getSimpleName()).append(": ").append(message).append('\0');
      }
    }
    return failed.toString();
  }

  /** Remove the folders that are empty. Paths are texts as those of `deleteAll`, and so are those of the folders that were removed. */
  public String removeEmpty(String paths) throws IOException {
    FileSystem system = system();
    StringBuilder removed = new StringBuilder();
    String[] parts = paths.split("\u0000", -1);
    for (int i = 0; i + 1 < parts.length; i++) {
      try {
        if (system.listStatus(path(parts[i])).length == 0 && system.delete(path(parts[i]), false)) removed.append(parts[i]).append('\0');
      } catch (IOException notEmpty) {
        continue;
      }
    }
    return removed.toString();
  }
}
