package delta.cache;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.DataFormatException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The cache of a JVM in one folder: what its threads fetch together, and what is done when the folder fails. What streams ask here throws
 * nothing: what the cache cannot do, the storage does, and one warning says why. Python's counterpart is {@code storage.cache.block_cache}.
 */
class Blocks {
  private static final Logger LOG = LoggerFactory.getLogger("tahoe");
  private static final Map OPEN = new HashMap();
  private static final long PAUSE_MS = 30000;
  private static final String[] QUEUES = { Eviction.MAIN, Eviction.SMALL };

  private final String path;
  private final boolean compresses;
  private final long bytesMax;
  private final ConcurrentHashMap fetches = new ConcurrentHashMap();
  private final Set warned = new HashSet();
  private volatile CacheFolder opened;
  private volatile long pausedUntil;

  private Blocks(String path, long bytesMax, boolean compresses) {
    this.path = path;
    this.compresses = compresses;
    this.bytesMax = bytesMax;
  }

  static synchronized Blocks of(String path, long bytesMax, boolean compresses) {
    String key = path + "\u0000" + bytesMax + "\u0000" + compresses;
    Blocks open = (Blocks) OPEN.get(key);
    if (open == null) {
      open = new Blocks(path, bytesMax, compresses);
      OPEN.put(key, open);
    }
    return open;
  }

  /** The folder. A JVM in another locale may not be able to name it. */
  private CacheFolder folder() {
    if (opened == null) opened = new CacheFolder(Paths.get(path, new String[0]), bytesMax);
    return opened;
  }

  /** A block of a file; null if it is not here. */
  Block read(RemoteFile file, long number) {
    try {
      String name = file.name(number);
      for (int i = 0; i < QUEUES.length; i++) {
        byte[] data = folder().load(QUEUES[i], name);
        Block block = data == null ? null : decoded(QUEUES[i], name, data, file);
        if (block != null && block.length == file.length(number)) return block;
      }
    } catch (Exception error) {
      warn("cannot be read", error);
    }
    return null;
  }

  private Block decoded(String queue, String name, byte[] data, RemoteFile file) throws IOException {
    try {
      return BlockFile.decode(name, data, file);
    } catch (DataFormatException damaged) {
      warn("damaged", "the block " + folder().block(queue, name) + " was damaged, and is read from the storage again");
      Files.deleteIfExists(folder().block(queue, name));
      return null;
    }
  }

  /** Keeps a block, if there is room for it. */
  void write(RemoteFile file, long number, Block block) {
    if (System.currentTimeMillis() < pausedUntil) return;
    try {
      String name = file.name(number);
      folder().write(name, BlockFile.encode(name, file, block, compresses));
    } catch (Exception error) {
      pausedUntil = System.currentTimeMillis() + PAUSE_MS;
      shrinkIfFull(error);
      warn("cannot be written to", error);
    }
  }

  /** The disk may be out of files, or over a quota. */
  private void shrinkIfFull(Exception error) {
    String message = String.valueOf(error.getMessage());
    if (!message.contains("No space left") && !message.contains("quota")) return;
    try {
      folder().shrink();
    } catch (IOException also) {
      return;
    }
  }

  /** Claims the fetch of a block; returns that of another thread, if it is being fetched. */
  CompletableFuture claimed(RemoteFile file, long number, CompletableFuture ours) {
    return (CompletableFuture) fetches.putIfAbsent(key(file, number), ours);
  }

  void fetched(RemoteFile file, long number, CompletableFuture ours) { fetches.remove(key(file, number), ours); }

  private static String key(RemoteFile file, long number) { return file.name(number) + " " + file.identity(); }

  private void warn(String what, Exception error) {
    boolean namesFile = error instanceof FileSystemException;
    warn(error.getClass() + " " + (namesFile ? ((FileSystemException) error).getReason() : error.getMessage()), "it " + what + ": " + error);
  }

  /** Says once what happened; what is of the same kind follows silently. */
  private void warn(String kind, String detail) {
    synchronized (warned) {
      if (!warned.add(kind)) return;
    }
    LOG.warn("the local cache in " + path + ": " + detail + ". Reading goes on from the storage; this is said once.");
  }
}
