"""Reads and writes the parts of the record of loaded files: which of some files a table has loaded, and the new part of
a run of COPY INTO.

A part is sorted by path, in row groups with bounds, so that a look-up reads only the row groups between whose bounds a
path is. Knows no source of files, and commits nothing: a part that no commit names has no effect.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import CopiedFilesLostError
from tahoe.protocol.log.copied_files import CopiedFiles, CopiedPart
from tahoe.storage.env import Env, Store
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.chunks import is_in, sorted_table
from tahoe.table.arrow.parquet import UNREADABLE, open_parquet

SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
        pa.field("loaded_ms", pa.int64(), nullable=False),
    ]
)
"""Of a part: the url of a file, its size and its modification time as they were listed, and when it was loaded."""

# Small enough that a look-up of one file reads little, and large enough that the bounds of a million files are few.
_GROUP_ROWS = 16_384


def loaded_among(store: Store, record: CopiedFiles, paths: Sequence[str]) -> pa.Table:
    """Those of some files that were loaded before, as they were then: a table of `SCHEMA`, in no order.

    Args:
        paths: urls, sorted and without duplicates.

    Raises:
        CopiedFilesLostError: a part is missing or broken.
    """
    if not paths:
        return SCHEMA.empty_table()
    found = list(in_threads(lambda part: _entries(store, part, paths), record.parts))
    return _newest(found)


def all_loaded(store: Store, record: CopiedFiles) -> pa.Table:
    """Every file that was loaded, as `loaded_among`, sorted by path.

    Raises:
        CopiedFilesLostError
    """
    return joined([_entries(store, part, None) for part in record.parts])


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The entries of several parts, oldest first, sorted by path; of a file that is in several, the last one."""
    return sorted_table(_newest(tables), ["path"])


def _newest(tables: Sequence[pa.Table]) -> pa.Table:
    """The entries of several tables; of a path that is in several, the entry of the last one."""
    kept: list[pa.Table] = []
    for table in reversed(tables):
        entries = table
        for newer in kept:
            if len(entries) and len(newer):
                entries = entries.filter(pc.invert(is_in(entries["path"], newer["path"])))
        kept.append(entries)
    return pa.concat_tables([SCHEMA.empty_table(), *kept])


def _entries(store: Store, part: CopiedPart, paths: Sequence[str] | None) -> pa.Table:
    """The entries of a part; of some paths, if they are given."""
    try:
        with open_parquet(store, part.key) as file:
            groups = [
                (group, wanted)
                for group in range(file.metadata.num_row_groups)
                if (wanted := None if paths is None else _within(file.metadata, group, paths)) != []
            ]
            tables = [_of_paths(file.read_row_group(group).cast(SCHEMA), wanted) for group, wanted in groups]
    except UNREADABLE as error:
        raise CopiedFilesLostError(table=store.url, file=part.key, detail=str(error) or type(error).__name__) from error
    return pa.concat_tables([SCHEMA.empty_table(), *tables])


def _within(metadata: pq.FileMetaData, group: int, paths: Sequence[str]) -> list[str]:
    """The paths that are between the bounds of a row group."""
    statistics = metadata.row_group(group).column(0).statistics
    if statistics is None or not statistics.has_min_max:
        return list(paths)
    return list(paths[bisect_left(paths, statistics.min) : bisect_right(paths, statistics.max)])


def _of_paths(entries: pa.Table, paths: list[str] | None) -> pa.Table:
    if paths is None:
        return entries
    return entries.filter(pc.is_in(entries["path"], value_set=pa.array(paths, pa.string())))


def with_loaded(env: Env, record: CopiedFiles, files: pa.Table) -> tuple[CopiedFiles, str]:
    """Write the part of a run that has loaded some files.

    Args:
        files: of `SCHEMA`.

    Returns:
        the record after the run, and the key of the new part, to be deleted if it is not committed.

    Raises:
        CopiedFilesLostError: a part that the new one takes in is missing or broken.
    """
    taken_in = record.joined_with(len(files))
    entries = joined([*(_entries(env.store, part, None) for part in taken_in), files.cast(SCHEMA)])
    part = CopiedPart(name=record.part_name(taken_in, env.new_id()), files=len(entries))
    out = io.BytesIO()
    pq.write_table(
        entries, out, row_group_size=_GROUP_ROWS, compression="zstd", use_dictionary=False, write_page_checksum=True
    )
    env.store.put(part.key, out.getvalue())
    return record.after(taken_in, part), part.key


def copy_parts(source: Store, target: Store, record: CopiedFiles) -> None:
    """Copy the parts of a record into the log of another table, if they are not there yet.

    Raises:
        CopiedFilesLostError: a part is missing.
    """
    for part in record.parts:
        if target.head(part.key) is None:
            try:
                target.copy_from(source, part.key, part.key)
            except FileNotFoundError as error:
                raise CopiedFilesLostError(table=source.url, file=part.key, detail="it does not exist") from error
