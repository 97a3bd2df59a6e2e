"""Replays the file actions of commits one after the other, and tells what each commit did to the live files.

Protocol: "Action Reconciliation", "Add File and Remove File", "Version Checksum File Schema". `LiveFiles` replays a
thousand commits at once, but does not tell which of them did what. Here only the files that these commits name are held
as entries, so that memory follows the commits and not the table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.log.actions import Action, Add, Remove
from tahoe.protocol.log.replay import file_key
from tahoe.table.arrow.chunks import is_in, one_array
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_keys import canonical_paths
from tahoe.table.log.live_files import LiveFiles

Boundaries: TypeAlias = tuple[int, ...]

# The least numbers of deleted rows of the bins of `deletedRecordCountsHistogramOpt`.
DELETED_BINS: Boundaries = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, (1 << 31) - 1)


class _Counted(msgspec.Struct, rename={"num_records": "numRecords"}):
    num_records: Any = None


_COUNTED: msgspec.json.Decoder[_Counted] = msgspec.json.Decoder(_Counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A live file.

    Attributes:
        path: its canonical spelling.
        vector: the id of its deletion vector; None if it has none.
        rows: the physical number of rows by its statistics; None if they do not tell.
        deleted: the number of rows that the vector deletes.
    """

    path: str
    vector: str | None
    size_bytes: int
    rows: int | None
    deleted: int
    partition_values: Mapping[str, str | None]
    base_row_id: int | None
    row_commit_version: int | None

    @classmethod
    def of(cls, add: Add, log: Log, rows: int | None) -> Self:
        path, vector = file_key(add, log.canonical)
        return cls(
            path=path,
            vector=vector,
            size_bytes=add.size_bytes,
            rows=rows,
            deleted=0 if add.deletion_vector is None else add.deletion_vector.cardinality,
            partition_values=add.partition_values,
            base_row_id=add.base_row_id,
            row_commit_version=add.default_row_commit_version,
        )

    @property
    def live_rows(self) -> int | None:
        return None if self.rows is None else self.rows - self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What one commit did to the live files.

    Attributes:
        removed: the files that were live.
        absent: the removes of files that were not, each with the entries that their paths had.
        added: the files that were not live.
        replaced: the files that were live and were added again, before and after.
        doubled: the added files whose path stays live with another deletion vector.
    """

    removed: Sequence[Entry]
    absent: Sequence[tuple[Remove, Sequence[Entry]]]
    added: Sequence[Entry]
    replaced: Sequence[tuple[Entry, Entry]]
    doubled: Sequence[Entry]


@dataclass(slots=True)
class Totals:
    """The totals of the live files, as version checksums have them.

    Attributes:
        deleted_bins: the number of files with so many deleted rows, for each of `DELETED_BINS`.
        sizes: the numbers of files and of bytes in each bin, for each list of boundaries that is asked for.
    """

    files: int = 0
    size_bytes: int = 0
    vectors: int = 0
    deleted: int = 0
    deleted_bins: list[int] = field(default_factory=lambda: [0] * len(DELETED_BINS))
    sizes: dict[Boundaries, tuple[list[int], list[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, live: LiveFiles) -> Self:
        totals = cls(files=len(live), size_bytes=live.size_bytes, vectors=len(live.vectors))
        counts = [np.asarray(vectors.field("cardinality").drop_null()) for vectors in live.vectors.chunks]
        cardinalities = np.concatenate([np.zeros(0, np.int64), *counts])
        totals.deleted = int(cardinalities.sum())
        bins = np.searchsorted(DELETED_BINS, cardinalities, side="right") - 1
        totals.deleted_bins = np.bincount(bins, minlength=len(DELETED_BINS)).tolist()
        totals.deleted_bins[0] += totals.files - len(cardinalities)
        return totals

    def watch_sizes(self, boundaries: Boundaries, live: LiveFiles) -> None:
        """Keep a histogram from now on. `live` are the files that are counted so far."""
        if boundaries in self.sizes:
            return
        sizes = np.asarray(one_array(pc.fill_null(live.column("size_bytes"), 0))).astype(np.int64)
        bins = np.searchsorted(boundaries, sizes, side="right") - 1
        counts, totals = (np.zeros(len(boundaries), np.int64) for _ in range(2))
        np.add.at(counts, bins, 1)
        np.add.at(totals, bins, sizes)
        self.sizes[boundaries] = (counts.tolist(), totals.tolist())

    def count(self, entry: Entry, sign: int) -> None:
        self.files += sign
        self.size_bytes += sign * entry.size_bytes
        self.vectors += sign * (entry.vector is not None)
        self.deleted += sign * entry.deleted
        self.deleted_bins[bisect_right(DELETED_BINS, entry.deleted) - 1] += sign
        for boundaries, (counts, totals) in self.sizes.items():
            number = bisect_right(boundaries, entry.size_bytes) - 1
            counts[number] += sign
            totals[number] += sign * entry.size_bytes


class FileReplay:
    """The live files that some commits name, while these commits are applied.

    Args:
        live: the files before the commits.
        totals: of these files; it is changed.
        commits: all that will be applied.
        whole: hold all files, because a version checksum lists them.
    """

    def __init__(
        self, log: Log, live: LiveFiles, totals: Totals, commits: Iterable[Iterable[Action]], *, whole: bool
    ) -> None:
        self._log, self._totals = log, totals
        self.is_whole = whole
        self._entries: dict[str, dict[str | None, Entry]] = {}
        if len(live):
            relevant = live
            if not whole:
                paths = {
                    log.canonical(action.path)
                    for actions in commits
                    for action in actions
                    if isinstance(action, Add | Remove)
                }
                commit_paths = pa.chunked_array([list(paths)], pa.string())
                is_in_commits = is_in(canonical_paths(live.column("path"), log), commit_paths)
                relevant = live.subset(np.flatnonzero(np.asarray(is_in_commits)))
            for add, rows in zip(relevant.adds(), relevant.num_records.to_pylist(), strict=True):
                self._put(Entry.of(add, log, rows))

    def entries(self) -> list[Entry]:
        return [entry for of_path in self._entries.values() for entry in of_path.values()]

    def apply(self, actions: Iterable[Action]) -> FileChange:
        """Apply a commit, which has passed `protocol.replay.check_commit`: the order of its actions means nothing."""
        files = list(actions)
        removed: list[Entry] = []
        absent: list[tuple[Remove, Sequence[Entry]]] = []
        for remove in (action for action in files if isinstance(action, Remove)):
            path, vector = file_key(remove, self._log.canonical)
            entry = self._entries.get(path, {}).pop(vector, None)
            if entry is None:
                if not _is_of_vectors(path):
                    absent.append((remove, tuple(self._entries.get(path, {}).values())))
            else:
                self._totals.count(entry, -1)
                removed.append(entry)
        added: list[Entry] = []
        replaced: list[tuple[Entry, Entry]] = []
        doubled: list[Entry] = []
        for add in (action for action in files if isinstance(action, Add)):
            entry = Entry.of(add, self._log, physical_rows(add.stats))
            others = self._entries.get(entry.path, {})
            before = others.get(entry.vector)
            if before is not None:
                self._totals.count(before, -1)
                replaced.append((before, entry))
            else:
                added.append(entry)
                if others:
                    doubled.append(entry)
            self._totals.count(entry, 1)
            self._put(entry)
        return FileChange(removed=removed, absent=absent, added=added, replaced=replaced, doubled=doubled)

    def _put(self, entry: Entry) -> None:
        self._entries.setdefault(entry.path, {})[entry.vector] = entry


def _is_of_vectors(path: str) -> bool:
    """Whether a path is that of a file of deletion vectors: to drop their feature, the reference removes these files
    like data files.
    """
    return path.rpartition("/")[2].startswith("deletion_vector_") and path.endswith(".bin")


def physical_rows(stats: str | None) -> int | None:
    """The number of rows in statistics, quickly: nothing else of them is looked at."""
    if not stats:
        return None
    try:
        found = _COUNTED.decode(stats).num_records
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
