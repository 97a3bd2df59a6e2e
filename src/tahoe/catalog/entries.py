"""What a catalog tells of a table, and of all tables at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tahoe.catalog.tables_of_database import COMMITS, SCHEMAS, TABLES
from tahoe.errors import CatalogTableNotFoundError
from tahoe.table.reading.snapshot import Snapshot


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
    query = sa.select(*columns, TABLES.c.latest_version, unpublished).join(SCHEMAS)
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


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """All managed tables of a catalog as they were at one moment."""

    _url: str
    _entries: Mapping[str, TableEntry]
    _open: Callable[[TableEntry], Snapshot]

    def table(self, name: str) -> Snapshot:
        """A table as it was at that moment.

        Raises:
            CatalogTableNotFoundError: there was no managed table of that name.
        """
        entry = self._entries.get(name.lower())
        if entry is None:
            raise CatalogTableNotFoundError(url=self._url, name=name)
        return self._open(entry)
