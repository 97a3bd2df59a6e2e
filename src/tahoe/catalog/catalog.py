"""`Catalog`, the user's handle on a catalog of tables.

catalog = tahoe.Catalog("sqlite:///lake.db", root="/data/lake")
orders = catalog.create_table("shop.orders", schema)
with catalog.transaction() as changes:
    changes.table("shop.orders").append(rows)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tahoe._cached import Recent
from tahoe.catalog.commits import Begin, CatalogCommits, drop
from tahoe.catalog.database import folder_beside, open_database, reading, shown, transaction
from tahoe.catalog.entries import CatalogSnapshot, TableEntry, entries
from tahoe.catalog.names import check_name, one_maker, parts_of, rename, schema_id_of, table_row
from tahoe.catalog.ratification import DatabaseRatifier, Ratifier
from tahoe.catalog.registration import (
    check_apart,
    finish_before_drop,
    forget_intention,
    forgotten_on_failure,
    intended,
    manage,
    managed_properties,
    release,
)
from tahoe.catalog.tables_of_database import SCHEMAS, TABLES
from tahoe.catalog.transaction import CatalogTransaction, Known
from tahoe.catalog.views import Views
from tahoe.errors import (
    CatalogNameError,
    CatalogNameTakenError,
    DeltaError,
    ExternalTableError,
    SchemaNotEmptyError,
)
from tahoe.events.listeners import background_job
from tahoe.protocol.configuration.properties import SYMLINK_MANIFESTS
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.protocol.types.schema import Struct
from tahoe.storage import system_env
from tahoe.storage.background import in_background
from tahoe.storage.env import Env, Store, Watch, Watches
from tahoe.storage.local import no_new_folder_left
from tahoe.storage.locations import normalise
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import RatifiedCommit, TableCommits
from tahoe.table.commit.post_commit_hooks import after_commit
from tahoe.table.table import Table
from tahoe.table.versions.table_reader import go_on_from, newest_known

if TYPE_CHECKING:
    from tahoe.catalog.remote_credentials import ServerCredentials

# Of so many tables a version is kept that a block has read, for the next one.
KNOWN_MAX = 16

_NAMED = sa.select(TABLES.c.id).where(
    (TABLES.c.schema_id == sa.bindparam("schema_id")) & (TABLES.c.name == sa.bindparam("name"))
)


class Catalog(Views):
    """A catalog of Delta tables in a database, which decides who commits to them.

    Args:
        url: of the database: `sqlite:///lake.db` for one machine, `postgresql+psycopg://user@host/lake` for many; or of
            a server of it, `https://host:8080`, which has all calls but renames.
        root: the folder in which new tables get theirs; None for `lake.db.tables` beside SQLite's file. A table can be
            made elsewhere, too. A server has its own.
        storage_options: credentials and settings for object stores.
        token: by which a server knows who calls.

    Raises:
        CatalogUrlError, CatalogUnavailableError, NewerCatalogError: it cannot be opened.
        CatalogRefusedError: the server does not know the token.
    """

    # Of a server, which hands them out for the folders of its tables.
    credentials: ServerCredentials | None = None

    def __new__(cls, url: str = "", **_: Any) -> Self:  # copies have no arguments
        if cls is Catalog and url.startswith(("http://", "https://")):
            from tahoe.catalog.remote import RemoteCatalog  # noqa: PLC0415 - a subclass

            return object.__new__(RemoteCatalog)  # type: ignore[return-value]  # it is one of Catalog's
        return object.__new__(cls)

    def __init__(
        self,
        url: str,
        *,
        root: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        token: str | None = None,  # noqa: ARG002 - a database has other means
    ) -> None:
        self.engine = open_database(url)
        place = root or folder_beside(self.engine)
        self._root = None if place is None else normalise(place)
        self._env_at: Callable[[str], Env] = partial(system_env, storage_options=storage_options)
        self.url = shown(self.engine.url)
        self._known: Recent[str, Known] = Recent(KNOWN_MAX)
        self._ratifier: Ratifier = DatabaseRatifier(self._begin, partial(reading, self.engine))

    def __repr__(self) -> str:
        return f"Catalog({self.url!r})"

    def opening_by(self, env_at: Callable[[str], Env]) -> Catalog:
        """The same catalog, which opens the folders of tables by another function."""
        other = copy(self)
        other._env_at = env_at
        return other

    # --- schemas

    def create_schema(self, name: str, *, comment: str | None = None, if_not_exists: bool = False) -> None:
        """Make a schema, which holds tables.

        Raises:
            CatalogNameTakenError: there is one, and `if_not_exists` is false.
        """
        name = name.lower()
        check_name(name, name)
        with self._begin() as connection:
            if connection.execute(sa.select(SCHEMAS.c.id).where(SCHEMAS.c.name == name)).first() is None:
                connection.execute(sa.insert(SCHEMAS).values(id=str(uuid.uuid4()), name=name, comment=comment))
            elif not if_not_exists:
                raise CatalogNameTakenError(url=self.url, name=f"a schema {name}")

    def schemas(self) -> list[str]:
        """The names of all schemas."""
        with self._begin() as connection:
            return list(connection.execute(sa.select(SCHEMAS.c.name).order_by(SCHEMAS.c.name)).scalars())

    def drop_schema(self, name: str, *, cascade: bool = False) -> None:
        """Remove a schema.

        Args:
            cascade: remove its views and the names of its tables, too; their files stay.

        Raises:
            SchemaNotFoundError: there is none.
            SchemaNotEmptyError: it has tables or views, and `cascade` is false.
        """
        tables, views = [entry.name for entry in self.tables(name)], self.views(name)
        if (tables or views) and not cascade:
            raise SchemaNotEmptyError(url=self.url, name=name, tables=", ".join(tables + views))
        for view in views:
            self.drop_view(view)
        for table in tables:
            self.drop_table(table)
        with self._begin() as connection:
            schema_id = schema_id_of(connection, self.url, name)
            try:
                connection.execute(sa.delete(SCHEMAS).where(SCHEMAS.c.id == schema_id))
            except IntegrityError as error:  # a table was made meanwhile
                raise SchemaNotEmptyError(url=self.url, name=name, tables="a new table") from error

    # --- tables

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Struct,
        *,
        location: str | None = None,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Make a table that this catalog manages.

        Args:
            name: schema and table, such as `shop.orders`.
            location: its folder; None for a new one in the catalog's root.

        Raises:
            SchemaNotFoundError, CatalogNameTakenError, CatalogNameError: the name cannot be given.
            DeltaAnalysisError: as `Table.create`.
        """
        with self.new_table(name, location=location, comment=comment) as (table_id, url):
            table = self.open(table_id, url)
            kept = {**(properties or {}), **managed_properties(table_id)}
            table.create(schema, partition_by=partition_by, properties=kept, comment=comment)
        return table

    @contextmanager
    def new_table(
        self, name: str, *, location: str | None = None, comment: str | None = None
    ) -> Iterator[tuple[str, str]]:
        """Give a name to a new table, whose first version the block commits, with the properties that
        `managed_properties` tells. If that fails, the name is free again, and a folder that the catalog has chosen is
        gone, unless another writer has committed.

        Returns:
            its id and its folder, as `located`.

        Raises:
            SchemaNotFoundError, CatalogNameTakenError, CatalogNameError: the name cannot be given.
        """
        schema_name, table_name = parts_of(name)
        if location is None and self._root is None:
            raise CatalogNameError(name=name, detail="the catalog has no root, and no location is given")
        url = f"{self._root}/{uuid.uuid4()}" if location is None else normalise(location)
        if any(self._env_at(url).store.list_from(LOG_FOLDER)):
            raise CatalogNameError(name=name, detail=f"there is a table in {url}; register_table gives it a name")
        table_id = str(uuid.uuid4())
        entry = {"id": table_id, "name": table_name, "url": url, "comment": comment, "latest_version": -1}
        self._enter(schema_name, name, entry)
        own = -1
        with no_new_folder_left(url):
            try:
                yield table_id, url
                own = 0
                self._store(table_id, url).publish()  # whoever opens the folder by its path then finds a managed table
            except BaseException:
                if _remove_up_to(self._begin, table_id, own) and location is None:
                    empty(self._env_at(url))
                raise

    def register_table(self, name: str, location: str) -> Table:
        """Give a name to a table that is there, whose commits this catalog manages from then on: others who open it by
        its path are refused. A table that `drop_table` has left can be registered again.

        >>> catalog.register_table("shop.returns", "/data/returns")

        Raises:
            TableNotFoundError: there is none.
            SchemaNotFoundError, CatalogNameTakenError, CatalogNameError: the name cannot be given, or another catalog
                manages the table.
            DeltaConcurrentModificationException: another writer's commit conflicts.
        """
        url = normalise(location)
        schema, table = parts_of(name)
        with self._begin() as connection:
            schema_id = schema_id_of(connection, self.url, schema)
            if connection.execute(_NAMED, {"schema_id": schema_id, "name": table}).first() is not None:
                raise CatalogNameTakenError(url=self.url, name=f"a table or a view {name}")
            table_id = intended(connection, schema_id, table, url)
        with forgotten_on_failure(self._begin, table_id):
            latest = manage(name, url, table_id, self._env_at(url))
        self._enter(schema, name, {"id": table_id, "name": table, "url": url, "latest_version": latest})
        with self._begin() as connection:
            forget_intention(connection, table_id)
        return self.open(table_id, url)

    def release_table(self, name: str) -> Table:
        """Give a table back to its path: the log alone has its commits from then on, for every client, and its name
        stays, as that of an external table. `drop_table` and `register_table` are the way back.

        Raises:
            CatalogTableNotFoundError: there is none.
            ExternalTableError: the catalog does not manage it.
        """
        with self._begin() as connection:
            found = table_row(connection, self.url, name)
        if not release(self._begin, found, self._store(found.id, found.url).publish, self._env_at(found.url)):
            self.folder_of(name)  # unless it was dropped meanwhile
            raise ExternalTableError(url=self.url, name=name, operation="give it back to its path")
        return self.table(name)

    def table(self, name: str) -> Table:
        """A table by its name. Each call of the table sees the newest version that the catalog has ratified.

        Raises:
            CatalogTableNotFoundError: there is none.
        """
        table_id, url = self.folder_of(name)
        return Table(url, env=self._env_at(url)) if table_id is None else self.open(table_id, url)

    def located(self, name: str) -> tuple[str, str]:
        """The id and the folder of a table that the catalog manages.

        Raises:
            CatalogTableNotFoundError: there is none.
            ExternalTableError: it does not manage it.
        """
        table_id, url = self.folder_of(name)
        if table_id is None:
            raise ExternalTableError(url=self.url, name=name, operation="ratify commits of it")
        return table_id, url

    def folder_of(self, name: str) -> tuple[str | None, str]:
        """The id and the folder of a table; None is the id of an external one.

        Raises:
            CatalogTableNotFoundError: there is none.
        """
        with reading(self.engine) as connection:
            found = table_row(connection, self.url, name)
        return found.id if found.kind == "managed" else None, found.url

    def table_at(self, url: str) -> str | None:
        """The id of the table in a folder; None if there is none that the catalog manages."""
        is_there = (TABLES.c.url == url) & (TABLES.c.kind == "managed")
        with self._begin() as connection:
            found: str | None = connection.execute(sa.select(TABLES.c.id).where(is_there)).scalar()
        return found

    def tables(self, schema: str | None = None) -> list[TableEntry]:
        """The tables of a schema, or all tables, by their names."""
        with self._begin() as connection:
            return list(entries(connection, schema))

    def drop_table(self, name: str) -> None:
        """Remove a table's name. Its files stay, and what was ratified is published before, unless its files are gone.

        Raises:
            CatalogTableNotFoundError: there is none.
        """
        with self._begin() as connection:
            found = table_row(connection, self.url, name)
        self.drop_table_with(found.id, found.url)

    def drop_table_with(self, table_id: str, url: str) -> None:
        """`drop_table` of the table with an id and a folder. Nothing happens if it was dropped meanwhile."""
        finish_before_drop(self._begin, table_id, url, self._env_at)
        drop(self._begin, table_id, self._store(table_id, url).publish)

    def rename_table(self, name: str, new_name: str) -> None:
        """Give a table or a view another name, in the same or in another schema. Files stay where they are.

        Raises:
            CatalogTableNotFoundError, SchemaNotFoundError, CatalogNameTakenError: it cannot be renamed.
        """
        with self._begin() as connection:
            rename(connection, self.url, name, new_name)

    def publish(self, name: str) -> int:
        """Copy the ratified commits of a table into its log; returns how many there were.

        Raises:
            CatalogTableNotFoundError, ExternalTableError: as `located`.
        """
        return self._store(*self.located(name)).publish()

    def snapshot(self) -> CatalogSnapshot:
        """All tables that the catalog manages, as they are now: each is read at its version of this moment, however
        others commit meanwhile.

        >>> moment = catalog.snapshot()
        >>> moment.table("shop.orders").to_arrow(), moment.table("shop.stock").to_arrow()
        """
        return CatalogSnapshot(self.url, self._ratifier.moment(), self.open)

    # --- transactions

    @contextmanager
    def transaction(self, *, serializable: bool = False) -> Iterator[CatalogTransaction]:
        """Change several tables at once: with the end of the block all commits become visible, or none.

        Tables of the block are opened by its own `table`. Its reads see one moment of all tables, and what the block
        itself has written.

        Args:
            serializable: refuse the block also if a table that it has opened and not changed has changed meanwhile.

        Raises:
            DeltaConcurrentModificationException: what another writer has committed meanwhile conflicts. A
                TransactionConflictError among them says that running the block again can help.
        """
        moment = self._ratifier.moment()
        open_table = partial(self._open_in, time.time_ns() // 1_000_000)
        changes = CatalogTransaction(self.url, self._ratifier, moment, open_table, is_serializable=serializable)
        try:
            yield changes
        except BaseException:
            changes.roll_back()
            raise
        known = changes.known()
        if not changes.is_closed:
            changes.commit()
        for table_id, of_table in known.items():
            self._known.put(table_id, of_table)
        for entry, commits in changes.written:
            _finish_later(_going_on(self.open(entry.id, entry.url), known.get(entry.id)), commits)

    # --- the database

    def _begin(self) -> AbstractContextManager[sa.Connection]:
        return transaction(self.engine)

    def _enter(self, schema: str, name: str, entry: Mapping[str, object]) -> None:
        with self._begin() as connection:
            made = {"schema_id": schema_id_of(connection, self.url, schema), "created_ms": time.time_ns() // 1_000_000}
            one_maker(connection)
            try:
                connection.execute(sa.insert(TABLES).values(kind="managed", **made, **entry))
            except IntegrityError as error:
                raise CatalogNameTakenError(url=self.url, name=f"a table or a view {name}") from error
            check_apart(connection, name, str(entry["id"]), str(entry["url"]))

    # --- stores

    def open(self, table_id: str, url: str) -> Table:
        """The table with an id and a folder, as `new_table` and `located` tell them. Nothing is read."""
        env = self._env_at(url)
        store = ManagedStore(env.store, self._commits(table_id, url))
        return _table_of(env, store, _Publishing(store))

    def _open_in(self, began_ms: int, entry: TableEntry, commits: TableCommits, watch: Watch) -> Table:
        """A table in a block, for which all commits are made at the time when it began."""
        env = replace(self._env_at(entry.url), clock_ms=lambda: began_ms)
        return _going_on(_table_of(env, ManagedStore(env.store, commits), watch), self._known.get(entry.id))

    def _store(self, table_id: str, url: str) -> ManagedStore:
        return ManagedStore(self._env_at(url).store, self._commits(table_id, url))

    def _commits(self, table_id: str, url: str) -> TableCommits:
        return CatalogCommits(self._begin, table_id, url, partial(reading, self.engine))


def _remove_up_to(begin: Begin, table_id: str, version: int) -> bool:
    """Remove a table that has no later version, which others may have made that have found its name. Returns whether it
    is removed: then nobody commits to it any more.
    """
    with begin() as connection:
        is_it = (TABLES.c.id == table_id) & (TABLES.c.latest_version <= version)
        return connection.execute(sa.delete(TABLES).where(is_it)).rowcount == 1


def empty(env: Env) -> None:
    """Delete the files in the folder of a table that was not made: tasks of its maker have written them."""
    with suppress(DeltaError, OSError):  # it is about an error already
        env.discard([file.key for file in env.store.walk()])


def _going_on(table: Table, known: Known | None) -> Table:
    """A table that makes its next snapshot from one that was read before."""
    if known is not None:
        assert isinstance(table.env.store, ManagedStore)
        go_on_from(table, known.snapshot)
        if known.staged is not None:
            table.env.store.knowing(known.staged)
    return table


def _finish_later(table: Table, commits: Sequence[RatifiedCommit]) -> None:
    work = partial(_after_block, table, commits)
    in_background(background_job("after_block", table.url, commits[-1].version, work))


def _after_block(table: Table, commits: Sequence[RatifiedCommit]) -> None:
    """Publish the commits of a block, and run the hooks that have waited for its end."""
    assert isinstance(table.env.store, ManagedStore)
    table.env.store.publish()
    base = newest_known(table)
    for commit in commits:
        after_commit(table.log, base, commit.version, table.log.read_version(commit.version), commit.size_bytes)
    if SYMLINK_MANIFESTS.get(table.properties):
        table.generate()


def _table_of(env: Env, store: ManagedStore, watch: Watch) -> Table:
    """A table whose files are those of an environment, and whose commits go through another store."""
    at = partial(_store_at, store, env.store_at)
    return Table(store.url, env=replace(env, store=store, store_at=at, watch=Watches((env.watch, watch))))


@dataclass(frozen=True, slots=True)
class _Publishing(Watch):
    """Publishes each commit, later."""

    store: ManagedStore

    def committed(self, url: str, version: int) -> None:
        in_background(background_job("publish", url, version, partial(self.store.publish_behind, version)))


def _store_at(store: ManagedStore, others: Callable[[str], Store], url: str) -> Store:
    return store if url == store.url else others(url)
