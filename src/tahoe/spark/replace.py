"""Overwriting the rows for which a condition on any column is true: DELETE and append, in one version.

Where the condition is about partitions alone, whole files are replaced, and `tahoe.table.writing` plans it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.protocol.change_feed import CHANGE_TYPE
from tahoe.protocol.conflict import EVERYTHING
from tahoe.spark.data_writer import failures_told, rows_for_files
from tahoe.spark.fitting import without_void
from tahoe.spark.row_changes import MARK, RowChange, Target, columns_of
from tahoe.spark.search import Search
from tahoe.spark.write_options import WriteOptions
from tahoe.table.writing import WritePlan


def replace_rows(plan: WritePlan, options: WriteOptions, frame: DataFrame) -> int | None:
    """Delete the rows that the plan's `replaceWhere` holds for, and add those of a DataFrame.

    Returns:
        the version that was made; None where another writer has recorded this very write meanwhile.

    Raises:
        AnalysisException: Spark does not understand the condition.
        DeltaConcurrentModificationException: another writer was first, and it matters.
    """
    target = Target(spark=frame.sparkSession, table=plan.table)
    with RowChange(target, plan=plan, options=options) as change:
        text = plan.request.replace_where or ""
        search = Search(change, F.expr(text))
        with failures_told(plan, change.refusals):
            rows = rows_for_files(plan, frame, change.refusals, checks_replace_where=options.replace_where_is_checked)
        positions = search.positions()
        touched = change.touch(positions)
        others = [] if change.has_vectors else [t for t in touched if not t.is_whole]
        if others and change.has_feed:
            kept = change.once(rows.rows)  # the data may be others when they are computed again
            written = change.write(replace(rows, rows=kept))
            columns = columns_of(without_void(plan.schema))
            marked = change.marked(change.rows([t.number for t in touched]), positions).where(F.col(MARK))
            gone = change.as_they_are(marked.select(*columns_of(without_void(change.schema))))
            before = gone.select(*columns, F.lit("delete").alias(CHANGE_TYPE))
            change.write_changes(before.unionAll(kept.select(*columns, F.lit("insert").alias(CHANGE_TYPE))))
        else:
            written = change.write(rows)
        copied = change.write_others(positions, others)
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
        parameters = {"mode": "Overwrite", "partitionBy": list(plan.partition_columns), "predicate": text}
        reads = EVERYTHING if plan.request.reads_target else search.reads
        is_exact = search.is_exact and not plan.request.reads_target
        return change.commit(plan.request.operation, parameters, metrics, reads, is_exact=is_exact)
