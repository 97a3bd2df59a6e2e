package delta.cache;

import com.sun.security.auth.module.UnixSystem;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;

/**
 * The folder of the cache on its disk, by the rules of Python's {@code storage.cache.cache_folder}, whose processes use it too. Files are
 * read and written without NIO's channels: an interrupt of a Spark task would close these.
 *
 * <p>Every method may throw an IOException.
 */
class CacheFolder {
  static final Set UNREAD = PosixFilePermissions.fromString("rw-------");
  private static final Set READ = PosixFilePermissions.fromString("rwx------");
  private static final String MARKER = "tahoe-cache";
  private static final String USAGE = "usage";
  private static final List OWN_NAMES =
      Arrays.asList(new String[] { MARKER, USAGE, Eviction.GHOSTS, Eviction.LOCK, Eviction.UNFINISHED, Eviction.MAIN, Eviction.SMALL });
  private static final LinkOption[] NO_LINKS = { LinkOption.NOFOLLOW_LINKS };
  private static final double FREE_SHARE = 0.05;
  private static final long FREE_BYTES_MAX = 10L << 30;
  private static final int USAGE_UNIT = 4096;
  private static final long CORRELATED_MS = 5000;

  private final Path folder;
  private final long bytesMax;
  private final long user = new UnixSystem().getUid();
  private volatile boolean isPrepared;
  private long ghostsChanged;
  private Set ghosts = new HashSet();

  CacheFolder(Path folder, long bytesMax) {
    this.folder = folder;
    this.bytesMax = bytesMax;
  }

  static PosixFileAttributes status(Path path) throws IOException {
    return (PosixFileAttributes) Files.readAttributes(path, PosixFileAttributes.class, NO_LINKS);
  }

  Path block(String queue, String name) { return Eviction.block(folder, queue, name); }

  /** The file of a block, which counts as read again; null if it is not there, empty if it cannot be one. */
  byte[] load(String queue, String name) throws IOException {
    Path path = block(queue, name);
    try {
      checkPrivate();
      PosixFileAttributes status = status(path);
      if (!status.isRegularFile()) return new byte[0];
      byte[] data = content(path.toFile(), BlockFile.FILE_BYTES_MAX + 1);  // it may have been replaced since, by a larger one
      if (data.length > BlockFile.FILE_BYTES_MAX) return new byte[0];
      boolean isMarked = status.permissions().contains(PosixFilePermission.OWNER_EXECUTE);
      if (!isMarked && System.currentTimeMillis() - status.lastModifiedTime().toMillis() > CORRELATED_MS) mark(path);
      return data;
    } catch (NoSuchFileException missing) {
      return null;
    } catch (FileNotFoundException missing) {  // deleted in between
      return null;
    }
  }

  private static byte[] content(File file, int bytesMax) throws IOException {
    FileInputStream in = new FileInputStream(file);
    try {
      return in.readNBytes(bytesMax);
    } finally {
      in.close();
    }
  }

  private static void mark(Path path) {
    try {
      Files.setPosixFilePermissions(path, READ);
    } catch (IOException error) {  // a folder that can only be read
      return;
    }
  }

  /** Writes the file of a block, in the place of another one of its name, unless another process is evicting. */
  void write(String name, byte[] data) throws IOException {
    if (!isPrepared || !isOurs()) prepare();  // somebody may have deleted the folder
    if (!makesRoom(Eviction.occupied(data.length))) return;
    Path temporary;
    try {
      temporary = written(data);
    } catch (NoSuchFileException deleted) {
      prepare();
      temporary = written(data);
    }
    try {
      FileOutputStream usage = new FileOutputStream(folder.resolve(USAGE).toFile(), true);
      try {  // before the block is there: too much is corrected by the next eviction
        usage.write(new byte[(int) (Eviction.occupied(data.length) / USAGE_UNIT)]);
      } finally {
        usage.close();
      }
      Path path = block(queueOf(name), name);
      path.getParent().getParent().toFile().mkdir();
      path.getParent().toFile().mkdir();
      Files.move(temporary, path, new StandardCopyOption[] { StandardCopyOption.ATOMIC_MOVE });
    } finally {
      temporary.toFile().delete();
    }
  }

  private Path written(byte[] data) throws IOException { return written(folder, data); }

  private static Path written(Path folder, byte[] data) throws IOException {
    Path temporary = folder.resolve(Eviction.UNFINISHED).resolve(UUID.randomUUID().toString().replace("-", ""));
    Files.createFile(temporary, new FileAttribute[] { PosixFilePermissions.asFileAttribute(UNREAD) });
    try {
      FileOutputStream out = new FileOutputStream(temporary.toFile());
      try {
        out.write(data);
      } finally {
        out.close();
      }
    } catch (IOException error) {
      temporary.toFile().delete();
      throw error;
    }
    return temporary;
  }

  static void replace(Path folder, Path file, byte[] data) throws IOException {
    Files.move(written(folder, data), file, new StandardCopyOption[] { StandardCopyOption.ATOMIC_MOVE });
  }

  /** Evicts a tenth of all, for a disk that is fuller than it says. */
  void shrink() throws IOException { evict((long) (occupiedBytes() * 0.9)); }

  private long evict(long limit) throws IOException {
    long used = Eviction.evict(folder, limit);
    if (used >= 0) setUsage(used);
    return used;
  }

  /** Makes the folder, and marks it as ours. */
  private synchronized void prepare() throws IOException {
    FileAttribute[] ours = { PosixFilePermissions.asFileAttribute(READ) };
    if (!folder.toFile().isDirectory()) Files.createDirectories(folder, ours);
    if (!isOurs()) {
      TreeSet foreign = new TreeSet(Arrays.asList(folder.toFile().list()));
      foreign.removeAll(OWN_NAMES);
      if (!foreign.isEmpty()) throw new IOException("it has files that are not of a cache, such as " + foreign.first());
      Files.setPosixFilePermissions(folder, READ);
    }
    checkPrivate();
    String[] inside = { Eviction.UNFINISHED, Eviction.MAIN, Eviction.SMALL };
    for (int i = 0; i < inside.length; i++) Files.createDirectories(folder.resolve(inside[i]), ours);
    if (!isOurs() || bound() < bytesMax) replace(folder, folder.resolve(MARKER), (bytesMax + "\n").getBytes(StandardCharsets.US_ASCII));
    Eviction.deleteUnfinished(folder);
    isPrepared = true;
  }

  private boolean isOurs() { return folder.resolve(MARKER).toFile().isFile(); }

  private void checkPrivate() throws IOException {
    PosixFileAttributes status = (PosixFileAttributes) Files.readAttributes(folder, PosixFileAttributes.class, new LinkOption[0]);
    Set permissions = status.permissions();
    boolean isOpen = permissions.contains(PosixFilePermission.GROUP_WRITE) || permissions.contains(PosixFilePermission.OTHERS_WRITE);
    long owner = ((Number) Files.getAttribute(folder, "unix:uid", new LinkOption[0])).longValue();
    if (isOpen || owner != user) throw new IOException("other users may write to it");
  }

  private long bound() {
    try {
      return Long.parseLong(new String(content(folder.resolve(MARKER).toFile(), 64), StandardCharsets.US_ASCII).trim());
    } catch (IOException error) {
      return bytesMax;
    } catch (NumberFormatException error) {
      return bytesMax;
    }
  }

  /** The queue that a new block enters. One that is in {@code main} already is replaced there. */
  private String queueOf(String name) {
    boolean isMain = ghosts().contains(Eviction.ghost(name)) || block(Eviction.MAIN, name).toFile().exists();
    return isMain ? Eviction.MAIN : Eviction.SMALL;
  }

  private synchronized Set ghosts() {
    File file = folder.resolve(Eviction.GHOSTS).toFile();
    long changed = file.lastModified();
    if (changed == ghostsChanged) return ghosts;
    ghostsChanged = changed;
    ghosts = new HashSet();
    try {
      ByteBuffer data = ByteBuffer.wrap(content(file, Integer.MAX_VALUE));
      while (data.remaining() >= 8) ghosts.add(Long.valueOf(data.getLong()));
    } catch (IOException error) {  // they are only advice
      return ghosts;
    }
    return ghosts;
  }

  /** Evicts if a block does not fit; false if another process is evicting. */
  private boolean makesRoom(long size) throws IOException {
    File usage = folder.resolve(USAGE).toFile();
    long used = usage.exists() ? usage.length() * USAGE_UNIT : occupiedBytes();
    if (!usage.exists()) setUsage(used);
    if (used + size <= limit(used)) return true;
    long left = evict(limit(used) - size);
    if (left < 0) return false;
    if (left + size > limit(left)) throw new IOException("there is no space beside what is to stay free");
    return true;
  }

  /** How much the blocks may occupy, which leaves some space on the disk free. */
  private long limit(long used) throws IOException {
    File disk = folder.toFile();  // NIO's FileStore reads the list of all mounts
    long reserve = Math.min((long) (disk.getTotalSpace() * FREE_SHARE), FREE_BYTES_MAX);
    return Math.min(bound(), Math.max(used + disk.getUsableSpace() - reserve, 0));
  }

  private long occupiedBytes() {
    return Eviction.sum(Eviction.entries(folder, Eviction.MAIN)) + Eviction.sum(Eviction.entries(folder, Eviction.SMALL));
  }

  private void setUsage(long used) throws IOException {
    Path temporary = written(new byte[0]);
    RandomAccessFile file = new RandomAccessFile(temporary.toFile(), "rw");
    try {
      file.setLength((used + USAGE_UNIT - 1) / USAGE_UNIT);
    } finally {
      file.close();
    }
    Files.move(temporary, folder.resolve(USAGE), new StandardCopyOption[] { StandardCopyOption.ATOMIC_MOVE });
  }
}
