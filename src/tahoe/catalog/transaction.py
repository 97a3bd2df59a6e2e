"""A transaction over several tables of a catalog: their commits are staged, and ratified in one transaction of its
database.

While the block runs, its commits own their versions for the block alone. Hooks that would tell the log of them, such as
checkpoints, wait for a later commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from tahoe.catalog.commits import Begin, ratified, ratify_all
from tahoe.catalog.entries import TableEntry
from tahoe.errors import CatalogTableNotFoundError, TransactionClosedError, TransactionConflictError
from tahoe.protocol.log.log_files import STAGED_FOLDER
from tahoe.storage.ratified import Ratified, RatifiedCommit, TableCommits
from tahoe.table.table import Table


@dataclass(slots=True)
class PendingCommits:
    """The `TableCommits` of a table within a block: those of the catalog when the block began, and the block's own."""

    base: Ratified
    table: str
    own: list[RatifiedCommit] = field(default_factory=list)
    is_closed: bool = False

    def ratified(self) -> Ratified:
        self._check_open()
        latest = self.own[-1].version if self.own else self.base.latest
        return Ratified(latest, (*self.base.commits, *self.own))

    def ratify(self, commit: RatifiedCommit) -> bool:
        if commit.version != self.ratified().latest + 1:
            return False
        self.own.append(commit)
        return True

    def published(self, version: int) -> None:
        """What the block reads stays as it was."""

    def _check_open(self) -> None:
        if self.is_closed:
            raise TransactionClosedError(table=self.table)

    def may_describe(self, version: int) -> bool:
        return version <= self.base.latest


@dataclass(slots=True)
class _Opened:
    entry: TableEntry
    commits: PendingCommits
    table: Table


class CatalogTransaction:
    """Several tables of a catalog, changed at once: see `Catalog.transaction`."""

    def __init__(
        self,
        url: str,
        begin: Begin,
        entries: Mapping[str, TableEntry],
        open_table: Callable[[TableEntry, TableCommits], Table],
    ) -> None:
        self._url, self._begin, self._entries, self._open_table = url, begin, entries, open_table
        self._opened: dict[str, _Opened] = {}

    def table(self, name: str) -> Table:
        """A table as it was when the block began, with what the block itself has written.

        Raises:
            CatalogTableNotFoundError: there was none.
        """
        if name not in self._opened:
            entry = self._entries.get(name)
            if entry is None:
                raise CatalogTableNotFoundError(url=self._url, name=name)
            commits = PendingCommits(self._at_begin(entry), entry.url)
            self._opened[name] = _Opened(entry, commits, self._open_table(entry, commits))
        return self._opened[name].table

    def _at_begin(self, entry: TableEntry) -> Ratified:
        with self._begin() as connection:
            now = ratified(connection, entry.id)
        return Ratified(entry.latest_version, tuple(c for c in now.commits if c.version <= entry.latest_version))

    def commit(self) -> None:
        """Make all commits of the block visible.

        Raises:
            TransactionConflictError: another writer has committed to one of its tables meanwhile; nothing is visible.
            CatalogUnavailableError: the database did not tell whether it is.
        """
        changed = [opened for opened in self._opened.values() if opened.commits.own]
        try:
            with self._begin() as connection:
                for opened in sorted(changed, key=lambda one: one.entry.id):
                    self._ratify(connection, opened)
        except TransactionConflictError:
            self.roll_back()
            raise
        self._close()

    def _ratify(self, connection: sa.Connection, opened: _Opened) -> None:
        base, own = opened.commits.base.latest, opened.commits.own
        if not ratify_all(connection, opened.entry.id, base, own):
            latest = ratified(connection, opened.entry.id).latest
            detail = f"the block has read version {base}"
            raise TransactionConflictError(table=opened.entry.name, winner=f"version {latest}", detail=detail)

    def roll_back(self) -> None:
        """Leave nothing of the block but data files, which VACUUM deletes."""
        staged = [(opened.table.env, commit) for opened in self._opened.values() for commit in opened.commits.own]
        self._close()
        for env, commit in staged:
            env.discard([f"{STAGED_FOLDER}/{commit.file}"])

    def _close(self) -> None:
        for opened in self._opened.values():
            opened.commits.is_closed = True
