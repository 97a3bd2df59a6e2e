package delta.cache;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** The file of one block of the cache. Its format is written down in Python's {@code storage.cache.block_file}. */
class BlockFile {
  static final int BLOCK_BYTES = 256 << 10;

  /** A part of the names of blocks. */
  static final String FORMAT = "2, " + BLOCK_BYTES;

  private static final int CHECKSUM_BYTES = 12;
  private static final int FILE_BYTES = 18;
  static final int FILE_BYTES_MAX = CHECKSUM_BYTES + FILE_BYTES + 0xFFFF + BLOCK_BYTES;
  private static final byte[] PLAIN = "tahoe-b2".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] COMPRESSED = "tahoe-z2".getBytes(StandardCharsets.US_ASCII);

  private BlockFile() { }

  /** The file of a block of {@code file}. What compressing does not make smaller stays as it is. */
  static byte[] encode(String name, RemoteFile file, Block block, boolean compresses) throws IOException {
    byte[] etag = file.etag.getBytes(StandardCharsets.UTF_8);
    if (etag.length > 0xFFFF) throw new IOException("the ETag is too long");
    byte[] packed = compresses ? deflated(block) : null;
    boolean isPacked = packed != null && packed.length < block.length;
    int length = isPacked ? packed.length : block.length;
    ByteBuffer out = ByteBuffer.allocate(CHECKSUM_BYTES + FILE_BYTES + etag.length + length).order(ByteOrder.LITTLE_ENDIAN);
    out.put(isPacked ? COMPRESSED : PLAIN).putInt(0);
    out.putLong(file.size).putLong(file.modified).putShort((short) etag.length).put(etag);
    if (isPacked) out.put(packed);
    else out.put(block.data, block.start, length);
    out.putInt(PLAIN.length, checksum(name, out.array()));
    return out.array();
  }

  /**
   * The block in a file.
   *
   * @return null if it belongs to another content of {@code file}
   * @throws DataFormatException the file is damaged, belongs to another name, or has another format
   */
  static Block decode(String name, byte[] data, RemoteFile file) throws DataFormatException {
    if (data.length < CHECKSUM_BYTES + FILE_BYTES) throw new DataFormatException();
    ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    byte[] magic = Arrays.copyOf(data, PLAIN.length);
    boolean isPacked = Arrays.equals(magic, COMPRESSED);
    if (!isPacked && !Arrays.equals(magic, PLAIN)) throw new DataFormatException();
    if (in.getInt(PLAIN.length) != checksum(name, data)) throw new DataFormatException();
    long size = in.getLong(CHECKSUM_BYTES);
    int etagBytes = in.getShort(CHECKSUM_BYTES + 16) & 0xFFFF;
    int start = CHECKSUM_BYTES + FILE_BYTES + etagBytes;
    if (start > data.length) throw new DataFormatException();
    String etag = new String(data, CHECKSUM_BYTES + FILE_BYTES, etagBytes, StandardCharsets.UTF_8);
    if (size != file.size || !etag.equals(file.etag)) return null;
    return isPacked ? inflated(data, start) : new Block(data, start, data.length - start);
  }

  private static int checksum(String name, byte[] data) {
    CRC32 crc = new CRC32();
    crc.update(name.getBytes(StandardCharsets.US_ASCII));
    crc.update(data, CHECKSUM_BYTES, data.length - CHECKSUM_BYTES);
    return (int) crc.getValue();
  }

  private static byte[] deflated(Block block) {
    Deflater deflater = new Deflater(1);
    try {
      deflater.setInput(block.data, block.start, block.length);
      deflater.finish();
      byte[] out = new byte[block.length];
      int length = deflater.deflate(out);
      return deflater.finished() ? Arrays.copyOf(out, length) : null;
    } finally {
      deflater.end();
    }
  }

  private static Block inflated(byte[] data, int start) throws DataFormatException {
    Inflater inflater = new Inflater();
    try {
      inflater.setInput(data, start, data.length - start);
      byte[] out = new byte[BLOCK_BYTES];
      int length = 0;
      while (length < out.length) {
        int count = inflater.inflate(out, length, out.length - length);
        if (count == 0) break;
        length += count;
      }
      return new Block(out, 0, length);
    } finally {
      inflater.end();
    }
  }
}
