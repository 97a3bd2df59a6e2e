"""FSCK REPAIR TABLE: repairs what `check` finds, as far as that is safe, after it has said what it will do.

Entries of files that are gone are removed, but only if the storage says that they do not exist. If it does not answer
for one file, nothing is changed. Everything is decided before the first change. A repair that is interrupted can be
repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tahoe.errors import DeltaStorageError, RepairUncertainError
from tahoe.errors.root import cause_text
from tahoe.protocol.log import log_files
from tahoe.storage.env import FileInfo
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.continuity import check_same_table
from tahoe.table.commit.draft import OperationInfo
from tahoe.table.commit.post_commit_hooks import delete_if_same
from tahoe.table.layout.statistics import AnalyzeRequest, compute_statistics
from tahoe.table.reading.snapshot import Snapshot, check_may_delete, load_snapshot
from tahoe.table.verify.file_repairs import (
    FSCK,
    FileRepairs,
    UnreadableVectors,
    check_repairable,
    commit_changes,
    plan_file_repairs,
)
from tahoe.table.verify.files import Depth, check_files
from tahoe.table.verify.findings import UNREADABLE, Finding, Kind, Severity, finding_of_error
from tahoe.table.verify.log import check_log
from tahoe.table.verify.log_repairs import plan_log_repairs
from tahoe.table.verify.repairs import Repair, RepairKind, Unrepaired, unrepaired
from tahoe.table.versions.table_reader import TableReader

_logger = logging.getLogger("tahoe")

# The log of the program names this many repairs; the report has all.
_TOLD_MAX = 20

_NOTHING = "Nothing was committed."


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """What is repaired.

    Attributes:
        dry_run: only report what would be done.
        metadata_only: repair only the log, and look at no data file.
        verify_all_files: also read the footer of every data file, and every deletion vector. Otherwise only look
            whether they exist.
        verify_statistics: also compare all statistics with the rows; files whose footers confirm them are not read.
        unreadable_vectors: what is done about a file whose deletion vector is missing or damaged: only report it; keep
            the file without the vector, so that its deleted rows are in the table again; or remove the file with all
            its rows.
        announce: called with the report before anything is changed. Without it, the log of the program names the
            repairs.
        engine: the program that hosts tahoe, for the history.
    """

    dry_run: bool = False
    metadata_only: bool = False
    verify_all_files: bool = False
    verify_statistics: bool = False
    unreadable_vectors: UnreadableVectors = "report"
    announce: Callable[[RepairReport], None] | None = None
    user_metadata: str | None = None
    engine: str | None = None

    @property
    def depth(self) -> Depth:
        if self.verify_statistics:
            return Depth.ROWS
        return Depth.CONTENTS if self.verify_all_files else Depth.PRESENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What repair did, or with `dry_run` would do.

    Attributes:
        repairs: the findings that were repaired, each with what was done.
        left: the findings that were not, each with the reason.
        version: the last version that was committed; None if the table's entries are as they were.
    """

    table: str
    repairs: tuple[Repair, ...] = ()
    left: tuple[Unrepaired, ...] = ()
    version: int | None = None
    is_dry_run: bool = False

    @property
    def removed_files(self) -> tuple[str, ...]:
        """The paths of the files that were removed from the table, as in the log."""
        removed = (r.finding.file for r in self.repairs if r.action is RepairKind.REMOVE_ENTRY)
        return tuple(dict.fromkeys(path for path in removed if path is not None))


def repair(table: TableReader, request: RepairRequest) -> RepairReport:
    """Repair the newest version of a table.

    Raises:
        TableNotFoundError, NotADeltaTableError: there is no table.
        RepairUncertainError: the storage does not tell whether a file exists. The error says what was changed before.
        CommitOutcomeUnknownError: the storage does not tell whether the commit was written.
        DeltaProtocolError: the table needs a writer feature that tahoe does not support, or another writer has made it
            need one.
        AppendOnlyTableError: files are gone, but the table does not allow to remove rows.
        MetadataChangedException: the table was replaced since it was checked.
    """
    if not request.dry_run:
        check_may_delete(table.log, "repair()")
    listed = {info.key: info for info in table.env.store.list_from(log_files.LOG_FOLDER)}
    in_log, snapshot = _check_log(table)
    of_files = FileRepairs()
    if snapshot is not None and not request.metadata_only:
        of_files = _check_files(snapshot, request)
    decisions = [*in_log, *of_files.decisions]
    report = RepairReport(
        table=table.url,
        repairs=tuple(d for d in decisions if isinstance(d, Repair)),
        left=tuple(d for d in decisions if isinstance(d, Unrepaired)),
        is_dry_run=request.dry_run,
    )
    if snapshot is not None and report.repairs and not request.dry_run:
        check_repairable(table, snapshot, removes=bool(of_files.changes))
    if request.announce is not None:
        request.announce(report)
    if snapshot is None or not report.repairs or request.dry_run:
        return report
    if request.announce is None:
        _tell(report)
    _delete_log_files(table, snapshot, report.repairs, listed)
    table.forget()  # it may have read the files that were deleted
    return replace(report, version=_repair_files(table, request, snapshot, of_files, report))


# --- what is found


def _check_log(table: TableReader) -> tuple[list[Repair | Unrepaired], Snapshot | None]:
    """The decisions about the log, and the newest version as it is without the files to delete; None if it cannot be
    read.
    """
    log = table.log
    files = log.list_files()
    findings = [
        found for found in check_log(log) if found.kind is not Kind.DUPLICATE_FILE
    ]  # its files tell what can be done
    decisions = plan_log_repairs(log, files, findings)
    if any(isinstance(d, Unrepaired) and d.finding.severity is Severity.ERROR for d in decisions):
        decisions = [_kept(d) if d.finding.kind is Kind.WRONG_CHECKSUM_FILE else d for d in decisions]
    names_to_delete = {key.rpartition("/")[2] for d in decisions if isinstance(d, Repair) for key in d.keys}
    try:
        return decisions, load_snapshot(log, by_checksum=False, unusable=frozenset(names_to_delete))
    except UNREADABLE as error:
        unrepaired_log = [
            unrepaired(d.finding, d.reason if isinstance(d, Unrepaired) else "the table cannot be read")
            for d in decisions
        ]
        return [*unrepaired_log, unrepaired(finding_of_error(Kind.UNREADABLE_TABLE, None, None, error))], None


def _kept(decision: Repair | Unrepaired) -> Unrepaired:
    """A version checksum that differs from a log which is wrong itself."""
    return unrepaired(decision.finding, "other files of the log are wrong, so that it may be right")


def _check_files(snapshot: Snapshot, request: RepairRequest) -> FileRepairs:
    """
    Raises:
        RepairUncertainError: the storage did not answer for a file.
    """
    try:
        findings = list(_certain(check_files(snapshot, request.depth), snapshot.url))
        return plan_file_repairs(snapshot, findings, request.unreadable_vectors)
    except DeltaStorageError as error:
        raise RepairUncertainError(table=snapshot.url, detail=cause_text(error), done=_NOTHING) from error


def _certain(findings: Iterable[Finding], table: str) -> Iterator[Finding]:
    """The findings, unless one of them is an error of the storage."""
    for found in findings:
        if _is_of_storage(found.error):
            raise RepairUncertainError(
                table=table, detail=f"{found.file}: {found.detail}", done=_NOTHING
            ) from found.error
        yield found


def _is_of_storage(error: Exception | None) -> bool:
    """Whether an error tells nothing about the file: Arrow's errors about contents have no number of the operating
    system.
    """
    has_number = isinstance(error, OSError) and error.errno is not None and not isinstance(error, FileNotFoundError)
    return isinstance(error, DeltaStorageError) or has_number


def _tell(report: RepairReport) -> None:
    for repaired in report.repairs[:_TOLD_MAX]:
        _logger.warning(
            "%s: repair of %s %s: %s",
            report.table,
            repaired.finding.kind.value,
            repaired.finding.file,
            repaired.action.value,
        )
    if len(report.repairs) > _TOLD_MAX:
        _logger.warning("%s: and %s more repairs", report.table, len(report.repairs) - _TOLD_MAX)


# --- what is done


def _delete_log_files(
    table: TableReader, checked: Snapshot, repairs: Iterable[Repair], listed: dict[str, FileInfo]
) -> None:
    """Delete wrong files of the log, unless they were replaced since they were listed. If a checkpoint was among them,
    a new one is written.

    The newest version is loaded without these files first: if that fails, nothing is deleted.
    """
    keys = [key for r in repairs if r.action is RepairKind.DELETE_LOG_FILE for key in r.keys]
    if not keys:
        return
    log = table.log
    newest = load_snapshot(log, by_checksum=False, unusable=frozenset(key.rpartition("/")[2] for key in keys))
    check_same_table(checked, newest)
    check_repairable(table, newest, removes=False)
    for key in dict.fromkeys(keys):
        if key in listed:
            delete_if_same(log, listed[key])
    names = (log_files.parse_name(key.rpartition("/")[2]) for key in keys)
    if any(file is not None and file.is_checkpoint for file in names):
        write_checkpoint(newest)


def _repair_files(
    table: TableReader, request: RepairRequest, checked: Snapshot, planned: FileRepairs, report: RepairReport
) -> int | None:
    """Commit the changes of entries first, then the statistics that are computed again, and delete temporary files
    last. Gives the last version that was committed.
    """
    info = OperationInfo(operation=FSCK, user_metadata=request.user_metadata, engine=request.engine)
    version = commit_changes(table, checked, list(planned.changes.values()), info)
    if planned.paths:
        wanted = AnalyzeRequest(
            paths=frozenset(planned.paths), user_metadata=request.user_metadata, engine=request.engine
        )
        version = compute_statistics(table, wanted, planned=checked).version or version
    table.env.store.delete_many(
        [key for r in report.repairs if r.action is RepairKind.DELETE_TEMPORARY_FILE for key in r.keys]
    )
    return version
