"""Values that a column probably has, from the bounds of files. Pure: values in, values out.

The log knows no values but bounds. If all files have nearly the same bounds, these lie at the edges of what the column
has, and a query by one of them would skip far more files than most queries do. So the values are taken from between the
bounds of files: a file with many rows gives many of them, at positions that are spread evenly. Each value lies between
the bounds of a file, as a value of the column would.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

# Positions between bounds are multiples of 2 ** -32, so that arithmetic with integers is exact.
_BITS = 32

# The fractional part of the golden ratio: its multiples, without their whole part, are spread evenly however many there
# are.
_GOLDEN = int(0.6180339887498949 * (1 << _BITS))

# Strings are interpolated by so many bytes after those that both bounds have in common.
_TEXT_BYTES = 8

# Enough for every decimal of Delta, times a position.
_DECIMAL_DIGITS = 60


def files_by_rows(rows: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Numbers of files, in proportion to their rows, some of them several times."""
    ends = np.cumsum(rows)
    if not len(ends) or not ends[-1] > 0:
        return np.empty(0, np.int64)
    found: npt.NDArray[np.int64] = np.searchsorted(ends, (np.arange(count) + 0.5) / count * ends[-1], side="right")
    return found


def values_between(lows: Sequence[Any], highs: Sequence[Any]) -> list[Any]:
    """A value between each two bounds, all in ascending order. Bounds that are missing, out of order or not finite give
    none.
    """
    found = []
    for at, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low is not None and high is not None and type(low) is type(high) and _key(low) <= _key(high):
            value = between(low, high, at * _GOLDEN % (1 << _BITS))
            if value is not None:
                found.append(value)
    return sorted(found, key=_key)


def _key(value: Any) -> Any:
    """Strings are ordered by their bytes, as in Spark."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def between(low: Any, high: Any, position: int) -> Any:
    """The value at a position between two values of one type, `low` at 0 and `high` at 2 ** 32; None for a type without
    positions.
    """
    match low:
        case bool():
            return None
        case int():
            return low + ((high - low) * position >> _BITS)
        case float():
            return _float(low, high, position / (1 << _BITS))
        case Decimal():
            return _decimal(low, high, position)
        case datetime():
            return low + timedelta(microseconds=between(0, (high - low) // timedelta(microseconds=1), position))
        case date():
            return date.fromordinal(between(low.toordinal(), high.toordinal(), position))
        case str():
            return _text(low, high, position)
        case _:
            return None


def _float(low: float, high: float, share: float) -> float | None:
    value = low * (1 - share) + high * share  # high - low may be infinite
    return min(max(value, low), high) if isfinite(value) else None


def _decimal(low: Decimal, high: Decimal, position: int) -> Decimal:
    with localcontext(prec=_DECIMAL_DIGITS):
        value = low + (high - low) * position / (1 << _BITS)
        return min(max(value.quantize(low), low), high)


def _text(low: str, high: str, position: int) -> str:
    first, last = _key(low), _key(high)
    common = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    numbers = [int.from_bytes(text[common : common + _TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")) for text in (first, last)]
    middle = between(numbers[0], numbers[1], position).to_bytes(_TEXT_BYTES)
    value = (first[:common] + middle.rstrip(b"\0")).decode("utf-8", "ignore")
    return value if first <= _key(value) <= last else low
