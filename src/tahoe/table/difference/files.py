"""Which files two versions share, and which only one of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from tahoe.protocol.log.actions import Add
from tahoe.table.arrow.chunks import is_in
from tahoe.table.log.file_keys import file_keys
from tahoe.table.reading.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """
    Attributes:
        added, removed: files that only the later, or only the earlier version has.
        changed_vectors: files whose deletion vectors differ, before and after.
        shared: how many files are the same in both.
    """

    added: Sequence[Add]
    removed: Sequence[Add]
    changed_vectors: Sequence[tuple[Add, Add]]
    shared: int

    @property
    def added_bytes(self) -> int:
        return sum(add.size_bytes for add in self.added)

    @property
    def removed_bytes(self) -> int:
        return sum(add.size_bytes for add in self.removed)

    @property
    def changed_bytes(self) -> int:
        """The size of all files of which rows are read."""
        return self.added_bytes + self.removed_bytes + sum(2 * old.size_bytes for old, _ in self.changed_vectors)


def file_difference(before: Snapshot, after: Snapshot) -> FileDifference:
    """The files of two versions of a table. Nothing is read but the log."""
    old, new = (file_keys(version.live, version.log) for version in (before, after))
    gone, come = pc.invert(is_in(old, new)), pc.invert(is_in(new, old))
    removed, added = _adds(before, np.flatnonzero(np.asarray(gone))), _adds(after, np.flatnonzero(np.asarray(come)))
    path = before.log.canonical
    now = {path(add.path): add for add in added}
    vectors = [(add, now[path(add.path)]) for add in removed if path(add.path) in now]
    marked = {path(add.path) for add, _ in vectors}
    return FileDifference(
        added=[add for add in added if path(add.path) not in marked],
        removed=[add for add in removed if path(add.path) not in marked],
        changed_vectors=vectors,
        shared=len(old) - len(removed),
    )


def _adds(version: Snapshot, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Add]:
    return list(version.full_scan.within(positions.tolist()).adds()) if len(positions) else []
