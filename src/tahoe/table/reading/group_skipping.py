"""Skips row groups of checkpoints: which of them may hold a file that a test on statistics keeps?

Protocol: "Per-file Statistics", "Checkpoint Schema" (`stats_parsed`, `partitionValues_parsed`). The bounds of these
columns in the footer are bounds of the statistics of all files in a row group. Whatever a footer does not tell keeps
the row group: a file may have no statistics, and a writer may state no bounds, or wider ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.statistics.skipping import skipping_test
from tahoe.protocol.statistics.stat_tests import (
    Always,
    Both,
    Bound,
    Either,
    HasNulls,
    HasValues,
    IsVaried,
    Leaf,
    MayHoldInside,
    OneOf,
    OnPartition,
    Overlaps,
    StatTest,
)
from tahoe.protocol.types.schema import TIMESTAMP, DataType
from tahoe.table.arrow.row_group_bounds import unknown_bounds
from tahoe.table.arrow.statistics import STATS_PARSED, Path, bound_type
from tahoe.table.reading.evaluation import compare, overlap
from tahoe.table.reading.snapshot_state import SnapshotState

Mask = npt.NDArray[np.bool_]

_BOUND_FIELDS = {"min": "minValues", "max": "maxValues"}


def groups_to_read(snapshot: SnapshotState, test: StatTest) -> Mask:
    """For each row group of `LiveFiles.group_files`, whether it may hold a file that the test keeps."""
    return _Evaluator(snapshot).test(test) & (snapshot.live.group_files > 0)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one statistic of the files in each row group.

    Attributes:
        least, greatest: bounds of the values that are there; null if unknown.
        complete: where it is known that every file has a value.
    """

    least: pa.Array
    greatest: pa.Array
    complete: Mask

    def is_only(self, value: Any) -> Mask:
        """Where every file has this value."""
        same = _surely(pc.and_(compare("=", self.least, value), compare("=", self.greatest, value)))
        return same & self.complete

    def may(self, operator: Any, value: Any) -> Mask:
        """Where a file may have a value that compares so, or no value."""
        bound = self.least if operator in ("<", "<=") else self.greatest
        return ~(_surely(pc.invert(compare(operator, bound, value))) & self.complete)

    def may_be(self, value: Any) -> Mask:
        return self.may("<=", value) & self.may(">=", value)


def _may_overlap(low: _Known, high: _Known, least: Sequence[Any], greatest: Sequence[Any]) -> Mask:
    """Where the values of a file, which has these bounds, may overlap one of the ranges of an `Overlaps`."""
    return ~(_surely(pc.invert(overlap(low.least, high.greatest, least, greatest))) & low.complete & high.complete)


def _surely(mask: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(mask, False))


class _Evaluator:
    """Evaluates one test over the row groups of a version; every result tells which of them are read."""

    def __init__(self, snapshot: SnapshotState) -> None:
        self._snapshot, self._live = snapshot, snapshot.live
        self._files = snapshot.live.group_files
        self._physical = physical_schema(snapshot.schema, snapshot.column_mapping_mode)

    def test(self, test: StatTest) -> Mask:
        match test:
            case OnPartition(predicate):
                inner = skipping_test(predicate, self._snapshot.schema, (), self._snapshot.column_mapping_mode)
                return self._evaluate(inner, self._partition_leaf)
            case Both() | Either():
                return self._joined(test, self.test)
            case _:
                return self._evaluate(test, self._statistics_leaf)

    def _joined(self, test: Both | Either, part: Callable[[StatTest], Mask]) -> Mask:
        every = isinstance(test, Both)
        return reduce(
            np.logical_and if every else np.logical_or, map(part, test.parts), np.full(len(self._files), every)
        )

    def _evaluate(self, test: StatTest, leaf: Callable[[Any], Mask]) -> Mask:
        match test:
            case Always(keep):
                return np.full(len(self._files), keep)
            case Both() | Either():
                return self._joined(test, lambda part: self._evaluate(part, leaf))
            case _:
                return leaf(test)

    # --- statistics

    def _statistics_leaf(self, test: Leaf) -> Mask:
        """Whether each row group may match, by the bounds of the statistics of the files in it."""
        match test:
            case HasNulls(path):
                return ~self._count("nullCount", *path).is_only(0)
            case HasValues(path):
                return ~self._have_no_values(path)
            case IsVaried(path, value):
                return ~(self._bound("min", path).is_only(value) & self._bound("max", path).is_only(value))
            case OneOf(name, path, values):
                return reduce(np.logical_or, map(self._bound(name, path).may_be, values))
            case Overlaps(path, least, greatest):
                return _may_overlap(self._bound("min", path), self._bound("max", path), least, greatest)
            case Bound(name, path, operator, value):
                return self._bound(name, path).may(operator, value)
            case MayHoldInside():  # variants have no order
                return np.full(len(self._files), True)

    def _have_no_values(self, path: Path) -> Mask:
        """Where the null count of every file equals its number of rows, because both are the same in all files."""
        nulls, rows = self._count("nullCount", *path), self._count("numRecords")
        same = (pc.equal(nulls.least, end) for end in (nulls.greatest, rows.least, rows.greatest))
        return _surely(reduce(pc.and_, same)) & nulls.complete & rows.complete

    def _bound(self, name: str, path: Path) -> _Known:
        kind = bound_type(self._type_at(path))
        assert kind is not None, f"no bounds of {path}"
        low, high = (self._known((STATS_PARSED, _BOUND_FIELDS[each], *path), kind) for each in ("min", "max"))
        # a minimum above every maximum, or a maximum below every minimum, is of a file whose bounds cannot be true
        odd = _surely(pc.or_kleene(pc.greater(low.greatest, high.greatest), pc.greater(low.least, high.least)))
        found = {"min": low, "max": high}[name]
        return replace(found, complete=found.complete & ~odd)

    def _count(self, *path: str) -> _Known:
        return self._known((STATS_PARSED, *path), pa.int64())

    def _known(self, path: Path, kind: pa.DataType) -> _Known:
        found = self._live.bounds(path, kind)
        return _Known(found.least, found.greatest, found.nulls == 0)

    def _type_at(self, path: Path) -> DataType:
        fields = self._physical.resolve(path)
        assert fields is not None, f"no column {path}"
        return fields[-1].type

    # --- partition values

    def _partition_leaf(self, test: Leaf) -> Mask:
        """The same by partition values. A file has one value in all rows, so it is both bounds."""
        value = self._partition_value(test.path)
        match test:
            case HasNulls():
                return ~value.complete
            case HasValues():
                return np.full(len(self._files), True)
            case IsVaried(_, other):
                return ~value.is_only(other)
            case OneOf(_, _, values):
                return reduce(np.logical_or, map(value.may_be, values))
            case Overlaps(_, least, greatest):
                return _may_overlap(value, value, least, greatest)
            case Bound(_, _, operator, other):
                return value.may(operator, other)
            case MayHoldInside():
                return np.full(len(self._files), True)

    def _partition_value(self, path: Path) -> _Known:
        """A partition column. An empty text may stand for null; what a timestamp without a zone means depends on the
        reader.
        """
        data_type = self._type_at(path)
        kind = bound_type(data_type)
        bounds = unknown_bounds(len(self._files), kind or pa.null())
        if kind is not None and data_type != TIMESTAMP:
            bounds = self._live.bounds(("partitionValues_parsed", *path), kind)
        complete = bounds.nulls == 0
        if kind == pa.string():
            complete &= ~np.asarray(pc.fill_null(pc.equal(bounds.least, ""), True))
        return _Known(bounds.least, bounds.greatest, complete)
