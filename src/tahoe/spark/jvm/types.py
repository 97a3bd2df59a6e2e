"""Converts schemas between the protocol and Spark, through the JSON form that both share.

Protocol: "Schema Serialization Format".
"""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark.sql.types import StructType

from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct, parse_schema

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
