package logs;

import io.delta.storage.CloseableIterator;
import io.delta.storage.LogStore;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Keeps files where they are named, as the reference's own classes do: the folder must exist. It adds the names of the files that it has
 * written to the file `logs.journal`.
 */
public class InPlaceLogStore extends LogStore {
  /** Where the class says that the folder is: with another scheme and authority; "unsupported" if it does not tell. */
  public static volatile String physical = "";

  /** The names of the files that were written. */
  public static volatile String written = "";

  public InPlaceLogStore(Configuration hadoop) { super(hadoop); }

  public CloseableIterator read(Path path, Configuration hadoop) throws IOException {
    FSDataInputStream in = path.getFileSystem(hadoop).open(path);
    try {
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      return new ElsewhereLogStore.Lines(Arrays.asList(text.split("\n")).iterator());
    } finally {
      in.close();
    }
  }

  public synchronized void write(Path path, Iterator lines, Boolean overwrite, Configuration hadoop) throws IOException {
    File target = new File(path.toUri().getPath());
    if (!target.getParentFile().exists()) throw new FileNotFoundException("No such file or directory: " + path.getParent());
    StringBuilder content = new StringBuilder();
    while (lines.hasNext()) content.append(lines.next()).append('\n');
    File temporary = new File(target.getParentFile(), "." + UUID.randomUUID() + ".tmp");
    Files.write(temporary.toPath(), content.toString().getBytes(StandardCharsets.UTF_8), new OpenOption[0]);
    if (overwrite.booleanValue()) {
      Files.move(temporary.toPath(), target.toPath(), new CopyOption[] { StandardCopyOption.REPLACE_EXISTING });
    } else {
      try {
        Files.createLink(target.toPath(), temporary.toPath());
      } finally {
        temporary.delete();
      }
    }
    written += path.getName() + "\n";
    if (hadoop.get("logs.journal") == null) return;
    FileOutputStream journal = new FileOutputStream(hadoop.get("logs.journal"), true);
    journal.write((path.getName() + "\n").getBytes(StandardCharsets.UTF_8));
    journal.close();
  }

  public Iterator listFrom(Path path, Configuration hadoop) throws IOException {
    List found = new ArrayList();
    FileStatus[] files = path.getFileSystem(hadoop).listStatus(path.getParent());
    for (int i = 0; i < files.length; i++) {
      if (files[i].getPath().getName().compareTo(path.getName()) >= 0) found.add(files[i]);
    }
    Collections.sort(found);
    return found.iterator();
  }

  public Path resolvePathOnPhysicalStorage(Path path, Configuration hadoop) throws IOException {
    if (physical.equals("unsupported")) throw new UnsupportedOperationException("resolvePathOnPhysicalStorage");
    return physical.isEmpty() ? path : new Path(physical + path.toUri().getPath());
  }

  public Boolean isPartialWriteVisible(Path path, Configuration hadoop) { return Boolean.TRUE; }
}
