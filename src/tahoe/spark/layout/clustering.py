"""ZORDER BY and clustered tables in Spark's engine: for tables that one process should not lay out, or cannot read.

A sample of the rows plans the layout in the driver. Spark computes the part of the layout to which each row belongs,
brings the rows of each file into one task, and sorts them there by part.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.protocol.types.names import quoted
from tahoe.spark.dml.row_changes import ROW_POSITION, DmlTarget, RowChange
from tahoe.spark.writing.clustering_on_write import rows_of_files, sample_columns
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.store_assignment import without_void
from tahoe.table.layout.clustering import CubeBin
from tahoe.table.layout.laying_out import parts_of_file, sample_rows
from tahoe.table.layout.rewriting import Rewritten
from tahoe.table.writing.write_plan import WritePlan


def lay_out(target: DmlTarget, plan: WritePlan, cube: CubeBin) -> Rewritten:
    """Write the live rows of a cube's files as new files.

    Raises:
        Exception: an error of Spark; the new files are deleted.
    """
    with RowChange(target, removes_data=False, data_change=False, plan=plan) as change:
        names = [*without_void(change.schema).names, *change.kept_names]
        partitions = [F.col(quoted(name)) for name in change.snapshot.partition_columns]
        rows = _laid_out(change.rows(cube.numbers), cube, partitions)
        ordered = change.as_they_are(rows.select(*[F.col(quoted(name)) for name in names]))
        return Rewritten(files=tuple(change.write(Completed(frame=ordered)).files))


def _laid_out(rows: DataFrame, cube: CubeBin, partitions: list[Column]) -> DataFrame:
    """The rows of each new file in one task, in order.

    Args:
        partitions: the partition columns. The writer would sort rows by them if they were not already sorted so.
    """
    keys = [".".join(map(quoted, path)) for path in cube.order.columns]
    parts = parts_of_file(cube.rows, cube.file_count)
    share = min(1.0, sample_rows(cube.file_count, parts) / max(cube.rows, 1))
    sample = rows.select(*sample_columns(rows, keys)).sample(fraction=share, seed=0).toArrow()
    return rows_of_files(rows, sample, keys, cube.file_count, parts, ROW_POSITION, partitions)
