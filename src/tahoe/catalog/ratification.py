"""What a transaction over several tables asks of whoever decides about their commits; and how a database decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa

from tahoe.catalog.commits import Begin, is_latest, ratified, ratify_all
from tahoe.catalog.entries import DatabaseMoment, Moment, TableEntry
from tahoe.storage.ratified import Ratified, RatifiedCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What a transaction has done with a table.

    Attributes:
        base: the version behind which it commits, or which it has read.
        commits: those of the versions that follow; none if the table was only read, and must still be as it was.
    """

    table_id: str
    url: str
    base: int
    commits: Sequence[RatifiedCommit]


class Ratifier(Protocol):
    """Decides about the commits of several tables.

    Raises:
        CatalogUnavailableError: it cannot be reached or fails. The outcome of `ratify` is then *unknown*.
        CatalogRefusedError: it rejected the request, which had no effect.
    """

    def moment(self) -> Moment:
        """All tables, as they are at one moment."""

    def ratified(self, entry: TableEntry) -> Ratified:
        """What is ratified of a table.

        Raises:
            FileNotFoundError: it has been dropped.
        """

    def ratify(self, changes: Sequence[TableChange]) -> str | None:
        """Let the commits of all tables own their versions, or none. None if they do; otherwise the id of a table
        whose latest version is not the base any more.
        """


@dataclass(frozen=True, slots=True)
class DatabaseRatifier:
    """The `Ratifier` of a database.

    Attributes:
        begin: opens a transaction of it.
        read: opens a connection for one statement that reads; None uses a transaction.
    """

    begin: Begin
    read: Begin | None = None

    def moment(self) -> DatabaseMoment:
        return DatabaseMoment(self.read or self.begin)

    def ratified(self, entry: TableEntry) -> Ratified:
        with (self.read or self.begin)() as connection:
            return ratified(connection, entry.id)

    def ratify(self, changes: Sequence[TableChange]) -> str | None:
        """Tables are changed in the order of their ids, so that transactions never wait for each other in a circle."""
        try:
            with self.begin() as connection:
                for change in sorted(changes, key=lambda change: change.table_id):
                    _ratify(connection, change)
        except _Behind as error:
            return error.table_id
        return None


def _ratify(connection: sa.Connection, change: TableChange) -> None:
    if change.commits:
        is_base_latest = ratify_all(connection, change.table_id, change.base, change.commits)
    else:
        is_base_latest = is_latest(connection, change.table_id, change.base)
    if not is_base_latest:
        raise _Behind(change.table_id)


class _Behind(Exception):
    """Ends a transaction of the database in which not all commits could be ratified."""

    def __init__(self, table_id: str) -> None:
        super().__init__(table_id)
        self.table_id = table_id
