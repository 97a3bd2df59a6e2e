"""Reading checkpoints of every kind into a state without files, and parts that hold the files.

Protocol: "Checkpoints", "Sidecar Files", "Checkpoint Schema". A checkpoint that cannot be read raises `CorruptCheckpointError`, for which
the snapshot turns to an older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import CorruptCheckpointError, DeltaLogError
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, Remove, Sidecar, action_to_json, decode_action, decode_commit
from tahoe.protocol.log_files import Checkpoint
from tahoe.protocol.partitions import decode_path
from tahoe.storage.env import Store
from tahoe.table.files import BATCH_ROWS, DELETION_VECTOR, TEXT_MAP, CheckpointPart, MemoryPart, Part, cast_column, to_table
from tahoe.table.parquet import NestedColumns, open_parquet

# What a checkpoint keeps of a file that was removed.
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

# The actions of a checkpoint that are few, in columns of their own.
_FEW = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")


def read_checkpoint(store: Store, checkpoint: Checkpoint) -> tuple[list[Action], list[Part]]:
    """The checkpoint's actions other than files, and its live files as parts.

    Raises:
        CorruptCheckpointError: a file of it is missing or broken.
    """
    actions: list[Action] = []
    parts: list[Part] = []
    for file in checkpoint.files:
        key = file.key
        if key.endswith(".json"):
            found = _read_json(store, key)
            actions.extend(a for a in found if not isinstance(a, Add))
            parts.append(MemoryPart(to_table([a for a in found if isinstance(a, Add)])))
        else:
            actions.extend(read_few(store, key))
            parts.append(_open_part(store, key))
    for sidecar in [a for a in actions if isinstance(a, Sidecar)]:
        parts.append(_open_part(store, sidecar_key(sidecar)))
    return actions, parts


def read_tombstones(store: Store, checkpoint: Checkpoint) -> Iterator[pa.StructArray]:
    """The removed files that a checkpoint still knows, as `TOMBSTONE`s, some at a time.

    Raises:
        CorruptCheckpointError: a file of it is missing or broken.
    """
    for file in checkpoint.files:
        if file.key.endswith(".json"):
            actions = _read_json(store, file.key)
            yield tombstones(a for a in actions if isinstance(a, Remove))
        else:
            actions = read_few(store, file.key)
            yield from _parquet_tombstones(store, file.key)
        for sidecar in actions:
            if isinstance(sidecar, Sidecar):
                yield from _parquet_tombstones(store, sidecar_key(sidecar))


def _parquet_tombstones(store: Store, key: str) -> Iterator[pa.StructArray]:
    try:
        for batch in NestedColumns(store, key).batches("remove", [field.name for field in TOMBSTONE], BATCH_ROWS):
            there = {field.name: values for field, values in zip(batch.type, batch.flatten(), strict=True)}
            removed = pc.is_valid(there["path"])
            columns = [cast_column(pa.chunked_array([there[f.name]]), f.type) if f.name in there else None for f in TOMBSTONE]
            arrays = [
                pa.nulls(len(batch), f.type) if column is None else column.combine_chunks()
                for f, column in zip(TOMBSTONE, columns, strict=True)
            ]
            yield pa.StructArray.from_arrays(arrays, fields=list(TOMBSTONE)).filter(removed)
    except (OSError, pa.ArrowException) as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=str(error)) from error


def tombstones(removes: Iterable[Remove]) -> pa.StructArray:
    """Actions as `TOMBSTONE`s: a checkpoint keeps neither the statistics nor the tags of a removed file."""
    rows = []
    for remove in removes:
        row = action_to_json(remove)["remove"]
        values = row.get("partitionValues")
        rows.append({**row, "dataChange": False, "partitionValues": None if values is None else list(values.items())})
    return pa.array(rows, TOMBSTONE)


def sidecar_key(sidecar: Sidecar) -> str:
    """Protocol: sidecars "must always reside in the table's own _delta_log/_sidecars directory", so only the name counts."""
    return f"{log_files.SIDECAR_FOLDER}/{decode_path(sidecar.path).rsplit('/', 1)[-1]}"


def _read_json(store: Store, key: str) -> list[Action]:
    try:
        return list(decode_commit(store.get(key), table=store.url, file=key))
    except (FileNotFoundError, DeltaLogError) as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=str(error)) from error


def _open_part(store: Store, key: str) -> Part:
    """The part with what every reader needs at once in hand, so that a broken file is found now and not later."""
    part = CheckpointPart(NestedColumns(store, key))
    try:
        part.load(["path", "size_bytes", "deletion_vector"])
    except (OSError, pa.ArrowException) as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=str(error)) from error
    return part


def read_few(store: Store, key: str) -> list[Action]:
    """The actions of one checkpoint file that are no files: of these there are few.

    Raises:
        CorruptCheckpointError: it is missing or broken.
    """
    if key.endswith(".json"):
        return [a for a in _read_json(store, key) if not isinstance(a, Add | Remove)]
    try:
        file = open_parquet(store, key)
        names = [name for name in _FEW if name in file.schema_arrow.names]
        table = file.read_row_groups(_groups_with(file.metadata, names), columns=names)
        return [action for name in names for action in _decode_column(table, name)]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=str(error)) from error


def _groups_with(metadata: pq.FileMetaData, names: Sequence[str]) -> list[int]:
    """The row groups in which one of the columns has a value: in a large checkpoint most hold nothing but files."""
    leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in names]
    found = []
    for group in range(metadata.num_row_groups):
        columns = [metadata.row_group(group).column(i) for i in leaves]
        if not all(c.is_stats_set and c.statistics.has_null_count and c.statistics.null_count == c.num_values for c in columns):
            found.append(group)
    return found


def _decode_column(table: pa.Table, name: str) -> Iterator[Action]:
    column = table.column(name)
    rows: Sequence[Any] = column.filter(pc.is_valid(column)).to_pylist(maps_as_pydicts="lossy")
    for row in rows:
        action = decode_action({name: row})
        if action is not None:
            yield action
