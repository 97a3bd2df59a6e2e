"""Tables that are there already get a name in a catalog, which manages their commits from then on.

The id that the catalog gives such a table is entered as that of a staging table before a commit puts it into the log.
So a registration that was interrupted between that commit and the name goes on when it is asked for again, and a table
of another catalog is never taken for one of this.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, ClassVar

import sqlalchemy as sa

from tahoe.catalog.commits import Begin
from tahoe.catalog.tables_of_database import STAGING_TABLES, TABLES
from tahoe.errors import CatalogNameError, DeltaAnalysisError, DeltaConcurrentModificationException
from tahoe.protocol.configuration.features import supports
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import Env, FileInfo, Store
from tahoe.table.table import Table
from tahoe.table.transactions.alter import set_properties

# By this property, clients of Unity Catalog know a table that it manages.
TABLE_ID = "io.unitycatalog.tableId"


def managed_properties(table_id: str) -> dict[str, str]:
    """What makes a table a catalog-managed one. Protocol: "Writer Requirements for Catalog-managed tables"."""
    return {"delta.feature.catalogManaged": "supported", "delta.enableInCommitTimestamps": "true", TABLE_ID: table_id}


@dataclass(frozen=True, slots=True)
class _Entering(DelegatingStore):
    """The store of a table whose last commit by its path says that a catalog manages it."""

    inner: Store
    is_managed: ClassVar[bool] = True

    def get(self, key: str) -> bytes:
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start, length)

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        return self.inner.open(key, known)


def check_apart(connection: sa.Connection, name: str, table_id: str, url: str) -> None:
    """A table is not in the folder of another one: VACUUM of that one would delete its files.

    Raises:
        CatalogNameError: it would be, or around one.
    """
    parents = [url[:end] for end in range(len(url)) if url[end] == "/"]
    is_near = TABLES.c.url.in_([url, *parents]) | TABLES.c.url.startswith(f"{url}/", autoescape=True)
    found = connection.execute(sa.select(TABLES.c.url).where(is_near & (TABLES.c.id != table_id))).scalar()
    if found is not None:
        detail = f"the catalog has a table in {found}" + ("" if found == url else f", which {url} is in or around")
        raise CatalogNameError(name=name, detail=detail)


def intended(connection: sa.Connection, schema_id: str, name: str, url: str) -> str:
    """The id of a table that is to be registered: the one that this catalog has given it before, else a new one."""
    query = sa.select(STAGING_TABLES.c.id).where(STAGING_TABLES.c.url == url)
    found: str | None = connection.execute(query).scalar()
    if found is None:
        found = str(uuid.uuid4())
        intend(connection, found, schema_id, name, url)
    check_apart(connection, name, found, url)  # before the table says that this catalog manages it
    return found


def intend(connection: sa.Connection, table_id: str, schema_id: str, name: str, url: str) -> None:
    """Note that the table in a folder has an id of this catalog, and no name of it yet, or any more."""
    created_ms = time.time_ns() // 1_000_000
    row = {"id": table_id, "schema_id": schema_id, "name": name, "url": url, "created_ms": created_ms}
    connection.execute(sa.insert(STAGING_TABLES).values(row))


def forget_intention(connection: sa.Connection, table_id: str) -> None:
    connection.execute(sa.delete(STAGING_TABLES).where(STAGING_TABLES.c.id == table_id))


@contextmanager
def forgotten_on_failure(begin: Begin, table_id: str) -> Iterator[None]:
    """The block that makes a table a managed one. If it certainly has not, its new id is forgotten."""
    try:
        yield
    except (DeltaAnalysisError, DeltaConcurrentModificationException, CatalogNameError):
        with begin() as connection:
            forget_intention(connection, table_id)
        raise


def manage(name: str, url: str, table_id: str, env: Env) -> int:
    """Commit, by the path, that a catalog manages a table. Returns its newest version, behind which nobody commits by
    the path.

    Raises:
        TableNotFoundError: there is none.
        CatalogNameError: another catalog manages it.
    """
    store = _Entering(env.store)
    table = Table(url, env=replace(env, store=store, store_at=partial(_at, store, env.store_at)))
    snapshot = table.snapshot()
    if not supports(snapshot.protocol, "catalogManaged"):
        return set_properties(table, managed_properties(table_id))
    if snapshot.properties.get(TABLE_ID) != table_id:
        raise CatalogNameError(name=name, detail=f"another catalog manages the table in {url}")
    return snapshot.version


def _at(store: Store, others: Callable[[str], Store], url: str) -> Store:
    return store if url == store.url else others(url)
