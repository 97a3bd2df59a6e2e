"""The Parquet files of a table: their names, their columns, and the writer that makes them.

Protocol: "Writer Requirements for Column Mapping", "Delta Data Type to Parquet Type Mappings", "Partition Value
Serialization".
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import UnsupportedOperationError
from tahoe.errors.statements import WITH_SPARKS_ENGINE
from tahoe.protocol.configuration.column_mapping import column_id, nested_ids
from tahoe.protocol.configuration.row_tracking import field_ids
from tahoe.protocol.types.partitions import ascii_folder, format_partition_value
from tahoe.protocol.types.schema import VOID, Array, DataType, Field, Map, Struct, holds_geospatial
from tahoe.table.arrow.compression import arrow_codec
from tahoe.table.arrow.file_columns import FIELD_ID, GREGORIAN
from tahoe.table.arrow.parquet import leaves
from tahoe.table.arrow.types import arrow_type
from tahoe.table.writing.write_plan import WritePlan


def plain_value(value: pa.Scalar) -> Any:
    """The value in Python; the underlying integer for a date or timestamp outside the range of Python's calendar."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return value.value


def new_key(plan: WritePlan, values: Mapping[str, str | None], folder: str | None = None) -> str:
    """The key of a new data file in a partition.

    Args:
        values: serialised, by physical name.
        folder: a folder below the table.
    """
    codec = arrow_codec(plan.metadata.configuration, table=plan.url)
    name = f"part-00000-{plan.table.env.new_id()}-c000.{'' if codec == 'none' else f'{codec}.'}parquet"
    return "/".join(filter(None, (folder, ascii_folder(plan.physical_partition_columns, values), name)))


def serialised(plan: WritePlan, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Partition values as the log stores them, by physical name.

    Args:
        values: typed, in the order of the partition columns.
    """
    types = [field.type for field in (plan.schema.find(name) for name in plan.partition_columns) if field is not None]
    texts = [
        format_partition_value(value, kind, table=plan.url) for value, kind in zip(values.values(), types, strict=True)
    ]
    return dict(zip(plan.physical_partition_columns, texts, strict=True))


def check_writes(schema: Struct, *, table: str) -> None:
    """Refuse a table whose files only Spark writes.

    Raises:
        UnsupportedOperationError: it has geospatial columns.
    """
    if geospatial := [field.name for field in schema if holds_geospatial(field.type)]:
        raise UnsupportedOperationError(
            operation="Writing without Spark's engine",
            table=table,
            detail=f"the table has geospatial columns: {', '.join(geospatial)}",
            remedy=WITH_SPARKS_ENGINE,
        )


def as_stored(plan: WritePlan, rows: pa.Table) -> pa.Table:
    """Rows with the names and types of data files. Columns that are not in the schema stay, and void columns are left
    out.

    Raises:
        UnsupportedOperationError: the table has geospatial columns, which only Spark writes.
    """
    check_writes(plan.schema, table=plan.url)
    logical = {field.name: field for field in plan.schema}
    physical = dict(zip((f.name for f in plan.schema), plan.physical_schema, strict=True))
    kept = [name for name in rows.column_names if name not in logical or logical[name].type != VOID]
    row_ids = field_ids(plan.protocol, plan.metadata.configuration)
    fields = [
        _physical_field(physical[name])
        if name in physical
        else _numbered(name, rows.schema.field(name).type, row_ids.get(name))
        for name in kept
    ]
    columns = [
        pa.chunked_array([_renamed(chunk, field.type) for chunk in rows.column(name).chunks], type=field.type)
        for name, field in zip(kept, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


# If more than this share of so many neighbouring values of eight bytes or more are different, a dictionary of the
# column would grow beyond the size at which Parquet's writers give it up.
_DISTINCT_SHARE_MAX = 0.95
_SAMPLE_ROWS = 1 << 14
_WIDE_BITS = 64

# Whether the installed PyArrow writes Bloom filters. Files of an older one have none, which is legal: Spark or a later
# rewrite adds them.
WRITES_BLOOM_FILTERS = "bloom_filter_options" in inspect.signature(pq.ParquetWriter).parameters


def parquet_writer(
    plan: WritePlan,
    out: BinaryIO,
    first: pa.Table,
    with_nan: Collection[str],
    footers: list[pq.FileMetaData] | None = None,
) -> pq.ParquetWriter:
    """A writer of a data file.

    Args:
        first: the rows of its first row group, as `as_stored` gives them. The others are taken to be alike.
        with_nan: the Parquet columns that contain NaN. They get no statistics, because Arrow ignores NaN in bounds, and
            Delta sorts it last.
        footers: gets the footer when the writer is closed.
    """
    paths = [(field.name, path) for field in first.schema for path, _ in leaves(field.name, pa.array([], field.type))]
    bounded = [path for _, path in paths if path not in with_nan]
    repeating = [path for name, path in paths if _may_repeat(first.column(name).slice(0, _SAMPLE_ROWS))]
    codec = arrow_codec(plan.metadata.configuration, table=plan.url)
    filters = {
        name: {"ndv": max(1, min(first.num_rows, definition.num_items or first.num_rows)), "fpp": definition.fpp}
        for name, definition in plan.filtered_columns.items()
        if name in bounded
    }
    asked = {"bloom_filter_options": filters} if filters and WRITES_BLOOM_FILTERS else {}
    how = {
        "compression": codec,
        "store_schema": False,
        "write_statistics": bounded,
        "use_dictionary": repeating,
        **asked,
    }
    writer = pq.ParquetWriter(out, first.schema, metadata_collector=footers, **how)
    writer.add_key_value_metadata(GREGORIAN)
    return writer


def _may_repeat(values: pa.ChunkedArray) -> bool:
    """Whether a dictionary of the values may be smaller than the values. Building it takes a third of the time of
    writing a column.
    """
    kind = values.type
    if pa.types.is_nested(kind) or (pa.types.is_primitive(kind) and kind.bit_width < _WIDE_BITS):
        return True
    return bool(pc.count_distinct(values).as_py() <= _DISTINCT_SHARE_MAX * (len(values) - values.null_count))


def columns_with_nan(data: pa.Table) -> set[str]:
    """The Parquet columns of rows that contain NaN."""
    chunks = [(name, chunk) for name in data.column_names for chunk in data.column(name).chunks]
    values = [leaf for name, chunk in chunks for leaf in leaves(name, chunk)]
    return {path for path, leaf in values if pa.types.is_floating(leaf.type) and pc.any(pc.is_nan(leaf)).as_py()}


def _physical_field(field: Field) -> pa.Field:
    ids = nested_ids(field)
    return _numbered(field.name, _physical_type(field.type, field.name, ids), column_id(field))


def _numbered(name: str, kind: pa.DataType, number: int | None, *, nullable: bool = True) -> pa.Field:
    metadata = None if number is None else {FIELD_ID: str(number)}
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def _physical_type(data_type: DataType, path: str, ids: Mapping[str, int]) -> pa.DataType:
    """The type in files.

    Args:
        path: from the physical name of the column above it on, which is the key in `ids`, the ids of elements, keys
            and values.
    """

    def inner(part: str, kind: DataType, *, nullable: bool = True) -> pa.Field:
        there = f"{path}.{part}"
        return _numbered(part, _physical_type(kind, there, ids), ids.get(there), nullable=nullable)

    match data_type:
        case Struct(fields):
            return pa.struct([_physical_field(f) for f in fields if f.type != VOID])
        case Array():
            return pa.list_(inner("element", data_type.element))
        case Map():
            return pa.map_(inner("key", data_type.key, nullable=False), inner("value", data_type.value))
        case _:
            return arrow_type(data_type)


def _renamed(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values with the physical type's names, and without void fields."""
    if values.type.equals(wanted):
        return values
    if values.offset:
        values = values.take(pa.array(range(len(values)), pa.int64()))
    if pa.types.is_struct(wanted):
        given = [
            child
            for child, field in zip(values.flatten(), values.type, strict=True)
            if not pa.types.is_null(field.type)
        ]
        children = [_renamed(child, field.type) for child, field in zip(given, wanted, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
    if pa.types.is_map(wanted):
        keys, items = _renamed(values.keys, wanted.key_type), _renamed(values.items, wanted.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=values.is_null())
    if pa.types.is_list(wanted):
        return pa.ListArray.from_arrays(
            values.offsets, _renamed(values.values, wanted.value_type), type=wanted, mask=values.is_null()
        )
    return values.cast(wanted)
