"""Lays out the live rows of a cube's files as new files, without Spark's engine.

The files are read twice. First the columns of the order: a random sample of them plans the layout. Then whole rows, in
batches. A batch is sorted by units, ranges of the layout's parts that become row groups, and waits in a spool. When all
rows are there, each file's units are sorted and written in order. What is in memory at once does not depend on the size
of the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise
from threading import Lock
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tahoe.protocol.types.names import unused_name
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.arrow.chunks import joined_table, reordered_table
from tahoe.table.arrow.layout import SAMPLE_ROWS_PER_LEAF, Assigner, Layout, plan_layout, row_order
from tahoe.table.arrow.row_stream import groups
from tahoe.table.arrow.spool import Spool
from tahoe.table.arrow.temporary import temporary_disk_named
from tahoe.table.arrow.types import arrow_field
from tahoe.table.layout.clustering import CubeBin, keys_of
from tahoe.table.layout.compaction import Bin
from tahoe.table.layout.rewriting import (
    Rewrite,
    Rewritten,
    fields_to_write,
    live_rows,
    may_be_nan,
    rewrite_of,
    stored_rows,
)
from tahoe.table.writing.footers import read_statistics
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

# About a page of each column: what queries can skip inside a file.
_PART_ROWS = 20_000

# The parts need not be as equal as the leaves. So many parts are planned in about ten seconds, and their numbers have
# two bytes.
_SAMPLE_ROWS_PER_PART = 50
PARTS_MAX = 1 << 15

# The Arrow bytes of a batch of rows, of a unit, and of all rows that wait in memory.
_BATCH_BYTES = 48 << 20
_UNIT_BYTES = 96 << 20
_SPOOL_BYTES = 256 << 20

_READ_AHEAD_FILES = 2

# The parts of the rows in a spool, beside the columns of the table.
PART = "__tahoe_part"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A cube to lay out. `threads`: how many threads work on it."""

    rewrite: Rewrite
    cube: CubeBin
    threads: int

    @property
    def plan(self) -> WritePlan:
        return self.rewrite.plan

    def keys(self, rows: pa.Table) -> pa.Table:
        return keys_of(rows, self.cube.order.columns)


@dataclass(slots=True, kw_only=True)
class _Units:
    """How the parts of a layout are grouped into units.

    Attributes:
        first_parts: the first part of each unit, and the number of parts.
        with_nan: for each unit the Parquet columns that contain NaN.
    """

    layout: Layout
    parts: int
    first_parts: npt.NDArray[np.int64]
    with_nan: dict[int, set[str]] = field(default_factory=dict)

    def units_of_file(self, number: int) -> range:
        """The units of a file."""
        first, stop = np.searchsorted(self.first_parts, (number * self.parts, (number + 1) * self.parts)).tolist()
        return range(first, stop)


def lay_out_in_threads(plan: WritePlan, bins: Sequence[Bin]) -> Iterator[Rewritten | BaseException]:
    """Lay out cubes in threads of this process; the threads share small cubes, and work together on few large ones."""
    at_once = max(1, min(CORES, len(bins)))

    def lay_out(found: Bin) -> Rewritten | BaseException:
        assert isinstance(found, CubeBin)
        try:
            return _lay_out(
                _Job(rewrite=rewrite_of(plan, found.numbers), cube=found, threads=max(1, CORES // at_once)), at_once
            )
        except Exception as error:
            return error

    return in_threads(lay_out, bins, at_once)


@temporary_disk_named()
def _lay_out(job: _Job, at_once: int) -> Rewritten:
    """Write the live rows of a cube's files as new files.

    Raises:
        DataFileMissingError, InvalidDataFileError, DeletionVectorError: a file is not what the log says.
        UnsupportedOperationError: only Spark can read a file.
    """
    layout, parts = _plan_cube(job)
    fields = fields_to_write(job.plan, job.rewrite.snapshot)
    batches = groups(live_rows(job.rewrite, fields, ahead_files=_READ_AHEAD_FILES), _BATCH_BYTES)
    first = next(batches, None)
    if first is None:
        return Rewritten(files=())
    units = _units(layout, parts, job.cube, first.nbytes / first.num_rows)
    with Spool(len(units.first_parts) - 1, _SPOOL_BYTES // at_once) as spool:
        _distribute(job, units, _number_rows(chain([first], batches)), spool)
        return Rewritten(files=tuple(_write_files(job, units, spool)))


# --- the plan


def parts_of_file(rows: int, files: int) -> int:
    """The number of parts per file, for so many rows in so many files."""
    return max(1, min(rows // files // _PART_ROWS, PARTS_MAX // files))


def sample_rows(files: int, parts: int) -> int:
    return files * max(SAMPLE_ROWS_PER_LEAF, parts * _SAMPLE_ROWS_PER_PART)


class _Sample:
    """A random sample of rows whose number is not known before: each row is in it with the same probability."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._random = np.random.default_rng(0)
        self._share = 1.0
        self._tables: list[pa.Table] = []
        self._draws: list[npt.NDArray[np.float64]] = []

    def add(self, rows: pa.Table) -> None:
        draws = self._random.random(rows.num_rows)
        self._keep(rows, draws)
        while sum(map(len, self._draws)) > 2 * self._most:
            self._share /= 2
            kept, draws = pa.concat_tables(self._tables), np.concatenate(self._draws)
            self._tables, self._draws = [], []
            self._keep(kept, draws)

    def _keep(self, rows: pa.Table, draws: npt.NDArray[np.float64]) -> None:
        chosen = np.flatnonzero(draws < self._share)
        self._tables.append(rows.take(pa.array(chosen)))
        self._draws.append(draws[chosen])

    @property
    def rows(self) -> pa.Table:
        return pa.concat_tables(self._tables)


def _plan_cube(job: _Job) -> tuple[Layout, int]:
    """The layout of a cube's rows, and the number of parts of each file."""
    cube, snapshot = job.cube, job.rewrite.snapshot
    parts = parts_of_file(cube.rows, cube.file_count)
    top = {path[0] for path in cube.order.columns}
    fields = [f for f in snapshot.schema if f.name in top]
    sample = _Sample(sample_rows(cube.file_count, parts))
    sample.add(job.keys(pa.schema([arrow_field(f) for f in fields]).empty_table()))
    for rows in live_rows(job.rewrite, fields, ahead_files=_READ_AHEAD_FILES):
        sample.add(job.keys(rows))
    return plan_layout(sample.rows, cube.file_count, parts), parts


def _units(layout: Layout, parts: int, cube: CubeBin, row_bytes: float) -> _Units:
    """Units of about `_UNIT_BYTES`. Each belongs to one file."""
    part_bytes = cube.rows * row_bytes / (parts * cube.file_count)
    each = max(1, min(parts, int(_UNIT_BYTES / max(part_bytes, 1))))
    firsts = (np.arange(cube.file_count)[:, None] * parts + np.arange(0, parts, each)).reshape(-1)
    return _Units(layout=layout, parts=parts, first_parts=np.append(firsts, parts * cube.file_count))


# --- rows to units


@dataclass(frozen=True, slots=True)
class _Batch:
    first_row: int
    rows: pa.Table


def _number_rows(batches: Iterable[pa.Table]) -> Iterator[_Batch]:
    first_row = 0
    for rows in batches:
        yield _Batch(first_row, rows)
        first_row += rows.num_rows


def _distribute(job: _Job, units: _Units, batches: Iterable[_Batch], spool: Spool) -> None:
    """Put all rows into the spool."""
    assigner, lock = Assigner(units.layout), Lock()
    kind = np.uint16 if units.layout.leaves <= 1 << 16 else np.uint32  # numpy sorts two bytes by radix
    floats = [f.name for f in fields_to_write(job.plan, job.rewrite.snapshot) if may_be_nan(f)]

    def put(batch: _Batch) -> None:
        parts = assigner.leaves(job.keys(batch.rows), batch.first_row).astype(kind)
        order = np.argsort(parts, kind="stable")
        parts = parts[order]
        starts = np.searchsorted(parts, units.first_parts).tolist()
        rows = batch.rows.take(pa.array(order))
        nan = _with_nan(job.plan, rows.select(floats), starts) if floats else {}
        with lock:
            for unit, columns in nan.items():
                units.with_nan.setdefault(unit, set()).update(columns)
        spool.add(rows.append_column(unused_name(PART, rows.column_names), pa.array(parts)), starts)

    for _ in in_threads(put, batches, job.threads, ahead=job.threads):
        pass


def _with_nan(plan: WritePlan, rows: pa.Table, starts: Sequence[int]) -> dict[int, set[str]]:
    """For each unit the Parquet columns of its rows that contain NaN."""
    stored = as_stored(plan, rows)
    if not columns_with_nan(stored):
        return {}
    ranges = pairwise(starts)
    return {
        unit: columns_with_nan(stored.slice(first, stop - first))
        for unit, (first, stop) in enumerate(ranges)
        if stop > first
    }


# --- units to files


def _write_files(job: _Job, units: _Units, spool: Spool) -> list[WrittenFile]:
    """Write the files. If that fails, all are deleted."""
    plan, env = job.plan, job.plan.table.env
    values = serialised(plan, {name: plain_value(value) for name, value in job.rewrite.files[0].partition.items()})
    files: list[WrittenFile] = []
    before_ms = env.clock_ms()

    def write(number: int) -> None:
        file_units = units.units_of_file(number)
        with_nan = {column for unit in file_units for column in units.with_nan.get(unit, ())}
        for content in _contents(job, _row_groups(job, spool, file_units), with_nan):
            size = content.tell()
            content.seek(0)
            file = WrittenFile(
                key=new_key(plan, values), size_bytes=size, modification_time_ms=before_ms, partition_values=values
            )
            files.append(file)
            env.store.put(file.key, content)

    try:
        for _ in in_threads(write, range(job.cube.file_count), job.threads):
            pass
        keys = [file.key for file in files]
        statistics = read_statistics(
            env.store, keys, plan.metadata, plan.column_mapping_mode, clustering=plan.clustering_columns
        )
        return [replace(file, statistics=statistics[file.key].json) for file in files]
    except BaseException:
        env.discard(file.key for file in files)
        raise


def _row_groups(job: _Job, spool: Spool, units: range) -> Iterator[pa.Table]:
    """The rows of units in order, as they are stored. The next unit is sorted while one is written."""

    def ordered(unit: int) -> pa.Table | None:
        rows = spool.take(unit)
        if rows is None:
            return None
        last = rows.num_columns - 1
        parts, rows = np.asarray(rows.column(last)), joined_table([rows.remove_column(last)])
        return stored_rows(job.rewrite, reordered_table(rows, row_order(job.keys(rows), parts)))

    return (rows for rows in in_threads(ordered, units, 1, ahead=1) if rows is not None)


def _contents(job: _Job, row_groups: Iterable[pa.Table], with_nan: set[str]) -> Iterator[BinaryIO]:
    """Parquet files with these row groups, positioned at their ends: one, or several if the number of rows in a file is
    limited.
    """
    limited = _limited(row_groups, job.cube.order.request.max_file_rows or sys.maxsize)
    for _, parts in groupby(limited, lambda part: part[0]):
        _, first = next(parts)
        with tempfile.TemporaryFile(prefix="tahoe-") as out:
            with parquet_writer(job.plan, out, first, with_nan) as writer:
                for rows in chain([first], (rows for _, rows in parts)):
                    writer.write_table(rows, row_group_size=rows.num_rows)
            yield out


def _limited(row_groups: Iterable[pa.Table], most: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows, with the number of the file to which they belong if each has so many rows at most."""
    written = 0
    for rows in row_groups:
        start = 0
        while start < rows.num_rows:
            part = rows.slice(start, most - written % most)
            yield written // most, part
            start += part.num_rows
            written += part.num_rows
