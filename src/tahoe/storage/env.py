"""The interface between tahoe and its environment: a folder in a storage, a clock, ids, sleep and random numbers.

Knows no storage and nothing about Delta. Every store implements this contract, and one test suite checks all of them.
The protocol requires two things, in "Creation of New Log Entries" and "Delta Log Entries": files can be created only if
they do not exist, and they can be listed in order.

A *url* is an unescaped `scheme://authority/path` without a trailing slash, as Hadoop's Path prints it: `file:///tmp/a
b`. A *key* is an unescaped path below the url, separated by `/`, and exactly the name in the storage. No segment is
empty, `.` or `..`.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias

import msgspec

from tahoe.errors import DeltaStorageError

_logger = logging.getLogger("tahoe")

# An object store's listing comes in pieces of this size.
_BRANCH_FILES = 10_000

Identity: TypeAlias = tuple[int, str]
"""The size of a file in bytes, and its ETag; without one, its modification time. S3 returns that time sometimes in
seconds, sometimes in milliseconds."""


class FileInfo(msgspec.Struct, frozen=True, gc=False):
    """A file in a listing.

    Attributes:
        modified_ms: the storage's modification time, in milliseconds since 1970.
        etag: a tag that changes with the content; empty if the storage has none.
    """

    key: str
    size_bytes: int
    modified_ms: int
    etag: str = ""

    @property
    def identity(self) -> Identity:
        """Changes if the file is replaced, or deleted and created again. Listings and `head` return the same value."""
        return self.size_bytes, self.etag or str(self.modified_ms)


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below a folder, as columns, because there may be millions of files.

    Attributes:
        keys, sizes_bytes, modified_ms: the files, in any order, including unfinished writes.
        folders, folders_modified_ms: the folders, including empty ones; object stores have none.
    """

    keys: list[str] = field(default_factory=list)
    sizes_bytes: array[int] = field(default_factory=lambda: array("q"))
    modified_ms: array[int] = field(default_factory=lambda: array("q"))
    folders: list[str] = field(default_factory=list)
    folders_modified_ms: array[int] = field(default_factory=lambda: array("q"))

    def add(self, key: str, size_bytes: int, modified_ms: int) -> None:
        """Add a file."""
        self.keys.append(key)
        self.sizes_bytes.append(size_bytes)
        self.modified_ms.append(modified_ms)

    def add_folder(self, key: str, modified_ms: int) -> None:
        self.folders.append(key)
        self.folders_modified_ms.append(modified_ms)

    def extend(self, other: Tree) -> None:
        """Add everything in another tree."""
        self.keys.extend(other.keys)
        self.sizes_bytes.extend(other.sizes_bytes)
        self.modified_ms.extend(other.modified_ms)
        self.folders.extend(other.folders)
        self.folders_modified_ms.extend(other.folders_modified_ms)


def tree_of(files: Iterable[FileInfo]) -> Tree:
    """The tree of a store without folders."""
    tree = Tree()
    for info in files:
        tree.add(info.key, info.size_bytes, info.modified_ms)
    return tree


def branches(store: Store) -> Iterator[Tree]:
    """What `Store.tree` has, in pieces, if the store has a method of this name: a folder may have more files than fit
    into memory.
    """
    of_store: Callable[[], Iterator[Tree]] | None = getattr(store, "branches", None)
    return iter((store.tree(),)) if of_store is None else of_store()


def physical_url(store: Store) -> str:
    """Where the folder of a store is for those who do not ask the store, by its method of this name; its url if it has
    none.

    Raises:
        StorageRefusedError: the store does not tell it.
    """
    of_store: Callable[[], str] | None = getattr(store, "physical_url", None)
    return store.url if of_store is None else of_store()


def branches_of(files: Iterable[FileInfo]) -> Iterator[Tree]:
    """The files of a store without folders, in pieces."""
    source = iter(files)
    while some := list(islice(source, _BRANCH_FILES)):
        yield tree_of(some)


def is_managed(store: Store) -> bool:
    """Whether a catalog ratifies the commits of the store's table."""
    return bool(getattr(store, "is_managed", False))


def may_be_described(store: Store, version: int) -> bool:
    """Whether the log may have files about a version that was committed, such as checkpoints: not while the transaction
    over several tables that it is part of can still be undone.
    """
    asked: Callable[[int], bool] | None = getattr(store, "may_be_described", None)
    return asked is None or asked(version)


def before_describing(store: Store, version: int) -> None:
    """Called before files about a version are written, such as checkpoints: its commit must be in the log.

    Raises:
        StorageRefusedError: the version can still be undone.
    """
    told: Callable[[int], None] | None = getattr(store, "before_describing", None)
    if told is not None:
        told(version)


class FileReplacedError(OSError):
    """A file was replaced while it was read in ranges. The data read so far must be discarded."""


class Store(Protocol):
    """One folder of a storage. Thread-safe; a pickled store is opened again where it is unpickled.

    Writes are atomic: no reader ever sees partial content. After `put_if_absent` or `put` has returned, every later
    `get`, `head` and listing sees the file, in any process, and it survives a power failure.

    Raises, in addition to the errors of each method:
        StorageUnavailableError: the storage cannot be reached or fails. The outcome of a write is then *unknown*: it
            may have succeeded.
        StorageRefusedError: the storage rejected the request; nothing was written.
    """

    @property
    def url(self) -> str:
        """The url of the folder."""

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        """The files directly in the folder `prefix` ("" for the store's own) whose keys are greater than `start_after`.

        They are in byte order of their keys, without unfinished writes (see `is_temporary`). A folder that does not
        exist has no files.
        """

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        """All files below the folder `prefix`, at any depth, in byte order of their keys, including unfinished
        writes.
        """

    def tree(self) -> Tree:
        """Everything below the store's folder. File systems list several folders at once; object stores list all keys
        page by page.
        """

    def get(self, key: str) -> bytes:
        """The whole content.

        Raises:
            FileNotFoundError: no such key.
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; fewer if the file ends earlier.

        Raises:
            FileNotFoundError: no such key.
        """

    def head(self, key: str) -> FileInfo | None:
        """Size and modification time of a file; None if it does not exist."""

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        """The content as a seekable file that fetches only the ranges that are read. Not thread-safe.

        Args:
            known: the result of an earlier `head`, which saves another request. The file must not have been replaced
                since.

        Raises:
            FileNotFoundError: no such key.
            FileReplacedError: the file was replaced, noticed now or on a later read, unless the store still has the
                content from before. All reads return parts of the same content.
        """

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create the file if it does not exist. Of any number of callers, in any process, at most one gets True.

        Returns:
            True: this call created it. False: it existed. If a request was retried over a bad network, the existing
                file may be from this
            very call; callers that need to know compare the bytes.

        Raises:
            StorageUnavailableError: the outcome is unknown. The file may exist now, later or never: read it before
                deciding anything.
            StorageRefusedError: this call did not create it, and never will.
        """

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        """Write the file, replacing an existing one. Readers see either the old or the new content.

        Args:
            data: the content, or an open file with the content from its current position, for content that is too large
                for memory.
        """

    def copy_from(self, source: Store, key: str, to: str) -> None:
        """Copy a file of another folder, which may be in another storage, replacing an existing file. Readers see all
        of it or none.

        Within a bucket, the storage itself copies.

        Args:
            key: the file in `source`.
            to: the key of the copy.

        Raises:
            FileNotFoundError: no such file.
        """

    def delete(self, key: str) -> None:
        """Delete the file. A missing file is not an error."""

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        """Delete files with as few requests as possible, several at once. A missing file is not an error.

        Files may be back after a power failure.

        Returns:
            the error of each file that was not deleted, or may not have been.
        """

    def remove_folders(self, keys: Iterable[str]) -> list[str]:
        """Remove the folders that are empty, or become empty by it; all others stay. Object stores have no folders.

        Returns:
            the folders that were removed.
        """


class Fetched(NamedTuple):
    """The answer to one request.

    Attributes:
        info: the file as the storage has it now.
        data: the part of it that was asked for.
    """

    info: FileInfo
    data: bytes


class RemoteStore(Store, Protocol):
    """A store whose requests cost time, so that what was read is worth keeping (`tahoe.storage.cache`)."""

    def fetch(
        self, key: str, start: int = 0, length: int | None = None, unless: FileInfo | None = None
    ) -> Fetched | None:
        """At most `length` bytes from `start`, of one content of the file; all bytes from there if None.

        Args:
            unless: the file as it was, with its ETag; None is returned if it still has the same identity.

        Raises:
            FileNotFoundError: no such key.
        """


class Watch:
    """Callbacks around commits, called in the committing thread. This default allows all commits."""

    def begin(self, url: str) -> None:
        """Called before a table is changed, and before any of its files are written or deleted.

        Raises:
            DeltaError: the table must not be changed here.
        """

    def before_put(self) -> None:
        """Called before each attempt to write a commit.

        Raises:
            DeltaError: the commit must not be written, for example because it was cancelled.
        """

    def lost(self) -> None:
        """Called after an attempt that certainly wrote nothing, because another writer has the version. It must not
        raise.
        """

    def committed(self, url: str, version: int) -> None:
        """Called after a version of a table was committed. It must not raise."""

    def made(self, commit: Callable[[Env], int]) -> None:
        """Called after a version was committed, with what commits the same again in another environment, behind what
        that one has. It must not raise.
        """


@dataclass(frozen=True, slots=True)
class Watches(Watch):
    """Several watches, each of which is told."""

    watches: tuple[Watch, ...]

    def begin(self, url: str) -> None:
        for watch in self.watches:
            watch.begin(url)

    def before_put(self) -> None:
        for watch in self.watches:
            watch.before_put()

    def lost(self) -> None:
        for watch in self.watches:
            watch.lost()

    def committed(self, url: str, version: int) -> None:
        for watch in self.watches:
            watch.committed(url, version)

    def made(self, commit: Callable[[Env], int]) -> None:
        for watch in self.watches:
            watch.made(commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Everything the table ring can access outside itself. With other fields, the same code runs in a simulation.

    Attributes:
        store: the table's folder.
        clock_ms: the time in milliseconds since 1970.
        new_id: returns a new UUID.
        sleep: sleeps for a number of seconds.
        random: returns a number from 0 up to 1.
        store_at: opens another folder by its url, with the same credentials.
        background: runs work later and sequentially; errors are ignored. It blocks the caller only while very much work
            waits.
        watch: is notified of commits, and may prevent them.
    """

    store: Store
    clock_ms: Callable[[], int]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    store_at: Callable[[str], Store]
    background: Callable[[Callable[[], None]], None]
    watch: Watch = field(default_factory=Watch)

    def discard(self, keys: Iterable[str]) -> None:
        """Delete files that no version refers to. A file that cannot be deleted is logged and left behind: cleaning up
        hides no error.
        """
        for key in keys:
            try:
                self.store.delete(key)
            except Exception as error:
                _logger.warning(
                    "%s: cannot delete %s, so it is left behind; no version refers to it: %s",
                    self.store.url,
                    key,
                    error,
                )


def copy_through(source: Store, key: str, store: Store, to: str) -> None:
    """Copy a file from one store into another, through this process.

    Raises:
        FileNotFoundError: no such file.
    """
    with source.open(key) as content:
        store.put(to, content)


def deepest_first(folders: Iterable[str]) -> list[str]:
    """The folders in an order in which none comes before those inside it."""
    return sorted(folders, key=lambda key: key.count("/"), reverse=True)


def byte_order(key: str) -> bytes:
    """The sort key of listings. It differs from the order of strings only for names that are not UTF-8."""
    return key.encode("utf-8", "surrogateescape")


TEMPORARY_SUFFIX = ".tmp"


def is_temporary(key: str) -> bool:
    """Whether a key is an unfinished write: `.<anything>.tmp`, the naming convention of tahoe and other writers."""
    return key.endswith(TEMPORARY_SUFFIX) and key.rpartition("/")[2].startswith(".")


def is_hidden(key: str) -> bool:
    """Whether a key has a name, of the file or a folder, by which readers of Parquet folders pass over it."""
    return any(part.startswith(("_", ".")) for part in key.split("/"))
