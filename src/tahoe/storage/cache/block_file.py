"""The file of one block of the cache: a part of a remote file, and which content of that file it belongs to.

    offset  bytes  what
    0       8      "tahoe-b2", or "tahoe-z2" if the part of the file is compressed
    8       4      CRC-32 of the block's name and of all that follows
    12      8      the size of the remote file in bytes
    20      8      its modification time, in milliseconds since 1970
    28      2      the length of its ETag in bytes, n
    30      n      its ETag, in UTF-8
    30 + n         the part of the file: BLOCK_BYTES, or fewer at the end of the file

Numbers are little-endian; compressed is by zlib. The Java classes of `spark/java_executors` read and write the same
files.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from tahoe.storage.env import FileInfo

BLOCK_BYTES = 256 << 10

# A part of the names of blocks, so that two versions of tahoe do not take each other's for damaged.
FORMAT = f"2, {BLOCK_BYTES}"

_PLAIN, _COMPRESSED = b"tahoe-b2", b"tahoe-z2"
_CHECKSUM = struct.Struct("<8sI")
_FILE = struct.Struct("<QqH")

FILE_BYTES_MAX = _CHECKSUM.size + _FILE.size + 0xFFFF + BLOCK_BYTES


class Block(NamedTuple):
    """A part of a file.

    Attributes:
        info: the file whose content this is, without its key.
    """

    info: FileInfo
    content: memoryview


def block_length(size_bytes: int, number: int) -> int:
    """The length of a block of a file, by its number."""
    return min(BLOCK_BYTES, size_bytes - number * BLOCK_BYTES)


def encode(
    name: str, info: FileInfo, content: bytes | memoryview, *, compresses: bool = False
) -> tuple[bytes, bytes | memoryview]:
    """The file of a block, in two pieces. What compressing does not make smaller stays as it is, such as Parquet.

    Raises:
        ValueError: the file's ETag cannot be written.
    """
    packed = zlib.compress(content, 1) if compresses else content
    magic, stored = (_COMPRESSED, packed) if len(packed) < len(content) else (_PLAIN, content)
    etag = info.etag.encode()
    if len(etag) > 0xFFFF:
        raise ValueError("the ETag is too long")
    header = _FILE.pack(info.size_bytes, info.modified_ms, len(etag)) + etag
    return _CHECKSUM.pack(magic, zlib.crc32(stored, zlib.crc32(header, _seed(name)))) + header, stored


def decode(name: str, data: bytes) -> Block | None:
    """The block in a file of a name; None if the file is damaged, belongs to another name, or has another format."""
    try:
        return _decoded(name, memoryview(data))
    except (ValueError, struct.error, zlib.error):
        return None


def _decoded(name: str, view: memoryview) -> Block | None:
    magic, checksum = _CHECKSUM.unpack_from(view)
    rest = view[_CHECKSUM.size :]
    if magic not in (_PLAIN, _COMPRESSED) or checksum != zlib.crc32(rest, _seed(name)):
        return None
    size_bytes, modified_ms, etag_bytes = _FILE.unpack_from(rest)
    start = _FILE.size + etag_bytes
    content = rest[start:]
    if magic == _COMPRESSED:
        content = memoryview(zlib.decompressobj().decompress(content, BLOCK_BYTES + 1))
    return Block(FileInfo("", size_bytes, modified_ms, bytes(rest[_FILE.size : start]).decode()), content)


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())
