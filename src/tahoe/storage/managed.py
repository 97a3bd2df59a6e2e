"""The store of a catalog-managed table: the catalog decides who commits, and knows the newest commits alone.

A commit is staged in `_delta_log/_staged_commits`, and the catalog ratifies it. Readers see ratified commits under
their names in the log; later they are published, which copies them there. So everything above a store commits to such
a table, and reads it, as it does with any other one.

Protocol: "Catalog-managed tables".
"""

from __future__ import annotations

import heapq
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar, TypeVar

from tahoe._cached import Recent
from tahoe.errors import CommitEntryError, StorageRefusedError
from tahoe.protocol.log.log_files import LOG_FOLDER, STAGED_FOLDER, Kind, LogFile, commit_key, commit_name, parse_name
from tahoe.storage.coordinated import create
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import FileInfo, Store, byte_order
from tahoe.storage.ratified import Ratified, RatifiedCommit, TableCommits

T = TypeVar("T")

# They replace commits for readers without the catalog, so these commits must have been published.
_OF_PUBLISHED = frozenset(Kind) - {Kind.COMMIT, Kind.CHECKSUM}


# The catalog is told of so many published commits at once.
_PUBLISHED_TOGETHER = 100

# The first version of a table says that it is managed. Who only knows its name does not make it.
_FEATURE = b'"catalogManaged"'

# With so many commits that are not published, writers do not leave it to later ones.
_UNPUBLISHED_MAX = 20

# Of so many commits it is known under which names they were staged.
_STAGED_KNOWN = 1000


def _new_id() -> str:
    return str(uuid.uuid4())


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class ManagedStore(DelegatingStore):
    """A `Store` over another one, whose commits a catalog ratifies.

    Args:
        inner: the store with the files.
        commits: the catalog's part in this table's commits.
        new_id: returns a new UUID for staged commits.
        clock_ms: the time in milliseconds since 1970.
    """

    inner: Store
    commits: TableCommits
    new_id: Callable[[], str] = _new_id
    clock_ms: Callable[[], int] = _clock_ms
    _known: list[Ratified] = field(default_factory=lambda: [Ratified()], compare=False, repr=False)
    _staged: Recent[int, RatifiedCommit] = field(
        default_factory=lambda: Recent(_STAGED_KNOWN), compare=False, repr=False
    )

    is_managed: ClassVar[bool] = True

    def may_be_described(self, version: int) -> bool:
        return self.commits.may_describe(version)

    def before_describing(self, version: int) -> None:
        """Publish the commits that a file about a version replaces for readers without the catalog.

        Raises:
            StorageRefusedError: the version can still be undone.
        """
        self._check_describable(version)
        self.publish(version)

    def _check_describable(self, version: int) -> None:
        if not self.commits.may_describe(version):
            detail = "it is part of a transaction over several tables, which has not ended"
            raise StorageRefusedError(table=self.url, operation=f"describe version {version} in the log", detail=detail)

    def staged_as(self, version: int) -> RatifiedCommit | None:
        """How a commit was staged, if that is known."""
        return self._staged.get(version)

    def knowing(self, commit: RatifiedCommit) -> None:
        """Note how a commit was staged, which may be published: what was read of it is still valid."""
        self._staged.put(commit.version, commit)

    # --- reading

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        """The catalog is asked first: what is published meanwhile is then known twice, and nothing is missed. Files of
        versions that it does not know are left out. Within a block of changes, so are those about its own versions:
        other writers have made them, for commits of their own.
        """
        if prefix != LOG_FOLDER:
            return self.inner.list_from(prefix, start_after)
        state = self._ask()
        ratified = {commit_key(commit.version): commit for commit in state.commits}
        unpublished = (_info(commit) for key, commit in ratified.items() if key > start_after)
        files = (
            self._as_staged(info)
            for info in self.inner.list_from(prefix, start_after)
            if info.key not in ratified and self._is_told(_newest_version(info.key), state.latest)
        )
        return heapq.merge(files, unpublished, key=lambda info: byte_order(info.key))

    def _is_told(self, version: int, latest: int) -> bool:
        return version <= latest and (version < 0 or self.commits.may_describe(version))

    def get(self, key: str) -> bytes:
        return self._read(key, self.inner.get)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(key, lambda at: self.inner.get_range(at, start, length))

    def head(self, key: str) -> FileInfo | None:
        version = _commit_version(key)
        if version is None:
            return self.inner.head(key)
        if version > self._known[0].latest:
            self._ask()
        commit = self._commit(version)
        if commit is not None:
            return _info(commit)
        found = self.inner.head(key) if version <= self._known[0].latest else None
        return None if found is None else self._as_staged(found)

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        return self._read(key, lambda at: self.inner.open(at, known if at == key else None))

    def _read(self, key: str, read: Callable[[str], T]) -> T:
        """Read a commit where it is: staged, or published."""
        version = _commit_version(key)
        if version is None:
            return read(key)
        if version > self._known[0].latest:
            self._ask()
        for _ in range(2):
            commit = self._commit(version)
            if version > self._known[0].latest:
                break
            try:
                return read(key if commit is None else f"{STAGED_FOLDER}/{commit.file}")
            except FileNotFoundError:  # published since, and cleaned up where it was staged
                self._ask()
        raise FileNotFoundError(key)

    # --- writing

    def put_if_absent(self, key: str, data: bytes) -> bool:
        version = _commit_version(key)
        if version is not None:
            return self._ratified(version, data)
        self._publish_for(key)
        return self.inner.put_if_absent(key, data)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self._publish_for(key)
        self.inner.put(key, data)

    def _ratified(self, version: int, data: bytes) -> bool:
        """Stage a commit and have it ratified: one request of the storage, and one of the catalog. If the catalog does
        not answer, the staged commit may own its version, and stays.
        """
        if version <= self._known[0].latest:
            return False
        if version == 0 and _FEATURE not in data:
            detail = "its maker has not finished: it has no first version. Drop its name, and make it again"
            raise StorageRefusedError(table=self.url, operation="write to the table", detail=detail)
        file = f"{version:020d}.{self.new_id()}.json"
        self.inner.put(f"{STAGED_FOLDER}/{file}", data)
        commit = RatifiedCommit(version=version, file=file, size_bytes=len(data), modified_ms=self.clock_ms())
        known = self._known[0]
        if not self.commits.ratify(commit):
            self.inner.delete(f"{STAGED_FOLDER}/{file}")
            self._ask()
            return False
        if known.latest == version - 1:
            self._know(Ratified(version, (*known.commits, commit)))
        else:
            self._ask()
        return True

    # --- publishing

    def publish(self, version: int | None = None) -> int:
        """Copy ratified commits into the log, in the order of their versions. Those that can still be undone are not.

        Args:
            version: the last one; None publishes all.

        Returns:
            how many there were. Others may publish at the same time.

        Raises:
            CommitEntryError: the log has another commit of that version, or a staged commit has been lost.
        """
        last, published = -1, 0
        for commit in self._ask().commits:
            if (version is not None and commit.version > version) or not self.commits.may_describe(commit.version):
                break
            self._publish(commit)
            last, published = commit.version, published + 1
            if published % _PUBLISHED_TOGETHER == 0:
                self.commits.published(last)
        if published:
            self.commits.published(last)
            self._ask()
        return published

    def publish_behind(self, version: int) -> None:
        """Publish after a commit of a version, unless others have committed since, who do it: of several writers the
        last one publishes, or whoever finds that it has become much.
        """
        state = self._ask()
        if state.latest <= version or len(state.commits) >= _UNPUBLISHED_MAX:
            self.publish()

    def _publish(self, commit: RatifiedCommit) -> None:
        key = commit_key(commit.version)
        try:
            data = self.inner.get(f"{STAGED_FOLDER}/{commit.file}")
        except FileNotFoundError as error:
            if self.inner.head(key) is None:
                detail = f"the catalog has ratified {commit.file}, which does not exist"
                raise CommitEntryError(table=self.url, file=commit_name(commit.version), detail=detail) from error
        else:
            if not create(self.inner, key, data) and self.inner.get(key) != data:
                detail = f"the catalog has ratified {commit.file}, and the log has another commit of that version"
                raise CommitEntryError(table=self.url, file=commit_name(commit.version), detail=detail)

    def _publish_for(self, key: str) -> None:
        file = _log_file(key)
        if file is not None and file.kind in _OF_PUBLISHED:
            self.before_describing(file.end_version)
        elif file is not None:
            self._check_describable(file.end_version)

    # --- what the catalog knows

    def _ask(self) -> Ratified:
        return self._know(self.commits.ratified())

    def _know(self, state: Ratified) -> Ratified:
        if state.latest < self._known[0].latest:
            self._staged.drop(lambda version: version > state.latest)
        for commit in state.commits:
            self._staged.put(commit.version, commit)
        self._known[0] = state
        return state

    def _as_staged(self, info: FileInfo) -> FileInfo:
        """A published commit with the identity that it had when it was staged: what was read of it is still valid."""
        version = _commit_version(info.key)
        commit = None if version is None else self._staged.get(version)
        if commit is None or commit.size_bytes != info.size_bytes:
            return info
        return FileInfo(info.key, info.size_bytes, info.modified_ms, commit.file)

    def _commit(self, version: int) -> RatifiedCommit | None:
        """A commit that is not known to be published."""
        commits = self._known[0].commits
        if not commits or not commits[0].version <= version <= commits[-1].version:
            return None
        return commits[version - commits[0].version]


def _info(commit: RatifiedCommit) -> FileInfo:
    return FileInfo(commit_key(commit.version), commit.size_bytes, commit.modified_ms, commit.file)


def _log_file(key: str) -> LogFile | None:
    folder, _, name = key.rpartition("/")
    return parse_name(name) if folder == LOG_FOLDER else None


def _commit_version(key: str) -> int | None:
    file = _log_file(key)
    return file.version if file is not None and file.kind is Kind.COMMIT else None


def _newest_version(key: str) -> int:
    """The newest version that a file of the log is about; -1 for other files."""
    file = _log_file(key)
    return -1 if file is None else file.end_version
