"""Reads rows into Arrow: data files with the table's schema, without deleted rows, exactly filtered.

Protocol: "Reader Requirements for Column Mapping", "Reader Requirements for Deletion Vectors", "Reader Requirements for
Row Tracking", "Consistency Between Table Metadata and Data Files". This is the reader without Spark; Spark uses its own
Parquet reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import ColumnNotFoundError, DataFileMissingError, InvalidDataFileError, UnsupportedOperationError
from tahoe.errors.statements import WITH_SPARKS_ENGINE
from tahoe.protocol.configuration.column_mapping import column_id, stored_name
from tahoe.protocol.configuration.row_tracking import BASE_ROW_ID, METADATA, METADATA_FIELDS, ROW_COMMIT_VERSION, ROW_ID
from tahoe.protocol.log.actions import DeletionVectorDescriptor, decode_deletion_vector
from tahoe.protocol.types.names import unused_name
from tahoe.protocol.types.predicate import Predicate, columns_of
from tahoe.protocol.types.schema import LONG, VARIANT, Array, DataType, Field, Map, Struct
from tahoe.storage.threads import on_all_cores
from tahoe.table.arrow.canonical import canonical_table
from tahoe.table.arrow.file_columns import FileColumns, check_same_kind, julian_column
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.arrow.row_stream import parts
from tahoe.table.arrow.types import arrow_field, arrow_type
from tahoe.table.log.deletion_vectors import load_deletion_vector
from tahoe.table.reading.evaluation import evaluate
from tahoe.table.reading.snapshot_state import SnapshotState

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # it imports the file systems of Arrow

# The field of a shredded variant that contains its typed values. Protocol: "Shredded Variant data in Parquet".
_SHREDDED = "typed_value"


class ShreddedVariantError(Exception):
    """A column of a file has shredded variants, which only Spark can read."""


# Finds a field of the table among the columns of a file.
Match: TypeAlias = "Callable[[FileColumns, Field], pa.Field | None]"


class Files(Protocol):
    """Files to read, and the predicate of their rows; see `Scan`."""

    @property
    def snapshot(self) -> SnapshotState: ...

    @property
    def predicate(self) -> Predicate | None: ...

    @property
    def files(self) -> pa.Table: ...

    @property
    def num_records(self) -> pa.ChunkedArray: ...

    @property
    def partition(self) -> pa.ChunkedArray: ...

    @property
    def deleted_records(self) -> pa.ChunkedArray: ...

    def column(self, name: str) -> pa.ChunkedArray: ...


def read_rows(scan: Files, columns: Sequence[str] | None = None, *, marked: bool = False) -> pa.Table:
    """The rows of a scan's files for which its predicate is true.

    Args:
        columns: logical names of top-level columns, and the row tracking fields of `_metadata`, in the wanted order;
            all columns of the table if None.
        marked: return the rows that deletion vectors delete instead of the live rows.

    Raises:
        ColumnNotFoundError: no such column.
        DataFileMissingError, InvalidDataFileError, DeletionVectorError: a file is not what the log says.
    """
    is_filtered = (
        scan.predicate is not None
    )  # of a file that is read at once, all rows are in memory before they are filtered
    schema, read = rows_schema(scan, columns), file_reader(scan, columns, marked=marked, by_group=is_filtered)
    pieces = [piece for of_file in on_all_cores(lambda file: list(read(file)), data_files(scan)) for piece in of_file]
    return (
        pa.concat_tables([schema.empty_table(), *pieces])
        if schema.names
        else no_columns(sum(piece.num_rows for piece in pieces))
    )


def rows_schema(scan: Files, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of a scan's rows.

    Raises:
        ColumnNotFoundError: no such column.
    """
    return pa.schema([arrow_field(f) for f in _fields_of(scan.snapshot, columns)])


def row_pieces(scan: Files, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows of `read_rows` as tables, one for each row group. Each is read when it is asked for."""
    read = file_reader(scan, columns, by_group=True)
    return (piece for file in data_files(scan) for piece in read(file))


def file_reader(
    scan: Files, columns: Sequence[str] | None, *, marked: bool = False, by_group: bool = False
) -> Callable[[DataFile], Iterator[pa.Table]]:
    """What reads the rows of `read_rows` from one file: in one table, or in a table for each row group."""
    snapshot, predicate = scan.snapshot, scan.predicate
    wanted = _fields_of(snapshot, columns)
    needed = with_predicate_columns(snapshot, wanted, predicate)
    schema = pa.schema([arrow_field(f) for f in wanted])

    def read(file: DataFile) -> Iterator[pa.Table]:
        for piece in _pieces(snapshot, file, needed, marked=marked, by_group=by_group):
            table = (
                piece.rows
                if predicate is None
                else piece.rows.filter(evaluate(predicate, piece.rows, table=snapshot.url))
            )
            yield (
                pa.table([table.column(f.name) for f in schema], schema=schema)
                if wanted
                else no_columns(table.num_rows)
            )

    return read


def no_columns(rows: int) -> pa.Table:
    """A table without columns that has a row count."""
    return pa.table({"": pa.nulls(rows)}).select([])


def _fields_of(snapshot: SnapshotState, columns: Sequence[str] | None) -> list[Field]:
    if columns is None:
        return list(snapshot.schema)
    fields = [snapshot.schema.find(name) or (_TRACKED.get(name) if snapshot.tracks_rows else None) for name in columns]
    for name, found in zip(columns, fields, strict=True):
        if found is None:
            raise ColumnNotFoundError(table=snapshot.url, column=name, columns=", ".join(snapshot.schema.names))
    return [f for f in fields if f is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracked(Field):
    """A row tracking field as a column of rows. `of`: its name in `_metadata`."""

    of: str


# The row tracking fields by the names that a caller uses.
_TRACKED = {f"{METADATA}.{name}": _Tracked(name=f"{METADATA}.{name}", type=LONG, of=name) for name in METADATA_FIELDS}


def tracked_fields(schema: Struct) -> list[Field]:
    """The row ids and row commit versions of a table with row tracking, as columns beside those of its schema, whatever
    their names.
    """
    return [
        _Tracked(name=unused_name(f"{METADATA}.{name}", schema.names), type=LONG, of=name)
        for name in (ROW_ID, ROW_COMMIT_VERSION)
    ]


def with_predicate_columns(
    snapshot: SnapshotState, wanted: Sequence[Field], predicate: Predicate | None
) -> list[Field]:
    names = {f.name for f in wanted}
    if predicate is not None:
        for column in columns_of(predicate):
            found = snapshot.schema.resolve(column.path)
            if found is None:
                dotted = ".".join(column.path)
                raise ColumnNotFoundError(table=snapshot.url, column=dotted, columns=", ".join(snapshot.schema.names))
            names.add(found[0].name)
    tracked = {f.name: f for f in wanted if isinstance(f, _Tracked)}
    return [*(f for f in snapshot.schema if f.name in names), *tracked.values()]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read, and the values that the log keeps for its rows.

    Attributes:
        path: as in the log.
        partition: typed values by logical name, as Arrow scalars.
    """

    url: str
    path: str
    partition: dict[str, Any]
    vector: DeletionVectorDescriptor | None
    base_row_id: int | None
    default_row_commit_version: int | None


def data_files(scan: Files) -> Iterator[DataFile]:
    files = scan.files
    partitions = dict(zip(scan.snapshot.partition_columns, files.column("partition").flatten(), strict=True))
    names = ("url", "deletion_vector", "base_row_id", "default_row_commit_version")
    rows = zip(scan.column("path").to_pylist(), *(files.column(name).to_pylist() for name in names), strict=True)
    for position, (path, url, vector, *tracked) in enumerate(rows):
        values = {name: column[position] for name, column in partitions.items()}
        yield DataFile(url, path, values, decode_deletion_vector(vector), *tracked)


def file_rows(snapshot: SnapshotState, file: DataFile, fields: Sequence[Field], *, marked: bool = False) -> pa.Table:
    """The live rows of one file, or those that its vector deletes, with logical names and types."""
    found = [piece.rows for piece in _pieces(snapshot, file, fields, marked=marked)]
    return found[0] if len(found) == 1 else pa.concat_tables(found)


def live_pieces(snapshot: SnapshotState, file: DataFile, fields: Sequence[Field]) -> Iterator[pa.Table]:
    """The live rows of one file in order, one row group at a time, with logical names and types.

    Args:
        fields: columns of the table, and those of `tracked_fields`.

    Raises:
        DataFileMissingError, InvalidDataFileError, DeletionVectorError: the file is not what the log says.
        UnsupportedOperationError: only Spark can read the file.
    """
    return (piece.rows for piece in _pieces(snapshot, file, fields, by_group=True))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file that follow one another.

    Attributes:
        start: the row index of the first one.
        of_file: how many rows the file has.
    """

    start: int
    rows: pa.Table
    of_file: int


def pieces_with(
    snapshot: SnapshotState, file: DataFile, fields: Sequence[Field], positions: npt.NDArray[np.int64] | None
) -> Iterator[Piece]:
    """The rows of one file without a vector, in tables of bounded size.

    Args:
        positions: ascending row indexes; row groups without one of them are left out. None for all row groups.
    """
    return _pieces(snapshot, file, fields, by_group=True, positions=positions)


def _pieces(
    snapshot: SnapshotState,
    file: DataFile,
    fields: Sequence[Field],
    *,
    marked: bool = False,
    by_group: bool = False,
    positions: npt.NDArray[np.int64] | None = None,
) -> Iterator[Piece]:
    """The rows of a file: in one table if they fit into one, or in tables of bounded size for each row group."""
    tracked = [f for f in fields if isinstance(f, _Tracked)]
    in_file = [f for f in fields if f.name not in snapshot.partition_columns and not isinstance(f, _Tracked)]
    store, key = snapshot.log.locate(file.url)
    try:
        with open_parquet(store, key) as parquet:
            match, schema = matcher(snapshot.column_mapping_mode), parquet.schema_arrow
            columns, names = FileColumns(schema), schema.names
            sources = {f.name: found.name for f in in_file if (found := match(columns, f)) is not None}
            sources |= {f.name: name for f in tracked if (name := _kept_in(snapshot, f)) in names}
            dead = _dead_rows(snapshot, file, parquet.metadata.num_rows)
            for start, rows, raw in _raw_pieces(
                parquet, list(sources.values()), by_group=by_group, positions=positions
            ):
                _check_calendar(raw, parquet.metadata, snapshot, file)
                table = _as_fields(
                    snapshot, file, fields, {name: raw.column(source) for name, source in sources.items()}, start, rows
                )
                live = table if dead is None else table.filter(pa.array(dead[start : start + rows] == marked))
                yield Piece(start, live, parquet.metadata.num_rows)
    except FileNotFoundError as error:
        raise DataFileMissingError.of(table=snapshot.url, file=file.path, version=snapshot.version) from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail=str(error)) from error


# What Arrow raises for values that do not fit into one array, as texts of more than two gigabytes; and for damaged
# files.
_TOO_LARGE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError)

# So many rows of a row group are read at once if its values do not fit into one array.
_BATCH_ROWS = 16


def _raw_pieces(
    parquet: pq.ParquetFile, names: list[str], *, by_group: bool, positions: npt.NDArray[np.int64] | None
) -> Iterator[tuple[int, int, pa.Table]]:
    """The rows as they are in the file, in canonical form, with the row index of the first row, and their number."""
    footer = parquet.metadata
    if not by_group:
        with suppress(*_TOO_LARGE):  # they are raised again if they have another reason
            found = canonical_table(parquet.read(columns=names)) if names else no_columns(footer.num_rows)
            yield 0, footer.num_rows, found
            return
    start = 0
    for group in range(footer.num_row_groups):
        rows = footer.row_group(group).num_rows
        if positions is None or np.searchsorted(positions, start) < np.searchsorted(positions, start + rows):
            at = start
            for piece in _group_pieces(parquet, group, names, rows):
                yield at, piece.num_rows, piece
                at += piece.num_rows
        start += rows


def _group_pieces(parquet: pq.ParquetFile, group: int, names: list[str], rows: int) -> Iterator[pa.Table]:
    """The rows of a row group, in tables of bounded size."""
    if not names:
        yield no_columns(rows)
        return
    try:
        found = canonical_table(parquet.read_row_group(group, columns=names))
    except _TOO_LARGE:
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names):
            yield canonical_table(pa.Table.from_batches([batch]))
    else:
        yield from parts(found)


def _dead_rows(snapshot: SnapshotState, file: DataFile, rows: int) -> npt.NDArray[np.bool_] | None:
    """A mask over all rows of a file: those that its vector deletes. None if it has no vector."""
    if file.vector is None:
        return None
    dead = np.zeros(rows, bool)
    dead[load_deletion_vector(snapshot.log, file.vector, file.path, rows=rows)] = True
    return dead


def _as_fields(
    snapshot: SnapshotState,
    file: DataFile,
    fields: Sequence[Field],
    raw: Mapping[str, pa.ChunkedArray],
    start: int,
    rows: int,
) -> pa.Table:
    """Rows of a file as columns of the table.

    Args:
        raw: the columns of the file, by the names of the fields that they belong to.
        start, rows: which rows of the file they are.
    """
    if not fields:
        return no_columns(rows)
    columns: list[pa.ChunkedArray | pa.Array] = []
    for field in fields:
        if isinstance(field, _Tracked):
            columns.append(_row_tracking_column(field, file, raw.get(field.name), start, rows))
        elif field.name in snapshot.partition_columns:
            columns.append(pa.repeat(file.partition[field.name], rows))
        elif field.name in raw:
            columns.append(_conform(raw[field.name], field, snapshot, file))
        else:
            columns.append(pa.nulls(rows, arrow_type(field.type)))
    return pa.table(columns, schema=pa.schema([pa.field(f.name, arrow_type(f.type)) for f in fields]))


def _kept_in(snapshot: SnapshotState, field: _Tracked) -> str | None:
    """The column of data files that stores a row tracking field of rows that were moved or updated; None if there is
    none.
    """
    assert snapshot.row_tracking is not None
    kept = {
        ROW_ID: snapshot.row_tracking.row_id_column,
        ROW_COMMIT_VERSION: snapshot.row_tracking.row_commit_version_column,
    }
    return kept.get(field.of)


def _row_tracking_column(
    field: _Tracked, file: DataFile, kept: pa.ChunkedArray | None, start: int, rows: int
) -> pa.ChunkedArray | pa.Array:
    """A row tracking field of rows of a file: the stored values, or else the default that follows from the file."""
    constant = file.base_row_id if field.of in (ROW_ID, BASE_ROW_ID) else file.default_row_commit_version
    default = pa.repeat(pa.scalar(constant, pa.int64()), rows)
    if field.of == ROW_ID:
        default = pc.add(default, pa.array(np.arange(start, start + rows)))
    return default if kept is None else pc.coalesce(kept, default)


def _check_calendar(raw: pa.Table, footer: pq.FileMetaData, snapshot: SnapshotState, file: DataFile) -> None:
    """Refuse values in the Julian calendar: only Spark can rebase them, in the time zone in which they were written."""
    column = julian_column(raw, footer)
    if column is not None:
        raise _only_spark(
            snapshot,
            file,
            f"its column {column} has dates before 1582-10-15, or timestamps before 1900-01-01, in the Julian calendar",
        )


def _only_spark(snapshot: SnapshotState, file: DataFile, detail: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation=f"Reading {file.path} without Spark's engine",
        table=snapshot.url,
        detail=detail,
        remedy=WITH_SPARKS_ENGINE,
    )


# --- from a file's columns to the table's


def matcher(mode: str) -> Match:
    """The function that finds a field of the table in a file's schema."""

    def by_name(columns: FileColumns, field: Field) -> pa.Field | None:
        return columns.named(stored_name(field, mode))

    def by_id(columns: FileColumns, field: Field) -> pa.Field | None:
        wanted = column_id(field)
        # Without an id it is an additional column of data files that is not in the table's schema.
        return by_name(columns, field) if wanted is None else columns.with_id(wanted)

    return by_id if mode == "id" else by_name


def _conform(column: pa.ChunkedArray, field: Field, snapshot: SnapshotState, file: DataFile) -> pa.ChunkedArray:
    match = matcher(snapshot.column_mapping_mode)
    try:
        return pa.chunked_array(
            [conform(chunk, field.type, match) for chunk in column.chunks], type=arrow_type(field.type)
        )
    except ShreddedVariantError as error:
        raise _only_spark(snapshot, file, f"its column {field.name} has shredded variants") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        detail = f"column {field.name} is {column.type} in the file but {field.type} in the table ({error})"
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail=detail) from error


def conform(values: pa.Array, data_type: DataType, match: Match) -> pa.Array:
    """Convert values of a file, in canonical form, to the table's type.

    Fields are matched by physical name, in any case, or by id. Missing fields become null. Narrower numbers are
    widened.

    Raises:
        ShreddedVariantError: the values are shredded variants, or contain some.
        pyarrow.ArrowException: they are of another kind.
    """
    wanted = arrow_type(data_type)
    if values.type.equals(wanted):
        return values
    match data_type:
        case Struct(fields):
            children, columns, field_values = [], FileColumns(values.type), values.flatten()
            for field in fields:
                source = match(columns, field)
                child = None if source is None else field_values[values.type.get_field_index(source.name)]
                children.append(
                    pa.nulls(len(values), arrow_type(field.type))
                    if child is None
                    else conform(child, field.type, match)
                )
            return _struct(children, wanted, values)
        case Array():
            values = _unsliced(values)
            elements = conform(values.values, data_type.element, match)
            return pa.ListArray.from_arrays(values.offsets, elements, type=wanted, mask=values.is_null())
        case Map():
            values = _unsliced(values)
            keys, items = conform(values.keys, data_type.key, match), conform(values.items, data_type.value, match)
            return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=values.is_null())
        case _ if data_type == VARIANT:
            if values.type.get_field_index(_SHREDDED) >= 0:
                raise ShreddedVariantError
            children = [values.flatten()[values.type.get_field_index(f.name)].cast(f.type) for f in wanted]
            return _struct(children, wanted, values)
        case _:
            check_same_kind(values.type, wanted)
            return values.cast(wanted)


def _struct(children: Sequence[pa.Array], wanted: pa.StructType, values: pa.StructArray) -> pa.Array:
    if not children:
        return pa.array([None if missing else {} for missing in values.is_null().to_pylist()], wanted)
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())


def _unsliced(values: pa.Array) -> pa.Array:
    """The same values with offset 0, because the child arrays of a sliced list cannot be reused."""
    return values.take(pa.array(range(len(values)), pa.int64())) if values.offset else values
