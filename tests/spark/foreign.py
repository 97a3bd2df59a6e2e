"""Commits that tahoe reads and does not write itself yet: deletion vectors, renamed columns."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import tahoe
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, DeletionVectorDescriptor, Protocol, Remove, encode_commit
from tahoe.protocol.deletion_vector import encode_bitmap, encode_vector_file, inline_descriptor, stored_descriptor, vector_file_path
from tahoe.protocol.schema import Struct
from tahoe.table.snapshot import Snapshot


def commit(path: str, *actions: Action) -> int:
    """Put the next commit of a table."""
    table = tahoe.Table(path)
    version = table.version + 1
    assert table.env.store.put_if_absent(log_files.commit_key(version), encode_commit(actions))
    return version


def mark(path: str, rows: Mapping[int, Iterable[int]], *, stored: bool = False, tight: Mapping[str, object] | None = None) -> int:
    """Mark rows as deleted: row indexes by the position of their file, files in the order of their paths.

    Args:
        stored: the vectors are in one file of the table, and not in the log.
        tight: statistics of the rows that are left; without them, the statistics stay and are said to be wide.
    """
    snapshot = tahoe.Table(path).snapshot()
    adds = sorted(snapshot.live.adds(), key=lambda add: add.path)
    marked = {position: list(indexes) for position, indexes in rows.items()}
    vectors = _stored(path, list(marked.values())) if stored else [inline_descriptor(indexes) for indexes in marked.values()]
    actions: list[Action] = [_with_vectors(snapshot.protocol)]
    for position, vector in zip(marked, vectors, strict=True):
        add = adds[position]
        stats = json.dumps({**json.loads(add.stats or "{}"), "tightBounds": tight is not None, **(tight or {})})
        actions.append(Remove(path=add.path, data_change=True, deletion_timestamp_ms=1, deletion_vector=add.deletion_vector))
        actions.append(replace(add, deletion_vector=vector, stats=stats, data_change=True))
    return commit(path, *actions)


def _stored(path: str, rows: Sequence[Sequence[int]]) -> list[DeletionVectorDescriptor]:
    name, bitmaps = uuid.uuid4().bytes, [encode_bitmap(indexes) for indexes in rows]
    data, offsets = encode_vector_file(bitmaps)
    assert tahoe.Table(path).env.store.put_if_absent(vector_file_path("", name), data)
    return [stored_descriptor("", name, o, b, len(set(r))) for o, b, r in zip(offsets, bitmaps, rows, strict=True)]


def _with_vectors(protocol: Protocol) -> Protocol:
    features = {"deletionVectors"}
    mapped = protocol.reader_version == 2 or "columnMapping" in (protocol.reader_features or ())
    reader = frozenset(features | (set(protocol.reader_features or ()) | ({"columnMapping"} if mapped else set())))
    writer = frozenset(reader | set(protocol.writer_features or ()) | {"appendOnly", "invariants"})
    return Protocol(reader_version=3, writer_version=7, reader_features=reader, writer_features=writer)


def change_schema(path: str, schema: Struct, **metadata: object) -> int:
    """Another writer's ALTER TABLE."""
    current = tahoe.Table(path).snapshot().metadata
    return commit(path, replace(current, schema_string=schema.to_json(), **metadata))


def adds_of(snapshot: Snapshot) -> list[Add]:
    return sorted(snapshot.live.adds(), key=lambda add: add.path)


def larger_files(path: str, rows: int) -> list[int]:
    """The positions, as `mark` counts them, of the files with so many rows at least."""
    adds = adds_of(tahoe.Table(path).snapshot())
    return [position for position, add in enumerate(adds) if json.loads(add.stats or "{}")["numRecords"] >= rows]
