"""The names of a catalog: of schemas, and of the tables and views in them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tahoe.catalog.tables_of_database import IDENTITY, IS_TABLE, NAME_LENGTH_MAX, SCHEMAS, TABLES
from tahoe.errors import CatalogNameError, CatalogNameTakenError, CatalogTableNotFoundError, SchemaNotFoundError


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


def table_row(connection: sa.Connection, url: str, name: str, *, or_view: bool = False) -> sa.Row[Any, Any, Any]:
    """The id, url and kind of a table.

    Args:
        url: the catalog's, for errors.
        or_view: find views, too.

    Raises:
        CatalogTableNotFoundError: there is none.
    """
    schema, table = parts_of(name)
    query = sa.select(TABLES.c.id, TABLES.c.url, TABLES.c.kind).join(SCHEMAS)
    query = query if or_view else query.where(IS_TABLE)
    found = connection.execute(query.where((SCHEMAS.c.name == schema) & (TABLES.c.name == table))).first()
    if found is None:
        raise CatalogTableNotFoundError(url=url, name=name)
    return found


def one_maker(connection: sa.Connection) -> None:
    """Of several who make names or tables in folders, let one go on until the end of its transaction."""
    connection.execute(sa.select(IDENTITY.c.id).with_for_update())


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


def rename(connection: sa.Connection, url: str, name: str, new_name: str) -> None:
    """Give a table or a view another name.

    Args:
        url: the catalog's, for errors.

    Raises:
        CatalogTableNotFoundError, SchemaNotFoundError, CatalogNameTakenError: it cannot be renamed.
    """
    schema, table = parts_of(new_name)
    found = table_row(connection, url, name, or_view=True)
    names = {"schema_id": schema_id_of(connection, url, schema), "name": table}
    try:
        connection.execute(sa.update(TABLES).where(TABLES.c.id == found.id).values(**names))
    except IntegrityError as error:
        raise CatalogNameTakenError(url=url, name=f"a table or a view {new_name}") from error
