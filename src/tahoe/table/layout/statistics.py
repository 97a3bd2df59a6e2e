"""ANALYZE TABLE ... COMPUTE DELTA STATISTICS: computes statistics that are missing or wide. No data file is written.

Protocol: "Per-file Statistics", "Add File and Remove File", `dataChange`. The entries of such files are added again
with their new statistics, in several commits if there are many files. If another writer removes a file or replaces its
entry meanwhile, that file is left out, and the others are committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import (
    DeltaConcurrentModificationException,
    DeltaError,
    DeltaProtocolError,
    MetadataChangedException,
    UnsupportedOperationError,
)
from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.configuration.properties import STRING_PREFIX_LENGTH
from tahoe.protocol.log.actions import Add
from tahoe.protocol.statistics.stats import Statistics, encode_statistics, has_bounds
from tahoe.protocol.types.predicate import Predicate
from tahoe.protocol.types.schema import VARIANT
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.commit.continuity import check_same_table
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.layout.file_statistics import Measurement, has_statistics, measure_footer, measure_rows
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.rows import data_files
from tahoe.table.reading.scan import Scan, chosen_of, statistics_of
from tahoe.table.reading.snapshot import Snapshot, chosen_files
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.footers import IndexedColumn, indexed_columns, may_shred
from tahoe.table.writing.planning import plan_existing
from tahoe.table.writing.write_request import WriteRequest

_logger = logging.getLogger("tahoe")

COMPUTE_STATS = "COMPUTE STATS"

# The files of one commit. Their entries, as text, take some megabytes.
FILES_PER_COMMIT_MAX = 10_000

# The statistics of this many columns are in memory at a time, for all files.
_COLUMNS_AT_ONCE = 8

Result = TypeVar("Result")

Measurer: TypeAlias = "Callable[[Sequence[Measurement]], Iterable[Statistics | BaseException]]"
"""Measures the rows of several files. Returns the statistics or the error of each, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeRequest:
    """Which statistics are computed.

    Attributes:
        filter: SQL text or a predicate; only files that may contain matching rows are considered.
        paths: only these files, whatever their statistics are; None for all files whose statistics are missing or wide.
        absent_only: only files without any statistics, and only what their footers tell.
        engine: the program that hosts tahoe, for the history.
    """

    filter: str | Predicate | None = None
    paths: frozenset[str] | None = None
    absent_only: bool = False
    user_metadata: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeReport:
    """What ANALYZE did.

    Attributes:
        version: the last version that was committed; None if there was nothing to do.
        files_considered: how many files the table has, as far as the filter selects them.
        files_examined: how many of them had missing or wide statistics.
        files_updated: how many of them have new statistics. The others could not get better ones, for example because
            of a NaN.
        files_dropped: how many new statistics were not committed, because another writer changed the file meanwhile.
        unread: the paths of the files that could not be read, because only Spark can read them, each with the reason.
            Their statistics are as they were.
    """

    version: int | None = None
    files_considered: int = 0
    files_examined: int = 0
    files_updated: int = 0
    files_dropped: int = 0
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restated:
    """A file's entry, and the same with its new statistics."""

    before: Add
    after: Add


def compute_statistics(
    table: TableReader, request: AnalyzeRequest, *, measurer: Measurer | None = None, planned: Snapshot | None = None
) -> AnalyzeReport:
    """Compute the statistics of the newest version of a table that are missing or wide.

    Args:
        measurer: measures rows; threads of this process by default.
        planned: an earlier version of the table that is meant, on which the request was decided.

    Raises:
        InvalidPredicateError, ColumnNotFoundError: the filter does not fit the schema.
        DeltaProtocolError: the table needs a writer feature that tahoe does not support.
        DeltaDataError: a file is not what the log says. Statistics that were finished are committed.
        MetadataChangedException: the table was replaced, or another writer changed which columns have statistics.
    """
    snapshot = table.snapshot()
    if planned is not None:
        check_same_table(planned, snapshot)
    _check_writable(table, snapshot)
    scan = chosen_files(snapshot, request.filter)
    columns = [c for c in _columns(snapshot) if has_statistics(c)]
    numbers = _files_to_measure(scan, columns, request)
    report = AnalyzeReport(files_considered=scan.kept_files, files_examined=len(numbers))
    for start in range(0, len(numbers), FILES_PER_COMMIT_MAX):
        batch = Scan(snapshot, None, pa.array(numbers[start : start + FILES_PER_COMMIT_MAX], pa.uint64()))
        found, unread, failure = _measure_files(batch, columns, request, measurer or measured_in_threads)
        report = _commit_statistics(
            table, snapshot, request, found, replace(report, unread={**report.unread, **unread})
        )
        if failure is not None:
            raise failure
    return report


def compute_absent(table: TableReader, request: AnalyzeRequest, planned: Snapshot) -> int | None:
    """What OPTIMIZE does for files that it does not rewrite and that have no statistics: those of their footers, a few
    milliseconds each.

    Args:
        planned: the version on which OPTIMIZE was planned.

    Returns:
        the last version that was committed. A file that cannot be read, a conflict, and a table that tahoe must not
        write by now, are no failure of OPTIMIZE.
    """
    try:
        report = compute_statistics(table, request, planned=planned)
    except (DeltaConcurrentModificationException, DeltaProtocolError) as error:
        _logger.debug("%s: OPTIMIZE computed no missing statistics: %s", table.url, error)
        return None
    for path, reason in report.unread.items():
        _logger.warning("%s: OPTIMIZE computed no statistics of %s: %s", table.url, path, reason)
    return report.version


def with_statistics(snapshot: Snapshot, adds: Sequence[Add]) -> list[Add]:
    """Entries that are about to be committed, with the statistics of their live rows; as they are if the file cannot be
    read.
    """
    there = replace(snapshot, live=LiveFiles([MemoryPart(to_table(adds))]))
    columns = [c for c in _columns(snapshot) if has_statistics(c)]
    measured, unread, failure = _measure_files(there.full_scan, columns, AnalyzeRequest(), measured_in_threads)
    for reason in [*unread.values(), *([] if failure is None else [str(failure)])]:
        _logger.warning("%s: statistics could not be computed: %s", snapshot.url, reason)
    found = {entry.before.path: entry.after.stats for entry in measured}
    return [add.replace(stats=found.get(add.path, add.stats)) for add in adds]


def _check_writable(table: TableReader, snapshot: Snapshot) -> None:
    plan_existing(
        table, WriteRequest(mode="append", schema=snapshot.schema, data_change=False, operation=COMPUTE_STATS), snapshot
    )


def _columns(snapshot: Snapshot) -> list[IndexedColumn]:
    return indexed_columns(snapshot.metadata, snapshot.column_mapping_mode, snapshot.clustering_columns)


# --- which files


def _files_to_measure(scan: Scan, columns: Sequence[IndexedColumn], request: AnalyzeRequest) -> npt.NDArray[np.int64]:
    """The positions in the snapshot of the files to measure."""

    def look(piece: Scan) -> npt.NDArray[np.int64]:
        return np.flatnonzero(_is_chosen(piece, columns, request))

    return np.asarray(chosen_of(scan, look, lambda found: found).file_numbers)


def _is_chosen(scan: Scan, columns: Sequence[IndexedColumn], request: AnalyzeRequest) -> npt.NDArray[np.bool_]:
    if request.paths is not None:
        return _mask(pc.is_in(scan.column("path"), value_set=pa.array(sorted(request.paths), pa.string())))
    return _mask(pc.is_null(scan.num_records)) if request.absent_only else _incomplete(scan, columns)


def _incomplete(scan: Scan, columns: Sequence[IndexedColumn]) -> npt.NDArray[np.bool_]:
    """The files without a row count, with wide bounds, or without a statistic of some column that its rows may have."""
    basic = statistics_of(scan, StatisticsRequest({}))
    rows = pc.subtract(basic.column("num_records"), scan.deleted_records)
    lacks = _mask(pc.or_(pc.is_null(rows), pc.equal(pc.fill_null(basic.column("tight_bounds"), True), False)))
    shreds = may_shred(scan.snapshot.metadata)
    for start in range(0, len(columns), _COLUMNS_AT_ONCE):
        some = columns[start : start + _COLUMNS_AT_ONCE]
        known = statistics_of(scan, StatisticsRequest({c.physical: c.type for c in some}))
        for column in some:
            nulls = known.column(column_name("null_count", column.physical))
            lacks |= _mask(pc.is_null(nulls))
            if has_bounds(column.type):
                ends = (known.column(column_name(end, column.physical)) for end in ("min", "max"))
                lacks |= _mask(pc.and_(pc.or_(*map(pc.is_null, ends)), pc.fill_null(pc.less(nulls, rows), True)))
            elif column.type == VARIANT and shreds:  # which a footer tells, if no rows are deleted
                low = known.column(column_name("min", column.physical))
                lacks |= _mask(pc.and_(pc.is_null(low), pc.equal(scan.deleted_records, 0)))
    return lacks


def _mask(values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.array(one_array(values.cast(pa.bool_())).to_numpy(zero_copy_only=False), bool)


# --- measuring


def _measure_files(
    scan: Scan, columns: Sequence[IndexedColumn], request: AnalyzeRequest, measurer: Measurer
) -> tuple[list[_Restated], dict[str, str], BaseException | None]:
    """The files whose statistics are other ones now, those that only Spark can read, and the first failure."""
    snapshot = scan.snapshot
    assert isinstance(snapshot, Snapshot)
    bare = snapshot.without_files()
    sized = zip(data_files(scan), scan.column("size_bytes").to_pylist(), strict=True)
    measurements = list(in_threads(lambda given: _or_error(measure_footer, bare, *given, columns), sized))
    results: list[Statistics | BaseException] = [
        measurement if isinstance(measurement, BaseException) else measurement.found for measurement in measurements
    ]
    work = {
        number: measurement
        for number, measurement in enumerate(measurements)
        if isinstance(measurement, Measurement) and measurement.needs_rows
    }
    if work and not request.absent_only:
        for number, result in zip(work, measurer(list(work.values())), strict=True):
            results[number] = result
    harmless: type[DeltaError] = DeltaError if request.absent_only else UnsupportedOperationError
    return _by_outcome(snapshot, list(scan.adds()), results, harmless)


def _by_outcome(
    snapshot: Snapshot, adds: Sequence[Add], results: Sequence[Statistics | BaseException], harmless: type[DeltaError]
) -> tuple[list[_Restated], dict[str, str], BaseException | None]:
    """The files whose statistics change, the reasons why files were not measured, and the first failure. Only the
    errors of a class that the caller finds harmless are reasons.
    """
    restated, unread, failure = list[_Restated](), dict[str, str](), None
    schema = physical_schema(snapshot.schema, snapshot.column_mapping_mode)
    prefix_length = STRING_PREFIX_LENGTH.get(snapshot.properties, table=snapshot.url)
    for add, result in zip(adds, results, strict=True):
        if isinstance(result, harmless):
            unread[add.path] = str(result.parameters.get("detail") or result)
        elif isinstance(result, BaseException):
            failure = failure or result
        else:
            text = encode_statistics(result, schema, prefix_length=prefix_length)
            if text != add.stats:
                restated.append(_Restated(before=add, after=add.replace(stats=text)))
    return restated, unread, failure


def measured_in_threads(work: Sequence[Measurement]) -> Iterator[Statistics | BaseException]:
    """Measure rows in threads of this process. Each holds one row group at a time."""
    return in_threads(measured_or_error, work, CORES)


def measured_or_error(work: Measurement) -> Statistics | BaseException:
    return _or_error(measure_rows, work)


def _or_error(measure: Callable[..., Result], *given: object) -> Result | BaseException:
    try:
        return measure(*given)
    except Exception as error:
        return error


# --- commit


def _commit_statistics(
    table: TableReader, snapshot: Snapshot, request: AnalyzeRequest, found: list[_Restated], report: AnalyzeReport
) -> AnalyzeReport:
    """Commit new statistics in one version, without those of files that another writer has changed since the
    snapshot.
    """
    asked, newest = len(found), snapshot
    while found:
        newest = table.snapshot()
        _check_writable(table, newest)
        found = found if newest is snapshot else _still_current(found, snapshot, newest)
        try:
            version = _commit(table, newest, request, found)
            return replace(
                report,
                version=report.version if version is None else version,
                files_updated=report.files_updated + len(found),
                files_dropped=report.files_dropped + asked - len(found),
            )
        except DeltaConcurrentModificationException:
            if table.snapshot().version == newest.version:
                raise
    return replace(report, files_dropped=report.files_dropped + asked)


def _commit(table: TableReader, base: Snapshot, request: AnalyzeRequest, found: Sequence[_Restated]) -> int | None:
    """Commit the entries with their new statistics. Returns the version; None if none of them is left."""
    with Draft(log=table.log, base=base, protocol=base.protocol, metadata=base.metadata, data_change=False) as draft:
        draft.restate(entry.after for entry in found)
        info = OperationInfo(
            operation=COMPUTE_STATS,
            parameters={"predicate": [] if request.filter is None else [str(request.filter)]},
            user_metadata=request.user_metadata,
            engine=request.engine,
        )
        return None if draft.is_empty else draft.commit(info)


def _still_current(found: Sequence[_Restated], before: Snapshot, newest: Snapshot) -> list[_Restated]:
    """The files that are live in a later version with the same entry, apart from the statistics.

    Raises:
        MetadataChangedException: the table was replaced, or other columns have statistics by now, or have other names
            or types.
    """
    check_same_table(before, newest)
    if _columns(before) != _columns(newest):
        detail = "it changed the columns of the table, or which of them have statistics"
        raise MetadataChangedException(
            table=newest.url, winner=f"version {newest.version} or an earlier one", detail=detail
        )
    places = pc.index_in(
        pa.array([entry.before.path for entry in found], pa.string()), value_set=newest.live.column("path")
    )
    there = Scan(newest, None, pa.array(sorted(places.drop_null().to_pylist()), pa.uint64()))
    live = {add.path: add.replace(stats=None) for add in there.adds()}
    return [entry for entry in found if live.get(entry.before.path) == entry.before.replace(stats=None)]
