"""Notes which commits of this thread have added files with new rows or deleted rows by vectors, for what follows a
write: auto compaction.

The notes are kept only inside `noted`, so that a commit costs nothing where nobody asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiles:
    """A commit that changed rows.

    Attributes:
        base: the snapshot that the writer began with; None if there was no table.
        properties: the table's, after the commit.
        paths: the added files with new rows, as in the log.
        marked: the files of which it deleted rows by deletion vectors.
        is_blind_append: whether the commit only added files, and read nothing of the table.
    """

    log: Log
    base: Snapshot | None
    version: int
    properties: Mapping[str, str]
    paths: frozenset[str]
    marked: frozenset[str] = frozenset()
    is_blind_append: bool


class _Here(threading.local):
    found: list[NewFiles] | None = None


_here = _Here()


@contextmanager
def noted() -> Iterator[list[NewFiles]]:
    """Collect the commits of this thread while the block runs. A block inside it collects its own."""
    before, found = _here.found, list[NewFiles]()
    _here.found = found
    try:
        yield found
    finally:
        _here.found = before


def is_noting() -> bool:
    """Whether a block of this thread collects commits."""
    return _here.found is not None


def note(new: NewFiles) -> None:
    if _here.found is not None:
        _here.found.append(new)
