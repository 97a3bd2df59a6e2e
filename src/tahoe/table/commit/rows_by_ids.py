"""Finds rows that a winner has moved by their row ids, for a winner that sorted them, or that has not recorded where
they are.

Protocol: "Row Tracking", "Writer Requirements for Row Tracking". A commit says in `delta.rowTracking.preserved` that
rows which it copied have kept their ids. Only the row ids of the files are read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from tahoe.errors import DataFileMissingError, DeletionVectorError, InvalidDataFileError
from tahoe.protocol.changes.conflict import Winner
from tahoe.protocol.configuration.row_tracking import preserves_row_ids
from tahoe.protocol.log.actions import Add, FileAction, Remove
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.table.log.deletion_vectors import deleted_rows, row_indexes
from tahoe.table.reading.physical_rows import read_row_ids
from tahoe.table.reading.snapshot_state import SnapshotState

_logger = logging.getLogger("tahoe")

Rows: TypeAlias = dict[str, BitMap64]
"""Row indexes by the paths of files."""

# More rows than these are not searched: running the command again costs less.
_ROWS_MAX = 20_000_000


def rows_by_ids(
    base: SnapshotState, rows_by_path: Mapping[str, tuple[Remove, BitMap64 | None]], winner: Winner
) -> dict[str, Rows | None]:
    """Where rows are after a winner that moved them.

    Args:
        rows_by_path: by canonical path the files that the winner removed, and row indexes in them; None for all live
            rows.

    Returns:
        for each file the places of its rows in the files that the winner added; None if not all of them are there.
        Empty if the winner does not say that it only moved rows, or if they are too many.
    """
    files = [a for a in winner.actions if isinstance(a, Add | Remove)]
    removed = {base.log.canonical(a.path) for a in files if isinstance(a, Remove)}
    adds = [a for a in files if isinstance(a, Add) and base.log.canonical(a.path) not in removed]
    is_move = preserves_row_ids(winner.info) and not any(a.data_change for a in files)
    counts = [num_records_of(a.stats) for a in adds]
    if not is_move or None in counts or sum(count or 0 for count in counts) > _ROWS_MAX:
        return {}
    try:
        ids_behind = _Ids(base, adds)
        return {path: ids_behind.places(_ids(base, remove, rows)) for path, (remove, rows) in rows_by_path.items()}
    except (DataFileMissingError, InvalidDataFileError, DeletionVectorError) as error:
        _logger.info("%s: moved rows cannot be followed by their ids: %s", base.url, error)
        return {}


def _ids(base: SnapshotState, file: Remove, rows: BitMap64 | None) -> npt.NDArray[np.int64]:
    """The row ids of some rows of a file, or of all its live rows."""
    ids = read_row_ids(base, file)
    chosen = BitMap64(range(len(ids))) - deleted_rows(base.log, file) if rows is None else rows
    return ids[row_indexes(chosen)]


class _Ids:
    """The row ids of the live rows of several files."""

    def __init__(self, base: SnapshotState, files: Sequence[FileAction]) -> None:
        self._paths = [base.log.canonical(file.path) for file in files]
        ids = [read_row_ids(base, file) for file in files]
        dead = [deleted_rows(base.log, file) for file in files]
        live = [
            np.setdiff1d(np.arange(len(of_file)), row_indexes(gone)) for of_file, gone in zip(ids, dead, strict=True)
        ]
        live_ids = [of_file[rows] for of_file, rows in zip(ids, live, strict=True)] or [np.empty(0, np.int64)]
        unsorted = np.concatenate(live_ids)
        order = np.argsort(unsorted)
        self._ids = unsorted[order]
        self._files = np.repeat(np.arange(len(files)), [len(rows) for rows in live])[order]
        self._rows = np.concatenate(live or [np.empty(0, np.int64)])[order]

    def places(self, wanted: npt.NDArray[np.int64]) -> Rows | None:
        """The places of rows, by their ids; None if one of them is not there exactly once."""
        first, after = np.searchsorted(self._ids, wanted), np.searchsorted(self._ids, wanted, side="right")
        if np.any(after - first != 1):
            return None
        files, rows = self._files[first], self._rows[first]
        return {self._paths[number]: BitMap64(rows[files == number]) for number in set(files.tolist())}
