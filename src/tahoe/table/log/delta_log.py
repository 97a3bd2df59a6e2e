"""The log of one table: the files of `_delta_log`, read through the store.

Protocol: "Delta Log Entries", "Last Checkpoint File". This module knows file names and actions, but does not reconcile
actions: that is the snapshot's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from itertools import pairwise
from typing import TypeVar

from tahoe.errors import (
    CommitGoneError,
    CorruptCheckpointError,
    CorruptCompactedLogError,
    DeltaError,
    DeltaLogError,
    MissingVersionError,
    NotADeltaTableError,
    PathIsFileError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tahoe.errors.root import cause_text
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import CONVERT, Action, CommitInfo, decode_commit
from tahoe.protocol.log.file_paths import canonical_key, resolve_path
from tahoe.protocol.log.last_checkpoint import LastCheckpoint, parse_last_checkpoint
from tahoe.protocol.log.log_files import LogFile, Segment
from tahoe.protocol.log.replay import check_commit, check_reconciled
from tahoe.storage.env import Env, Store, branches
from tahoe.storage.locations import split_file, split_url
from tahoe.table.log.kept_commits import KeptCommits

Result = TypeVar("Result")

# Who committed usually stands in the first line of a commit, which is read without the files that follow: there may be
# a million.
_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Log:
    """Reads the log's files. Nothing is cached between calls, unless a command keeps commits.

    Attributes:
        zone: of timestamps without a time zone, in partition values and in conditions.
        kept: commits that one command reads several times.
    """

    env: Env
    zone: tzinfo = UTC
    kept: KeptCommits | None = field(default=None, compare=False)

    @property
    def url(self) -> str:
        return self.env.store.url

    def canonical(self, path: str) -> str:
        """The canonical spelling of a data file's path, by which actions are reconciled."""
        return canonical_key(path, self.url)

    def locate(self, url: str) -> tuple[Store, str]:
        """The store and the key of a file by its absolute url, which may be outside the table."""
        if url.startswith(self.url + "/"):
            return self.env.store, url.removeprefix(self.url + "/")
        folder, _, name = url.rpartition("/")
        return self.env.store_at(folder), name

    def has_file(self, path: str) -> bool:
        """Whether the data file of an action exists."""
        store, key = self.locate(resolve_path(path, self.url))
        return store.head(key) is not None

    def list_files(self, from_version: int = 0) -> list[LogFile]:
        """The files of the log from a version on, oldest first. Unknown names are left out.

        A file system lists a folder in any order, while others write into it: the listing may have a new commit, but
        not the one before it, although that is older. A commit that seems to be missing is therefore looked for by its
        name.
        """
        start_after = f"{log_files.LOG_FOLDER}/{from_version:020d}"
        found = []
        for info in self.env.store.list_from(log_files.LOG_FOLDER, start_after if from_version else ""):
            if file := log_files.parse_name(
                _name(info.key), size_bytes=info.size_bytes, modified_ms=info.modified_ms, etag=info.etag
            ):
                found.append(file)
        unlisted = self._commits_before(found, from_version)
        return sorted([*found, *unlisted], key=lambda file: file.name) if unlisted else found

    def _commits_before(self, listed: Sequence[LogFile], from_version: int) -> list[LogFile]:
        """The commits that exist, directly before those that were listed."""
        found: list[LogFile] = []
        versions = [file.version for file in listed if file.kind is log_files.Kind.COMMIT]
        for last, version in pairwise([from_version - 1, *versions] if from_version else versions):
            while version - 1 > last and (file := self.commit_file(version - 1)) is not None:
                found.append(file)
                version -= 1
        return found

    def exists(self) -> bool:
        return any(
            _makes_a_table(log_files.parse_name(_name(info.key)))
            for info in self.env.store.list_from(log_files.LOG_FOLDER)
        )

    def is_file(self) -> bool:
        """Whether the table's url is that of a file."""
        if not split_url(self.url)[2]:
            return False
        folder, name = split_file(self.url)
        with suppress(DeltaError):  # the user may have access to the table's folder only
            return self.env.store_at(folder).head(name) is not None
        return False

    def last_checkpoint(self) -> LastCheckpoint | None:
        try:
            return parse_last_checkpoint(self.env.store.get(log_files.LAST_CHECKPOINT))
        except FileNotFoundError:
            return None

    def segment(
        self, version: int | None = None, *, unusable: Set[str] = frozenset(), listed: Sequence[LogFile] | None = None
    ) -> Segment:
        """The files that make up a version; the newest version if None.

        The listing starts at the version in `_last_checkpoint`. If this hint is missing or wrong, the whole log is
        listed.

        Args:
            listed: the whole log, if the caller has listed it.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no log here.
            VersionNotFoundError, MissingVersionError: the log does not have the version, or has lost a part of it.
        """
        hint = None if unusable or listed is not None else self.last_checkpoint()
        if hint is not None and (version is None or version >= hint.version):
            with suppress(MissingVersionError, VersionNotFoundError):
                return log_files.plan_segment(self.list_files(hint.version), version, table=self.url)
        files = self.list_files() if listed is None else listed
        if not any(_makes_a_table(file) for file in files):
            raise self._no_table()
        return log_files.plan_segment(files, version, table=self.url, unusable=unusable)

    def from_segment(
        self,
        version: int | None,
        read: Callable[[Segment], Result],
        *,
        unusable: frozenset[str] = frozenset(),
        listed: Sequence[LogFile] | None = None,
    ) -> Result:
        """Apply `read` to the segment of a version; the newest version if None.

        If `read` finds a broken checkpoint or compacted file, it is called again with a segment without that file. This
        costs time but never correctness. If there is no such segment, the first error is raised.

        Args:
            unusable: the names of checkpoints and compacted files that are not used.
            listed: the whole log, if the caller has listed it; listed again if a commit is gone.

        Raises:
            what `segment` and `read` raise.
        """
        broken: DeltaLogError | None = None
        gone: CommitGoneError | None = None
        while True:
            try:
                segment = self.segment(version, unusable=unusable, listed=listed)
            except (DeltaLogError, VersionNotFoundError) as error:
                if broken is None:
                    raise
                raise broken from error
            try:
                return read(segment)
            except CommitGoneError as error:  # deleted by cleanup since the listing: there is a newer checkpoint
                if gone is not None and gone.parameters == error.parameters:
                    raise
                gone, listed = error, None
            except CorruptCheckpointError as error:
                assert segment.checkpoint is not None
                broken = broken or error
                unusable |= {file.name for file in segment.checkpoint.files}
            except CorruptCompactedLogError as error:
                broken = broken or error
                unusable |= {str(error.parameters["file"])}

    def _no_table(self) -> TableNotFoundError | NotADeltaTableError:
        if self.is_file():
            return PathIsFileError(table=self.url)
        anything = next((branch for branch in branches(self.env.store) if branch.keys), None)
        return TableNotFoundError(table=self.url) if anything is None else NotADeltaTableError(table=self.url)

    def read(self, file: LogFile) -> list[Action]:
        """The actions of a commit or compacted file, checked against the rules of a commit.

        Raises:
            InvalidLogFileError, InvalidCommitError: the commit is broken, or breaks the protocol.
            CommitGoneError: the commit is gone.
            CorruptCompactedLogError: the compacted file is gone, is broken, breaks the protocol, or may lack removes.
        """
        if file.kind is log_files.Kind.COMPACTED:
            return self.read_compacted(file)
        return self._read_commit(file) if self.kept is None else self.kept.read(file, lambda: self._read_commit(file))

    def read_compacted(self, file: LogFile, *, may_lack_removes: bool = False) -> list[Action]:
        """The actions of a compacted file.

        Writers that use Delta Kernel, such as delta-rs, leave out the removes that are older than the retention of
        removed files, although older log files may have the adds. Their compacted files are used where there are no
        older files, and where commits are gone.

        Args:
            may_lack_removes: read it also if it may lack removes.

        Raises:
            CorruptCompactedLogError: see `read`.
        """
        detail: str | None
        try:
            data = self.env.store.get(file.key)
            keeps_removes = may_lack_removes or file.version == 0 or data.startswith(log_files.KEEPS_TOMBSTONES)
            if not keeps_removes and self._has_commits(file):
                actions: list[Action] = []
                detail = "another writer has made it, who may have left out removes of files that older log files add"
            else:
                actions = list(decode_commit(data, table=self.url, file=file.name))
                detail = check_reconciled(actions, self.canonical, path_once=True)
        except (FileNotFoundError, DeltaLogError) as error:
            raise CorruptCompactedLogError(table=self.url, file=file.name, detail=cause_text(error)) from error
        if detail is not None:
            raise CorruptCompactedLogError(table=self.url, file=file.name, detail=detail)
        return actions

    def _has_commits(self, file: LogFile) -> bool:
        there = {found.version for found in self.list_files(file.version) if found.kind is log_files.Kind.COMMIT}
        return there.issuperset(range(file.version, file.end_version + 1))

    def _read_commit(self, file: LogFile) -> list[Action]:
        try:
            data = self.env.store.get(file.key)
        except FileNotFoundError as error:
            detail = f"{file.name} disappeared while it was read"
            raise CommitGoneError(table=self.url, version=file.version, detail=detail) from error
        actions = list(decode_commit(data, table=self.url, file=file.name))
        check_commit(actions, self.canonical, table=self.url, file=file.name)
        return actions

    def commit_file(self, version: int) -> LogFile | None:
        """The commit file of a version as the storage has it now; None if there is none."""
        found = self.env.store.head(log_files.commit_key(version))
        if found is None:
            return None
        return log_files.parse_name(
            log_files.commit_name(version), size_bytes=found.size_bytes, modified_ms=found.modified_ms, etag=found.etag
        )

    def read_version(self, version: int) -> list[Action]:
        """The actions of the commit of one version."""
        name = log_files.commit_name(version)
        file = log_files.parse_name(name)
        assert file is not None
        return self._read_commit(file)

    def commit_info(self, version: int) -> CommitInfo | None:
        """The `commitInfo` of a commit; None if it has none or metadata cleanup has deleted the commit."""
        key, store = log_files.commit_key(version), self.env.store
        try:
            data = store.get_range(key, 0, _HEAD_BYTES)
            if len(data) == _HEAD_BYTES:  # the commit may be longer; its first line is usually enough
                first_line = data[: data.find(b"\n") + 1]  # empty if it does not end in the head
                first = next(self._actions(version, first_line), None)
                if isinstance(first, CommitInfo):
                    return first
                data = store.get(key)
        except FileNotFoundError:
            return None
        return next((a for a in self._actions(version, data) if isinstance(a, CommitInfo)), None)

    def was_converted(self) -> bool:
        """Whether CONVERT TO DELTA has made the table, of all files in the folder: also of those that another writer
        had in hand.
        """
        info = self.commit_info(0)
        return info is not None and info.fields.get("operation") == CONVERT

    def _actions(self, version: int, data: bytes) -> Iterator[Action]:
        return decode_commit(data, table=self.url, file=log_files.commit_name(version))


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _makes_a_table(file: LogFile | None) -> bool:
    return file is not None and (file.kind is log_files.Kind.COMMIT or file.is_checkpoint)
