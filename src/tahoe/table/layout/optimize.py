"""OPTIMIZE: rewrites small files, and files with many deleted rows, into larger ones, or lays out rows by columns. The
rows stay the same.

Protocol: "Add File and Remove File", `dataChange`. If a row of a rewritten file was deleted meanwhile, it is deleted in
the new file as well (`commit/carried_deletions`). Where that is not possible, the bin is dropped, and the others are
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._progress import showing
from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.configuration.features import keeps_partitions_in_files
from tahoe.protocol.configuration.row_tracking import field_ids
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.cubes import CUBE_ID
from tahoe.protocol.statistics.clustering import columns_without_statistics
from tahoe.protocol.statistics.moved_rows import CopiedRows
from tahoe.protocol.types.names import counted
from tahoe.protocol.types.predicate import Predicate
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.commit.draft import OperationInfo
from tahoe.table.layout.clustering import CubeBin, Order, OrderRequest, in_cubes_of, order_of, plan_cubes
from tahoe.table.layout.compaction import Bin, CompactionSettings, bins_of, plan_bins, reasons
from tahoe.table.layout.dropped_columns import has_dropped_columns
from tahoe.table.layout.lacking_filters import lacks_filters
from tahoe.table.layout.laying_out import lay_out_in_threads
from tahoe.table.layout.rewriting import Rewrite, Rewritten, rewrite, rewrite_of
from tahoe.table.layout.statistics import AnalyzeRequest, compute_absent
from tahoe.table.log.vacuum_starts import vacuum_cutoff_ms
from tahoe.table.reading.footers_mask import footers_mask
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot, chosen_files
from tahoe.table.transactions.fitting_files import lacks_ids
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.planning import plan_existing
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WriteRequest, WrittenFile

OPTIMIZE: Literal["OPTIMIZE"] = "OPTIMIZE"
REORG: Literal["REORG"] = "REORG"

# What REORG is for.
PURGE: Literal["PURGE"] = "PURGE"
FILTERS: Literal["BLOOMFILTER"] = "BLOOMFILTER"
NESTED_IDS: Literal["UPGRADE UNIFORM"] = "UPGRADE UNIFORM"

# What the history tells of a REORG, by its purpose.
_TOLD = {PURGE: "applyPurge", FILTERS: "applyBloomFilters", NESTED_IDS: "applyUpgradeUniform"}

Rewriter: TypeAlias = "Callable[[WritePlan, Sequence[Bin]], Iterable[Rewritten | BaseException]]"
"""Rewrites bins of the plan's snapshot, several at once. Returns the result or the error of each, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """What OPTIMIZE or REORG is asked.

    Attributes:
        filter: SQL text or a predicate; only files that may contain matching rows are considered.
        select: a further restriction of the files.
        order: how rows are laid out; REORG and auto compaction ignore it.
        goes_on: asked before each batch whether there is time for it. What was committed stays.
        predicates: the filter as the history shows it.
        engine: the program that hosts tahoe, for the history.
        is_auto: whether the system and not a user asked.
        purpose: of REORG: to remove what was deleted, or to add Bloom filters, or field ids of elements, keys and
            values, to files that lack them.
    """

    filter: str | Predicate | None = None
    select: Callable[[Scan], Scan] = lambda scan: scan
    settings: CompactionSettings = field(default_factory=CompactionSettings)
    predicates: tuple[str, ...] = ()
    user_metadata: str | None = None
    engine: str | None = None
    is_auto: bool = False
    operation: Literal["OPTIMIZE", "REORG"] = OPTIMIZE
    purpose: Literal["PURGE", "BLOOMFILTER", "UPGRADE UNIFORM"] = PURGE
    order: OrderRequest = field(default_factory=OrderRequest)
    goes_on: Callable[[], bool] = lambda: True

    @property
    def is_purge(self) -> bool:
        """Whether nothing that was deleted may stay in files: neither rows nor columns."""
        return self.operation == REORG and self.purpose == PURGE and self.settings.max_deleted_share == 0

    def parameters(self, order: Order | None) -> dict[str, Any]:
        """The parameters of the operation in the history, under the reference's names."""
        predicate = {"predicate": list(self.predicates)}
        if self.operation == REORG:
            return {**predicate, _TOLD[self.purpose]: True}
        names, is_clustered = ([], False) if order is None else (order.names, order.is_clustered)
        columns = {"zOrderBy": [] if is_clustered else names, "clusterBy": names if is_clustered else []}
        return {
            **predicate,
            **columns,
            "auto": self.is_auto,
            **({"isFull": self.order.is_full} if is_clustered else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """What OPTIMIZE did, or with `dry_run` would do.

    Attributes:
        version: the last version that was committed; None if there was nothing to do.
        files_considered: how many files the table has, as far as the filter selects them.
        removed_bytes, added_bytes: the sizes of the removed and the added files. With `dry_run`, which writes none, no
            size is added.
        partitions: the partition values of the rewritten files, as in the log.
        bins, batches: how many bins were to be rewritten, and in how many commits. A bin becomes a file or, in an
            order, a cube: several.
        bins_dropped: how many bins were not committed, because another writer changed one of their files meanwhile, or
            clustered the table by columns of which their new files have no statistics.
        vectors_removed, rows_purged: how many deletion vectors were removed, and how many rows they deleted.
        small_files, worn_files: of the files to rewrite, how many are small, and how many have too many deleted rows.
            Only with `dry_run`.
        is_dry_run: whether nothing was changed.
        began_ms, ended_ms: when the work began and ended, in milliseconds since 1970.
        order: how rows were laid out; None if files were only compacted.
        cube_bytes, cubes: the sizes of the removed files that were in cubes of a clustered table, and how many cubes
            these were.
    """

    version: int | None = None
    files_considered: int = 0
    removed_bytes: tuple[int, ...] = ()
    added_bytes: tuple[int, ...] = ()
    partitions: frozenset[tuple[tuple[str, str | None], ...]] = frozenset()
    bins: int = 0
    batches: int = 0
    bins_dropped: int = 0
    vectors_removed: int = 0
    rows_purged: int = 0
    small_files: int = 0
    worn_files: int = 0
    is_dry_run: bool = False
    began_ms: int = 0
    ended_ms: int = 0
    order: Order | None = None
    cube_bytes: tuple[int, ...] = ()
    cubes: int = 0

    def __repr__(self) -> str:
        if self.is_dry_run:
            return f"OptimizeReport(dry run: {summary(self)})"
        removed = (
            f"{len(self.removed_bytes):,} of {counted(self.files_considered, 'file')} "
            f"({counted(sum(self.removed_bytes), 'byte')})"
        )
        added = f"{counted(len(self.added_bytes), 'file')} ({counted(sum(self.added_bytes), 'byte')})"
        return f"OptimizeReport(version={self.version}, rewritten: {removed} as {added})"

    def counted_bins(self, count: int) -> str:
        """A number of bins, by what becomes of each: `1 cube`, `5 partitions`, `2 new files`."""
        name = "new file" if self.order is None else "cube" if self.order.is_clustered else "partition"
        return counted(count, name)

    @property
    def why(self) -> str:
        """Why a dry run would rewrite files, apart from their order; empty if nothing is wrong with them."""
        found = [(self.small_files, "small"), (self.worn_files, "with too many deleted rows")]
        return ", ".join(f"{count:,} {reason}" for count, reason in found if count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A bin that was rewritten: the files to remove, the files to add, and the rows of the one added file if their
    order is known.
    """

    bin: Bin
    removed: tuple[Add, ...]
    written: tuple[WrittenFile, ...]
    copied: Sequence[CopiedRows] | None = None

    def added(self, plan: WritePlan) -> list[Add]:
        """The new files as actions.

        Their partition values are spelled as those of the first removed file: a timestamp without a time zone stays
        one.
        """
        texts = self.removed[0].partition_values
        adds = [plan.add(file) for file in self.written]
        adds = [
            add.replace(partition_values={name: texts.get(name) or text for name, text in add.partition_values.items()})
            for add in adds
        ]
        if len(self.removed) == 1 and len(adds) == 1:  # the same rows in the same order: the file stays in its cube
            adds = [adds[0].replace(tags=self.removed[0].tags, clustering_provider=self.removed[0].clustering_provider)]
        return [self.bin.tagged(add) for add in adds] if isinstance(self.bin, CubeBin) else adds


def _with_bins(report: OptimizeReport, done: Sequence[_Done]) -> OptimizeReport:
    """The report after one more batch."""
    removed = [add for entry in done for add in entry.removed]
    vectors = [add.deletion_vector for add in removed if add.deletion_vector is not None]
    in_cubes = [] if report.order is None else in_cubes_of(report.order, removed)
    return replace(
        report,
        batches=report.batches + 1,
        removed_bytes=(*report.removed_bytes, *(add.size_bytes for add in removed)),
        added_bytes=(*report.added_bytes, *(file.size_bytes for entry in done for file in entry.written)),
        partitions=report.partitions | {tuple(entry.removed[0].partition_values.items()) for entry in done},
        vectors_removed=report.vectors_removed + len(vectors),
        rows_purged=report.rows_purged + sum(vector.cardinality for vector in vectors),
        cube_bytes=(*report.cube_bytes, *(add.size_bytes for add in in_cubes)),
        cubes=report.cubes + len({(add.tags or {}).get(CUBE_ID) for add in in_cubes}),
    )


def optimize(
    table: TableReader,
    request: OptimizeRequest,
    *,
    rewriter: Rewriter | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> OptimizeReport:
    """Compact the newest version of a table. OPTIMIZE also computes the statistics of files that have none, from their
    footers.

    Args:
        rewriter: rewrites the bins; threads of this process by default.
        dry_run: only report what would be done.
        progress: called with the number of files that were rewritten, and the number of all that are to be rewritten.

    Raises:
        InvalidPredicateError, ColumnNotFoundError: the filter does not fit the schema.
        DeltaAnalysisError: the order does not fit the table; see `order_of`.
        DeltaProtocolError: the table needs a writer feature that tahoe does not support.
        DeltaConcurrentModificationException: other writers have changed files of all bins meanwhile.
        DeltaDataError: a file is not what the log says. Bins that were finished are committed.
    """
    began_ms, snapshot = table.env.clock_ms(), table.snapshot()
    only_compacts = request.operation == REORG or request.is_auto
    order = None if only_compacts else order_of(snapshot, request.order, request.predicates)
    plan = _plan(table, snapshot, request)
    scan = request.select(chosen_files(snapshot, request.filter))
    bins = _bins(scan, request, order, iter(table.env.new_id, None))
    report = OptimizeReport(files_considered=scan.kept_files, bins=len(bins), began_ms=began_ms, order=order)
    if dry_run:
        return replace(_as_planned(report, snapshot, bins, request.settings), ended_ms=table.env.clock_ms())
    with showing(request.operation, user_function=progress, is_ours=rewriter is None) as show_progress:
        default_rewriter = rewritten_in_threads if order is None else lay_out_in_threads
        reporting_rewriter = _telling(rewriter or default_rewriter, bins, show_progress)
        for batch in _batches(bins, request.settings.batch_bytes):
            if not request.goes_on():
                break
            done, failure = _rewrite_bins(plan, batch, reporting_rewriter)
            report = _commit_bins(table, plan, request, done, report)
            if failure is not None:
                raise failure
    if request.operation == OPTIMIZE and not request.is_auto:
        analyze_request = AnalyzeRequest(
            filter=request.filter, absent_only=True, user_metadata=request.user_metadata, engine=request.engine
        )
        report = replace(report, version=compute_absent(table, analyze_request, snapshot) or report.version)
    return replace(report, ended_ms=table.env.clock_ms())


def _bins(scan: Scan, request: OptimizeRequest, order: Order | None, cubes: Iterator[str]) -> list[Bin]:
    """The bins to rewrite; see `plan_bins` and `plan_cubes`."""
    if request.operation == REORG and request.purpose == FILTERS:
        return bins_of(scan, lacks_filters)
    if request.operation == REORG and request.purpose == NESTED_IDS:
        row_ids = field_ids(scan.snapshot.protocol, scan.snapshot.properties)
        return bins_of(scan, lambda piece: footers_mask(piece, lacks_ids(row_ids)))
    if order is not None:
        return plan_cubes(scan, order, request.settings, cubes)
    return plan_bins(scan, request.settings, has_dropped_columns if request.is_purge else None)


def _as_planned(
    report: OptimizeReport, snapshot: Snapshot, bins: Sequence[Bin], settings: CompactionSettings
) -> OptimizeReport:
    """The report of a dry run."""
    small, worn = reasons(
        snapshot.full_scan.within([number for one_bin in bins for number in one_bin.numbers]), settings
    )
    planned = _with_bins(
        report, [_Done(bin=one_bin, removed=_adds(snapshot, one_bin.numbers), written=()) for one_bin in bins]
    )
    batches = sum(1 for _ in _batches(bins, settings.batch_bytes))
    return replace(planned, is_dry_run=True, small_files=small, worn_files=worn, batches=batches)


def summary(report: OptimizeReport) -> str:
    """What OPTIMIZE would do, and why, as a text. Precondition: the report is of a dry run."""
    if not report.bins:
        return f"nothing to do: {counted(report.files_considered, 'file')} considered"
    files = f"{len(report.removed_bytes):,} of {report.files_considered:,} files ({sum(report.removed_bytes):,} bytes)"
    why = report.why or "as asked"
    if report.order is None:
        return f"rewrites {files} as at most {report.bins:,}: {why}"
    return f"rewrites {files} in {report.counted_bins(report.bins)}, ordered by {', '.join(report.order.names)}: {why}"


def _plan(table: TableReader, snapshot: Snapshot, request: OptimizeRequest) -> WritePlan:
    """The write that adds the rewritten files: it changes no rows, so that streams and change feeds pass over it."""
    wanted = WriteRequest(
        mode="append",
        schema=snapshot.schema,
        data_change=False,
        operation=request.operation,
        user_metadata=request.user_metadata,
        engine=request.engine,
    )
    plan = plan_existing(table, wanted, snapshot)
    plan.check_writes_files()
    return plan


def _telling(rewriter: Rewriter, bins: Sequence[Bin], progress: Callable[[int, int], None]) -> Rewriter:
    """A rewriter of some of the bins that tells how many files of all bins are done."""
    done, total = 0, sum(len(one_bin.numbers) for one_bin in bins)

    def rewritten(plan: WritePlan, batch: Sequence[Bin]) -> Iterator[Rewritten | BaseException]:
        nonlocal done
        for one_bin, result in zip(batch, rewriter(plan, batch), strict=True):
            done += len(one_bin.numbers)
            progress(done, total)
            yield result

    return rewritten


def _batches(bins: Sequence[Bin], batch_bytes: int | None) -> Iterator[list[Bin]]:
    waiting: list[Bin] = []
    for bin_ in bins:
        waiting.append(bin_)
        if batch_bytes is not None and sum(b.live_bytes for b in waiting) >= batch_bytes:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _adds(snapshot: Snapshot, numbers: Iterable[int]) -> tuple[Add, ...]:
    return tuple(Scan(snapshot, None, pa.array(sorted(numbers), pa.uint64())).adds())


# --- rewriting


def _rewrite_bins(plan: WritePlan, bins: Sequence[Bin], rewriter: Rewriter) -> tuple[list[_Done], BaseException | None]:
    """The bins that were rewritten, and the first failure."""
    assert plan.snapshot is not None
    done: list[_Done] = []
    failure: BaseException | None = None
    try:
        for found, result in zip(bins, rewriter(plan, bins), strict=True):
            if isinstance(result, BaseException):
                failure = failure or result
            else:
                removed = _adds(plan.snapshot, found.numbers)
                done.append(_Done(bin=found, removed=removed, written=result.files, copied=result.copied))
    except BaseException:  # interrupted
        plan.table.env.discard(file.key for entry in done for file in entry.written)
        raise
    return done, failure


def rewritten_in_threads(plan: WritePlan, bins: Sequence[Bin]) -> Iterator[Rewritten | BaseException]:
    """Rewrite bins in threads of this process. Arrow uses all cores."""
    return in_threads(result_or_error, (rewrite_of(plan, found.numbers) for found in bins), CORES)


def result_or_error(work: Rewrite) -> Rewritten | BaseException:
    try:
        return rewrite(work)
    except Exception as error:
        return error


# --- commit


def _commit_bins(
    table: TableReader, plan: WritePlan, request: OptimizeRequest, done: list[_Done], report: OptimizeReport
) -> OptimizeReport:
    """Commit bins in one version. Bins of which another writer has changed a file meanwhile are dropped, and their
    files deleted.
    """
    bins_before = len(done)
    while done:
        loose: list[str] = []
        kept: list[_Done] = []
        try:
            version = _commit(plan, request, report.order, done, loose)
            return replace(
                _with_bins(report, done), version=version, bins_dropped=report.bins_dropped + bins_before - len(done)
            )
        except DeltaConcurrentModificationException as error:
            plan, kept = _without_conflicts(table, plan, request, done, error)
            if not kept:
                raise
            done = kept
        finally:
            used = {file.key for entry in kept for file in entry.written}
            table.env.discard(key for key in loose if key not in used)
    return report


def _without_conflicts(
    table: TableReader,
    plan: WritePlan,
    request: OptimizeRequest,
    done: list[_Done],
    error: DeltaConcurrentModificationException,
) -> tuple[WritePlan, list[_Done]]:
    """What can be committed after a conflict: the bins without the files in conflict; after a change of the metadata, a
    plan of the newest version, and the bins whose files have not changed and whose new files have statistics of its
    clustering columns."""
    if error.paths:
        return plan, [
            entry for entry in done if not any(table.log.canonical(add.path) in error.paths for add in entry.removed)
        ]
    newest = table.snapshot()
    if plan.snapshot is None or newest.version <= plan.snapshot.version or not _fits(plan, newest):
        return plan, []
    newest_plan, cutoff_ms = (
        _plan(table, newest, request),
        vacuum_cutoff_ms(newest.log, plan.snapshot.version, newest.version),
    )
    unvacuumed = [
        entry
        for entry in done
        if cutoff_ms is None or all(file.modification_time_ms >= cutoff_ms for file in entry.written)
    ]
    return newest_plan, [entry for entry in _still_live(unvacuumed, newest) if _is_measured(newest_plan, entry)]


def _commit(
    plan: WritePlan, request: OptimizeRequest, order: Order | None, done: Sequence[_Done], loose: list[str]
) -> int | None:
    """Commit bins.

    Args:
        loose: receives the keys of the new files, if it is certain that they were not committed.
    """
    written = [file for entry in done for file in entry.written]
    with plan.draft() as draft:
        draft.on_discard(lambda: loose.extend(file.key for file in written))
        draft.remove(add for entry in done for add in entry.removed)
        draft.carries = request.operation == OPTIMIZE  # REORG leaves no vectors behind
        for entry in done:
            adds = entry.added(plan)
            draft.adds += adds
            if adds and entry.copied is not None:
                draft.moved[adds[0].path] = entry.copied
        info = OperationInfo(
            operation=request.operation,
            parameters=request.parameters(order),
            metrics=_metrics(done),
            user_metadata=request.user_metadata,
            engine=request.engine,
        )
        return draft.commit(info)


def _metrics(done: Sequence[_Done]) -> dict[str, int]:
    """The metrics of the history, under the reference's names."""
    removed = [add for entry in done for add in entry.removed]
    added = sorted(file.size_bytes for entry in done for file in entry.written)
    sizes = added or [0]
    quarter = len(sizes) // 4
    return {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(add.size_bytes for add in removed),
        "minFileSize": sizes[0],
        "p25FileSize": sizes[quarter],
        "p50FileSize": sizes[len(sizes) // 2],
        "p75FileSize": sizes[len(sizes) * 3 // 4],
        "maxFileSize": sizes[-1],
        "numDeletionVectorsRemoved": sum(add.deletion_vector is not None for add in removed),
    }


def _fits(plan: WritePlan, newest: Snapshot) -> bool:
    """Whether files that were written for a version are right in a later one: its columns in files are the same, or
    further ones.
    """
    assert plan.snapshot is not None
    before = plan.snapshot
    modes = {before.column_mapping_mode, newest.column_mapping_mode}
    is_same = (
        before.metadata.id == newest.metadata.id
        and before.partition_columns == newest.partition_columns
        and len(modes) == 1
    )
    in_files = {keeps_partitions_in_files(version.protocol, version.metadata) for version in (before, newest)}
    if not is_same or before.row_tracking != newest.row_tracking or len(in_files) == 2:
        return False
    columns = physical_schema(newest.schema, newest.column_mapping_mode)
    known = ((field, columns.find(field.name)) for field in physical_schema(before.schema, before.column_mapping_mode))
    return all(found is None or found.type == field.type for field, found in known)


def _is_measured(plan: WritePlan, entry: _Done) -> bool:
    """Whether new files have the statistics that files of a clustered table must have."""
    return plan.clustering is None or not columns_without_statistics(plan.clustering, entry.added(plan))


def _still_live(done: Sequence[_Done], newest: Snapshot) -> list[_Done]:
    """The bins whose files are all live in a version, with the same deletion vectors."""
    paths = [add.path for entry in done for add in entry.removed]
    found = pc.index_in(pa.array(paths, pa.string()), value_set=newest.live.column("path")).drop_null()
    live = {(add.path, add.deletion_vector) for add in _adds(newest, found.to_pylist())}
    return [entry for entry in done if all((add.path, add.deletion_vector) in live for add in entry.removed)]
