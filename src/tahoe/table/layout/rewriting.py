"""Rewrites the live rows of several files into one file, in their order, without Spark's engine.

Protocol: "Deletion Vectors", "Writer Requirements for Row Tracking". The values of rows do not change: no rule of a
column and no constraint is evaluated. Files are read ahead by threads while one row group is encoded, so that memory is
bounded whatever the size of the files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.protocol.statistics.moved_rows import CopiedRows
from tahoe.protocol.types.predicate import is_nan
from tahoe.protocol.types.schema import DOUBLE, FLOAT, VOID, Field, types_in
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.arrow.row_stream import groups
from tahoe.table.arrow.temporary import temporary_disk_named
from tahoe.table.reading.rows import DataFile, data_files, live_pieces, tracked_fields
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.footers import bounds_nan, read_statistics
from tahoe.table.writing.parquet_files import (
    as_stored,
    columns_with_nan,
    new_key,
    parquet_writer,
    plain_value,
    serialised,
)
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WrittenFile

Item = TypeVar("Item")
Result = TypeVar("Result")

# Files up to this size are read whole, ahead of time; larger ones row group by row group.
_READ_AHEAD_BYTES_MAX = 8 << 20

_READERS = 2
_READ_AHEAD_FILES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A bin to rewrite, with all that a process needs for it.

    Attributes:
        plan: the write plan; its snapshot may be without files.
        files: in the order in which their rows are written. All are of one partition.
        sizes: of the files, in bytes.
    """

    plan: WritePlan
    files: tuple[DataFile, ...]
    sizes: tuple[int, ...]

    @property
    def snapshot(self) -> Snapshot:
        assert self.plan.snapshot is not None
        return self.plan.snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The result of a rewrite.

    Attributes:
        files: empty if there was no live row.
        copied: the rows of the one file, in their order; None if the order is not known.
    """

    files: tuple[WrittenFile, ...]
    copied: tuple[CopiedRows, ...] | None = None


def rewrite_of(plan: WritePlan, numbers: Sequence[int]) -> Rewrite:
    """A rewrite of some files, in the order of `numbers`: those of the files in the plan's snapshot. It can be sent to
    another process.
    """
    snapshot = plan.snapshot
    assert snapshot is not None
    ascending = sorted(numbers)  # a scan has its files in this order
    scan = Scan(snapshot, None, pa.array(ascending, pa.uint64()))
    entries = zip(data_files(scan), scan.column("size_bytes").to_pylist(), strict=True)
    by_number = dict(zip(ascending, entries, strict=True))
    in_order = [by_number[number] for number in numbers]
    return Rewrite(
        plan=replace(plan, snapshot=snapshot.without_files()),
        files=tuple(file for file, _ in in_order),
        sizes=tuple(size for _, size in in_order),
    )


@temporary_disk_named()
def rewrite(work: Rewrite) -> Rewritten:
    """Write the live rows of a bin's files as one file, with statistics.

    Raises:
        DataFileMissingError, InvalidDataFileError, DeletionVectorError: a file is not what the log says.
        UnsupportedOperationError: only Spark can read a file.
    """
    plan, env = work.plan, work.plan.table.env
    fields = fields_to_write(plan, work.snapshot)
    values = serialised(plan, {name: plain_value(value) for name, value in work.files[0].partition.items()})
    counts = [0] * len(work.files)
    with tempfile.TemporaryFile(prefix="tahoe-") as out:
        _write(work, groups(live_rows(work, fields, counts)), out)
        size = out.tell()
        if not size:
            return Rewritten(files=())
        out.seek(0)
        key, before_ms = new_key(plan, values), env.clock_ms()
        env.store.put(key, out)
    try:
        statistics = read_statistics(
            env.store, [key], plan.metadata, plan.column_mapping_mode, clustering=plan.clustering_columns
        )
    except BaseException:
        env.discard([key])
        raise
    file = WrittenFile(
        key=key,
        size_bytes=size,
        modification_time_ms=before_ms,
        partition_values=values,
        statistics=statistics[key].json,
    )
    copied = (
        CopiedRows(path=f.path, vector=f.vector, count=count) for f, count in zip(work.files, counts, strict=True)
    )
    return Rewritten(files=(file,), copied=tuple(copied))


def fields_to_write(plan: WritePlan, snapshot: Snapshot) -> list[Field]:
    """The columns of the new file: those of the table that files contain, then row ids and row commit versions."""
    partitions = [f for f in plan.schema if f.name in plan.partition_columns]
    others = [f for f in plan.schema if f.name not in plan.partition_columns and f.type != VOID]
    kept = partitions if plan.keeps_partitions_in_files else []
    return [*others, *kept, *(tracked_fields(snapshot.schema) if snapshot.tracks_rows else [])]


def _write(work: Rewrite, groups: Iterator[pa.Table], out: Any) -> None:
    first = next(groups, None)
    if first is None:
        return
    stored = stored_rows(work, first)
    with parquet_writer(work.plan, out, stored, _with_nan(work)) as writer:
        writer.write_table(stored, row_group_size=max(1, stored.num_rows))
        for group in groups:
            writer.write_table(stored_rows(work, group), row_group_size=max(1, group.num_rows))


def stored_rows(work: Rewrite, rows: pa.Table) -> pa.Table:
    """Rows with the names and types of data files."""
    tracking = work.snapshot.row_tracking
    if tracking is not None:
        hidden = [tracking.row_id_column, tracking.row_commit_version_column]
        rows = rows.rename_columns([*rows.column_names[:-2], *hidden])
    return as_stored(work.plan, rows)


def live_rows(
    work: Rewrite, fields: Sequence[Field], counts: list[int] | None = None, ahead_files: int = _READ_AHEAD_FILES
) -> Iterator[pa.Table]:
    """The live rows of the files in order. Small files are read ahead, so many at most.

    Args:
        counts: the number of rows of each file is added to it.
    """
    counts = [0] * len(work.files) if counts is None else counts

    def read(place: int) -> Iterable[pa.Table]:
        pieces = live_pieces(work.snapshot, work.files[place], fields)
        return pieces if work.sizes[place] > _READ_AHEAD_BYTES_MAX else list(pieces)

    for place, pieces in enumerate(in_threads(read, range(len(work.files)), _READERS, ahead_files)):
        for piece in pieces:
            counts[place] += piece.num_rows
            if piece.num_rows:
                yield piece


# --- NaN


def _with_nan(work: Rewrite) -> set[str]:
    """The Parquet columns that may contain NaN, by the names in the new file."""
    fields = [f for f in fields_to_write(work.plan, work.snapshot) if may_be_nan(f)]
    return {path for file in work.files for path in _file_with_nan(work, file, fields)} if fields else set()


def may_be_nan(field: Field) -> bool:
    return any(kind in (FLOAT, DOUBLE) for kind in types_in(field.type))


def _file_with_nan(work: Rewrite, file: DataFile, fields: Sequence[Field]) -> set[str]:
    """The columns of a file that contain NaN. Its rows are read only if the footer leaves that open: most writers leave
    NaN out of bounds without telling so.
    """
    store, key = work.snapshot.log.locate(file.url)
    with open_parquet(store, key) as parquet:
        footer = parquet.metadata
    columns = [
        footer.row_group(group).column(number)
        for group in range(footer.num_row_groups)
        for number in range(footer.num_columns)
        if footer.schema.column(number).physical_type in ("FLOAT", "DOUBLE")
    ]
    if bounds_nan(footer) and all(_is_bounded(column) for column in columns):
        return set()
    pieces = live_pieces(work.snapshot, file, fields)
    return {path for piece in pieces for path in columns_with_nan(as_stored(work.plan, piece))}


def _is_bounded(column: pq.ColumnChunkMetaData) -> bool:
    """Whether a column chunk has bounds that are numbers, or only nulls."""
    statistics = column.statistics
    if statistics is None:
        return False
    if statistics.has_min_max:
        return not (is_nan(statistics.min) or is_nan(statistics.max))
    return bool(statistics.has_null_count and statistics.null_count == column.num_values)
