"""A file object that fetches only the ranges that are read, through a function that the caller provides."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


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
        data = self._read_range(self._position, length) if length else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not self.closed and self._when_closed is not None:
            self._when_closed()
        super().close()
