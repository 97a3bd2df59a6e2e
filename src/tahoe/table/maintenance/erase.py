"""Erases rows: afterwards no file below the table's folder has them, and a search of every byte proves it.

The steps are those of other commands: DELETE, REORG ... APPLY (PURGE), VACUUM without retention, and truncation of the
log to the newest version, because statistics, histories, partition values and change files of earlier commits have
values too. Each step may be repeated, so an interrupted run is. Only the values to search for are lost with the first
step: a later run finds no rows to take them from.

VACUUM here deletes what commits have removed, whatever its age, and of the files that no commit names only those that
are older than the table's retention, because a writer at work may be about to commit the others. Readers of earlier
versions are not protected.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tahoe.errors import CannotVacuumLiteError, ErasureHeldByTagsError, ErasureIncompleteError
from tahoe.protocol.configuration.features import check_known
from tahoe.protocol.types.names import counted
from tahoe.table.arrow.types import arrow_schema
from tahoe.table.cleanup.lite import record_vacuumed_version
from tahoe.table.cleanup.log_truncation import truncate_log
from tahoe.table.cleanup.traces import Needles, Search, has_text, search_folder, texts_in
from tahoe.table.cleanup.vacuum import VacuumReport, VacuumRequest, vacuum
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import REORG, OptimizeRequest, optimize
from tahoe.table.maintenance.table_rows import TableRows
from tahoe.table.reading.snapshot import Snapshot, check_may_delete
from tahoe.table.versions.history import version_before
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.versions.tags import holding_tags, tagged_snapshot

# Shorter texts are found by chance.
TEXT_CHARACTERS_MIN = 4

# More values make the search slow, and prove no more: the longest ones are taken, which are the least likely to be
# found by chance.
VALUES_MAX = 100

# Of rows with many different texts, so many are considered.
_TEXTS_MAX = 100_000

# How long to wait until the last commit is older than the clock, and for the work that follows a commit.
_TICKS_MAX = 100
_HOOKS_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest:
    """What an erasure asks for.

    Attributes:
        filter: SQL text; the rows for which it is true are erased.
        search: texts to search for at the end, besides those of the erased rows that no other row has.
        retention_check: whether files that no commit names stay if they are younger than the table's retention.
        dry_run: change nothing, and report which rows would be erased.
    """

    filter: str
    search: Sequence[str] = ()
    retention_check: bool = True
    dry_run: bool = False
    progress: Callable[[str], None] | None = None

    def tell(self, step: str) -> None:
        if self.progress is not None:
            self.progress(step)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """What an erasure did.

    Attributes:
        table: the table's url.
        is_dry_run: whether nothing was changed; then only `rows`, `values` and `oldest_version` are told.
        version: the newest version, which is the only one left.
        rows: how many rows of the newest version matched; rows that only earlier versions have are erased with these,
            and not counted.
        oldest_version: the oldest version that could be read before; time travel to it and all later ones has ended.
        files_rewritten: files that still contained deleted rows or dropped columns.
        files_deleted, bytes_deleted: data files, deletion vectors and change files.
        log_files_deleted: commits, checkpoints, checksums and sidecars.
        values: how many texts were searched for.
        values_left_out: how many texts of the erased rows were not: they are short, or other rows have them, or they
            are too many.
        search: the proof; its `traces` are places in which one of the texts still is. None of a dry run.
        elsewhere: folders outside of the table's with files that the table used: a shallow clone's source still has its
            rows.
    """

    table: str
    is_dry_run: bool = False
    version: int
    rows: int
    oldest_version: int
    files_rewritten: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    log_files_deleted: int = 0
    values: int = 0
    values_left_out: int = 0
    search: Search | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Whether all files were read, some texts were searched for, and none of them was found."""
        return self.search is not None and not self.search.traces and not self.search.unread and self.values > 0

    def __repr__(self) -> str:
        rows = counted(self.rows, "row")
        if self.search is None:
            return f"EraseReport({self.table!r}, {rows} would be erased)"
        found = "no trace" if self.is_proven else counted(len(self.search.traces), "trace")
        return (
            f"EraseReport({self.table!r}, version={self.version}, {rows} erased, {found} of "
            f"{counted(self.values, 'text')})"
        )


@dataclass(kw_only=True)
class _Texts:
    """The texts of rows that are erased, each with its column.

    Attributes:
        left_out: how many are not searched for.
    """

    found: dict[str, str] = field(default_factory=dict)
    left_out: int = 0

    def take(self, text: str, column: str) -> None:
        if len(text) < TEXT_CHARACTERS_MIN or len(self.found) >= _TEXTS_MAX:
            self.left_out += text not in self.found
        else:
            self.found.setdefault(text, column)

    def drop(self, texts: Sequence[str]) -> None:
        for text in texts:
            del self.found[text]
        self.left_out += len(texts)


def erase(table: TableRows, request: EraseRequest) -> EraseReport:
    """Erase rows, and prove that they are gone.

    Raises:
        ErasureHeldByTagsError: tags hold versions. Nothing was changed, unless a tag was made meanwhile.
        InvalidPredicateError, ColumnNotFoundError, AppendOnlyTableError: the rows cannot be deleted.
        UnsupportedOperationError: only Spark can rewrite a file.
        ErasureIncompleteError: the log has lost the commits that removed files.
        DeltaProtocolError: the table has a feature that tahoe does not know.
        DeltaError: a step failed. Run it again.
    """
    if not request.dry_run:
        check_may_delete(table.log, "erase()")
    before = _truncatable_version(table)
    texts = _texts_of(before, request.filter)
    report = _dry_report(before, request, texts)
    if request.dry_run:
        return report
    request.tell("deleting the rows")
    table.delete(request.filter)
    request.tell("rewriting the files that still contain them")
    settings = CompactionSettings(min_file_bytes=0, max_deleted_share=0.0)
    purged = optimize(table, OptimizeRequest(settings=settings, operation=REORG))
    request.tell("deleting old files")
    cleaned = _vacuum(table, is_lite=request.retention_check)
    request.tell("deleting old versions from the log")
    _finish_hooks(table)
    newest = _truncatable_version(table)
    # The next VACUUM LITE begins here. Files that other writers have removed since the last one are left to VACUUM
    # FULL.
    record_vacuumed_version(table.env.store, newest.version)
    truncated = truncate_log(newest)
    table.forget()
    request.tell("searching every file for the erased values")
    sought = _sought(newest, texts, request.search)
    return replace(
        report,
        version=newest.version,
        files_rewritten=len(purged.removed_bytes),
        files_deleted=sum(len(one.files) for one in cleaned),
        bytes_deleted=sum(one.size_bytes for one in cleaned),
        log_files_deleted=len(truncated),
        values=len(sought),
        values_left_out=texts.left_out,
        search=search_folder(table.env.store, sought),
    )


def _dry_report(before: Snapshot, request: EraseRequest, texts: _Texts) -> EraseReport:
    return EraseReport(
        table=before.url,
        is_dry_run=request.dry_run,
        version=before.version,
        rows=before.count(request.filter),
        oldest_version=min((file.version for file in before.log.list_files()), default=before.version),
        values=len(texts.found) + len(request.search),
        values_left_out=texts.left_out,
        elsewhere=_elsewhere(before),
    )


def _truncatable_version(table: TableReader) -> Snapshot:
    """The newest version, if its log may be truncated.

    Raises:
        ErasureHeldByTagsError, DeltaProtocolError: it may not.
    """
    snapshot = table.snapshot()
    check_known(snapshot.protocol, table=table.url)
    if tags := holding_tags(snapshot, table.env.clock_ms()):
        held = [(tag, tagged_snapshot(snapshot, tag).live) for tag in tags]
        told = [
            f"{tag.name} of version {tag.version} ({counted(len(live), 'file')} of {counted(live.size_bytes, 'byte')})"
            for tag, live in held
        ]
        raise ErasureHeldByTagsError(table=table.url, tags=", ".join(told))
    return snapshot


def _elsewhere(snapshot: Snapshot) -> tuple[str, ...]:
    """The folders outside of the table's that its files are in."""
    paths: list[str] = snapshot.files(columns=["path"])["path"].to_pylist()
    return tuple(sorted({path.rpartition("/")[0] for path in map(snapshot.log.canonical, paths) if "://" in path}))


def _vacuum(table: TableRows, *, is_lite: bool) -> list[VacuumReport]:
    """VACUUM with the table's retention, and then without any.

    The first one records how far LITE has come, and its commits separate the change files of the newest version from
    the cutoff.
    """
    usual = vacuum(table, VacuumRequest(log_history=True))
    for _ in range(_TICKS_MAX):
        newest = table.snapshot()
        if version_before(newest, table.env.clock_ms() - 1) == newest.version:
            break
        table.env.sleep(0.1)
    try:
        rest = vacuum(table, VacuumRequest(retention_hours=0, lite=is_lite, retention_check=False, log_history=True))
    except CannotVacuumLiteError as error:
        raise ErasureIncompleteError(table=table.url, detail=error.parameters["detail"]) from error
    return [usual, rest]


def _finish_hooks(table: TableRows) -> None:
    """Wait for the work that follows the last commit: it may write another checkpoint of it."""
    done = threading.Event()
    table.env.background(done.set)
    done.wait(_HOOKS_SECONDS)


# --- what to search for


def _text_columns(snapshot: Snapshot) -> list[str]:
    return [column.name for column in arrow_schema(snapshot.schema) if has_text(column.type)]


def _texts_of(snapshot: Snapshot, filter: str) -> _Texts:
    """The distinct texts of the rows that match."""
    texts = _Texts()
    if columns := _text_columns(snapshot):
        for batch in snapshot.to_batches(columns, filter):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                for leaf in texts_in(column):
                    for value in leaf.drop_null().to_pylist():
                        texts.take(value.decode("utf-8", "replace"), name)
    return texts


def _sought(snapshot: Snapshot, texts: _Texts, search: Sequence[str]) -> dict[str, str]:
    """What is searched for, each with its column. Texts that rows of the table contain are left out: files have them
    rightfully.
    """
    columns = _text_columns(snapshot)
    for batch in snapshot.to_batches(columns) if columns and texts.found else ():
        for column in batch.columns:
            for leaf in texts_in(column):
                texts.drop(sorted(Needles({text: text for text in texts.found}).within(leaf)))
    longest = sorted(texts.found, key=len, reverse=True)
    texts.drop(longest[VALUES_MAX:])
    return {**texts.found, **dict.fromkeys(search, "search")}
