"""Converts between Delta types and Arrow types.

Protocol: "Delta Data Type to Parquet Type Mappings".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tahoe.errors import UnsupportedDataTypeError
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Geospatial,
    Map,
    Primitive,
    Struct,
)
from tahoe.table.arrow.canonical import canonical_schema

_VARIANT = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])

_TO_ARROW: Mapping[Primitive, pa.DataType] = {
    STRING: pa.string(),
    LONG: pa.int64(),
    INTEGER: pa.int32(),
    SHORT: pa.int16(),
    BYTE: pa.int8(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VARIANT: _VARIANT,
    VOID: pa.null(),
}

# Arrow has more types than Delta. Those that convert without loss are accepted.
_FROM_ARROW: Mapping[pa.DataType, DataType] = {
    **{arrow: delta for delta, arrow in _TO_ARROW.items() if delta is not VARIANT},
    pa.uint8(): SHORT,
    pa.uint16(): INTEGER,
    pa.uint32(): LONG,
    pa.float16(): FLOAT,
    pa.date64(): DATE,
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type for values of a Delta type."""
    match data_type:
        case Primitive():
            return _TO_ARROW[data_type]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Geospatial():
            return pa.binary()
        case Array():
            return pa.list_(pa.field("element", arrow_type(data_type.element), data_type.contains_null))
        case Map():
            value = pa.field("value", arrow_type(data_type.value), data_type.value_contains_null)
            return pa.map_(pa.field("key", arrow_type(data_type.key), nullable=False), value)
        case Struct(fields):
            return pa.struct([arrow_field(f) for f in fields])


def arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), field.nullable)


def arrow_schema(schema: Struct) -> pa.Schema:
    return pa.schema([arrow_field(f) for f in schema])


def delta_schema(schema: pa.Schema, *, table: str) -> Struct:
    """The Delta schema for Arrow data.

    Raises:
        UnsupportedDataTypeError: a type that Delta does not have, with the column.
    """
    return Struct(tuple(_delta_field(f, (f.name,), table) for f in canonical_schema(schema)))


def delta_type(kind: pa.DataType, path: Sequence[str], *, table: str) -> DataType:
    """The Delta type for Arrow data in canonical form, of the column or field at a path.

    Raises:
        UnsupportedDataTypeError: Delta does not have the type.
    """
    return _delta_type(kind, tuple(path), table)


def _delta_field(field: pa.Field, path: tuple[str, ...], table: str) -> Field:
    return Field(name=field.name, type=_delta_type(field.type, path, table), nullable=field.nullable)


def _delta_type(kind: pa.DataType, path: tuple[str, ...], table: str) -> DataType:
    """The type of Delta for one of Arrow. Some of Arrow's types have none, and the error names the column."""
    if kind in _FROM_ARROW:
        return _FROM_ARROW[kind]
    if pa.types.is_timestamp(kind):
        return TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return Decimal(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return Struct(tuple(_delta_field(f, (*path, f.name), table) for f in kind))
    if pa.types.is_map(kind):
        return Map(
            key=_delta_type(kind.key_type, (*path, "key"), table),
            value=_delta_type(kind.item_type, (*path, "value"), table),
            value_contains_null=kind.item_field.nullable,
        )
    if pa.types.is_list(kind):
        element = _delta_type(kind.value_type, (*path, "element"), table)
        return Array(element=element, contains_null=kind.value_field.nullable)
    raise UnsupportedDataTypeError(table=table, column=".".join(path), type=str(kind))
