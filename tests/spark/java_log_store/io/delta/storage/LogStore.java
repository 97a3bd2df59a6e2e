package io.delta.storage;

import java.io.IOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The methods that a class has by which the reference commits; tests/interop has the reference's own declaration. */
public abstract class LogStore {
  public LogStore(Configuration hadoop) {}

  public abstract CloseableIterator read(Path path, Configuration hadoop) throws IOException;

  public abstract void write(Path path, Iterator lines, Boolean overwrite, Configuration hadoop) throws IOException;

  public abstract Iterator listFrom(Path path, Configuration hadoop) throws IOException;

  public abstract Path resolvePathOnPhysicalStorage(Path path, Configuration hadoop) throws IOException;

  public abstract Boolean isPartialWriteVisible(Path path, Configuration hadoop) throws IOException;
}
