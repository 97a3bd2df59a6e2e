"""Row deletions: the rows of a file that a transaction deletes through its deletion vector.

Protocol: "Writer Requirements for Deletion Vectors", "Per-file Statistics". A row deletion names rows and not a vector, so that it can be
rebased onto the vector that the file has after other writers have won.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from tahoe.errors import DataFileMissingError
from tahoe.protocol.actions import Action, Add, DeletionVectorDescriptor, Remove, remove_of
from tahoe.protocol.conflict import RowIndexes
from tahoe.protocol.file_paths import resolve_path
from tahoe.protocol.stats import num_records_of, wide_bounds
from tahoe.table.log.deletion_vectors import deleted_rows_of, write_vectors
from tahoe.table.log.delta_log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDeletion:
    """Rows to delete from one file.

    Attributes:
        file: the file's newest action.
        is_new: whether this commit itself adds the file. The rows are then copies of rows that other commits have deleted meanwhile.
    """

    file: Add
    rows: RowIndexes
    is_new: bool = False


def write_deletions(log: Log, deletions: Iterable[RowDeletion], version: int, keys: list[str]) -> list[Action]:
    """Write the new deletion vectors of files.

    Args:
        version: the version that the files are read at, for errors.
        keys: gets the deletion vector files, each before it is written.

    Returns:
        a remove for each file that is not new, and an add with the new vector if the file still has rows.

    Raises:
        DeletionVectorError, DataFileMissingError: a file or its present vector cannot be read.
    """
    now_ms = log.env.clock_ms()
    wanted = list(deletions)
    before = deleted_rows_of(log, [deletion.file for deletion in wanted])
    rows = [deletion.rows | deleted for deletion, deleted in zip(wanted, before, strict=True)]
    totals = [num_records(log, deletion.file, version) for deletion in wanted]
    left = [number for number, (deleted, total) in enumerate(zip(rows, totals, strict=True)) if len(deleted) < total]
    descriptors = write_vectors(log, [rows[number] for number in left], keys)
    again = [_with_vector(wanted[number], vector, totals[number]) for number, vector in zip(left, descriptors, strict=True)]
    removes = (remove_of(deletion.file, now_ms) for deletion in wanted if not deletion.is_new)
    return [*removes, *again]


def _with_vector(deletion: RowDeletion, vector: DeletionVectorDescriptor, total: int) -> Add:
    stats = wide_bounds(deletion.file.stats, total)
    return deletion.file.replace(deletion_vector=vector, stats=stats, data_change=not deletion.is_new)


def num_records(log: Log, file: Add, version: int) -> int:
    """The physical number of rows, from the statistics or else from the file's footer."""
    known = num_records_of(file.stats)
    if known is not None:
        return known
    store, key = log.locate(resolve_path(file.path, log.url))
    try:
        with store.open(key) as content:
            rows: int = pq.read_metadata(content).num_rows
            return rows
    except FileNotFoundError as error:
        raise DataFileMissingError.of(table=log.url, file=file.path, version=version) from error


def alive_records(file: Add) -> int | None:
    """How many rows of a file are not deleted; None if its statistics have no row count."""
    total, vector = num_records_of(file.stats), file.deletion_vector
    return None if total is None else total - (vector.cardinality if vector else 0)


def with_row_ids_of(actions: Sequence[Action], winner: Iterable[Action], canonical: Callable[[str], str]) -> Sequence[Action]:
    """The actions with the row ids that a winner gave to files which they remove.

    Protocol: "Writer Requirements for Row Tracking". A remove has the base row id of the last add of its file.
    """
    newer = {canonical(a.path): a for a in winner if isinstance(a, Add) and a.base_row_id is not None}
    if not newer:
        return actions
    return [_with_ids(a, newer.get(canonical(a.path))) if isinstance(a, Remove) else a for a in actions]


def _with_ids(remove: Remove, add: Add | None) -> Remove:
    if add is None:
        return remove
    return remove.replace(base_row_id=add.base_row_id, default_row_commit_version=add.default_row_commit_version)


def rebased(deletions: Mapping[str, RowDeletion], actions: Iterable[Action], canonical: Callable[[str], str]) -> Mapping[str, RowDeletion]:
    """Rebase row deletions onto the adds that a winning commit has for their files."""
    newer = {path: a for a in actions if isinstance(a, Add) and (path := canonical(a.path)) in deletions}
    if not newer:
        return deletions
    return {path: replace(deletion, file=newer[path]) if path in newer else deletion for path, deletion in deletions.items()}
