"""REORG: rewrites files without the rows that deletion vectors mark.

Protocol: "Deletion Vectors". The table's rows do not change, so REORG conflicts only with commits that remove one of the rewritten files
or mark rows in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column

from tahoe.errors import InvalidOptionError
from tahoe.spark.dml.row_changes import RowChange, Target
from tahoe.spark.dml.touched_rows import Search
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import StatisticsRequest
from tahoe.table.reading.scan import Scan

REORG = "REORG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """REORG TABLE target WHERE condition APPLY (PURGE).

    Attributes:
        condition: on partition columns; None selects all files.
        deleted_share: rewrite files in which more than this share of the rows is marked, from 0 to 1. 0 selects every file with a vector.
    """

    target: Target
    condition: Column | None = None
    deleted_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """The result of a purge.

    Attributes:
        removed, added: the sizes of the removed and added files, in bytes.
        rows_removed: how many rows deletion vectors marked in the removed files.
        partitions: how many partitions the removed files were in.
        files_considered: how many files the table has in the selected partitions.
    """

    removed: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    rows_removed: int = 0
    partitions: int = 0
    files_considered: int = 0
    began_ms: int = 0


def purge(command: Purge) -> Purged:
    """Rewrite files without their deleted rows.

    Raises:
        InvalidOptionError: the share is not between 0 and 1, or the condition names other than partition columns.
        DeltaConcurrentModificationException: a concurrent commit has changed one of the files.
    """
    if not 0 <= command.deleted_share <= 1:
        detail = "it must be a number from 0 to 1"
        raise InvalidOptionError(option="deletedShare", value=command.deleted_share, table=command.target.table.url, detail=detail)
    with RowChange(command.target, removes_data=False, data_change=False) as change:
        began_ms = int(time.time() * 1000)
        marked, considered = _marked_files(change, command)
        files = list(marked.adds())
        if not files:
            return Purged(files_considered=considered, began_ms=began_ms)
        assert marked.rows is not None
        rows = change.rows(marked.rows.to_pylist())
        change.remove(files)
        change.write_again(rows)
        purged = Purged(
            removed=tuple(file.size_bytes for file in files),
            added=tuple(file.size_bytes for file in change.added_files),
            rows_removed=sum(file.deletion_vector.cardinality for file in files if file.deletion_vector is not None),
            partitions=len({tuple(file.partition_values.items()) for file in files}),
            files_considered=considered,
            began_ms=began_ms,
        )
        metrics = {
            "numRemovedFiles": len(purged.removed),
            "numRemovedBytes": sum(purged.removed),
            "numAddedFiles": len(purged.added),
            "numAddedBytes": sum(purged.added),
            "numDeletionVectorsRemoved": len(files),
        }
        change.commit(REORG, {"predicate": "[]", "applyPurge": True}, metrics, None)
        return purged


def _marked_files(change: RowChange, command: Purge) -> tuple[Scan, int]:
    """The files to rewrite, whose vectors mark more than the share, and the number of files in the selected partitions."""
    scan = change.snapshot.everything
    vectors = scan.column("deletion_vector")
    wanted = np.asarray(one_array(pc.is_valid(vectors)))
    if command.deleted_share > 0:
        deleted = pa.chunked_array([pc.struct_field(chunk, "cardinality") for chunk in vectors.chunks], pa.int64())
        records = change.snapshot.live.statistics(StatisticsRequest({})).column("num_records")
        share = pc.divide(deleted.cast(pa.float64()), records.cast(pa.float64()))
        wanted = wanted & np.asarray(one_array(pc.fill_null(pc.greater(share, command.deleted_share), True)))
    numbers = set(np.flatnonzero(wanted).tolist())
    considered = len(wanted)
    if command.condition is not None:
        search = Search(change, command.condition)
        if not search.is_about_partitions:
            detail = f"it must reference only partition columns ({', '.join(change.snapshot.partition_columns) or 'none'})"
            raise InvalidOptionError(option="where", value=search.text, table=change.snapshot.url, detail=detail)
        within = set(search.whole_numbers())
        numbers &= within
        considered = len(within)
    return Scan(change.snapshot, None, pa.array(sorted(numbers), pa.uint64())), considered
