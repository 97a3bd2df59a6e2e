"""The sidecars of a version's checkpoint that its next checkpoint refers to again: a checkpoint then costs as much as
what has changed, and not as much as the table.

Protocol: "Sidecar Files", "V2 Spec". A sidecar is kept if none of its files was removed, if it has no tombstone and not
few files, and if it has the columns that the writer would give it today. Metadata cleanup deletes expired checkpoints
first, and then the sidecars that no checkpoint refers to. So a sidecar is safe if the checkpoint that it was taken from
is there when the new one has been put: whoever deletes that checkpoint later finds the new one.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import DeltaError, DeltaStorageError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Sidecar
from tahoe.protocol.log.log_files import Kind
from tahoe.storage.env import Store
from tahoe.table.arrow.parquet import NestedColumns
from tahoe.table.arrow.row_group_bounds import null_counts
from tahoe.table.log.file_parts import GONE, CheckpointPart, Part
from tahoe.table.log.grouped_part import GroupedPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

# If more of the files would be written anew, all are: in one order, which serves queries better.
_REWRITTEN_SHARE_MAX = 0.5

# A name that is its own spelling in a url.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class KeptSidecars:
    """What a checkpoint takes from the one before.

    Attributes:
        base: the keys of the files of that checkpoint.
        sidecars: those that are kept.
        files: how many files they have.
        others: the files of the version that are in none of them.
    """

    base: frozenset[str]
    sidecars: tuple[Sidecar, ...]
    files: int
    others: LiveFiles

    def are_safe(self, store: Store, key: str) -> bool:
        """Whether no cleanup can have taken the sidecars for unused, as far as the storage tells; asked before a file
        is put, and when it has been.

        Args:
            key: of the file: only a checkpoint refers to sidecars.
        """
        file = log_files.parse_name(key.rpartition("/")[2])
        if file is None or not file.is_checkpoint:
            return True
        try:
            return all(store.head(base) is not None for base in self.base)
        except DeltaStorageError:
            return False


def kept_sidecars(snapshot: Snapshot, schema: pa.Schema, files_min: int) -> KeptSidecars | None:
    """The sidecars that the checkpoint of a version keeps; None if it is written as a whole.

    Args:
        schema: of the sidecars that the checkpoint would be written with.
        files_min: sidecars with fewer files are joined with others.
    """
    if snapshot.live.files_at_most < files_min:
        return None
    live = _by_newest_checkpoint(snapshot)
    base = frozenset[str]() if live.origin is None else live.origin.checkpoint
    if not base or not all(map(_is_unique, base)):
        return None
    parquet_schema = _as_written(schema)
    parts, others = live.divided(partial(_is_kept, schema=parquet_schema, files_min=files_min))
    if live.origin is None or live.origin.checkpoint != base:
        return None  # that checkpoint turned out to be gone or broken
    files = sum(part.num_rows for part in parts)
    if not parts or others.files_at_most > _REWRITTEN_SHARE_MAX * (files + others.files_at_most):
        return None
    return KeptSidecars(
        base=frozenset(f"{log_files.LOG_FOLDER}/{name}" for name in base),
        sidecars=tuple(_sidecar(columns) for part in parts if (columns := _file_of(part)) is not None),
        files=files,
        others=others,
    )


def _by_newest_checkpoint(snapshot: Snapshot) -> LiveFiles:
    """The files of a version as the newest checkpoint has them: a handle that is open for long began with an older
    one, or with none.
    """
    log, origin = snapshot.log, snapshot.live.origin
    try:
        newest = log.segment(snapshot.version).checkpoint
        if newest is None or (origin is not None and origin.checkpoint == {file.name for file in newest.files}):
            return snapshot.live
        return load_snapshot(log, snapshot.version, by_checksum=False).live
    except (DeltaError, *GONE):  # the writer finds out whether the version still exists
        return snapshot.live


def _is_unique(name: str) -> bool:
    """Whether no other checkpoint ever has the name: one of a classic name may have been replaced."""
    file = log_files.parse_name(name)
    return file is not None and file.kind is Kind.UUID_CHECKPOINT


def _is_kept(part: Part, schema: pq.ParquetSchema, files_min: int) -> bool:
    """Whether a part is a sidecar as it was written, and as it would be written today."""
    columns = _file_of(part)
    if columns is None or not _is_like(columns, schema):
        return False
    files = int((columns.group_rows - null_counts(columns, "add.path")).sum())
    return files >= files_min and part.num_rows == files


def _is_like(columns: NestedColumns, schema: pq.ParquetSchema) -> bool:
    folder, _, name = columns.key.rpartition("/")
    return bool(
        folder == log_files.SIDECAR_FOLDER
        and _PLAIN_NAME.fullmatch(name)
        and columns.footer.schema.equals(schema)
        and np.all(null_counts(columns, "remove.path") == columns.group_rows)
        and np.all(null_counts(columns, "add.path") >= 0)
    )


def _file_of(part: Part) -> NestedColumns | None:
    match part:
        case GroupedPart():
            return part.file.columns
        case CheckpointPart():
            return part.columns
        case _:
            return None


def _sidecar(columns: NestedColumns) -> Sidecar:
    info = columns.info
    name = columns.key.rpartition("/")[2]
    return Sidecar(path=name, size_bytes=info.size_bytes, modification_time_ms=info.modified_ms)


def _as_written(schema: pa.Schema) -> pq.ParquetSchema:
    """The Parquet schema of a file that is written with a schema of Arrow."""
    out = io.BytesIO()
    with pq.ParquetWriter(out, schema, store_schema=False):
        pass
    return pq.ParquetFile(out).schema
