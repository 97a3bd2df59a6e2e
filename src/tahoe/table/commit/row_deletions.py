"""Deleting rows of files by marking them: what becomes of a file whose rows a transaction deletes.

Protocol: "Writer Requirements for Deletion Vectors", "Per-file Statistics". A mark names rows, not a vector, so that it is done again on
whatever vector the file has once other writers were first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from tahoe.errors import DataFileMissingError
from tahoe.protocol.actions import Action, Add, remove_of
from tahoe.protocol.conflict import RowIndexes
from tahoe.protocol.partitions import resolve_path
from tahoe.protocol.stats import num_records_of, wide_bounds
from tahoe.table.log.deletion_vectors import deleted_rows_of, write_vectors
from tahoe.table.log.delta_log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Rows of one live file that are to be deleted; `file` is its newest action."""

    file: Add
    rows: RowIndexes


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What marks come to: a tombstone for each file, and the file again under its new vector unless no row is left.

    Attributes:
        keys: of the vector files that were written for it.
    """

    actions: tuple[Action, ...] = ()
    keys: tuple[str, ...] = ()


def mark_files(log: Log, marks: Iterable[Mark], version: int) -> Marked:
    """Write the vectors of marked files.

    Args:
        version: that the files are read at, for errors.

    Raises:
        DeletionVectorError, DataFileMissingError: a file, or the vector that it has, cannot be read.
    """
    now_ms = log.env.clock_ms()
    wanted = list(marks)
    before = deleted_rows_of(log, [mark.file for mark in wanted])
    rows = [mark.rows | deleted for mark, deleted in zip(wanted, before, strict=True)]
    totals = [num_records(log, mark.file, version) for mark in wanted]
    left = [number for number, (marked, total) in enumerate(zip(rows, totals, strict=True)) if len(marked) < total]
    descriptors, keys = write_vectors(log, [rows[number] for number in left])
    again = [
        replace(wanted[number].file, deletion_vector=vector, stats=wide_bounds(wanted[number].file.stats, totals[number]), data_change=True)
        for number, vector in zip(left, descriptors, strict=True)
    ]
    return Marked(actions=(*(remove_of(mark.file, now_ms) for mark in wanted), *again), keys=tuple(keys))


def num_records(log: Log, file: Add, version: int) -> int:
    """The physical number of rows, by the statistics or else by the file itself."""
    known = num_records_of(file.stats)
    if known is not None:
        return known
    store, key = log.locate(resolve_path(file.path, log.url))
    try:
        with store.open(key) as content:
            rows: int = pq.read_metadata(content).num_rows
            return rows
    except FileNotFoundError as error:
        raise DataFileMissingError(table=log.url, file=file.path, version=version) from error


def alive_records(file: Add) -> int | None:
    """How many rows of a file are left, where its statistics tell."""
    total, vector = num_records_of(file.stats), file.deletion_vector
    return None if total is None else total - (vector.cardinality if vector else 0)


def follow(marks: Mapping[str, Mark], actions: Iterable[Action], canonical: Callable[[str], str]) -> Mapping[str, Mark]:
    """The marks once a winner's commit is there: on the actions that the files have now."""
    newer = {path: a for a in actions if isinstance(a, Add) and (path := canonical(a.path)) in marks}
    return {path: replace(mark, file=newer[path]) if path in newer else mark for path, mark in marks.items()} if newer else marks
