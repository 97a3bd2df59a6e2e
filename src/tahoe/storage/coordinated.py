"""A store in which a commit service decides who commits, for storages without atomic creates.

It knows the names of commits, but not their content. The algorithm is that of the reference's BaseExternalLogStore, so
that both can write the same table: the content is written to a temporary file, the service accepts one entry per
version, and the content is copied to the commit's own name. The entry decides: once it exists, any reader or writer
that finds it finishes the commit.

Other files are written directly. If the storage has no conditional put, creating them is a check followed by a write,
and another writer may write in between. That is good enough only for files that every writer would write alike, such as
version checksums.
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
    ConditionalCreateIgnoredError,
    DeltaStorageError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.errors.root import cause_text
from tahoe.protocol.log.log_files import LOG_FOLDER, Kind, commit_key, parse_name
from tahoe.storage.commit_service import CommitEntry, CommitService
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import FileInfo, Store
from tahoe.storage.schemes import S3_SCHEMES

T = TypeVar("T")


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedStore(DelegatingStore):
    """A `Store` over another one, with a commit service.

    Args:
        inner: the store with the files.
        service: the commit service, which must be the same for all writers of the table.
        new_id: returns a new UUID for temporary names.
    """

    inner: Store
    service: CommitService
    new_id: Callable[[], str] = _new_id

    @property
    def _table(self) -> str:
        """The service's key for the table, always with Hadoop's scheme s3a for S3."""
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
        return self.inner.head(key) if found is None and self._finish_if_entered(key) else found

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        return self._read(key, lambda: self.inner.open(key, known))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        version = _version(key)
        return self._create(key, data) if version is None else self._commit(version, data)

    # --- committing

    def _commit(self, version: int, data: bytes) -> bool:
        """Put a commit through the commit service; returns whether this writer owns the version. The content is stored
        before the claim, so that any reader can finish a commit whose writer has stopped.
        """
        key = commit_key(version)
        if self.inner.head(key) is not None:
            return False
        if version:  # readers finish only the newest entry, so the one before must be finished now
            self._finish_if_entered(commit_key(version - 1))
        file = _file(key)
        entry = CommitEntry(table=self._table, file=file, temporary=f".tmp/{file}.{self.new_id()}")
        self.inner.put(_temporary_key(entry), data)
        if self.service.claim(entry):
            return self._land(entry, data)
        self._discard(entry)
        self._show_winner(key)
        return False

    def _land(self, entry: CommitEntry, data: bytes) -> bool:
        """Copy our commit to its name. If the file exists with other content, a writer without the service wrote it,
        and it stays.
        """
        key = _key(entry)
        try:
            ours = self._create(key, data) or self.inner.get(key) == data
        except (
            StorageRefusedError
        ) as error:  # the entry exists, so another reader or writer will finish the commit: it is not refused
            raise StorageUnavailableError(
                table=self.url, operation=f"complete the commit {key}", detail=cause_text(error)
            ) from error
        self._acknowledge(entry)
        return ours

    def _show_winner(self, key: str) -> None:
        """Make sure that the commit that won our version can be read."""
        self._finish_if_entered(key)
        if self.inner.head(key) is None:
            detail = "the entry is complete, but the file does not exist"
            raise CommitEntryError(table=self.url, file=_file(key), detail=detail)

    def _create(self, key: str, data: bytes) -> bool:
        return create(self.inner, key, data)

    # --- finishing commits

    def _read(self, key: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError:
            if not self._finish_if_entered(key):
                raise
            return read()

    def _finish_if_entered(self, key: str) -> bool:
        """Finish a commit if it has an entry; returns whether it has one."""
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
        """Finish a commit. Several processes may do so at once, because they write the same content. Each deletes the
        temporary file.
        """
        key = _key(entry)
        if entry.is_complete:
            return
        self._check(entry)
        if self.inner.head(key) is None:
            try:
                data = self.inner.get(_temporary_key(entry))
            except FileNotFoundError as error:
                if self.inner.head(key) is None:
                    detail = f"the entry is not complete, and neither the file nor {entry.temporary} exists"
                    raise CommitEntryError(table=self.url, file=entry.file, detail=detail) from error
            else:
                self._create(key, data)
        self._acknowledge(entry)

    def _check(self, entry: CommitEntry) -> None:
        """Check an untrusted entry, because its temporary file becomes a commit and is then deleted."""
        if _version(_key(entry)) is None:
            raise CommitEntryError(table=self.url, file=entry.file, detail="this is not the name of a commit file")
        if any(segment in ("", ".", "..") for segment in entry.temporary.split("/")):
            raise CommitEntryError(
                table=self.url, file=entry.file, detail=f"its temporary file {entry.temporary!r} is outside the log"
            )

    def _acknowledge(self, entry: CommitEntry) -> None:
        """Mark the entry as complete. If that fails, the next reader does it, because the commit is in the log."""
        with suppress(DeltaStorageError):
            self.service.complete(entry)
            self._discard(entry)

    def _discard(self, entry: CommitEntry) -> None:
        with suppress(DeltaStorageError):
            self.inner.delete(_temporary_key(entry))


def create(store: Store, key: str, data: bytes) -> bool:
    """Create a file if it does not exist, as atomically as the storage can. The check is for storages that ignore the
    condition.
    """
    if store.head(key) is not None:
        return False
    try:
        return store.put_if_absent(key, data)
    except (AtomicCreateUnsupportedError, ConditionalCreateIgnoredError):
        store.put(key, data)
        return True


def _version(key: str) -> int | None:
    """The version of a commit's key; None for other files."""
    folder, _, name = key.rpartition("/")
    found = parse_name(name) if folder == LOG_FOLDER else None
    return found.version if found is not None and found.kind is Kind.COMMIT else None


def _file(key: str) -> str:
    return key.removeprefix(f"{LOG_FOLDER}/")


def _key(entry: CommitEntry) -> str:
    return f"{LOG_FOLDER}/{entry.file}"


def _temporary_key(entry: CommitEntry) -> str:
    return f"{LOG_FOLDER}/{entry.temporary}"
