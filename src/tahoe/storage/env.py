"""The outside world as `table/` sees it: storage, clock, ids, chance and sleep. It knows nothing of Delta.

Urls are unescaped `scheme://authority/path` texts; a key is a path below a store's url, with `/` between its parts, and is the storage's own
name, character for character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file as a listing shows it: its key, size, and time of last change since the epoch."""

    key: str
    size_bytes: int
    modified_ms: int


class Store(Protocol):
    """One folder of some storage.

    A missing key raises the builtin `FileNotFoundError`, from every call but `head` and `delete`. What the storage refuses raises
    `StorageUnavailableError`.
    """

    @property
    def url(self) -> str:
        """Where the folder is, without a slash at the end."""

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        """The files directly in folder `prefix` whose keys are greater than `start_after`, ordered by the UTF-8 bytes of their keys.

        A file that was there before the call began is listed. A folder that does not exist is empty.
        """

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`, at any depth, in the order of their keys."""

    def get(self, key: str) -> bytes:
        """All of a file: never a part of what somebody is still writing."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length` of a file; fewer where it ends before."""

    def head(self, key: str) -> FileInfo | None:
        """What a listing would say of a file, or None where there is none."""

    def open(self, key: str) -> BinaryIO:
        """The file for reading at any position."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create a file unless there is one. Of many that try, exactly one is told True; nobody ever sees a part of it.

        Returns:
            True: this call created it, and it survives a crash from now on. False: the storage says that it is there.

        Raises:
            Exception: anything means that it is unknown whether the file was created: read it back.
        """

    def put(self, key: str, data: bytes) -> None:
        """Create or replace a file, in one step for whoever reads it."""

    def delete(self, key: str) -> None:
        """Remove a file; one that is not there is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """All that a table needs of the outside, so that a test or a simulator can be all of it.

    Attributes:
        store: the table's folder.
        clock_ms: milliseconds since the epoch.
        new_id: a UUID, as text.
        sleep: waits some seconds.
        random: a number from 0 up to, but not including, 1.
        store_at: another folder by its url, for files outside the table.
    """

    store: Store
    clock_ms: Callable[[], int]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    store_at: Callable[[str], Store]
