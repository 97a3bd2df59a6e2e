"""`tahoe report` of a folder or a catalog: the figures of all tables, and what to do first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tahoe._cached import cached_property
from tahoe.errors import DeltaError
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.fleet.found_tables import Stored, stored_tables
from tahoe.table.report.advice import Advice, AdviceKind, advice, unplanned_vacuum
from tahoe.table.report.figures import Compaction, Figures, LogState, Unneeded
from tahoe.table.report.measure import measure
from tahoe.table.versions.table_reader import TableReader

_DAY_MS = 86_400_000

# What `tahoe maintain` does; the rest needs a decision.
MAINTAINED: tuple[AdviceKind, ...] = ("optimize", "statistics", "vacuum", "checkpoint", "cleanup")

# With less than this share of the newest version's bytes, a VACUUM that was not planned is not worth its listing.
_RETAINED_SHARE_MIN = 0.1

# To open a file costs a query about as much as to read so many bytes: by this, advice about files and bytes is ordered.
_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that is to be looked at.

    Attributes:
        name: as people know it: its folder below the one that is looked at, or its name in a catalog.
        open: opens it.
        stored: what its folder has, if that is known already.
    """

    name: str
    open: Callable[[], TableReader]
    stored: Stored | None = None


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A table of the fleet. Where there is an error, there are no figures.

    Attributes:
        stored: None if the folder cannot be listed.
    """

    name: str
    url: str
    figures: Figures | None = None
    stored: Stored | None = None
    error: str | None = None

    @cached_property
    def advice(self) -> Sequence[Advice]:
        """What is worth doing; see `tahoe.table.report.advice`."""
        return () if self.figures is None else [*advice(self.figures), *self._unlooked()]

    def _unlooked(self) -> Iterator[Advice]:
        """VACUUM of a table with too many files or commits for a report to plan it, if its folder has much else."""
        assert self.figures is not None
        upkeep, retained = self.figures.upkeep, self.retained_bytes or 0
        if upkeep is None or not isinstance(upkeep.compaction, Compaction) or not isinstance(upkeep.unneeded, str):
            return
        if retained > self.figures.size_bytes * _RETAINED_SHARE_MIN:
            yield unplanned_vacuum(self.figures, retained)

    @property
    def small_files(self) -> int | None:
        """Files that OPTIMIZE would combine; None if that is unknown."""
        compaction = None if self.figures is None or self.figures.upkeep is None else self.figures.upkeep.compaction
        return compaction.small_files if isinstance(compaction, Compaction) else None

    @property
    def log(self) -> LogState | None:
        log = None if self.figures is None or self.figures.upkeep is None else self.figures.upkeep.log
        return log if isinstance(log, LogState) else None

    @property
    def retained_bytes(self) -> int | None:
        """Bytes in the folder that the newest version does not need: files of earlier versions and of no version."""
        if self.figures is None or self.stored is None:
            return None
        return max(self.stored.bytes - self.figures.size_bytes, 0)

    @property
    def unneeded_bytes(self) -> int | None:
        """Of these, what VACUUM would delete now; None if that was not looked for."""
        found = None if self.figures is None or self.figures.upkeep is None else self.figures.upkeep.unneeded
        return found.size_bytes if isinstance(found, Unneeded) else None

    @property
    def commits_a_day(self) -> float | None:
        """Over the commits that the log has, until now."""
        days = self._days
        return (
            None
            if days is None or self.figures is None or not self.figures.commits
            else (self.figures.commits.count / days)
        )

    @property
    def bytes_a_day(self) -> float | None:
        """How much the newest version has grown a day, over the versions whose size the log tells."""
        growth = () if self.figures is None else self.figures.growth
        days = self._days
        if self.figures is None or days is None or len(growth) < 2:
            return None
        return (growth[-1].size_bytes - growth[0].size_bytes) / days

    @property
    def _days(self) -> float | None:
        """The days since the oldest commit of the log, at least one."""
        if self.figures is None or not self.figures.commits or not self.figures.commits.periods:
            return None
        growth, periods = self.figures.growth, self.figures.commits.periods
        began_ms = growth[0].timestamp_ms if growth else periods[0].start_ms
        return max((self.figures.made_ms - began_ms) / _DAY_MS, 1.0)

    def gain(self, found: Advice) -> int:
        """How much a piece of advice is worth, in bytes that queries need not read, files included, or that the storage
        need not keep.
        """
        upkeep = None if self.figures is None else self.figures.upkeep
        if upkeep is None:
            return 0
        match found.kind:
            case "optimize":
                plan = upkeep.compaction
                return (plan.files - plan.new_files) * _FILE_BYTES if isinstance(plan, Compaction) else 0
            case "vacuum":
                return self.unneeded_bytes if self.unneeded_bytes is not None else self.retained_bytes or 0
            case "checkpoint":
                return 0 if self.log is None else self.log.commits_after * _FILE_BYTES
            case "statistics":
                return 0 if self.figures is None else self.figures.files_without_statistics * _FILE_BYTES
            case _:
                return 0

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can represent."""
        figures, log = self.figures, self.log
        told: dict[str, Any] = {"name": self.name, "table": self.url, "error": self.error}
        if figures is None:
            return told
        return {
            **told,
            "version": figures.version,
            "last_write_ms": figures.timestamp_ms,
            "rows": figures.rows.count,
            "files": figures.files,
            "size_bytes": figures.size_bytes,
            "small_files": self.small_files,
            "files_with_deletion_vectors": figures.rows.files_with_deleted,
            "deleted_rows": figures.rows.deleted,
            "commits_a_day": self.commits_a_day,
            "bytes_a_day": self.bytes_a_day,
            "retained_bytes": self.retained_bytes,
            "unneeded_bytes": self.unneeded_bytes,
            "log": None if log is None else asdict(log),
            "stored": None if self.stored is None else asdict(self.stored),
            "advice": [asdict(found) for found in self.advice],
        }


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of advice about one of the tables."""

    table: TableRow
    advice: Advice
    catalog: str

    @property
    def command(self) -> str | None:
        """On the command line: of a table of a catalog, by its name; None if only Spark does it."""
        if not self.catalog or self.advice.command is None or self.advice.kind not in MAINTAINED:
            return self.advice.command
        return shlex.join(["tahoe", "maintain", "--catalog", self.catalog, "--only", self.table.name])


@dataclass(frozen=True, kw_only=True)
class FleetReport:
    """The tables below a folder, or in a catalog.

    Attributes:
        place: the folder, or the catalog.
        is_catalog: whether tables are told by their names in a catalog.
    """

    place: str
    tables: Sequence[TableRow]
    is_catalog: bool = False

    @cached_property
    def tasks(self) -> Sequence[Task]:
        """What is worth doing, the most useful first."""
        catalog = self.place if self.is_catalog else ""
        found = [Task(row, piece, catalog) for row in self.tables for piece in row.advice]
        return sorted(found, key=lambda task: -task.table.gain(task.advice))

    @property
    def broken(self) -> Sequence[TableRow]:
        """The tables that cannot be read."""
        return [row for row in self.tables if row.error is not None]

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can represent."""
        first = [{"name": task.table.name, **asdict(task.advice), "command": task.command} for task in self.tasks]
        return {"place": self.place, "tables": [row.to_dict() for row in self.tables], "first": first}


def tables_below(reader: TableReader, open_at: Callable[[str], TableReader]) -> list[NamedTable]:
    """The tables at or below the folder of a reader.

    Args:
        open_at: opens the table at a url.
    """
    url = reader.url
    return [
        NamedTable(key or url.rstrip("/").rpartition("/")[2], _opened(open_at, url, key), stored)
        for key, stored in stored_tables(reader.env.store).items()
    ]


def _opened(open_at: Callable[[str], TableReader], url: str, key: str) -> Callable[[], TableReader]:
    return lambda: open_at(f"{url.rstrip('/')}/{key}" if key else url)


def fleet_report(place: str, tables: Sequence[NamedTable], *, is_catalog: bool = False) -> FleetReport:
    """The report of tables. One that cannot be read has its error in the place of its figures."""
    return FleetReport(place=place, tables=list(table_rows(tables)), is_catalog=is_catalog)


def table_rows(tables: Sequence[NamedTable]) -> Iterator[TableRow]:
    """The tables one by one, when they are measured."""
    return in_threads(table_row, tables, CORES, ahead=CORES)


def table_row(named: NamedTable) -> TableRow:
    """The figures of one table, or why it has none."""
    url = ""
    try:
        table = named.open()
        url = table.url
        figures = measure(table)
    except Exception as error:  # whatever is wrong with one table, the others are told
        return TableRow(name=named.name, url=url, error=str(error) or type(error).__name__, stored=named.stored)
    return TableRow(name=named.name, url=url, figures=figures, stored=named.stored or _stored(table))


def _stored(table: TableReader) -> Stored | None:
    try:
        return stored_tables(table.env.store).get("")
    except (DeltaError, OSError):
        return None
