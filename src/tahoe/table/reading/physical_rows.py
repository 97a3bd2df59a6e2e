"""The physical rows of single files, deleted ones too, with the table's schema.

Protocol: "Deletion Vectors". What changes rows looks at a file several times: at the columns of its condition, at the rows that it changes,
and at the other rows, which it copies. Columns that were read are kept while there is room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tahoe.errors import InvalidDataFileError
from tahoe.protocol.actions import FileAction
from tahoe.protocol.column_mapping import stored_name
from tahoe.protocol.file_paths import resolve_path
from tahoe.protocol.partitions import parse_partition_value
from tahoe.protocol.predicate import Predicate, has_unknown
from tahoe.protocol.schema import Field
from tahoe.protocol.stats import num_records_of
from tahoe.table.arrow.types import arrow_type
from tahoe.table.log.deletion_vectors import row_indexes
from tahoe.table.reading.evaluation import evaluate
from tahoe.table.reading.rows import DataFile, file_rows, no_columns, tracked_fields, with_predicate_columns
from tahoe.table.reading.snapshot_state import SnapshotState

# The Arrow bytes of the columns that are kept.
_KEPT_BYTES_MAX = 256 << 20


class PhysicalRows:
    """Reads files, and keeps what it has read: the file that was read last, and those before it that fit beside it.

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

    def read(self, snapshot: SnapshotState, file: FileAction, fields: Sequence[Field]) -> pa.Table:
        """Some columns of all rows of a file.

        Args:
            fields: columns of the table, and those of `tracked_fields`.
        """
        if self._schema != snapshot.metadata.schema_string:  # a column may have another name or type by now
            self.forget()
            self._schema = snapshot.metadata.schema_string
        keys = [(file.path, field.name) for field in fields]
        found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [(key, field) for key, field in zip(keys, fields, strict=True) if key not in found]
        if missing or not fields:
            rows = file_rows(snapshot, _physical(snapshot, file), [field for _, field in missing])
            _check_count(snapshot, file, rows.num_rows)
            if not fields:
                return no_columns(rows.num_rows)
            for (key, _), column in zip(missing, rows.columns, strict=True):
                found[key] = column
                self._keep(key, column)
        return pa.table([found[key] for key in keys], names=[field.name for field in fields])

    def _keep(self, key: tuple[str, str], column: pa.ChunkedArray) -> None:
        self._kept[key] = column
        self._bytes += column.nbytes
        while self._bytes > _KEPT_BYTES_MAX and (oldest := next(iter(self._kept)))[0] != key[0]:
            self._bytes -= self._kept.pop(oldest).nbytes

    def at(
        self, snapshot: SnapshotState, file: FileAction, positions: BitMap64 | npt.NDArray[np.int64], *, with_row_ids: bool = False
    ) -> pa.Table:
        """The rows of a file at some row indexes, whether deleted or not.

        Args:
            with_row_ids: append row ids and row commit versions as the last two columns; the table must have row tracking.
        """
        tracked = tracked_fields(snapshot.schema) if with_row_ids else []
        rows = self.read(snapshot, file, [*snapshot.schema, *tracked])
        return rows.take(pa.array(row_indexes(positions) if isinstance(positions, BitMap64) else positions))

    def matching(self, snapshot: SnapshotState, file: FileAction, predicate: Predicate) -> BitMap64:
        """The row indexes for which a predicate is true, or may be true because a part of it is unknown."""
        fields = with_predicate_columns(snapshot, (), predicate)
        found = evaluate(predicate, self.read(snapshot, file, fields))
        return BitMap64(np.flatnonzero(np.asarray(pc.fill_null(found, has_unknown(predicate)))))


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
        detail = f"its statistics tell {known} rows, but it has {rows}; tahoe repair --verify-all-files computes them again"
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail=detail)


def _physical(snapshot: SnapshotState, file: FileAction) -> DataFile:
    """A file with all its rows, without applying its deletion vector."""
    partition = {name: pa.scalar(value, arrow_type(f.type)) for name, (f, value) in _partition_values(snapshot, file).items()}
    url = resolve_path(file.path, snapshot.url)
    return DataFile(url, file.path, partition, None, file.base_row_id, file.default_row_commit_version)


def _partition_values(snapshot: SnapshotState, file: FileAction) -> dict[str, tuple[Field, Any]]:
    values, mode = file.partition_values or {}, snapshot.column_mapping_mode
    fields = [f for f in (snapshot.schema.find(name) for name in snapshot.partition_columns) if f is not None]
    return {f.name: (f, parse_partition_value(values.get(stored_name(f, mode)), f.type, zone=snapshot.log.zone)) for f in fields}


def partition_row(snapshot: SnapshotState, file: FileAction) -> dict[str, Any]:
    """Typed partition values of a file by logical name."""
    return {name: value for name, (_, value) in _partition_values(snapshot, file).items()}
