"""The file of one block of the cache: a part of a remote file, and which content of that file it belongs to.

    offset  bytes  what
    0       8      "tahoe-b1", or "tahoe-z1" if the part of the file is compressed
    8       4      CRC-32 of all that follows
    12      8      the size of the remote file in bytes
    20      8      its modification time, in milliseconds since 1970
    28      2      the length of its ETag in bytes, n
    30      n      its ETag, in UTF-8
    30 + n         the part of the file: BLOCK_BYTES, or fewer at the end of the file

Numbers are little-endian; compressed is by zlib.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from tahoe.storage.env import FileInfo

BLOCK_BYTES = 256 << 10

_PLAIN, _COMPRESSED = b"tahoe-b1", b"tahoe-z1"
_CHECKSUM = struct.Struct("<8sI")
_FILE = struct.Struct("<QqH")


class Block(NamedTuple):
    """A part of a file.

    Attributes:
        info: the file whose content this is, without its key.
    """

    info: FileInfo
    content: memoryview


def encode(
    info: FileInfo, content: bytes | memoryview, *, compresses: bool = False
) -> tuple[bytes, bytes | memoryview]:
    """The file of a block, in two pieces. What compressing does not make smaller stays as it is, such as Parquet."""
    packed = zlib.compress(content, 1) if compresses else content
    is_smaller = len(packed) < len(content)
    magic, stored = (_COMPRESSED, packed) if is_smaller else (_PLAIN, content)
    etag = info.etag.encode()
    header = _FILE.pack(info.size_bytes, info.modified_ms, len(etag)) + etag
    return _CHECKSUM.pack(magic, zlib.crc32(stored, zlib.crc32(header))) + header, stored


def decode(data: bytes) -> Block | None:
    """The block in a file; None if the file is damaged, or in another format."""
    view = memoryview(data)
    if len(view) < _CHECKSUM.size + _FILE.size:
        return None
    magic, checksum = _CHECKSUM.unpack_from(view)
    rest = view[_CHECKSUM.size :]
    if magic not in (_PLAIN, _COMPRESSED) or checksum != zlib.crc32(rest):
        return None
    size_bytes, modified_ms, etag_bytes = _FILE.unpack_from(rest)
    start = _FILE.size + etag_bytes
    content = rest[start:] if magic == _PLAIN else memoryview(zlib.decompress(rest[start:]))
    return Block(FileInfo("", size_bytes, modified_ms, bytes(rest[_FILE.size : start]).decode()), content)
