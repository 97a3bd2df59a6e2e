"""The changes of a table whose writers did not record them, in Arrow.

The files that a commit removes and adds have all rows that it changed, and those that it only copied. A copy has the
row's id and the version that last changed the row, so both sides of it are left out; the two sides of an update have
the id, and other versions.

Protocol: "Row Tracking".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.change_feed import CHANGE_TYPE, COMMIT_VERSION
from tahoe.protocol.configuration.row_tracking import METADATA, ROW_COMMIT_VERSION, ROW_ID
from tahoe.table.arrow.chunks import reordered_table, with_columns

# Columns of the rows of files, beside those of the feed.
ID, CHANGED_AT = f"{METADATA}.{ROW_ID}", f"{METADATA}.{ROW_COMMIT_VERSION}"

# Of a row without one.
_NO_ID = -1

_KINDS = ("insert", "delete", "update_postimage", "update_preimage")
_INSERT, _DELETE, _POST, _PRE = range(len(_KINDS))


def computed_changes(rows: pa.Table, *, is_net: bool) -> pa.Table:
    """The changed rows among those of the files that commits have removed and added.

    Args:
        rows: with the columns `ID` and `CHANGED_AT`; a row is inserted or deleted.
        is_net: what remains of all changes of a row.
    """
    kinds = np.where(pc.equal(rows[CHANGE_TYPE], "insert").to_numpy(zero_copy_only=False), _INSERT, _DELETE)
    ids, versions, changed = (rows[name].fill_null(_NO_ID).to_numpy() for name in (ID, COMMIT_VERSION, CHANGED_AT))
    order = np.lexsort((-kinds, versions, ids))  # of one row in one version, the delete first
    kinds, ids, versions, changed = (values[order] for values in (kinds, ids, versions, changed))
    pairs = _equals_next(ids) & _equals_next(versions) & (ids != _NO_ID)
    copies = pairs & _equals_next(changed)
    kinds = np.where(pairs, _PRE, np.where(_next(pairs), _POST, kinds))
    kept = ~(copies | _next(copies))
    order, kinds = order[kept], kinds[kept]
    if is_net:
        kept, kinds = _net(ids[kept], kinds, changed[kept])
        order, kinds = order[kept], kinds[kept]
    return with_columns(reordered_table(rows, order), {CHANGE_TYPE: pa.array(_KINDS).take(pa.array(kinds))})


def _net(
    ids: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64], changed: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which of the changes in the order of rows and versions are the first or the last one of a row that remain, and
    what they are then. A row that was deleted and restored has not changed.
    """
    last = ~_equals_next(ids)
    first = np.ones(len(ids), np.bool_)
    first[1:] = last[:-1]
    row = np.cumsum(first) - 1
    was_there = np.isin(kinds[first], (_DELETE, _PRE))[row]
    remains = np.isin(kinds[last], (_INSERT, _POST))[row]
    is_same = was_there & remains & (changed[first][row] == changed[last][row])
    starts, ends = first & was_there & ~is_same, last & remains & ~is_same
    net = np.where(starts, np.where(remains, _PRE, _DELETE), np.where(was_there, _POST, _INSERT))
    return starts | ends, net


def _equals_next(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether a value equals the next one."""
    found = np.zeros(len(values), np.bool_)
    found[:-1] = values[1:] == values[:-1]
    return found


def _next(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The flags, each moved to the next place."""
    moved = np.zeros(len(flags), np.bool_)
    moved[1:] = flags[:-1]
    return moved
