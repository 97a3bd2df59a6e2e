"""OPTIMIZE and REORG in a Spark session: where files are rewritten, and what the session's settings say.

Arrow rewrites a bin faster than Spark's engine: no row becomes an object of the JVM. On a cluster each bin is a task in
a Python worker. Spark's engine rewrites what Arrow cannot: files in a Hadoop file system, shredded variants, dates in
the Julian calendar; and all bins if the executors have no tahoe. Cubes, which have many files, are laid out in the
driver, or by Spark's engine on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tahoe.protocol.configuration.properties import TARGET_FILE_SIZE
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.predicate import And, Predicate
from tahoe.spark.configuration import setting_names
from tahoe.spark.dml.row_changes import DmlTarget, RowChange
from tahoe.spark.dml.touched_rows import Search
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.jvm.hadoop_store import is_hadoops
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.layout.clustering import lay_out
from tahoe.spark.layout.workers import in_workers, is_local
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.store_assignment import without_void
from tahoe.table.layout.clustering import CubeBin, OrderRequest
from tahoe.table.layout.compaction import GIB, Bin, CompactionSettings
from tahoe.table.layout.laying_out import lay_out_in_threads
from tahoe.table.layout.optimize import (
    FILTERS,
    REORG,
    OptimizeReport,
    OptimizeRequest,
    Rewriter,
    optimize,
    result_or_error,
    rewritten_in_threads,
    summary,
)
from tahoe.table.layout.rewriting import Rewritten, rewrite_of
from tahoe.table.layout.upgrade_uniform import upgrade_uniform
from tahoe.table.writing.parquet_files import WRITES_BLOOM_FILTERS
from tahoe.table.writing.write_plan import WritePlan

# Less than this is rewritten in the driver: a job would start Python workers first.
DRIVER_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """OPTIMIZE target FULL WHERE conditions ZORDER BY columns, or REORG TABLE target WHERE conditions APPLY (PURGE).

    Attributes:
        conditions: a file is considered if it may contain a row for which all of them are true.
    """

    target: DmlTarget
    conditions: tuple[Column, ...] = ()
    zorder_by: tuple[tuple[str, ...], ...] = ()
    full: bool = False


def compact(command: Optimize) -> OptimizeReport:
    """Compact a table, or lay out its rows, with the session's settings `spark.databricks.delta.optimize.*`.

    Raises:
        InvalidOptionError: a setting is invalid, or a condition has a subquery.
        DeltaAnalysisError: ZORDER BY, FULL or the conditions do not fit the table; see `order_of`.
        DeltaConcurrentModificationException: other writers changed all parts of the table that were to be rewritten.
    """
    return _run(command, OptimizeRequest(settings=_settings(command.target), order=_order(command)))


def explain(command: Optimize) -> str:
    """What `compact` would do, and why.

    Raises:
        InvalidOptionError, DeltaAnalysisError: as `compact`.
    """
    request = OptimizeRequest(settings=_settings(command.target), order=_order(command))
    return summary(optimize(command.target.table, _with_conditions(command, request), dry_run=True))


def purge(command: Optimize, *, deleted_share: float = 0.0) -> OptimizeReport:
    """Rewrite the files in which deletion vectors mark more than a share of the rows.

    Raises:
        InvalidOptionError: the share is not between 0 and 1, or a condition names other than partition columns.
        DeltaConcurrentModificationException: concurrent commits have changed all the files.
    """
    if not 0 <= deleted_share <= 1:
        detail = "it must be a number from 0 to 1"
        raise InvalidOptionError(
            option="deletedShare", value=deleted_share, table=command.target.table.url, detail=detail
        )
    settings = replace(_settings(command.target), min_file_bytes=0, max_deleted_share=deleted_share)
    return _run(command, OptimizeRequest(settings=settings, operation=REORG), only_partitions=True)


def add_filters(command: Optimize) -> OptimizeReport:
    """Rewrite the files that lack Bloom filters for which the table has definitions.

    Raises:
        InvalidOptionError: a condition names other than partition columns.
        DeltaConcurrentModificationException: concurrent commits have changed all the files.
    """
    request = OptimizeRequest(settings=_settings(command.target), operation=REORG, purpose=FILTERS)
    return _run(command, request, only_partitions=True)


def upgrade_for_iceberg(command: Optimize, version: int) -> None:
    """Give a table Iceberg's metadata, and rewrite the files that Iceberg's readers could not read.

    Raises:
        InvalidOptionError, InvalidPropertyError, UnsupportedOperationError: as `upgrade_uniform`.
        DeltaConcurrentModificationException: concurrent commits have changed all the files.
    """
    target = command.target
    upgrade_uniform(target.table, version, lambda request: _run(command, request), **author_of(target.spark))


def _run(command: Optimize, request: OptimizeRequest, *, only_partitions: bool = False) -> OptimizeReport:
    target = command.target
    request = _with_conditions(command, request, only_partitions=only_partitions)
    report = optimize(target.table, request, rewriter=_Rewriter(target))
    if report.version is not None:
        recache(Gateway(target.spark), target.table.url)
    return report


def _with_conditions(command: Optimize, request: OptimizeRequest, *, only_partitions: bool = False) -> OptimizeRequest:
    """The request with the command's conditions, and what the history tells of the session."""
    target = command.target
    conditions = [_read_condition(target, condition, only_partitions) for condition in command.conditions]
    return replace(
        request,
        filter=And(tuple(predicate for predicate, _ in conditions)) if conditions else None,
        predicates=tuple(text for _, text in conditions),
        **author_of(target.spark),
    )


def _read_condition(target: DmlTarget, condition: Column, only_partitions: bool) -> tuple[Predicate, str]:
    """A condition as a predicate, and as SQL text."""
    with RowChange(target, removes_data=False, data_change=False) as change:
        search = Search(change, condition)
        if only_partitions and not search.names_partitions_only:
            detail = (
                "it must name only partition columns "
                f"({', '.join(change.snapshot.partition_columns) or 'there are none'})"
            )
            raise InvalidOptionError(option="where", value=search.text, table=change.snapshot.url, detail=detail)
        if search.has_subquery:
            raise InvalidOptionError(
                option="where", value=search.text, table=change.snapshot.url, detail="it must not have a subquery"
            )
        return search.closest, search.text


def _settings(target: DmlTarget) -> CompactionSettings:
    """The session's settings; the table's `delta.targetFileSize` is the default size."""
    table = target.table.url
    settings = Gateway(target.spark).settings()
    default = TARGET_FILE_SIZE.get(target.table.snapshot().properties, table=table) or GIB
    return CompactionSettings(
        max_file_bytes=setting_names.OPTIMIZE_MAX_SIZE.of(settings, table=table) or default,
        min_file_bytes=setting_names.OPTIMIZE_MIN_SIZE.of(settings, table=table) or default,
        max_deleted_share=setting_names.OPTIMIZE_DELETED.of(settings, table=table),
        batch_bytes=setting_names.OPTIMIZE_BATCH.of(settings, table=table),
    )


def _order(command: Optimize) -> OrderRequest:
    """The order that OPTIMIZE asks for, with what the session's settings say about it."""
    target = command.target
    settings = Gateway(target.spark).settings()
    rows = int(settings.get("spark.sql.files.maxRecordsPerFile", "0"))
    return OrderRequest(
        zorder_by=command.zorder_by,
        is_full=command.full,
        checks_statistics=setting_names.ZORDER_CHECKS.of(settings, table=target.table.url),
        check=setting_names.ZORDER_CHECKS.name,
        max_file_rows=rows if rows > 0 else None,
        closed_bytes=setting_names.CUBE_CLOSED.of(settings, table=target.table.url),
    )


# --- where bins are rewritten


def rewriter_of(target: DmlTarget) -> Rewriter:
    """A function that rewrites bins of a table where it is fastest."""
    return _Rewriter(target)


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """Rewrites bins where it is fastest: in threads of the driver, in Python workers, or in Spark's engine."""

    target: DmlTarget

    def __call__(self, plan: WritePlan, bins: Sequence[Bin]) -> Iterator[Rewritten | BaseException]:
        """Yields a result for each bin. Spark's engine rewrites the bins that tahoe's own writer refuses, and all bins
        if the workers have no tahoe.
        """
        if is_hadoops(plan.table.url) or (plan.filtered_columns and not WRITES_BLOOM_FILTERS):
            yield from (self._rewritten_by_spark(plan, one_bin) for one_bin in bins)
            return
        rewritten: Iterable[Rewritten | BaseException]
        is_near = is_local(self.target.spark) or sum(one_bin.live_bytes for one_bin in bins) <= DRIVER_BYTES_MAX
        if any(isinstance(one_bin, CubeBin) for one_bin in bins):
            rewritten = (
                lay_out_in_threads(plan, bins)
                if is_near
                else (self._rewritten_by_spark(plan, one_bin) for one_bin in bins)
            )
        else:
            rewritten = rewritten_in_threads(plan, bins) if is_near else self._in_workers(plan, bins)
        for one_bin, result in zip(bins, rewritten, strict=True):
            yield (
                self._rewritten_by_spark(plan, one_bin)
                if isinstance(result, UnsupportedOperationError | ModuleNotFoundError)
                else result
            )

    def _in_workers(self, plan: WritePlan, bins: Sequence[Bin]) -> Iterable[Rewritten | BaseException]:
        work = [rewrite_of(plan, one_bin.numbers) for one_bin in bins]
        rewritten = in_workers(self.target.spark, result_or_error, work, table=plan.url)
        return [ModuleNotFoundError("tahoe")] * len(bins) if rewritten is None else rewritten

    def _rewritten_by_spark(self, plan: WritePlan, one_bin: Bin) -> Rewritten | BaseException:
        try:
            if isinstance(one_bin, CubeBin):
                return lay_out(self.target, plan, one_bin)
            with RowChange(self.target, removes_data=False, data_change=False, plan=plan) as change:
                names = [*without_void(change.schema).names, *change.kept_names]
                rows = change.rows(one_bin.numbers).select(*[F.col(quoted(name)) for name in names])
                written = change.write(Completed(frame=change.as_they_are(rows).coalesce(1)))
                return Rewritten(files=tuple(written.files))
        except Exception as error:
            return error
