"""Bounds of values inside variants as queries compare the values: after a cast.

Protocol: "Statistics for Variant Columns". The bounds are of the type that a file has the values with. They tell
something of a query if its cast changes no value between them, or at least not the order of the values.
"""

from __future__ import annotations

import math
from decimal import Decimal as PyDecimal
from typing import Any

from tahoe.protocol.statistics.stats import are_contradictory
from tahoe.protocol.statistics.variants import Typed
from tahoe.protocol.types.partitions import INTEGER_BITS
from tahoe.protocol.types.schema import BYTE, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, DataType, Decimal

_INTEGERS = frozenset({BYTE, SHORT, INTEGER, LONG})


def cast_bounds(low: Typed | None, high: Typed | None, target: DataType) -> tuple[Any, Any] | None:
    """Bounds of values after a cast that no value between them fails and that keeps their order; None if they tell
    nothing: other casts are not looked into.
    """
    if low is None or high is None or low[0] != high[0] or are_contradictory(low[1], high[1]):
        return None
    (source, least), (_, greatest) = low, high
    if source in _INTEGERS or isinstance(source, Decimal):
        return _cast_numbers(least, greatest, getattr(source, "scale", 0), target)
    if source == STRING and _is_cut_in_half(greatest):
        return None
    return (least, greatest) if source == target or (source, target) == (FLOAT, DOUBLE) else None


def _cast_numbers(least: Any, greatest: Any, scale: int, target: DataType) -> tuple[Any, Any] | None:
    if target == DOUBLE:  # the nearest doubles, of which no rounding misses
        return math.nextafter(float(least), -math.inf), math.nextafter(float(greatest), math.inf)
    if isinstance(target, Decimal):
        limit = 10 ** (target.precision - target.scale)
        fits = scale <= target.scale and -limit < least and greatest < limit
        return (PyDecimal(least), PyDecimal(greatest)) if fits else None
    if target in _INTEGERS and isinstance(least, int) and isinstance(greatest, int):
        limit = 1 << (INTEGER_BITS[str(target)] - 1)
        return (least, greatest) if -limit <= least and greatest < limit else None
    return None


def _is_cut_in_half(maximum: str) -> bool:
    """Whether the last character before the tie breaker may be half of one: delta-spark cuts between the two halves of
    a character, and has a question mark in the place of the first.
    """
    return maximum.endswith("?\U0010ffff")
