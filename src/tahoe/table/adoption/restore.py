"""RESTORE: commits a version that equals an earlier one.

Protocol: "Action Reconciliation", "Row Tracking", "Identity Columns", "Domain Metadata". Files, deletion vectors,
metadata and clustering columns are those of the earlier version. What must never go back stays: the protocol, the row
ids and identity values that were assigned, the column ids that were used, the versions that applications have recorded,
and the domains of users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from tahoe.errors import (
    InvalidTimeTravelError,
    MissingVersionError,
    RestoreBesideVacuumError,
    RestoreFilesMissingError,
    RestoreRetentionError,
    RestoreTimestampTooEarlyError,
    RestoreTimestampTooLateError,
    RestoreVersionError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tahoe.protocol.changes.assigned_numbers import assigned_row_ids, with_identity_marks_of
from tahoe.protocol.configuration.feature_upgrade import upgrade
from tahoe.protocol.configuration.features import check_writable, supported_features
from tahoe.protocol.configuration.properties import DELETED_FILE_RETENTION
from tahoe.protocol.configuration.row_tracking import DOMAIN as ROW_TRACKING
from tahoe.protocol.configuration.row_tracking import assigns_row_ids, high_water_mark, high_water_mark_domain
from tahoe.protocol.log.actions import Add, DomainMetadata, Metadata, Protocol
from tahoe.protocol.log.copied_files import copied_files, taken_over
from tahoe.protocol.statistics import clustering
from tahoe.protocol.statistics.clustering import clustering_domain
from tahoe.table.adoption.adopt import (
    Adoption,
    FileDifference,
    adopt,
    check_partitions_in_files,
    entries_at,
    file_difference,
    protection_of,
)
from tahoe.table.adoption.last_row_ids import with_last_row_ids
from tahoe.table.adoption.missing_files import missing_files, shown
from tahoe.table.cleanup.vacuums_at_work import VacuumsAtWork
from tahoe.table.commit.continuity import check_same_table
from tahoe.table.commit.draft import OperationInfo
from tahoe.table.log.vacuum_starts import vacuum_cutoff_ms
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.history import newest_is_before, parse_timestamp, version_at
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.versions.tags import holding_tags

RESTORE = "RESTORE"

_ONE_OF_THEM = (
    "Give one of them: --version or --timestamp on the command line, version or timestamp in Python. "
    "`tahoe history` and DESCRIBE HISTORY list the versions."
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Which version is restored.

    Attributes:
        version, timestamp: exactly one of them; a version may be the name of a tag; that at a timestamp is the newest
            one not after it.
        ignore_missing_files: restore also a version of which data files or deletion vectors are gone. Queries then fail
            at these files.
        retention_check: refuse a version that is older than the retention of removed files, or than the cutoff of a
            VACUUM that has not ended, because VACUUM may be deleting its files.
        dry_run: check everything, and commit nothing.
        engine: the program that hosts tahoe, for the history.
    """

    version: int | str | None = None
    timestamp: str | date | None = None
    ignore_missing_files: bool = False
    retention_check: bool = True
    dry_run: bool = False
    user_metadata: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What RESTORE did.

    Attributes:
        table: the url of the table.
        version: the version that was committed; None if the newest version was the one to restore, and in a dry run.
        restored_version: the version that it equals.
        files, size_bytes: those of the table now. In a dry run, here and below: what they would be.
        removed_files, removed_bytes: those that were removed from the table.
        restored_files, restored_bytes: those that are in the table again. A file with another deletion vector counts as
            both.
    """

    table: str
    version: int | None
    restored_version: int
    files: int
    size_bytes: int
    removed_files: int = 0
    removed_bytes: int = 0
    restored_files: int = 0
    restored_bytes: int = 0
    is_dry_run: bool = False

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics of the history, under the reference's names."""
        return {
            "tableSizeAfterRestore": self.size_bytes,
            "numOfFilesAfterRestore": self.files,
            "numRemovedFiles": self.removed_files,
            "numRestoredFiles": self.restored_files,
            "removedFilesSize": self.removed_bytes,
            "restoredFilesSize": self.restored_bytes,
        }


def restore(table: TableReader, request: RestoreRequest) -> RestoreReport:
    """Restore a table to an earlier version. Commits of other writers do not stop it: the difference to the newest
    version is then computed anew.

    Raises:
        InvalidTimeTravelError: not exactly one of version and timestamp was given, or the timestamp is invalid.
        RestoreVersionError, RestoreTimestampTooEarlyError, RestoreTimestampTooLateError: the log does not have such a
            version.
        TagNotFoundError, TagLostError: the table has no such tag, or its version can no longer be read.
        RestoreRetentionError: the version is older than the retention of removed files, and no tag holds it.
        RestoreBesideVacuumError: a VACUUM is at work that may delete files of the version.
        RestoreFilesMissingError: files of the version are gone.
        AppendOnlyTableError: files would be removed from an append-only table.
        DeltaProtocolError: the table needs a writer feature that tahoe does not support.
        MetadataChangedException: the table was replaced meanwhile.
    """
    table = table.keeping_commits()
    newest = table.snapshot()
    version, moment_ms = _wanted_version(newest, request)
    restored = _snapshot_at(table, newest, version)
    if restored.version == newest.version:
        return RestoreReport(
            table=table.url,
            version=None,
            restored_version=newest.version,
            files=len(newest.live),
            size_bytes=newest.live.size_bytes,
            is_dry_run=request.dry_run,
        )
    if request.retention_check:
        _check_retention(restored, newest)
    work = _Restoration(table=table, request=request, first=newest, restored=restored, moment_ms=moment_ms)
    if request.dry_run:
        work.plan(newest)  # checks everything and makes the report
        return replace(work.report, is_dry_run=True)
    committed = adopt(table, work.plan)
    return replace(work.report, version=committed)


# --- which version


def _wanted_version(newest: Snapshot, request: RestoreRequest) -> tuple[int | str, int | None]:
    """The version to restore, or its tag, and the requested time."""
    if (request.version is None) == (request.timestamp is None):
        given = (
            "neither a version nor a timestamp was"
            if request.version is None
            else "both a version and a timestamp were"
        )
        raise InvalidTimeTravelError(table=newest.url, detail=f"{given} given").restate(_ONE_OF_THEM)
    if request.version is not None:
        return request.version, None
    assert request.timestamp is not None
    moment_ms = parse_timestamp(request.timestamp, table=newest.url)
    try:
        return version_at(newest, moment_ms), moment_ms
    except TimestampOutOfRangeError as error:
        found = error.parameters
        if newest_is_before(newest, moment_ms):
            raise RestoreTimestampTooLateError(
                table=newest.url, requestedTimestamp=found["timestamp"], latestTimestamp=found["latest"]
            ) from None
        raise RestoreTimestampTooEarlyError(
            table=newest.url, requestedTimestamp=found["timestamp"], earliestTimestamp=found["earliest"]
        ) from None


def _snapshot_at(table: TableReader, newest: Snapshot, version: int | str) -> Snapshot:
    try:
        return table.snapshot(version)
    except VersionNotFoundError as error:
        first, last = error.parameters["earliest"], error.parameters["latest"]
        raise RestoreVersionError(table=newest.url, version=version, startVersion=first, endVersion=last) from error


def _check_retention(restored: Snapshot, newest: Snapshot) -> None:
    retention = DELETED_FILE_RETENTION.get(newest.properties, table=newest.url)
    if any(tag.version == restored.version for tag in holding_tags(newest, newest.log.env.clock_ms())):
        return  # VACUUM keeps its files
    if restored.timestamp_ms < newest.log.env.clock_ms() - retention / timedelta(milliseconds=1):
        hours = f"{retention / timedelta(hours=1):g}"
        raise RestoreRetentionError(table=newest.url, version=restored.version, deletedFileRetention=hours)


# --- the version that is made


@dataclass(kw_only=True)
class _Restoration:
    """A version to restore, behind whatever the newest version is.

    Attributes:
        first: the newest version when the work began.
        moment_ms: the time that was asked for.
        report: of the plan that was made last.
    """

    table: TableReader
    request: RestoreRequest
    first: Snapshot
    restored: Snapshot
    moment_ms: int | None
    report: RestoreReport = field(init=False)
    _seen: set[Add] = field(default_factory=set, init=False)
    _seen_at: int = field(default=-1, init=False)
    _vacuums: VacuumsAtWork = field(init=False)

    def __post_init__(self) -> None:
        self._vacuums = VacuumsAtWork(version=self.restored.version)

    def plan(self, newest: Snapshot | None) -> Adoption:
        """The commit that makes the restored version out of the newest one, and its `report`. Nothing is committed if
        the error of `restore` is raised.
        """
        newest = newest or self.table.snapshot()
        restored = self.restored
        check_same_table(self.first, newest)
        difference = file_difference(newest.log, newest.live, restored.live)
        protocol, metadata = self._configuration(newest, removes_data=bool(len(difference.removed)))
        added = [add.replace(data_change=True) for add in entries_at(restored, difference.added)]
        removed = list(entries_at(newest, difference.removed))
        is_tracked = assigns_row_ids(protocol, metadata)
        if added and self.request.retention_check:
            self._check_vacuums(newest)
        self._check_files(added, newest)
        self.report = RestoreReport(
            table=self.table.url,
            version=None,
            restored_version=restored.version,
            files=len(restored.live),
            size_bytes=restored.live.size_bytes,
            removed_files=len(removed),
            removed_bytes=sum(add.size_bytes for add in removed),
            restored_files=len(added),
            restored_bytes=sum(add.size_bytes for add in added),
        )
        return Adoption(
            protocol=protocol,
            metadata=metadata,
            domains=_domains(restored, newest)
            | taken_over(newest.domains, copied_files(restored.domains, restored.metadata.id), table_id=metadata.id),
            removed=removed,
            added=with_last_row_ids(newest, added) if is_tracked else added,
            restated=list(_given_ids(restored, newest, difference)) if is_tracked else (),
            info=self._info(),
        )

    def _configuration(self, newest: Snapshot, *, removes_data: bool) -> tuple[Protocol, Metadata]:
        """Protocol and metadata of the new version."""
        restored, url = self.restored, self.table.url
        check_writable(newest.protocol, newest.metadata, table=url, removes_data=removes_data)
        check_writable(restored.protocol, restored.metadata, table=url)
        protocol = upgrade(newest.protocol, supported_features(restored.protocol))
        metadata = _metadata(restored, newest, protocol)
        check_writable(protocol, metadata, table=url)
        check_partitions_in_files(restored, protocol, metadata, table=url, operation=RESTORE)
        return protocol, metadata

    def _check_vacuums(self, newest: Snapshot) -> None:
        vacuum = self._vacuums.deleting(newest)
        if vacuum is not None:
            version = self.restored.version
            raise RestoreBesideVacuumError(
                table=newest.url, version=version, vacuumVersion=vacuum.began, kept=vacuum.kept
            )

    def _check_files(self, added: Sequence[Add], newest: Snapshot) -> None:
        """Check that the files to add exist; after a conflict, only those that were not looked at before, unless a
        VACUUM has begun.
        """
        if self._seen and vacuum_cutoff_ms(newest.log, self._seen_at, newest.version) is not None:
            self._seen.clear()
        self._seen_at = newest.version
        new = [add for add in added if add not in self._seen]
        if self.request.ignore_missing_files or not new:
            return
        missing = missing_files(self.restored.log, new)
        if missing:
            version = self.restored.version
            raise RestoreFilesMissingError(
                table=self.table.url, version=version, count=len(missing), files=shown(missing)
            )
        self._seen.update(new)

    def _info(self) -> OperationInfo:
        """The entry of the history: it has the version or the time, whichever the user named."""
        moment = None if self.moment_ms is None else self._moment_text(self.moment_ms)
        return OperationInfo(
            operation=RESTORE,
            parameters={
                "version": None if self.request.version is None else self.restored.version,
                "timestamp": moment,
            },
            metrics=self.report.metrics,
            user_metadata=self.request.user_metadata,
            engine=self.request.engine,
        )

    def _moment_text(self, moment_ms: int) -> str:
        """A time as the reference's history has it, in the time zone of the table's session: `2026-01-31
        12:00:00.0`.
        """
        text = (
            (_EPOCH + timedelta(milliseconds=moment_ms))
            .astimezone(self.table.log.zone)
            .strftime("%Y-%m-%d %H:%M:%S.%f")
        )
        return text[:-5] + text[-5:].rstrip("0")


def _metadata(restored: Snapshot, newest: Snapshot, protocol: Protocol) -> Metadata:
    """The metadata of the restored version. Identity values are never assigned twice, and checkpoints stay
    protected.
    """
    schema = with_identity_marks_of(newest.metadata, restored.schema, table=newest.url)
    configuration = {**restored.properties, **protection_of(newest, protocol, restored.properties)}
    text = restored.metadata.schema_string if schema == restored.schema else schema.to_json()
    return restored.metadata.replace(schema_string=text, configuration=configuration)


def _domains(restored: Snapshot, newest: Snapshot) -> dict[str, DomainMetadata]:
    """The domains that change: the clustering columns, and the high-water mark of row ids if that of the restored
    version is higher.
    """
    changed = {}
    before, after = newest.domains.get(clustering.DOMAIN), restored.domains.get(clustering.DOMAIN)
    if before is not None and after is None:
        after = clustering_domain((), restored.schema, restored.column_mapping_mode)
    if after is not None and after != before:
        changed[clustering.DOMAIN] = after
    mark = high_water_mark(restored.domains.get(ROW_TRACKING))
    if mark > assigned_row_ids(newest.domains.get(ROW_TRACKING), newest.properties, table=newest.url):
        changed[ROW_TRACKING] = high_water_mark_domain(max([mark, *_marks_between(restored, newest)]))
    return changed


def _marks_between(restored: Snapshot, newest: Snapshot) -> Iterator[int]:
    """The marks of row ids in the commits after the restored version. Another writer that drops row tracking leaves the
    last one only in a tombstone.
    """
    for version in range(restored.version + 1, newest.version + 1):
        with suppress(MissingVersionError):
            for action in newest.log.read_version(version):
                if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING:
                    yield high_water_mark(action.replace(removed=False))


def _given_ids(restored: Snapshot, newest: Snapshot, difference: FileDifference) -> Iterator[Add]:
    """The entries of files that stay, but have no row ids now, or other ones: with those that they had in the restored
    version, if any.
    """
    for add in entries_at(restored, difference.with_other_row_ids(newest.live, restored.live)):
        yield add.replace(data_change=False)
