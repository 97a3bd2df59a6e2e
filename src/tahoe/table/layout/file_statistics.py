"""The statistics of a data file that exists already: from its footer where that is exact, otherwise from its live rows.

Protocol: "Per-file Statistics", "Deletion Vectors". The result is what a new file with the same live rows would have,
except that the number of rows includes the deleted ones. A footer is not enough if the file has a deletion vector, or
if its writer may have shortened texts or left out NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import DataFileMissingError, InvalidDataFileError
from tahoe.protocol.configuration.column_mapping import column_id
from tahoe.protocol.statistics.stats import Statistics, has_bounds
from tahoe.protocol.types.predicate import is_nan
from tahoe.protocol.types.schema import DOUBLE, FLOAT, STRING, VARIANT, Array, DataType, Map
from tahoe.table.arrow.file_columns import FIELD_ID, FileColumns
from tahoe.table.arrow.parquet import child, open_parquet
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.rows import DataFile, live_pieces
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.footers import (
    BOUND_VALUES,
    IndexedColumn,
    bounds_nan,
    footer_statistics,
    leaf_positions,
    may_shred,
)

# Writers that do not shorten texts in a footer. Others shorten them to 64 bytes.
_WRITERS_OF_WHOLE_TEXTS = ("parquet-mr", "parquet-cpp")
_TEXT_EXACT_BYTES = 64


# Types of a file, by the type of the table whose values they have.
_SAME_VALUES = {
    pa.string(): (pa.large_string(), pa.string_view()),
    pa.binary(): (pa.large_binary(), pa.binary_view()),
    pa.int32(): (pa.int8(), pa.int16()),
    pa.int16(): (pa.int8(),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The statistics of a file as far as its footer has them, and the columns that must be measured in its rows.

    It can be sent to another process.

    Attributes:
        snapshot: the version of the table, without files.
        found: if the file has a deletion vector, these statistics are wide.
    """

    snapshot: Snapshot
    file: DataFile
    size_bytes: int
    found: Statistics
    columns: tuple[IndexedColumn, ...]

    @property
    def needs_rows(self) -> bool:
        return bool(self.columns) or not self.found.tight_bounds


def has_statistics(column: IndexedColumn) -> bool:
    """Whether new files get statistics of a column: not of what is inside arrays and maps."""
    return not isinstance(column.type, Array | Map)


def measure_footer(
    snapshot: Snapshot, file: DataFile, size_bytes: int, columns: Sequence[IndexedColumn]
) -> Measurement:
    """Read a file's footer.

    Raises:
        DataFileMissingError, InvalidDataFileError: the file is not what the log says.
    """
    store, key = snapshot.log.locate(file.url)
    try:
        with open_parquet(store, key) as parquet:
            footer = parquet.metadata
        layout = footer_layout(footer, columns, snapshot.column_mapping_mode)
        found = exact_statistics(footer, layout, shredded=may_shred(snapshot.metadata))
    except FileNotFoundError as error:
        raise DataFileMissingError.of(table=snapshot.url, file=file.path, version=snapshot.version) from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail=str(error)) from error
    if file.vector is not None:
        wide = replace(found, tight_bounds=False)
        return Measurement(snapshot=snapshot, file=file, size_bytes=size_bytes, found=wide, columns=tuple(columns))
    missing = tuple(c for c in columns if c.physical not in found.null_count or _lacks_bounds(footer, found, c))
    return Measurement(snapshot=snapshot, file=file, size_bytes=size_bytes, found=found, columns=missing)


def measure_rows(work: Measurement) -> Statistics:
    """Complete the statistics from the live rows, one row group at a time.

    Raises:
        DataFileMissingError, InvalidDataFileError, DeletionVectorError: the file is not what the log says.
        UnsupportedOperationError: only Spark can read the file.
    """
    found = work.found if work.found.tight_bounds else Statistics(num_records=work.found.num_records)
    if not work.columns:
        return found
    measured = [_Measured(column) for column in work.columns]
    tops = {column.logical[0] for column in work.columns}
    for rows in live_pieces(work.snapshot, work.file, [f for f in work.snapshot.schema if f.name in tops]):
        for column in measured:
            column.add(rows)
    bounds = {column.path: column.bounds for column in measured if column.bounds is not None}
    return replace(
        found,
        null_count={**found.null_count, **{column.path: column.null_count for column in measured}},
        min_values={**found.min_values, **{path: low for path, (low, _) in bounds.items()}},
        max_values={**found.max_values, **{path: high for path, (_, high) in bounds.items()}},
    )


# --- what a footer tells


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterLayout:
    """Where the statistics of some columns are in the footers of files of one schema.

    Attributes:
        absent: the columns that the files do not have.
        alike: the columns that they have under the same name and with the same values, with their types.
        positions: the number of each column among the leaf columns of the footer, by path.
    """

    absent: frozenset[tuple[str, ...]]
    alike: Mapping[tuple[str, ...], DataType]
    positions: Mapping[tuple[str, ...], int]


def footer_layout(footer: pq.FileMetaData, columns: Sequence[IndexedColumn], mode: str) -> FooterLayout:
    """The layout of all files with the schema of this footer."""
    schema = footer.schema.to_arrow_schema()
    there, whole = FileColumns(schema), pa.field("", pa.struct(list(schema)))
    absent = frozenset(c.physical for c in columns if mode != "id" and _is_absent(there, c.physical))
    alike = {c.physical: c.type for c in columns if c.physical not in absent and _is_alike(whole, c, mode)}
    return FooterLayout(absent=absent, alike=alike, positions=leaf_positions(schema))


def exact_statistics(footer: pq.FileMetaData, layout: FooterLayout, *, shredded: bool = False) -> Statistics:
    """The statistics that are exact in a footer. A column that the file does not have is null in every row.

    Args:
        shredded: whether variants have bounds.
    """
    found = footer_statistics(footer, layout.alike, layout.positions, shredded=shredded)
    uncertain = {path for path, kind in layout.alike.items() if _is_uncertain(footer, found, path, kind)}
    return replace(
        found,
        null_count={**found.null_count, **dict.fromkeys(layout.absent, footer.num_rows)},
        min_values={path: value for path, value in found.min_values.items() if path not in uncertain},
        max_values={path: value for path, value in found.max_values.items() if path not in uncertain},
    )


def _is_absent(columns: FileColumns, path: Sequence[str]) -> bool:
    here: FileColumns | None = columns
    for name in path:
        if here is None:
            return False
        found = here.named(name)
        if found is None:
            return True
        here = here.inside(found)
    return False


def _is_alike(field: Any, column: IndexedColumn, mode: str) -> bool:
    """Whether the file, as a struct, has the column under its physical name, in the same case, and in exactly the
    table's type.
    """
    for name in column.physical:
        place = field.type.get_field_index(name) if pa.types.is_struct(field.type) else -1
        if place < 0:
            return False
        field = field.type.field(place)
    if mode == "id" and (field.metadata or {}).get(FIELD_ID) != str(column_id(column.field)).encode():
        return False
    return column.type == VARIANT or has_values_of(field.type, arrow_type(column.type))


def has_values_of(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a file's type are the same values in the table's type, so that its bounds are too."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz is not None:  # the zone is only for display
        kind = pa.timestamp(kind.unit, "UTC")
    return bool(kind == wanted or kind in _SAME_VALUES.get(wanted, ()))


def _is_uncertain(footer: pq.FileMetaData, found: Statistics, path: tuple[str, ...], kind: Any) -> bool:
    """Whether bounds of the footer may not be those of the rows."""
    if kind in (FLOAT, DOUBLE):
        return not bounds_nan(footer)
    if kind == STRING and not str(footer.created_by).startswith(_WRITERS_OF_WHOLE_TEXTS):
        texts = (bounds.get(path) for bounds in (found.min_values, found.max_values))
        return any(text is not None and len(text.encode()) >= _TEXT_EXACT_BYTES for text in texts)
    return False


def _lacks_bounds(footer: pq.FileMetaData, found: Statistics, column: IndexedColumn) -> bool:
    """Whether bounds that the rows may have are unknown."""
    path = column.physical
    if not has_bounds(column.type) or path in found.min_values or found.null_count.get(path) == footer.num_rows:
        return False
    is_nan_at_an_end = column.type in (FLOAT, DOUBLE) and bounds_nan(footer)
    return not (is_nan_at_an_end and path in leaf_positions(footer.schema.to_arrow_schema()))


# --- what rows tell


class _Measured:
    """Counts the nulls and finds the bounds of one column."""

    def __init__(self, column: IndexedColumn) -> None:
        self._column = column
        self._ends: list[Any] = []
        self._has_bounds = has_bounds(column.type)
        self.null_count = 0

    @property
    def path(self) -> tuple[str, ...]:
        return self._column.physical

    def add(self, rows: pa.Table) -> None:
        values = rows.column(self._column.logical[0])
        for name in self._column.logical[1:]:
            values = child(values, name)
        self.null_count += values.null_count
        if self._has_bounds and values.null_count < len(values):
            try:
                self._ends.extend(self._ends_of(values))
            except UnicodeDecodeError:  # text that is not UTF-8 has no bounds in JSON
                self._has_bounds = False
            if self._column.type in (FLOAT, DOUBLE) and pc.any(pc.is_nan(values)).as_py():
                self._has_bounds = False

    def _ends_of(self, values: pa.ChunkedArray) -> Iterator[Any]:
        ends = pc.min_max(values)
        for end in (ends["min"], ends["max"]):
            yield end.value if self._column.type in BOUND_VALUES else end.as_py()

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """The smallest and the largest value, as footers have them; None if there are none, or one value is NaN."""
        if not self._ends or not self._has_bounds or any(is_nan(end) for end in self._ends):
            return None
        low, high = min(self._ends), max(self._ends)
        if self._column.type in (
            FLOAT,
            DOUBLE,
        ):  # zeros are equal whatever their sign, and a footer does not tell which were there
            return low or -0.0, high or 0.0
        value = BOUND_VALUES.get(self._column.type)
        return (low, high) if value is None else (value(low), value(high))
