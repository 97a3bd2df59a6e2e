"""Rows that wait: sorted into units, until all rows are there, or to be read several times. They wait in memory, and
beyond a limit in a temporary file.

Knows nothing of Delta.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from itertools import pairwise
from threading import Lock
from types import TracebackType

import pyarrow as pa

from tahoe.table.arrow.chunks import joined_table

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Rows of units, which are numbered from 0. Threads may add rows at the same time, and later take units."""

    def __init__(self, units: int, memory_bytes: int) -> None:
        """
        Args:
            memory_bytes: more rows are not kept in memory.
        """
        self._waiting: list[list[pa.Table]] = [[] for _ in range(units)]
        self._stored: list[list[tuple[int, int]]] = [[] for _ in range(units)]  # offsets and lengths in the file
        self._memory_bytes = memory_bytes
        self._size = 0
        self._file = tempfile.TemporaryFile(prefix="tahoe-")  # noqa: SIM115  closed with the spool
        self._lock = Lock()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, rows: pa.Table, starts: Sequence[int]) -> None:
        """Add rows that are sorted by unit.

        Args:
            starts: for each unit the number of its first row, and the number of rows.
        """
        pieces = [(unit, rows.slice(first, stop - first)) for unit, (first, stop) in enumerate(pairwise(starts))]
        with self._lock:
            for unit, piece in pieces:
                if piece.num_rows:
                    self._waiting[unit].append(piece)
            self._size += rows.nbytes
            if self._size > self._memory_bytes:
                self._store()

    def _store(self) -> None:
        """Write the waiting rows to the file, unit by unit, so that memory is free and each unit can be read alone."""
        for unit, pieces in enumerate(self._waiting):
            if pieces:
                content = _encoded(pieces)
                self._stored[unit].append((self._file.tell(), content.size))
                self._file.write(content)
        self._file.flush()
        self._waiting = [[] for _ in self._waiting]
        self._size = 0

    def take(self, unit: int) -> pa.Table | None:
        """Remove and return the rows of a unit; None if it has none."""
        stored, self._stored[unit] = self._stored[unit], []
        waiting, self._waiting[unit] = self._waiting[unit], []
        tables = [_decoded(self._file.fileno(), *place) for place in stored]
        return pa.concat_tables([*tables, *waiting]) if stored or waiting else None


class Pages:
    """Rows that are read several times, in the order in which they were added, a page at a time.

    Args:
        page_bytes: the size of a page. One is in memory, the others are in the temporary file.
    """

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._last: list[pa.Table] = []
        self._stored: list[tuple[int, int]] = []  # offsets and lengths in the file
        self._file = tempfile.TemporaryFile(prefix="tahoe-")  # noqa: SIM115  closed with the pages
        weakref.finalize(self, self._file.close)

    def add(self, rows: pa.Table) -> None:
        self._last.append(rows)
        if sum(table.nbytes for table in self._last) > self._page_bytes:
            content = _encoded(self._last)
            self._stored.append((self._file.tell(), content.size))
            self._file.write(content)
            self._last = []

    def __iter__(self) -> Iterator[pa.Table]:
        self._file.flush()
        for place in self._stored:
            yield _decoded(self._file.fileno(), *place)
        yield from self._last


def _encoded(pieces: Sequence[pa.Table]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pieces[0].schema, options=_COMPRESSED) as writer:
        writer.write_table(joined_table(pieces))
    return sink.getvalue()


def _decoded(file: int, offset: int, length: int) -> pa.Table:
    return pa.ipc.open_stream(os.pread(file, length, offset)).read_all()
