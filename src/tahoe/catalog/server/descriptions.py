"""What the database keeps of a table's definition: columns, properties and comment.

Those of a managed table are read from its log, once for each version that is asked for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.server.calls import Call, choice, optional_integer, optional_text, records, text
from tahoe.catalog.server.refusals import invalid
from tahoe.catalog.tables_of_database import TABLES
from tahoe.catalog.views import View
from tahoe.errors import DeltaError
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.types.schema import Array, DataType, Decimal, Field, Map, Struct, encode_type, parse_schema
from tahoe.table.reading.snapshot import Snapshot

_LOGGER = logging.getLogger("tahoe.catalog.server")

# The names of types in SQL, and in Unity Catalog, where they differ from those of the protocol.
_SQL = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_UNITY = {"integer": "INT", "void": "NULL"}

_TYPE_NAMES = frozenset(
    {
        *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DECIMAL"),
        *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL", "STRING", "CHAR", "BINARY", "VARIANT"),
        *("ARRAY", "STRUCT", "MAP", "NULL", "USER_DEFINED_TYPE", "TABLE_TYPE"),
    }
)


def described(call: Call, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table's row with its present definition. If the log cannot be read, with the one that is known."""
    version = row["latest_version"]
    if row["kind"] != "managed" or version < 0 or row["described_version"] == version:
        return row
    try:
        known = call.service.known(row["id"], row["url"], version)
    except (DeltaError, OSError):
        _LOGGER.exception("the log of table %s cannot be read", row["id"])
        return row
    values = {**definition(known.snapshot), "described_version": version}
    with call.service.begin() as connection:
        is_older = TABLES.c.described_version.is_(None) | (TABLES.c.described_version < version)
        connection.execute(sa.update(TABLES).where((TABLES.c.id == row["id"]) & is_older).values(**values))
    return {**row, **values}


def definition(snapshot: Snapshot) -> dict[str, Any]:
    """Columns, properties and comment as the database keeps them. The features of the table are among its properties:
    by them, clients know that it is a managed one.
    """
    metadata = snapshot.metadata
    features = {f"delta.feature.{name}": "supported" for name in sorted(supported_features(snapshot.protocol))}
    partitions = {name: number for number, name in enumerate(metadata.partition_columns)}
    columns = [_column(number, field, partitions) for number, field in enumerate(metadata.schema)]
    return {
        "columns": json.dumps(columns),
        "properties": json.dumps({**metadata.configuration, **features}),
        "comment": metadata.description,
    }


def columns_of_view(view: View) -> list[Mapping[str, Any]]:
    """None are told if one has a type that tables do not have."""
    try:
        schema = parse_schema(view.schema, table="a view")
    except DeltaError:
        return []
    return [_column(number, field, {}) for number, field in enumerate(schema)]


def _column(number: int, field: Field, partitions: Mapping[str, int]) -> Mapping[str, Any]:
    column = {
        "name": field.name,
        "type_text": _sql_name(field.type),
        "type_json": json.dumps(encode_type(Struct((field,)))["fields"][0]),
        "type_name": _unity_name(field.type),
        "position": number,
        "nullable": field.nullable,
    }
    if isinstance(field.type, Decimal):
        column |= {"type_precision": field.type.precision, "type_scale": field.type.scale}
    if isinstance(field.metadata.get("comment"), str):
        column["comment"] = field.metadata["comment"]
    if field.name in partitions:
        column["partition_index"] = partitions[field.name]
    return column


def _sql_name(kind: DataType) -> str:
    match kind:
        case Array(element=element):
            return f"array<{_sql_name(element)}>"
        case Map(key=key, value=value):
            return f"map<{_sql_name(key)},{_sql_name(value)}>"
        case Struct(fields=fields):
            return f"struct<{','.join(f'{field.name}:{_sql_name(field.type)}' for field in fields)}>"
        case _:
            return _SQL.get(str(kind), str(kind))


def _unity_name(kind: DataType) -> str:
    if isinstance(kind, (Array, Map, Struct, Decimal)):
        return type(kind).__name__.upper()
    return _UNITY.get(str(kind), str(kind).upper())


def given_columns(call: Call) -> str:
    """The columns of an external table as its maker tells them."""
    columns = []
    for number, given in enumerate(records(call.body, "columns")):
        column: dict[str, Any] = {"name": text(given, "name"), "position": number}
        for name in ("type_text", "type_json", "comment", "type_interval_type"):
            column[name] = optional_text(given, name)
        for name in ("type_precision", "type_scale", "partition_index"):
            column[name] = optional_integer(given, name)
        if given.get("type_name") is not None:
            column["type_name"] = choice(given, "type_name", _TYPE_NAMES)
        nullable = given.get("nullable")
        if not (nullable is None or isinstance(nullable, bool)):
            raise invalid("nullable must be true or false.")
        column["nullable"] = nullable is not False
        columns.append({name: value for name, value in column.items() if value is not None})
    return json.dumps(columns)
