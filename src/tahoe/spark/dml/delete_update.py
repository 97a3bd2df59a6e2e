"""DELETE and UPDATE of the rows for which a condition is true.

The condition is evaluated once, on the columns that it names, in the files that skipping leaves. With deletion vectors,
only changed rows are written. Paper §4.2; protocol "Deletion Vectors", "Change Data Files".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import WriteFailedError
from tahoe.protocol.changes.column_values import check_assigned
from tahoe.protocol.changes.conflict import EVERYTHING, Reads
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE
from tahoe.protocol.log.actions import Add
from tahoe.protocol.types.predicate import TRUE
from tahoe.spark.dml.rerun import with_retries
from tahoe.spark.dml.row_changes import (
    IS_FOUND,
    ROW_POSITION,
    DmlTarget,
    RowChange,
    Touched,
    given_by_update,
    stored_columns,
)
from tahoe.spark.dml.set_clauses import Assignment, first_parts, new_values, resolve_assignments
from tahoe.spark.dml.touched_rows import Search
from tahoe.spark.jvm.plans import expressed, projected
from tahoe.spark.reading.positions import Positions
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.write_inputs import reads_table
from tahoe.table.commit.row_deletions import alive_records
from tahoe.table.reading.read_set import RowsRead

DELETE, UPDATE = "DELETE", "UPDATE"

_OLD = "__tahoe_old"

# Updated rows are materialised between finding and writing them, so that they are found only once, if the files that
# may contain them have at most this many bytes per core.
_KEPT_BYTES_PER_CORE = 2 << 30

# Materialised rows are coalesced to about this many rows per task. Otherwise each task that has read some would write a
# small file.
_ROWS_PER_TASK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE FROM target WHERE condition; all rows without a condition."""

    target: DmlTarget
    condition: Column | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE target SET assignments WHERE condition; all rows without a condition."""

    target: DmlTarget
    assignments: tuple[Assignment, ...]
    condition: Column | None = None


# --- DELETE


def delete(command: Delete) -> int:
    """Delete rows.

    Returns:
        how many rows were deleted; -1 if whole files without a row count in the log were removed.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, if the condition is invalid or the table does not allow
            the DELETE.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    return with_retries(command.target, lambda target: _delete(replace(command, target=target)))


def _delete(command: Delete) -> int:
    with RowChange(command.target, command=DELETE) as change:
        if change.is_recorded:
            return 0
        if command.condition is None:
            everything = RowsRead(change.snapshot, TRUE, "the whole table")
            return _delete_files(change, list(change.snapshot.live.adds()), everything, [])
        search = Search(change, command.condition)
        if search.is_about_partitions:
            return _delete_files(change, search.whole_files(), search.reads, [search.text])
        return _delete_rows(change, search)


def _delete_files(change: RowChange, files: list[Add], reads: Reads, predicates: list[str]) -> int:
    """Remove whole files. Returns the number of deleted rows from their statistics; -1 if unknown."""
    change.remove(files)
    counts = [alive_records(file) for file in files]
    deleted = -1 if None in counts else sum(count for count in counts if count is not None)
    row_metrics = {"numDeletedRows": deleted} if deleted >= 0 else {}
    version = change.commit(DELETE, _parameters(predicates), _file_metrics(change) | row_metrics, reads, is_exact=True)
    return 0 if version is None else deleted


def _delete_rows(change: RowChange, search: Search) -> int:
    """Delete the rows that a search finds. Change data files are written only where files are rewritten: readers derive
    the changes from removed files and from deletion vectors.
    """
    began = time.monotonic()
    positions = search.positions()
    scan_end = time.monotonic()
    touched = change.touch(positions)
    copied = 0
    if not change.deletes_by_vector:
        copied = change.write_others(positions, [t for t in touched if not t.is_whole])
        if change.has_feed and not all(t.is_whole for t in touched):
            deleted = change.with_found_flag(change.rows([t.number for t in touched]), positions).where(F.col(IS_FOUND))
            change.write_changes(deleted.withColumn(CHANGE_TYPE, F.lit("delete")))
    metrics = (
        _file_metrics(change) | _times(began, scan_end) | {"numDeletedRows": positions.count, "numCopiedRows": copied}
    )
    version = change.commit(DELETE, _parameters([search.text]), metrics, search.reads, is_exact=search.is_exact)
    return 0 if version is None else positions.count


# --- UPDATE


def update(command: Update) -> int:
    """Update rows.

    Returns:
        how many rows were updated, including rows whose values did not change.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, if the condition or a value is invalid or the table does
            not allow it.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    return with_retries(command.target, lambda target: _update(replace(command, target=target)))


def _update(command: Update) -> int:
    """Run UPDATE once. Assignments are analysed and checked first, so that their errors come before any work, and also
    if the same command is already committed.
    """
    with RowChange(command.target, command=UPDATE) as change:
        search = Search(change, F.lit(True) if command.condition is None else command.condition)
        values = resolve_assignments(command.assignments, change.schema, command.target.name, change.snapshot.url)
        new_rows = _with_new_values(change, search.rows, values)
        check_assigned(change.values, first_parts(values), table=change.snapshot.url)
        change.check(new_rows)
        if change.is_recorded:
            return 0
        reads_more = reads_table(new_rows, command.target.table)
        began = time.monotonic()
        updated, positions = _rows_to_update(change, search, new_rows, values)
        scan_end = time.monotonic()
        touched = change.touch(positions)
        copied = 0 if updated is None else _write_updated(change, updated, positions, touched)
        metrics = (
            _file_metrics(change)
            | _times(began, scan_end)
            | {"numUpdatedRows": positions.count, "numCopiedRows": copied}
        )
        reads = EVERYTHING if reads_more else search.reads
        predicates = [] if command.condition is None else [search.text]
        version = change.commit(UPDATE, _parameters(predicates), metrics, reads, is_exact=not reads_more)
        return 0 if version is None else positions.count


Values: TypeAlias = Mapping[tuple[str, ...], Column]


def _with_new_values(change: RowChange, rows: DataFrame, values: Values) -> DataFrame:
    """The rows with their new values and positions; with a change data feed, also their old values."""
    columns = new_values(values, change.schema, change.schema, lambda name: name)
    old = [F.expr(f"struct({', '.join(stored_columns(change.schema))})").alias(_OLD)] if change.has_feed else []
    return projected(rows, [*columns, *change.kept_by_update(), ROW_POSITION, *old])


def _rows_to_update(
    change: RowChange, search: Search, new_rows: DataFrame, values: Values
) -> tuple[Completed | None, Positions]:
    """The updated rows (None if there are none) and their positions."""
    is_cheap = search.is_ruled_out or search.is_about_partitions
    completed = None if is_cheap else _as_stored(change, new_rows, values)
    if completed is not None and 0 < search.size_bytes(completed.frame) <= _KEPT_BYTES_PER_CORE * change.parallelism:
        materialised = change.materialise(completed.frame)
        with change.translating_failures():
            positions = search.positions(materialised)
        few = materialised.coalesce(max(change.parallelism, positions.count // _ROWS_PER_TASK))
        return replace(completed, frame=few) if positions.by_file else None, positions
    positions = search.positions()
    if not positions.by_file:
        return None, positions
    matched_rows = change.with_found_flag(search.again(sorted(positions.by_file)), positions).where(F.col(IS_FOUND))
    updated = _as_stored(change, _with_new_values(change, matched_rows, values), values)
    if change.has_feed:  # a non-deterministic expression must not be evaluated twice
        updated = replace(updated, frame=change.materialise(updated.frame))
    return updated, positions


def _as_stored(change: RowChange, rows: DataFrame, values: Values) -> Completed:
    """The updated rows as the table will store them."""
    return change.stored(
        rows, given=given_by_update(change, values), beside=[ROW_POSITION, *([_OLD] if change.has_feed else [])]
    )


def _write_updated(change: RowChange, updated: Completed, positions: Positions, touched: list[Touched]) -> int:
    """Write the updated rows and, without deletion vectors, copy the other rows of their files. Returns how many rows
    were copied.
    """
    if change.has_feed:
        before = updated.frame.select(f"{_OLD}.*", F.lit("update_preimage").alias(CHANGE_TYPE))
        after = expressed(updated.frame, [*stored_columns(change.schema), f"'update_postimage' AS {CHANGE_TYPE}"])
        change.write_changes(before.unionAll(after))
    written = change.write(replace(updated, frame=updated.frame.drop(ROW_POSITION, _OLD)))
    if written.num_records != positions.count:
        detail = f"{positions.count} rows should have been updated, but {written.num_records} were written"
        raise WriteFailedError(
            table=change.snapshot.url, detail=f"{detail}: a second read of the table's files returned other rows."
        )
    return 0 if change.deletes_by_vector else change.write_others(positions, [t for t in touched if not t.is_whole])


# --- for the history


def _parameters(predicates: Sequence[str]) -> dict[str, Any]:
    return {"predicate": json.dumps(predicates)}


def _times(began: float, scan_end: float) -> dict[str, int]:
    return {
        "scanTimeMs": round((scan_end - began) * 1000),
        "rewriteTimeMs": round((time.monotonic() - scan_end) * 1000),
    }


def _file_metrics(change: RowChange) -> dict[str, int]:
    removed, added = change.removed_files, change.added_files
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(file.size_bytes for file in removed),
        "numAddedFiles": len(added),
        "numAddedBytes": sum(file.size_bytes for file in added),
        "numAddedChangeFiles": len(change.change_files),
        **change.vector_metrics("num"),
    }
