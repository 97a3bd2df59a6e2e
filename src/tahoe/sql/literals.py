"""Literals of SQL, and the position of each among the values of a column's type.

A literal is compared as Spark compares it: a string with a date, a number or a timestamp is cast to the column's type;
numbers are compared by their exact values; timestamps without a time zone are in `zone`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any, Literal, TypeAlias

from tahoe.protocol.types.partitions import (
    BLANKS,
    DAY_MICROS,
    INTEGER_BITS,
    cast_boolean,
    from_days,
    from_local,
    from_micros,
    parse_date,
    parse_timestamp,
    parse_timestamp_ntz,
    to_days,
    to_local,
    to_micros,
)
from tahoe.protocol.types.predicate import And, Column, Comparison, Constant, IsNull, Not, Operator, Or, Predicate
from tahoe.protocol.types.predicate import Literal as PredicateLiteral
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL_PRECISION_MAX,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
    Primitive,
)

Kind: TypeAlias = Literal["null", "number", "text", "boolean", "date", "timestamp", "timestamp_ntz", "binary"]

# Enough digits to rescale any number exactly.
_WIDE = Context(prec=200)


@dataclass(frozen=True, slots=True)
class Value:
    """A literal: its kind as written, and its value. Numbers are Decimals; NaN and infinities are floats."""

    kind: Kind
    value: Any


@dataclass(frozen=True, slots=True)
class Placed:
    """The position of a literal among the values of a column's type.

    If `exact`, it equals the value `at`; else it lies between `at` and the next larger value. `beyond` is -1 or 1 for a
    literal that is smaller or larger than all values of the type.
    """

    at: Any
    exact: bool = True
    beyond: Literal[-1, 0, 1] = 0

    @property
    def is_value(self) -> bool:
        """Whether the literal equals a value of the type."""
        return self.exact and not self.beyond


def value_of(value: Any, data_type: DataType) -> Value:
    """The literal for a value of a type."""
    if isinstance(value, float) and math.isfinite(value):
        return Value("number", PyDecimal(repr(float(value))))
    if isinstance(value, PyDecimal | float):
        return Value("number", value)
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and isinstance(data_type, Primitive)
        and data_type.name in INTEGER_BITS
    ):
        return Value("number", PyDecimal(value))
    kinds: Mapping[DataType, Kind] = {
        BOOLEAN: "boolean",
        DATE: "date",
        TIMESTAMP: "timestamp",
        TIMESTAMP_NTZ: "timestamp_ntz",
        BINARY: "binary",
        STRING: "text",
    }
    return Value(kinds[data_type], value)


def place(literal: Value, data_type: DataType, zone: tzinfo) -> Placed | None:
    """The position of a literal; None if Spark would cast the column instead of the literal, or would refuse."""
    name = data_type.name if isinstance(data_type, Primitive) else ""
    if isinstance(data_type, Decimal) or name in INTEGER_BITS:
        number = _number(literal) if name == "" or literal.kind != "text" else _whole(literal.value)
        if number is None:
            return None
        outside = _beyond(number)
        if outside is not None:
            return outside
        assert isinstance(number, PyDecimal)
        return (
            _place_decimal(number, data_type)
            if isinstance(data_type, Decimal)
            else _place_integer(number, INTEGER_BITS[name])
        )
    if name in ("float", "double"):
        number = _number(literal)
        return None if number is None else _place_double(number)
    return _place_other(literal, name, zone)


def _place_other(literal: Value, name: str, zone: tzinfo) -> Placed | None:
    """A literal that is not a number as a value of a type, by the casts that Spark makes; None if there is no such cast
    here.
    """
    value = literal.value
    match name, literal.kind:
        case (
            ("string", "text")
            | ("boolean", "boolean")
            | ("binary", "binary")
            | ("date", "date")
            | ("timestamp", "timestamp")
        ):
            return Placed(value)
        case "boolean", "text":
            return Placed(cast_boolean(value))
        case "binary", "text":
            return Placed(value.encode())
        case "date", "text":
            return Placed(parse_date(value))
        case "date", "timestamp" | "timestamp_ntz":
            return _place_in_day(_local(literal, zone))
        case "timestamp", "text":
            return Placed(parse_timestamp(value, zone))
        case "timestamp", "timestamp_ntz" | "date":
            return Placed(from_local(_local(literal, zone), zone))
        case "timestamp_ntz", "text":
            return Placed(parse_timestamp_ntz(value))
        case "timestamp_ntz", "timestamp_ntz" | "timestamp" | "date":
            return Placed(from_micros(_local(literal, zone), None))
        case _:
            return None


def _number(literal: Value) -> PyDecimal | float | None:
    """The number that a literal denotes, also as a string; NaN and infinities are floats."""
    match literal.kind:
        case "number":
            found: PyDecimal | float = literal.value
            return found
        case "text":
            if "_" in literal.value or not literal.value.isascii():  # Python's numbers may have these, Spark's not
                raise ValueError(literal.value)
            number = PyDecimal(literal.value.strip(BLANKS))
            return number if number.is_finite() else float(number)
        case _:
            return None


def _whole(text: str) -> PyDecimal:
    """The number that a text denotes beside integers: Spark casts it to a LONG."""
    if not _WHOLE.fullmatch(text.strip(BLANKS)) or not -(1 << 63) <= int(text.strip(BLANKS)) < 1 << 63:
        raise ValueError(text)
    return PyDecimal(text.strip(BLANKS))


_WHOLE = re.compile("[+-]?[0-9]+")


def _beyond(number: PyDecimal | float) -> Placed | None:
    """The position of a number outside every exact type: NaN (above all numbers), infinities, and numbers with too many
    digits.
    """
    if isinstance(number, float):
        return Placed(None, beyond=-1 if number == -math.inf else 1)
    if number.adjusted() > DECIMAL_PRECISION_MAX:
        return Placed(None, beyond=-1 if number < 0 else 1)
    return None


def _place_integer(number: PyDecimal, bits: int) -> Placed:
    below = math.floor(number)
    limit = 1 << (bits - 1)
    if not -limit <= below < limit:
        return Placed(None, beyond=-1 if below < 0 else 1)
    return Placed(below, exact=below == number)


def _place_double(number: PyDecimal | float) -> Placed:
    """The nearest double. A finite number beyond the last one is none of the infinities, but beside one."""
    found = float(number)
    if math.isinf(found) and isinstance(number, PyDecimal):
        return Placed(-math.inf if found < 0 else sys.float_info.max, exact=False)
    return Placed(found)


def _place_decimal(number: PyDecimal, data_type: Decimal) -> Placed:
    scaled = math.floor(number.scaleb(data_type.scale, _WIDE))
    if abs(scaled) >= 10**data_type.precision:
        return Placed(None, beyond=-1 if scaled < 0 else 1)
    below = PyDecimal(scaled).scaleb(-data_type.scale, _WIDE)
    return Placed(below, exact=below == number)


def _place_in_day(local_micros: int) -> Placed:
    days, rest = divmod(local_micros, DAY_MICROS)
    return Placed(from_days(days), exact=rest == 0)


def _local(literal: Value, zone: tzinfo) -> int:
    """A date or a timestamp as local time in the zone, in microseconds."""
    match literal.kind:
        case "date":
            return to_days(literal.value) * DAY_MICROS
        case "timestamp":
            return to_local(literal.value, zone)
        case _:
            return to_micros(literal.value)


def compared_at(symbol: Operator, column: Column, placed: Placed) -> Predicate:
    """A comparison with a literal by its position among the values of the column's type."""
    if placed.is_value:
        return Comparison(symbol, column, PredicateLiteral(placed.at))
    if symbol == "<=>":
        return Constant(False)
    if symbol == "=":
        return false_unless_null(column)
    is_less = symbol in ("<", "<=")
    if placed.beyond:
        return _true_unless_null(column) if is_less == (placed.beyond > 0) else false_unless_null(column)
    return Comparison("<=" if is_less else ">", column, PredicateLiteral(placed.at))


def false_unless_null(column: Column) -> Predicate:
    return And((IsNull(column), Constant(None)))


def _true_unless_null(column: Column) -> Predicate:
    return Or((Not(IsNull(column)), Constant(None)))
