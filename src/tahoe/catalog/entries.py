"""What a catalog tells of a table, and of all tables at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa

from tahoe.catalog.tables_of_database import COMMITS, IS_TABLE, SCHEMAS, TABLES
from tahoe.errors import CatalogTableNotFoundError, TableNotManagedError
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table as the catalog has it.

    Attributes:
        name: schema and table, such as `shop.orders`.
        kind: `managed` or `external`: only a managed table has its commits ratified by the catalog.
        latest_version: the newest version of a managed table; -1 before the first.
        unpublished: how many commits the catalog keeps, as they may not be in the log yet.
    """

    id: str
    name: str
    url: str
    kind: str
    comment: str | None
    latest_version: int
    unpublished: int


def entries(connection: sa.Connection, schema: str | None = None) -> Iterator[TableEntry]:
    """The tables of a schema, or all tables, by their names."""
    unpublished = (
        sa.select(sa.func.count()).where(COMMITS.c.table_id == TABLES.c.id).correlate(TABLES).scalar_subquery()
    )
    columns = TABLES.c.id, SCHEMAS.c.name, TABLES.c.name, TABLES.c.url, TABLES.c.kind, TABLES.c.comment
    query = sa.select(*columns, TABLES.c.latest_version, unpublished).join(SCHEMAS).where(IS_TABLE)
    query = query.order_by(SCHEMAS.c.name, TABLES.c.name)
    if schema is not None:
        query = query.where(SCHEMAS.c.name == schema.lower())
    for table_id, of_schema, table, url, kind, comment, latest, count in connection.execute(query):
        yield TableEntry(
            id=table_id,
            name=f"{of_schema}.{table}",
            url=url,
            kind=kind,
            comment=comment,
            latest_version=latest,
            unpublished=count,
        )


class Moment(Protocol):
    """The names and versions of all tables as they were at one moment.

    Raises:
        TableNotManagedError: the catalog had the table, and does not have it any more.
    """

    def named(self, name: str) -> TableEntry | None:
        """The table that had a name, schema and table; None if there was none."""

    def with_id(self, table_id: str) -> TableEntry | None:
        """The table that had an id; None if there was none."""


class ListedMoment:
    """All tables, which were listed at once."""

    def __init__(self, listed: Iterable[TableEntry]) -> None:
        self._by_id = {entry.id: entry for entry in listed}
        self._by_name = {entry.name: entry for entry in self._by_id.values()}

    def named(self, name: str) -> TableEntry | None:
        return self._by_name.get(name.lower())

    def with_id(self, table_id: str) -> TableEntry | None:
        return self._by_id.get(table_id)


class DatabaseMoment:
    """The names, ids and versions of all tables, which the database tells as one text, because there may be very many.
    Schemas and folders, which are never renamed, are looked up when somebody asks for a table.

    Args:
        read: opens a connection for statements that read.
    """

    def __init__(self, read: Callable[[], AbstractContextManager[sa.Connection]]) -> None:
        self._read = read
        with read() as connection:
            self._told = f"\n{connection.execute(_TOLD).scalar() or ''}\n"

    def named(self, name: str) -> TableEntry | None:
        schema, _, table = name.lower().partition(".")
        if not table.isprintable():  # the text that is looked for would be more than a name
            return None
        with self._read() as connection:
            schema_id = connection.execute(_SCHEMA_ID, {"name": schema}).scalar()
        return self._found(f"\n{schema_id} {table}\t")

    def with_id(self, table_id: str) -> TableEntry | None:
        return self._found(f"\t{table_id} ")

    def _found(self, text: str) -> TableEntry | None:
        """The table whose line has a text, which is that of no other one: names have no blanks, tabs or line ends, and
        the tab is before an id alone, because a table may have the id of another one as its name.
        """
        place = self._told.find(text)
        if place < 0:
            return None
        start = self._told.rfind("\n", 0, place + 1) + 1
        schema_id, table, table_id, latest = self._told[start : self._told.index("\n", start)].split()
        with self._read() as connection:
            schema = connection.execute(_SCHEMA, {"schema_id": schema_id}).scalar() or "a schema that was dropped"
            row = connection.execute(_DESCRIBED, {"table_id": table_id}).first()
        name = f"{schema}.{table}"
        if row is None:
            raise TableNotManagedError(table=name)
        url, kind, comment = row
        return TableEntry(
            id=table_id,
            name=name,
            url=url,
            kind="managed" if int(latest) >= 0 else kind,  # it may have been given back to its path since
            comment=comment,
            latest_version=int(latest),
            unpublished=0,
        )


# One statement, which sees one moment: lines of schema, name, id and version. A join would take most of its time.
_LINE = TABLES.c.schema_id + " " + TABLES.c.name + "\t" + TABLES.c.id + " " + sa.cast(TABLES.c.latest_version, sa.Text)
_TOLD = sa.select(sa.func.aggregate_strings(_LINE, "\n")).where(IS_TABLE)

_SCHEMA_ID = sa.select(SCHEMAS.c.id).where(SCHEMAS.c.name == sa.bindparam("name"))

_SCHEMA = sa.select(SCHEMAS.c.name).where(SCHEMAS.c.id == sa.bindparam("schema_id"))

_DESCRIBED = sa.select(TABLES.c.url, TABLES.c.kind, TABLES.c.comment).where(TABLES.c.id == sa.bindparam("table_id"))


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """All managed tables of a catalog as they were at one moment."""

    _url: str
    _moment: Moment
    _open: Callable[[str, str], Table]

    def table(self, name: str) -> Snapshot:
        """A table as it was at that moment.

        Raises:
            CatalogTableNotFoundError: there was no managed table of that name.
            TableNotManagedError: the catalog does not have it any more.
        """
        entry = self._moment.named(name)
        if entry is None or entry.kind != "managed":
            raise CatalogTableNotFoundError(url=self._url, name=name)
        return self._open(entry.id, entry.url).snapshot(entry.latest_version)
