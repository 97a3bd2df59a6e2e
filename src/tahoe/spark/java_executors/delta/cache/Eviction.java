package delta.cache;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Which blocks are deleted when the cache is full, by the rules of Python's {@code storage.cache.eviction}. The lock is one among JVMs: a JVM
 * and a Python process that evict at the same time delete the same blocks first.
 */
class Eviction {
  static final String SMALL = "small";
  static final String MAIN = "main";
  static final String UNFINISHED = "unfinished";
  static final String GHOSTS = "ghosts";
  static final String LOCK = "lock";
  static final long UNFINISHED_SECONDS_MAX = 60;
  private static final double SMALL_SHARE = 0.1;
  private static final double FULL_SHARE = 0.95;
  private static final int GHOST_BYTES = 8;
  private static final int DISK_BYTES = 4096;

  private final Path folder;
  private final ArrayList ghosts = new ArrayList();
  private long small;
  private long main;
  private long stuck;

  private Eviction(Path folder) { this.folder = folder; }

  /** The file of a block, as it is found in its queue. */
  static class Entry {
    final String name;
    Path path;
    final long entered;
    final long size;
    boolean wasRead;

    Entry(Path path, PosixFileAttributes status) {
      this.name = path.getFileName().toString();
      this.path = path;
      this.entered = status.lastModifiedTime().to(TimeUnit.NANOSECONDS);
      this.size = occupied(status.size());
      this.wasRead = status.permissions().contains(PosixFilePermission.OWNER_EXECUTE);
    }
  }

  static class ByTime implements Comparator {
    public int compare(Object one, Object other) { return Long.compare(((Entry) one).entered, ((Entry) other).entered); }
  }

  /** What a file occupies on a disk. */
  static long occupied(long size) { return (size + DISK_BYTES - 1) / DISK_BYTES * DISK_BYTES; }

  static Path block(Path folder, String queue, String name) { return folder.resolve(queue).resolve(name.substring(0, 2)).resolve(name); }

  /**
   * Deletes blocks until the rest fits, with some room for the next.
   *
   * @return what the blocks occupy that are left; -1 if another process is evicting
   */
  static long evict(Path folder, long limit) throws IOException {
    FileChannel channel = FileChannel.open(folder.resolve(LOCK), new OpenOption[] { StandardOpenOption.CREATE, StandardOpenOption.WRITE });
    try {
      FileLock lock = channel.tryLock();
      return lock == null ? -1 : new Eviction(folder).run(limit);
    } catch (OverlappingFileLockException busy) {
      return -1;
    } finally {
      channel.close();
    }
  }

  private long run(long limit) throws IOException {
    deleteUnfinished(folder);
    ArrayDeque inSmall = queue(SMALL);
    ArrayDeque inMain = queue(MAIN);
    small = sum(inSmall);
    main = sum(inMain);
    double target = limit * FULL_SHARE;
    while (small + main + stuck > target && !(inSmall.isEmpty() && inMain.isEmpty())) {
      boolean isSmall = !inSmall.isEmpty() && (small > target * SMALL_SHARE || inMain.isEmpty());
      Entry entry = (Entry) (isSmall ? inSmall : inMain).pollFirst();
      if (isSmall) small -= entry.size;
      else main -= entry.size;
      if (!entry.wasRead) delete(entry, isSmall);
      else if (entersMain(entry, isSmall)) {
        inMain.addLast(entry);
        main += entry.size;
      }
    }
    if (!ghosts.isEmpty()) remember(Math.max(inMain.size(), inSmall.size()));
    return small + main + stuck;
  }

  private void delete(Entry entry, boolean isSmall) {
    try {
      Files.delete(entry.path);
      if (isSmall) ghosts.add(entry.name);
    } catch (NoSuchFileException other) {
      return;
    } catch (IOException error) {
      stuck += entry.size;
    }
  }

  /** Moves a block to the end of {@code main}, as one that was not read there; false if it is not there any more or cannot be moved. */
  private boolean entersMain(Entry entry, boolean isSmall) {
    try {
      Files.setPosixFilePermissions(entry.path, CacheFolder.UNREAD);
      Files.setLastModifiedTime(entry.path, FileTime.fromMillis(System.currentTimeMillis()));
      if (isSmall) {
        Path to = block(folder, MAIN, entry.name);
        new File(to.getParent().toString()).mkdir();
        Files.move(entry.path, to, new StandardCopyOption[] { StandardCopyOption.ATOMIC_MOVE });
        entry.path = to;
      }
      entry.wasRead = false;
    } catch (NoSuchFileException other) {
      return false;
    } catch (IOException error) {
      stuck += entry.size;
      return false;
    }
    return true;
  }

  private ArrayDeque queue(String queue) {
    List entries = entries(folder, queue);
    Collections.sort(entries, new ByTime());
    return new ArrayDeque(entries);
  }

  static long sum(Collection entries) {
    long sum = 0;
    for (Iterator it = entries.iterator(); it.hasNext(); ) sum += ((Entry) it.next()).size;
    return sum;
  }

  /** The blocks of a queue, in no order. */
  static List entries(Path folder, String queue) {
    ArrayList entries = new ArrayList();
    File[] parts = listed(folder.resolve(queue));
    for (int i = 0; i < parts.length; i++) {
      File[] files = listed(parts[i].toPath());
      for (int j = 0; j < files.length; j++) {
        String name = files[j].getName();
        if (!name.matches("[0-9a-f]{40}") || !name.startsWith(parts[i].getName())) continue;
        try {
          PosixFileAttributes status = CacheFolder.status(files[j].toPath());
          if (status.isRegularFile()) entries.add(new Entry(files[j].toPath(), status));
        } catch (IOException gone) {
          continue;
        }
      }
    }
    return entries;
  }

  /** Deletes what writers that were stopped have left. */
  static void deleteUnfinished(Path folder) {
    File[] files = listed(folder.resolve(UNFINISHED));
    for (int i = 0; i < files.length; i++) {
      long age = Math.abs(System.currentTimeMillis() - files[i].lastModified());
      if (files[i].getName().matches("[0-9a-f]{32}") && age >= UNFINISHED_SECONDS_MAX * 1000) files[i].delete();
    }
  }

  private static File[] listed(Path folder) {
    File[] files = folder.toFile().listFiles();
    return files == null ? new File[0] : files;
  }

  static Long ghost(String name) { return Long.valueOf(Long.parseUnsignedLong(name.substring(0, 2 * GHOST_BYTES), 16)); }

  /** Adds ghosts, and forgets the oldest. They are only advice. */
  private void remember(int most) {
    Path file = folder.resolve(GHOSTS);
    try {
      byte[] before = Files.exists(file, new LinkOption[0]) ? Files.readAllBytes(file) : new byte[0];
      ByteBuffer all = ByteBuffer.allocate(before.length + ghosts.size() * GHOST_BYTES);
      all.put(before);
      for (int i = 0; i < ghosts.size(); i++) all.putLong(ghost((String) ghosts.get(i)).longValue());
      int length = Math.min(all.capacity(), most * GHOST_BYTES);
      byte[] kept = Arrays.copyOfRange(all.array(), all.capacity() - length, all.capacity());
      CacheFolder.replace(folder, file, kept);
    } catch (IOException error) {
      return;
    }
  }
}
