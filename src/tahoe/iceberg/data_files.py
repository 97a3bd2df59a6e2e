"""Files of a Delta table as data files of an Iceberg table: partition values, counts and bounds.

Protocol: "Per-file Statistics", "Partition Value Serialization". Iceberg's specification: "Manifests", "Appendix D:
Single-value serialization".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, UnknownType

from tahoe.errors import UnsupportedOperationError
from tahoe.iceberg.manifest_files import RECORDS, ROW_LINEAGE_SINCE
from tahoe.protocol.configuration.column_mapping import column_id, physical_schema, stored_name
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.statistics.stats import (
    CUT_LENGTH_MIN,
    EXACT_DIGITS,
    MILLISECOND_REST_MICROS,
    Path,
    has_bounds,
    parse_statistics,
)
from tahoe.protocol.types.partitions import parse_partition_value, to_days, to_micros
from tahoe.protocol.types.schema import (
    DECIMAL_PRECISION_MAX,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
)
from tahoe.storage.env import physical_url
from tahoe.table.reading.snapshot_state import SnapshotState

# Behind all strings that begin like a maximum that was cut.
_LAST_CHARACTER = "\U0010ffff"

_ALL_DIGITS = Context(prec=DECIMAL_PRECISION_MAX)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that a snapshot adds.

    Attributes:
        sequence_number: that of the version which wrote its rows; None for that of the snapshot.
    """

    file: DataFile
    sequence_number: int | None = None


class DataFiles:
    """Makes the data files of a version.

    Args:
        schema: the version's schema in Iceberg.
        version: of the metadata's format, which another version of the table may have decided.
    """

    def __init__(self, snapshot: SnapshotState, schema: Schema, version: int) -> None:
        mode = snapshot.column_mapping_mode
        self._snapshot, self._url = snapshot, physical_url(snapshot.log.env.store)
        self._physical = physical_schema(snapshot.schema, mode)
        fields = [field for field in map(snapshot.schema.find, snapshot.partition_columns) if field is not None]
        self._partitions = [(stored_name(field, mode), field.type) for field in fields]
        self._is_tracked = version >= ROW_LINEAGE_SINCE
        self._columns = dict(_numbered(self._physical.leaves(), schema))

    def path(self, path: str) -> str:
        """The location of a file in the log, as Iceberg's readers open it."""
        return resolve_path(path, self._url)

    def new(self, add: Add) -> NewFile:
        """A file that a version adds; its rows are as old as row tracking says, in version 3 of Iceberg's format.

        Raises: UnsupportedOperationError: as `of`.
        """
        return NewFile(self.of(add), add.default_row_commit_version if self._is_tracked else None)

    def of(self, add: Add) -> DataFile:
        """A file with all its rows, also those that its deletion vector deletes.

        Raises:
            UnsupportedOperationError: the file has a deletion vector, and the version of Iceberg's format has none; or
                the log does not tell its rows or their ids.
        """
        found = parse_statistics(add.stats, self._physical)
        if add.deletion_vector is not None and not self._is_tracked:
            raise self._refusal(add, "a deletion vector", "Use REORG TABLE … APPLY (PURGE).")
        if found is None or found.num_records is None:
            raise self._refusal(add, "no numRecords", "Use ANALYZE TABLE … COMPUTE DELTA STATISTICS.")
        if self._is_tracked and add.base_row_id is None:
            raise self._refusal(add, "no baseRowId", "Set delta.enableRowTracking = true.")
        rows = found.num_records
        counted = {path: count for path, count in found.null_count.items() if path in self._columns}
        low = {path: _bound(value, self._columns[path][1]) for path, value in self._bounds(found.min_values)}
        high = {
            path: _bound(_at_least(value, self._columns[path][1]), self._columns[path][1])
            for path, value in self._bounds(found.max_values)
        }
        file = DataFile.from_args(
            RECORDS,
            content=DataFileContent.DATA,
            file_path=self.path(add.path),
            file_format=FileFormat.PARQUET,
            partition=self.partition(add),
            record_count=rows,
            file_size_in_bytes=add.size_bytes,
            column_sizes=None,
            value_counts={self._columns[path][0]: rows for path in counted},
            null_value_counts={self._columns[path][0]: count for path, count in counted.items()},
            nan_value_counts=None,
            lower_bounds=self._encoded(low, sign=-1.0),
            upper_bounds=self._encoded(high, sign=1.0),
            key_metadata=None,
            split_offsets=None,
            equality_ids=None,
            sort_order_id=None,
            first_row_id=add.base_row_id if self._is_tracked else None,
        )
        return file

    def _refusal(self, add: Add, what: str, remedy: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            operation="Writing Iceberg's metadata",
            table=self._snapshot.url,
            detail=f"the file {add.path} has {what} in the log",
            remedy=remedy,
        )

    def _bounds(self, values: Any) -> Iterator[tuple[Path, Any]]:
        found = ((path, value) for path, value in values.items() if path in self._columns)
        return ((path, value) for path, value in found if has_bounds(self._columns[path][1]))

    def _encoded(self, values: dict[Path, Any], sign: float) -> dict[int, bytes]:
        """Bounds as bytes. Iceberg leaves NaN out, and takes zeros by their sign."""
        encoded = {}
        for path, value in values.items():
            number, _, kind = self._columns[path]
            if isinstance(value, float) and math.isnan(value):
                continue
            signed = math.copysign(0.0, sign) if isinstance(value, float) and value == 0 else value
            encoded[number] = to_bytes(kind, signed)
        return encoded

    def partition(self, add: Add) -> Record:
        """The partition of a file, in the order of the partition columns."""
        zone, values = self._snapshot.log.zone, add.partition_values or {}
        typed = [(parse_partition_value(values.get(name), kind, zone=zone), kind) for name, kind in self._partitions]
        return Record(*(_bound(value, kind) for value, kind in typed))


def _numbered(leaves: Iterator[tuple[Path, Field]], schema: Schema) -> Iterator[tuple[Path, tuple[int, DataType, Any]]]:
    """The columns that can have counts and bounds: id, type and Iceberg's type, by physical path."""
    for path, field in leaves:
        number = column_id(field)
        if number is None or isinstance(field.type, Array | Map):
            continue
        kind = schema.find_type(number)
        is_inexact = isinstance(field.type, Decimal) and field.type.precision > EXACT_DIGITS
        if isinstance(kind, PrimitiveType) and not is_inexact and not isinstance(kind, UnknownType):
            yield path, (number, field.type, kind)


def _bound(value: Any, kind: DataType) -> Any:
    """A typed value as Iceberg's metadata has it: days, microseconds, or the value."""
    match value:
        case datetime():
            return to_micros(value)
        case date():
            return to_days(value)
        case PyDecimal() if isinstance(kind, Decimal):
            return value.quantize(PyDecimal(1).scaleb(-kind.scale), context=_ALL_DIGITS)
        case _:
            return value


def _at_least(value: Any, kind: DataType) -> Any:
    """A value that no row exceeds, from a maximum that may be cut: timestamps to milliseconds, strings to a prefix."""
    if kind in (TIMESTAMP, TIMESTAMP_NTZ):
        return to_micros(value) + MILLISECOND_REST_MICROS
    if isinstance(value, str) and len(value) >= CUT_LENGTH_MIN and not value.endswith(_LAST_CHARACTER):
        return value + _LAST_CHARACTER
    return value
