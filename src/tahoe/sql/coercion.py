"""The types of SQL's expressions: those of literals, and those to which Spark 4 casts values of several types in ANSI
mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal as PyDecimal
from typing import Any

from tahoe.protocol.types.expressions import Expression, Value
from tahoe.protocol.types.partitions import INTEGER_BITS
from tahoe.protocol.types.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Geospatial,
    Map,
    Primitive,
    Struct,
)
from tahoe.sql.literals import Value as SqlLiteral

INTEGERS: Sequence[DataType] = (BYTE, SHORT, INTEGER, LONG)
DIGITS: Mapping[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}


def common_type(one: DataType, other: DataType) -> DataType | None:
    """The type to which Spark casts values of two types in ANSI mode; None if it refuses them."""
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        scale = max(one.scale, other.scale)
        digits = scale + max(one.precision - one.scale, other.precision - other.scale)
        return Decimal(digits, scale) if digits <= DECIMAL_PRECISION_MAX else None
    if is_number(one) and is_number(other):
        return _wider(one, other)
    if STRING in (one, other):
        kind = one if other == STRING else other
        return (
            (LONG if kind in INTEGERS else DOUBLE)
            if is_number(kind)
            else None
            if isinstance(kind, Struct | Array | Map)
            else kind
        )
    if {one, other} <= {DATE, TIMESTAMP, TIMESTAMP_NTZ}:
        return TIMESTAMP if TIMESTAMP in (one, other) else TIMESTAMP_NTZ
    return None


def _wider(one: DataType, other: DataType) -> DataType | None:
    if one in INTEGERS and other in INTEGERS:
        return INTEGERS[max(INTEGERS.index(one), INTEGERS.index(other))]
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        decimal, kind = (one, other) if isinstance(one, Decimal) else (other, one)
        return common_type(decimal, Decimal(DIGITS[kind], 0)) if kind in INTEGERS else DOUBLE
    return DOUBLE


def folded_comparison(symbol: str, left: Expression, right: Expression) -> bool | None:
    """What Spark makes of the comparison of an integer with a decimal constant that no LONG reaches: true or false,
    also where the integer is NULL. None for every other comparison, which it computes.
    """
    if symbol not in _TURNED:
        return None
    if isinstance(left, Value):
        symbol, left, right = _TURNED[symbol], right, left
    if (
        left.type not in INTEGERS
        or not isinstance(right, Value)
        or not isinstance(right.type, Decimal)
        or right.value is None
    ):
        return None
    if right.value > _LONG_MAX:
        return symbol in ("<", "<=")
    return symbol in (">", ">=") if right.value < -_LONG_MAX - 1 else None


def is_beyond_long(number: PyDecimal | float) -> bool:
    """Whether a number may be such a constant."""
    return (
        isinstance(number, PyDecimal)
        and number.is_finite()
        and _LONG_MAX < number.copy_abs() < 10**DECIMAL_PRECISION_MAX
    )


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LONG_MAX = (1 << 63) - 1


def is_cast_here(given: DataType, wanted: DataType) -> bool:
    """Whether Spark makes a cast, and it is computed without Spark, with the same results."""
    if given in (wanted, VOID):
        return True
    if (
        isinstance(given, Struct | Array | Map | Geospatial)
        or isinstance(wanted, Struct | Array | Map | Geospatial)
        or VARIANT in (given, wanted)
    ):
        return False
    if wanted == STRING:
        return given in INTEGERS or given in (BOOLEAN, DATE)
    return not ((is_number(given) and wanted == TIMESTAMP) or (given == TIMESTAMP and is_number(wanted)))


def is_number(kind: DataType) -> bool:
    return isinstance(kind, Decimal) or kind in INTEGERS or kind in (FLOAT, DOUBLE)


def number_of(number: PyDecimal, text: str) -> Value:
    """A number literal: an integer, a decimal, or with an exponent a double."""
    if "e" in text.lower():
        return Value(float(number), DOUBLE)
    if "." in text:
        return Value(number, decimal_type(number))
    whole = int(number)
    for kind in (INTEGER, LONG):
        assert isinstance(kind, Primitive)
        if -(1 << (INTEGER_BITS[kind.name] - 1)) <= whole < 1 << (INTEGER_BITS[kind.name] - 1):
            return Value(whole, kind)
    return Value(number, decimal_type(number))


def decimal_type(number: PyDecimal) -> Decimal:
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    return Decimal(max(len(digits) + max(0, int(exponent)), scale, 1), scale)


def literal_of(given: Value) -> SqlLiteral | None:
    """A constant as a literal whose place among the values of another type can be found."""
    if is_number(given.type):
        value = given.value
        return SqlLiteral("number", value if isinstance(value, float) and value - value != 0 else PyDecimal(str(value)))
    kinds: Mapping[DataType, Any] = {
        STRING: "text",
        BOOLEAN: "boolean",
        DATE: "date",
        TIMESTAMP: "timestamp",
        TIMESTAMP_NTZ: "timestamp_ntz",
    }
    return SqlLiteral(kinds[given.type], given.value) if given.type in kinds else None
