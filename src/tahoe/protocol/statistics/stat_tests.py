"""Tests on a file's statistics: can the file contain a row for which a predicate is true?

Protocol: "Per-file Statistics" (and paper §4). `skipping` builds the test for a predicate. The kinds of test are few,
so that a test is evaluated here for one file and in the table ring for a million files at once:

- `Bound`: compares the file's minimum or maximum of a column with a value.
- `OneOf`: the minimum or maximum is one of these values.
- `Overlaps`: one of these ranges has a value between minimum and maximum.
- `HasNulls`, `HasValues`: the column may contain a null, or a value that is not null.
- `IsVaried`: the column does not contain one given value only.
- `MayHoldInside`: a test on the bounds of values inside a variant.
- `OnPartition`: a predicate on partition columns only, whose values are known exactly; keeps the file if it is true.
- `Both`, `Either`: all parts, or at least one part, must keep the file. `KEEP` and `DROP` always and never keep it.

**A leaf whose statistic is missing keeps the file.** Columns are identified by their physical paths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tahoe.protocol.log.deletion_vector import z85_decode
from tahoe.protocol.statistics.stats import Path, Statistics
from tahoe.protocol.statistics.variant_casts import cast_bounds
from tahoe.protocol.statistics.variants import bound_of
from tahoe.protocol.types import predicate as p
from tahoe.protocol.types.predicate import Predicate
from tahoe.protocol.types.schema import DOUBLE, FLOAT, DataType

BoundName: TypeAlias = Literal["min", "max"]
Order: TypeAlias = Literal["<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Bound:
    """`statistic operator value`, such as `min <= 5`. The value has the column's type; a number may have another
    width.
    """

    statistic: BoundName
    path: Path
    operator: Order
    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    statistic: BoundName
    path: Path
    values: frozenset[Any]


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The range from minimum to maximum overlaps one of these ranges: those from `least[n]` to `greatest[n]`, both in
    ascending order.
    """

    path: Path
    least: tuple[Any, ...]
    greatest: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class HasNulls:
    """`null_count != 0`."""

    path: Path


@dataclass(frozen=True, slots=True)
class HasValues:
    """`null_count != num_records`."""

    path: Path


@dataclass(frozen=True, slots=True)
class IsVaried:
    """`not (min = value and max = value)`."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class MayHoldInside:
    """The bounds of the values at a path inside a variant pass a test, after a cast.

    Attributes:
        path: of the variant column.
        inside: the normalized path inside the variant.
        type: to which the values are cast.
        test: on a column of this type at the path `()`. `of_numbers` is the same for values that cannot be NaN, because
            they are not stored as floats.
    """

    path: Path
    inside: str
    type: DataType
    test: StatTest
    of_numbers: StatTest

    def passes(self, low: bytes | None, high: bytes | None) -> bool:
        """Whether a file with these bounds, variants in their binary form, may have a matching row."""
        least, greatest = bound_of(low, self.inside), bound_of(high, self.inside)
        found = cast_bounds(least, greatest, self.type)
        if least is None or found is None:
            return True
        test = self.test if least[0] in (FLOAT, DOUBLE) else self.of_numbers
        return may_match(test, Statistics(min_values={(): found[0]}, max_values={(): found[1]}))


@dataclass(frozen=True, slots=True)
class OnPartition:
    """A predicate with logical names. Keeps the file if it is true, not false or null, for the typed partition
    values.
    """

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Both:
    parts: tuple[StatTest, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[StatTest, ...]


@dataclass(frozen=True, slots=True)
class Always:
    keep: bool


Leaf: TypeAlias = "Bound | OneOf | Overlaps | HasNulls | HasValues | IsVaried | MayHoldInside"
StatTest: TypeAlias = "Leaf | OnPartition | Both | Either | Always"

KEEP, DROP = Always(True), Always(False)


def paths_in(test: StatTest) -> frozenset[Path]:
    """The physical paths of the columns whose statistics a test reads."""
    match test:
        case Both(parts) | Either(parts):
            return frozenset(path for part in parts for path in paths_in(part))
        case Bound() | OneOf() | Overlaps() | HasNulls() | HasValues() | IsVaried() | MayHoldInside():
            return frozenset({test.path})
        case _:
            return frozenset()


def may_match(test: StatTest, statistics: Statistics | None, partition: Mapping[str, Any] | None = None) -> bool:
    """Whether a file may contain a row for which the predicate is true.

    Args:
        partition: the file's typed partition values by logical name.
    """
    match test:
        case Always(keep):
            return keep
        case Both(parts):
            return all(may_match(part, statistics, partition) for part in parts)
        case Either(parts):
            return any(may_match(part, statistics, partition) for part in parts)
        case OnPartition(predicate):
            return _holds_for(predicate, partition or {})
        case _:
            return statistics is None or _leaf(test, statistics)


def _holds_for(predicate: Predicate, partition: Mapping[str, Any]) -> bool:
    try:
        return p.evaluate(predicate, partition) is True
    except TypeError:  # a value that Python's calendar cannot represent
        return True


def _leaf(test: Leaf, statistics: Statistics) -> bool:
    """Whether a file with these statistics may have a matching row. It may if the statistic is missing."""
    match test:
        case HasNulls(path):
            return statistics.null_count.get(path) != 0
        case HasValues(path):
            count = statistics.null_count.get(path)
            return count is None or count != statistics.num_records
        case IsVaried(path, value):
            bounds = statistics.min_values.get(path), statistics.max_values.get(path)
            return any(bound is None or not _compares("=", bound, value) for bound in bounds)
        case OneOf(name, path, values):
            bound = _bound(statistics, name, path)
            return bound is None or bound in values
        case Overlaps(path, least, greatest):
            low, high = statistics.min_values.get(path), statistics.max_values.get(path)
            return (
                low is None or high is None or p.is_nan(low) or p.is_nan(high) or _overlaps(low, high, least, greatest)
            )
        case Bound(name, path, operator, value):
            bound = _bound(statistics, name, path)
            return bound is None or _compares(operator, bound, value)
        case MayHoldInside(path):
            return test.passes(*(_variant(_bound(statistics, name, path)) for name in ("min", "max")))


def _variant(text: Any) -> bytes | None:
    """The binary form of a variant in a log; None if there is none."""
    try:
        return z85_decode(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _bound(statistics: Statistics, name: BoundName, path: Path) -> Any:
    return (statistics.min_values if name == "min" else statistics.max_values).get(path)


def _overlaps(low: Any, high: Any, least: tuple[Any, ...], greatest: tuple[Any, ...]) -> bool:
    try:
        first = bisect_left(greatest, low)  # the lowest range that does not end before the minimum
        return first < len(least) and bool(least[first] <= high)
    except TypeError:  # a bound that Python's calendar cannot represent proves nothing
        return True


def _compares(operator: p.Operator, bound: Any, value: Any) -> bool:
    try:
        return p.compare(operator, bound, value) is True
    except TypeError:  # a bound that Python's calendar cannot represent proves nothing
        return operator != "="
