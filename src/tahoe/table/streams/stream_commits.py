"""The commits that a stream follows: which are new, what it reads of each, and which it cannot follow.

Nothing that was read before is read again while a query runs, and one look at the log costs one listing.
"""

from __future__ import annotations

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tahoe.errors import (
    OtherTableInStreamError,
    StreamCommitsMissingError,
    StreamSourceChangeError,
    StreamSourceDeleteError,
)
from tahoe.protocol.configuration.features import check_readable
from tahoe.protocol.log.actions import Action, Add, Cdc, CommitInfo, Metadata, Protocol, Remove
from tahoe.protocol.log.log_files import Kind, LogFile
from tahoe.protocol.streams.stream_offset import StreamOffset
from tahoe.storage.threads import REQUESTS, in_threads
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, check_may_open, load_snapshot
from tahoe.table.streams.stream_schema import StreamSchema

_logger = logging.getLogger("tahoe")

# The files of the commits that are kept; a batch reads them again after its end was found.
_KEPT_FILES_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTolerance:
    """Which commits a stream can follow beyond appends.

    Attributes:
        ignores_deletes: pass over versions that only delete data.
        ignores_changes: read all files that a version with changes adds, also those with rows that were read before.
        skips_changes: pass over versions that delete or change data.
        loses_data: go on if commits are no longer in the log.
    """

    ignores_deletes: bool = False
    ignores_changes: bool = False
    skips_changes: bool = False
    loses_data: bool = False


File = TypeVar("File", bound=Add | Remove | Cdc)


@dataclass(frozen=True, slots=True, eq=False)
class StreamCommit(Generic[File]):
    """What a stream reads of a version: files in the order of their indexes."""

    version: int
    files: tuple[File, ...]
    sizes: npt.NDArray[np.int64]


Commit = TypeVar("Commit", bound=StreamCommit[Any])


class StreamCommits(Generic[Commit]):
    """The commits of a table from a version on.

    Attributes:
        newest: the newest version that was seen.
        barrier: the version before which `since` has ended, because the stream waits there for its new schema; None if
            it has not.

    Args:
        snapshot: the version whose schema the stream has.
        content: what the stream reads of a commit.
        schema: is told of the schema changes among them.
        loses_data: go on if commits are no longer in the log.
        last: the newest commit when the query was started.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        content: Callable[[int, Sequence[Action]], Commit],
        schema: StreamSchema,
        *,
        loses_data: bool,
        last: LogFile | None = None,
    ) -> None:
        self.newest = snapshot.version
        self._snapshot = snapshot
        self._content = content
        self._schema = schema
        self._loses_data = loses_data
        self._kept: OrderedDict[tuple[int, tuple[int, str]], Commit] = OrderedDict()
        self._kept_files = 0
        self._last = last
        self._changing: set[int] = set()
        self.barrier: int | None = None

    def since(self, version: int, *, is_planned: bool = False) -> Iterator[Commit]:
        """The commits from a version on that exist now, oldest first. They are read as they are asked for, a few at a
        time.

        Args:
            is_planned: whether the end of the batch is known, so that no barrier ends it.

        Raises:
            StreamCommitsMissingError: the log no longer has the next commit.
            OtherTableInStreamError: another table has taken the place of this one.
            DeltaError: the stream cannot follow a commit; see `StreamSchema.meet` and `content`.
            DeltaLogError, DeltaProtocolError: a commit breaks the protocol, or needs a reader feature that tahoe does
                not support.
        """
        self.barrier = None
        for file, commit in in_threads(
            lambda file: (file, self._read(file)), self._commit_files(version), ahead=4 * REQUESTS
        ):
            if file.version in self._changing and not is_planned:
                self.barrier = file.version
                return
            yield self._keep(file, commit)

    def _commit_files(self, version: int) -> list[LogFile]:
        """The commit files from a version on, without a gap."""
        log = self._snapshot.log
        files = _commits(log, version)
        self._check_same_table(files, version)
        self._last = files[-1] if files else self._last
        files = [file for file in files if file.version >= version]
        if not _is_whole(files, version):
            first = next(file.version for number, file in enumerate(files) if file.version != version + number)
            wanted = version + next(number for number, file in enumerate(files) if file.version != version + number)
            if not self._loses_data:
                raise StreamCommitsMissingError(table=log.url, startVersion=wanted, earliestVersion=first)
            _logger.warning(
                "%s: the stream goes on at version %s, because commit %s is no longer in the log",
                log.url,
                first,
                wanted,
            )
        if files:
            self.newest = max(self.newest, files[-1].version)
        return files

    def _check_same_table(self, files: Sequence[LogFile], version: int) -> None:
        """Compare the last commit that was seen with what is there now.

        Raises:
            TableNotFoundError: the table was dropped.
            OtherTableInStreamError: another table has taken its place.
        """
        last = self._last
        if last is None or version > last.version + 1:
            return
        now = next((file for file in files if file.version == last.version), None)
        if now is not None and now.identity == last.identity:
            return
        if now is None and files and files[0].version > last.version:
            return  # metadata cleanup has deleted it, and newer ones follow
        check_same_table(self._snapshot, load_snapshot(self._snapshot.log))
        self._last = now

    def _read(self, file: LogFile) -> Commit:
        """A commit of the log. Its schema and protocol are checked before its files, so that no row is read by a wrong
        schema.
        """
        known = self._kept.get((file.version, file.identity))
        if known is not None:
            return known
        actions = self._snapshot.log.read(file)
        metadata = next((a for a in actions if isinstance(a, Metadata)), None)
        protocol = next((a for a in actions if isinstance(a, Protocol)), None)
        if protocol is not None:
            check_readable(protocol, self._snapshot.metadata, table=self._snapshot.url)
            check_may_open(self._snapshot.log, protocol, file.version)
        if self._schema.meet(file.version, metadata, protocol):
            self._changing.add(file.version)
        return self._content(file.version, actions)

    def _keep(self, file: LogFile, commit: Commit) -> Commit:
        key = (file.version, file.identity)
        if key not in self._kept:
            self._kept[key] = commit
            self._kept_files += len(commit.files) + 1
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and self._kept_files > _KEPT_FILES_MAX:
            self._kept_files -= len(self._kept.popitem(last=False)[1].files) + 1
        return commit

    def forget(self, before: int) -> None:
        """Release the commits before a version, which are processed: a query may run for months."""
        for key in [key for key in self._kept if key[0] < before]:
            self._kept_files -= len(self._kept.pop(key).files) + 1

    def version_of(self, file: str) -> int | None:
        """The newest version, of the commits that are kept, that has a file; None if there is none."""
        canonical = self._snapshot.log.canonical
        key = canonical(file)
        having = [
            commit.version
            for commit in list(self._kept.values())
            if any(canonical(one.path) == key for one in commit.files)
        ]
        return max(having, default=None)

    def sizes_after(self, offset: StreamOffset) -> npt.NDArray[np.int64]:
        """The sizes of the files after an offset in the commits that were read and are kept."""
        found = [np.empty(0, np.int64)]
        for commit in self._kept.values():
            if commit.version > offset.version:
                found.append(commit.sizes)
            elif commit.version == offset.version and not offset.is_initial:
                found.append(commit.sizes[max(offset.index + 1, 0) :])
        return np.concatenate(found)


def check_same_table(before: Snapshot, now: Snapshot) -> None:
    """
    Raises:
        OtherTableInStreamError: the versions are of two tables, one of which has taken the other's place.
    """
    if now.metadata.id != before.metadata.id:
        raise OtherTableInStreamError(table=before.url, oldTableId=before.metadata.id, newTableId=now.metadata.id)


def _commits(log: Log, version: int) -> list[LogFile]:
    """The commit files from the version before one on, oldest first."""
    return sorted((f for f in log.list_files(max(version - 1, 0)) if f.kind is Kind.COMMIT), key=lambda f: f.version)


def _is_whole(files: Sequence[LogFile], version: int) -> bool:
    """Whether no commit is missing from a version on."""
    found = [file.version for file in files if file.version >= version]
    return found == list(range(version, version + len(found)))


# --- what a stream of rows reads of a commit


def added_files(
    version: int, actions: Sequence[Action], tolerance: ChangeTolerance, *, table: str
) -> StreamCommit[Add]:
    """The files that a commit adds with `dataChange`; none if the stream skips commits that remove files with it.

    Raises:
        StreamSourceDeleteError, StreamSourceChangeError: the stream cannot follow the commit.
    """
    removed = next((a.path for a in actions if isinstance(a, Remove) and a.data_change), None)
    added = tuple(a for a in actions if isinstance(a, Add) and a.data_change)
    if removed is not None:
        _check_change(version, removed, actions, tolerance, is_change=bool(added), table=table)
        if tolerance.skips_changes:
            added = ()
    return StreamCommit(version, added, np.array([add.size_bytes for add in added], np.int64))


def _check_change(
    version: int, removed: str, actions: Sequence[Action], tolerance: ChangeTolerance, *, is_change: bool, table: str
) -> None:
    if tolerance.skips_changes or tolerance.ignores_changes or (tolerance.ignores_deletes and not is_change):
        return
    if not is_change:
        raise StreamSourceDeleteError(version=version, removedFile=removed, table=table)
    info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo({}))
    operation, parameters = info.fields.get("operation"), info.fields.get("operationParameters")
    shown = f"{operation} ({json.dumps(parameters)})" if operation else removed
    raise StreamSourceChangeError(version=version, changeInfo=shown, table=table)


def excluding(pattern: re.Pattern[str] | None) -> Callable[[str], bool]:
    """Whether a file is read, by its path in the log."""
    return lambda path: pattern is None or pattern.search(path) is None
