"""Writes Arrow data without Spark: the writer behind `Table.append`.

Protocol: "Writer Requirements for Column Mapping", "Per-file Statistics". It writes one data file per partition, for data that fits in
memory.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import MetadataChangedException, NoColumnsError, UnsupportedDataTypeError
from tahoe.protocol.change_feed import CHANGE_DATA_FOLDER, CHANGE_TYPE
from tahoe.protocol.column_mapping import column_id
from tahoe.protocol.constraints import constraints_of
from tahoe.protocol.partitions import format_partition_value, partition_folder
from tahoe.protocol.schema import VOID, Array, DataType, Field, Map, Struct, types_in, walk_fields
from tahoe.table.arrow.compression import arrow_codec
from tahoe.table.arrow.file_columns import GREGORIAN
from tahoe.table.arrow.parquet import leaves
from tahoe.table.arrow.types import arrow_type, delta_schema
from tahoe.table.reading.constraints import check_rows
from tahoe.table.reading.table_reader import TableReader
from tahoe.table.writing.arrow_assignment import assign_arrow
from tahoe.table.writing.arrow_values import check_generated, completed, minted_in
from tahoe.table.writing.footers import read_statistics
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WriteRequest, WrittenFile


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one partition, with the columns that its file contains."""

    values: dict[str, Any]
    rows: pa.Table


def write_arrow(table: TableReader, data: pa.Table, request: WriteRequest) -> int | None:
    """Write rows as a request says, in one commit.

    Returns:
        the version that was committed; None if there was nothing to do.

    Raises:
        DeltaAnalysisError: the data does not fit the table; nothing was written.
        DeltaConcurrentModificationException: a winner conflicts; the written files were deleted.
    """
    plan = plan_write(table, request)
    return None if plan is None else commit_files(plan, write_files(plan, data), data.num_rows)


def schema_of_rows(data: pa.Table, *, table: str) -> Struct:
    """The Delta schema of rows to write.

    Raises:
        NoColumnsError: they have no columns.
        UnsupportedDataTypeError: a type that Delta does not have, with the column.
    """
    if not data.num_columns:
        raise NoColumnsError(table=table)
    return delta_schema(data.schema, table=table)


def write_files(plan: WritePlan, data: pa.Table) -> list[WrittenFile]:
    """Write new rows as the data files of a plan, one per partition, with statistics. If that fails, all files are deleted.

    Raises:
        DeltaAnalysisError: the data does not fit the table, or lacks values that only Spark can compute.
    """
    plan.check_writes_files()
    _check_structs(plan)
    schema, url, zone, values = plan.schema, plan.url, plan.table.log.zone, plan.column_values
    minted = minted_in(data, schema, values)
    rows = completed(data, schema, values, table=url, zone=zone)
    assigned = assign_arrow(rows, schema, table=url, partition_columns=plan.partition_columns)
    check_generated(assigned, schema, values, table=url, zone=zone)
    check_rows(assigned, constraints_of(plan.metadata, table=url), schema, table=url, zone=zone)
    return _write(plan, assigned, minted=minted)


def write_again(plan: WritePlan, rows: pa.Table, hidden: Mapping[str, pa.ChunkedArray]) -> list[WrittenFile]:
    """Write existing rows of the table to other files, unchanged.

    Args:
        hidden: additional columns of the files, by name, that are not in the schema: stored row ids and row commit versions.
    """
    plan.check_writes_files()
    return _write(plan, _beside(rows, hidden))


def write_change_files(plan: WritePlan, rows: pa.Table, kinds: pa.ChunkedArray) -> list[WrittenFile]:
    """Write change data files. Protocol: "Change Data Files".

    Args:
        rows: of the table.
        kinds: the change type of each row: `insert` or `delete`.
    """
    return _write(plan, _beside(rows, {CHANGE_TYPE: kinds}), folder=CHANGE_DATA_FOLDER)


def _beside(rows: pa.Table, hidden: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in hidden.items():
        rows = rows.append_column(name, column)
    return rows


def _write(plan: WritePlan, rows: pa.Table, *, minted: Sequence[str] = (), folder: str | None = None) -> list[WrittenFile]:
    """Write rows that have the types of the table, one file per partition.

    Args:
        folder: a folder below the table, for files without statistics.
    """
    url, written = plan.url, list[WrittenFile]()
    try:
        for part in _partitions(rows, plan):
            if part.rows.num_rows:
                _write_part(plan, part, folder, written)
        return written if folder else _with_statistics(plan, written, minted)
    except FileNotFoundError as error:
        delete_files(plan, written)
        winner, detail = "a file that was just written is gone", "the table was dropped or recreated since this write began"
        raise MetadataChangedException(table=url, winner=winner, detail=detail) from error
    except BaseException:
        delete_files(plan, written)
        raise


def commit_files(plan: WritePlan, files: Sequence[WrittenFile], rows: int) -> int | None:
    """Commit the files that were written; see `WritePlan.commit`."""
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": sum(f.size_bytes for f in files)}
    return plan.commit(files, metrics, discard=lambda: delete_files(plan, files))


def delete_files(plan: WritePlan, files: Sequence[WrittenFile]) -> None:
    plan.table.env.discard(file.key for file in files)


# --- files


def _check_structs(plan: WritePlan) -> None:
    """Refuse structs without fields, which Parquet cannot represent."""
    for path, column in walk_fields(plan.schema):
        if Struct(()) in types_in(column.type):
            raise UnsupportedDataTypeError(
                table=plan.url, column=".".join(path), type=f"{column.type}, which is or contains a struct without fields"
            )


def _partitions(data: pa.Table, plan: WritePlan) -> Iterator[_Part]:
    names = list(plan.partition_columns)
    others = [name for name in data.column_names if name not in names]
    rest = [*others, *names] if plan.keeps_partitions_in_files else others
    if not names:
        yield _Part({}, data)
        return
    encoded = [pc.dictionary_encode(data.column(name), null_encoding="encode") for name in names]  # one dictionary for all chunks
    codes = pa.table([_indices(column) for column in encoded], names=[str(i) for i in range(len(names))])
    for combination in codes.group_by(codes.column_names).aggregate([]).to_pylist():
        mask = pa.repeat(pa.scalar(True), data.num_rows)
        for name, code in combination.items():
            mask = pc.and_(mask, pc.equal(codes.column(name), code))
        values = {name: plain_value(encoded[i].chunk(0).dictionary[combination[str(i)]]) for i, name in enumerate(names)}
        yield _Part(values, data.select(rest).filter(mask))


def plain_value(value: pa.Scalar) -> Any:
    """The value in Python; the underlying integer for a date or timestamp outside the range of Python's calendar."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return value.value


def _indices(encoded: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.indices for chunk in encoded.chunks], type=encoded.type.index_type)


def _write_part(plan: WritePlan, part: _Part, folder: str | None, written: list[WrittenFile]) -> None:
    """Write a part. Its file is among those written before it is put: an interruption may come between any two lines."""
    env = plan.table.env
    values = serialised(plan, part.values)
    plan.check_replaced(values)
    content = _parquet(plan, part.rows)
    key = new_key(plan, values, folder)
    written.append(WrittenFile(key=key, size_bytes=len(content), modification_time_ms=env.clock_ms(), partition_values=values))
    env.store.put(key, content)


def new_key(plan: WritePlan, values: Mapping[str, str | None], folder: str | None = None) -> str:
    """The key of a new data file in a partition.

    Args:
        values: serialised, by physical name.
        folder: a folder below the table.
    """
    codec = arrow_codec(plan.metadata.configuration, table=plan.url)
    name = f"part-00000-{plan.table.env.new_id()}-c000.{'' if codec == 'none' else f'{codec}.'}parquet"
    return "/".join(filter(None, (folder, partition_folder(plan.physical_partition_columns, values), name)))


def serialised(plan: WritePlan, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Partition values as the log stores them, by physical name.

    Args:
        values: typed, in the order of the partition columns.
    """
    types = [field.type for field in (plan.schema.find(name) for name in plan.partition_columns) if field is not None]
    texts = [format_partition_value(value, kind, table=plan.url) for value, kind in zip(values.values(), types, strict=True)]
    return dict(zip(plan.physical_partition_columns, texts, strict=True))


def as_stored(plan: WritePlan, rows: pa.Table) -> pa.Table:
    """Rows with the names and types of data files. Columns that are not in the schema stay, and void columns are left out."""
    logical = {field.name: field for field in plan.schema}
    physical = dict(zip((f.name for f in plan.schema), plan.physical_schema, strict=True))
    kept = [name for name in rows.column_names if name not in logical or logical[name].type != VOID]
    fields = [_physical_field(physical[name]) if name in physical else rows.schema.field(name) for name in kept]
    columns = [
        pa.chunked_array([_renamed(chunk, field.type) for chunk in rows.column(name).chunks], type=field.type)
        for name, field in zip(kept, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _parquet(plan: WritePlan, rows: pa.Table) -> bytes:
    data, out = as_stored(plan, rows), io.BytesIO()
    with parquet_writer(plan, out, data.schema, columns_with_nan(data), data.num_rows) as writer:
        writer.write_table(data)
    return out.getvalue()


# Whether the installed PyArrow writes Bloom filters. Files of an older one have none, which is legal: Spark or a later rewrite adds them.
WRITES_BLOOM_FILTERS = "bloom_filter_options" in inspect.signature(pq.ParquetWriter).parameters


def parquet_writer(plan: WritePlan, out: BinaryIO, schema: pa.Schema, with_nan: Collection[str], group_rows: int) -> pq.ParquetWriter:
    """A writer of a data file.

    Args:
        schema: of `as_stored` rows.
        group_rows: how many rows a row group has, about.
        with_nan: the Parquet columns that contain NaN. They get no statistics, because Arrow ignores NaN in bounds, and Delta sorts it
            last.
    """
    bounded = [path for field in schema for path, _ in leaves(field.name, pa.array([], field.type)) if path not in with_nan]
    codec = arrow_codec(plan.metadata.configuration, table=plan.url)
    filters = {
        name: {"ndv": max(1, min(group_rows, definition.num_items or group_rows)), "fpp": definition.fpp}
        for name, definition in plan.filtered_columns.items()
        if name in bounded
    }
    asked = {"bloom_filter_options": filters} if filters and WRITES_BLOOM_FILTERS else {}
    writer = pq.ParquetWriter(out, schema, compression=codec, store_schema=False, write_statistics=bounded, **asked)
    writer.add_key_value_metadata(GREGORIAN)
    return writer


def columns_with_nan(data: pa.Table) -> set[str]:
    """The Parquet columns of rows that contain NaN."""
    chunks = [(name, chunk) for name in data.column_names for chunk in data.column(name).chunks]
    values = [leaf for name, chunk in chunks for leaf in leaves(name, chunk)]
    return {path for path, leaf in values if pa.types.is_floating(leaf.type) and pc.any(pc.is_nan(leaf)).as_py()}


def _physical_field(field: Field) -> pa.Field:
    number = column_id(field)
    metadata = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.field(field.name, _physical_type(field.type), metadata=metadata)


def _physical_type(data_type: DataType) -> pa.DataType:
    match data_type:
        case Struct(fields):
            return pa.struct([_physical_field(f) for f in fields if f.type != VOID])
        case Array():
            return pa.list_(pa.field("element", _physical_type(data_type.element)))
        case Map():
            return pa.map_(_physical_type(data_type.key), _physical_type(data_type.value))
        case _:
            return arrow_type(data_type)


def _renamed(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values with the physical type's names, and without void fields."""
    if values.type.equals(wanted):
        return values
    if values.offset:
        values = values.take(pa.array(range(len(values)), pa.int64()))
    if pa.types.is_struct(wanted):
        given = [child for child, field in zip(values.flatten(), values.type, strict=True) if not pa.types.is_null(field.type)]
        children = [_renamed(child, field.type) for child, field in zip(given, wanted, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
    if pa.types.is_map(wanted):
        keys, items = _renamed(values.keys, wanted.key_type), _renamed(values.items, wanted.item_type)
        rebuilt = pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted)
        return pc.if_else(values.is_valid(), rebuilt, pa.scalar(None, wanted)) if values.null_count else rebuilt
    if pa.types.is_list(wanted):
        return pa.ListArray.from_arrays(values.offsets, _renamed(values.values, wanted.value_type), type=wanted, mask=values.is_null())
    return values.cast(wanted)


def _with_statistics(plan: WritePlan, files: list[WrittenFile], minted: Sequence[str]) -> list[WrittenFile]:
    keys = [f.key for f in files]
    store, mode = plan.table.env.store, plan.column_mapping_mode
    statistics = read_statistics(store, keys, plan.metadata, mode, clustering=plan.clustering_columns, minted=minted)
    return [replace(f, statistics=statistics[f.key].json, minted=statistics[f.key].minted) for f in files]
