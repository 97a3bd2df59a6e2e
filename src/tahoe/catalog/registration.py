"""Tables that are there already get a name in a catalog, which manages their commits from then on; and they are given
back to their paths.

The id that the catalog gives such a table is entered as that of a staging table before a commit puts it into the log.
So a registration that was interrupted between that commit and the name goes on when it is asked for again, and a table
of another catalog is never taken for one of this.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, ClassVar

import sqlalchemy as sa

from tahoe.catalog.commits import Begin, make_external
from tahoe.catalog.tables_of_database import STAGING_TABLES, TABLES
from tahoe.errors import (
    CatalogNameError,
    DeltaAnalysisError,
    DeltaConcurrentModificationException,
    DeltaError,
    StorageRefusedError,
    TableNotManagedError,
)
from tahoe.protocol.configuration.feature_drop import without_catalog
from tahoe.protocol.configuration.features import supports
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import Env, FileInfo, Store
from tahoe.table.commit.transaction import Transaction
from tahoe.table.table import Table
from tahoe.table.transactions.alter import set_properties

# So often a table that is given back to its path is published, while others commit to it.
_RELEASE_ATTEMPTS = 20

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
    table = _entered(url, env)
    snapshot = table.snapshot()
    if not supports(snapshot.protocol, "catalogManaged"):
        return set_properties(table, managed_properties(table_id))
    if snapshot.properties.get(TABLE_ID) != table_id:
        raise CatalogNameError(name=name, detail=f"another catalog manages the table in {url}")
    return snapshot.version


def release(begin: Begin, table: sa.Row[Any, Any, Any], publish: Callable[[], object], env: Env) -> bool:
    """Give a table back to its path: the catalog ratifies no more commits of it, and then a commit by the path says so.
    Whoever finds it between the two is refused, and the call can be repeated. False if no catalog manages it.

    Args:
        table: its id, url and kind.
        publish: publishes what is ratified.

    Raises:
        StorageRefusedError: others commit all the time.
    """
    try:
        if table.kind == "managed":
            _end_ratifying(begin, table, publish)
    except TableNotManagedError:  # it was dropped meanwhile, or another call has given it back
        return False
    return _finish(table.id, table.url, env)


def _end_ratifying(begin: Begin, table: sa.Row[Any, Any, Any], publish: Callable[[], object]) -> None:
    for _ in range(_RELEASE_ATTEMPTS):
        publish()
        with begin() as connection:
            if make_external(connection, table.id):
                return
    detail = f"others have committed to it {_RELEASE_ATTEMPTS} times meanwhile; stop them, and try again"
    raise StorageRefusedError(table=table.url, operation="give it back to its path", detail=detail)


def finish_before_drop(begin: Begin, table_id: str, url: str, env_at: Callable[[str], Env]) -> None:
    """Finish giving a table back to its path, if that was interrupted: once its id is forgotten, nobody could open it.
    Nothing happens if its folder is gone or cannot be reached: its name can be dropped all the same.
    """
    is_external = (TABLES.c.id == table_id) & (TABLES.c.kind == "external")
    with begin() as connection:
        found = connection.execute(sa.select(TABLES.c.id).where(is_external)).first()
    if found is not None:
        with suppress(DeltaError, OSError):
            _finish(table_id, url, env_at(url))


def _finish(table_id: str, url: str, env: Env) -> bool:
    """Commit, by the path, that a catalog does not manage a table any more, which ratifies no commits of it. False if
    the table does not say that it is managed with this id.
    """
    opened = _entered(url, env)
    snapshot = opened.snapshot()
    if snapshot.metadata.configuration.get(TABLE_ID) != table_id:
        return False
    properties = {key: value for key, value in snapshot.metadata.configuration.items() if key != TABLE_ID}
    Transaction(
        log=opened.log,
        base=snapshot,
        actions=[without_catalog(snapshot.protocol), snapshot.metadata.replace(configuration=properties)],
        operation="DROP FEATURE",
        parameters={"featureName": "catalogManaged"},
    ).commit()
    return True


def _entered(url: str, env: Env) -> Table:
    store = _Entering(env.store)
    return Table(url, env=replace(env, store=store, store_at=partial(_at, store, env.store_at)))


def _at(store: Store, others: Callable[[str], Store], url: str) -> Store:
    return store if url == store.url else others(url)
