"""OPTIMIZE and REORG as users call them: the builder of `DeltaTable.optimize`, and the result rows."""

# ruff: noqa: N802, N803, TRY004  the reference's names and errors

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from tahoe.protocol.configuration.properties import NUM_INDEXED_COLUMNS
from tahoe.protocol.types.names import parse_column_list
from tahoe.spark.api.dml_arguments import condition_column, own_columns
from tahoe.spark.api.table_builder import column_names
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.layout.optimize import Optimize, add_filters, compact, purge, upgrade_for_iceberg
from tahoe.spark.layout.optimize_metrics import LAYOUT, optimized_row
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.calls import of_objects
from tahoe.table.layout.optimize import OptimizeReport
from tahoe.table.other_names import OPTIMIZE_BUILDER


@of_objects("table.optimize()", names=OPTIMIZE_BUILDER)
class DeltaOptimizeBuilder:
    """A builder of an OPTIMIZE: which files it rewrites, and how. Created by `DeltaTable.optimize`."""

    def __init__(self, target: DmlTarget) -> None:
        self._target = target
        self._conditions: list[Column] = []

    def __repr__(self) -> str:
        return (
            f"DeltaOptimizeBuilder({', '.join([repr(self._target.table.url), *('WHERE …' for _ in self._conditions)])})"
        )

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Rewrite only files that may contain rows for which a condition is true. All conditions of several calls must
        be true.

        Args:
            partitionFilter: SQL text; unlike in the reference, it may name any column.
        """
        if not isinstance(partitionFilter, str):
            raise ValueError(f"partitionFilter needs to be a string but got '{type(partitionFilter)}'.")
        self._conditions.append(own_columns(self._target, condition_column(partitionFilter)))
        return self

    def executeCompaction(self) -> DataFrame:
        """Combine small files into larger ones, and rewrite files with many deleted rows.

        Returns:
            one row: `path` and `metrics`, as of the statement OPTIMIZE.

        Raises:
            InvalidOptionError: a setting is invalid, or a condition has a subquery.
            DeltaConcurrentModificationException: other writers changed all parts of the table that were to be
                rewritten.
        """
        return run_optimize(self._target, self._conditions)

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Order the rows of each partition by some columns, so that queries skip files, and parts of files, by each of
        them.

        Rows that a previous call has ordered stay as they are, unless rows were added since. Without columns, files are
        compacted.

        Args:
            cols: columns, or fields of structs as `column.field`; names with a dot are quoted with backticks.

        Returns:
            one row: `path` and `metrics`, as of the statement OPTIMIZE.

        Raises:
            ZOrderPartitionColumnError, ZOrderColumnNotFoundError, ZOrderStatisticsError: a column does not fit.
            ClusteringWithZOrderError: the table is clustered.
            DeltaConcurrentModificationException: other writers changed all partitions that were to be ordered.
        """
        columns = tuple(map(_path, column_names("Z-order column must be str.", cols)))
        return run_optimize(self._target, self._conditions, zorder_by=columns)


def _path(text: str) -> tuple[str, ...]:
    try:
        (path,) = parse_column_list(text)
    except ValueError:  # not the name of a column
        return (text,)
    return path


def run_optimize(
    target: DmlTarget, conditions: Sequence[Column], *, zorder_by: tuple[tuple[str, ...], ...] = (), full: bool = False
) -> DataFrame:
    """Run OPTIMIZE, and return its result row."""
    command = Optimize(target=target, conditions=tuple(conditions), zorder_by=zorder_by, full=full)
    return _result(target, run_for_user(target.spark, lambda: compact(command)))


def run_reorg(target: DmlTarget, condition: Column | None) -> DataFrame:
    """Run REORG TABLE ... APPLY (PURGE), and return its result row."""
    return _result(target, purge_rows(target, condition))


def with_filters(target: DmlTarget, condition: Column | None) -> DataFrame:
    """Run REORG TABLE ... APPLY (BLOOMFILTER), and return its result row."""
    command = Optimize(target=target, conditions=() if condition is None else (condition,))
    return _result(target, run_for_user(target.spark, lambda: add_filters(command)))


def run_upgrade_uniform(target: DmlTarget, version: int) -> None:
    """Run REORG TABLE ... APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = version))."""
    run_for_user(target.spark, lambda: upgrade_for_iceberg(Optimize(target=target), version))


def purge_rows(target: DmlTarget, condition: Column | None, deleted_share: float = 0.0) -> OptimizeReport:
    """Rewrite files without their deleted rows."""
    command = Optimize(target=target, conditions=() if condition is None else (condition,))
    return run_for_user(target.spark, lambda: purge(command, deleted_share=deleted_share))


def _result(target: DmlTarget, report: OptimizeReport) -> DataFrame:
    snapshot = target.table.snapshot()
    indexed, columns = NUM_INDEXED_COLUMNS.get(snapshot.properties, table=snapshot.url), len(snapshot.schema)
    row = optimized_row(
        snapshot.url,
        report,
        columns=columns,
        columns_with_stats=columns if indexed < 0 else min(indexed, columns),
        parallelism=target.spark.sparkContext.defaultParallelism,
    )
    return result_frame(target.spark, [row], LAYOUT)
