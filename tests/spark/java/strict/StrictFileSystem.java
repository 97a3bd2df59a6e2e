package strict;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.security.AccessControlException;

/** A Hadoop file system on the local disk, {@code strict:///}. Its rename overwrites only if asked to, as in HDFS, and fails on demand. */
public class StrictFileSystem extends RawLocalFileSystem {
  /** How renames fail: "before" or "after" they have renamed, "denied" for a definite refusal; empty if they succeed. */
  public static volatile String fault = "";

  /** How often somebody asked whether a folder {@code _delta_log} exists. */
  public static volatile int looks = 0;

  public String getScheme() { return "strict"; }
  public URI getUri() { return URI.create("strict:///"); }

  public boolean exists(Path path) throws IOException {
    if (path.getName().equals("_delta_log")) looks++;
    return super.exists(path);
  }

  protected void rename(Path from, Path to, Options.Rename[] options) throws IOException {
    if (fault.equals("before")) throw new IOException("the network is down");
    if (fault.equals("denied")) throw new AccessControlException("you may not");
    java.nio.file.Path source = pathToFile(from).toPath();
    java.nio.file.Path target = pathToFile(to).toPath();
    if (options.length > 0 && options[0] == Options.Rename.OVERWRITE) {
      source.toFile().renameTo(target.toFile());
      return;
    }
    try {
      Files.createLink(target, source);
    } catch (java.nio.file.FileAlreadyExistsException there) {
      throw new FileAlreadyExistsException(to.toString());
    }
    Files.delete(source);
    if (fault.equals("after")) throw new IOException("the answer was lost");
  }
}
