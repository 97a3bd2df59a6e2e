"""How many files queries skip by each column: conditions on probable values, answered by the data skipping that queries
use.

Protocol: "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.statistics.stats import has_bounds
from tahoe.protocol.types.predicate import And, Column, Comparison, Literal, Predicate
from tahoe.protocol.types.schema import DataType
from tahoe.table.arrow.chunks import one_array, taken
from tahoe.table.arrow.statistics import StatisticsRequest, column_name, python_values
from tahoe.table.reading.snapshot import Snapshot, chosen_files
from tahoe.table.report.column_values import files_by_rows, values_between
from tahoe.table.report.figures import ColumnSkipping, Skipping

# Of a larger table so many files are looked at, chosen at random: a share of them is right within half a percent.
FILES_MAX = 50_000

# Statistics of more columns are rare: writers collect them for 32 by default.
COLUMNS_MAX = 100

# A value stands for a thousandth of the rows, so that ten of them are a range of 1 %.
_VALUES = 1000
_RANGE_VALUES = _VALUES // 100

# The conditions of each kind, on values that are spread over all of the column.
_CONDITIONS = 20


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A column and the bounds of files.

    Attributes:
        rows: about how many values each file has; 0 for a file without bounds.
    """

    path: tuple[str, ...]
    type: DataType
    lows: pa.ChunkedArray
    highs: pa.ChunkedArray
    rows: npt.NDArray[np.float64]


def skipping(snapshot: Snapshot) -> Skipping:
    """The share of files that queries skip, for each column with bounds."""
    sampled = _sampled(snapshot)
    partitions = {name.lower() for name in snapshot.partition_columns}
    bounded = [(path, field.type) for path, field in snapshot.schema.leaves() if has_bounds(field.type)]
    inside = [(path, kind) for path, kind in bounded if path[0].lower() not in partitions]
    named = [(path, kind) for path, kind in bounded if path[0].lower() in partitions] + inside[:COLUMNS_MAX]
    found = (_column(sampled, column, partitions) for column in _bounds(sampled, named, partitions))
    columns = [column for column in found if column is not None]
    more = max(len(inside) - COLUMNS_MAX, 0)
    leaves = sum(1 for _ in snapshot.schema.leaves())
    return Skipping(
        files=len(sampled.live), columns=columns, unbounded_columns=leaves - len(columns) - more, more_columns=more
    )


def _sampled(snapshot: Snapshot) -> Snapshot:
    """The snapshot, or one with some of its files: always the same ones, so that a report can be repeated."""
    if len(snapshot.live) <= FILES_MAX:
        return snapshot
    rows = np.sort(np.random.default_rng(0).choice(len(snapshot.live), FILES_MAX, replace=False))
    return replace(snapshot, live=snapshot.live.subset(rows))


def _bounds(
    snapshot: Snapshot, columns: Sequence[tuple[tuple[str, ...], DataType]], partitions: set[str]
) -> Iterator[_Bounded]:
    """The bounds of each column in all files. A partition value is both bounds of its column."""
    inside = {path: kind for path, kind in columns if path[0].lower() not in partitions}
    physical = {path: physical_path(snapshot.schema, path, snapshot.column_mapping_mode) or path for path in inside}
    statistics = snapshot.live.statistics(StatisticsRequest({physical[path]: kind for path, kind in inside.items()}))
    records = _numbers(statistics.column("num_records"), 1)
    for path, kind in columns:
        if path in inside:
            lows, highs = (statistics.column(column_name(bound, physical[path])) for bound in ("min", "max"))
            nulls = _numbers(statistics.column(column_name("null_count", physical[path])), 0)
        else:
            lows = highs = pc.struct_field(snapshot.full_scan.partition, [snapshot.partition_columns.index(path[0])])
            nulls = np.zeros(len(records))
        is_there = one_array(pc.and_(pc.is_valid(lows), pc.is_valid(highs))).to_numpy(zero_copy_only=False)
        # Also a file whose rows are unknown has some.
        yield _Bounded(path, kind, lows, highs, np.where(is_there, np.maximum(records - nulls, 1), 0))


def _numbers(column: pa.ChunkedArray, unknown: int) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = (
        one_array(pc.fill_null(column, unknown)).to_numpy(zero_copy_only=False).astype(np.float64)
    )
    return values


def _column(snapshot: Snapshot, column: _Bounded, partitions: set[str]) -> ColumnSkipping | None:
    """The figures of a column; None if no file has usable bounds."""
    values = _values(column)
    if not values:
        return None
    equalities, ranges = _conditions(Column(column.path), values)
    return ColumnSkipping(
        column=column.path,
        type=str(column.type),
        is_partition=column.path[0].lower() in partitions,
        is_clustering=column.path in snapshot.clustering_columns,
        files_with_bounds=int(np.count_nonzero(column.rows)),
        equality_skipped=_skipped(snapshot, equalities),
        range_skipped=_skipped(snapshot, ranges),
    )


def _values(column: _Bounded) -> list[Any]:
    """Values of the column in ascending order, each of which stands for as many rows."""
    files = files_by_rows(column.rows, _VALUES)
    is_time = pa.types.is_temporal(column.lows.type)
    bounds = (python_values(taken(found, files)) for found in (column.lows, column.highs))
    # A time that Python's calendar does not have is a number.
    return values_between(
        *([None if is_time and isinstance(value, int) else value for value in values] for values in bounds)
    )


def _conditions(column: Column, values: Sequence[Any]) -> tuple[list[Predicate], list[Predicate]]:
    """Equalities and ranges, spread evenly over the values."""
    width = len(values) * _RANGE_VALUES // _VALUES
    positions = np.linspace(0, len(values) - 1 - width, _CONDITIONS).astype(int)
    middles = [values[at + width // 2] for at in positions]
    equalities: list[Predicate] = [Comparison("=", column, Literal(value)) for value in dict.fromkeys(middles)]
    limits = dict.fromkeys((values[at], values[at + width]) for at in positions)
    ranges: list[Predicate] = [
        And((Comparison(">=", column, Literal(low)), Comparison("<=", column, Literal(high)))) for low, high in limits
    ]
    return equalities, ranges


def _skipped(snapshot: Snapshot, conditions: Sequence[Predicate]) -> float:
    """The share of files that queries by these conditions skip, on average."""
    skipped = [len(snapshot.live) - chosen_files(snapshot, condition).kept_files for condition in conditions]
    return sum(skipped) / (len(skipped) * len(snapshot.live))
