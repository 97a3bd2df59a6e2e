"""How many values lie in which range, with round limits. Pure: numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# More bars than this are hard to read and to print as a table.
BARS_MAX = 16

# Values of about the same size, the largest one less than so many times the smallest, are divided into some ranges of
# equal length. These are not shorter than the given part of the values.
_NARROW_MAX = 4
_NARROW_BARS_MAX = 8
_FINENESS_MAX = 20

# Only a wrong log has larger values.
_VALUE_MAX = 1 << 62
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """How many values are at least `low` and less than `high`."""

    low: int
    high: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The distribution of some non-negative integers.

    Attributes:
        bars: adjacent ranges, the first and the last one with values; empty without values.
        unknown: how many further values are unknown.
        smallest, median, largest: of the known values; None without any.
    """

    bars: Sequence[Bar] = ()
    unknown: int = 0
    smallest: int | None = None
    median: int | None = None
    largest: int | None = None

    @property
    def count(self) -> int:
        """The number of known values."""
        return sum(bar.count for bar in self.bars)


def histogram(values: npt.NDArray[np.int64], *, unknown: int = 0, limits: Sequence[int] | None = None) -> Histogram:
    """The distribution of values; negative ones, which only a wrong log has, count as 0.

    Args:
        limits: of the ranges, in order, around all values; if None, round numbers: equally spaced for values of about
            the same size, and otherwise 0, 1, 2, 5, 10, 20, ..., or powers of ten if these are too many.
    """
    if not len(values):
        return Histogram(unknown=unknown)
    known = np.sort(np.clip(values, 0, _VALUE_MAX))
    edges = np.array(_around(int(known[0]), int(known[-1])) if limits is None else limits, np.int64)
    counts = np.diff(np.searchsorted(known, edges, side="left"))
    counts[-1] += len(known) - np.searchsorted(
        known, edges[-1], side="left"
    )  # the largest limit belongs to the last range
    used = np.flatnonzero(counts)
    ranges = zip(
        edges[used[0] : used[-1] + 1], edges[used[0] + 1 : used[-1] + 2], counts[used[0] : used[-1] + 1], strict=True
    )
    bars = [Bar(low=int(low), high=int(high), count=int(count)) for low, high, count in ranges]
    return Histogram(
        bars=tuple(bars),
        unknown=unknown,
        smallest=int(known[0]),
        median=int(known[len(known) // 2]),
        largest=int(known[-1]),
    )


def _around(low: int, high: int) -> list[int]:
    """Round limits, from the last one that is not above `low` to the first one above `high`."""
    if high < low * _NARROW_MAX:
        step = next(
            step for step in _limits((1, 2, 5)) if step * _NARROW_BARS_MAX > high - low and step * _FINENESS_MAX >= high
        )
        return [*range(low // step * step, high // step * step + step + 1, step)]
    for steps in ((1, 2, 5), (1,)):
        limits = list(_limits(steps))
        start = max(at for at, limit in enumerate(limits) if limit <= low)
        end = next((at for at, limit in enumerate(limits) if limit > high), len(limits) - 1)
        if end - start <= BARS_MAX:
            break
    return limits[start : end + 1]


def _limits(steps: Sequence[int]) -> Iterator[int]:
    """0, the steps times all powers of ten, and the largest long."""
    yield 0
    power = 1
    while power <= _LONG_MAX:
        yield from (step * power for step in steps if step * power < _LONG_MAX)
        power *= 10
    yield _LONG_MAX
