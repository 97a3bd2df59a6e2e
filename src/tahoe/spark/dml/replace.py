"""Overwrites of some rows: rows for which a condition on any column holds (replaceWhere), or that match a row of the
data (replaceUsing, replaceOn). It is a DELETE and an append in one version.

A condition on partition columns alone replaces whole files; `tahoe.table.writing.planning` plans it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import ColumnNotFoundError
from tahoe.protocol.changes.conflict import EVERYTHING
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE
from tahoe.protocol.types.names import quoted
from tahoe.spark.dml.row_changes import IS_FOUND, DmlTarget, RowChange, stored_columns
from tahoe.spark.dml.touched_rows import Search
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import dataset, expressed, java_column
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.data_writer import rows_for_files, translating_failures
from tahoe.spark.writing.store_assignment import retyped
from tahoe.spark.writing.write_options import WriteOptions
from tahoe.table.writing.write_plan import WritePlan

# The table's alias in the condition of replaceUsing.
_TABLE = "__tahoe_table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Which rows of the table a row of the data replaces: rows with the same values in some columns (`using`), or rows
    for which a condition (`on`) holds. The condition may use columns of both sides; a name that both have is the
    data's.

    Attributes:
        text: the columns or the condition as SQL, for the history.
        alias: the table's alias in the condition.
    """

    text: str
    using: tuple[str, ...] = ()
    on: Column | None = None
    alias: str | None = None

    @classmethod
    def of(cls, options: WriteOptions) -> Matching | None:
        """The matching from a writer's options; None if they have none."""
        if options.replace_using is not None:
            return cls.of_columns(options.replace_using)
        if options.replace_on is None:
            return None
        return cls(text=options.replace_on, on=F.expr(options.replace_on), alias=options.target_alias)

    @classmethod
    def of_columns(cls, names: Sequence[str]) -> Matching:
        return cls(text=f"({', '.join(names)})", using=tuple(names), alias=_TABLE)


def replace_rows(
    plan: WritePlan,
    options: WriteOptions,
    frame: DataFrame,
    matching: Matching | None = None,
    user_frame: DataFrame | None = None,
) -> int | None:
    """Delete the rows for which the plan's `replaceWhere` holds, or that rows of the data match, and append the rows of
    a DataFrame.

    Args:
        user_frame: the same rows with the user's column names, for a condition on both sides.

    Returns:
        the committed version; None if another writer has meanwhile committed the same write (the same `txn`).

    Raises:
        AnalysisException: Spark cannot analyse the condition.
        ColumnNotFoundError: the data or the table lacks a column of replaceUsing.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    target = DmlTarget(spark=frame.sparkSession, table=plan.table, alias=None if matching is None else matching.alias)
    with RowChange(target, plan=plan, options=options) as change:
        if matching is None:
            condition = F.expr(plan.request.replace_where or "")
        else:
            names, schema = frame.columns, frame.schema
            materialised = change.materialise(
                frame if user_frame is None else user_frame
            )  # computing the data twice might give different rows
            frame = retyped(materialised.toDF(*names), schema)
            condition = _condition(matching, plan, materialised, frame)
        search = Search(change, condition)
        with translating_failures(plan, change.refusals):
            new = rows_for_files(plan, frame, change.refusals, checks_replace_where=options.replace_where_is_checked)
        return _delete_and_append(change, search, new, _history_parameters(plan, matching))


def _history_parameters(plan: WritePlan, matching: Matching | None) -> dict[str, str]:
    """The history parameters that say which rows are replaced, under the reference's names."""
    if matching is None:
        return {"predicate": plan.request.replace_where or ""}
    return {"replaceOnCond" if matching.on is not None else "replaceUsingCols": matching.text}


def _condition(matching: Matching, plan: WritePlan, user_frame: DataFrame, frame: DataFrame) -> Column:
    """The condition on rows of the table that a row of the data replaces them."""
    if matching.on is not None:
        return _exists(user_frame, matching.on)
    for where, has in ((plan.url, plan.schema.names), ("the data", frame.columns)):
        names = {name.lower() for name in has}
        missing = next((name for name in matching.using if name.lower() not in names), None)
        if missing is not None:
            raise ColumnNotFoundError(table=where, column=missing, columns=", ".join(has))
    same = [F.col(quoted(name)) == F.col(f"{_TABLE}.{quoted(name)}") for name in matching.using]
    return _exists(frame, reduce(lambda left, right: left & right, same))


def _exists(rows: DataFrame, condition: Column) -> Column:
    """Whether a condition holds for one of the rows. It may use columns of both sides; an ambiguous name is a column of
    `rows`.
    """
    gateway = Gateway(rows.sparkSession)
    return gateway.column_of(gateway.java_class("delta.Target").exists(dataset(rows), java_column(condition)))


def _delete_and_append(
    change: RowChange, search: Search, new: Completed, matching_parameters: Mapping[str, str]
) -> int | None:
    """Delete the rows that a search finds, write the new ones, and commit both. As for DELETE, change data files are
    written only where files are rewritten; they then have the new rows too.
    """
    plan = change.plan
    positions = search.positions()
    touched = change.touch(positions)
    partly_touched = [] if change.deletes_by_vector else [t for t in touched if not t.is_whole]
    if partly_touched and change.has_feed:
        materialised = change.materialise(new.frame)  # computing the data twice might give different rows
        written = change.write(replace(new, frame=materialised))
        columns = stored_columns(plan.schema)
        deleted_rows = change.with_found_flag(change.rows([t.number for t in touched]), positions).where(
            F.col(IS_FOUND)
        )
        deleted = change.as_they_are(expressed(deleted_rows, stored_columns(change.schema)))
        before, after = (
            expressed(rows, [*columns, f"'{kind}' AS {CHANGE_TYPE}"])
            for rows, kind in ((deleted, "delete"), (materialised, "insert"))
        )
        change.write_changes(before.unionAll(after))
    else:
        written = change.write(new)
    copied = change.write_others(positions, partly_touched)
    removed = change.removed_files
    metrics = {
        **written.metrics,
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(file.size_bytes for file in removed),
        "numDeletedRows": positions.count,
        "numCopiedRows": copied,
        "numAddedChangeFiles": len(change.change_files),
        **change.vector_metrics("num"),
    }
    reads = EVERYTHING if plan.request.reads_target else search.reads
    is_exact = search.is_exact and not plan.request.reads_target
    parameters = {"mode": "Overwrite", "partitionBy": list(plan.partition_columns), **matching_parameters}
    return change.commit(plan.request.operation, parameters, metrics, reads, is_exact=is_exact)
