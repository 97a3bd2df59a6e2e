"""Endpoints of the catalog, which is one in a database, and of its schemas."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tahoe.catalog.grants import CREATE_SCHEMA, forget
from tahoe.catalog.names import check_name
from tahoe.catalog.server.calls import Call, optional_text, page_size, page_start, properties, text
from tahoe.catalog.server.infos import Json, catalog_info, schema_info
from tahoe.catalog.server.refusals import Refusal, taken, unimplemented
from tahoe.catalog.server.securables import (
    Found,
    catalog_named,
    require,
    require_owner,
    rows_behind,
    schema_in_full,
    schema_named,
    schema_of,
    whole_catalog,
)
from tahoe.catalog.tables_of_database import SCHEMAS

_ONE_CATALOG = "A server has one catalog, whose name is an option of `tahoe catalog serve`."


def metastore_summary(call: Call) -> Json:
    return {"metastore_id": call.service.id}


def list_catalogs(call: Call) -> Json:
    is_seen = call.rights.sees(whole_catalog(call)) and page_start(call) < call.service.name
    return {"catalogs": [catalog_info(call)] if is_seen else []}


def get_catalog(call: Call) -> Json:
    catalog_named(call, call.path["name"])
    return catalog_info(call)


def create_catalog(call: Call) -> Json:
    if text(call.body, "name").lower() == call.service.name:
        raise taken("catalog", call.service.name)
    raise unimplemented(_ONE_CATALOG)


def change_catalog(call: Call) -> Json:
    catalog_named(call, call.path["name"])
    raise unimplemented(_ONE_CATALOG)


def list_schemas(call: Call) -> Json:
    above = catalog_named(call, text(call.query, "catalog_name"))
    size = page_size(call)
    seen: list[Found] = []
    with call.service.begin() as connection:
        for row in rows_behind(connection, SCHEMAS, sa.true(), page_start(call), size + 1):
            found = schema_of(row, above)
            if call.rights.sees(found.securable):
                seen.append(found)
            if len(seen) > size:
                break
    listed: dict[str, Any] = {"schemas": [schema_info(call, found) for found in seen[:size]]}
    return listed if len(seen) <= size else {**listed, "next_page_token": seen[size - 1].row["name"]}


def get_schema(call: Call) -> Json:
    with call.service.begin() as connection:
        found = schema_in_full(connection, call, call.path["full_name"])
    return schema_info(call, found)


def create_schema(call: Call) -> Json:
    above = catalog_named(call, text(call.body, "catalog_name"))
    require(call.rights, CREATE_SCHEMA, above)
    if optional_text(call.body, "storage_root"):
        raise unimplemented("A schema has no storage root of its own.")
    name = text(call.body, "name").lower()
    check_name(name, name)
    row = {
        "id": str(uuid.uuid4()),
        "name": name,
        "comment": optional_text(call.body, "comment"),
        "properties": json.dumps(properties(call.body)),
        "owner": call.rights.principal,
        "created_ms": time.time_ns() // 1_000_000,
    }
    with call.service.begin() as connection:
        try:
            connection.execute(sa.insert(SCHEMAS).values(row))
        except IntegrityError as error:
            raise taken("schema", f"{above.name}.{name}") from error
    return schema_info(call, schema_of(row, above))


def update_schema(call: Call) -> Json:
    if optional_text(call.body, "new_name"):
        raise unimplemented("A schema cannot be renamed.")
    with call.service.begin() as connection:
        found = schema_in_full(connection, call, call.path["full_name"])
        require_owner(call.rights, found.securable)
        values: dict[str, Any] = {}
        if call.body.get("comment") is not None:
            values["comment"] = optional_text(call.body, "comment")
        if call.body.get("properties") is not None:
            values["properties"] = json.dumps(properties(call.body))
        if values:
            connection.execute(sa.update(SCHEMAS).where(SCHEMAS.c.id == found.row["id"]).values(**values))
        changed = schema_named(connection, call, call.service.name, found.row["name"])
    return schema_info(call, changed)


def delete_schema(call: Call) -> Json:
    """A schema with tables or views stays: they are dropped one by one, each by its name."""
    with call.service.begin() as connection:
        found = schema_in_full(connection, call, call.path["full_name"])
        require_owner(call.rights, found.securable)
        forget(connection, found.row["id"])
        try:
            connection.execute(sa.delete(SCHEMAS).where(SCHEMAS.c.id == found.row["id"]))
        except IntegrityError as error:
            raise Refusal(409, "SCHEMA_NOT_EMPTY", f"{found.name} has tables or views: drop them first.") from error
    return {}
