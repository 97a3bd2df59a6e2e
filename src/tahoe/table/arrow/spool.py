"""Rows that wait, sorted into units, until all rows are there: in memory, and beyond a limit in a temporary file.

Knows nothing of Delta.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
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
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, pieces[0].schema, options=_COMPRESSED) as writer:
                    writer.write_table(joined_table(pieces))
                content = sink.getvalue()
                self._stored[unit].append((self._file.tell(), content.size))
                self._file.write(content)
        self._file.flush()
        self._waiting = [[] for _ in self._waiting]
        self._size = 0

    def take(self, unit: int) -> pa.Table | None:
        """Remove and return the rows of a unit; None if it has none."""
        stored, self._stored[unit] = self._stored[unit], []
        waiting, self._waiting[unit] = self._waiting[unit], []
        tables = [
            pa.ipc.open_stream(os.pread(self._file.fileno(), length, offset)).read_all() for offset, length in stored
        ]
        return pa.concat_tables([*tables, *waiting]) if stored or waiting else None
