"""Converts schemas between the protocol and Spark, through the JSON form that both share.

Protocol: "Schema Serialization Format".
"""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct, holds_geospatial, parse_schema

# The Spark whose Parquet reader and writer fail at geometries and geographies.
_WITHOUT_GEOSPATIAL_FILES = "4.1."

# Prefix of the column metadata that concerns only the log and the data files.
_LOG_METADATA = "delta."


def delta_schema(schema: StructType, *, table: str) -> Struct:
    """A Spark schema as a protocol schema. A user-defined type becomes its underlying SQL type, as in Spark's own
    files.

    Raises:
        UnsupportedDataTypeError: a column has a type that Delta does not support; names the column.
    """
    return parse_schema(schema.json(), table=table)


def spark_schema(schema: Struct) -> StructType:
    """The Spark schema that a table's users see."""
    return StructType.fromJson(json.loads(visible_schema(schema).to_json()))


def check_geospatial(spark: SparkSession, schema: Struct, verb: str, *, table: str) -> None:
    """Refuse columns of geometries and geographies in files, if this Spark has none.

    Args:
        verb: what the session would do with them: "Reading", or "Writing".

    Raises:
        UnsupportedOperationError: names the columns.
    """
    columns = [field.name for field in schema if holds_geospatial(field.type)]
    if columns and spark.version.startswith(_WITHOUT_GEOSPATIAL_FILES):
        raise UnsupportedOperationError(
            operation=f"{verb} the columns {', '.join(columns)}",
            table=table,
            detail=f"Spark {spark.version} has no geometries and geographies in Parquet files",
            remedy="Use Spark 4.2 or newer, or leave these columns out.",
        )


def visible_schema(schema: Struct) -> Struct:
    """The schema without internal metadata: column mapping, type changes, invariants and other `delta.` keys."""
    return Struct(tuple(_visible_field(f) for f in schema))


def _visible_field(field: Field) -> Field:
    kept = {name: value for name, value in field.metadata.items() if not name.startswith(_LOG_METADATA)}
    return replace(field, type=_visible_type(field.type), metadata=kept)


def _visible_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return visible_schema(data_type)
        case Array():
            return replace(data_type, element=_visible_type(data_type.element))
        case Map():
            return replace(data_type, key=_visible_type(data_type.key), value=_visible_type(data_type.value))
        case _:
            return data_type
