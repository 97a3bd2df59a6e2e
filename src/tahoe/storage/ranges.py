"""A file object that fetches only the ranges that are read, through a function that the caller provides."""

from __future__ import annotations

import atexit
import io
import os
import threading
import time
from collections.abc import Callable
from typing import Any

# Arrow reads ahead in threads of its own, and does not wait for them when a file is closed. One that comes back to
# Python while the interpreter is shut down ends the process by SIGABRT. So the end of a program waits until they have
# been idle for so long, but not for a storage that does not answer.
_IDLE_SECONDS, _WAIT_SECONDS_MAX = 0.03, 5.0


class _Reads:
    """The reads of this process that are at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._ended_at = float("-inf")

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            self._ended_at = time.monotonic()

    def wait(self) -> None:
        """Wait until none is at work, and the last ended a moment ago."""
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            with self._lock:
                if not self._count and time.monotonic() - self._ended_at > _IDLE_SECONDS:
                    return
            time.sleep(_IDLE_SECONDS / 3)


_reads = _Reads()


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    global _reads
    _reads = _Reads()


def _wait_for_reads() -> None:
    _reads.wait()


os.register_at_fork(after_in_child=_forget)
atexit.register(_wait_for_reads)


class RangeFile(io.RawIOBase):
    """A file that turns each read into one request for exactly these bytes, because Parquet readers request exact
    ranges.

    Args:
        read_range: reads at most a number of bytes from an offset.
        when_closed: called once, when the file is closed.
    """

    def __init__(
        self, size_bytes: int, read_range: Callable[[int, int], bytes], when_closed: Callable[[], object] | None = None
    ) -> None:
        self._size_bytes = size_bytes
        self._read_range = read_range
        self._when_closed = when_closed
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size_bytes - self._position, 0)
        length = left if size is None or size < 0 else min(size, left)
        with _reads:
            data = self._read_range(self._position, length) if length else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not self.closed and self._when_closed is not None:
            self._when_closed()
        super().close()
