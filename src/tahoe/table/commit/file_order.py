"""The order in which a checkpoint lists files, so that a query needs few of its row groups.

Files are in the order of their partitions, and then of the least values of the clustering columns; of several clustering columns, along a
curve that keeps files close that are close in all of them. If a table has neither, the column decides whose ranges overlap least. The order
of large tables is that of units of files, whose borders come from a sample, and inside of them exact. Nothing depends on it but speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaError
from tahoe.protocol.column_mapping import physical_path, stored_name
from tahoe.protocol.schema import DataType, Field
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.spool import Spool
from tahoe.table.arrow.statistics import Path, StatisticsRequest, bound_type, column_name, parse_statistics
from tahoe.table.arrow.types import arrow_type
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.scan import typed_partition_values
from tahoe.table.reading.snapshot_state import SnapshotState

# The files of a row group. A query reads at least one; the footer grows with their number.
ROW_GROUP_FILES = 10_000

# Files are sorted in units of about this many; more wait in a temporary file.
UNIT_FILES = 100_000
_MEMORY_BYTES = 64 << 20

# The sample: so many row groups, and files of each of them.
_SAMPLED_GROUPS = 128
_SAMPLED_FILES = 500

# The first columns with statistics are compared if a table has no partitions and no clustering.
_COMPARED_COLUMNS = 8

# The curve has this many steps along each column, as a power of two.
_CURVE_BITS = 8

_CURVE, _TIE, _ROWS = "curve", "tie", "rows"


@dataclass(frozen=True, kw_only=True)
class FileOrder:
    """An order of files.

    Attributes:
        partitions: the partition columns.
        columns: other columns by whose least values files are ordered, by physical path, with their types.
        borders: the keys of the first file of each unit but the first.
        steps: for each of several columns the least values at which the curve takes a step.
    """

    snapshot: SnapshotState
    partitions: Sequence[Field]
    columns: Mapping[Path, DataType]
    borders: pa.Table
    steps: Mapping[Path, pa.Array]

    def keys(self, partition_values: pa.ChunkedArray, least: Callable[[Path], pa.ChunkedArray], ties: npt.NDArray[np.int64]) -> pa.Table:
        """The keys of files: they are sorted by all columns of the table, one after the other."""
        snapshot = self.snapshot
        found: dict[str, pa.Array] = {}
        for number, f in enumerate(self.partitions):
            found[f"p{number}"] = _partition_key(snapshot, f, partition_values)
        values = {path: one_array(least(path)) for path in self.columns}
        if self.steps:
            found[_CURVE] = pa.array(_curve([_steps_before(values[path], self.steps[path]) for path in self.columns]))
        found |= {f"c{number}": column for number, column in enumerate(values.values())}
        return pa.table({**found, _TIE: pa.array(ties)})

    def sorted_files(self, batches: Iterable[pa.StructArray]) -> Iterator[pa.StructArray]:
        """Files as `add` structs of a checkpoint, in this order, at most `ROW_GROUP_FILES` at a time."""
        units = self.borders.num_rows + 1
        with Spool(units, _MEMORY_BYTES) as spool:
            start = 0
            for adds in batches:
                rows, starts = _by_units(self._keys_of(adds, start).append_column(_ROWS, adds), self.borders)
                spool.add(rows, starts)
                start += len(adds)
            for unit in range(units):
                found = spool.take(unit)
                if found is not None:
                    yield from _in_row_groups(found.take(_sorted(found.drop_columns([_ROWS])))[_ROWS])

    def _keys_of(self, adds: pa.StructArray, start: int) -> pa.Table:
        fields = dict(zip((f.name for f in adds.type), adds.flatten(), strict=True))
        parsed = None
        if "stats_parsed" not in fields and self.columns:
            parsed = parse_statistics(pa.chunked_array([fields["stats"]]), StatisticsRequest(self.columns))

        def least(path: Path) -> pa.ChunkedArray:
            if parsed is not None:
                return parsed[column_name("min", path)]
            return pa.chunked_array([pc.struct_field(fields["stats_parsed"], ["minValues", *path])]).cast(bound_type(self.columns[path]))

        return self.keys(pa.chunked_array([fields["partitionValues"]]), least, np.arange(start, start + len(adds)))


def order_of(snapshot: SnapshotState, statistics: Mapping[Path, DataType]) -> FileOrder | None:
    """The order of a version's files; None if they are so few that it does not matter, or if nothing is known of them.

    Args:
        statistics: the columns with statistics, by physical path.
    """
    total = snapshot.live.files_at_most
    if total <= ROW_GROUP_FILES:
        return None
    partitions = [f for f in (snapshot.schema.find(name) for name in snapshot.partition_columns) if f is not None]
    bounded = {path: kind for path, kind in statistics.items() if bound_type(kind) is not None}
    sample = _sample(snapshot.live)
    columns = _clustering(snapshot, bounded)
    if not columns and not partitions:
        columns = _tidiest(sample, dict(list(bounded.items())[:_COMPARED_COLUMNS]))
    if not columns and not partitions:
        return None
    found = sample.statistics(StatisticsRequest(columns))
    least = {path: found[column_name("min", path)] for path in columns}
    steps = {path: _quantiles(pa.table({"": least[path]}), 1 << _CURVE_BITS)[""] for path in columns} if len(columns) > 1 else {}
    order = FileOrder(
        snapshot=snapshot,
        partitions=partitions,
        columns=columns,
        borders=pa.table({}),
        steps={path: one_array(values) for path, values in steps.items()},
    )
    ties = np.linspace(0, total, len(sample), dtype=np.int64)
    keys = order.keys(sample.column("partition_values"), least.__getitem__, ties)
    return FileOrder(
        snapshot=snapshot, partitions=partitions, columns=columns, borders=_quantiles(keys, -(-total // UNIT_FILES)), steps=order.steps
    )


def _clustering(snapshot: SnapshotState, bounded: Mapping[Path, DataType]) -> dict[Path, DataType]:
    paths = (physical_path(snapshot.schema, path, snapshot.column_mapping_mode) for path in snapshot.clustering_columns)
    return {path: bounded[path] for path in paths if path is not None and path in bounded}


def _sample(live: LiveFiles) -> LiveFiles:
    """Some files from all over a version."""
    groups = live.group_files
    wanted = np.zeros(len(groups), bool)
    wanted[:: -(-len(groups) // _SAMPLED_GROUPS) or 1] = True
    found = live.narrowed(wanted).files
    step = max(1, len(found) // (_SAMPLED_GROUPS * _SAMPLED_FILES))
    return found.subset(np.arange(0, len(found), step))


def _tidiest(sample: LiveFiles, columns: Mapping[Path, DataType]) -> dict[Path, DataType]:
    """The column whose ranges overlap least; none if no file has statistics."""
    found = sample.statistics(StatisticsRequest(columns))
    overlaps = {path: _overlap(*(found[column_name(bound, path)] for bound in ("min", "max"))) for path in columns}
    known = {path: overlap for path, overlap in overlaps.items() if overlap is not None}
    if not known:
        return {}
    best = min(known, key=known.__getitem__)
    return {best: columns[best]}


def _overlap(least: pa.ChunkedArray, greatest: pa.ChunkedArray) -> float | None:
    """With which share of the files a file's range overlaps, on average; None if fewer than half of the files have a range."""
    both = pc.and_(least.is_valid(), greatest.is_valid())
    least, greatest = least.filter(both), greatest.filter(both)
    if not len(least) or 2 * len(least) < len(both):
        return None
    ranks = np.asarray(pc.rank(pa.chunked_array([*least.chunks, *greatest.chunks]), tiebreaker="dense")).astype(np.int64)
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


def _by_units(rows: pa.Table, borders: pa.Table) -> tuple[pa.Table, list[int]]:
    """Rows sorted by units, and where each unit begins."""
    keys = rows.select(borders.column_names)
    # the numbers of borders are negative, and each stands before rows that are equal to it
    after = np.asarray(_sorted(pa.concat_tables([borders, keys]))).astype(np.int64) - borders.num_rows
    is_row = after >= 0
    ends = np.cumsum(is_row)[~is_row]
    return rows.take(pa.array(after[is_row])), [0, *ends.tolist(), rows.num_rows]


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


def _in_row_groups(adds: pa.ChunkedArray) -> Iterator[pa.StructArray]:
    for start in range(0, len(adds), ROW_GROUP_FILES):
        yield one_array(adds.slice(start, ROW_GROUP_FILES))
