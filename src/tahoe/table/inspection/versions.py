"""The versions that the log still has: who committed them, and how large they are.

Protocol: "Commit Provenance Information", "Action Reconciliation". The totals of each version are computed by columns,
from the oldest version that can be read and the commits after it: a `remove` need not have the size of its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import CommitGoneError
from tahoe.protocol.log.actions import Add, Remove
from tahoe.protocol.log.log_files import Kind, LogFile, readable_versions
from tahoe.protocol.log.replay import file_key
from tahoe.storage.threads import in_pieces, load_all
from tahoe.table.arrow.chunks import is_in, taken
from tahoe.table.arrow.statistics import record_counts
from tahoe.table.inspection.inspection import TEXTS, TIME, Column, Inspection, from_rows
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_keys import file_keys, spelled
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.versions.history import Timeline, history, parameter_text, timeline

_VERSION = Column(name="version", type=pa.int64(), meaning="version of the table")

# --- history

_HISTORY = (
    _VERSION,
    Column(name="timestamp", type=TIME, meaning="when it was committed"),
    Column(name="operation", type=pa.string(), meaning="what the commit did: `WRITE`, `MERGE`, ..."),
    Column(
        name="operation_parameters",
        type=TEXTS,
        meaning="parameters of the operation, by name; values other than strings as JSON",
    ),
    Column(name="operation_metrics", type=TEXTS, meaning="counts, sizes in bytes and times in milliseconds, by name"),
    Column(name="user_metadata", type=pa.string(), meaning="a text that the writer gave the commit, such as who it is"),
    Column(name="engine_info", type=pa.string(), meaning="program and version that committed it"),
    Column(name="read_version", type=pa.int64(), meaning="version on which the commit was planned"),
    Column(
        name="isolation_level", type=pa.string(), meaning="`Serializable`, `WriteSerializable` or `SnapshotIsolation`"
    ),
    Column(name="is_blind_append", type=pa.bool_(), meaning="whether it appended and read nothing of the table"),
    Column(
        name="user_id",
        type=pa.string(),
        meaning="id of the user who ran it; null in commits of tahoe, which knows no users",
    ),
    Column(name="user_name", type=pa.string(), meaning="name of the user who ran it; null in commits of tahoe"),
    Column(name="cluster_id", type=pa.string(), meaning="cluster on which it ran"),
    Column(name="txn_id", type=pa.string(), meaning="unique id of the commit"),
)

# The field of `commitInfo` for each column that is one.
_FIELDS = {
    "operation": "operation",
    "operation_parameters": "operationParameters",
    "operation_metrics": "operationMetrics",
} | {
    "user_metadata": "userMetadata",
    "engine_info": "engineInfo",
    "read_version": "readVersion",
    "isolation_level": "isolationLevel",
    "is_blind_append": "isBlindAppend",
    "user_id": "userId",
    "user_name": "userName",
    "cluster_id": "clusterId",
    "txn_id": "txnId",
}


def commits(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """The rows of `HISTORY`, with times in milliseconds since 1970. Each commit is read when its row is asked for."""
    kinds = {column.name: column.type for column in _HISTORY}
    for commit in history(snapshot):
        if commit.version <= snapshot.version:
            values = {name: _as_typed(commit.info.fields.get(field), kinds[name]) for name, field in _FIELDS.items()}
            yield {"version": commit.version, "timestamp": commit.timestamp_ms, **values}


def _history(snapshot: Snapshot) -> dict[str, pa.Array]:
    return from_rows(list(commits(snapshot)), _HISTORY)


def _as_typed(value: Any, kind: pa.DataType | str) -> Any:
    """A value of `commitInfo`, which may be any JSON, as a value of its column; None if it has another type."""
    if kind == TEXTS:
        return {name: parameter_text(item) for name, item in value.items()} if isinstance(value, Mapping) else None
    if kind == pa.string():
        return parameter_text(value)
    expected = bool if kind == pa.bool_() else int
    return value if type(value) is expected else None


HISTORY = Inspection(name="history", rows="a commit, newest first", columns=_HISTORY, read=_history)

# --- sizes


def _sizes(snapshot: Snapshot) -> dict[str, Any]:
    gone: CommitGoneError | None = None
    while True:
        try:
            return _sizes_listed(snapshot, snapshot.log.list_files())
        except CommitGoneError as error:  # deleted by cleanup since the listing: there is a newer checkpoint
            if gone is not None and gone.parameters == error.parameters:
                raise
            gone = error


def _oldest(snapshot: Snapshot, listed: Sequence[LogFile]) -> Snapshot:
    """The oldest version that can be read."""
    readable = readable_versions(listed)
    version = snapshot.version if readable is None else min(readable[0], snapshot.version)
    return load_snapshot(snapshot.log, version, listed=listed)


# What is counted of each version: the files, their sizes, their rows, the files without a known number of rows, and the
# deleted rows.
_FILES, _BYTES, _ROWS, _UNKNOWN, _DELETED = range(5)


def _sizes_listed(snapshot: Snapshot, listed: Sequence[LogFile]) -> dict[str, Any]:
    """The totals of each version that can be read: those of the oldest one, and the changes of the commits behind it,
    added up. What the oldest version added and removed is unknown, unless it is version 0.
    """
    log, base = snapshot.log, _oldest(snapshot, listed)
    versions = range(base.version, snapshot.version + 1)
    commits = [f for f in listed if f.kind is Kind.COMMIT and base.version < f.version <= snapshot.version]
    events = pa.concat_tables([_EVENTS.empty_table(), *in_pieces(partial(_events, log), commits)])
    times = _times(timeline(snapshot, listed), versions)
    named = _events_of_keys(base, events.column("key"))
    change, added, removed = _changes(pa.concat_tables([named, events]), base.version, len(versions))
    total = change.cumsum(axis=0) + _contributions(_live_events(base)).sum(axis=0)
    is_first = np.array([version == base.version > 0 for version in versions])  # what came before it is not known
    if base.version == 0:
        added[0] = total[0]
    return {
        "version": pa.array(versions, pa.int64()),
        "timestamp": times,
        "num_files": total[:, _FILES],
        "size_bytes": total[:, _BYTES],
        "num_records": pa.array(total[:, _ROWS], mask=total[:, _UNKNOWN] > 0),
        "deleted_records": total[:, _DELETED],
        "added_files": pa.array(added[:, _FILES], mask=is_first),
        "added_bytes": pa.array(added[:, _BYTES], mask=is_first),
        "removed_files": pa.array(removed[:, _FILES], mask=is_first),
        "removed_bytes": pa.array(removed[:, _BYTES], mask=is_first),
    }


def _times(line: Timeline, versions: range) -> pa.Array:
    """When each version was committed; null for one whose commit is gone and which only a checkpoint has."""
    positions = {commit.version: position for position, commit in enumerate(line.commits)}
    asked = [positions.get(version) for version in versions]
    return pa.array(load_all(lambda at: None if at is None else line.timestamp_ms(at), asked), TIME)


# What happens to a file in a commit, in the order of the log. A file is named by its key, see `file_keys`.
_EVENTS = pa.schema(
    [
        ("version", pa.int64()),
        ("key", pa.string()),
        ("is_add", pa.bool_()),
        ("size_bytes", pa.int64()),
        ("num_records", pa.int64()),
        ("deleted_records", pa.int64()),
    ]
)


def _events(log: Log, files: Sequence[LogFile]) -> pa.Table:
    """What some commits do to files."""
    named = [(file.version, action) for file in files for action in log.read(file) if isinstance(action, (Add, Remove))]
    actions = [action for _, action in named]
    adds = [action if isinstance(action, Add) else None for action in actions]
    texts = pa.chunked_array([pa.array([None if add is None else add.stats for add in adds], pa.string())])
    vectors = [None if add is None else add.deletion_vector for add in adds]
    keys = [file_key(action, lambda path: spelled(path, log)) for action in actions]
    columns = {
        "version": [version for version, _ in named],
        "key": [f"{path}\0{vector or ''}" for path, vector in keys],
        "is_add": [add is not None for add in adds],
        "size_bytes": [0 if add is None else add.size_bytes for add in adds],
        "num_records": record_counts(texts),
        "deleted_records": [0 if vector is None else vector.cardinality for vector in vectors],
    }
    return pa.table(columns, schema=_EVENTS)


def _live_events(snapshot: Snapshot) -> pa.Table:
    """The files of a version as events."""
    live = snapshot.live
    cardinality = pa.chunked_array(
        [pc.struct_field(chunk, "cardinality") for chunk in live.column("deletion_vector").chunks], pa.int64()
    )
    columns = {
        "version": pa.repeat(pa.scalar(snapshot.version), len(live)),
        "key": file_keys(live, snapshot.log),
        "is_add": pa.repeat(pa.scalar(True), len(live)),
        "size_bytes": live.column("size_bytes"),
        "num_records": live.num_records,
        "deleted_records": pc.fill_null(cardinality, 0),
    }
    return pa.table(columns, schema=_EVENTS)


def _events_of_keys(base: Snapshot, keys: pa.ChunkedArray) -> pa.Table:
    """The files of a version that have one of these keys, as events."""
    listed = _live_events(base)
    rows = pc.indices_nonzero(is_in(listed.column("key"), keys))
    return pa.table([taken(column, rows) for column in listed.columns], schema=_EVENTS)


def _contributions(events: pa.Table) -> npt.NDArray[np.int64]:
    """What each event leaves of its file: one column for each number that is counted."""
    records = events.column("num_records")
    numbers = [
        events.column("size_bytes"),
        pc.fill_null(records, 0),
        records.is_null().cast(pa.int64()),
        events.column("deleted_records"),
    ]
    is_add = events.column("is_add").to_numpy()
    return np.column_stack(
        [np.where(is_add, column, 0) for column in (is_add, *(np.asarray(column) for column in numbers))]
    )


def _changes(events: pa.Table, first: int, versions: int) -> Sequence[npt.NDArray[np.int64]]:
    """By how much each version differs from the one before it, what was added, and what was removed.

    Args:
        events: those of the first version are the files that it has.
    """
    encoded = events.column("key").dictionary_encode()  # all chunks have the same dictionary
    keys = np.concatenate([np.empty(0, np.int32), *(np.asarray(chunk.indices) for chunk in encoded.chunks)])
    order = np.argsort(keys, kind="stable")  # by file, and for each file in the order of the log
    keys, after = keys[order], _contributions(events)[order]
    version = np.asarray(events.column("version"))[order] - first
    before = np.zeros_like(after)
    before[1:] = np.where((keys[1:] == keys[:-1])[:, None], after[:-1], 0)
    comes, goes = (after[:, _FILES] > before[:, _FILES]), (after[:, _FILES] < before[:, _FILES])
    found = [np.zeros((versions, after.shape[1] if len(after) else 5), np.int64) for _ in range(3)]
    for total, amount in zip(found, (after - before, after * comes[:, None], before * goes[:, None]), strict=True):
        np.add.at(total, version[version > 0], amount[version > 0])
    return found


SIZES = Inspection(
    name="sizes",
    rows="a version that can be read, oldest first",
    columns=(
        _VERSION,
        Column(name="timestamp", type=TIME, meaning="when it was committed; null if only a checkpoint is left of it"),
        Column(name="num_files", type=pa.int64(), meaning="data files of the version"),
        Column(name="size_bytes", type=pa.int64(), meaning="size of these files in bytes"),
        Column(
            name="num_records",
            type=pa.int64(),
            meaning="rows in these files, deleted ones included; null if a file has no statistics",
        ),
        Column(name="deleted_records", type=pa.int64(), meaning="rows that deletion vectors delete"),
        Column(
            name="added_files",
            type=pa.int64(),
            meaning="files that the version before did not have; null if that one cannot be read",
        ),
        Column(name="added_bytes", type=pa.int64(), meaning="their size in bytes"),
        Column(
            name="removed_files",
            type=pa.int64(),
            meaning="files that only the version before had; null if that one cannot be read",
        ),
        Column(name="removed_bytes", type=pa.int64(), meaning="their size in bytes"),
    ),
    read=_sizes,
)
