"""MERGE: updates, deletes and inserts rows of a table according to the rows of a source.

The target is read once. Join-key pruning (`join_keys`) skips files and then rows, in generated code; only the remaining
rows are joined. The joined rows are materialised and used twice: to find the positions of the rows to delete, and to
write the new rows. On a table with deletion vectors, rows that no clause changes are not rewritten.

Paper §4.2; protocol "Deletion Vectors", "Change Data Files".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import MultipleSourceRowsError
from tahoe.protocol.changes.conflict import EVERYTHING, Reads
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.predicate import TRUE, Or, Predicate
from tahoe.spark.dml.merge_analysis import ACTION, AnalysedMerge, union
from tahoe.spark.dml.merge_command import MERGE, Clause, Kind, Merge, MergeCounts, check_command, evolved_schema
from tahoe.spark.dml.rerun import with_retries
from tahoe.spark.dml.row_changes import ROW_POSITION, RowChange, Touched, stored_columns
from tahoe.spark.dml.touched_rows import predicate_read
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import expressed
from tahoe.spark.reading.positions import LISTED_ROWS_MAX, MATCHES, Positions, are_few, gathered_from, positions_in
from tahoe.spark.writing.column_rules import Completed
from tahoe.table.reading.read_set import RowsRead

# How many keys an error shows.
_SHOWN_KEYS_MAX = 3


class _ChangeTypes(NamedTuple):
    """The `_change_type` of the old and of the new row of a change; empty if there is no such row."""

    old: str
    new: str


_CHANGE_TYPES: Mapping[Kind, _ChangeTypes] = {
    "update": _ChangeTypes("update_preimage", "update_postimage"),
    "delete": _ChangeTypes("delete", ""),
    "insert": _ChangeTypes("", "insert"),
}


def merge(command: Merge) -> MergeCounts:
    """Update, delete and insert rows, in one version.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, if a condition or a value is invalid or the table does
            not allow the MERGE.
        MultipleSourceRowsError: several rows of the source would change one row of the target.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    check_command(command)
    return with_retries(command.target, lambda target: _merge(replace(command, target=target)))


def _merge(command: Merge) -> MergeCounts:
    only_inserts = all(clause.kind == "insert" for clause in command.clauses)
    with RowChange(
        command.target, command=MERGE, removes_data=not only_inserts, evolve=partial(evolved_schema, command)
    ) as change:
        if change.options.merges_by_partition and change.snapshot.partition_columns:
            change.options = change.options.redistributing(True)
        analysed = AnalysedMerge(command, change)
        if change.is_recorded:
            return MergeCounts()
        return _insert_only(analysed) if only_inserts else _change(analysed)


def _insert_only(analysed: AnalysedMerge) -> MergeCounts:
    """Run a MERGE whose clauses only insert. It needs only the unmatched rows of the source."""
    change, began = analysed.change, time.monotonic()
    rows = analysed.unmatched_source()
    analysed.read_in([rows])
    predicate = _predicate(analysed, [rows])
    if len(analysed.command.not_matched) > 1:
        rows = change.materialise(rows)
    scan_end = time.monotonic()
    clauses = analysed.command.not_matched
    by_clause = [rows.where(F.col(ACTION) == number) for number in range(len(clauses))] if len(clauses) > 1 else [rows]
    new = _all([rows for _, rows in analysed.new_rows(list(zip(clauses, by_clause, strict=True)))])
    assert new is not None, "a MERGE has clauses"
    written = change.write(new)
    merged = MergeCounts(inserted=written.num_records)
    return merged if _commit(analysed, merged, {}, predicate, (began, scan_end)) else MergeCounts()


def _change(analysed: AnalysedMerge) -> MergeCounts:
    """Run a MERGE with a clause that updates or deletes. The rows that clauses apply to are materialised, because two
    queries use them: one for the positions of the rows to delete, one for the new rows.
    """
    change, began = analysed.change, time.monotonic()
    matches, unmatched_target = analysed.matches(), analysed.unmatched_target()
    analysed.read_in([rows for rows in (matches, unmatched_target) if rows is not None])
    predicate = _predicate(analysed, [rows for rows in (matches, unmatched_target) if rows is not None])
    matches = change.materialise(matches)
    unmatched_target = None if unmatched_target is None else change.materialise(unmatched_target)
    places = [rows.select(ACTION, ROW_POSITION) for rows in (matches, unmatched_target) if rows is not None]
    has_few = are_few(change.snapshot) and analysed.keys.rows <= LISTED_ROWS_MAX
    table = gathered_from(union(places), ROW_POSITION, ACTION, are_few=has_few)
    positions, counts = positions_in(table), _counts(table)
    repeated = positions.matches - positions.count
    if repeated:
        _check_repeated(analysed, matches)
        # duplicates delete the same row
        distinct = matches.where(F.col(ROW_POSITION).isNotNull()).dropDuplicates([ROW_POSITION])
        matches = matches.where(F.col(ROW_POSITION).isNull()).unionAll(distinct)
    scan_end = time.monotonic()
    touched = change.touch(positions)
    _write(analysed, matches, unmatched_target, positions, touched, counts)
    merged = _merge_counts(analysed.command, counts, repeated)
    return (
        merged if _commit(analysed, merged, counts, predicate, (began, scan_end), repeated=repeated) else MergeCounts()
    )


def _counts(table: pa.Table) -> dict[int, int]:
    """How many rows each clause applies to, by clause number."""
    sums = table.group_by(ACTION).aggregate([(MATCHES, "sum")])
    return dict(zip(sums[ACTION].to_pylist(), sums[f"{MATCHES}_sum"].to_pylist(), strict=True))


def _merge_counts(command: Merge, counts: Mapping[int, int], repeated: int) -> MergeCounts:
    of_kind = {
        kind: sum(counts.get(n, 0) for n, clause in enumerate(command.clauses) if clause.kind == kind)
        for kind in _CHANGE_TYPES
    }
    return MergeCounts(updated=of_kind["update"], deleted=of_kind["delete"] - repeated, inserted=of_kind["insert"])


def _check_repeated(analysed: AnalysedMerge, matches: DataFrame) -> None:
    """Refuse several source rows that match one target row, unless the only matched clause is an unconditional DELETE.

    Raises:
        MultipleSourceRowsError: with the keys of some of these target rows.
    """
    clauses = analysed.command.matched
    if len(clauses) == 1 and clauses[0].kind == "delete" and clauses[0].condition is None:
        return
    several = (
        matches.where(F.col(ROW_POSITION).isNotNull())
        .groupBy(ROW_POSITION)
        .count()
        .where("count > 1")
        .orderBy(ROW_POSITION)
        .limit(_SHOWN_KEYS_MAX)
    )
    places = [row[ROW_POSITION] for row in several.collect()]
    if not places:  # no row is matched twice; a condition that is true by chance may have found one in both parts
        return
    columns = analysed.keys.of_target() or [F.col(quoted(analysed.target.columns[0]))]
    rows = analysed.target.where(F.col(ROW_POSITION).isin(places)).select(*columns)
    shown = "; ".join(", ".join(f"{name} = {value}" for name, value in row.asDict().items()) for row in rows.collect())
    raise MultipleSourceRowsError(table=analysed.url, keys=shown, condition=analysed.condition)


def _write(
    analysed: AnalysedMerge,
    matches: DataFrame,
    unmatched_target: DataFrame | None,
    positions: Positions,
    touched: Sequence[Touched],
    counts: Mapping[int, int],
) -> None:
    """Write the new rows of the clauses, with change data files if the log needs them, and copy the rows that stay in
    rewritten files. `counts`: to how many rows each clause applies; a clause that applies to none is not run.
    """
    change, command = analysed.change, analysed.command
    sides = [
        (command.matched, matches),
        (command.not_matched, matches),
        (command.not_matched_by_source, unmatched_target),
    ]
    applied_clauses = [
        (clause, rows.where(F.col(ACTION) == command.clauses.index(clause)))
        for clauses, rows in sides
        if rows is not None
        for clause in clauses
        if counts.get(command.clauses.index(clause))
    ]
    copied = [] if change.deletes_by_vector else [t for t in touched if not t.is_whole]
    # else readers derive the changes from added and removed files and from deletion vectors
    needs_change_files = change.has_feed and (bool(copied) or any(c.kind == "update" for c, _ in applied_clauses))
    new_rows = analysed.new_rows(applied_clauses)
    if needs_change_files:
        _write_with_changes(analysed, applied_clauses, new_rows)
    elif (new := _all([part for _, part in new_rows])) is not None:
        change.write(new)
    if copied:
        change.write_others(positions, copied)


def _write_with_changes(
    analysed: AnalysedMerge,
    applied_clauses: Sequence[tuple[Clause, DataFrame]],
    new_rows: Sequence[tuple[Kind, Completed]],
) -> None:
    """Write new rows, and change data files with the old and the new rows of the clauses."""
    change, columns = analysed.change, stored_columns(analysed.change.plan.schema)
    new = _all(
        [
            replace(part, frame=part.frame.withColumn(CHANGE_TYPE, F.lit(_CHANGE_TYPES[kind].new)))
            for kind, part in new_rows
        ]
    )
    changes = [
        expressed(analysed.old_rows(rows), [*columns, f"'{_CHANGE_TYPES[clause.kind].old}' AS {CHANGE_TYPE}"])
        for clause, rows in applied_clauses
        if clause.kind != "insert"
    ]
    if new is not None:
        rows = change.materialise(new.frame)  # a non-deterministic expression must not be evaluated twice
        change.write(replace(new, frame=rows.drop(CHANGE_TYPE)))
        changes.append(expressed(rows, [*columns, CHANGE_TYPE]))
    change.write_changes(union(changes))


def _all(parts: Sequence[Completed]) -> Completed | None:
    """The union of the rows of several clauses; None if there are no parts."""
    if not parts:
        return None
    return Completed(
        frame=union([part.frame for part in parts]), minted=tuple({name for part in parts for name in part.minted})
    )


def _predicate(analysed: AnalysedMerge, frames: Sequence[DataFrame]) -> Predicate:
    """A predicate that covers all rows of the target that were read."""
    predicates = {predicate_read(Gateway(analysed.change.spark), frame, analysed.url) for frame in frames}
    return predicates.pop() if len(predicates) == 1 else Or(tuple(predicates))


def _commit(
    analysed: AnalysedMerge,
    merged: MergeCounts,
    counts: Mapping[int, int],
    predicate: Predicate,
    times: tuple[float, float],
    *,
    repeated: int = 0,
) -> bool:
    """Commit the MERGE. Returns False if another writer has already committed the same command (the same `txn`)."""
    change = analysed.change
    narrower = (lambda: TRUE) if analysed.command.not_matched_by_source else analysed.keys.predicate
    reads: Reads = RowsRead(change.snapshot, predicate, analysed.condition, narrower, analysed.row_condition())
    if analysed.reads_target:
        reads = EVERYTHING
    return (
        change.commit(MERGE, analysed.parameters, _metrics(analysed, merged, counts, repeated, times), reads)
        is not None
    )


def _metrics(
    analysed: AnalysedMerge, merged: MergeCounts, counts: Mapping[int, int], repeated: int, times: tuple[float, float]
) -> dict[str, int]:
    """The operation metrics, under the reference's names."""
    change, command = analysed.change, analysed.command

    def count(clauses: Sequence[Clause], kind: Kind) -> int:
        return sum(counts.get(command.clauses.index(clause), 0) for clause in clauses if clause.kind == kind)

    copied = change.num_written - merged.updated - merged.inserted
    began, scan_end = times
    return {
        "numSourceRows": analysed.keys.rows,
        "numTargetRowsInserted": merged.inserted,
        "numTargetRowsUpdated": merged.updated,
        "numTargetRowsMatchedUpdated": count(command.matched, "update"),
        "numTargetRowsNotMatchedBySourceUpdated": count(command.not_matched_by_source, "update"),
        "numTargetRowsDeleted": merged.deleted,
        "numTargetRowsMatchedDeleted": count(command.matched, "delete") - repeated,
        "numTargetRowsNotMatchedBySourceDeleted": count(command.not_matched_by_source, "delete"),
        "numTargetRowsCopied": copied,
        "numOutputRows": change.num_written,
        "numTargetFilesAdded": len(change.added_files),
        "numTargetFilesRemoved": len(change.removed_files),
        "numTargetBytesAdded": sum(file.size_bytes for file in change.added_files),
        "numTargetBytesRemoved": sum(file.size_bytes for file in change.removed_files),
        "numTargetChangeFilesAdded": len(change.change_files),
        **change.vector_metrics("numTarget"),
        "scanTimeMs": round((scan_end - began) * 1000),
        "rewriteTimeMs": round((time.monotonic() - scan_end) * 1000),
    }
