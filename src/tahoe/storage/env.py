"""The contract between tahoe and the world outside: one folder of some storage, a clock, ids, sleep and chance.

It knows no storage and nothing of Delta; every store keeps what is promised here, and one suite of tests holds all of them to it. The
protocol asks for two things in "Creation of New Log Entries" and "Delta Log Entries": that a file can be created only where there is none,
and that files can be listed in order.

A *url* is an unescaped `scheme://authority/path` without a trailing slash, as Hadoop's Path prints it: `file:///tmp/a b`. A *key* is a path
below the url with `/` between its segments, unescaped as well, and is the name in the storage character by character. No segment is empty,
`.` or `..`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, TypeAlias

Identity: TypeAlias = tuple[int, str]
"""The size of a file in bytes, and its ETag; where there is none, the time of modification. S3 tells that time in whole seconds here and in
milliseconds there."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as a listing shows it.

    Attributes:
        modified_ms: by the storage's own clock, in milliseconds since 1970.
        etag: another one for other content under the same key, where the storage has such a tag; else empty.
    """

    key: str
    size_bytes: int
    modified_ms: int
    etag: str = ""

    @property
    def identity(self) -> Identity:
        """What differs once the file was replaced, or deleted and made again. Listings and `head` agree on it."""
        return self.size_bytes, self.etag or str(self.modified_ms)


class FileReplacedError(OSError):
    """A file that is read piece by piece is another one by now. What was read of it is worth nothing."""


class Store(Protocol):
    """One folder of a storage. Safe to use from several threads; pickled, it is opened anew where it arrives.

    What is written is there in full or not at all: no reader ever sees a part of it. After `put_if_absent` or `put` has returned, every
    `get`, `head` and listing that starts later sees the file, in whatever process, and it outlives a loss of power.

    Raises, besides what the methods name:
        StorageUnavailableError: the storage cannot be reached or fails. After a write that means *unknown*: it may have landed.
        StorageRefusedError: the storage will not do it; nothing was written.
    """

    @property
    def url(self) -> str:
        """Where the folder is."""

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        """The files directly in the folder `prefix` ("" for the store's own) whose keys come after the key `start_after`.

        They come in byte order of their keys, unfinished writes (see `is_temporary`) left out. A folder that does not exist has no files.
        """

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below the folder `prefix`, at any depth, in byte order of their keys; unfinished writes are among them."""

    def get(self, key: str) -> bytes:
        """The whole content.

        Raises:
            FileNotFoundError: no such key.
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; fewer where the file ends before.

        Raises:
            FileNotFoundError: no such key.
        """

    def head(self, key: str) -> FileInfo | None:
        """Size and time of one file, or None where there is none."""

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        """The content as a seekable file, of which only what is read is fetched. It is not safe to share between threads.

        Args:
            known: what `head` said of the file, which must still be that one. It saves asking again.

        Raises:
            FileNotFoundError: no such key.
            FileReplacedError: now, or while it is read: the file is not the one that is known, or that was opened. Every read is of one
                and the same content.
        """

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create the file unless there is one. Of any number of callers, in any process, at most one is told True.

        Returns:
            True: we created it. False: it was there when the storage looked. A storage that repeats a request over a bad network may have
            met this very write there; whoever must know compares the bytes.

        Raises:
            StorageUnavailableError: nobody knows. It may be there now, or later, or never: read back before anything is decided.
            StorageRefusedError: it was not created by us, and will not be.
        """

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        """Write the file, in place of the one that may be there. Readers see the old content or the new one.

        Args:
            data: the content, or an open file whose rest is the content, for what is too large to be held.
        """

    def delete(self, key: str) -> None:
        """Afterwards the key is gone; one that was not there is no error."""


class Watch:
    """Is told of commits by the code that makes them, in the thread that does. This one lets all of them go ahead."""

    def before_put(self) -> None:
        """A commit is about to be put; each time that it is tried.

        Raises:
            DeltaError: it is not wanted any more. Nothing is put then.
        """

    def committed(self, url: str, version: int) -> None:
        """A version of a table was made. It must not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """All that the table ring knows of the outside. Replace a field, and the same code runs in a simulation.

    Attributes:
        store: the table's folder.
        clock_ms: milliseconds since 1970.
        new_id: a UUID that nobody else has.
        sleep: waits for seconds.
        random: a number from 0 up to 1.
        store_at: opens another folder by its url, with the same credentials.
        background: does some work later, one after the other, without its caller waiting; what it raises is lost.
        watch: is told of commits, and may stop them.
    """

    store: Store
    clock_ms: Callable[[], int]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    store_at: Callable[[str], Store]
    background: Callable[[Callable[[], None]], None]
    watch: Watch = field(default_factory=Watch)


def byte_order(key: str) -> bytes:
    """What listings are sorted by. It differs from the order of texts only for names that are no UTF-8."""
    return key.encode("utf-8", "surrogateescape")


TEMPORARY_SUFFIX = ".tmp"


def is_temporary(key: str) -> bool:
    """Whether a key is a write that was not finished: `.<anything>.tmp`, which is how we and other writers name them."""
    name = key.rpartition("/")[2]
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)
