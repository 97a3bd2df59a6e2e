"""Columns as numbers and fixed-width keys that numpy sorts and searches as Spark sorts the values.

Nulls come first, NaN is above all other numbers, -0.0 equals 0.0, texts are ordered by their bytes. Of a text only the
first `TEXT_CHARACTERS` count, as in statistics, without zero characters at its end: two texts that differ only behind
them are equal here. Strings need not be valid UTF-8. Knows nothing of Delta.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# As many as statistics keep of a text by default: files cannot be told apart by what comes after them.
TEXT_CHARACTERS = 32

# Decimals of this precision fit into a 64-bit integer.
_SHORT_DECIMAL = 18

# A text key of this width is compared as one number.
_WORD = 8


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A column by ranks: `ranks` has 0 for a null and n for the n-th of `values`, which are distinct and ascending."""

    ranks: npt.NDArray[np.int32]
    values: pa.Array


def ranked(column: pa.ChunkedArray | pa.Array) -> Ranked:
    """Rank the values of a column.

    Raises:
        pa.ArrowNotImplementedError: the type has no order.
    """
    plain = _plain(column)
    array = plain if isinstance(plain, pa.Array) else pa.concat_arrays([*plain.chunks, pa.array([], plain.type)])
    if is_text(array.type):
        return _ranked_texts(array)
    valid = np.asarray(pc.is_valid(array))
    _, first, inverse = np.unique(_fixed(array)[valid], return_index=True, return_inverse=True)
    ranks = np.zeros(len(array), np.int32)
    ranks[valid] = inverse.reshape(-1) + 1
    return Ranked(ranks, array.take(pa.array(np.flatnonzero(valid)[first])))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings or bytes."""
    return any(test(kind) for test in (pa.types.is_large_string, pa.types.is_large_binary))


def as_bytes(texts: pa.Array) -> pa.Array:
    """Strings or bytes as bytes, which Python can hold though a string is not valid UTF-8. `view(texts.type)` is the
    way back.
    """
    return texts.cast(pa.large_binary())


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The column without dictionaries and views; texts with offsets of 64 bits, so that any number of them fits."""
    return column.cast(plain_type(column.type))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a type are ranked and searched."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if any(test(kind) for test in (pa.types.is_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)):
        return pa.large_binary()
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _ranked_texts(array: pa.Array) -> Ranked:
    encoded = array.dictionary_encode()
    short = _shortened(encoded.dictionary).dictionary_encode()
    order = np.asarray(pc.sort_indices(short.dictionary))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(1, len(order) + 1)
    codes = np.asarray(encoded.indices.fill_null(0))
    ranks = rank[np.asarray(short.indices)][codes] if len(order) else np.zeros(len(array), np.int32)
    ranks[np.asarray(array.is_null())] = 0
    return Ranked(ranks, short.dictionary.take(pa.array(order)))


def _shortened(values: pa.Array) -> pa.Array:
    """The part of each text that counts."""
    cut = _cut(values)
    if pc.any(pc.ends_with(cut, b"\0")).as_py():
        cut = pa.array([value.rstrip(b"\0") for value in cut.to_pylist()], cut.type)
    return cut.view(values.type)


def _cut(values: pa.Array) -> pa.Array:
    """The first characters of each text as bytes; if one is not valid UTF-8, so many bytes of each."""
    if pa.types.is_large_string(values.type):
        with suppress(pa.ArrowInvalid):
            values.validate(full=True)
            return as_bytes(pc.utf8_slice_codeunits(values, 0, TEXT_CHARACTERS))
    return pc.binary_slice(as_bytes(values), 0, TEXT_CHARACTERS)


def boundary(below: bytes | None, value: bytes) -> bytes:
    """The shortest text that is above `below` (None: a null), and at most `value`, which is larger. It does not end
    within a character.
    """
    if below is None:
        return b""
    length = (
        next((n for n, (left, right) in enumerate(zip(below, value, strict=False)) if left != right), len(below)) + 1
    )
    while length < len(value) and (value[length - 1] == 0 or 0x80 <= value[length] < 0xC0):
        length += 1
    return value[:length]


class Bounds:
    """Ascending values of a column, prepared so that many values are searched among them."""

    def __init__(self, values: pa.Array) -> None:
        self._type = plain_type(values.type)
        self._width = 0
        if is_text(self._type):
            longest = pc.max(pc.binary_length(values)).as_py()
            self._width = -(-(longest or 1) // _WORD) * _WORD
        self._keys = self._key(values.cast(self._type))

    def codes(self, array: pa.Array) -> npt.NDArray[np.intp]:
        """For each value the number of bounds that are at most as large; 0 for a null."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        plain = array.cast(self._type, safe=False)
        codes = np.searchsorted(self._keys, self._key(plain), side="right")
        if plain.null_count:
            codes[np.asarray(plain.is_null())] = 0
        return codes

    def _key(self, array: pa.Array) -> npt.NDArray[Any]:
        return _prefixes(array, self._width) if self._width else _fixed(array)


def _fixed(array: pa.Array) -> npt.NDArray[Any]:
    """Values of a fixed width as sortable keys; those under nulls are arbitrary."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return _fixed(array.cast(pa.uint8()))
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_floating(kind):
        return _stored_numbers(array, kind.to_pandas_dtype())
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return _stored_numbers(array, f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")
    raise pa.ArrowNotImplementedError(f"no order of {kind}")


def _stored_numbers(array: pa.Array, dtype: npt.DTypeLike, each: int = 1) -> npt.NDArray[Any]:
    """The values as Arrow stores them, `each` numbers for one value, without a copy. Those under nulls are
    arbitrary.
    """
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) * each, dtype)
    numbers: npt.NDArray[Any] = np.frombuffer(buffer, dtype)[array.offset * each : (array.offset + len(array)) * each]
    return numbers


def _decimals(array: pa.Array) -> npt.NDArray[Any]:
    """Unscaled values: as integers, or as sixteen bytes that are sorted like them."""
    words = _stored_numbers(array, "<u8", each=2).reshape(-1, 2)
    if array.type.precision <= _SHORT_DECIMAL:
        return words[:, 0].view("<i8")
    high = words[:, 1] ^ np.uint64(1 << 63)
    return np.stack([high, words[:, 0]], axis=1).astype(">u8").view("S16").reshape(-1)


def _prefixes(array: pa.Array, width: int) -> npt.NDArray[Any]:
    """The first bytes of texts, with zeros behind shorter ones."""
    _, offsets, data = array.buffers()
    keys = np.zeros((len(array), width), np.uint8)
    if data is not None and data.size and len(array):
        at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        texts, lengths = np.frombuffer(data, np.uint8), np.diff(at)
        for n in range(min(width, int(lengths.max()))):
            keys[:, n] = np.where(lengths > n, texts.take(at[:-1] + n, mode="clip"), 0)
    return keys.view(">u8").astype("u8").reshape(-1) if width == _WORD else keys.view(f"S{width}").reshape(-1)
