"""The Parquet files of a table: by which names, ids and types Spark's reader finds a table's columns in them.

Protocol: "Column Mapping", "Void Type", "Consistency Between Table Metadata and Data Files".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tahoe.protocol.column_mapping import column_id, physical_name
from tahoe.protocol.schema import BOOLEAN, VOID, Array, DataType, Field, Map, Struct, parse_schema, types_in, walk_fields
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.reading.metadata_columns import hidden_fields, metadata_schema
from tahoe.table.reading.snapshot import Snapshot


def file_format(gateway: Gateway, snapshot: Snapshot) -> JavaObject | None:
    """The format of ours that knows the columns by the files' names, ids and types; None where Spark's own reads them as they are."""
    is_plain = snapshot.column_mapping_mode == "none" and VOID not in types_in(snapshot.schema)
    return None if is_plain else _format(gateway, snapshot, ())


def relation_format(gateway: Gateway, snapshot: Snapshot, *, positioned: bool = False) -> JavaObject | None:
    """The format by which a query is analysed: it says what `_metadata` has. What Spark does not know of it only a plan of ours reads."""
    hidden = hidden_fields(snapshot.row_tracking, positioned=positioned)
    return _format(gateway, snapshot, hidden) if hidden else file_format(gateway, snapshot)


def _format(gateway: Gateway, snapshot: Snapshot, hidden: Sequence[str]) -> JavaObject:
    mode = snapshot.column_mapping_mode
    described = json.dumps({"mode": mode, "schema": snapshot.schema.to_json()})
    paths = {} if mode == "id" else _filter_paths(snapshot.schema, mode)
    return gateway.java_class("delta.Format")(described, mode == "id", gateway.java_map(paths), metadata_schema(hidden))


def _filter_paths(schema: Struct, mode: str) -> dict[str, str]:
    """The columns that a filter may name, as users and as files call them. Where columns are found by id, names in files mean nothing."""
    found: dict[str, str] = {}
    for path, _ in walk_fields(schema):
        fields = schema.resolve(path)
        if fields is not None:
            names = [f.name if mode == "none" else physical_name(f) for f in fields]
            found["\0".join(path)] = "\0".join(names)
    return found


@lru_cache(maxsize=64)
def _described(text: str) -> tuple[str, Struct]:
    described = json.loads(text)
    return described["mode"], parse_schema(described["schema"])


def physical(described: str, required: str) -> str:
    """The schema by which Spark's reader finds the required columns in data files.

    Args:
        described: what `file_format` wrote down.
        required: a part of the table's schema, possibly with columns that Spark makes up, as JSON.
    """
    mode, schema = _described(described)
    return json.dumps(_physical_type(json.loads(required), schema, mode))


# Spark's key for the id by which its reader finds a column.
_FIELD_ID = "parquet.field.id"


def _physical_type(required: Any, known: DataType | None, mode: str) -> Any:
    """A type as JSON. Where the table's schema does not know a part of it, Spark has made that up, and it stays."""
    match known:
        case Struct() if isinstance(required, dict):
            return {**required, "fields": [_physical_field(f, known.find(f["name"]), mode) for f in required["fields"]]}
        case Array():
            return {**required, "elementType": _physical_type(required["elementType"], known.element, mode)}
        case Map():
            key, value = _physical_type(required["keyType"], known.key, mode), _physical_type(required["valueType"], known.value, mode)
            return {**required, "keyType": key, "valueType": value}
        case _:
            # a void column is in no file, and any type makes the reader give nulls for it
            return str(BOOLEAN) if known == VOID else required


def _physical_field(required: dict[str, Any], known: Field | None, mode: str) -> dict[str, Any]:
    if known is None:
        return required
    translated = {**required, "type": _physical_type(required["type"], known.type, mode)}
    if mode != "none":
        translated["name"] = physical_name(known)
    if mode == "id" and (number := column_id(known)) is not None:
        translated["metadata"] = {**required.get("metadata", {}), _FIELD_ID: number}
    return translated
