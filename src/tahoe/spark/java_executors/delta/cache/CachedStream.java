package delta.cache;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.impl.OpenFileParameters;

/**
 * A remote file that is read in blocks, those of the cache first. What is missing is fetched in ranges as long as possible, several at the
 * same time if the storage's stream does that. Small reads one after the other fetch more and more ahead.
 */
class CachedStream extends FSInputStream implements StreamCapabilities, CanUnbuffer {
  /** How many blocks are fetched by one request, and fetched ahead. */
  private static final int RANGE_BLOCKS_MAX = 32;

  /** Larger reads fetch nothing ahead. */
  private static final int SMALL_READ_BLOCKS_MAX = 2;

  /** How many blocks are in memory at once. */
  private static final int LOADED_BLOCKS_MAX = 256;

  private final CachedFileSystem system;
  private final Path path;
  private final OpenFileParameters parameters;
  private final RemoteFile file;
  private final Blocks blocks;
  private final Counters counters;
  private FSDataInputStream inner;
  private long position;
  private long sequentialEnd = -1;
  private int ahead;
  private Map window = new HashMap();
  private boolean isClosed;
  private boolean hasCached;
  private boolean isReplaced;

  CachedStream(CachedFileSystem system, Path path, OpenFileParameters parameters, RemoteFile file, Blocks blocks, Counters counters) {
    this.system = system;
    this.path = path;
    this.parameters = parameters;
    this.file = file;
    this.blocks = blocks;
    this.counters = counters;
  }

  // the stream

  public synchronized int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
  }

  public synchronized int read(byte[] buffer, int offset, int length) throws IOException {
    checkOpen();
    if (length == 0) return 0;
    if (position >= file.size) return -1;
    int count = (int) Math.min(length, file.size - position);
    if (position != sequentialEnd) ahead = 0;
    fill(position, ByteBuffer.wrap(buffer, offset, count), true);
    position += count;
    sequentialEnd = position;
    return count;
  }

  public synchronized int read(long from, byte[] buffer, int offset, int length) throws IOException {
    checkOpen();
    validatePositionedReadArgs(from, buffer, offset, length);
    if (length == 0) return 0;
    if (from >= file.size) return -1;
    int count = (int) Math.min(length, file.size - from);
    fill(from, ByteBuffer.wrap(buffer, offset, count), false);
    return count;
  }

  public void readFully(long from, byte[] buffer, int offset, int length) throws IOException {
    validatePositionedReadArgs(from, buffer, offset, length);
    if (from + length > file.size) throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY);
    read(from, buffer, offset, length);
  }

  public void readVectored(List ranges, IntFunction allocate) throws IOException {
    for (Iterator it = ranges.iterator(); it.hasNext(); ) {
      FileRange range = (FileRange) it.next();
      if (range.getOffset() < 0) throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
      if (range.getOffset() + range.getLength() > file.size) throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY);
    }
    vectored(ranges, allocate);
  }

  public void readVectored(List ranges, IntFunction allocate, Consumer release) throws IOException { readVectored(ranges, allocate); }

  private synchronized void vectored(List ranges, IntFunction allocate) throws IOException {
    checkOpen();
    ArrayList parts = new ArrayList();
    ArrayList buffers = new ArrayList();
    for (Iterator it = ranges.iterator(); it.hasNext(); ) {
      FileRange range = (FileRange) it.next();
      ByteBuffer buffer = (ByteBuffer) allocate.apply(range.getLength());
      buffers.add(buffer);
      addParts(range.getOffset(), buffer, range.getLength(), parts);
    }
    copy(parts, false);
    for (int i = 0; i < buffers.size(); i++) {
      ByteBuffer buffer = (ByteBuffer) buffers.get(i);
      FileRange range = (FileRange) ranges.get(i);
      buffer.limit(buffer.position() + range.getLength());
      range.setData(CompletableFuture.completedFuture(buffer));
    }
  }

  public synchronized void seek(long to) throws IOException {
    checkOpen();
    if (to < 0) throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
    if (to > file.size) throw new EOFException(FSExceptionMessages.CANNOT_SEEK_PAST_EOF);
    position = to;
  }

  public synchronized long getPos() { return position; }
  public boolean seekToNewSource(long to) { return false; }
  public synchronized int available() { return (int) Math.min(file.size - position, Integer.MAX_VALUE); }

  public boolean hasCapability(String capability) {
    return capability.equalsIgnoreCase(StreamCapabilities.VECTOREDIO) || capability.equalsIgnoreCase(StreamCapabilities.UNBUFFER);
  }

  public synchronized void unbuffer() {
    window = new HashMap();
    if (inner != null) inner.unbuffer();
  }

  public synchronized void close() throws IOException {
    isClosed = true;
    window = new HashMap();
    if (inner != null) inner.close();
    inner = null;
  }

  private void checkOpen() throws IOException {
    if (isClosed) throw new IOException(path + ": " + FSExceptionMessages.STREAM_IS_CLOSED);
  }

  // blocks

  /** A part of a block, and where it goes. */
  static class Part {
    final long number;
    final int start;
    final int length;
    final ByteBuffer to;
    final int at;

    Part(long number, int start, int length, ByteBuffer to, int at) {
      this.number = number;
      this.start = start;
      this.length = length;
      this.to = to;
      this.at = at;
    }

    void copy(Block block) { to.put(at, block.data, block.start + start, length); }
  }

  private void fill(long from, ByteBuffer to, boolean readsAhead) throws IOException {
    ArrayList parts = new ArrayList();
    addParts(from, to, to.remaining(), parts);
    copy(parts, readsAhead);
  }

  private static void addParts(long from, ByteBuffer to, int length, List parts) {
    for (int done = 0; done < length; ) {
      long at = from + done;
      int start = (int) (at % BlockFile.BLOCK_BYTES);
      int count = Math.min(BlockFile.BLOCK_BYTES - start, length - done);
      parts.add(new Part(at / BlockFile.BLOCK_BYTES, start, count, to, to.position() + done));
      done += count;
    }
  }

  private void copy(List parts, boolean readsAhead) throws IOException {
    for (int from = 0; from < parts.size(); from += LOADED_BLOCKS_MAX) {
      List some = parts.subList(from, Math.min(from + LOADED_BLOCKS_MAX, parts.size()));
      TreeSet numbers = new TreeSet();
      for (int i = 0; i < some.size(); i++) numbers.add(Long.valueOf(((Part) some.get(i)).number));
      Map loaded = load(numbers, readsAhead);
      for (int i = 0; i < some.size(); i++) {
        Part part = (Part) some.get(i);
        part.copy((Block) loaded.get(Long.valueOf(part.number)));
      }
      if (readsAhead) window = new HashMap(new TreeMap(loaded).tailMap(numbers.last()));
    }
  }

  /** Blocks by their numbers, and perhaps some that follow. */
  private Map load(SortedSet numbers, boolean readsAhead) throws IOException {
    HashMap loaded = new HashMap();
    TreeSet missing = new TreeSet();
    for (Iterator it = numbers.iterator(); it.hasNext(); ) {
      Long number = (Long) it.next();
      Block block = cached(number);
      if (block == null) missing.add(number);
      else loaded.put(number, block);
    }
    if (missing.isEmpty()) return loaded;
    if (readsAhead && numbers.size() <= SMALL_READ_BLOCKS_MAX && missing.contains(numbers.last())) addAhead((Long) numbers.last(), missing, loaded);
    fetch(missing, loaded);
    return loaded;
  }

  private Block cached(Long number) {
    Block block = (Block) window.get(number);
    if (block != null || isReplaced) return block;
    block = blocks.read(file, number.longValue());
    if (block == null) return null;
    hasCached = true;
    counters.add(Counters.HITS, 1);
    counters.add(Counters.CACHED_BYTES, block.length);
    system.countCached(block.length);
    return block;
  }

  /** Adds what follows a missing block, up to the next one that is in the cache. */
  private void addAhead(Long last, Set missing, Map loaded) {
    for (int i = 1; i <= ahead && (last.longValue() + i) * BlockFile.BLOCK_BYTES < file.size; i++) {
      Long number = Long.valueOf(last.longValue() + i);
      Block block = cached(number);
      if (block != null) {
        loaded.put(number, block);
        break;
      }
      missing.add(number);
    }
    ahead = Math.min(Math.max(1, 2 * ahead), RANGE_BLOCKS_MAX);
  }

  /** Fetches blocks. Of all threads of this JVM that ask for a block at the same time, one fetches it. */
  private void fetch(SortedSet numbers, Map loaded) throws IOException {
    TreeMap ours = new TreeMap();
    TreeMap others = new TreeMap();
    try {
      for (Iterator it = numbers.iterator(); it.hasNext(); ) {
        Long number = (Long) it.next();
        CompletableFuture claim = new CompletableFuture();
        CompletableFuture other = blocks.claimed(file, number.longValue(), claim);
        if (other == null) ours.put(number, claim);
        else others.put(number, other);
      }
      if (!ours.isEmpty()) fetchRanges(ours.navigableKeySet(), ours, loaded);
    } finally {
      for (Iterator it = ours.entrySet().iterator(); it.hasNext(); ) {
        Map.Entry claim = (Map.Entry) it.next();
        // After an error or an interrupt, who waits for it fetches it.
        ((CompletableFuture) claim.getValue()).completeExceptionally(new IOException("it was not fetched"));
        blocks.fetched(file, ((Long) claim.getKey()).longValue(), (CompletableFuture) claim.getValue());
      }
    }
    TreeSet failed = new TreeSet();
    for (Iterator it = others.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry claim = (Map.Entry) it.next();
      CompletableFuture other = (CompletableFuture) claim.getValue();
      try {
        loaded.put(claim.getKey(), Waiting.on(other));
        hasCached = true;
        checkSame();
      } catch (IOException error) {
        if (!other.isCompletedExceptionally()) throw error;
        failed.add(claim.getKey());
      }
    }
    if (!failed.isEmpty()) fetchRanges(failed, new HashMap(), loaded);
  }

  /** Fetches blocks from the storage, neighbours by one request, and keeps them. */
  private void fetchRanges(SortedSet numbers, Map claims, Map loaded) throws IOException {
    if (inner == null) inner = system.stream(path, parameters);
    List ranges = ranges(numbers);
    if (ranges.size() == 1) {
      FileRange range = (FileRange) ranges.get(0);
      byte[] data = new byte[range.getLength()];
      inner.readFully(range.getOffset(), data);
      range.setData(CompletableFuture.completedFuture(ByteBuffer.wrap(data)));
    } else {
      inner.readVectored(ranges, new OnHeap());
    }
    TreeMap all = new TreeMap();
    for (Iterator it = ranges.iterator(); it.hasNext(); ) {
      FileRange range = (FileRange) it.next();
      TreeMap fetched = split(range, (ByteBuffer) Waiting.on(range.getData()));
      all.putAll(fetched);
      counters.add(Counters.MISSES, fetched.size());
      counters.add(Counters.FETCHED_BYTES, range.getLength());
      if (system.refusesOthers()) keep(fetched, claims);
    }
    loaded.putAll(all);
    if (system.refusesOthers()) return;
    if (system.isStill(path, file)) keep(all, claims);
    else isReplaced = true;
    checkSame();
  }

  /** What the cache has is never mixed with another content of the file. */
  private void checkSame() throws IOException {
    if (isReplaced && hasCached) throw new IOException(path + " was replaced while it was read");
  }

  /** Hands blocks over to the threads that wait for them, and to the cache. */
  private void keep(Map fetched, Map claims) {
    for (Iterator it = fetched.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry entry = (Map.Entry) it.next();
      CompletableFuture claim = (CompletableFuture) claims.get(entry.getKey());
      if (claim != null) claim.complete(entry.getValue());
    }
    for (Iterator it = fetched.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry entry = (Map.Entry) it.next();
      blocks.write(file, ((Long) entry.getKey()).longValue(), (Block) entry.getValue());
    }
  }

  /** The ranges of blocks, of neighbours together. */
  private List ranges(SortedSet numbers) {
    ArrayList ranges = new ArrayList();
    long start = -1;
    long end = -1;
    for (Iterator it = numbers.iterator(); it.hasNext(); ) {
      long number = ((Long) it.next()).longValue();
      if (number != end || end - start >= RANGE_BLOCKS_MAX) {
        if (end >= 0) ranges.add(range(start, end));
        start = number;
      }
      end = number + 1;
    }
    ranges.add(range(start, end));
    return ranges;
  }

  private FileRange range(long start, long end) {
    long from = start * BlockFile.BLOCK_BYTES;
    return FileRange.createFileRange(from, (int) (Math.min(end * BlockFile.BLOCK_BYTES, file.size) - from));
  }

  private static TreeMap split(FileRange range, ByteBuffer buffer) throws IOException {
    if (buffer.remaining() != range.getLength()) throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY);
    byte[] data = buffer.hasArray() ? buffer.array() : new byte[range.getLength()];
    int first = buffer.hasArray() ? buffer.arrayOffset() + buffer.position() : 0;
    if (!buffer.hasArray()) buffer.get(data);
    TreeMap split = new TreeMap();
    for (int at = 0; at < range.getLength(); at += BlockFile.BLOCK_BYTES) {
      int length = Math.min(BlockFile.BLOCK_BYTES, range.getLength() - at);
      split.put(Long.valueOf((range.getOffset() + at) / BlockFile.BLOCK_BYTES), new Block(data, first + at, length));
    }
    return split;
  }

  static class OnHeap implements IntFunction {
    public Object apply(int length) { return ByteBuffer.allocate(length); }
  }
}
