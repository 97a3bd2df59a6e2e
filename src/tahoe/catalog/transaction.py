"""A transaction over several tables of a catalog: their commits are staged, and ratified together by whoever decides.

While the block runs, its commits own their versions for the block alone. Hooks that would tell the log of them, such as
checkpoints, wait for a later commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from tahoe.catalog.entries import Moment, TableEntry
from tahoe.catalog.ratification import Ratifier, TableChange
from tahoe.errors import (
    CatalogRefusedError,
    CatalogTableNotFoundError,
    DeltaConcurrentModificationException,
    ExternalTableError,
    TableNotManagedError,
    TransactionClosedError,
    TransactionConflictError,
)
from tahoe.protocol.log.actions import in_commit_timestamp, with_in_commit_timestamp
from tahoe.protocol.log.log_files import STAGED_FOLDER, commit_key
from tahoe.storage.env import Env, Watch
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import Ratified, RatifiedCommit, TableCommits
from tahoe.table.commit.transaction import CommitAgain
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.versions.table_reader import newest_known


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


@dataclass(frozen=True, slots=True)
class Known:
    """A version of a table that was read, and how its commit was staged, if that is known."""

    snapshot: Snapshot
    staged: RatifiedCommit | None


@dataclass(slots=True)
class _Opened(Watch):
    """A table of a block, how to make its commits again, and the version on which the first of them was made."""

    entry: TableEntry
    commits: PendingCommits
    table: Table | None = None
    again: list[Callable[[Env], int]] = field(default_factory=list)
    base: Snapshot | None = None

    def made(self, commit: Callable[[Env], int]) -> None:
        if isinstance(commit, CommitAgain) and self.base is None:
            self.base = commit.base
        self.again.append(commit)

    def known(self) -> Known | None:
        """What later blocks need not read again: the table as others have committed it, if it was read."""
        base = self.base if self.commits.own or self.again else newest_known(self.opened)
        store = self.opened.env.store
        if base is None or base.version > self.commits.base.latest or not isinstance(store, ManagedStore):
            return None
        return Known(base, store.staged_as(base.version))

    @property
    def opened(self) -> Table:
        assert self.table is not None
        return self.table

    @property
    def change(self) -> TableChange:
        commits = self.commits
        return TableChange(table_id=self.entry.id, url=self.entry.url, base=commits.base.latest, commits=commits.own)


class CatalogTransaction:
    """Several tables of a catalog, changed at once: see `Catalog.transaction`."""

    def __init__(
        self,
        url: str,
        ratifier: Ratifier,
        moment: Moment,
        open_table: Callable[[TableEntry, TableCommits, Watch], Table],
        *,
        is_serializable: bool = False,
    ) -> None:
        self._url, self._ratifier, self._open_table = url, ratifier, open_table
        self._moment = moment
        self._entries: dict[str, TableEntry] = {}
        self._is_serializable = is_serializable
        self._opened: dict[str, _Opened] = {}
        self.is_closed = False

    def table(self, name: str) -> Table:
        """A table as it was when the block began, with what the block itself has written.

        Raises:
            CatalogTableNotFoundError: there was none.
            TransactionConflictError: the catalog does not manage it any more.
            ExternalTableError: the catalog does not manage its commits.
            TransactionClosedError: the block has ended.
        """
        return self._table_of(self._entry(name))

    def table_with(self, table_id: str) -> Table | None:
        """The table with an id, as `table`; None if there was none."""
        known = next((one.entry for one in self._opened.values() if one.entry.id == table_id), None)
        entry = known or self._at_moment(self._moment.with_id, table_id)
        return None if entry is None else self._table_of(entry)

    def folder_of(self, name: str) -> tuple[str | None, str]:
        """The id and the folder of a table when the block began; None is the id of an external one.

        Raises:
            CatalogTableNotFoundError: there was none.
        """
        entry = self._entry(name)
        return entry.id if entry.kind == "managed" else None, entry.url

    def _entry(self, name: str) -> TableEntry:
        entry = self._entries.get(name.lower()) or self._at_moment(self._moment.named, name)
        if entry is None:
            raise CatalogTableNotFoundError(url=self._url, name=name)
        self._entries[name.lower()] = entry
        return entry

    def _at_moment(self, find: Callable[[str], TableEntry | None], text: str) -> TableEntry | None:
        try:
            return find(text)
        except TableNotManagedError as error:
            raise _gone(error.parameters["table"]) from error

    def _table_of(self, entry: TableEntry) -> Table:
        self._check_open(entry.name)
        if entry.kind != "managed":
            raise ExternalTableError(url=self._url, name=entry.name, operation="change it together with other tables")
        if entry.name not in self._opened:
            found = _Opened(entry, PendingCommits(self._known(entry, entry.latest_version), entry.url))
            found.table = self._open_table(entry, found.commits, found)
            self._opened[entry.name] = found
        return self._opened[entry.name].opened

    def _known(self, entry: TableEntry, latest: int | None = None) -> Ratified:
        """What the catalog has ratified of a table, up to a version."""
        try:
            now = self._ratifier.ratified(entry)
        except FileNotFoundError as error:
            raise _gone(entry.name) from error
        latest = now.latest if latest is None else latest
        return Ratified(latest, tuple(commit for commit in now.commits if commit.version <= latest))

    def commit(self) -> None:
        """Make all commits of the block visible. What others have committed meanwhile goes before them, unless it
        conflicts.

        Raises:
            DeltaConcurrentModificationException: it does; nothing is visible. A TransactionConflictError says that
                running the block again can help.
            CatalogUnavailableError: the catalog did not tell whether it is.
            CatalogRefusedError: a server refused it; nothing is visible.
            TransactionClosedError: the block has ended.
        """
        self._check_open(self._url)
        try:
            self._undoing(self._give_one_time)
            while (behind := self._ratified_behind()) is not None:
                self._undoing(partial(self._commit_again, behind))
                self._undoing(self._give_one_time)
        except (DeltaConcurrentModificationException, CatalogRefusedError):
            self.roll_back()
            raise
        finally:
            self._close()

    def _undoing(self, step: Callable[[], None]) -> None:
        """Take a step before anything is ratified; if it fails, nothing of the block is left."""
        try:
            step()
        except BaseException:
            self.roll_back()
            raise

    def _give_one_time(self) -> None:
        """Give the newest commits of all tables one in-commit timestamp, the newest of them: then a read of several
        tables as of a time has all of them or none. Earlier commits of the block are as near to it as they can be.
        """
        changed = [one for one in self._opened.values() if one.commits.own]
        if len(changed) < 2:
            return
        texts = [[one.opened.env.store.get(commit_key(c.version)) for c in one.commits.own] for one in changed]
        newest = max(in_commit_timestamp(commits[-1]) for commits in texts)
        for one, commits in zip(changed, texts, strict=True):
            before = one.commits.own
            one.commits.own = [
                self._at(one, commit, text, newest - place)
                for place, (commit, text) in zip(
                    range(len(before) - 1, -1, -1), zip(before, commits, strict=True), strict=True
                )
            ]
            replaced = [commit for commit in before if commit not in one.commits.own]
            one.opened.env.discard([f"{STAGED_FOLDER}/{commit.file}" for commit in replaced])

    def _at(self, one: _Opened, commit: RatifiedCommit, text: bytes, time_ms: int) -> RatifiedCommit:
        """A staged commit with an in-commit timestamp that is not before a time."""
        if in_commit_timestamp(text) >= time_ms:
            return commit
        env, data = one.opened.env, with_in_commit_timestamp(text, time_ms)
        file = f"{commit.version:020d}.{env.new_id()}.json"
        env.store.put(f"{STAGED_FOLDER}/{file}", data)
        return replace(commit, file=file, size_bytes=len(data))

    def _ratified_behind(self) -> _Opened | None:
        """Ratify the commits of all tables; if one of them has new commits of others, that one, and nothing is
        ratified.
        """
        needed = {one.entry.id: one for one in self._opened.values() if one.commits.own or self._is_serializable}
        behind = self._ratifier.ratify([one.change for one in needed.values()]) if needed else None
        if behind is None:
            return None
        one = needed[behind]
        if not one.commits.own:
            winner = f"behind version {one.commits.base.latest}"
            detail = "the serializable block has read it"
            raise TransactionConflictError(table=one.entry.name, winner=winner, detail=detail)
        return one

    def _commit_again(self, one: _Opened) -> None:
        """Commit what the block has committed to a table behind what others have."""
        if len(one.again) != 1:
            raise self._conflict(one, f"the block has committed {len(one.again)} times to it")
        before, again = one.commits, one.again.pop()
        one.commits = PendingCommits(self._known(one.entry), one.entry.url)
        one.table = self._open_table(one.entry, one.commits, one)
        before.is_closed = True
        self._discard(one, before)
        again(one.opened.env)

    def _conflict(self, one: _Opened, detail: str) -> TransactionConflictError:
        winner = f"version {self._known(one.entry).latest}"
        return TransactionConflictError(table=one.entry.name, winner=winner, detail=detail)

    def roll_back(self) -> None:
        """End the block, and leave nothing of it but data files, which VACUUM deletes. Nothing happens if it has ended:
        what it staged may be ratified.
        """
        if not self.is_closed:
            self._close()
            for one in self._opened.values():
                self._discard(one, one.commits)

    def _discard(self, one: _Opened, commits: PendingCommits) -> None:
        one.opened.env.discard([f"{STAGED_FOLDER}/{commit.file}" for commit in commits.own])
        commits.own.clear()

    def _check_open(self, name: str) -> None:
        if self.is_closed:
            raise TransactionClosedError(table=name)

    def _close(self) -> None:
        self.is_closed = True
        for one in self._opened.values():
            one.commits.is_closed = True

    def known(self) -> dict[str, Known]:
        """What the block has read of tables, by their ids."""
        found = {one.entry.id: one.known() for one in self._opened.values()}
        return {table_id: known for table_id, known in found.items() if known is not None}

    @property
    def written(self) -> list[tuple[TableEntry, list[RatifiedCommit]]]:
        """The tables that the block has committed to, and its commits, which are visible once `commit` returns; none
        after they were undone.
        """
        return [(one.entry, one.commits.own) for one in self._opened.values() if one.commits.own]


def _gone(name: str) -> TransactionConflictError:
    """The error for a table that the catalog does not manage any more. What has the name now, a new block finds."""
    detail = "the catalog does not manage the table any more: it was dropped, or given back to its path"
    return TransactionConflictError(table=name, winner="behind all versions", detail=detail)
