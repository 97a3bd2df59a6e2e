"""A store whose commits are decided by a commit service, for storages that cannot create a file only where there is none.

Of Delta it knows the names of commits, and nothing of what is in them. The algorithm is that of the reference's BaseExternalLogStore, so
that its writers and ours can share a table: the bytes are written under a temporary name, the service gives the version to one entry, and
the bytes are copied to the commit's own name. The entry is what decides: from then on any reader or writer that meets it finishes the
commit.

Other files go to the storage as they are. Where it cannot create conditionally, creating them is a look and a write, between which another
writer may do the same: good enough for what every writer would write alike, such as a version checksum, and for nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from tahoe.errors import (
    AtomicCreateUnsupportedError,
    CommitEntryError,
    DeltaStorageError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.protocol.log_files import LOG_FOLDER, Kind, commit_key, parse_name
from tahoe.storage.commit_service import CommitEntry, CommitService
from tahoe.storage.env import FileInfo, Store
from tahoe.storage.locations import S3_SCHEMES

T = TypeVar("T")


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedStore:
    """A `Store` over another one, in which a service decides who commits.

    Args:
        inner: holds the files. All writers of the table must use the same service.
        new_id: a UUID that nobody else has; temporary names are made of it.
    """

    inner: Store
    service: CommitService
    new_id: Callable[[], str] = _new_id

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def _table(self) -> str:
        """What the service calls the table: S3 by the scheme that Hadoop knows it by, however it was typed."""
        scheme, separator, rest = self.url.partition("://")
        return f"s3a{separator}{rest}" if scheme in S3_SCHEMES else self.url

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        if prefix == LOG_FOLDER:
            self._finish_newest()
        return self.inner.list_from(prefix, start_after)

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        if prefix in ("", LOG_FOLDER):
            self._finish_newest()
        return self.inner.walk(prefix)

    def get(self, key: str) -> bytes:
        return self._read(key, lambda: self.inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(key, lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> FileInfo | None:
        found = self.inner.head(key)
        return self.inner.head(key) if found is None and self._was_entered(key) else found

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        return self._read(key, lambda: self.inner.open(key, known))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        version = _version(key)
        return self._create(key, data) if version is None else self._commit(version, data)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self.inner.put(key, data)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    # --- committing

    def _commit(self, version: int, data: bytes) -> bool:
        key = commit_key(version)
        if self.inner.head(key) is not None:
            return False
        if version:  # only the newest entry is looked at later: the one before must not be left behind
            self._was_entered(commit_key(version - 1))
        file = _file(key)
        entry = CommitEntry(table=self._table, file=file, temporary=f".tmp/{file}.{self.new_id()}")
        self.inner.put(_temporary_key(entry), data)
        if self.service.claim(entry):
            return self._land(entry, data)
        self._discard(entry)
        self._show_winner(key)
        return False

    def _land(self, entry: CommitEntry, data: bytes) -> bool:
        """Give our commit its name. Another's bytes under it are those of a writer that does not use the service, and they stay."""
        key = _key(entry)
        try:
            ours = self._create(key, data) or self.inner.get(key) == data
        except StorageRefusedError as error:  # what has an entry will be finished by somebody: it is refused no more
            raise StorageUnavailableError(table=self.url, operation=f"finish {key}", detail=str(error)) from error
        self._acknowledge(entry)
        return ours

    def _show_winner(self, key: str) -> None:
        """Make sure that the commit that took our version can be read."""
        self._was_entered(key)
        if self.inner.head(key) is None:
            detail = "the entry is complete, and the file is not there"
            raise CommitEntryError(table=self.url, file=_file(key), detail=detail)

    def _create(self, key: str, data: bytes) -> bool:
        """Create a file only where there is none, as well as the storage can. The look is for those that ignore the condition."""
        if self.inner.head(key) is not None:
            return False
        try:
            return self.inner.put_if_absent(key, data)
        except AtomicCreateUnsupportedError:
            self.inner.put(key, data)
            return True

    # --- finishing what anybody has entered

    def _read(self, key: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError:
            if not self._was_entered(key):
                raise
            return read()

    def _was_entered(self, key: str) -> bool:
        """Whether a key is that of a commit with an entry, which is finished then."""
        entry = None if _version(key) is None else self.service.find(self._table, _file(key))
        if entry is None:
            return False
        self._finish(entry)
        return True

    def _finish_newest(self) -> None:
        entry = self.service.newest(self._table)
        if entry is not None:
            self._finish(entry)

    def _finish(self, entry: CommitEntry) -> None:
        """Several may do this at once: they all write the same bytes. Whoever is done takes the temporary file away."""
        key = _key(entry)
        if entry.is_complete:
            return
        self._check(entry)
        if self.inner.head(key) is None:
            try:
                data = self.inner.get(_temporary_key(entry))
            except FileNotFoundError as error:
                if self.inner.head(key) is None:
                    detail = f"the entry is not complete, and neither the file nor {entry.temporary} is there"
                    raise CommitEntryError(table=self.url, file=entry.file, detail=detail) from error
            else:
                self._create(key, data)
        self._acknowledge(entry)

    def _check(self, entry: CommitEntry) -> None:
        """Anybody may have made the entry: what it names becomes a commit, and is deleted."""
        if _version(_key(entry)) is None:
            raise CommitEntryError(table=self.url, file=entry.file, detail="that is no name of a commit")
        if any(segment in ("", ".", "..") for segment in entry.temporary.split("/")):
            raise CommitEntryError(table=self.url, file=entry.file, detail=f"its bytes cannot be at {entry.temporary!r}, out of the log")

    def _acknowledge(self, entry: CommitEntry) -> None:
        """The commit is in the log: what fails here is done by the next reader."""
        with suppress(DeltaStorageError):
            self.service.complete(entry)
            self._discard(entry)

    def _discard(self, entry: CommitEntry) -> None:
        with suppress(DeltaStorageError):
            self.inner.delete(_temporary_key(entry))


def _version(key: str) -> int | None:
    """The version of a commit by its key; None for every other file."""
    folder, _, name = key.rpartition("/")
    found = parse_name(name) if folder == LOG_FOLDER else None
    return found.version if found is not None and found.kind is Kind.COMMIT else None


def _file(key: str) -> str:
    return key.removeprefix(f"{LOG_FOLDER}/")


def _key(entry: CommitEntry) -> str:
    return f"{LOG_FOLDER}/{entry.file}"


def _temporary_key(entry: CommitEntry) -> str:
    return f"{LOG_FOLDER}/{entry.temporary}"
