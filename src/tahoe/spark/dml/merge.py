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

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import MultipleSourceRowsError
from tahoe.protocol.changes.conflict import EVERYTHING, Reads
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.predicate import TRUE, Or, Predicate
from tahoe.spark.dml.merge_analysis import ACTION, AnalysedMerge, union
from tahoe.spark.dml.merge_command import MERGE, Clause, Kind, Merge, Merged, check_command, evolved_schema
from tahoe.spark.dml.rerun import with_retries
from tahoe.spark.dml.row_changes import ROW_POSITION, RowChange, Touched, stored_columns
from tahoe.spark.dml.touched_rows import predicate_read
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import expressed
from tahoe.spark.reading.positions import LISTED_ROWS_MAX, MATCHES, Positions, are_few, gathered, gathered_from
from tahoe.spark.writing.column_rules import Completed
from tahoe.table.reading.read_set import RowsRead

# How many keys an error shows.
_SHOWN_KEYS_MAX = 3


# The `_change_type` of the old and of the new row, for each kind of clause.
_CHANGE_TYPES: Mapping[Kind, tuple[str, str]] = {
    "update": ("update_preimage", "update_postimage"),
    "delete": ("delete", ""),
    "insert": ("", "insert"),
}


def merge(command: Merge) -> Merged:
    """Update, delete and insert rows, in one version.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, if a condition or a value is invalid or the table does
            not allow the MERGE.
        MultipleSourceRowsError: several rows of the source would change one row of the target.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    check_command(command)
    return with_retries(command.target, lambda target: _merge(replace(command, target=target)))


def _merge(command: Merge) -> Merged:
    only_inserts = all(clause.kind == "insert" for clause in command.clauses)
    with RowChange(
        command.target, command=MERGE, removes_data=not only_inserts, evolve=partial(evolved_schema, command)
    ) as change:
        if change.options.merges_by_partition and change.snapshot.partition_columns:
            change.options = change.options.redistributing(True)
        analysed = AnalysedMerge(command, change)
        if change.is_recorded:
            return Merged()
        return _insert_only(analysed) if only_inserts else _change(analysed)


def _insert_only(analysed: AnalysedMerge) -> Merged:
    """Run a MERGE whose clauses only insert. It needs only the unmatched rows of the source."""
    change, began = analysed.change, time.monotonic()
    rows = analysed.unmatched()
    analysed.read_in([rows])
    predicate = _predicate(analysed, [rows])
    if len(analysed.command.not_matched) > 1:
        rows = change.materialise(rows)
    found = time.monotonic()
    clauses = analysed.command.not_matched
    chosen = [rows.where(F.col(ACTION) == number) for number in range(len(clauses))] if len(clauses) > 1 else [rows]
    new = _all([rows for _, rows in analysed.new_rows(list(zip(clauses, chosen, strict=True)))])
    assert new is not None, "a MERGE has clauses"
    written = change.write(new)
    merged = Merged(inserted=written.num_records)
    return merged if _commit(analysed, merged, {}, predicate, (began, found)) else Merged()


def _change(analysed: AnalysedMerge) -> Merged:
    change, began = analysed.change, time.monotonic()
    matches, left_alone = analysed.matches(), analysed.left_alone()
    analysed.read_in([rows for rows in (matches, left_alone) if rows is not None])
    predicate = _predicate(analysed, [rows for rows in (matches, left_alone) if rows is not None])
    matches, left_alone = change.materialise(matches), None if left_alone is None else change.materialise(left_alone)
    places = [rows.select(ACTION, ROW_POSITION) for rows in (matches, left_alone) if rows is not None]
    lists = are_few(change.snapshot) and analysed.keys.rows <= LISTED_ROWS_MAX
    table = gathered_from(union(places), ROW_POSITION, ACTION, are_few=lists)
    positions = gathered(table)
    counts = _counts(table)
    repeated = positions.matches - positions.count
    if repeated:
        _check_repeated(analysed, matches)
        placed = matches.where(F.col(ROW_POSITION).isNotNull()).dropDuplicates(
            [ROW_POSITION]
        )  # duplicates delete the same row
        matches = matches.where(F.col(ROW_POSITION).isNull()).unionAll(placed)
    found = time.monotonic()
    touched = change.touch(positions)
    _write(analysed, matches, left_alone, positions, touched, counts)
    merged = _merged(analysed.command, counts, repeated)
    return merged if _commit(analysed, merged, counts, predicate, (began, found), repeated=repeated) else Merged()


def _counts(table: pa.Table) -> dict[int, int]:
    """How many rows each clause applies to, by clause number."""
    sums = table.group_by(ACTION).aggregate([(MATCHES, "sum")])
    return dict(zip(sums[ACTION].to_pylist(), sums[f"{MATCHES}_sum"].to_pylist(), strict=True))


def _merged(command: Merge, counts: Mapping[int, int], repeated: int) -> Merged:
    of_kind = {
        kind: sum(counts.get(n, 0) for n, clause in enumerate(command.clauses) if clause.kind == kind)
        for kind in _CHANGE_TYPES
    }
    return Merged(updated=of_kind["update"], deleted=of_kind["delete"] - repeated, inserted=of_kind["insert"])


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
    if not places:  # `left_alone` is an anti join and repeats no row
        return
    columns = analysed.keys.of_target() or [F.col(quoted(analysed.target.columns[0]))]
    rows = analysed.target.where(F.col(ROW_POSITION).isin(places)).select(*columns)
    shown = "; ".join(", ".join(f"{name} = {value}" for name, value in row.asDict().items()) for row in rows.collect())
    raise MultipleSourceRowsError(table=analysed.url, keys=shown, condition=analysed.condition)


def _write(
    analysed: AnalysedMerge,
    matches: DataFrame,
    left_alone: DataFrame | None,
    positions: Positions,
    touched: Sequence[Touched],
    counts: Mapping[int, int],
) -> None:
    change, command = analysed.change, analysed.command
    sides = [(command.matched, matches), (command.not_matched, matches), (command.not_matched_by_source, left_alone)]
    happened = [
        (clause, rows.where(F.col(ACTION) == command.clauses.index(clause)))
        for clauses, rows in sides
        if rows is not None
        for clause in clauses
        if counts.get(command.clauses.index(clause))
    ]
    copied = [] if change.deletes_by_vector else [t for t in touched if not t.is_whole]
    feeds = change.has_feed and (bool(copied) or any(clause.kind == "update" for clause, _ in happened))
    written = analysed.new_rows(happened)
    if not feeds:
        everything = _all([part for _, part in written])
        if everything is not None:
            change.write(everything)
    if feeds:
        columns = stored_columns(change.plan.schema)
        new = _all(
            [
                replace(part, frame=part.frame.withColumn(CHANGE_TYPE, F.lit(_CHANGE_TYPES[kind][1])))
                for kind, part in written
            ]
        )
        old = [
            expressed(analysed.old_rows(rows), [*columns, f"'{_CHANGE_TYPES[clause.kind][0]}' AS {CHANGE_TYPE}"])
            for clause, rows in happened
            if clause.kind != "insert"
        ]
        if new is not None:
            rows = change.materialise(new.frame)  # a non-deterministic expression must not be evaluated twice
            change.write(replace(new, frame=rows.drop(CHANGE_TYPE)))
            old.append(expressed(rows, [*columns, CHANGE_TYPE]))
        change.write_changes(union(old))
    if copied:
        change.write_others(positions, copied)


def _all(parts: Sequence[Completed]) -> Completed | None:
    """The union of the rows of several clauses; None if there are no parts."""
    if not parts:
        return None
    return Completed(
        frame=union([part.frame for part in parts]), minted=tuple({name for part in parts for name in part.minted})
    )


def _predicate(analysed: AnalysedMerge, frames: Sequence[DataFrame]) -> Predicate:
    """A predicate that covers all rows of the target that were read."""
    found = {predicate_read(Gateway(analysed.change.spark), frame, analysed.url) for frame in frames}
    return found.pop() if len(found) == 1 else Or(tuple(found))


def _commit(
    analysed: AnalysedMerge,
    merged: Merged,
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
    analysed: AnalysedMerge, merged: Merged, counts: Mapping[int, int], repeated: int, times: tuple[float, float]
) -> dict[str, int]:
    """The operation metrics, under the reference's names."""
    change, command = analysed.change, analysed.command

    def count(clauses: Sequence[Clause], kind: Kind) -> int:
        return sum(counts.get(command.clauses.index(clause), 0) for clause in clauses if clause.kind == kind)

    copied = change.num_written - merged.updated - merged.inserted
    began, found = times
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
        "scanTimeMs": round((found - began) * 1000),
        "rewriteTimeMs": round((time.monotonic() - found) * 1000),
    }
