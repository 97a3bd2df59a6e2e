"""Deletion vectors: their descriptors, locations and binary format.

Protocol: "Deletion Vectors", "Deletion Vector Format", "Deletion Vector File Storage Format". A vector is the set of
row indexes of a data file that are deleted. Reads no storage: the caller passes in the bytes.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from pyroaring import BitMap64

from tahoe.errors import DeletionVectorError, DeltaError
from tahoe.protocol.log.actions import DeletionVectorDescriptor
from tahoe.protocol.log.file_paths import resolve_path

RELATIVE, INLINE, ABSOLUTE = "u", "i", "p"

# The 64-bit portable Roaring format.
MAGIC_PORTABLE = 1681511377
# Its predecessor: a count, then for each key from 0 the size and bytes of a 32-bit bitmap. The protocol's example of an
# inline vector uses it, in big-endian order.
MAGIC_NATIVE = 1681511376

FILE_VERSION = 1
_SIZE_BYTES, _CHECKSUM_BYTES = 4, 4
_FRAME_BYTES = _SIZE_BYTES + _CHECKSUM_BYTES

_UUID_CHARACTERS = 20  # sixteen bytes as Z85

# Row indexes are signed 64-bit integers.
_ROW_INDEX_MAX = (1 << 63) - 1

_ByteOrder: TypeAlias = Literal["little", "big"]


# --- Z85

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_CHARACTERS = frozenset(Z85)
_Z85_DIGITS = bytes.maketrans(Z85.encode(), bytes(range(85)))


def z85_encode(data: bytes) -> str:
    """Five characters for every four bytes, padded with zeros at the end. RFC 32 of ZeroMQ."""
    padded = data + b"\0" * (-len(data) % 4)
    return "".join(_z85_group(int.from_bytes(padded[i : i + 4], "big")) for i in range(0, len(padded), 4))


def _z85_group(value: int) -> str:
    digits = []
    for _ in range(5):
        value, digit = divmod(value, 85)
        digits.append(Z85[digit])
    return "".join(reversed(digits))


def z85_decode(text: str) -> bytes:
    """The bytes, padded to a multiple of four.

    Raises:
        ValueError: the text is not Z85.
    """
    if len(text) % 5:
        raise ValueError(f"the length of Z85 text must be a multiple of 5, but is {len(text)}")
    if other := next((character for character in text if character not in _Z85_CHARACTERS), None):
        raise ValueError(f"{other!r} is not a Z85 character")
    digits = text.encode().translate(_Z85_DIGITS)
    groups = zip(*(digits[start::5] for start in range(5)), strict=True)
    values = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in groups]
    for number, value in enumerate(values):
        if value >= 1 << 32:
            raise ValueError(f"the group {text[5 * number : 5 * number + 5]!r} does not fit in four bytes")
    return struct.pack(f">{len(values)}I", *values)


# --- the location of a vector


def vector_location(
    descriptor: DeletionVectorDescriptor, table_url: str, *, file: str = "a data file"
) -> tuple[str, int, int] | None:
    """The url, offset and length of the bytes for `decode_stored`; None for an inline vector.

    Raises:
        DeletionVectorError: the descriptor is invalid, or a relative path points outside the table's folder.
    """
    match descriptor.storage_type:
        case "i":
            return None
        case "u":
            url = f"{table_url}/{_relative_path(descriptor, table_url, file)}"
        case "p":
            try:
                url = resolve_path(descriptor.path_or_inline, table_url)
            except DeltaError as error:
                raise _invalid(descriptor, table_url, file, str(error)) from error
        case other:
            raise _invalid(descriptor, table_url, file, f"its storage type is {other!r}, but must be 'u', 'i' or 'p'")
    # The file's first byte is its format version, so no vector starts at 0: a missing offset means the first vector.
    return url, descriptor.offset or 1, descriptor.size_bytes + _FRAME_BYTES


def _relative_path(descriptor: DeletionVectorDescriptor, table: str, file: str) -> str:
    """The path below the table's folder, from a random prefix, which may be empty, and a UUID in Z85."""
    text = descriptor.path_or_inline
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    try:
        uuid = z85_decode(encoded)
    except ValueError as error:
        raise _invalid(descriptor, table, file, f"its name cannot be decoded: {error}") from error
    if len(uuid) != 16:
        raise _invalid(
            descriptor, table, file, f"its name has {len(text)} characters, but a UUID has {_UUID_CHARACTERS}"
        )
    if any(segment in ("", ".", "..") for segment in prefix.split("/")) and prefix:
        raise _invalid(descriptor, table, file, f"its prefix {prefix!r} is not a folder below the table")
    return vector_file_path(prefix, uuid)


def vector_file_path(prefix: str, uuid: bytes) -> str:
    """The path of a vector file relative to the table, from the random prefix ("" for none) and the 16 bytes of its
    UUID.
    """
    text = uuid.hex()
    name = f"deletion_vector_{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}.bin"
    return f"{prefix}/{name}" if prefix else name


# --- decoding


def decode_stored(data: bytes, descriptor: DeletionVectorDescriptor, *, table: str, file: str) -> BitMap64:
    """The row indexes of a vector from the bytes that `vector_location` points to.

    Raises:
        DeletionVectorError: size, checksum, format or cardinality does not match the log or the file.
    """
    if len(data) != descriptor.size_bytes + _FRAME_BYTES:
        detail = (
            f"its file is too short: expected {descriptor.size_bytes + _FRAME_BYTES} bytes from its offset, found "
            f"{len(data)}"
        )
        raise _invalid(descriptor, table, file, detail)
    size = int.from_bytes(data[:_SIZE_BYTES], "big")
    if size != descriptor.size_bytes:
        raise _invalid(
            descriptor, table, file, f"its size is {descriptor.size_bytes} in the log but {size} in its file"
        )
    bitmap_data = data[_SIZE_BYTES:-_CHECKSUM_BYTES]
    expected, found = int.from_bytes(data[-_CHECKSUM_BYTES:], "big"), binascii.crc32(bitmap_data)
    if expected != found:
        raise _invalid(descriptor, table, file, f"its checksum is {found:#010x}, but its file says {expected:#010x}")
    return _decode(bitmap_data, descriptor, table, file)


def decode_inline(descriptor: DeletionVectorDescriptor, *, table: str, file: str) -> BitMap64:
    """The row indexes of a vector that is stored in the log.

    Raises:
        DeletionVectorError: it cannot be decoded, or its size or cardinality does not match its descriptor.
    """
    try:
        data = z85_decode(descriptor.path_or_inline)
    except ValueError as error:
        raise _invalid(descriptor, table, file, f"it cannot be decoded: {error}") from error
    padding = len(data) - descriptor.size_bytes
    if not 0 <= padding < 4:
        raise _invalid(
            descriptor,
            table,
            file,
            f"its size is {descriptor.size_bytes} in its descriptor, but it has {len(data)} bytes",
        )
    return _decode(data[: descriptor.size_bytes], descriptor, table, file)


def _decode(data: bytes, descriptor: DeletionVectorDescriptor, table: str, file: str) -> BitMap64:
    """The rows of a vector. A number of rows other than the log's shows that the bytes are not those of this vector."""
    try:
        bitmap = decode_bitmap(data)
    except ValueError as error:
        raise _invalid(descriptor, table, file, str(error)) from error
    if len(bitmap) != descriptor.cardinality:
        raise _invalid(
            descriptor,
            table,
            file,
            f"its cardinality is {descriptor.cardinality} in the log, but it contains {len(bitmap)} rows",
        )
    return bitmap


def decode_bitmap(data: bytes) -> BitMap64:
    """A bitmap from its bytes, which start with the magic number.

    Raises:
        ValueError: the bytes are invalid; the error says why.
    """
    if len(data) < 4:
        raise ValueError(f"it has only {len(data)} bytes, too few for a magic number")
    order: _ByteOrder
    for order in ("little", "big"):
        magic = int.from_bytes(data[:4], order)
        if magic == MAGIC_PORTABLE:
            return _deserialize(data[4:])
        if magic == MAGIC_NATIVE:
            return _deserialize(_native_to_portable(data[4:], order))
    raise ValueError(f"it starts with {data[:4].hex()}, expected {MAGIC_PORTABLE.to_bytes(4, 'little').hex()}")


def _deserialize(data: bytes) -> BitMap64:
    try:
        bitmap = BitMap64.deserialize(data)
    except (ValueError, IndexError) as error:
        raise ValueError(f"its bitmap cannot be read: {error}") from error
    if bitmap and bitmap.max() > _ROW_INDEX_MAX:
        raise ValueError(f"it contains row {bitmap.max()}, which exceeds the largest row index")
    return bitmap


def _native_to_portable(data: bytes, order: _ByteOrder) -> bytes:
    """A bitmap in the layout of old writers, in which the place of a bucket is its key, in the layout that tells the
    keys.
    """
    count, position = int.from_bytes(data[:4], order), 4
    if count * _SIZE_BYTES > len(data):
        raise ValueError(f"it should have {count} bitmaps, but is too short")
    buckets = []
    for key in range(count):
        size = int.from_bytes(data[position : position + 4], order)
        bucket = data[position + 4 : position + 4 + size]
        if size == 0 or len(bucket) != size:
            raise ValueError(f"bitmap {key} of {count} is incomplete")
        buckets.append(key.to_bytes(4, "little") + bucket)
        position += 4 + size
    return count.to_bytes(8, "little") + b"".join(buckets)


def _invalid(descriptor: DeletionVectorDescriptor, table: str, file: str, detail: str) -> DeletionVectorError:
    return DeletionVectorError(table=table, vector=descriptor.unique_id, file=file, detail=detail)


# --- encoding


def encode_bitmap(rows: Iterable[int]) -> bytes:
    """The bytes of a vector without size and checksum: the portable format with run compression, as in the
    reference.
    """
    bitmap = BitMap64(rows)
    bitmap.run_optimize()
    return MAGIC_PORTABLE.to_bytes(4, "little") + bitmap.serialize()


def inline_descriptor(rows: Iterable[int]) -> DeletionVectorDescriptor:
    """The descriptor of a vector that is stored in the log."""
    bitmap = BitMap64(rows)
    data = encode_bitmap(bitmap)
    return DeletionVectorDescriptor(
        storage_type=INLINE, path_or_inline=z85_encode(data), size_bytes=len(data), cardinality=len(bitmap)
    )


def encode_vector_file(bitmaps: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """The bytes of a file with these vectors, each from `encode_bitmap`, and the offset of each vector."""
    data = bytearray([FILE_VERSION])
    offsets = []
    for bitmap in bitmaps:
        offsets.append(len(data))
        data += framed(bitmap)
    return bytes(data), offsets


def framed(bitmap: bytes) -> bytes:
    """The bytes of a stored vector, from `encode_bitmap`, with its size and checksum. Iceberg's are the same."""
    return len(bitmap).to_bytes(_SIZE_BYTES, "big") + bitmap + binascii.crc32(bitmap).to_bytes(_CHECKSUM_BYTES, "big")


def unframed(data: bytes) -> bytes:
    """The bytes for `decode_bitmap` of a stored vector.

    Raises:
        ValueError: its size or checksum is wrong.
    """
    bitmap = data[_SIZE_BYTES:-_CHECKSUM_BYTES]
    if data != framed(bitmap):
        raise ValueError("its size or checksum is wrong")
    return bitmap


def stored_descriptor(
    prefix: str, uuid: bytes, offset: int, bitmap: bytes, cardinality: int
) -> DeletionVectorDescriptor:
    """The descriptor of a vector in the table's file `vector_file_path(prefix, uuid)`."""
    return DeletionVectorDescriptor(
        storage_type=RELATIVE,
        path_or_inline=prefix + z85_encode(uuid),
        offset=offset,
        size_bytes=len(bitmap),
        cardinality=cardinality,
    )
