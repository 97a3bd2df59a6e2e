"""The order in which a checkpoint lists files, so that a query needs few of its row groups.

Files are in the order of their partitions, and then of the least values of the clustering columns; of several
clustering columns, along a curve that keeps files close that are close in all of them. If a table has neither, the
column decides whose ranges overlap least. The borders of row groups come from a sample. Nothing depends on the order
but speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaError
from tahoe.protocol.configuration.column_mapping import physical_path, stored_name
from tahoe.protocol.statistics.stats import has_bounds
from tahoe.protocol.types.schema import DataType, Field
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.spool import Spool
from tahoe.table.arrow.statistics import (
    STATS_PARSED,
    Path,
    StatisticsRequest,
    bounds_of_parsed,
    column_name,
    parse_statistics,
)
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.scan import typed_partition_values
from tahoe.table.reading.snapshot_state import SnapshotState

# The files of a row group, on average. A query reads at least one; the footer grows with their number.
ROW_GROUP_FILES = 10_000

# So many row groups are put together at a time; the files of the others wait in a temporary file.
UNIT_GROUPS = 10
_MEMORY_BYTES = 64 << 20

# About so many files are in the sample.
_SAMPLED_FILES = 64_000

# The first columns with statistics are compared if a table has no partitions and no clustering.
_COMPARED_COLUMNS = 8

# The curve has this many steps along each column, as a power of two.
_CURVE_BITS = 8

# The input is sorted if at most this share of the files belongs to an earlier row group than the file before.
_BACKWARDS_MAX = 0.1

# In a batch of files that come in order, such a share may belong to earlier row groups.
_STRAGGLERS = 0.01

_CURVE, _TIE, _GROUP, _FILES = "curve", "tie", "group", "files"

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FileOrder:
    """An order of files, which are `add` structs of a checkpoint.

    Attributes:
        partitions: the partition columns.
        columns: other columns by whose least values files are ordered, by physical path, with their types.
        steps: for each of several columns the least values at which the curve takes a step.
        borders: the keys of the first file of each row group but the first.
        is_kept: whether files come almost in this order, as from a checkpoint of ours.
        group_files: how many files a row group has, on average.
    """

    snapshot: SnapshotState
    partitions: Sequence[Field]
    columns: Mapping[Path, DataType]
    steps: Mapping[Path, pa.Array]
    borders: pa.Table
    is_kept: bool = False
    group_files: float = ROW_GROUP_FILES

    def keys(self, adds: pa.StructArray, ties: Numbers) -> pa.Table:
        """The sort keys of files, one row for each: by its first column files are ordered, and by each next one where
        all before it are equal.

        Args:
            ties: numbers that order files whose keys are equal otherwise: their places as they come.
        """
        values = pa.chunked_array([pc.struct_field(adds, "partitionValues")])
        columns = {f"p{number}": _partition_key(self.snapshot, f, values) for number, f in enumerate(self.partitions)}
        least = {path: one_array(column) for path, (column, _) in _bounds(adds, self.columns).items()}
        if self.steps:
            columns[_CURVE] = pa.array(_curve([_steps_before(least[path], self.steps[path]) for path in self.columns]))
        columns |= {f"c{number}": column for number, column in enumerate(least.values())}
        return pa.table({**columns, _TIE: pa.array(ties)})

    def ordered(self, batches: Iterable[pa.StructArray]) -> Iterator[pa.StructArray]:
        """Files in row groups, which are in this order; inside of a row group files are in any order.

        If files come almost in order, few are in memory at a time, and those that come late are in row groups behind
        all others.
        """
        firsts = range(0, self.borders.num_rows + 1, UNIT_GROUPS)
        passing = _Passing(self.group_files)
        with Spool(len(firsts), _MEMORY_BYTES) as spool:
            for files in self._by_groups(batches):
                waiting = passing.add(files) if self.is_kept else files
                spool.add(waiting, [*np.searchsorted(_numbers(waiting), firsts).tolist(), waiting.num_rows])
                yield from self._row_groups(passing.complete())
            yield from self._row_groups(passing.rest())
            for unit in range(len(firsts)):
                yield from self._row_groups(spool.take(unit))

    def _by_groups(self, batches: Iterable[pa.StructArray]) -> Iterator[pa.Table]:
        """The files of each batch with the numbers of their row groups, sorted by these."""
        start = 0
        for adds in batches:
            rows, numbers = _in_groups(self.keys(adds, np.arange(start, start + len(adds))), self.borders)
            yield pa.table({_GROUP: numbers, _FILES: adds if rows is None else adds.take(pa.array(rows))})
            start += len(adds)

    def _row_groups(self, found: pa.Table | None) -> Iterator[pa.StructArray]:
        """Files by row groups, each put together from the runs of its files. One that has become too large is
        divided.
        """
        if found is None:
            return
        numbers, files = _numbers(found), found[_FILES]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        runs = list(zip(starts.tolist(), np.diff(starts, append=len(numbers)).tolist(), strict=True))
        for number in np.unique(numbers):
            mine = [files.slice(*runs[run]) for run in np.flatnonzero(numbers[starts] == number)]
            group = one_array(pa.chunked_array([chunk for piece in mine for chunk in piece.chunks], files.type))
            parts = max(1, round(len(group) / ROW_GROUP_FILES))
            if parts > 1:
                group = group.take(_sorted(self.keys(group, np.arange(len(group)))))
            size = -(-len(group) // parts)
            yield from (group.slice(start, size) for start in range(0, len(group), size))


class _Passing:
    """Files that come almost in order: a row group is complete when files have moved past it.

    Args:
        group_files: how many files a row group has, on average.
    """

    def __init__(self, group_files: float) -> None:
        self._group_files = group_files
        self._open: list[pa.Table] = []
        self._seen = 0
        self._next = self._reached = 0  # the first row group that is not complete, and the one that files have reached

    def add(self, files: pa.Table) -> pa.Table:
        """Take files that are sorted by row groups. Returns those that come late: their row groups are complete."""
        numbers = _numbers(files)
        late = int(np.searchsorted(numbers, self._next))
        self._open.append(files.slice(late))
        self._seen += len(numbers)
        if len(numbers):  # the files of new commits come first, in any order, and are few
            reached = min(int(numbers[int(len(numbers) * _STRAGGLERS)]), int(self._seen / self._group_files))
            self._reached = max(self._reached, reached)
        return files.slice(0, late)

    def complete(self) -> pa.Table | None:
        """Give up the files of the row groups that are complete; None if none is."""
        if self._reached == self._next:
            return None
        self._next = self._reached
        ends = [int(np.searchsorted(_numbers(files), self._next)) for files in self._open]
        found = pa.concat_tables([files.slice(0, end) for files, end in zip(self._open, ends, strict=True)])
        self._open = [files.slice(end) for files, end in zip(self._open, ends, strict=True) if end < files.num_rows]
        return found

    def rest(self) -> pa.Table | None:
        """Give up all files."""
        return pa.concat_tables(self._open) if self._open else None


def _numbers(files: pa.Table) -> Numbers:
    return np.asarray(one_array(files[_GROUP]))


def order_of(snapshot: SnapshotState, statistics: Mapping[Path, DataType]) -> FileOrder | None:
    """The order of a version's files; None if they are so few that it does not matter, or if nothing is known of them.

    Args:
        statistics: the columns with statistics, by physical path.
    """
    total = snapshot.live.files_at_most
    if total <= ROW_GROUP_FILES:
        return None
    partitions = partition_fields(snapshot)
    bounded = {path: kind for path, kind in statistics.items() if has_bounds(kind)}
    columns = _clustering(snapshot, bounded)
    compared = {} if columns or partitions else dict(list(bounded.items())[:_COMPARED_COLUMNS])
    sample = list(_sample(snapshot, total, columns or compared))
    columns = columns or _tidiest(sample, compared)
    if not columns and not partitions:
        return None
    steps = _steps(sample, columns) if len(columns) > 1 else {}
    order = FileOrder(snapshot=snapshot, partitions=partitions, columns=columns, steps=steps, borders=pa.table({}))
    places = np.split(
        np.linspace(0, total, sum(map(len, sample)), dtype=np.int64), np.cumsum([len(adds) for adds in sample])[:-1]
    )
    keys = pa.concat_tables([order.keys(adds, ties) for adds, ties in zip(sample, places, strict=True)])
    borders = _quantiles(keys, -(-total // ROW_GROUP_FILES))
    return replace(
        order, borders=borders, is_kept=_come_in_order(keys, borders), group_files=total / (borders.num_rows + 1)
    )


def partition_fields(snapshot: SnapshotState) -> list[Field]:
    """The partition columns that the schema has."""
    found = (snapshot.schema.find(name) for name in snapshot.partition_columns)
    return [field for field in found if field is not None]


def _sample(snapshot: SnapshotState, total: int, columns: Mapping[Path, DataType]) -> Iterator[pa.StructArray]:
    """Some files as `add` structs, with what `FileOrder.keys` needs of them."""
    parsed = [".".join((STATS_PARSED, field, *path)) for path in columns for field in ("minValues", "maxValues")]
    texts = ["stats"] if columns else []
    for batch in snapshot.live.sample(
        min(1.0, _SAMPLED_FILES / total), ["partitionValues", *texts], ["partitionValues", *parsed]
    ):
        found = {"partitionValues": batch["partition_values"], "stats": batch["stats"]}
        if STATS_PARSED in batch.column_names:
            found[STATS_PARSED] = batch[STATS_PARSED]
        yield pa.StructArray.from_arrays([one_array(column) for column in found.values()], names=list(found))


def _steps(sample: Sequence[pa.StructArray], columns: Mapping[Path, DataType]) -> dict[Path, pa.Array]:
    least = {path: column for path, (column, _) in _bounds_of_all(sample, columns).items()}
    return {path: one_array(_quantiles(pa.table({"": column}), 1 << _CURVE_BITS)[""]) for path, column in least.items()}


def _come_in_order(keys: pa.Table, borders: pa.Table) -> bool:
    """Whether files with these keys come almost in the order of their row groups."""
    rows, numbers = _in_groups(keys, borders)
    as_they_come = numbers if rows is None else numbers[np.argsort(rows)]
    return len(numbers) < 2 or float(np.mean(np.diff(as_they_come) < -1)) <= _BACKWARDS_MAX


def _clustering(snapshot: SnapshotState, bounded: Mapping[Path, DataType]) -> dict[Path, DataType]:
    paths = (physical_path(snapshot.schema, path, snapshot.column_mapping_mode) for path in snapshot.clustering_columns)
    return {path: bounded[path] for path in paths if path is not None and path in bounded}


def _bounds(
    adds: pa.StructArray, columns: Mapping[Path, DataType]
) -> dict[Path, tuple[pa.ChunkedArray, pa.ChunkedArray]]:
    """The least and the greatest value of columns in each file, null if unknown."""
    if not columns:
        return {}
    if adds.type.get_field_index(STATS_PARSED) >= 0:
        typed = pa.chunked_array([pc.struct_field(adds, STATS_PARSED)])
        return {path: bounds_of_parsed(typed, path, kind) for path, kind in columns.items()}
    parsed = parse_statistics(pa.chunked_array([pc.struct_field(adds, "stats")]), StatisticsRequest(columns))
    return {path: (parsed[column_name("min", path)], parsed[column_name("max", path)]) for path in columns}


def _bounds_of_all(
    sample: Sequence[pa.StructArray], columns: Mapping[Path, DataType]
) -> dict[Path, tuple[pa.ChunkedArray, pa.ChunkedArray]]:
    found = [_bounds(adds, columns) for adds in sample]
    return {
        path: (_joined([one[path][0] for one in found]), _joined([one[path][1] for one in found])) for path in columns
    }


def _joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _tidiest(sample: Sequence[pa.StructArray], columns: Mapping[Path, DataType]) -> dict[Path, DataType]:
    """The column whose ranges overlap least; none if no file has statistics."""
    overlaps = {path: _overlap(*bounds) for path, bounds in _bounds_of_all(sample, columns).items()}
    known = {path: overlap for path, overlap in overlaps.items() if overlap is not None}
    if not known:
        return {}
    best = min(known, key=known.__getitem__)
    return {best: columns[best]}


def _overlap(least: pa.ChunkedArray, greatest: pa.ChunkedArray) -> float | None:
    """With which share of the files a file's range overlaps, on average; None if fewer than half of the files have a
    range.
    """
    both = pc.and_(least.is_valid(), greatest.is_valid())
    least, greatest = least.filter(both), greatest.filter(both)
    if not len(least) or 2 * len(least) < len(both):
        return None
    ranks = np.asarray(pc.rank(pa.chunked_array([*least.chunks, *greatest.chunks]), tiebreaker="dense")).astype(
        np.int64
    )
    low, high = ranks[: len(least)], ranks[len(least) :]
    starts = np.sort(low)
    return float(np.mean(np.searchsorted(starts, high, side="right") - np.searchsorted(starts, low)) / len(low))


# --- keys


def _partition_key(snapshot: SnapshotState, column: Field, values: pa.ChunkedArray) -> pa.Array:
    """The typed values of a partition column; null if one of them is not a value of its type."""
    try:
        name = stored_name(column, snapshot.column_mapping_mode)
        return one_array(typed_partition_values(values, name, column.type, snapshot.log.zone))
    except (DeltaError, ValueError, pa.ArrowException):
        return pa.nulls(len(values), arrow_type(column.type))


def _sorted(keys: pa.Table) -> pa.Array:
    """The positions of rows in the order of all columns; nulls come last."""
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])


def _quantiles(keys: pa.Table, parts: int) -> pa.Table:
    """The keys at which a sorted sample is divided into parts of equal size."""
    if not keys.num_rows:
        return keys
    places = np.linspace(0, keys.num_rows, parts + 1)[1:-1].astype(np.int64)
    return keys.take(_sorted(keys).take(pa.array(places)))


def _in_groups(keys: pa.Table, borders: pa.Table) -> tuple[Numbers | None, Numbers]:
    """The order of files by row groups, None if they are in it; and in this order the numbers of their row groups."""
    # the numbers of borders are negative, and each stands before files that are equal to it
    places = np.asarray(_sorted(pa.concat_tables([borders, keys]))).astype(np.int64) - borders.num_rows
    is_file = places >= 0
    rows, numbers = places[is_file], np.cumsum(~is_file)[is_file]
    return None if np.all(np.diff(rows) == 1) else rows, numbers


def _steps_before(values: pa.Array, steps: pa.Array) -> npt.NDArray[np.int64]:
    """How many steps are at most as large as each value; all of them for null."""
    places = np.asarray(pc.sort_indices(pa.chunked_array([steps, values]))).astype(np.int64) - len(steps)
    found = np.zeros(len(values), np.int64)
    is_value = places >= 0
    found[places[is_value]] = np.cumsum(~is_value)[is_value]
    return found


def _curve(steps: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The place on a Z-order curve: the bits of all coordinates, the highest ones first."""
    place = np.zeros_like(steps[0])
    for bit in range(_CURVE_BITS - 1, -1, -1):
        for coordinate in steps:
            place = place << 1 | (coordinate >> bit & 1)
    return place
