"""Checks the Bloom filters of a data file. A reader passes over a row group if a filter says that it does not have a
value, so a damaged filter hides rows.

Parquet: "Bloom Filter". Only filters without compression, of 256-bit blocks and XXH64, are defined. Must not know the
log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.storage.env import Store
from tahoe.table.arrow.parquet import UNREADABLE

Words: TypeAlias = npt.NDArray[np.uint64]

# The header in Thrift's compact protocol: the number of bytes, and the only algorithm, hash and compression that there
# are.
_HEADER = re.compile(rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])(?:\x1c\x1c\x00\x00){3}\x00", re.DOTALL)
_HEADER_BYTES_MAX = 32

_BLOCK_BYTES = 32
_BITS_LOG = np.uint32(27)
_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)

# The numbers that a file stores as such, by their physical types.
_NUMBERS = {
    "INT32": (pa.int32(), "<i4"),
    "INT64": (pa.int64(), "<i8"),
    "FLOAT": (pa.float32(), "<f4"),
    "DOUBLE": (pa.float64(), "<f8"),
}


def broken_filters(
    store: Store, key: str, footer: pq.FileMetaData, size_bytes: int, *, reads_rows: bool
) -> Iterator[str]:
    """What is wrong with the filters of a file, as clauses about the file.

    Args:
        reads_rows: whether all values of the columns are looked for in their filters; otherwise only headers and sizes
            are checked.
    """
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            offset = getattr(chunk, "bloom_filter_offset", None)
            if offset is None:
                continue
            name = f"the Bloom filter of column {chunk.path_in_schema} in row group {number}"
            bits = _bits(store, key, offset, size_bytes, getattr(chunk, "bloom_filter_length", None))
            if isinstance(bits, str):
                yield f"{name} {bits}"
            elif reads_rows:
                try:
                    lacking = _lacking(store, key, footer, number, place, bits)
                except UNREADABLE as error:
                    yield f"{name} cannot be compared with the column: {error}"
                else:
                    if lacking:
                        yield f"{name} lacks {lacking} of the column's values, so that queries for them find no row"


def _bits(store: Store, key: str, offset: int, size_bytes: int, length: int | None) -> npt.NDArray[np.uint32] | str:
    """The blocks of a filter, or why they cannot be read."""
    head = (
        store.get_range(key, offset, min(_HEADER_BYTES_MAX, size_bytes - offset)) if 0 <= offset < size_bytes else b""
    )
    match = _HEADER.match(head)
    if match is None:
        return "has no valid header"
    zigzag = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(match[1]))
    count = zigzag >> 1
    is_whole = not zigzag & 1 and count > 0 and count % _BLOCK_BYTES == 0 and offset + match.end() + count <= size_bytes
    if not is_whole or length not in (None, match.end() + count):
        return f"has {count} bytes by its header, which is not its size"
    return np.frombuffer(store.get_range(key, offset + match.end(), count), "<u4").reshape(-1, len(_SALT))


# --- whether a filter has the values


def _lacking(
    store: Store, key: str, footer: pq.FileMetaData, group: int, place: int, blocks: npt.NDArray[np.uint32]
) -> int:
    """How many different values of a column chunk its filter does not have. Columns in lists and maps are not read."""
    column = footer.schema.column(place)
    with (
        store.open(key) as content,
        pq.ParquetFile(content, metadata=footer, arrow_extensions_enabled=False) as parquet,
    ):
        found = parquet.read_row_group(group, columns=[column.path], use_threads=False)
    return sum(
        int((~_has(blocks, hashes)).sum())
        for chunk in found.column(0).chunks
        for hashes in _hashes(chunk, column.physical_type)
    )


def _hashes(array: pa.Array, physical: str) -> Iterator[Words]:
    """The hashes of the distinct values, as far as their bytes in the file are known."""
    while pa.types.is_struct(array.type):
        array = array.flatten()[0]
    if pa.types.is_nested(array.type) or pa.types.is_decimal(array.type) or pa.types.is_boolean(array.type):
        return
    values = pc.unique(array.drop_null())
    if physical in _NUMBERS:
        kind, stored = _NUMBERS[physical]
        numbers = (values.cast(kind) if values.type.bit_width != kind.bit_width else values.view(kind)).to_numpy(
            zero_copy_only=False
        )
        yield xxh64(np.ascontiguousarray(numbers.astype(stored)).view(np.uint8).reshape(len(numbers), -1))
    elif physical == "BYTE_ARRAY":
        texts = values.cast(pa.large_binary())
        lengths = pc.binary_length(texts)
        for length in pc.unique(lengths).to_pylist():
            same = texts.filter(pc.equal(lengths, length))
            yield xxh64(np.frombuffer(b"".join(same.to_pylist()), np.uint8).reshape(len(same), length))


def _has(blocks: npt.NDArray[np.uint32], hashes: Words) -> npt.NDArray[np.bool_]:
    block = blocks[(((hashes >> np.uint64(32)) * np.uint64(len(blocks))) >> np.uint64(32)).astype(np.int64)]
    bits = np.uint32(1) << ((hashes.astype(np.uint32)[:, None] * _SALT[None, :]) >> _BITS_LOG)
    found: npt.NDArray[np.bool_] = ((block & bits) == bits).all(axis=1)
    return found


# --- XXH64, of many texts of the same length at once

_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64, (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_STRIPE = 32


def xxh64(rows: npt.NDArray[np.uint8]) -> Words:
    """The hashes, with the seed 0, of texts of the same length: the rows of a matrix of bytes."""
    count, length = rows.shape
    offset = length - length % _STRIPE if length >= _STRIPE else 0
    with np.errstate(over="ignore"):
        hashes = _stripes(rows[:, :offset]) if offset else np.full(count, _P5)
        hashes = hashes + np.uint64(length)
        while length - offset >= 8:
            hashes = _rotated(hashes ^ _round(np.zeros(count, np.uint64), _words(rows, offset, 8)), 27) * _P1 + _P4
            offset += 8
        if length - offset >= 4:
            hashes = _rotated(hashes ^ (_words(rows, offset, 4) * _P1), 23) * _P2 + _P3
            offset += 4
        for place in range(offset, length):
            hashes = _rotated(hashes ^ (rows[:, place].astype(np.uint64) * _P5), 11) * _P1
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
        return hashes ^ (hashes >> np.uint64(32))


def _stripes(rows: npt.NDArray[np.uint8]) -> Words:
    zero = np.zeros(len(rows), np.uint64)
    lanes = [zero + _P1 + _P2, zero + _P2, zero, zero - _P1]
    for start in range(0, rows.shape[1], _STRIPE):
        lanes = [_round(lane, _words(rows, start + 8 * number, 8)) for number, lane in enumerate(lanes)]
    found = sum((_rotated(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)), zero)
    for lane in lanes:
        found = (found ^ _round(zero, lane)) * _P1 + _P4
    return found


def _round(state: Words, words: Words) -> Words:
    return _rotated(state + words * _P2, 31) * _P1


def _rotated(words: Words, by: int) -> Words:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _words(rows: npt.NDArray[np.uint8], start: int, size: int) -> Words:
    return np.ascontiguousarray(rows[:, start : start + size]).view(f"<u{size}")[:, 0].astype(np.uint64)
