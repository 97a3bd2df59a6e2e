"""Endpoints of Iceberg's REST catalog, for readers: tables that have Iceberg's metadata, by the names and with the
grants of the catalog.

A table is told as of the newest version that the catalog has ratified. If its metadata is behind, it is brought up to
that version first, so a reader never sees an older one than it would see as a Delta table.

Specification: Iceberg's `open-api/rest-catalog-open-api.yaml`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.grants import SELECT
from tahoe.catalog.server import catalogs, tables
from tahoe.catalog.server.calls import Answer, Call
from tahoe.catalog.server.credentials import credentials_of
from tahoe.catalog.server.infos import Json, schema_info
from tahoe.catalog.server.refusals import Refusal, not_found, unimplemented
from tahoe.catalog.server.securables import Found, catalog_named, require, schema_named, table_named
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"

# How Iceberg's readers name the credentials of storages.
_CREDENTIALS = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "sas_token": "adls.sas-token",
    "oauth_token": "gcs.oauth2.token",
}


def configuration(call: Call) -> Json:
    """A server has one catalog, whose name clients call a warehouse."""
    found = catalog_named(call, call.query.get("warehouse") or call.service.name)
    return {
        "defaults": {},
        "overrides": {"prefix": f"catalogs/{found.name}"},
        "endpoints": [
            "GET /v1/{prefix}/namespaces",
            f"GET {_NAMESPACE}",
            f"HEAD {_NAMESPACE}",
            f"GET {_NAMESPACE}/tables",
            f"GET {_TABLE}",
            f"HEAD {_TABLE}",
            f"GET {_TABLE}/credentials",
            f"POST {_TABLE}/metrics",
        ],
    }


def list_namespaces(call: Call) -> Json:
    """Schemas; they have none below them."""
    if call.query.get("parent"):
        with call.service.begin() as connection:
            schema_named(connection, call, call.path["catalog"], call.query["parent"])
        return {"namespaces": []}
    asked = replace(call, query={"catalog_name": call.path["catalog"]})
    found, following = _pages(call, asked, catalogs.list_schemas, "schemas")
    return {"namespaces": [[schema["name"]] for schema in found], **following}


def get_namespace(call: Call) -> Json:
    with call.service.begin() as connection:
        schema = schema_info(call, schema_named(connection, call, call.path["catalog"], call.path["namespace"]))
    comment = {"comment": schema["comment"]} if schema.get("comment") else {}
    return {"namespace": [schema["name"]], "properties": {**schema.get("properties", {}), **comment}}


def list_tables(call: Call) -> Json:
    """Those that ask for Iceberg's metadata."""
    names = {"catalog_name": call.path["catalog"], "schema_name": call.path["namespace"]}
    found, following = _pages(call, replace(call, query=names), tables.list_tables, "tables")
    identifiers = [
        {"namespace": [table["schema_name"]], "name": table["name"]}
        for table in found
        if table["table_type"] != "VIEW" and has_iceberg(table["properties"])
    ]
    return {"identifiers": identifiers, **following}


def _pages(call: Call, asked: Call, of_page: Callable[[Call], Json], name: str) -> tuple[list[Json], Json]:
    """The entries of a page, and the token of the next one. Who does not ask for pages gets everything."""
    size, token = call.query.get("pageSize", "1000"), call.query.get("pageToken", "")
    found: list[Json] = []
    while True:
        page = of_page(replace(asked, query={**asked.query, "max_results": size, "page_token": token}))
        found += page[name]
        token = page.get("next_page_token", "")
        if "pageToken" in call.query or not token:
            return found, {"next-page-token": token} if token else {}


def load_table(call: Call) -> Answer:
    found, definition, load = _table(call)
    location, content = _metadata(definition, load)
    tag = hashlib.sha256(content).hexdigest()[:32]
    if call.headers.get("if-none-match", "").strip('W/"') == tag:
        return Answer(status=304)
    credentials = _credentials(call, found)
    told = {
        "metadata-location": location,
        "metadata": json.loads(content),
        "config": {name: value for each in credentials for name, value in each["config"].items()},
        "storage-credentials": credentials,
    }
    return Answer(body=told, headers={"ETag": f'"{tag}"'})


def table_credentials(call: Call) -> Json:
    with call.service.begin() as connection:
        found = _found(connection, call)
    return {"storage-credentials": _credentials(call, found)}


def report_metrics(call: Call) -> Answer:
    """What a reader has measured; it is not kept."""
    with call.service.begin() as connection:
        _found(connection, call)
    return Answer(status=204)


def _found(connection: sa.Connection, call: Call) -> Found:
    name = ".".join(call.path[part] for part in ("catalog", "namespace", "table"))
    if name.count(".") != 2:  # a part has a dot
        raise not_found("table", name)
    found = table_named(connection, call, name)
    require(call.rights, SELECT, found.securable)
    return found


def _table(call: Call) -> tuple[Found, Snapshot, Callable[[], Snapshot]]:
    """A table, the definition of its newest version, and what loads this version with its files."""
    with call.service.begin() as connection:
        found = _found(connection, call)
        latest = found.row["latest_version"]
        if found.row["kind"] == "managed" and latest < 0:  # its maker has not finished
            raise not_found("table", found.name)
    table_id, url = found.row["id"], found.row["url"]
    load: Callable[[], Snapshot]
    if found.row["kind"] == "managed":
        definition = call.service.known(table_id, url, latest).snapshot
        load = partial(call.service.catalog.open(table_id, url).snapshot, latest)
    else:
        load = Table(url, env=call.service.env_at(url)).snapshot
        definition = load()
    if not has_iceberg(definition.properties):
        message = (
            f"{found.name} has no metadata of Iceberg: set delta.enableIcebergCompatV2 or V3 = true and "
            "delta.universalFormat.enabledFormats = iceberg."
        )
        raise Refusal(404, "TABLE_NOT_FOUND", message)
    return found, definition, load


def _metadata(definition: Snapshot, load: Callable[[], Snapshot]) -> tuple[str, bytes]:
    """The metadata file of a version, or of a later one: its location and its content."""
    try:
        conversion = import_module("tahoe.iceberg.conversion")
    except ImportError as error:
        raise unimplemented("The server lacks a package for Iceberg's metadata: pip install pyiceberg.") from error
    found: tuple[str, bytes] = conversion.metadata_of(definition, load)
    return found


def _credentials(call: Call, found: Found) -> list[dict[str, Any]]:
    """Those for reading; none if the server has none: a reader may have its own."""
    url = found.row["url"]
    with suppress(Refusal):
        told = credentials_of(call, url, writes=False)
        return [
            {"prefix": url, "config": {_CREDENTIALS[name]: value for name, value in kind.items()}}
            for kind in told.values()
            if isinstance(kind, dict)
        ]
    return []
