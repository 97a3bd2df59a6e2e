package etags;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.security.AccessControlException;

/** A Hadoop file system {@code etag://lake/} on the local disk, whose files have ETags as those of an object store. It counts what is read. */
public class EtagFileSystem extends RawLocalFileSystem {
  public static final AtomicLong BYTES = new AtomicLong();
  public static final AtomicLong READS = new AtomicLong();
  public static final AtomicLong STATUSES = new AtomicLong();

  /**
   * What it does otherwise: "denied" refuses everything, "untagged" tells no ETags, "replaced" replaces a file while it is read; else empty.
   */
  public static volatile String fault = "";

  /** How long each read of a file takes: {@code fs.etag.delay.ms}. */
  public static volatile long delayMs = 0;

  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    delayMs = conf.getLong("fs.etag.delay.ms", 0);
  }

  public String getScheme() { return "etag"; }
  public URI getUri() { return URI.create("etag://lake/"); }

  public FileStatus getFileStatus(Path path) throws IOException {
    STATUSES.incrementAndGet();
    check();
    FileStatus status = super.getFileStatus(path);
    return fault.equals("untagged") || status.isDirectory() ? status : new Tagged(status, tag(path));
  }

  private String tag(Path path) throws IOException {
    Object inode = Files.getAttribute(pathToFile(path).toPath(), "unix:ino", new LinkOption[0]);
    long changed = Files.getLastModifiedTime(pathToFile(path).toPath(), new LinkOption[0]).to(TimeUnit.NANOSECONDS);
    return "\"" + inode + "-" + changed + "\"";
  }

  private static void check() throws IOException {
    if (fault.equals("denied")) throw new AccessControlException("you may not");
  }

  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    check();
    return new FSDataInputStream(new Counted(super.open(path, bufferSize), pathToFile(path)));
  }

  static class Tagged extends FileStatus implements EtagSource {
    private final String etag;

    Tagged(FileStatus status, String etag) {
      super(status.getLen(), false, 1, status.getBlockSize(), status.getModificationTime(), status.getPath());
      this.etag = etag;
    }

    public String getEtag() { return etag; }
  }

  static class Counted extends FSInputStream {
    private final FSDataInputStream inner;
    private final File file;

    Counted(FSDataInputStream inner, File file) {
      this.inner = inner;
      this.file = file;
    }

    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
    }

    public int read(byte[] buffer, int offset, int length) throws IOException {
      READS.incrementAndGet();
      if (delayMs > 0) {
        try {
          Thread.sleep(delayMs);
        } catch (InterruptedException interrupt) {
          throw new FileNotFoundException("interrupted");
        }
      }
      int count = inner.read(buffer, offset, length);
      if (count > 0) BYTES.addAndGet(count);
      if (fault.equals("replaced")) file.setLastModified(file.lastModified() + 1000);
      return count;
    }

    public void seek(long to) throws IOException { inner.seek(to); }
    public long getPos() throws IOException { return inner.getPos(); }
    public boolean seekToNewSource(long to) { return false; }
    public void close() throws IOException { inner.close(); }
  }
}
