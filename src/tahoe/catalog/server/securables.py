"""Finds what a call names, if its caller may see it. What may not be seen is not found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.grants import Rights, Securable
from tahoe.catalog.server.calls import Call
from tahoe.catalog.server.refusals import denied, invalid, not_found
from tahoe.catalog.tables_of_database import IS_TABLE, SCHEMAS, STAGING_TABLES, TABLES, VIEW


@dataclass(frozen=True, slots=True)
class Found:
    """A row of the database, and what privileges are granted on."""

    row: Mapping[str, Any]
    securable: Securable

    @property
    def name(self) -> str:
        return self.securable.name


def first(connection: sa.Connection, query: sa.Select[Any]) -> dict[str, Any] | None:
    return next(rows(connection, query), None)


def rows(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[dict[str, Any]]:
    for row in connection.execute(query).mappings():
        yield {str(name): value for name, value in row.items()}


def rows_behind(
    connection: sa.Connection, table: sa.Table, where: Any, start: str, together: int
) -> Iterator[dict[str, Any]]:
    """The rows of a table behind a name, in the order of their names; so many are fetched together."""
    while True:
        query = sa.select(table).where(where & (table.c.name > start)).order_by(table.c.name).limit(together)
        found = list(rows(connection, query))
        yield from found
        if len(found) < together:
            return
        start = found[-1]["name"]


def require(rights: Rights, privilege: str, securable: Securable) -> None:
    """Refuse a call whose caller sees a securable, and lacks a privilege."""
    if not rights.has(privilege, securable):
        raise denied(privilege, securable.name)


def require_owner(rights: Rights, securable: Securable) -> None:
    if not rights.owns(securable):
        raise denied("ownership", securable.name)


def whole_catalog(call: Call) -> Securable:
    """The catalog, whoever asks."""
    return Securable(kind="catalog", id="", name=call.service.name)


def catalog_named(call: Call, name: str) -> Securable:
    found = whole_catalog(call)
    if name.lower() != found.name or not call.rights.sees(found):
        raise not_found("catalog", name)
    return found


def schema_named(connection: sa.Connection, call: Call, catalog: str, name: str) -> Found:
    above = catalog_named(call, catalog)
    row = first(connection, sa.select(SCHEMAS).where(SCHEMAS.c.name == name.lower()))
    found = None if row is None else schema_of(row, above)
    if found is None or not call.rights.sees(found.securable):
        raise not_found("schema", f"{catalog}.{name}")
    return found


def schema_in_full(connection: sa.Connection, call: Call, full_name: str) -> Found:
    parts = full_name.split(".")
    if len(parts) != 2:
        raise invalid(f"{full_name} is not the full name of a schema: expected catalog.schema.")
    return schema_named(connection, call, *parts)


def schema_of(row: Mapping[str, Any], above: Securable) -> Found:
    name = f"{above.name}.{row['name']}"
    return Found(row, Securable(kind="schema", id=row["id"], name=name, owner=row["owner"], above=above))


def table_named(connection: sa.Connection, call: Call, full_name: str) -> Found:
    found = relation_named(connection, call, full_name)
    if found.row["kind"] == VIEW:
        raise not_found("table", full_name)
    return found


def view_named(connection: sa.Connection, call: Call, full_name: str) -> Found:
    found = relation_named(connection, call, full_name)
    if found.row["kind"] != VIEW:
        raise not_found("table", full_name)
    return found


def relation_named(connection: sa.Connection, call: Call, full_name: str) -> Found:
    """A table or a view."""
    parts = full_name.split(".")
    if len(parts) != 3:
        raise invalid(f"{full_name} is not the full name of a table: expected catalog.schema.table.")
    schema = schema_named(connection, call, *parts[:2])
    is_it = (TABLES.c.schema_id == schema.row["id"]) & (TABLES.c.name == parts[2].lower())
    row = first(connection, sa.select(TABLES).where(is_it))
    found = None if row is None else table_of(row, schema.securable)
    if found is None or not call.rights.sees(found.securable):
        raise not_found("table", full_name)
    return found


def table_by_id(connection: sa.Connection, call: Call, table_id: str) -> Found:
    row = first(connection, sa.select(TABLES).where((TABLES.c.id == table_id) & IS_TABLE))
    if row is not None:
        found = table_of(row, _schema_of_id(connection, call, row["schema_id"]))
        if call.rights.sees(found.securable):
            return found
    raise not_found("table", table_id)


# So long a staging table is kept after its maker has last used it: longer than any program may take for a first
# version, with or without a weekend.
STAGING_MS = 7 * 86_400_000


def staging_by(connection: sa.Connection, call: Call, condition: sa.ColumnElement[bool]) -> Mapping[str, Any] | None:
    """A staging table, of which only who made it and admins are told. It is used, and so expires later."""
    row = first(connection, sa.select(STAGING_TABLES).where(condition))
    if row is None or not (call.rights.is_admin or row["owner"] == call.rights.principal):
        return None
    can_expire = (STAGING_TABLES.c.id == row["id"]) & STAGING_TABLES.c.expires_ms.is_not(None)
    expires_ms = time.time_ns() // 1_000_000 + STAGING_MS
    connection.execute(sa.update(STAGING_TABLES).where(can_expire).values(expires_ms=expires_ms))
    return row


def table_of(row: Mapping[str, Any], above: Securable) -> Found:
    name = f"{above.name}.{row['name']}"
    return Found(row, Securable(kind="table", id=row["id"], name=name, owner=row["owner"], above=above))


def _schema_of_id(connection: sa.Connection, call: Call, schema_id: str) -> Securable:
    row = first(connection, sa.select(SCHEMAS).where(SCHEMAS.c.id == schema_id))
    assert row is not None, "a table is in a schema"
    return schema_of(row, whole_catalog(call)).securable
