"""Catalogs, schemas, tables and views as JSON, with the fields of Unity Catalog's API 2.1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tahoe.catalog.grants import SELECT
from tahoe.catalog.server.calls import Call
from tahoe.catalog.server.descriptions import columns_of_view
from tahoe.catalog.server.securables import Found
from tahoe.catalog.tables_of_database import VIEW
from tahoe.catalog.views import COMMENT, View

Json = Mapping[str, Any]


def catalog_info(call: Call) -> Json:
    service = call.service
    return _told({"name": service.name, "id": service.id, "storage_root": service.root})


def schema_info(call: Call, found: Found) -> Json:
    row = found.row
    return _told(
        {
            "name": row["name"],
            "catalog_name": call.service.name,
            "full_name": found.name,
            "comment": row["comment"],
            "properties": _map(row["properties"]),
            "owner": row["owner"],
            "created_at": row["created_ms"],
            "schema_id": row["id"],
        }
    )


def table_info(call: Call, found: Found, row: Json, *, is_listed: bool = False) -> Json:
    """A table, or a view. In a list a view is without its query."""
    schema = found.securable.above
    assert schema is not None
    names = {"name": row["name"], "catalog_name": call.service.name, "schema_name": schema.name.partition(".")[2]}
    if row["kind"] == VIEW:
        told = _told({**names, **_view_info(row)})
        has_text = not is_listed and call.rights.has(SELECT, found.securable)
        return told if has_text else {key: value for key, value in told.items() if key != "view_definition"}
    return _told(
        {
            **names,
            "table_type": row["kind"].upper(),
            "data_source_format": "DELTA",
            "columns": [] if row["columns"] is None else json.loads(row["columns"]),
            "storage_location": row["url"],
            "comment": row["comment"],
            "properties": _map(row["properties"]),
            "owner": row["owner"],
            "created_at": row["created_ms"],
            "table_id": row["id"],
            # not a field of Unity Catalog's: for clients of ours, which list tables with their versions
            "latest_table_version": row["latest_version"] if row["kind"] == "managed" else None,
        }
    )


def _view_info(row: Json) -> Json:
    view = View.from_json(row["view"])
    return {
        "table_type": "VIEW",
        "view_definition": view.text,
        "columns": columns_of_view(view),
        "comment": view.properties.get(COMMENT),
        "properties": view.properties,
        "owner": row["owner"],
        "created_at": row["created_ms"],
        "table_id": row["id"],
    }


def _map(text: str | None) -> Mapping[str, str]:
    return {} if text is None else json.loads(text)


def _told(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}
