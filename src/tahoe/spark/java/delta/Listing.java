package delta;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayDeque;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * What is below a folder, in pages: a folder may have more files than fit into memory. HDFS itself lists a folder in parts. What is kept
 * are the folders that are still to be listed.
 */
public class Listing {
  private final FileSystem system;
  private final int entriesMax;
  private final ArrayDeque folders = new ArrayDeque();
  private final ArrayDeque prefixes = new ArrayDeque();
  private Path folder;
  private String prefix;
  private RemoteIterator entries;

  Listing(FileSystem system, Path root, int entriesMax) {
    this.system = system;
    this.entriesMax = entriesMax;
    folders.add(root);
    prefixes.add("");
  }

  /** At most so many files and folders more, as a listing; fewer, or none, only at the end. */
  public synchronized String next() throws IOException {
    StringBuilder found = new StringBuilder();
    for (int count = 0; count < entriesMax; count++) {
      FileStatus entry = entry();
      if (entry == null) return found.toString();
      String name = prefix + entry.getPath().getName();
      if (entry.isFile()) {
        Storage.add(found, name, entry);
      } else if (entry.isDirectory()) {
        Storage.add(found, name + "/", entry);
        folders.addLast(entry.getPath());
        prefixes.addLast(name + "/");
      }
    }
    return found.toString();
  }

  /** The next entry; null at the end. */
  private FileStatus entry() throws IOException {
    while (true) {
      if (entries != null) {
        FileStatus entry = inFolder();
        if (entry != null) return entry;
        entries = null;
      }
      if (folders.isEmpty()) return null;
      folder = (Path) folders.removeLast();
      prefix = (String) prefixes.removeLast();
      try {
        entries = system.listStatusIterator(folder);
      } catch (FileNotFoundException missing) {
        continue;
      }
    }
  }

  /** The next entry of the folder at hand; null if there is none, because it was deleted meanwhile, or because it is a file. */
  private FileStatus inFolder() throws IOException {
    try {
      if (!entries.hasNext()) return null;
    } catch (FileNotFoundException deleted) {
      return null;
    }
    FileStatus entry = (FileStatus) entries.next();
    boolean isItself = entry.isFile() && entry.getPath().toUri().getPath().equals(folder.toUri().getPath());
    return isItself ? null : entry;
  }
}
