"""Reading checkpoints of every kind into a state without files, and parts that hold the files.

Protocol: "Checkpoints", "Sidecar Files", "Checkpoint Schema". A checkpoint that cannot be read raises `CorruptCheckpointError`, for which
the snapshot turns to an older one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import CorruptCheckpointError, DeltaLogError
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, Sidecar, decode_action, decode_commit
from tahoe.protocol.log_files import Checkpoint
from tahoe.protocol.partitions import decode_path
from tahoe.storage.env import Store
from tahoe.table.files import CheckpointPart, MemoryPart, Part, to_table
from tahoe.table.parquet import NestedColumns, open_parquet

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
            actions.extend(_read_few(store, key))
            parts.append(_open_part(store, key))
    for sidecar in [a for a in actions if isinstance(a, Sidecar)]:
        parts.append(_open_part(store, sidecar_key(sidecar)))
    return actions, parts


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


def _read_few(store: Store, key: str) -> list[Action]:
    try:
        file = open_parquet(store, key)
        names = [name for name in _FEW if name in file.schema_arrow.names]
        table = file.read(columns=names)
        return [action for name in names for action in _decode_column(table, name)]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CorruptCheckpointError(table=store.url, file=key, detail=str(error)) from error


def _decode_column(table: pa.Table, name: str) -> Iterator[Action]:
    column = table.column(name)
    rows: Sequence[Any] = column.filter(pc.is_valid(column)).to_pylist(maps_as_pydicts="lossy")
    for row in rows:
        action = decode_action({name: row})
        if action is not None:
            yield action
