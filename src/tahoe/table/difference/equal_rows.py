"""Which rows are equal: each row as a number, which is the same for equal rows. Knows nothing of Delta.

As in SQL, NaN equals NaN, and 0.0 equals -0.0; as keys of groups, null equals null. Maps are equal if their entries
are, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.table.arrow.chunks import one_array
from tahoe.table.cleanup.text_hashes import text_hashes
from tahoe.table.writing.merge_keys import comparable

Codes = npt.NDArray[np.int64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_CODE_BYTES = 8


def column_codes(column: pa.Array | pa.ChunkedArray) -> Codes:
    """A number for each value, the same for equal ones."""
    values = one_array(column)
    kind = values.type
    if pa.types.is_struct(kind):
        children = [column_codes(child) for child in values.flatten()]
        return combined([_dense(values.is_valid()), *children])
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        offsets = np.asarray(values.offsets)
        return _list_codes(values.is_valid(), np.diff(offsets), entries.slice(offsets[0], offsets[-1] - offsets[0]))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0))
        return _list_codes(values.is_valid(), lengths, values.flatten())
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    return _dense(comparable(values))


def combined(codes: Sequence[Codes]) -> Codes:
    """A number for each row of several columns, dense from 0."""
    found = codes[0]
    for other in codes[1:]:
        found = _dense(pa.array(found * (int(other.max(initial=0)) + 1) + other))
    return found


def _dense(values: pa.Array) -> Codes:
    """Values as numbers from 0, in the order in which they appear."""
    return np.asarray(values.dictionary_encode(null_encoding="encode").indices).astype(np.int64)


def _list_codes(valid: pa.Array, lengths: npt.NDArray[np.integer], values: pa.Array) -> Codes:
    """Lists by the bytes of the numbers of their elements."""
    content = column_codes(values).tobytes()
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * _CODE_BYTES
    texts = pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(content)])
    return combined([_dense(valid), _dense(texts)])


def row_units(rows: pa.Table, units: int) -> Codes:
    """For each row one of several units, the same for equal rows, whichever table they are in."""
    hashes = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        hashes = (hashes ^ _hashes(one_array(column))) * _FACTOR
        hashes ^= hashes >> _HALF
    found: Codes = (hashes % np.uint64(units)).astype(np.int64)
    return found


def _hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    """Hashes of values that have simple ones; nothing of others, which then do not help to tell rows apart."""
    kind = values.type
    if pa.types.is_struct(kind):
        found = np.zeros(len(values), np.uint64)
        for child in values.flatten():
            found = (found ^ _hashes(child)) * _FACTOR
        return found
    if pa.types.is_binary(kind):
        values = values.view(pa.string())
    elif pa.types.is_decimal(kind):
        values = values.cast(pa.string())
    if pa.types.is_string(values.type):
        return text_hashes(pa.chunked_array([pc.fill_null(values, "")]))
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    if not pa.types.is_primitive(values.type):
        return np.zeros(len(values), np.uint64)
    width = values.type.bit_width // 8
    plain = pc.fill_null(comparable(values).view(f"int{8 * width}"), 0)
    return np.asarray(plain).astype(np.int64).view(np.uint64)
