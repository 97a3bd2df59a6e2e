"""Bounds of the values inside variants: their paths and their binary form.

Protocol: "Statistics for Variant Columns"; Parquet: "Variant Binary Encoding". The bounds of a variant column are an
object whose keys are paths and whose values are primitive. A path has bounds only if its values have one type in all
rows of the file. In JSON the object is its metadata and its value, together in Z85.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any, TypeAlias

from tahoe.protocol.log.deletion_vector import z85_decode, z85_encode
from tahoe.protocol.types.partitions import from_days, from_micros, to_days, to_micros
from tahoe.protocol.types.predicate import is_nan
from tahoe.protocol.types.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
)

# A value inside a variant, and the type that it is stored with.
Typed: TypeAlias = tuple[DataType, Any]

# By normalized path. Values are those of the predicates of `tahoe.protocol.types.predicate`.
VariantBounds: TypeAlias = Mapping[str, Typed]

# The number of paths of a variant that have bounds: as many as columns have statistics by default.
PATHS_MAX = 32


# --- paths


def normalized_path(keys: Iterable[str]) -> str:
    """The normalized path of RFC 9535 to a value in nested objects."""
    return "$" + "".join(f"['{key.translate(_ESCAPES)}']" for key in keys)


_ESCAPES = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    **{ord(plain): "\\" + letter for plain, letter in zip("\b\f\n\r\t\\'", "bfnrt\\'", strict=True)},
}


# --- binary form

_SHORT_STRING, _OBJECT = 1, 2
_VERSION = 1
_SHORT_STRING_BYTES_MAX = 63
_SMALL_OBJECT_FIELDS_MAX = 255
_STRING_NUMBER = 16

# The types of fixed size that have bounds, by their numbers.
_FIXED: Mapping[int, tuple[DataType, struct.Struct]] = {
    3: (BYTE, struct.Struct("<b")),
    4: (SHORT, struct.Struct("<h")),
    5: (INTEGER, struct.Struct("<i")),
    6: (LONG, struct.Struct("<q")),
    7: (DOUBLE, struct.Struct("<d")),
    11: (DATE, struct.Struct("<i")),
    12: (TIMESTAMP, struct.Struct("<q")),
    13: (TIMESTAMP_NTZ, struct.Struct("<q")),
    14: (FLOAT, struct.Struct("<f")),
}
_NUMBERS = {data_type: number for number, (data_type, _) in _FIXED.items()}

# Times are numbers in the binary form.
_FROM_NUMBERS: Mapping[DataType, Callable[[int], Any]] = {
    DATE: from_days,
    TIMESTAMP: lambda micros: from_micros(micros, UTC),
    TIMESTAMP_NTZ: lambda micros: from_micros(micros, None),
}
_TO_NUMBERS: Mapping[DataType, Callable[[Any], int]] = {DATE: to_days, TIMESTAMP: to_micros, TIMESTAMP_NTZ: to_micros}

# The sizes of decimals, and their greatest precisions, by the numbers of their types.
_DECIMALS: Mapping[int, tuple[int, int]] = {8: (4, 9), 9: (8, 18), 10: (16, 38)}
_EXACT = Context(prec=2 * 38)


def encode_bounds(bounds: VariantBounds) -> str:
    """Bounds as a variant in Z85, with its metadata before it."""
    fields = sorted((path.encode("utf-8", "surrogatepass"), _encoded(*value)) for path, value in bounds.items())
    keys, values = [key for key, _ in fields], [value for _, value in fields]
    ends = _ends(keys)
    width = _width(max(ends[-1], len(keys)))
    metadata = bytes([_VERSION | (width - 1) << 6]) + _numbers([len(keys), *ends], width) + b"".join(keys)
    ends, is_large = _ends(values), len(keys) > _SMALL_OBJECT_FIELDS_MAX
    id_width, width = _width(len(keys)), _width(ends[-1])
    header = _OBJECT | (width - 1) << 2 | (id_width - 1) << 4 | is_large << 6
    numbers = _numbers([len(keys)], 4 if is_large else 1) + _numbers(range(len(keys)), id_width) + _numbers(ends, width)
    return z85_encode(metadata + bytes([header]) + numbers + b"".join(values))


def _ends(parts: Iterable[bytes]) -> list[int]:
    """Where each part begins, and where the last one ends."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return ends


def _width(number: int) -> int:
    """The number of bytes that a number takes."""
    return max(1, (number.bit_length() + 7) // 8)


def _numbers(numbers: Iterable[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _encoded(data_type: DataType, value: Any) -> bytes:
    if data_type == STRING:
        text = str(value).encode("utf-8", "surrogatepass")
        if len(text) <= _SHORT_STRING_BYTES_MAX:
            return bytes([_SHORT_STRING | len(text) << 2]) + text
        return bytes([_STRING_NUMBER << 2]) + len(text).to_bytes(4, "little") + text
    if isinstance(data_type, Decimal):
        number, size = next((n, size) for n, (size, digits) in _DECIMALS.items() if data_type.precision <= digits)
        unscaled = int(PyDecimal(value).scaleb(data_type.scale, _EXACT))
        return bytes([number << 2, data_type.scale]) + unscaled.to_bytes(size, "little", signed=True)
    number = _NUMBERS[data_type]
    plain = _TO_NUMBERS[data_type](value) if data_type in _TO_NUMBERS else value
    return bytes([number << 2]) + _FIXED[number][1].pack(plain)


@dataclass(frozen=True, slots=True)
class _Object:
    """Where the parts of a variant are in its bytes, which begin with its metadata.

    Attributes:
        value: where the value begins.
        end: where it ends.
        fields: the keys, and where their values begin.
    """

    value: int
    end: int
    fields: Sequence[tuple[bytes, int]]


def _object(data: bytes) -> _Object:
    """
    Raises:
        ValueError: the variant is not an object, or damaged.
    """
    if len(data) < 2:
        raise ValueError("there is no variant")
    width = (data[0] >> 6) + 1
    (count,) = _read_numbers(data, 1, width, 1)
    ends = _read_numbers(data, 1 + width, width, count + 1)
    names = 1 + (count + 2) * width
    value = names + ends[-1]
    if value >= len(data) or data[value] & 3 != _OBJECT:
        raise ValueError("the variant is not an object")
    header = data[value] >> 2
    width, id_width, count_width = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header >> 4 & 1 else 1
    at = value + 1 + count_width
    (fields,) = _read_numbers(data, value + 1, count_width, 1)
    ids = _read_numbers(data, at, id_width, fields)
    places = _read_numbers(data, at + fields * id_width, width, fields + 1)
    if max(ids, default=0) > max(0, count - 1):
        raise ValueError("a key is not in the metadata")
    at += fields * id_width + (fields + 1) * width
    keys = [data[names + ends[number] : names + ends[number + 1]] for number in ids]
    return _Object(value, at + places[-1], [(key, at + place) for key, place in zip(keys, places, strict=False)])


def _read_numbers(data: bytes, at: int, width: int, count: int) -> list[int]:
    if at + width * count > len(data):
        raise ValueError("the variant is cut off")
    return [int.from_bytes(data[place : place + width], "little") for place in range(at, at + width * count, width)]


def bounds_in(data: bytes) -> dict[str, Typed]:
    """The bounds in the binary form, without values of types that have none.

    Raises:
        ValueError: it is not that of an object.
    """
    found = {key.decode("utf-8", "surrogatepass"): _value(data, at) for key, at in _object(data).fields}
    return {path: value for path, value in found.items() if value is not None}


def variant_bounds_of(text: str) -> VariantBounds | None:
    """The bounds that a log has as a text; None if it is not the text of an object."""
    try:
        return bounds_in(z85_decode(text))
    except ValueError:
        return None


def bound_of(data: bytes | None, path: str) -> Typed | None:
    """The bound of one path in the binary form; None if there is none."""
    if data is None:
        return None
    key = path.encode("utf-8", "surrogatepass")
    try:
        return next((_value(data, at) for name, at in _object(data).fields if name == key), None)
    except ValueError:
        return None


def parts_of(data: bytes) -> tuple[bytes, bytes]:
    """The metadata and the value of an object, without the zeros behind them.

    Raises:
        ValueError: it is not an object.
    """
    found = _object(data)
    return data[: found.value], data[found.value : found.end]


def _value(data: bytes, at: int) -> Typed | None:
    """A value; None if its type has no bounds, or it is not a number.

    Raises:
        ValueError: it is cut off, or no text.
    """
    kind, number = (data[at] & 3, data[at] >> 2) if at < len(data) else (0, 0)
    if kind == _SHORT_STRING:
        return STRING, _piece(data, at + 1, number).decode()
    if kind != 0:
        return None
    if number == _STRING_NUMBER:
        return STRING, _piece(data, at + 5, int.from_bytes(_piece(data, at + 1, 4), "little")).decode()
    if number in _DECIMALS:
        size, precision = _DECIMALS[number]
        (scale,) = _piece(data, at + 1, 1)
        unscaled = int.from_bytes(_piece(data, at + 2, size), "little", signed=True)
        return (Decimal(precision, scale), PyDecimal(unscaled).scaleb(-scale, _EXACT)) if scale <= precision else None
    if number not in _FIXED:
        return None
    data_type, layout = _FIXED[number]
    (value,) = layout.unpack(_piece(data, at + 1, layout.size))
    if is_nan(value):
        return None
    return data_type, _FROM_NUMBERS[data_type](value) if data_type in _FROM_NUMBERS else value


def _piece(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("the variant is cut off")
    return data[at : at + size]
