"""Maps a table's columns to names, field ids and types in its Parquet files, for Spark's reader.

Protocol: "Column Mapping", "Void Type", "Consistency Between Table Metadata and Data Files".
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tahoe.protocol.configuration.column_mapping import column_id, physical_name
from tahoe.protocol.types.column_metadata import COLLATIONS
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.schema import (
    BOOLEAN,
    VOID,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    parse_schema,
    types_in,
    walk_fields,
)
from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.executor_cache import cache_of_scan
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.native_engine import native_format
from tahoe.spark.reading.metadata_columns import hidden_fields, metadata_schema
from tahoe.table.reading.snapshot import Snapshot


def file_format(
    gateway: Gateway, snapshot: Snapshot, *, is_native: bool = False, fallback: str = ""
) -> JavaObject | None:
    """The file format of a scan; None for `delta.Parquet`, which reads columns with the table's names and types.

    Args:
        is_native: whether a native engine reads the files; if columns have other names or types there, by those of
            `mapped_columns`.
        fallback: why no native engine reads them, for EXPLAIN; empty in a session that has none.
    """
    if is_native:
        return native_format(gateway)
    cache = cache_of_scan(gateway, snapshot.log.env.store)
    if not is_plain(snapshot):
        return _format(gateway, snapshot, (), fallback, cache)
    return gateway.java_class("delta.Parquet")(fallback, cache) if fallback or cache is not None else None


def is_plain(snapshot: Snapshot) -> bool:
    """Whether columns have the same names in the files as in the table, and are in them."""
    return snapshot.column_mapping_mode == "none" and VOID not in types_in(snapshot.schema)


def relation_format(gateway: Gateway, snapshot: Snapshot, *, positioned: bool = False) -> JavaObject | None:
    """The file format with which a query is analysed; it declares the fields of `_metadata`. Only our plans can read
    our own fields.
    """
    hidden = hidden_fields(snapshot.row_tracking, positioned=positioned)
    return None if not hidden and is_plain(snapshot) else _format(gateway, snapshot, hidden, "", None)


def _format(
    gateway: Gateway, snapshot: Snapshot, hidden: Sequence[str], fallback: str, cache: JavaObject | None
) -> JavaObject:
    mode = snapshot.column_mapping_mode
    table = json.dumps({"mode": mode, "schema": snapshot.schema.to_json()})
    paths = {} if mode == "id" else _filter_paths(snapshot.schema, mode)
    return gateway.java_class("delta.Format")(
        table, mode == "id", gateway.text_map(paths), metadata_schema(hidden), fallback, cache
    )


def _filter_paths(schema: Struct, mode: str) -> dict[str, str]:
    """The physical paths of the columns that a filter may use, by logical path. Parts of a path are separated by NUL.

    Not for mode `id`, in which the names in files have no meaning.
    """
    physical_paths: dict[str, str] = {}
    for path, _ in walk_fields(schema):
        fields = schema.resolve(path)
        if fields is not None:
            names = [f.name if mode == "none" else physical_name(f) for f in fields]
            physical_paths["\0".join(path)] = "\0".join(names)
    return physical_paths


# --- for a native engine, which asks nobody for names


@dataclass(frozen=True, slots=True)
class MappedColumns:
    """Columns of data files, as a scan of its own reads them.

    Attributes:
        schema: their names in the scan, types and, in mode `id`, field ids, as a schema's JSON.
        names: the table's names, in the same order.
    """

    schema: str
    names: tuple[str, ...]

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """The columns with another name in the scan than in the table: pairs of these."""
        return tuple((name, own) for name, own in self._pairs if name != own)

    @property
    def columns(self) -> list[str]:
        """The columns by the table's names, as SQL over the scan."""
        return [f"{quoted(name)} as {quoted(own)}" for name, own in self._pairs]

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        return [(field["name"], own) for field, own in zip(json.loads(self.schema)["fields"], self.names, strict=True)]


def mapped_columns(
    gateway: Gateway, snapshot: Snapshot, partitions: str, required: str, names: Container[str]
) -> MappedColumns | str:
    """The columns of data files that a query uses, or why a native engine cannot read them.

    Precondition: columns have other names or types in the files than in the table.

    Args:
        partitions: the partition columns, as a schema's JSON. They are not in the files and keep their names.
        required: a part of the table's schema, as JSON.
        names: the columns that the query uses.
    """
    mode = snapshot.column_mapping_mode
    if mode == "id" and not setting_names.READS_FIELD_IDS.of(gateway.spark.conf):
        return f"columns have field ids in the files, and {setting_names.READS_FIELD_IDS.name} is off"
    parted = {field["name"].lower() for field in json.loads(partitions)["fields"]}
    names_used, mapped = [], []
    for field in json.loads(required)["fields"]:
        table_field = snapshot.schema.find(field["name"])
        if table_field is None or field["name"] not in names or field["name"].lower() in parted:
            continue
        if VOID in types_in(table_field.type):
            return f"column {table_field.name} has the type void, or a part of this type"
        if mode == "name" and COLLATIONS in json.dumps(field):
            return f"column {table_field.name} has a collation, which a schema names by the column"
        names_used.append(table_field.name)
        mapped.append(_physical_field(field, table_field, "ids" if mode == "id" else mode))
        if mode == "name" and mapped[-1]["type"] != field["type"]:
            return f"fields inside of column {table_field.name} have other names in the files than in the table"
        if mapped[-1]["name"].lower() in parted:
            return f"column {table_field.name} has the name in the files that a partition column has in the table"
    return MappedColumns(json.dumps({"type": "struct", "fields": mapped}), tuple(names_used))


# --- for Spark's reader, which asks for the names in the files


@lru_cache(maxsize=64)
def _mode_and_schema(text: str) -> tuple[str, Struct]:
    table = json.loads(text)
    return table["mode"], parse_schema(table["schema"])


def physical_schema_json(table: str, required: str) -> str:
    """The schema with which Spark's reader finds the required columns in data files, as JSON.

    Args:
        table: column mapping mode and schema of the table, as the JSON that `file_format` has put into the format.
        required: a part of the table's schema, possibly with columns that Spark generates, as JSON.
    """
    mode, schema = _mode_and_schema(table)
    return json.dumps(_physical_type(json.loads(required), schema, mode))


# Spark's metadata key for the field id by which its reader finds a column.
_FIELD_ID = "parquet.field.id"


def _physical_type(required: Any, table_type: DataType | None, mode: str) -> Any:
    """The physical type as JSON. Parts that are not in the table's schema are generated by Spark and stay unchanged.

    Args:
        mode: of column mapping; or `ids` for the table's names with field ids.
    """
    match table_type:
        case Struct() if isinstance(required, dict):
            return {
                **required,
                "fields": [_physical_field(f, table_type.find(f["name"]), mode) for f in required["fields"]],
            }
        case Array():
            return {**required, "elementType": _physical_type(required["elementType"], table_type.element, mode)}
        case Map():
            key, value = (
                _physical_type(required["keyType"], table_type.key, mode),
                _physical_type(required["valueType"], table_type.value, mode),
            )
            return {**required, "keyType": key, "valueType": value}
        case _:
            # a void column is in no file; with any other type the reader returns nulls for it
            return str(BOOLEAN) if table_type == VOID else required


def _physical_field(required: dict[str, Any], table_field: Field | None, mode: str) -> dict[str, Any]:
    if table_field is None:
        return required
    physical_field = {**required, "type": _physical_type(required["type"], table_field.type, mode)}
    if mode in ("name", "id"):
        physical_field["name"] = physical_name(table_field)
    if mode in ("id", "ids") and (number := column_id(table_field)) is not None:
        physical_field["metadata"] = {**required.get("metadata", {}), _FIELD_ID: number}
    return physical_field
