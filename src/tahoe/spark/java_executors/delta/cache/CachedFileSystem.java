package delta.cache;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;

/**
 * A file system that reads files through the local cache of a machine. {@code delta.LocalCache} puts it into the configuration of a scan, in
 * the place of the one of the scheme, and says there what it needs. The url of a file stays what it is.
 *
 * <p>Each time a file is opened, its storage is asked for its size and ETag, with the credentials of the scan. So nothing stale is read,
 * nor what the storage would refuse. A file without an ETag is read as if there was no cache.
 */
public class CachedFileSystem extends FilterFileSystem {
  static final String SETTINGS = "tahoe.cache.";
  private static final String S3A = FileSystem.class.getPackage().getName() + ".s3a.S3AFileSystem";
  private static final String AZURE = FileSystem.class.getPackage().getName() + ".azurebfs.AzureBlobFileSystem";
  private static final String READ_POLICY = "fs.option.openfile.read.policy";

  /** The configurations with the scheme's own file system, by those of scans. */
  private static final Map ORIGINALS = new WeakHashMap();

  private boolean isShared;
  private boolean refusesOthers;
  private String realm;
  private String counters;
  private Blocks blocks;

  public void initialize(URI name, Configuration scan) throws IOException {
    Configuration original = original(name.getScheme(), scan);
    isShared = !original.getBoolean("fs." + name.getScheme() + ".impl.disable.cache", false);
    fs = FileSystem.get(name, original);
    super.initialize(name, scan);
    refusesOthers = refusesOthers(fs);
    realm = scan.get(SETTINGS + "realm");
    counters = scan.get(SETTINGS + "counters");
    blocks = Blocks.of(scan.get(SETTINGS + "folder"), scan.getLong(SETTINGS + "bytes", 0), scan.getBoolean(SETTINGS + "compresses", false));
  }

  private static Configuration original(String scheme, Configuration scan) {
    synchronized (ORIGINALS) {
      Configuration known = (Configuration) ORIGINALS.get(scan);
      if (known != null) return known;
      Configuration original = new Configuration(scan);
      restore(original, "fs." + scheme + ".impl");
      restore(original, "fs." + scheme + ".impl.disable.cache");
      ORIGINALS.put(scan, original);
      return original;
    }
  }

  private static void restore(Configuration conf, String name) {
    String value = conf.get(SETTINGS + name);
    if (value == null) conf.unset(name);
    else conf.set(name, value);
  }

  /** Whether the storage refuses to read a file that is not any more the one with the ETag for which it was opened. */
  private static boolean refusesOthers(FileSystem system) {
    for (Class type = system.getClass(); type != null; type = type.getSuperclass()) {
      if (type.getName().equals(AZURE)) return true;
      if (type.getName().equals(S3A)) {
        String mode = system.getConf().get("fs.s3a.change.detection.mode", "server");
        return mode.equals("server") || mode.equals("client");
      }
    }
    return false;
  }

  public FutureDataInputStreamBuilder openFile(Path path) { return createDataInputStreamBuilder(this, path); }

  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    OpenFileParameters parameters = new OpenFileParameters();
    parameters.withMandatoryKeys(Collections.emptySet()).withOptionalKeys(Collections.emptySet());
    return opened(path, parameters.withOptions(new Configuration(false)).withBufferSize(bufferSize));
  }

  protected CompletableFuture openFileWithOptions(Path path, OpenFileParameters parameters) throws IOException {
    return CompletableFuture.completedFuture(opened(path, parameters));
  }

  private FSDataInputStream opened(Path path, OpenFileParameters parameters) throws IOException {
    FileStatus told = parameters.getStatus();
    FileStatus status = told != null && !etag(told).isEmpty() ? told : fs.getFileStatus(path);
    OpenFileParameters known = new OpenFileParameters();
    known.withMandatoryKeys(parameters.getMandatoryKeys()).withOptionalKeys(parameters.getOptionalKeys());
    known.withOptions(withPolicy(parameters.getOptions())).withBufferSize(parameters.getBufferSize()).withStatus(status);
    if (etag(status).isEmpty() || status.isDirectory()) return stream(path, parameters.withStatus(status));
    RemoteFile file = new RemoteFile(realm, path.toString(), status.getLen(), status.getModificationTime(), etag(status));
    return new FSDataInputStream(new CachedStream(this, path, known, file, blocks, Counters.of(counters)));
  }

  /** Ranges are read, unless the caller knows better. */
  private static Configuration withPolicy(Configuration options) {
    if (options.get(READ_POLICY) != null) return options;
    Configuration changed = new Configuration(options);
    changed.set(READ_POLICY, "vector, random");
    return changed;
  }

  /** Empty if the storage tells none. */
  private static String etag(FileStatus status) {
    String etag = status instanceof EtagSource ? ((EtagSource) status).getEtag() : null;
    if (etag == null) return "";
    return etag.length() > 1 && etag.startsWith("\"") && etag.endsWith("\"") ? etag.substring(1, etag.length() - 1) : etag;
  }

  /** The storage's own stream. */
  FSDataInputStream stream(Path path, OpenFileParameters parameters) throws IOException {
    return (FSDataInputStream) Waiting.on(super.openFileWithOptions(path, parameters));
  }

  boolean refusesOthers() { return refusesOthers; }

  /** Whether a file is still the one that was opened, so that what was read of it in between is its content. */
  boolean isStill(Path path, RemoteFile file) throws IOException {
    try {
      FileStatus status = fs.getFileStatus(path);
      return status.getLen() == file.size && etag(status).equals(file.etag);
    } catch (FileNotFoundException deleted) {
      return false;
    }
  }

  /** Spark's figure of the bytes that a task has read includes those of the cache. */
  void countCached(long bytes) { statistics.incrementBytesRead(bytes); }

  public void close() throws IOException {
    if (!isShared) fs.close();
  }
}
