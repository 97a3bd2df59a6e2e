"""Row deletions: the rows of a file that a transaction deletes through its deletion vector.

Protocol: "Writer Requirements for Deletion Vectors", "Per-file Statistics". A row deletion names rows and not a vector,
so that it can be rebased onto the vector that the file has after other writers have won.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from tahoe.errors import DataFileMissingError, InvalidDataFileError
from tahoe.protocol.changes.conflict import RowIndexes
from tahoe.protocol.log.actions import Action, Add, DeletionVectorDescriptor, Remove, remove_of
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.statistics.stats import num_records_of, wide_bounds
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import UNREADABLE
from tahoe.table.log.deletion_vectors import deleted_rows_of, write_vectors
from tahoe.table.log.delta_log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDeletion:
    """Rows to delete from one file.

    Attributes:
        file: the file's newest action.
        is_new: whether this commit itself adds the file. The rows are then copies of rows that other commits have
            deleted meanwhile.
        total: the physical number of rows, if the file's footer was asked.
    """

    file: Add
    rows: RowIndexes
    is_new: bool = False
    total: int | None = None


def write_deletions(log: Log, deletions: Iterable[RowDeletion], version: int, keys: list[str]) -> list[Action]:
    """Write the new deletion vectors of files.

    Args:
        version: the version that the files are read at, for errors.
        keys: gets the deletion vector files, each before it is written.

    Returns:
        a remove for each file that is not new, and an add with the new vector if the file still has rows.

    Raises:
        DeletionVectorError, DataFileMissingError, InvalidDataFileError: a file or its present vector cannot be read.
    """
    now_ms = log.env.clock_ms()
    uncounted = list(deletions)
    before = deleted_rows_of(log, [deletion.file for deletion in uncounted])
    rows = [deletion.rows | deleted for deletion, deleted in zip(uncounted, before, strict=True)]
    counted_deletions = counted(log, uncounted, [len(each) for each in rows], version)
    totals = [
        num_records_of(deletion.file.stats) or 0 if deletion.total is None else deletion.total
        for deletion in counted_deletions
    ]
    with_rows = [
        number for number, (deleted, total) in enumerate(zip(rows, totals, strict=True)) if len(deleted) < total
    ]
    descriptors = write_vectors(log, [rows[number] for number in with_rows], keys)
    adds = [
        _with_vector(counted_deletions[number], vector, totals[number])
        for number, vector in zip(with_rows, descriptors, strict=True)
    ]
    removes = (remove_of(deletion.file, now_ms) for deletion in counted_deletions if not deletion.is_new)
    return [*removes, *adds]


def _with_vector(deletion: RowDeletion, vector: DeletionVectorDescriptor, total: int) -> Add:
    stats = wide_bounds(deletion.file.stats, total)
    return deletion.file.replace(deletion_vector=vector, stats=stats, data_change=not deletion.is_new)


def counted(log: Log, deletions: Sequence[RowDeletion], deleted: Sequence[int], version: int) -> list[RowDeletion]:
    """The deletions, with the number of rows in the file where the statistics leave no row, or do not tell.

    Statistics that count too few must not remove a file with rows that nobody deleted, so the footer is asked before a
    file is removed.

    Args:
        deleted: for each, how many rows of its file are deleted then.

    Raises:
        DataFileMissingError, InvalidDataFileError: a footer cannot be read.
    """

    def is_unsure(deletion: RowDeletion, many: int) -> bool:
        told = num_records_of(deletion.file.stats)
        return deletion.total is None and (told is None or (many >= told and not deletion.is_new))

    found = list(deletions)
    unsure = [place for place, each in enumerate(zip(found, deleted, strict=True)) if is_unsure(*each)]
    totals = in_threads(lambda place: stored_records(log, found[place].file, version), unsure)
    for place, total in zip(unsure, totals, strict=True):
        found[place] = replace(found[place], total=total)
    return found


def num_records(log: Log, file: Add, version: int) -> int:
    """The physical number of rows, from the statistics or else from the file's footer.

    Raises:
        DataFileMissingError, InvalidDataFileError: the footer is needed, and cannot be read.
    """
    known = num_records_of(file.stats)
    return stored_records(log, file, version) if known is None else known


def with_counted_rows(log: Log, adds: Iterable[Add], version: int) -> list[Add]:
    """Entries of existing files with the numbers of rows in their footers, where this commit gives row ids to them.

    Another writer's statistics may tell fewer rows, and a row id would be given twice. Statistics that are wrong about
    the number of rows are left out. A file that is gone has no rows, so its statistics are as good.

    Raises:
        DataFileMissingError, InvalidDataFileError: a footer cannot be read, and statistics do not do.
    """

    def counted_rows(add: Add) -> Add:
        try:
            total = stored_records(log, add, version)
        except DataFileMissingError:
            total = num_records(log, add, version)
        return add if num_records_of(add.stats) == total else add.replace(stats=wide_bounds(None, total))

    entries = list(adds)
    counted = iter(in_threads(counted_rows, [add for add in entries if add.base_row_id is None]))
    return [next(counted) if add.base_row_id is None else add for add in entries]


def stored_records(log: Log, file: Add, version: int) -> int:
    """The physical number of rows, from the file's footer.

    Raises:
        DataFileMissingError, InvalidDataFileError: the footer cannot be read.
    """
    store, key = log.locate(resolve_path(file.path, log.url))
    try:
        with store.open(key) as content:
            rows: int = pq.read_metadata(content).num_rows
            return rows
    except FileNotFoundError as error:
        raise DataFileMissingError.of(table=log.url, file=file.path, version=version) from error
    except UNREADABLE as error:
        raise InvalidDataFileError(table=log.url, file=file.path, detail=str(error)) from error


def alive_records(file: Add) -> int | None:
    """How many rows of a file are not deleted; None if its statistics have no row count."""
    total, vector = num_records_of(file.stats), file.deletion_vector
    return None if total is None else total - (vector.cardinality if vector else 0)


def with_row_ids_of(
    actions: Sequence[Action], winner: Iterable[Action], canonical: Callable[[str], str]
) -> Sequence[Action]:
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


def rebased(
    deletions: Mapping[str, RowDeletion], actions: Iterable[Action], canonical: Callable[[str], str]
) -> Mapping[str, RowDeletion]:
    """Rebase row deletions onto the adds that a winning commit has for their files."""
    newer = {path: a for a in actions if isinstance(a, Add) and (path := canonical(a.path)) in deletions}
    if not newer:
        return deletions
    return {
        path: replace(deletion, file=newer[path]) if path in newer else deletion for path, deletion in deletions.items()
    }
