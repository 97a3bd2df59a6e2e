"""`tahoe maintain`: does what the report of the tables advises, the most useful first, within a time limit.

Each step is a commit of its own, or several, so that whoever interrupts a run loses the step at work alone, and the
next run does what is left. Other writers go first: a step that conflicts is planned anew, and left after some attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.filesize import decimal as size_text

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.configuration.features import check_known
from tahoe.protocol.types.names import counted
from tahoe.table.cleanup.vacuum import VacuumRequest, vacuum
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import clean_log, expired_log_files
from tahoe.table.fleet.fleet import MAINTAINED, NamedTable, TableRow, table_rows
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import OptimizeRequest, optimize
from tahoe.table.layout.statistics import AnalyzeRequest, compute_statistics
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.report.advice import Advice, AdviceKind
from tahoe.table.versions.table_reader import TableReader

Outcome = Literal["done", "planned", "left", "failed"]

# Against writers that commit all the time, more attempts would only take the time of other tables.
_ATTEMPTS = 3

# OPTIMIZE commits after so many bytes, so that little is lost when the time is over.
_BATCH_BYTES = 4 << 30

_NO_TIME = "the time is over; the next run does it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one piece of work.

    Attributes:
        table: its name.
        kind: what was to be done; None for a table that cannot be read.
        outcome: `planned` by a dry run; `left` for the next run.
        detail: what was done, would be done, or is wrong.
    """

    table: str
    kind: AdviceKind | None
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class Limit:
    """When a run is to end.

    Attributes:
        clock: seconds since some moment.
        end: by this clock.
    """

    clock: Callable[[], float]
    end: float

    def is_over(self) -> bool:
        return self.clock() >= self.end


def maintain(tables: Sequence[NamedTable], limit: Limit, *, dry_run: bool = False) -> Iterator[Step]:
    """Do what is advised for tables, and tell of each step when it ends. No step begins after the limit; OPTIMIZE stops
    behind the commit at work. What goes wrong with one table does not stop the others.

    Args:
        dry_run: change nothing.
    """
    by_name, rows = {named.name: named for named in tables}, []
    for row in table_rows(tables):
        if row.error is not None:
            yield Step(table=row.name, kind=None, outcome="failed", detail=row.error)
        rows.append(row)
        if limit.is_over():
            break
    for named in tables[len(rows) :]:
        yield Step(table=named.name, kind=None, outcome="left", detail=f"not looked at: {_NO_TIME}")
    for row, advised in _in_order(rows):
        if dry_run:
            yield Step(table=row.name, kind=advised.kind, outcome="planned", detail=advised.reason)
        elif limit.is_over():
            yield Step(table=row.name, kind=advised.kind, outcome="left", detail=_NO_TIME)
        else:
            yield _attempted(by_name[row.name], advised.kind, limit)


def _in_order(rows: Sequence[TableRow]) -> list[tuple[TableRow, Advice]]:
    """What needs no decision, the most useful first."""
    found = [(row, advised) for row in rows for advised in row.advice if advised.kind in MAINTAINED]
    return sorted(found, key=lambda work: -work[0].gain(work[1]))


def _attempted(named: NamedTable, kind: AdviceKind, limit: Limit) -> Step:
    """A step, again while other writers' commits conflict with it."""
    conflict: Exception | None = None
    for _ in range(_ATTEMPTS):
        if conflict is not None and limit.is_over():
            break
        try:
            outcome, detail = _STEPS[kind](named.open(), limit)
        except DeltaConcurrentModificationException as error:
            conflict = error
        except Exception as error:  # whatever is wrong with one table, the others are maintained
            return Step(table=named.name, kind=kind, outcome="failed", detail=str(error) or type(error).__name__)
        else:
            return Step(table=named.name, kind=kind, outcome=outcome, detail=detail)
    detail = f"other writers changed the same files; the next run tries again: {conflict}"
    return Step(table=named.name, kind=kind, outcome="left", detail=detail)


# --- the steps


def _optimize(table: TableReader, limit: Limit) -> tuple[Outcome, str]:
    """Combine small files, purge many deleted rows, lay out clustered tables, and compute missing statistics."""
    settings = CompactionSettings.of_table(table.snapshot().properties, table=table.url)
    ended_early = False

    def goes_on() -> bool:
        nonlocal ended_early
        ended_early = limit.is_over()
        return not ended_early

    request = OptimizeRequest(settings=replace(settings, batch_bytes=_BATCH_BYTES), goes_on=goes_on)
    report = optimize(table, request)
    removed, added = report.removed_bytes, report.added_bytes
    done = (
        f"{counted(len(removed), 'file')} ({size_text(sum(removed))}) as {counted(len(added), 'file')} "
        f"({size_text(sum(added))})"
    )
    if ended_early:
        return "left", f"{done}; for the rest, {_NO_TIME}"
    if report.bins_dropped:
        left = f"the files of {report.counted_bins(report.bins_dropped)}, which other writers changed, are left"
        return "left", f"{done}; {left}"
    return "done", done


def _statistics(table: TableReader, _: Limit) -> tuple[Outcome, str]:
    report = compute_statistics(table, AnalyzeRequest())
    if report.unread:
        return "failed", f"{counted(len(report.unread), 'file')} can only be read by Spark"
    return "done", f"of {counted(report.files_updated, 'file')}"


def _vacuum(table: TableReader, _: Limit) -> tuple[Outcome, str]:
    """With the retention of the table, never below it."""
    report = vacuum(table, VacuumRequest())
    done = f"{counted(len(report.files), 'file')} ({size_text(report.size_bytes)}) deleted"
    if report.failed:
        path, reason = next(iter(report.failed.items()))
        return "failed", f"{done}; {len(report.failed):,} not, such as {path}: {reason}"
    return "done", done


def _checkpoint(table: TableReader, _: Limit) -> tuple[Outcome, str]:
    snapshot = _known(table)
    write_checkpoint(snapshot)
    return "done", f"of version {snapshot.version:,}"


def _cleanup(table: TableReader, _: Limit) -> tuple[Outcome, str]:
    snapshot = _known(table)
    deleted = clean_log(snapshot) if expired_log_files(snapshot) else []  # the table may be to keep all by now
    return "done", f"{counted(len(deleted), 'file')} of the log deleted"


def _known(table: TableReader) -> Snapshot:
    """The newest version, if tahoe knows everything that its log may contain."""
    snapshot = table.snapshot()
    check_known(snapshot.protocol, table=table.url)
    return snapshot


_STEPS: dict[AdviceKind, Callable[[TableReader, Limit], tuple[Outcome, str]]] = {
    "optimize": _optimize,
    "statistics": _statistics,
    "vacuum": _vacuum,
    "checkpoint": _checkpoint,
    "cleanup": _cleanup,
}
