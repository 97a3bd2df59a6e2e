"""The schema of an Iceberg table as that of a Delta table: its field ids are the ids of column mapping.

Protocol: "Column Mapping". The schema is given as in Iceberg's metadata (Iceberg's specification, "Appendix C: JSON
serialization"). Types that a Delta table does not read from the same Parquet files are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tahoe.errors import UnsupportedDataTypeError
from tahoe.protocol.configuration.column_mapping import ID, PHYSICAL_NAME
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
)

_TYPES: Mapping[str, DataType] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "timestamp": TIMESTAMP_NTZ,
    "timestamptz": TIMESTAMP,
    "string": STRING,
    "binary": BINARY,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*\d+\s*\]")


def delta_struct(given: Mapping[str, Any], *, table: str, path: tuple[str, ...] = ()) -> Struct:
    """The columns of a struct, with their ids and with their names as physical names.

    Raises:
        UnsupportedDataTypeError: a column has a type that Delta does not have, or a value for the files that lack it.
    """
    return Struct(fields=tuple(_field(found, table, path) for found in given["fields"]))


def _field(given: Mapping[str, Any], table: str, above: tuple[str, ...]) -> Field:
    """A column of Iceberg as one of Delta: its id stays, by which files have it. A value for files that lack the column
    is refused, because Delta reads null there.
    """
    name = str(given["name"])
    path = (*above, name)
    if given.get("initial-default") is not None:
        kind = f"{given['type']} with the value {given['initial-default']!r} in the files that lack it"
        raise UnsupportedDataTypeError(table=table, column=".".join(path), type=kind)
    metadata: dict[str, Any] = {ID: int(given["id"]), PHYSICAL_NAME: name}
    if given.get("doc"):
        metadata["comment"] = str(given["doc"])
    return Field(
        name=name, type=_type(given["type"], table, path), nullable=not given.get("required", False), metadata=metadata
    )


def _type(given: Any, table: str, path: tuple[str, ...]) -> DataType:
    """A type of Iceberg's JSON as one of Delta, at any depth."""
    if isinstance(given, str):
        return _primitive(given, table, path)
    match given["type"]:
        case "struct":
            return delta_struct(given, table=table, path=path)
        case "list":
            element = _type(given["element"], table, (*path, "element"))
            return Array(element=element, contains_null=not given.get("element-required", False))
        case "map":
            key, value = (_type(given[part], table, (*path, part)) for part in ("key", "value"))
            return Map(key=key, value=value, value_contains_null=not given.get("value-required", False))
        case kind:
            raise UnsupportedDataTypeError(table=table, column=".".join(path), type=str(kind))


def _primitive(name: str, table: str, path: tuple[str, ...]) -> DataType:
    primitive = _TYPES.get(name)
    if primitive is not None:
        return primitive
    if decimal := _DECIMAL.fullmatch(name):
        return Decimal(precision=int(decimal[1]), scale=int(decimal[2]))
    if _FIXED.fullmatch(name):
        return BINARY
    raise UnsupportedDataTypeError(table=table, column=".".join(path), type=name)
