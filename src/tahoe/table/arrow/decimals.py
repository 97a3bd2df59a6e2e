"""Casts to decimals, exact or refused.

Arrow's casts between decimals of 128 bits, and from texts, drop the bits above: what is left is another number that may
fit. With 256 bits nothing is dropped, since a decimal of 38 digits gets at most 38 more behind the point.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as PyDecimal

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.types.partitions import parse_decimal
from tahoe.protocol.types.schema import Decimal

_WIDE_DIGITS = 76

# No double has more digits before or after its point, as it is written.
DOUBLE_DIGITS = 345
_HALF_UP = Context(prec=2 * DOUBLE_DIGITS, rounding=ROUND_HALF_UP)


def wide(values: pa.Array) -> pa.Array:
    """Whole numbers or decimals, with room for every digit that a cast adds."""
    return values.cast(pa.decimal256(_WIDE_DIGITS, values.type.scale if pa.types.is_decimal(values.type) else 0))


def exact_decimal(values: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Whole numbers or decimals as another decimal.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit, or would be rounded.
    """
    return values if values.type == kind else wide(values).cast(pa.decimal256(_WIDE_DIGITS, kind.scale)).cast(kind)


def rounded_decimal(values: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Numbers or texts as a decimal, rounded half up as Spark rounds them.

    Raises:
        pyarrow.ArrowInvalid, OverflowError, ValueError, InvalidOperation: a value does not fit, or is no number.
    """
    if pa.types.is_string(values.type):
        encoded, target = values.dictionary_encode(), Decimal(kind.precision, kind.scale)
        return pa.array([parse_decimal(text, target) for text in encoded.dictionary.to_pylist()], kind).take(
            encoded.indices
        )
    if pa.types.is_floating(values.type):
        try:
            return pa.array([None if v is None else decimal_of_scale(v, kind.scale) for v in values.to_pylist()], kind)
        except (InvalidOperation, pa.ArrowInvalid) as error:
            raise OverflowError(f"a number does not fit into decimal({kind.precision},{kind.scale})") from error
    if pa.types.is_decimal(values.type) and values.type.scale > kind.scale:
        values = pc.round(wide(values), kind.scale, round_mode="half_towards_infinity")
    return exact_decimal(values, kind)


def decimal_of_scale(value: float, scale: int) -> PyDecimal:
    """A double, as it is written, with so many digits behind the point."""
    return PyDecimal(repr(value)).quantize(PyDecimal(1).scaleb(-scale), context=_HALF_UP)
