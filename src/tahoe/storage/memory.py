"""Stores in the memory of this process, with fault injection.

All stores of a process whose url has the same name (`memory://name/...`) share their content. A pickled store can be
opened only in the same process. Faults and counters belong to one store object, so give each writer its own. Commit
services in memory are shared by name too.
"""

from __future__ import annotations

import errno
import io
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any, BinaryIO

from tahoe.errors import DeltaStorageError, StorageUnavailableError
from tahoe.storage.commit_service import CommitEntry
from tahoe.storage.env import (
    Fetched,
    FileInfo,
    FileReplacedError,
    Store,
    Tree,
    byte_order,
    copy_through,
    is_temporary,
    tree_of,
)
from tahoe.storage.locations import join, normalise, split_url


class Operation(Enum):
    """The operations of a store, by the names of its methods."""

    LIST = "list_from"
    WALK = "walk"
    TREE = "tree"
    GET = "get"
    GET_RANGE = "get_range"
    FETCH = "fetch"
    HEAD = "head"
    OPEN = "open"
    PUT_IF_ABSENT = "put_if_absent"
    PUT = "put"
    DELETE = "delete"
    DELETE_MANY = "delete_many"


class Effect(Enum):
    """What a fault does to a call."""

    RAISE_BEFORE = "the call has no effect and raises an error"
    RAISE_AFTER = "the call takes effect but raises an error: a write whose response was lost"
    ANSWER_FALSE = "put_if_absent writes nothing and returns False: a conflict without a winner"
    HIDE = "a listing leaves the key out: a new file that is not visible yet"


_LISTINGS = (Operation.LIST, Operation.WALK, Operation.TREE)
_ALLOWED: Mapping[Effect, tuple[Operation, ...]] = {
    Effect.RAISE_BEFORE: tuple(Operation),
    Effect.RAISE_AFTER: tuple(Operation),
    Effect.ANSWER_FALSE: (Operation.PUT_IF_ABSENT,),
    Effect.HIDE: _LISTINGS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One injected fault.

    Attributes:
        key: a glob (`*`, `?`) for keys; for listings that raise, for the listed folder; for HIDE, for the keys in the
            listing.
        nth: the first matching call that it affects, counted from 1.
        times: the number of consecutive calls that it affects.
        error: the error to raise; None for a StorageUnavailableError.
    """

    effect: Effect
    operation: Operation
    key: str = "*"
    nth: int = 1
    times: int = 1
    error: BaseException | None = None

    def __post_init__(self) -> None:
        assert self.operation in _ALLOWED[self.effect], f"{self.effect.name} means nothing for {self.operation.name}"


class FaultPlan:
    """The faults of one store. Each fault counts the calls that it matches."""

    def __init__(self, *faults: Fault) -> None:
        self._lock = Lock()
        self._calls = [_Counted(fault) for fault in faults]

    def add(self, fault: Fault) -> None:
        """Add a fault, which counts calls from now on."""
        with self._lock:
            self._calls.append(_Counted(fault))

    def due(self, operation: Operation, key: str) -> list[Fault]:
        """The faults that affect a call, in the order in which they were added. Counts the call."""
        with self._lock:
            return [counted.fault for counted in self._calls if counted.meets(operation, key)]


@dataclass(slots=True)
class _Counted:
    fault: Fault
    calls: int = 0

    def meets(self, operation: Operation, key: str) -> bool:
        if operation is not self.fault.operation or not (
            self.fault.effect is Effect.HIDE or fnmatchcase(key, self.fault.key)
        ):
            return False
        self.calls += 1
        return self.fault.nth <= self.calls < self.fault.nth + self.fault.times


@dataclass(slots=True)
class _Content:
    """The files of one store name: content and modification time."""

    lock: Lock = field(default_factory=Lock)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)


_contents: dict[str, _Content] = {}


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """A `Store` in memory.

    Args:
        url: `memory://name`, optionally with a path.
        faults: the injected faults.
        clock_ms: the clock for modification times.

    Attributes:
        calls: the number of calls of each operation, including those with faults.
    """

    def __init__(
        self, url: str, faults: FaultPlan | None = None, clock_ms: Callable[[], int] = _system_clock_ms
    ) -> None:
        _, name, path = split_url(normalise(url))
        self.url = normalise(url)
        self.faults = faults or FaultPlan()
        self.calls: Counter[Operation] = Counter()
        self._clock_ms = clock_ms
        self._above = f"{path}/" if path else ""
        self._content = _contents.setdefault(name, _Content())

    def __repr__(self) -> str:
        return f"MemoryStore({self.url!r})"

    def __reduce__(self) -> Any:
        return (_reopen, (self.url, os.getpid()))

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        start, after = f"{prefix}/" if prefix else "", byte_order(start_after)
        with self._call(Operation.LIST, prefix) as due:
            found = self._below(start)
            direct = [
                f
                for f in found
                if "/" not in f.key[len(start) :] and byte_order(f.key) > after and not is_temporary(f.key)
            ]
            return _without_hidden(direct, due)

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        with self._call(Operation.WALK, prefix) as due:
            return _without_hidden(self._below(f"{prefix}/" if prefix else ""), due)

    def tree(self) -> Tree:
        with self._call(Operation.TREE, "") as due:
            return tree_of(_without_hidden(self._below(""), due))

    def get(self, key: str) -> bytes:
        with self._call(Operation.GET, key):
            return self._read(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._call(Operation.GET_RANGE, key):
            return self._read(key)[start : start + length]

    def fetch(
        self, key: str, start: int = 0, length: int | None = None, unless: FileInfo | None = None
    ) -> Fetched | None:
        """As if it were remote, so that the cache can be tried out over it."""
        with self._call(Operation.FETCH, key):
            content = self._content_of(key)
            info, end = _info(key, content), None if length is None else start + length
            same = unless is not None and unless.identity == info.identity
            return None if same else Fetched(info, content[0][start:end])

    def head(self, key: str) -> FileInfo | None:
        with self._call(Operation.HEAD, key), self._content.lock:
            found = self._content.files.get(self._above + key)
            return None if found is None else _info(key, found)

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        with self._call(Operation.OPEN, key):
            content = self._content_of(key)
            if known is not None and _info(key, content).identity != known.identity:
                raise FileReplacedError(errno.ESTALE, "the file was replaced", join(self.url, key))
            return io.BytesIO(content[0])

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._call(Operation.PUT_IF_ABSENT, key) as due:
            if any(fault.effect is Effect.ANSWER_FALSE for fault in due):
                return False
            with self._content.lock:
                if self._above + key in self._content.files:
                    return False
                self._content.files[self._above + key] = (bytes(data), self._clock_ms())
            return True

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        content = bytes(data) if isinstance(data, bytes) else data.read()
        with self._call(Operation.PUT, key), self._content.lock:
            self._content.files[self._above + key] = (content, self._clock_ms())

    def copy_from(self, source: Store, key: str, to: str) -> None:
        copy_through(source, key, self, to)

    def delete(self, key: str) -> None:
        with self._call(Operation.DELETE, key), self._content.lock:
            self._content.files.pop(self._above + key, None)

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        """One call, which deletes each file by a call of `delete`."""
        failed: dict[str, DeltaStorageError] = {}
        with self._call(Operation.DELETE_MANY, ""):
            for key in keys:
                try:
                    self.delete(key)
                except DeltaStorageError as error:
                    failed[key] = error
        return failed

    def remove_folders(self, keys: Iterable[str]) -> list[str]:  # noqa: ARG002  there are none
        return []

    # --- the steps

    @contextmanager
    def _call(self, operation: Operation, key: str) -> Iterator[list[Fault]]:
        self.calls[operation] += 1
        due = self.faults.due(operation, key)
        self._raise(Effect.RAISE_BEFORE, due, key)
        yield due
        self._raise(Effect.RAISE_AFTER, due, key)

    def _raise(self, effect: Effect, due: list[Fault], key: str) -> None:
        for fault in due:
            if fault.effect is effect:
                operation = f"{fault.operation.value} {key}"
                raise fault.error or StorageUnavailableError(
                    table=self.url, operation=operation, detail="an injected fault"
                )

    def _read(self, key: str) -> bytes:
        return self._content_of(key)[0]

    def _content_of(self, key: str) -> tuple[bytes, int]:
        with self._content.lock:
            found = self._content.files.get(self._above + key)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), join(self.url, key))
        return found

    def _below(self, start: str) -> list[FileInfo]:
        skipped = len(self._above)
        with self._content.lock:
            files = [
                (k[skipped:], content)
                for k, content in self._content.files.items()
                if k.startswith(self._above + start)
            ]
        return sorted((_info(key, content) for key, content in files), key=lambda f: byte_order(f.key))


def _info(key: str, content: tuple[bytes, int]) -> FileInfo:
    data, modified_ms = content
    return FileInfo(key, len(data), modified_ms, f"{zlib.crc32(data):08x}")


def _without_hidden(files: list[FileInfo], due: list[Fault]) -> Iterator[FileInfo]:
    hidden = [fault.key for fault in due if fault.effect is Effect.HIDE]
    return (file for file in files if not any(fnmatchcase(file.key, pattern) for pattern in hidden))


def _reopen(url: str, process: int) -> MemoryStore:
    if process != os.getpid():
        detail = "a store in the memory of one process cannot be opened in another"
        raise StorageUnavailableError(table=url, operation="open the store", detail=detail)
    return MemoryStore(url)


_entries: dict[str, dict[tuple[str, str], CommitEntry]] = {}


@dataclass(frozen=True, slots=True)
class MemoryCommitService:
    """A `CommitService` in memory, whose entries never expire."""

    name: str

    def claim(self, entry: CommitEntry) -> bool:
        return self._own.setdefault((entry.table, entry.file), entry).temporary == entry.temporary

    def find(self, table: str, file: str) -> CommitEntry | None:
        return self._own.get((table, file))

    def newest(self, table: str) -> CommitEntry | None:
        of_table = {key: entry for key, entry in self._own.copy().items() if key[0] == table}
        return of_table[max(of_table)] if of_table else None

    def complete(self, entry: CommitEntry) -> None:
        """Needs no lock: entries are never removed and nothing else in them changes, so concurrent calls do the
        same.
        """
        known = self._own.get((entry.table, entry.file))
        if known is not None and known.temporary == entry.temporary:
            self._own[entry.table, entry.file] = replace(known, is_complete=True)

    @property
    def _own(self) -> dict[tuple[str, str], CommitEntry]:
        return _entries.setdefault(self.name, {})
