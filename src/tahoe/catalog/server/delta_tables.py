"""Endpoints of the Delta tables API, which clients of Unity Catalog have since version 0.6: a table is loaded with its
commits in one call, and changed under assertions.

What an update tells of schema, properties and protocol is not kept: the commit that comes with it has all of that, and
is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.commits import ratified
from tahoe.catalog.grants import MODIFY, SELECT
from tahoe.catalog.server import tables
from tahoe.catalog.server.calls import Call, choice, optional_integer, optional_record, optional_text, records, text
from tahoe.catalog.server.commits import change, check_managed, commit_infos, proposed_commit
from tahoe.catalog.server.credentials import TABLE_OPERATIONS, credentials_of
from tahoe.catalog.server.descriptions import described
from tahoe.catalog.server.infos import Json
from tahoe.catalog.server.refusals import Refusal, invalid, unimplemented
from tahoe.catalog.server.securables import Found, require, table_named
from tahoe.protocol.types.json_text import load_json
from tahoe.protocol.types.schema import encode_type
from tahoe.storage.ratified import Ratified

_CREDENTIALS = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "sas_token": "azure.sas-token",
    "oauth_token": "gcs.oauth-token",
}

# Told with a commit, which has them itself.
_OF_COMMIT = frozenset(
    {
        "set-properties",
        "remove-properties",
        "set-columns",
        "set-table-comment",
        "set-partition-columns",
        "set-protocol",
        "set-domain-metadata",
        "remove-domain-metadata",
    }
)


def configuration(_: Call) -> Json:
    schema = "/delta/v1/catalogs/{catalog}/schemas/{schema}"
    table = f"{schema}/tables/{{table}}"
    return {
        "protocol-version": "1.0",
        "endpoints": [
            f"POST {schema}/staging-tables",
            f"POST {schema}/tables",
            *(f"{method} {table}" for method in ("GET", "HEAD", "POST", "DELETE")),
            f"GET {table}/credentials",
        ],
    }


def load_table(call: Call) -> Json:
    with call.service.begin() as connection:
        found = _found(connection, call)
        state = ratified(connection, found.row["id"]) if found.row["kind"] == "managed" else Ratified()
    return _loaded(call, found, state)


def update_table(call: Call) -> Json:
    """Ratify a commit, if what the caller asserts is still so."""
    proposed, published = None, None
    updates = records(call.body, "updates")
    for update in updates:
        action = text(update, "action")
        if action == "add-commit" and proposed is None:
            if optional_record(update, "uniform") is not None:
                raise unimplemented("The server keeps no metadata of Iceberg.")
            proposed = proposed_commit(_underscored(optional_record(update, "commit") or {}))
        elif action == "set-latest-backfilled-version" and published is None:
            published = optional_integer(update, "latest-published-version")
        elif action not in _OF_COMMIT:
            raise unimplemented(f"{action!r} is not an update that the server knows, or is there twice.")
    if proposed is None and any(update["action"] in _OF_COMMIT for update in updates):
        raise invalid("A table is changed by a commit, and the updates have no add-commit.")
    with call.service.begin() as connection:
        found = _found(connection, call)
        for privilege in (MODIFY, SELECT):  # the answer is the table
            require(call.rights, privilege, found.securable)
        check_managed(found)
        state = ratified(connection, found.row["id"])
    _check_requirements(call, found, state)
    change(call, found, state, proposed, published)
    return load_table(call)


def create_staging_table(call: Call) -> Json:
    names = {"catalog_name": call.path["catalog"], "schema_name": call.path["schema"], "name": call.body.get("name")}
    made = tables.create_staging_table(replace(call, body=names))
    return {
        "table-id": made["id"],
        "table-type": "MANAGED",
        "location": made["staging_location"],
        "storage-credentials": _credentials(call, made["staging_location"], "READ_WRITE"),
        "required-protocol": {
            "min-reader-version": 3,
            "min-writer-version": 7,
            "reader-features": ["catalogManaged"],
            "writer-features": ["catalogManaged", "inCommitTimestamp"],
        },
        "required-properties": {
            "delta.enableInCommitTimestamps": "true",
            "io.unitycatalog.tableId": made["id"],
        },
    }


def create_table(call: Call) -> Json:
    """A managed table has its definition from its log; of an external one, the caller tells it."""
    columns = optional_record(call.body, "columns") or {}
    given = {
        "catalog_name": call.path["catalog"],
        "schema_name": call.path["schema"],
        "name": call.body.get("name"),
        "table_type": call.body.get("table-type"),
        "storage_location": call.body.get("location"),
        "comment": call.body.get("comment"),
        "properties": call.body.get("properties"),
        "columns": [
            {"name": field.get("name"), "type_json": json.dumps(field)} for field in records(columns, "fields")
        ],
    }
    tables.create_table(replace(call, body=given))
    return load_table(replace(call, path={**call.path, "table": text(call.body, "name")}))


def delete_table(call: Call) -> Json:
    return tables.delete_table(replace(call, path={"full_name": _full_name(call)}))


def table_credentials(call: Call) -> Json:
    operation = choice({"operation": "READ", **call.query}, "operation", TABLE_OPERATIONS)
    with call.service.begin() as connection:
        found = _found(connection, call)
        for privilege in TABLE_OPERATIONS[operation]:
            require(call.rights, privilege, found.securable)
    return {"storage-credentials": _credentials(call, found.row["url"], operation)}


def _found(connection: sa.Connection, call: Call) -> Found:
    return table_named(connection, call, _full_name(call))


def _full_name(call: Call) -> str:
    return f"{call.path['catalog']}.{call.path['schema']}.{call.path['table']}"


def _credentials(call: Call, url: str, operation: str) -> list[Json]:
    found = credentials_of(call, url, writes=MODIFY in TABLE_OPERATIONS[operation])
    kinds = [value for value in found.values() if isinstance(value, dict)]
    return [
        {
            "prefix": url,
            "operation": operation,
            "expiration-time-ms": found["expiration_time"],
            "config": {_CREDENTIALS[name]: value for name, value in kind.items()},
        }
        for kind in kinds
    ]


def _loaded(call: Call, found: Found, state: Ratified) -> Json:
    require(call.rights, SELECT, found.securable)
    row = described(call, {**found.row, "latest_version": state.latest})
    metadata = {
        "etag": _etag(found, state),
        "table-type": row["kind"].upper(),
        "table-uuid": row["id"],
        "data-source-format": "DELTA",
        "location": row["url"],
        "created-time": row["created_ms"],
        "columns": {"type": "struct", "fields": _fields(row["columns"])},
        "partition-columns": _partition_columns(row["columns"]),
        "properties": json.loads(row["properties"] or "{}"),
    }
    if row["kind"] != "managed":
        return {"metadata": metadata, "commits": []}
    known = call.service.known(row["id"], row["url"], state.latest)
    metadata |= {
        "columns": encode_type(known.snapshot.schema),
        "last-commit-version": state.latest,
        "last-commit-timestamp-ms": known.timestamp_ms,
    }
    commits = [
        {name.replace("_", "-"): value for name, value in info.items()}
        for info in commit_infos(call, found, state.commits)
    ]
    return {"metadata": metadata, "commits": commits, "latest-table-version": state.latest}


def _fields(columns: str | None) -> list[Any]:
    """The columns of an external table, as far as its maker has told them."""
    found = []
    for column in json.loads(columns or "[]"):
        try:
            found.append(load_json(column["type_json"]))
        except (KeyError, ValueError):
            continue
    return found


def _partition_columns(columns: str | None) -> list[str]:
    found = [column for column in json.loads(columns or "[]") if "partition_index" in column]
    return [column["name"] for column in sorted(found, key=lambda column: column["partition_index"])]


def _etag(found: Found, state: Ratified) -> str:
    return f"{found.row['id']}-{state.latest}"


def _check_requirements(call: Call, found: Found, state: Ratified) -> None:
    for requirement in records(call.body, "requirements"):
        kind = text(requirement, "type")
        match kind:
            case "assert-table-uuid":
                is_met = optional_text(requirement, "uuid") == found.row["id"]
            case "assert-etag":
                is_met = optional_text(requirement, "etag") == _etag(found, state)
            case _:
                raise unimplemented(f"{kind!r} is not a requirement that the server knows.")
        if not is_met:
            raise Refusal(409, "REQUIREMENT_CONFLICT", f"{kind} is not met: the table has changed. Load it again.")


def _underscored(given: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name).replace("-", "_"): value for name, value in given.items()}
