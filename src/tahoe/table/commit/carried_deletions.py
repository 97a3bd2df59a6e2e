"""Carries row deletions over a compaction: those of a winner onto the files that a compaction adds, and those of a
transaction onto the files of a compaction that won.

A compaction moves rows and changes none, so the one who comes second needs not be in conflict: a row of an old file has
a place in the new one, where a deletion vector deletes it. The compaction's commit has recorded the place
(`protocol/statistics/moved_rows`), or the row is found by its id (`rows_by_ids`). What cannot be carried over stays as
it is, and is a conflict.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from tahoe.errors import DeletionVectorError
from tahoe.protocol.changes.conflict import Winner
from tahoe.protocol.log.actions import Action, Add, Remove, remove_of
from tahoe.protocol.statistics.moved_rows import (
    CopiedRange,
    MovedRows,
    all_places,
    new_places,
    places_of,
    recorded_places,
)
from tahoe.table.commit.row_deletions import RowDeletion
from tahoe.table.commit.rows_by_ids import Rows, rows_by_ids
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot_state import SnapshotState

_logger = logging.getLogger("tahoe")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The part of a transaction that changes files.

    Attributes:
        actions: of the transaction, without those that result from deletions.
        deletions: rows to delete from files of the table, by canonical path.
        copies: rows to delete from files that the transaction adds, by canonical path.
    """

    actions: Sequence[Action]
    deletions: Mapping[str, RowDeletion]
    copies: Mapping[str, RowDeletion]

    def without_removes(self, paths: frozenset[str], log: Log) -> list[Action]:
        return [a for a in self.actions if not (isinstance(a, Remove) and log.canonical(a.path) in paths)]


# --- row deletions behind a compaction


def behind_compaction(log: Log, base: SnapshotState | None, mine: FileChanges, winner: Winner) -> FileChanges:
    """The changes after a winner that may have moved the rows which they delete."""
    my_removes = {log.canonical(a.path) for a in mine.actions if isinstance(a, Remove)}
    files = winner.files(log.canonical)
    winner_removes = {
        path: gone
        for path, (gone, again) in files.items()
        if gone and not again and (path in my_removes or path in mine.deletions)
    }
    if not winner_removes:
        return mine
    rows_to_delete = {path: None if path in my_removes else mine.deletions[path].rows for path in winner_removes}
    places = recorded_places(winner.actions, log.canonical)
    rows_behind = {
        path: _rows_behind(log, places[path], winner_removes[path], files, rows)
        for path, rows in rows_to_delete.items()
        if path in places
    }
    unrecorded = {
        path: (winner_removes[path], rows) for path, rows in rows_to_delete.items() if rows_behind.get(path) is None
    }
    if unrecorded and base is not None and base.tracks_rows:
        rows_behind |= rows_by_ids(base, unrecorded, winner)
    settled_paths = frozenset(path for path, found in rows_behind.items() if found is not None)
    deletions = {path: deletion for path, deletion in mine.deletions.items() if path not in settled_paths}
    for target, rows in _union(found for found in rows_behind.values() if found is not None).items():
        if rows and (add := files[target][1]) is not None:
            deletions[target] = RowDeletion(file=add, rows=rows)
    return (
        replace(mine, actions=mine.without_removes(settled_paths, log), deletions=deletions) if settled_paths else mine
    )


def _union(several: Iterable[Rows]) -> Rows:
    found: Rows = {}
    for rows in several:
        for path, at in rows.items():
            found[path] = found.get(path, BitMap64()) | at
    return found


def _rows_behind(
    log: Log,
    places: Sequence[CopiedRange],
    gone: Remove,
    files: Mapping[str, tuple[Remove | None, Add | None]],
    rows: BitMap64 | None,
) -> Rows | None:
    """The places of rows of one file (None: all its rows) after a winner that moved them; None if what it recorded does
    not fit.

    The winner may have read the file with an older vector than its remove has. Then its new files have vectors for the
    difference.
    """
    try:
        dead_when_read, dead_when_removed = _dead_when_copied(log, places), deleted_rows(log, gone)
        since = _canonical(log, new_places(places, dead_when_removed - dead_when_read, dead_when_read))
        targets = _canonical(log, all_places(places) if rows is None else new_places(places, rows, dead_when_read))
        dead = {
            target: deleted_rows(log, add) for target in {*since, *targets} if (add := files[target][1]) is not None
        }
    except (ValueError, KeyError, DeletionVectorError) as error:
        _logger.info("%s: rows of %s cannot be followed: %s", log.url, gone.path, error)
        return None
    if not dead_when_read <= dead_when_removed or any(not at <= dead[target] for target, at in since.items()):
        return None
    if rows is None:
        return {target: at - dead[target] for target, at in targets.items()}
    return None if any(at & dead[target] for target, at in targets.items()) else targets


def _canonical(log: Log, rows: Rows) -> Rows:
    return {log.canonical(path): at for path, at in rows.items()}


def _dead_when_copied(log: Log, places: Sequence[CopiedRange]) -> BitMap64:
    rows = places[0].rows
    return deleted_rows(log, Remove(path=rows.path, deletion_vector=rows.vector))


# --- a compaction behind row deletions


def behind_deletions(
    log: Log, mine: FileChanges, moved: MovedRows, winner: Winner
) -> tuple[FileChanges, frozenset[str]]:
    """The changes of a compaction after a winner that may have deleted rows of its sources.

    Returns:
        the changes, and the canonical paths of the sources for which the winner is not a conflict.
    """
    places = places_of(moved, log.canonical)
    removes = {log.canonical(a.path): a for a in mine.actions if isinstance(a, Remove)}
    dead_copies: list[Rows] = []
    removes_again: dict[str, Remove] = {}
    settled_paths = set()
    for path, (remove, add) in winner.files(log.canonical).items():
        if path not in places or path not in removes:
            continue
        moved_rows = _deleted_copies(log, places[path], remove, add)
        if moved_rows is not None:
            settled_paths.add(path)
            if add is not None:
                removes_again[path] = remove_of(add, log.env.clock_ms(), data_change=False)
            dead_copies.append(moved_rows)
    if not settled_paths:
        return mine, frozenset()
    actions = [*mine.without_removes(frozenset(settled_paths), log), *removes_again.values()]
    return replace(mine, actions=actions, copies=_with_rows(log, mine, _union(dead_copies))), frozenset(settled_paths)


def _deleted_copies(log: Log, places: Sequence[CopiedRange], gone: Remove | None, added: Add | None) -> Rows | None:
    """The copies of the rows that a winner deleted from one source, by paths as in the log; None if the winner is a
    conflict.
    """
    if gone is None:
        return None
    if added is None:
        return all_places(places) if gone.data_change else None  # else another compaction has moved them
    try:
        before, after = deleted_rows(log, gone), deleted_rows(log, added)
        return new_places(places, after - before, _dead_when_copied(log, places)) if before <= after else None
    except (ValueError, DeletionVectorError) as error:
        _logger.info("%s: rows of %s cannot be followed: %s", log.url, gone.path, error)
        return None


def _with_rows(log: Log, mine: FileChanges, found: Rows) -> dict[str, RowDeletion]:
    adds = {a.path: a for a in mine.actions if isinstance(a, Add)}
    copies = dict(mine.copies)
    for target, rows in found.items():
        path = log.canonical(target)
        before = copies[path].rows if path in copies else BitMap64()
        copies[path] = RowDeletion(file=adds[target], rows=before | rows, is_new=True)
    return copies
