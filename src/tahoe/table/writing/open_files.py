"""Data files that are being written: one for each partition that has rows, encoded as the rows come.

Protocol: "Data Files", "Per-file Statistics". A file is put when it is as large as the table wants it, or when all rows
are there. Until then its encoded rows wait in memory or in a temporary file, so that memory is bounded whatever the
number of rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import MetadataChangedException
from tahoe.protocol.configuration.properties import TARGET_FILE_SIZE
from tahoe.table.arrow.temporary import temporary_disk_named
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

# The size from which on a file gets no further rows, if the table has no `delta.targetFileSize`.
_FILE_BYTES = 256 << 20

# So many files are open at most; for another one, the file that has not had rows for the longest time is put.
_OPEN_FILES_MAX = 64

# Encoded rows of a file beyond this size are in a temporary file; those of the only file beyond four times this size.
_MEMORY_BYTES = 8 << 20
_ALONE = 4


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one partition, with the columns that its file contains."""

    values: dict[str, Any]
    rows: pa.Table


@dataclass(slots=True, kw_only=True)
class _OpenFile:
    """A file that gets rows.

    Attributes:
        values: of its partition, serialised, by physical name.
        with_nan: the Parquet columns that have no statistics, because they have NaN.
        memory_bytes: how many encoded bytes are held in memory.
    """

    values: Mapping[str, str | None]
    with_nan: frozenset[str]
    memory_bytes: int
    out: BinaryIO
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData] = field(default_factory=list)


class OpenFiles:
    """Writes rows as files of a plan. As a context manager it deletes what it has written if the block fails.

    Args:
        minted: identity columns for which values were generated; see `WrittenFile.minted`.
        folder: a folder below the table, for files without statistics.
    """

    def __init__(self, plan: WritePlan, *, minted: Sequence[str] = (), folder: str | None = None) -> None:
        self.plan, self._minted, self._folder = plan, minted, folder
        self._file_bytes = TARGET_FILE_SIZE.get(plan.metadata.configuration, table=plan.url) or _FILE_BYTES
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._written: list[WrittenFile] = []
        self._footers: dict[str, pq.FileMetaData] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for file in self._open.values():
            # whatever they say of a file that was not finished, such as RuntimeError after Ctrl-C: the first error is
            # the one to tell
            with suppress(Exception):  # an open writer would be closed later, without its file
                file.writer.close()
            with suppress(Exception):  # what is buffered for a full disk
                file.out.close()
        if error is not None:
            self.plan.table.env.discard(file.key for file in self._written)

    def write(self, rows: pa.Table) -> None:
        """Write rows that have the types of the table, and perhaps additional columns of its files.

        Raises:
            ReplaceWhereMismatchError: the rows are not of a partition that the write replaces.
            StorageRefusedError: the disk of temporary files is full.
        """
        for part in partitions(rows, self.plan):
            if part.rows.num_rows:
                self._write_part(serialised(self.plan, part.values), as_stored(self.plan, part.rows))

    def close(self) -> list[WrittenFile]:
        """Put the files that are still open, and return all, with their statistics."""
        for key in list(self._open):
            self._put(key)
        return self._written if self._folder else self._with_statistics()

    @temporary_disk_named()
    def _write_part(self, values: Mapping[str, str | None], rows: pa.Table) -> None:
        """Append rows to the open file of their partition. A file is closed when it is large enough; the file that was
        written longest ago when too many are open.
        """
        key, with_nan = tuple(values.values()), columns_with_nan(rows)
        file = self._open.pop(key, None)
        if file is not None and not with_nan <= file.with_nan:  # the footer would have bounds that leave out NaN
            self._open[key] = file
            self._put(key)
            file = None
        file = file or self._open_file(values, rows, frozenset(with_nan))
        self._open[key] = file
        file.writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        if file.out.tell() >= self._file_bytes:
            self._put(key)
        elif len(self._open) > _OPEN_FILES_MAX:
            self._put(next(iter(self._open)))

    def _open_file(self, values: Mapping[str, str | None], rows: pa.Table, with_nan: frozenset[str]) -> _OpenFile:
        self.plan.check_replaced(values)
        memory_bytes = _MEMORY_BYTES if self._open else _ALONE * _MEMORY_BYTES
        out: Any = tempfile.SpooledTemporaryFile(max_size=memory_bytes, prefix="tahoe-")  # noqa: SIM115  closed when it is put
        footers: list[pq.FileMetaData] = []
        writer = parquet_writer(self.plan, out, rows, with_nan, footers)
        return _OpenFile(
            values=values, with_nan=with_nan, memory_bytes=memory_bytes, out=out, writer=writer, footers=footers
        )

    @temporary_disk_named()
    def _put(self, key: tuple[str | None, ...]) -> None:
        """Put a file. It is among those written before: an interruption may come between any two lines."""
        file, env = self._open.pop(key), self.plan.table.env
        with file.out as out:
            file.writer.close()
            size, name = out.tell(), new_key(self.plan, file.values, self._folder)
            written = WrittenFile(
                key=name, size_bytes=size, modification_time_ms=env.clock_ms(), partition_values=file.values
            )
            self._written.append(written)
            self._footers[name] = file.footers[0]
            out.seek(0)
            try:
                env.store.put(name, out.read() if size <= file.memory_bytes else out)
            except FileNotFoundError as error:
                raise _gone(self.plan.url) from error

    def _with_statistics(self) -> list[WrittenFile]:
        """The written files with statistics from their footers."""
        plan, keys = self.plan, [file.key for file in self._written]
        statistics = read_statistics(
            plan.table.env.store,
            keys,
            plan.metadata,
            plan.column_mapping_mode,
            clustering=plan.clustering_columns,
            minted=self._minted,
            footers=self._footers,
        )
        return [
            replace(file, statistics=statistics[file.key].json, minted=statistics[file.key].minted)
            for file in self._written
        ]


def _gone(table: str) -> MetadataChangedException:
    winner, detail = (
        "the folder of a file that was just written is gone",
        "the table was dropped or recreated since this write began",
    )
    return MetadataChangedException(table=table, winner=winner, detail=detail)


def partitions(data: pa.Table, plan: WritePlan) -> Iterator[Part]:
    names = list(plan.partition_columns)
    others = [name for name in data.column_names if name not in names]
    rest = [*others, *names] if plan.keeps_partitions_in_files else others
    if not names:
        yield Part({}, data)
        return
    encoded = [
        pc.dictionary_encode(data.column(name), null_encoding="encode") for name in names
    ]  # one dictionary for all chunks
    codes = pa.table([_indices(column) for column in encoded], names=[str(i) for i in range(len(names))])
    for combination in codes.group_by(codes.column_names).aggregate([]).to_pylist():
        mask = pa.repeat(pa.scalar(True), data.num_rows)
        for name, code in combination.items():
            mask = pc.and_(mask, pc.equal(codes.column(name), code))
        values = {
            name: plain_value(encoded[i].chunk(0).dictionary[combination[str(i)]]) for i, name in enumerate(names)
        }
        yield Part(values, data.select(rest).filter(mask))


def _indices(encoded: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.indices for chunk in encoded.chunks], type=encoded.type.index_type)
