package delta.cache;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** A file as its storage has told of it: which content it has, and the names of its blocks. */
class RemoteFile {
  private static final String DIGITS = "0123456789abcdef";
  private static final int NAME_BYTES = 20;

  final String url;
  final long size;
  final long modified;
  final String etag;
  private final String realm;

  /** @param realm names the endpoint and the credentials: with others, the same url may be another file */
  RemoteFile(String realm, String url, long size, long modified, String etag) {
    this.realm = realm;
    this.url = url;
    this.size = size;
    this.modified = modified;
    this.etag = etag;
  }

  /** The length of a block. */
  int length(long number) { return (int) Math.min(BlockFile.BLOCK_BYTES, size - number * BlockFile.BLOCK_BYTES); }

  /** The name of a block, as Python's {@code storage.cache.cached_store} gives it. */
  String name(long number) {
    String text = realm + "\u0000" + url + "\u0000" + BlockFile.FORMAT + "\u0000" + number;
    try {
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      StringBuilder name = new StringBuilder();
      for (int i = 0; i < NAME_BYTES; i++) name.append(DIGITS.charAt(hash[i] >> 4 & 15)).append(DIGITS.charAt(hash[i] & 15));
      return name.toString();
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** What tells its content from any other one of the same name. */
  String identity() { return size + " " + etag; }
}
