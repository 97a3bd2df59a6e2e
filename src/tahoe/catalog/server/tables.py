"""Endpoints of tables and views, and of the folders that are given out for new tables.

A managed table is made in three steps: its maker asks for a staging table, writes the first version into its folder,
and enters it. So a name never stands for a table that is not there.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tahoe.catalog import views
from tahoe.catalog.grants import CREATE_TABLE, SELECT
from tahoe.catalog.names import check_name, one_maker
from tahoe.catalog.server.calls import (
    Call,
    choice,
    location,
    optional_record,
    optional_text,
    page_size,
    page_start,
    properties,
    text,
    text_map,
    texts,
)
from tahoe.catalog.server.commit_checks import first_version
from tahoe.catalog.server.credentials import is_below
from tahoe.catalog.server.descriptions import definition, described, given_columns
from tahoe.catalog.server.infos import Json, table_info
from tahoe.catalog.server.refusals import Refusal, invalid, taken, unimplemented
from tahoe.catalog.server.securables import (
    STAGING_MS,
    Found,
    first,
    relation_named,
    require,
    require_owner,
    rows_behind,
    schema_named,
    staging_by,
    table_named,
    table_of,
    view_named,
)
from tahoe.catalog.tables_of_database import STAGING_TABLES, TABLES
from tahoe.catalog.views import View

_TYPES = frozenset({"MANAGED", "EXTERNAL", "STREAMING_TABLE", "MATERIALIZED_VIEW", "METRIC_VIEW", "VIEW"})
_FORMATS = frozenset({"DELTA", "ICEBERG", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT"})


def list_tables(call: Call) -> Json:
    size = page_size(call)
    seen: list[Found] = []
    with call.service.begin() as connection:
        schema = schema_named(connection, call, text(call.query, "catalog_name"), text(call.query, "schema_name"))
        is_in_schema = TABLES.c.schema_id == schema.row["id"]
        for row in rows_behind(connection, TABLES, is_in_schema, page_start(call), size + 1):
            found = table_of(row, schema.securable)
            if call.rights.sees(found.securable):
                seen.append(found)
            if len(seen) > size:
                break
    tables = [table_info(call, found, described(call, found.row), is_listed=True) for found in seen[:size]]
    listed: dict[str, Any] = {"tables": tables}
    return listed if len(seen) <= size else {**listed, "next_page_token": seen[size - 1].row["name"]}


def get_table(call: Call) -> Json:
    with call.service.begin() as connection:
        found = relation_named(connection, call, call.path["full_name"])
    return table_info(call, found, described(call, found.row))


def delete_table(call: Call) -> Json:
    """The name goes, the files stay. What was ratified is published before, so that the folder has the whole table."""
    with call.service.begin() as connection:
        found = table_named(connection, call, call.path["full_name"])
        require_owner(call.rights, found.securable)
    call.service.catalog.drop_table_with(found.row["id"], found.row["url"])
    return {}


def create_staging_table(call: Call) -> Json:
    schema_name, name = text(call.body, "schema_name"), text(call.body, "name").lower()
    check_name(name, name)
    if call.service.root is None:
        raise unimplemented("The server has no root for managed tables: start it with --root.")
    table_id, now_ms = str(uuid.uuid4()), time.time_ns() // 1_000_000
    with call.service.begin() as connection:
        schema = schema_named(connection, call, text(call.body, "catalog_name"), schema_name)
        require(call.rights, CREATE_TABLE, schema.securable)
        _check_free(connection, schema, name)
        row = {
            "id": table_id,
            "schema_id": schema.row["id"],
            "name": name,
            "url": f"{call.service.root}/{table_id}",
            "owner": call.rights.principal,
            "created_ms": now_ms,
            "expires_ms": now_ms + STAGING_MS,
        }
        connection.execute(sa.delete(STAGING_TABLES).where(STAGING_TABLES.c.expires_ms < now_ms))
        connection.execute(sa.insert(STAGING_TABLES).values(row))
    return {
        "id": table_id,
        "name": name,
        "catalog_name": call.service.name,
        "schema_name": schema.row["name"],
        "staging_location": row["url"],
    }


def create_table(call: Call) -> Json:
    kind = choice(call.body, "table_type", _TYPES)
    data_format = choice({"data_source_format": "DELTA", **call.body}, "data_source_format", _FORMATS)
    if kind not in ("MANAGED", "EXTERNAL") or data_format != "DELTA":
        raise unimplemented("Only managed and external tables of the format DELTA can be entered.")
    name = text(call.body, "name").lower()
    check_name(name, name)
    url = location(call.body, "storage_location")
    with call.service.begin() as connection:
        schema = schema_named(connection, call, text(call.body, "catalog_name"), text(call.body, "schema_name"))
        require(call.rights, CREATE_TABLE, schema.securable)
        _check_free(connection, schema, name)
        staging = staging_by(connection, call, STAGING_TABLES.c.url == url)
    row = {
        "name": name,
        "schema_id": schema.row["id"],
        "kind": kind.lower(),
        "url": url,
        "comment": optional_text(call.body, "comment"),
        "owner": call.rights.principal,
        "created_ms": time.time_ns() // 1_000_000,
        **(_managed(call, schema, name, staging) if kind == "MANAGED" else _external(call, url)),
    }
    with call.service.begin() as connection:
        try:
            connection.execute(sa.insert(TABLES).values(row))
        except IntegrityError as error:
            raise taken("table", f"{schema.name}.{name}") from error
        connection.execute(sa.delete(STAGING_TABLES).where(STAGING_TABLES.c.id == row["id"]))
        made = table_named(connection, call, f"{schema.name}.{name}")
    return table_info(call, made, made.row)


def put_view(call: Call) -> Json:
    """Make a view, or replace one. Unity Catalog's interface tells of views, and makes none."""
    name, view = text(call.body, "name").lower(), _view(optional_record(call.body, "view") or {})
    check_name(name, name)
    views.check_view(view, name)
    replaces = call.body.get("replace") is True
    with call.service.begin() as connection:
        one_maker(connection)
        schema = schema_named(connection, call, text(call.body, "catalog_name"), text(call.body, "schema_name"))
        is_it = (TABLES.c.schema_id == schema.row["id"]) & (TABLES.c.name == name)
        known = first(connection, sa.select(TABLES).where(is_it))
        if known is None:
            require(call.rights, CREATE_TABLE, schema.securable)
        elif replaces:
            require_owner(call.rights, table_of(known, schema.securable).securable)
        owner = call.rights.principal
        if not views.put_view(connection, schema.row["id"], name, view, replace=replaces, owner=owner):
            raise taken("table", f"{schema.name}.{name}")
    return {}


def get_view(call: Call) -> Json:
    with call.service.begin() as connection:
        found = view_named(connection, call, call.path["full_name"])
    require(call.rights, SELECT, found.securable)
    return {"view": json.loads(found.row["view"])}


def delete_view(call: Call) -> Json:
    with call.service.begin() as connection:
        found = view_named(connection, call, call.path["full_name"])
        require_owner(call.rights, found.securable)
        views.remove_view(connection, found.row["id"])
    return {}


def _view(given: Mapping[str, Any]) -> View:
    return View(
        text=text(given, "text"),
        schema=text(given, "schema"),
        catalog=optional_text(given, "catalog"),
        namespace=tuple(texts(given, "namespace")),
        configurations=text_map(given, "configurations"),
        query_columns=tuple(texts(given, "query_columns")),
        schema_mode=optional_text(given, "schema_mode"),
        properties=properties(given),
    )


def _managed(call: Call, schema: Found, name: str, staging: Mapping[str, Any] | None) -> dict[str, Any]:
    if staging is None or (staging["schema_id"], staging["name"]) != (schema.row["id"], name):
        raise invalid(
            "A managed table is made of a staging table: storage_location must be its staging_location. One that was "
            "not used for a week has expired: ask for another one."
        )
    found = first_version(call.service, staging["url"])
    return {
        "id": staging["id"],
        "latest_version": found.snapshot.version,
        "described_version": found.snapshot.version,
        **definition(found.snapshot),
    }


def _external(call: Call, url: str) -> dict[str, Any]:
    """A folder of others. Only an admin enters one: the owner of a table gets credentials for its folder."""
    if not call.rights.is_admin:
        raise Refusal(403, "PERMISSION_DENIED", "Only an admin can enter an external table.")
    if call.service.root is not None and is_below(url, call.service.root):
        raise invalid("An external table cannot be in the folder of the managed tables.")
    return {
        "id": str(uuid.uuid4()),
        "latest_version": -1,
        "columns": given_columns(call),
        "properties": json.dumps(properties(call.body)),
    }


def _check_free(connection: sa.Connection, schema: Found, name: str) -> None:
    is_it = (TABLES.c.schema_id == schema.row["id"]) & (TABLES.c.name == name)
    if connection.execute(sa.select(TABLES.c.id).where(is_it)).first() is not None:
        raise taken("table", f"{schema.name}.{name}")
