"""Schemas of the protocol and schemas of Spark, both ways. They share one JSON form, so that each direction is a translation of texts.

Protocol: "Schema Serialization Format".
"""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark.sql.types import StructType

from tahoe.protocol.schema import Array, DataType, Field, Map, Struct, parse_schema

# What a column's metadata says under these names is between the log and the data files.
_LOG_METADATA = "delta."


def delta_schema(schema: StructType, *, table: str) -> Struct:
    """A Spark schema as the protocol has it.

    Raises:
        UnsupportedDataTypeError: a type that Delta cannot hold, with the column.
    """
    return parse_schema(schema.json(), table=table)


def spark_schema(schema: Struct) -> StructType:
    """The schema that users of a table see in Spark."""
    return StructType.fromJson(json.loads(visible_schema(schema).to_json()))


def visible_schema(schema: Struct) -> Struct:
    """The schema without the metadata that is not for users: column mapping, type changes, constraints of the log."""
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
