"""Reads checkpoints of every kind: their non-file actions, and parts with their files.

Protocol: "Checkpoints", "Sidecar Files", "Checkpoint Schema". A checkpoint that cannot be read raises
`CorruptCheckpointError`; the snapshot then uses an older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import CorruptCheckpointError, DeltaLogError
from tahoe.errors.root import cause_text
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    KINDS,
    Action,
    Add,
    CheckpointMetadata,
    Remove,
    Sidecar,
    action_to_json,
    decode_action,
    decode_commit,
    decode_deletion_vector,
)
from tahoe.protocol.log.file_paths import canonical_key, decode_path
from tahoe.protocol.log.log_files import Checkpoint
from tahoe.protocol.log.replay import check_reconciled
from tahoe.storage.env import Store
from tahoe.storage.threads import on_all_cores
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.parquet import IN_ONE_GO_ROWS_MAX, UNREADABLE, NestedColumns
from tahoe.table.arrow.row_group_bounds import null_counts
from tahoe.table.log.commit_fingerprint import TAG, CommitFingerprint, has_commit, parse_fingerprint
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import (
    BATCH_ROWS,
    DELETION_VECTOR,
    GONE,
    TEXT_MAP,
    CheckpointPart,
    MemoryPart,
    Part,
    cast_column,
)
from tahoe.table.log.grouped_part import opened_part

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # it imports the file systems of Arrow

# So many sidecars are opened at the same time.
_IN_PARALLEL_MIN = 10

# The fields of a `remove` that a checkpoint keeps.
TOMBSTONE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", TEXT_MAP),
        ("size", pa.int64()),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)

# The actions of a checkpoint other than files, in columns of their own. There are few of them.
_OTHER_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")


def read_checkpoint(log: Log, checkpoint: Checkpoint, *, whole: bool = False) -> tuple[list[Action], list[Part]]:
    """The checkpoint's actions other than files, and its live files as parts.

    Args:
        whole: read all columns, because later versions will depend on them; else only the footers of large files are
            read.

    Raises:
        CorruptCheckpointError: one of its files is missing or broken, or it is the checkpoint of another table.
    """
    try:
        return _read_checkpoint(log, checkpoint, whole=whole)
    except GONE as error:  # cleanup has deleted it since it was opened
        raise CorruptCheckpointError(table=log.url, file=checkpoint.files[0].name, detail=cause_text(error)) from error


def _read_checkpoint(log: Log, checkpoint: Checkpoint, *, whole: bool) -> tuple[list[Action], list[Part]]:
    store = log.env.store
    fingerprint: CommitFingerprint | None = None
    actions: list[Action] = []
    parts: list[Part] = []
    for file in checkpoint.files:
        key = file.key
        if key.endswith(".json"):
            found = _read_json(store, key)
            actions.extend(a for a in found if not isinstance(a, Add))
            parts.append(MemoryPart(to_table([a for a in found if isinstance(a, Add)])))
        else:
            columns = NestedColumns(store, key)
            actions.extend(_read_other_actions(columns))
            fingerprint = parse_fingerprint((columns.footer.metadata or {}).get(TAG.encode()))
            parts.append(_open_part(columns))
    detail = check_reconciled(actions, lambda path: canonical_key(path, store.url))
    if detail is not None:
        raise CorruptCheckpointError(table=store.url, file=checkpoint.files[0].name, detail=detail)
    sidecars = [sidecar_key(a) for a in actions if isinstance(a, Sidecar)]
    if len(set(sidecars)) != len(sidecars):
        raise CorruptCheckpointError(
            table=store.url, file=checkpoint.files[0].name, detail="it lists a sidecar more than once"
        )
    opened = on_all_cores if len(sidecars) >= _IN_PARALLEL_MIN else map
    parts.extend(opened(lambda key: _open_part(NestedColumns(store, key)), sidecars))
    if (twice := _named_twice(parts)) is not None:
        raise CorruptCheckpointError(
            table=store.url, file=checkpoint.files[0].name, detail=f"it has {twice} more than once"
        )
    _check_table(log, checkpoint, _fingerprint_of(actions) or fingerprint, parts)
    for part in parts if whole else ():
        part.check()
    return actions, parts


def _fingerprint_of(actions: Iterable[Action]) -> CommitFingerprint | None:
    """The fingerprint in a V2 checkpoint."""
    return next(
        (parse_fingerprint((a.tags or {}).get(TAG)) for a in actions if isinstance(a, CheckpointMetadata)), None
    )


def _check_table(
    log: Log, checkpoint: Checkpoint, fingerprint: CommitFingerprint | None, parts: Sequence[Part]
) -> None:
    path = next((path for part in parts if (path := part.first_path()) is not None), None) if fingerprint else None
    if fingerprint is not None and not has_commit(log, checkpoint.version, fingerprint, checkpoint.commit, path):
        detail = (
            "the log does not have the commit that it was made of: it is the checkpoint of another table, which was "
            "dropped"
        )
        raise CorruptCheckpointError(table=log.url, file=checkpoint.files[0].name, detail=detail)


def _named_twice(parts: Sequence[Part]) -> str | None:
    """A file that appears twice, so that its rows would be read twice. Only `tahoe check` tests large checkpoints,
    because it is slow.
    """
    if sum(part.num_rows for part in parts) > IN_ONE_GO_ROWS_MAX:
        return None
    paths = pa.chunked_array([chunk for part in parts for chunk in part.column("path").chunks], pa.string())
    if pc.count_distinct(paths).as_py() == len(paths):
        return None
    vectors = [vector for part in parts for vector in part.column("deletion_vector").to_pylist()]
    seen: set[tuple[str, str | None]] = set()
    for path, vector in zip(paths.to_pylist(), vectors, strict=True):
        descriptor = decode_deletion_vector(vector)
        key = (path, None if descriptor is None else descriptor.unique_id)
        if key in seen:
            return str(path)
        seen.add(key)
    return None


def read_tombstones(store: Store, checkpoint: Checkpoint) -> Iterator[pa.StructArray]:
    """The tombstones of a checkpoint, as `TOMBSTONE` structs, in batches.

    Raises:
        CorruptCheckpointError: one of its files is missing or broken.
    """
    for file in checkpoint.files:
        if file.key.endswith(".json"):
            actions = _read_json(store, file.key)
            yield tombstones(a for a in actions if isinstance(a, Remove))
        else:
            actions = read_other_actions(store, file.key)
            yield from _parquet_tombstones(store, file.key)
        for sidecar in actions:
            if isinstance(sidecar, Sidecar):
                yield from _parquet_tombstones(store, sidecar_key(sidecar))


def _parquet_tombstones(store: Store, key: str) -> Iterator[pa.StructArray]:
    """The tombstones of a Parquet file as `TOMBSTONE` structs, batch by batch. Fields that the file does not have are
    null.
    """
    try:
        for batch in _with_removes(NestedColumns(store, key)).batches(
            "remove", [field.name for field in TOMBSTONE], BATCH_ROWS
        ):
            there = {field.name: values for field, values in zip(batch.type, batch.flatten(), strict=True)}
            removed = pc.is_valid(there["path"])
            columns = [
                cast_column(pa.chunked_array([there[f.name]]), f.type) if f.name in there else None for f in TOMBSTONE
            ]
            arrays = [
                pa.nulls(len(batch), f.type) if column is None else one_array(column)
                for f, column in zip(TOMBSTONE, columns, strict=True)
            ]
            yield pa.StructArray.from_arrays(arrays, fields=list(TOMBSTONE)).filter(removed)
    except UNREADABLE as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=str(error)) from error


def _with_removes(columns: NestedColumns) -> NestedColumns:
    """The row groups that may have a tombstone: most of a large checkpoint have only files."""
    return columns.within(np.flatnonzero(null_counts(columns, "remove.path") != columns.group_rows).tolist())


def tombstones(removes: Iterable[Remove]) -> pa.StructArray:
    """Removes as `TOMBSTONE` structs: a checkpoint keeps neither the statistics nor the tags of a removed file."""
    rows = []
    for remove in removes:
        row = action_to_json(remove)["remove"]
        values = row.get("partitionValues")
        rows.append({**row, "dataChange": False, "partitionValues": None if values is None else list(values.items())})
    return pa.array(rows, TOMBSTONE)


def sidecar_key(sidecar: Sidecar) -> str:
    """Protocol: sidecars "must always reside in the table's own _delta_log/_sidecars directory", so only the name
    counts.
    """
    return f"{log_files.SIDECAR_FOLDER}/{decode_path(sidecar.path).rsplit('/', 1)[-1]}"


def _read_json(store: Store, key: str) -> list[Action]:
    try:
        actions = list(decode_commit(store.get(key), table=store.url, file=key))
    except (FileNotFoundError, DeltaLogError) as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=cause_text(error)) from error
    detail = check_reconciled(actions, lambda path: canonical_key(path, store.url))
    if detail is not None:
        raise CorruptCheckpointError(table=store.url, file=key, detail=detail)
    return actions


# The columns that every reader needs; if there are few files, also those that decide which rows a version has, at no
# extra cost.
_OPENED = ("path", "size_bytes", "deletion_vector")
_OPENED_WHERE_FEW = (*_OPENED, "partition_values", "modification_time_ms", "base_row_id", "default_row_commit_version")


def _open_part(columns: NestedColumns) -> Part:
    """Open a part. Of a small file the columns that every reader needs are read, so that it is found now if it is
    broken.
    """
    try:
        CheckpointPart(columns).check_types()
        part = opened_part(columns)
        if isinstance(part, CheckpointPart):
            part.load(_OPENED if columns.num_rows > IN_ONE_GO_ROWS_MAX else _OPENED_WHERE_FEW)
        detail = _lost_files(columns)
    except UNREADABLE as error:
        raise _corrupt(columns, str(error)) from error
    if detail is not None:
        raise _corrupt(columns, detail)
    return part


def _lost_files(columns: NestedColumns) -> str | None:
    """Why a file must once have had a column of live files, if it has none.

    "Any missing column should be treated as null": a sidecar or a part may contain only tombstones. But a column with a
    strange name may be that of the files, in a damaged footer.
    """
    if columns.has(("add", "path")):
        return None
    strange = sorted({leaf.partition(".")[0] for leaf in columns.leaves} - (KINDS.keys() - {"add"}))
    return f"it has no column add.path, but {', '.join(strange)}" if strange else None


def _corrupt(columns: NestedColumns, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(table=columns.url, file=columns.key, detail=detail)


def read_other_actions(store: Store, key: str) -> list[Action]:
    """The actions other than files in one checkpoint file; there are few of them.

    Raises:
        CorruptCheckpointError: it is missing or broken.
    """
    if key.endswith(".json"):
        return [a for a in _read_json(store, key) if not isinstance(a, Add | Remove)]
    return _read_other_actions(NestedColumns(store, key))


def _read_other_actions(columns: NestedColumns) -> list[Action]:
    """The actions other than files in a Parquet file."""
    try:
        names = [name for name in _OTHER_ACTIONS if columns.has((name,))]
        table = columns.open().read_row_groups(_groups_with(columns.footer, names), columns=names, use_threads=False)
        return [action for name in names for action in _decode_column(table, name)]
    except UNREADABLE as error:
        raise _corrupt(columns, str(error)) from error


def _groups_with(metadata: pq.FileMetaData, names: Sequence[str]) -> list[int]:
    """The row groups in which one of the columns has a value; in a large checkpoint most row groups contain only
    files.
    """
    leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in names]
    found = []
    for group in range(metadata.num_row_groups):
        columns = [metadata.row_group(group).column(i) for i in leaves]
        if not all(
            c.is_stats_set and c.statistics.has_null_count and c.statistics.null_count == c.num_values for c in columns
        ):
            found.append(group)
    return found


def _decode_column(table: pa.Table, name: str) -> Iterator[Action]:
    column = table.column(name)
    for position in pc.indices_nonzero(
        column.is_valid()
    ).to_pylist():  # there are few, and Arrow cannot filter every type
        action = decode_action({name: column[position].as_py(maps_as_pydicts="lossy")})
        if action is not None:
            yield action
