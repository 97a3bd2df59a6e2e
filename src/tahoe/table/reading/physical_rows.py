"""The physical rows of single files, deleted ones too, with the table's schema.

Protocol: "Deletion Vectors". What changes rows looks at a file several times: at the columns of its condition, at the
rows that it changes, and at the other rows, which it copies. Columns that were read are kept while there is room for
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tahoe.errors import InvalidDataFileError
from tahoe.protocol.configuration.column_mapping import stored_name
from tahoe.protocol.log.actions import FileAction
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.protocol.types.partitions import parse_partition_value
from tahoe.protocol.types.predicate import Predicate, has_unknown
from tahoe.protocol.types.schema import Field
from tahoe.table.arrow.chunks import taken_table
from tahoe.table.arrow.types import arrow_type
from tahoe.table.log.deletion_vectors import row_indexes
from tahoe.table.reading.evaluation import evaluate
from tahoe.table.reading.rows import DataFile, file_rows, pieces_with, tracked_fields, with_predicate_columns
from tahoe.table.reading.snapshot_state import SnapshotState

# The Arrow bytes of the columns that are kept.
_KEPT_BYTES_MAX = 256 << 20


class PhysicalRows:
    """Reads files in pieces of bounded size, and keeps the columns that it has read: of the file that was read last,
    and of those before it that fit beside it.

    The methods raise:
        DataFileMissingError, InvalidDataFileError: a file is not what the log says.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], pa.ChunkedArray] = {}
        self._bytes = 0
        self._schema: str | None = None

    def forget(self) -> None:
        """Release what is kept."""
        self._kept, self._bytes = {}, 0

    def pieces(
        self,
        snapshot: SnapshotState,
        file: FileAction,
        fields: Sequence[Field],
        positions: npt.NDArray[np.int64] | None = None,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Some columns of the rows of a file, in tables of bounded size, each with the row index of its first row.

        Args:
            fields: columns of the table, and those of `tracked_fields`.
            positions: ascending row indexes; rows far from them are left out. None for all rows.
        """
        if self._schema != snapshot.metadata.schema_string:  # a column may have another name or type by now
            self.forget()
            self._schema = snapshot.metadata.schema_string
        kept = {
            field.name: self._kept[file.path, field.name] for field in fields if (file.path, field.name) in self._kept
        }
        missing = [field for field in fields if field.name not in kept]
        names = [field.name for field in fields]
        if fields and not missing:
            yield 0, pa.table([kept[name] for name in names], names=names)
            return
        read: list[pa.Table] = []
        size = stop = 0
        piece = None
        for piece in pieces_with(snapshot, _physical(snapshot, file), missing, positions):
            _check_count(snapshot, file, piece.of_file)
            start, rows = piece.start, piece.rows
            size += rows.nbytes
            read = [*read, rows] if start == stop and size <= _KEPT_BYTES_MAX else []
            stop = start + rows.num_rows
            if stop == piece.of_file and sum(each.num_rows for each in read) == stop:
                whole = pa.concat_tables(read) if missing else rows
                for field in missing:
                    self._keep((file.path, field.name), whole.column(field.name))
            columns = [kept[name].slice(start, rows.num_rows) if name in kept else rows.column(name) for name in names]
            yield start, pa.table(columns, names=names) if names else rows
        if piece is None and positions is None:
            _check_count(snapshot, file, 0)

    def _keep(self, key: tuple[str, str], column: pa.ChunkedArray) -> None:
        self._kept[key] = column
        self._bytes += column.nbytes
        while self._bytes > _KEPT_BYTES_MAX and (oldest := next(iter(self._kept)))[0] != key[0]:
            self._bytes -= self._kept.pop(oldest).nbytes

    def at(
        self,
        snapshot: SnapshotState,
        file: FileAction,
        positions: BitMap64 | npt.NDArray[np.int64],
        *,
        with_row_ids: bool = False,
    ) -> Iterator[tuple[npt.NDArray[np.int64], pa.Table]]:
        """The rows of a file at some ascending row indexes, whether deleted or not, in tables of bounded size, each
        with its row indexes.

        Args:
            with_row_ids: append row ids and row commit versions as the last two columns; the table must have row
                tracking.
        """
        wanted = row_indexes(positions) if isinstance(positions, BitMap64) else positions
        tracked = tracked_fields(snapshot.schema) if with_row_ids else []
        for start, rows in self.pieces(snapshot, file, [*snapshot.schema, *tracked], wanted):
            low, high = np.searchsorted(wanted, (start, start + rows.num_rows))
            if high > low:
                yield wanted[low:high], taken_table(rows, wanted[low:high] - start)

    def matching(self, snapshot: SnapshotState, file: FileAction, predicate: Predicate) -> BitMap64:
        """The row indexes for which a predicate is true, or may be true because a part of it is unknown."""
        fields = with_predicate_columns(snapshot, (), predicate)
        found = BitMap64()
        for start, rows in self.pieces(snapshot, file, fields):
            holds = pc.fill_null(evaluate(predicate, rows, table=snapshot.url), has_unknown(predicate))
            found |= BitMap64(np.flatnonzero(np.asarray(holds)) + start)
        return found


def read_row_ids(snapshot: SnapshotState, file: FileAction) -> npt.NDArray[np.int64]:
    """The row ids of all rows of one file, deleted ones too, in order. The table must have row tracking.

    Raises:
        DataFileMissingError, InvalidDataFileError: the file is not what the log says, or has no row ids.
    """
    found = file_rows(snapshot, _physical(snapshot, file), tracked_fields(snapshot.schema)[:1]).column(0)
    if found.null_count:
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail="it has rows without row ids")
    ids: npt.NDArray[np.int64] = found.to_numpy()
    return ids


def _check_count(snapshot: SnapshotState, file: FileAction, rows: int) -> None:
    """Refuse a file with another number of rows than its statistics tell: which rows are left is counted by them.

    Raises:
        InvalidDataFileError: the error gives both numbers.
    """
    known = num_records_of(file.stats)
    if known is not None and known != rows:
        detail = (
            f"its statistics tell {known} rows, but it has {rows}; tahoe repair --verify-all-files computes them again"
        )
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail=detail)


def _physical(snapshot: SnapshotState, file: FileAction) -> DataFile:
    """A file with all its rows, without applying its deletion vector."""
    partition = {
        name: pa.scalar(value, arrow_type(f.type)) for name, (f, value) in _partition_values(snapshot, file).items()
    }
    url = resolve_path(file.path, snapshot.url)
    return DataFile(url, file.path, partition, None, file.base_row_id, file.default_row_commit_version)


def _partition_values(snapshot: SnapshotState, file: FileAction) -> dict[str, tuple[Field, Any]]:
    values, mode = file.partition_values or {}, snapshot.column_mapping_mode
    fields = [f for f in (snapshot.schema.find(name) for name in snapshot.partition_columns) if f is not None]
    return {
        f.name: (f, parse_partition_value(values.get(stored_name(f, mode)), f.type, zone=snapshot.log.zone))
        for f in fields
    }


def partition_row(snapshot: SnapshotState, file: FileAction) -> dict[str, Any]:
    """Typed partition values of a file by logical name."""
    return {name: value for name, (_, value) in _partition_values(snapshot, file).items()}
