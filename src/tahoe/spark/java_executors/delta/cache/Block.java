package delta.cache;

/** The content of a block: a part of an array that nobody changes. */
class Block {
  final byte[] data;
  final int start;
  final int length;

  Block(byte[] data, int start, int length) {
    this.data = data;
    this.start = start;
    this.length = length;
  }
}
