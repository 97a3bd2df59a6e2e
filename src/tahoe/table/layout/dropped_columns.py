"""Finds data files that still contain dropped columns, for REORG ... APPLY (PURGE).

Protocol: "Column Mapping". Only with column mapping is a column dropped without rewriting files: its name and id are
never used again. Which columns a file has is in its footer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.protocol.configuration.column_mapping import MAX_COLUMN_ID, column_id, physical_schema
from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct, walk_fields
from tahoe.table.arrow.file_columns import FIELD_ID
from tahoe.table.reading.footers_mask import footers_mask
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot_state import SnapshotState


def has_dropped_columns(scan: Scan) -> npt.NDArray[np.bool_]:
    """For each file of a scan whether it contains a dropped column, or a dropped field of a nested column.

    Raises:
        DataFileMissingError, InvalidDataFileError: a file is not what the log says.
    """
    snapshot = scan.snapshot
    if not _may_be_dropped(snapshot):
        return np.zeros(scan.kept_files, bool)
    known = physical_schema(snapshot.schema, snapshot.column_mapping_mode)
    return footers_mask(scan, lambda parquet: _has_others(_columns(snapshot, parquet), known))


def _may_be_dropped(snapshot: SnapshotState) -> bool:
    """Whether a column was ever dropped: without that, every id that was assigned is in the schema."""
    if snapshot.column_mapping_mode == "none":
        return False
    assigned = snapshot.properties.get(MAX_COLUMN_ID, "")
    return not assigned.isdigit() or int(assigned) != sum(1 for _ in walk_fields(snapshot.schema))


def _columns(snapshot: SnapshotState, parquet: pq.ParquetFile) -> list[pa.Field]:
    tracking = snapshot.row_tracking
    kept = () if tracking is None else (tracking.row_id_column, tracking.row_commit_version_column)
    return [column for column in parquet.schema_arrow if column.name not in kept]


def _has_others(columns: Iterable[pa.Field], known: Struct) -> bool:
    return any(
        (field := _table_field(column, known)) is None or _is_wider(column.type, field.type) for column in columns
    )


def _table_field(column: pa.Field, known: Struct) -> Field | None:
    """The table's field that a column of a file belongs to: by its id, if the file has ids."""
    found = (column.metadata or {}).get(FIELD_ID)
    if found is None:
        return known.find(column.name)
    return next((field for field in known if str(column_id(field)).encode() == found), None)


def _is_wider(arrow: pa.DataType, known: DataType) -> bool:
    """Whether a nested column of a file has fields that the table's column does not have."""
    match known:
        case Struct() if pa.types.is_struct(arrow):
            return _has_others(arrow, known)
        case Array() if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
            return _is_wider(arrow.value_type, known.element)
        case Map() if pa.types.is_map(arrow):
            return _is_wider(arrow.key_type, known.key) or _is_wider(arrow.item_type, known.value)
        case _:
            return False
