"""Commits that tahoe reads and does not write itself yet: deletion vectors, renamed columns, tracked rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, DeletionVectorDescriptor, Protocol, Remove, encode_commit
from tahoe.protocol.log.deletion_vector import (
    encode_bitmap,
    encode_vector_file,
    inline_descriptor,
    stored_descriptor,
    vector_file_path,
)
from tahoe.protocol.types.schema import Struct
from tahoe.table.reading.snapshot import Snapshot


def commit(path: str, *actions: Action) -> int:
    """Put the next commit of a table."""
    table = tahoe.Table(path)
    version = table.version + 1
    assert table.env.store.put_if_absent(log_files.commit_key(version), encode_commit(actions))
    return version


def mark(
    path: str, rows: Mapping[int, Iterable[int]], *, stored: bool = False, tight: Mapping[str, object] | None = None
) -> int:
    """Mark rows as deleted: row indexes by the position of their file, files in the order of their paths.

    Args:
        stored: the vectors are in one file of the table, and not in the log.
        tight: statistics of the rows that are left; without them, the statistics stay and are said to be wide.
    """
    snapshot = tahoe.Table(path).snapshot()
    adds = sorted(snapshot.live.adds(), key=lambda add: add.path)
    marked = {position: list(indexes) for position, indexes in rows.items()}
    vectors = (
        _stored(path, list(marked.values())) if stored else [inline_descriptor(indexes) for indexes in marked.values()]
    )
    actions: list[Action] = [_with_vectors(snapshot.protocol)]
    for position, vector in zip(marked, vectors, strict=True):
        add = adds[position]
        stats = json.dumps({**json.loads(add.stats or "{}"), "tightBounds": tight is not None, **(tight or {})})
        actions.append(
            Remove(path=add.path, data_change=True, deletion_timestamp_ms=1, deletion_vector=add.deletion_vector)
        )
        actions.append(add.replace(deletion_vector=vector, stats=stats, data_change=True))
    return commit(path, *actions)


def _stored(path: str, rows: Sequence[Sequence[int]]) -> list[DeletionVectorDescriptor]:
    name, bitmaps = uuid.uuid4().bytes, [encode_bitmap(indexes) for indexes in rows]
    data, offsets = encode_vector_file(bitmaps)
    assert tahoe.Table(path).env.store.put_if_absent(vector_file_path("", name), data)
    return [stored_descriptor("", name, o, b, len(set(r))) for o, b, r in zip(offsets, bitmaps, rows, strict=True)]


def _with_vectors(protocol: Protocol) -> Protocol:
    return _with_features(protocol, {"deletionVectors"}, set())


def _with_features(protocol: Protocol, readers: set[str], writers: set[str]) -> Protocol:
    mapped = protocol.reader_version == 2 or "columnMapping" in (protocol.reader_features or ())
    reader = frozenset(readers | (set(protocol.reader_features or ()) | ({"columnMapping"} if mapped else set())))
    writer = frozenset(reader | writers | set(protocol.writer_features or ()) | {"appendOnly", "invariants"})
    return Protocol(reader_version=3, writer_version=7, reader_features=reader, writer_features=writer)


# The columns of data files that keep what rows of a table with row tracking were given before.
KEPT_ID, KEPT_VERSION = "_row-id-col-1`2", "_row-commit-version-col-1"


def track(
    path: str, kept: Mapping[int, Sequence[tuple[int | None, int | None]]] | None = None, without: Collection[int] = ()
) -> int:
    """Switch row tracking on. In the order of paths, files have the base row ids 1000, 2000, ..., and the commit
    versions 10, 11, ...

    Args:
        kept: for files by position, the row id and the commit version that each of their rows brought with it.
        without: the positions of files without a base row id.
    """
    snapshot = tahoe.Table(path).snapshot()
    names = {"materializedRowIdColumnName": KEPT_ID, "materializedRowCommitVersionColumnName": KEPT_VERSION}
    properties = {
        "delta.enableRowTracking": "true",
        **{f"delta.rowTracking.{name}": value for name, value in names.items()},
    }
    actions: list[Action] = [_with_features(snapshot.protocol, set(), {"rowTracking", "domainMetadata"})]
    actions.append(snapshot.metadata.replace(configuration={**snapshot.metadata.configuration, **properties}))
    for position, add in enumerate(adds_of(snapshot)):
        file = add if position not in (kept or {}) else _with_kept(path, add, (kept or {})[position])
        if file.path != add.path:
            actions.append(
                Remove(path=add.path, data_change=False, deletion_timestamp_ms=1, deletion_vector=add.deletion_vector)
            )
        base = (
            {}
            if position in without
            else {"base_row_id": 1000 * (position + 1), "default_row_commit_version": 10 + position}
        )
        actions.append(file.replace(**base, data_change=False))
    return commit(path, *actions)


def _with_kept(path: str, add: Add, kept: Sequence[tuple[int | None, int | None]]) -> Add:
    """A copy of a data file that has the columns as well, in several row groups."""
    rows = pq.ParquetFile(Path(path, add.path)).read()
    for name, values in zip((KEPT_ID, KEPT_VERSION), zip(*kept, strict=True), strict=True):
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    copy = str(Path(add.path).with_suffix(".kept.parquet"))
    pq.write_table(rows, Path(path, copy), row_group_size=3)
    return add.replace(path=copy, size_bytes=Path(path, copy).stat().st_size)


def change_schema(path: str, schema: Struct, **metadata: object) -> int:
    """Another writer's ALTER TABLE."""
    current = tahoe.Table(path).snapshot().metadata
    return commit(path, current.replace(schema_string=schema.to_json(), **metadata))


def adds_of(snapshot: Snapshot) -> list[Add]:
    return sorted(snapshot.live.adds(), key=lambda add: add.path)


def larger_files(path: str, rows: int) -> list[int]:
    """The positions, as `mark` counts them, of the files with so many rows at least."""
    adds = adds_of(tahoe.Table(path).snapshot())
    return [position for position, add in enumerate(adds) if json.loads(add.stats or "{}")["numRecords"] >= rows]
