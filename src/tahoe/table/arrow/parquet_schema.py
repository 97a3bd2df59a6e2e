"""The Delta schema of a Parquet file, as Spark infers it from the footer. Knows no table.

Protocol: "Delta Data Type to Parquet Type Mappings". Files of Spark have its schema in the footer; those of others have
Parquet types only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import GeospatialUnsupportedError, InvalidActionError, UnsupportedDataTypeError
from tahoe.protocol.types.schema import Field, Struct, as_nullable, map_fields, parse_schema
from tahoe.table.arrow.types import delta_schema

# Spark's key for the schema of the rows that it wrote.
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"

_TIMESTAMP = pa.timestamp("us", "UTC")

# Parquet's types for well-known binary. The reference does not take them into a table either.
_GEOSPATIAL = ("GEOMETRY", "GEOGRAPHY")

# The type that holds all longs without a sign.
_UNSIGNED_LONG = pa.decimal128(20, 0)


def schema_of_footer(footer: pq.FileMetaData, *, table: str) -> Struct:
    """The schema of a file, with all columns nullable. Of the columns' metadata only comments are kept.

    Raises:
        UnsupportedDataTypeError: a column has a type that Delta does not have, or that Spark does not read from Parquet
            files.
        GeospatialUnsupportedError: the file has geometries or geographies.
    """
    leaves = [footer.schema.column(number) for number in range(footer.num_columns)]
    if geospatial := [f"{leaf.path} {leaf.logical_type}" for leaf in leaves if leaf.logical_type.type in _GEOSPATIAL]:
        raise GeospatialUnsupportedError(
            operation="Making a Delta table of Parquet files", table=table, columns=", ".join(geospatial)
        )
    schema = _spark_schema(footer, table)
    if schema is None:
        in_order = iter(leaves)
        columns = [
            pa.field(field.name, _as_read(field.type, in_order, (field.name,), table))
            for field in footer.schema.to_arrow_schema()
        ]
        schema = delta_schema(pa.schema(columns), table=table)
    nullable = as_nullable(schema)
    assert isinstance(nullable, Struct)
    return map_fields(nullable, _with_comment_only)


def _spark_schema(footer: pq.FileMetaData, table: str) -> Struct | None:
    text = (footer.metadata or {}).get(SPARK_SCHEMA)
    try:
        return None if text is None else parse_schema(text.decode(), table=table)
    except (ValueError, InvalidActionError):  # of a Spark before 1.2: Spark uses the Parquet types too
        return None


def _with_comment_only(field: Field) -> Field:
    return replace(field, metadata={name: value for name, value in field.metadata.items() if name == "comment"})


def _as_read(kind: pa.DataType, leaves: Iterator[Any], path: tuple[str, ...], table: str) -> pa.DataType:
    """An Arrow type as Spark reads the column. Takes the type's Parquet columns from `leaves`."""
    if pa.types.is_struct(kind):
        return pa.struct(
            [pa.field(field.name, _as_read(field.type, leaves, (*path, field.name), table)) for field in kind]
        )
    if pa.types.is_map(kind):
        key = _as_read(kind.key_type, leaves, (*path, "key"), table)
        return pa.map_(key, _as_read(kind.item_type, leaves, (*path, "value"), table))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_as_read(kind.value_type, leaves, (*path, "element"), table))
    leaf = next(leaves)
    if leaf.physical_type == "INT96":
        return _TIMESTAMP
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        raise UnsupportedDataTypeError(
            table=table, column=".".join(path), type="timestamp in nanoseconds, which Spark does not read"
        )
    if pa.types.is_float16(kind):
        raise UnsupportedDataTypeError(
            table=table, column=".".join(path), type="float of 16 bits, which Spark does not read"
        )
    if pa.types.is_uint64(kind):
        return _UNSIGNED_LONG
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind
