"""A store in memory, for tests and trials, that can be told to fail.

Stores of one url share their files within a process.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeAlias

from tahoe.storage.env import FileInfo

Fault: TypeAlias = Callable[[str, str], None]
"""Called with the operation's name and the key, before the operation; raises to make it fail."""

_FOLDERS: dict[str, dict[str, tuple[bytes, int]]] = {}
_LOCK = threading.RLock()


class MemoryStore:
    """See `Store`.

    Attributes:
        before, after: hooks called around each operation with its name and key; what they raise is what the caller gets. `after` raises when the
            operation has been done, which is how an ambiguous put looks.
        refuse: keys for which `put_if_absent` answers False although nothing is there.
        hidden: keys that listings do not show yet.
        calls: how often each operation was called.
    """

    def __init__(self, url: str, clock_ms: Callable[[], int] | None = None) -> None:
        self.url = url.rstrip("/")
        self.before: Fault = _nothing
        self.after: Fault = _nothing
        self.refuse: set[str] = set()
        self.hidden: set[str] = set()
        self.calls: Counter[str] = Counter()
        self._clock_ms = clock_ms
        self._files = _FOLDERS.setdefault(self.url, {})

    def _enter(self, operation: str, key: str) -> None:
        self.calls[operation] += 1
        self.before(operation, key)

    def _stamp(self) -> int:
        return self._clock_ms() if self._clock_ms is not None else 1 + max((modified for _, modified in self._files.values()), default=0)

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        folder = f"{prefix}/" if prefix else ""
        return (info for info in self.walk(prefix) if "/" not in info.key[len(folder) :] and info.key.encode() > start_after.encode())

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        self._enter("list", prefix)
        folder = f"{prefix}/" if prefix else ""
        with _LOCK:
            names = sorted((key for key in self._files if key.startswith(folder) and key not in self.hidden), key=str.encode)
            found = [self._info(key) for key in names]
        self.after("list", prefix)
        return iter(found)

    def _info(self, key: str) -> FileInfo:
        data, modified_ms = self._files[key]
        return FileInfo(key=key, size_bytes=len(data), modified_ms=modified_ms)

    def get(self, key: str) -> bytes:
        self._enter("get", key)
        with _LOCK:
            if key not in self._files:
                raise FileNotFoundError(f"{self.url}/{key}")
            data = self._files[key][0]
        self.after("get", key)
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def head(self, key: str) -> FileInfo | None:
        self._enter("head", key)
        with _LOCK:
            return self._info(key) if key in self._files else None

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self.get(key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._enter("put", key)
        with _LOCK:
            created = key not in self._files and key not in self.refuse
            if created:
                self._files[key] = (bytes(data), self._stamp())
        self.after("put", key)
        return created

    def put(self, key: str, data: bytes) -> None:
        self._enter("put", key)
        with _LOCK:
            self._files[key] = (bytes(data), self._stamp())
        self.after("put", key)

    def delete(self, key: str) -> None:
        self._enter("delete", key)
        with _LOCK:
            self._files.pop(key, None)
        self.after("delete", key)


def _nothing(operation: str, key: str) -> None:
    pass
