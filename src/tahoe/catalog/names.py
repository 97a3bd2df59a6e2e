"""The names of a catalog: of schemas, and of the tables in them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tahoe.catalog.tables_of_database import NAME_LENGTH_MAX, SCHEMAS, TABLES
from tahoe.errors import CatalogNameError, CatalogTableNotFoundError, SchemaNotFoundError


def parts_of(name: str) -> tuple[str, str]:
    """Schema and table, in lower case, as every name of a catalog."""
    schema, _, table = name.lower().partition(".")
    check_name(schema, name)
    check_name(table, name)
    return schema, table


def check_name(part: str, name: str) -> None:
    """Refuse a schema's or a table's name, which is a part of a name.

    Raises:
        CatalogNameError: it cannot be one.
    """
    if not part or len(part) > NAME_LENGTH_MAX or any(c in part for c in "./ \\`'\"\0") or not part.isprintable():
        detail = f"{part!r} is empty, too long, or has a dot, a blank, a slash or a quote"
        raise CatalogNameError(name=name, detail=detail)


def table_row(connection: sa.Connection, url: str, name: str) -> sa.Row[Any, Any, Any]:
    """The id, url and kind of a table.

    Args:
        url: the catalog's, for errors.

    Raises:
        CatalogTableNotFoundError: there is none.
    """
    schema, table = parts_of(name)
    query = sa.select(TABLES.c.id, TABLES.c.url, TABLES.c.kind).join(SCHEMAS)
    found = connection.execute(query.where((SCHEMAS.c.name == schema) & (TABLES.c.name == table))).first()
    if found is None:
        raise CatalogTableNotFoundError(url=url, name=name)
    return found


def schema_id_of(connection: sa.Connection, url: str, schema: str) -> str:
    """The id of a schema.

    Args:
        url: the catalog's, for errors.

    Raises:
        SchemaNotFoundError: there is none.
    """
    found: str | None = connection.execute(sa.select(SCHEMAS.c.id).where(SCHEMAS.c.name == schema.lower())).scalar()
    if found is None:
        known = ", ".join(connection.execute(sa.select(SCHEMAS.c.name)).scalars()) or "none"
        raise SchemaNotFoundError(url=url, name=schema, known=known)
    return found
