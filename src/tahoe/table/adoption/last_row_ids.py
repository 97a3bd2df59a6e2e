"""The row ids of files that a version adds again: those that their paths had last.

Protocol: "Writer Requirements for Row Tracking". The rows of a path never change, so they never get other ids either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.log.actions import Add
from tahoe.table.arrow.chunks import is_in
from tahoe.table.commit.checkpoint_writer import unexpired_tombstones
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_keys import canonical_paths
from tahoe.table.reading.snapshot import Snapshot

_BEFORE_ALL_MS = -1
_TOMBSTONE = ("path", "baseRowId", "defaultRowCommitVersion")


def with_last_row_ids(newest: Snapshot, adds: Sequence[Add]) -> list[Add]:
    """Entries with the row ids of the last entry of their path in the newest version, if they bring none themselves.
    That entry may be live, with another deletion vector, or a tombstone. A path that has neither gets ids from the
    commit.
    """
    without = [add for add in adds if add.base_row_id is None]
    if not without:
        return list(adds)
    log = newest.log
    wanted = pa.chunked_array([pa.array({log.canonical(add.path) for add in without}, pa.string())])
    last: dict[str, tuple[int, int]] = {}
    for path, *ids in _row_ids(newest, wanted):
        last[path] = max(
            last.get(path, (-1, -1)), (ids[0], ids[1])
        )  # the last ones are the highest, because none comes again
    return [_with_ids(add, last.get(log.canonical(add.path))) for add in adds]


def _with_ids(add: Add, ids: tuple[int, int] | None) -> Add:
    if add.base_row_id is not None or ids is None:
        return add
    return add.replace(base_row_id=ids[0], default_row_commit_version=ids[1])


def _row_ids(newest: Snapshot, wanted: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """Path, base row id and default row commit version of the entries and tombstones of some paths."""
    live = newest.live
    yield from _of(
        live.column("path"), live.column("base_row_id"), live.column("default_row_commit_version"), wanted, newest.log
    )
    for removes in unexpired_tombstones(newest, _BEFORE_ALL_MS):
        path, base_row_id, version = (pa.chunked_array([removes.field(name)]) for name in _TOMBSTONE)
        yield from _of(path, base_row_id, version, wanted, newest.log)


def _of(
    paths: pa.ChunkedArray, base_row_ids: pa.ChunkedArray, versions: pa.ChunkedArray, wanted: pa.ChunkedArray, log: Log
) -> Iterator[tuple[str, int, int]]:
    keys = canonical_paths(paths, log)
    chosen = pc.and_(is_in(keys, wanted), pc.and_(base_row_ids.is_valid(), versions.is_valid()))
    if pc.any(chosen).as_py():
        yield from zip(*(column.filter(chosen).to_pylist() for column in (keys, base_row_ids, versions)), strict=True)
