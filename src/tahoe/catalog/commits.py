"""The commits of one table, in the database of its catalog. Protocol: "Commit Protocol" of catalog-managed tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import sqlalchemy as sa

from tahoe.catalog.grants import forget
from tahoe.catalog.tables_of_database import COMMITS, STAGING_TABLES, TABLES
from tahoe.errors import (
    CatalogUnavailableError,
    CommitEntryError,
    StorageRefusedError,
    StorageUnavailableError,
    TableNotManagedError,
)
from tahoe.errors.root import cause_text
from tahoe.storage.ratified import Ratified, RatifiedCommit

Begin: TypeAlias = Callable[[], AbstractContextManager[sa.Connection]]


@dataclass(frozen=True, slots=True)
class CatalogCommits:
    """The `TableCommits` of a table.

    Attributes:
        begin: opens a transaction of the database.
        table: the table's url, for errors.
        read: opens a connection for one statement that reads; None uses a transaction.
    """

    begin: Begin
    table_id: str
    table: str
    read: Begin | None = None

    def ratified(self) -> Ratified:
        with self._begun(self.read or self.begin, "read the ratified commits") as connection:
            return ratified(connection, self.table_id, self.table)

    def ratify(self, commit: RatifiedCommit) -> bool:
        with self._begun(self.begin, f"ratify version {commit.version}") as connection:
            if ratify_all(connection, self.table_id, commit.version - 1, [commit]):
                return True
            try:
                latest = ratified(connection, self.table_id, self.table).latest
            except TableNotManagedError as error:
                operation, detail = f"commit {commit.file}", "the table was dropped, or given back to its path"
                raise StorageRefusedError(table=self.table, operation=operation, detail=detail) from error
        if commit.version > latest + 1:
            detail = f"version {commit.version} does not follow {latest}, the latest one"
            raise StorageRefusedError(table=self.table, operation=f"commit {commit.file}", detail=detail)
        return False

    def may_describe(self, version: int) -> bool:  # noqa: ARG002
        return True

    def published(self, version: int) -> None:
        with self._begun(self.begin, f"forget commits up to version {version}") as connection:
            is_older = (COMMITS.c.table_id == self.table_id) & (COMMITS.c.version <= version)
            connection.execute(sa.delete(COMMITS).where(is_older))

    def _begun(self, begin: Begin, operation: str) -> AbstractContextManager[sa.Connection]:
        return _Told(begin(), self.table, operation)


class _Told(AbstractContextManager[sa.Connection]):
    """A transaction whose failures are a storage's, so that a commit treats them as such."""

    def __init__(self, begun: AbstractContextManager[sa.Connection], table: str, operation: str) -> None:
        self._begun, self._table, self._operation = begun, table, operation

    def __enter__(self) -> sa.Connection:
        try:
            return self._begun.__enter__()
        except CatalogUnavailableError as error:
            raise self._unavailable(error) from error

    def __exit__(self, *error: object) -> bool | None:
        try:
            return self._begun.__exit__(*error)  # type: ignore[arg-type]
        except CatalogUnavailableError as failed:
            raise self._unavailable(failed) from failed

    def _unavailable(self, error: CatalogUnavailableError) -> StorageUnavailableError:
        return StorageUnavailableError(table=self._table, operation=self._operation, detail=cause_text(error))


def ratified(connection: sa.Connection, table_id: str, table: str = "") -> Ratified:
    """What the catalog knows of a table's commits.

    Args:
        table: what an error calls it; the default is its id.

    Raises:
        TableNotManagedError: the table has been dropped, or given back to its path.
    """
    rows = connection.execute(_RATIFIED, {"table_id": table_id}).all()
    if not rows:
        raise TableNotManagedError(table=table or table_id)
    commits = (
        RatifiedCommit(version=version, file=file, size_bytes=size, modified_ms=modified)
        for _, version, file, size, modified in rows
        if version is not None
    )
    return Ratified(rows[0][0], tuple(commits))


# One statement, which sees one moment. A table without commits has a row without one.
_RATIFIED = (
    sa.select(TABLES.c.latest_version, COMMITS.c.version, COMMITS.c.file, COMMITS.c.size_bytes, COMMITS.c.modified_ms)
    .select_from(TABLES.outerjoin(COMMITS, COMMITS.c.table_id == TABLES.c.id))
    .where((TABLES.c.id == sa.bindparam("table_id")) & (TABLES.c.kind == "managed"))
    .order_by(COMMITS.c.version)
)


def is_latest(connection: sa.Connection, table_id: str, version: int) -> bool:
    """Whether a version is a table's latest one, and stays it until the end of the transaction."""
    query = sa.select(TABLES.c.latest_version).where(TABLES.c.id == table_id).with_for_update(read=True)
    return connection.execute(query).scalar() == version


# So often a table that is dropped is published, while others commit to it.
_DROP_ATTEMPTS = 20


_KEPT = ["id", "schema_id", "name", "url", "owner", "created_ms"]


def drop(begin: Begin, table_id: str, publish: Callable[[], object]) -> None:
    """Remove a table whose commits are published. Nothing happens if it was dropped meanwhile."""
    for attempt in range(_DROP_ATTEMPTS):
        is_last = attempt == _DROP_ATTEMPTS - 1
        try:
            publish()
        except CommitEntryError:  # what is lost cannot be published
            is_last = True
        except FileNotFoundError:  # it is not managed, or dropped already
            pass
        with begin() as connection:
            if remove_table(connection, table_id, with_commits=is_last):
                return


def remove_table(connection: sa.Connection, table_id: str, *, with_commits: bool = False) -> bool:
    """Remove a table. False if it has commits that may not be published, unless these are to go with it. Otherwise its
    id is kept for the folder, so that it can be registered again.
    """
    is_it = TABLES.c.id == table_id
    has_commits = _has_commits(connection, table_id)
    if not with_commits:
        if has_commits:
            return False
        kept = sa.select(*(TABLES.c[name] for name in _KEPT)).where(is_it & (TABLES.c.kind == "managed"))
        connection.execute(sa.insert(STAGING_TABLES).from_select(_KEPT, kept))
    connection.execute(sa.delete(TABLES).where(is_it))
    forget(connection, table_id)
    return True


def make_external(connection: sa.Connection, table_id: str) -> bool:
    """Ratify no more commits of a table. False, and nothing happens, if it has some that may not be published.

    Raises:
        TableNotManagedError: the table has been dropped, or given back to its path.
    """
    if _has_commits(connection, table_id):
        return False
    is_it = (TABLES.c.id == table_id) & (TABLES.c.kind == "managed")
    made = connection.execute(sa.update(TABLES).where(is_it).values(kind="external", latest_version=-1))
    if made.rowcount != 1:
        raise TableNotManagedError(table=table_id)
    return True


def _has_commits(connection: sa.Connection, table_id: str) -> bool:
    """Whether a table has commits that may not be published. Nothing is ratified until the end of the transaction."""
    connection.execute(sa.select(TABLES.c.id).where(TABLES.c.id == table_id).with_for_update())
    commits = sa.select(COMMITS.c.version).where(COMMITS.c.table_id == table_id).limit(1)
    return connection.execute(commits).first() is not None


def ratify_all(connection: sa.Connection, table_id: str, latest: int, commits: Sequence[RatifiedCommit]) -> bool:
    """Let commits own the versions that follow the latest one; False if it is not the latest one any more."""
    is_still = (TABLES.c.id == table_id) & (TABLES.c.latest_version == latest) & (TABLES.c.kind == "managed")
    moved = connection.execute(sa.update(TABLES).where(is_still).values(latest_version=commits[-1].version))
    if moved.rowcount != 1:
        return False
    connection.execute(
        sa.insert(COMMITS),
        [
            {
                "table_id": table_id,
                "version": commit.version,
                "file": commit.file,
                "size_bytes": commit.size_bytes,
                "modified_ms": commit.modified_ms,
            }
            for commit in commits
        ],
    )
    return True
