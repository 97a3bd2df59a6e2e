"""VACUUM: deletes the files in a table's folder that no version within the retention needs.

The folder is listed before the newest version is read, so that a file that is committed meanwhile is known to be
needed. Whether files may be deleted, and after which retention, is decided on the version before the listing and on the
one after it. Tags are read after the cutoff was chosen, and again before each batch of files is deleted. So a tag that
a run does not see is newer than its clock, and if the version of the tag was within the retention when it was made, its
files are not deleted. VACUUM START in the log tells writers and RESTORE which files may go. Nothing else is locked or
remembered: a run that is interrupted has deleted some of the files, and the next run deletes the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._progress import showing
from tahoe.errors import (
    DeltaError,
    InvalidOptionError,
    MetadataChangedException,
    NotADeltaTableError,
    StorageRefusedError,
    TableNotFoundError,
    VacuumPartitionError,
    VacuumRetentionNegativeError,
    VacuumRetentionTooShortError,
)
from tahoe.protocol.configuration.column_mapping import stored_name
from tahoe.protocol.configuration.features import check_writable
from tahoe.protocol.configuration.properties import DELETED_FILE_RETENTION
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.protocol.log.actions import VACUUM_END, VACUUM_START, VACUUM_STARTED
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.protocol.log.tags import Tag
from tahoe.protocol.types.names import counted
from tahoe.storage.env import Store, branches, physical_url
from tahoe.storage.locations import split_url
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.chunks import is_in
from tahoe.table.cleanup.dead_files import (
    FILES,
    DeadFiles,
    Listing,
    VacuumScope,
    dead_files,
    folders_above,
    listing_of,
    nested_tables,
)
from tahoe.table.cleanup.held_files import HeldFiles, LateCommits, LateTags, TagHold, held_files
from tahoe.table.cleanup.inventory import inventory_listing
from tahoe.table.cleanup.lite import record_vacuumed_version, removed_files, vacuumed_version
from tahoe.table.cleanup.named_files import with_keys
from tahoe.table.cleanup.retention import protected_files
from tahoe.table.commit.continuity import check_same_table
from tahoe.table.commit.draft import Author, Draft, OperationInfo
from tahoe.table.commit.other_formats import METADATA_FOLDER, abandoned_metadata
from tahoe.table.log.delta_log import Log
from tahoe.table.log.kept_commits import KeptCommits
from tahoe.table.reading.snapshot import Snapshot, check_may_delete
from tahoe.table.versions.history import version_before
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.versions.tags import holding_tags

_logger = logging.getLogger("tahoe")

# The number of files between two reports of progress.
BATCH_FILES = 8000

# The schemes on which the reference records VACUUM in the history by default.
_LOGGED_SCHEMES = frozenset({"wasbs", "wasbss", "abfs", "abfss", "adl", "gs", "file", "hdfs"})

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRequest:
    """What a VACUUM asks for.

    Attributes:
        retention_hours: None for `delta.deletedFileRetentionDuration`.
        lite: find the files in the log instead of listing the folder.
        dry_run: delete and record nothing.
        inventory: a list of what is in the folder, with the columns of `INVENTORY`, instead of listing it.
        retention_check: whether a retention below the table's is refused.
        log_history: whether the history records VACUUM START and VACUUM END; None for the reference's choice by the
            url's scheme, and if the retention is shorter than the table's.
        user_metadata, engine: for the history, see `Author`.
        progress: called with the number of files that were dealt with, and the number of all.
    """

    retention_hours: float | None = None
    lite: bool = False
    dry_run: bool = False
    inventory: pa.Table | None = None
    retention_check: bool = True
    log_history: bool | None = None
    user_metadata: str | None = None
    engine: str | None = None
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What a VACUUM did, or with `dry_run` would do.

    Attributes:
        table: the table's url.
        is_lite, is_dry_run: how it ran.
        cutoff_ms: files that no version has needed since this time were deleted, in milliseconds since 1970.
        files, folders: what was deleted, as unescaped paths relative to the table. Paths of a LITE run may have been
            gone before.
        size_bytes: of the files.
        holds: what tags hold back, by tag: files that would have been deleted, and that their versions need.
        held_files, held_bytes: of all tags together; a file that several tags need counts once.
        failed: why files were not deleted, by path. The next run tries again.
    """

    table: str
    is_lite: bool
    is_dry_run: bool
    cutoff_ms: int
    files: tuple[str, ...]
    folders: tuple[str, ...] = ()
    size_bytes: int = 0
    holds: tuple[TagHold, ...] = ()
    held_files: int = 0
    held_bytes: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        done = "would be deleted" if self.is_dry_run else "deleted"
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        held = f", held back by tags: {_amount(self.held_files, self.held_bytes)}" if self.holds else ""
        return f"VacuumReport({self.table!r}, {done}: {_amount(len(self.files), self.size_bytes)}{failed}{held})"

    @property
    def held_back(self) -> str | None:
        """What tags hold back, in a sentence with the next step; None if nothing."""
        if not self.holds:
            return None
        tags = ", ".join(
            f"{hold.tag} of version {hold.version} ({_amount(hold.files, hold.size_bytes)})" for hold in self.holds
        )
        left = "would not be deleted" if self.is_dry_run else "were not deleted"
        return (
            f"{_amount(self.held_files, self.held_bytes)} that no version within the retention needs {left}, because "
            f"tags hold them: {tags}. To delete them, drop these tags and run VACUUM again"
        )

    @property
    def paths(self) -> list[str]:
        """The absolute urls of what was deleted, unescaped."""
        return [f"{self.table}/{key}" for key in (*self.files, *self.folders)]


def vacuum(table: TableReader, request: VacuumRequest) -> VacuumReport:
    """Delete the files that no version within the retention needs, and the folders that this leaves empty.

    Raises:
        VacuumPartitionError: the location is a partition of a table.
        VacuumRetentionNegativeError, VacuumRetentionTooShortError: the retention is too short.
        CannotVacuumLiteError: a LITE run lacks commits.
        InvalidInventoryError, InvalidOptionError: the inventory has other columns, or was given to a LITE run.
        DeltaProtocolError: the table may not be written by this version of tahoe.
        MetadataChangedException: the table was replaced, or its retention raised, before files were deleted.
        TagLostError: the version of a tag can no longer be read, so it is unknown what it needs; nothing was deleted.
        DeltaError: the table cannot be read or listed, or VACUUM START cannot be committed; nothing was deleted.
    """
    if not request.dry_run:
        check_may_delete(table.log, "VACUUM")
    now_ms, table = table.env.clock_ms(), TableReader.knowing(replace(table.log, kept=KeptCommits()), None)
    if request.lite and request.inventory is not None:
        raise InvalidOptionError(
            option="inventory", value="a table", table=table.url, detail="VACUUM LITE works from the log"
        )
    requested_ms = _requested_ms(request, table.url)
    first = _snapshot(table)
    retention_before_ms = _checked_table_retention_ms(first, request, requested_ms)
    listing = _listing(table, request)
    newest = table.snapshot()
    check_same_table(first, newest)
    table_retention_ms = max(retention_before_ms, _checked_table_retention_ms(newest, request, requested_ms))
    cutoff_ms = max(now_ms - (table_retention_ms if requested_ms is None else requested_ms), 0)
    run = _Run(
        table=table,
        request=request,
        listing=listing,
        snapshot=newest,
        tags=holding_tags(newest, now_ms),
        requested_ms=requested_ms,
        table_retention_ms=table_retention_ms,
        cutoff_ms=cutoff_ms,
    )
    return run.dry() if request.dry_run else run.run()


def _listing(table: TableReader, request: VacuumRequest) -> Listing | None:
    if request.lite:
        return None
    given = request.inventory
    return listing_of(branches(table.env.store)) if given is None else inventory_listing(given, table.url)


def _snapshot(table: TableReader) -> Snapshot:
    try:
        return table.snapshot()
    except (TableNotFoundError, NotADeltaTableError):
        check_not_partition(table)
        raise


def check_not_partition(table: TableReader) -> None:
    """Refuse a location without a table if it is a partition of one.

    Raises:
        VacuumPartitionError: it is.
    """
    folder, _, name = table.url.rpartition("/")
    while "=" in name:
        if Log(replace(table.env, store=table.env.store_at(folder))).exists():
            raise VacuumPartitionError(table=table.url, baseDeltaPath=folder)
        folder, _, name = folder.rpartition("/")


def _requested_ms(request: VacuumRequest, table: str) -> int | None:
    """The retention that was asked for; None for that of the table."""
    if request.retention_hours is None:
        return None
    if request.retention_hours < 0:
        raise VacuumRetentionNegativeError(table=table, hours=f"{request.retention_hours:g}")
    return min(round(request.retention_hours * _HOUR_MS), _LONG_MAX)


def _checked_table_retention_ms(snapshot: Snapshot, request: VacuumRequest, requested_ms: int | None) -> int:
    """The retention of a version of the table, if the request may run on it.

    Raises:
        DeltaProtocolError, VacuumRetentionTooShortError: it may not.
    """
    check_writable(snapshot.protocol, snapshot.metadata, table=snapshot.url)
    table_retention_ms = DELETED_FILE_RETENTION.get(snapshot.properties, table=snapshot.url) // timedelta(
        milliseconds=1
    )
    if request.retention_check and requested_ms is not None and requested_ms < table_retention_ms:
        hours = -(-table_retention_ms // _HOUR_MS)
        raise VacuumRetentionTooShortError(
            table=snapshot.url, hours=f"{request.retention_hours:g}", configuredRetentionHours=hours
        )
    return table_retention_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One VACUUM at work.

    Attributes:
        listing: what was in the folder; None for a LITE run.
        snapshot: the newest version after the listing.
        tags: the tags of that version that have not expired.
        requested_ms: the retention that was asked for; None if that of the table applies.
        table_retention_ms: the retention of the table: the longer one, if it changed during the listing.
    """

    table: TableReader
    request: VacuumRequest
    listing: Listing | None
    snapshot: Snapshot
    tags: Sequence[Tag]
    requested_ms: int | None
    table_retention_ms: int
    cutoff_ms: int

    def dry(self) -> VacuumReport:
        _, dead, held = self._files_to_delete()
        return self._report(dead, held, tuple(dead.folders), {})

    def run(self) -> VacuumReport:
        before, dead, held = self._files_to_delete()
        self._check_again()
        started = self._record_start(dead, held)
        late = LateTags(known=set(self.tags), dead=dead.files)
        commits = LateCommits(version=self.snapshot.version, dead=dead.files["key"])
        try:
            failed = self._delete(dead, late, commits)
            deleted = [key for key in dead.files["key"].to_pylist() if key not in failed]
            emptied = folders_above(deleted, VacuumScope()) if self.request.lite else dead.folders
            folders = tuple(self.table.env.store.remove_folders(emptied))
        except BaseException:
            with suppress(Exception):
                self._record(VACUUM_END, {"status": "FAILED", VACUUM_STARTED: started}, {})
            raise
        spared = late.spared | commits.spared
        report = replace(
            self._report(dead, held, folders, failed), failed={key: failed[key] for key in failed if key not in spared}
        )
        self._record_end(report, dead, started)
        if before is not None and self.request.inventory is None and not failed:
            self._record_version(before if held.oldest is None else min(before, held.oldest))
        return report

    # --- what to delete

    def _files_to_delete(self) -> tuple[int | None, DeadFiles, HeldFiles]:
        """The newest version before the cutoff, if the log has one, what no version since then needs, and what of it
        tags hold back.
        """
        listing, snapshot = self.listing, self.snapshot
        log_files = snapshot.log.list_files()
        before = version_before(snapshot, self.cutoff_ms, log_files)
        before = None if before is None else min(before, snapshot.version)
        protected = protected_files(snapshot, log_files, before, self.cutoff_ms)
        scope = _scope_of(snapshot)
        if listing is None:
            files = removed_files(snapshot, before, protected, scope)
            files = files.filter(self._without_tables(scope, files).includes_files(files["key"]))
            held = held_files(snapshot, self.tags, files)
            left = files.filter(pc.invert(is_in(files["key"], held.files["key"])))
            return before, DeadFiles(files=left, checksums=[], folders=[], folders_seen=1), held
        scope = replace(scope, tables=nested_tables(listing))
        dead = dead_files(listing, protected, scope, self.cutoff_ms)
        if self.request.inventory is not None:  # it need not contain the logs
            scope = self._without_tables(scope, dead.files)
            dead = dead_files(listing, protected, scope, self.cutoff_ms)
        held = held_files(snapshot, self.tags, dead.files)
        if held.holds:
            dead = dead_files(listing, with_keys(protected, held.files["key"]), scope, self.cutoff_ms)
        abandoned = self._abandoned_metadata(listing)
        return before, replace(dead, files=pa.concat_tables([dead.files, abandoned])), held

    def _abandoned_metadata(self, listing: Listing) -> pa.Table:
        """The files in the folder of Iceberg's metadata that it does not need, as a converter that died has left them.
        Those of the last day may be of one at work.
        """
        newest_ms = min(self.cutoff_ms, self.table.env.clock_ms() - _DAY_MS)
        is_there = has_iceberg(self.snapshot.properties)
        old = pa.concat_tables(
            piece.filter(
                pc.and_(pc.starts_with(piece["key"], f"{METADATA_FOLDER}/"), pc.less(piece["modified_ms"], newest_ms))
            )
            for piece in (listing.pieces() if is_there else [FILES.empty_table()])
        )
        abandoned = abandoned_metadata(self.snapshot, old["key"].to_pylist())
        return old.filter(is_in(old["key"], pa.chunked_array([abandoned], pa.string())))

    def _without_tables(self, scope: VacuumScope, files: pa.Table) -> VacuumScope:
        """The scope without the folders above some of its files that have a `_delta_log` of their own: one request
        for each folder.
        """
        store, folders = self.table.env.store, folders_above(files["key"].to_pylist(), scope)

        def is_table(folder: str) -> bool:
            return any(True for _ in store.list_from(f"{folder}/{LOG_FOLDER}"))

        tables = (folder for folder, found in zip(folders, in_threads(is_table, folders), strict=True) if found)
        return replace(scope, tables=scope.tables.union(tables))

    def _newest_writable(self) -> Snapshot:
        """The newest version, if this run may still write to the table.

        Raises:
            MetadataChangedException: the table was replaced.
            DeltaProtocolError: it now needs a feature that tahoe does not know.
        """
        newest = self.table.snapshot()
        check_same_table(self.snapshot, newest)
        check_writable(newest.protocol, newest.metadata, table=newest.url)
        return newest

    def _check_again(self) -> None:
        """Before files are deleted, check that the table may still be written, and that its retention was not raised
        since the listing: to find the files can take hours.

        Raises:
            MetadataChangedException, DeltaProtocolError: it may not, or it was.
            VacuumRetentionTooShortError: the retention that was asked for is below the new one.
        """
        newest = self._newest_writable()
        table_retention_ms = _checked_table_retention_ms(newest, self.request, self.requested_ms)
        if self.requested_ms is None and table_retention_ms > self.table_retention_ms:
            detail = (
                f"it raised {DELETED_FILE_RETENTION.name} from {self.table_retention_ms} to {table_retention_ms} ms; "
                f"no file was deleted"
            )
            raise MetadataChangedException(
                table=newest.url, winner=f"version {newest.version} or an earlier one", detail=detail
            )

    # --- deleting

    def _delete(self, dead: DeadFiles, late: LateTags, commits: LateCommits) -> dict[str, str]:
        """Delete the files; returns the errors of those that were not deleted, with those that tags or commits made
        meanwhile need.
        """
        store, url = self.table.env.store, self.table.url
        keys: list[str] = dead.files["key"].to_pylist()
        failed: dict[str, str] = {}
        with showing("VACUUM", user_function=self.request.progress) as show_progress:
            for start in range(0, len(keys), BATCH_FILES):
                newest, batch = self._newest_writable(), keys[start : start + BATCH_FILES]
                late.look(newest, self.table.env.clock_ms(), keys[:start])
                commits.look(newest, keys[:start])
                failed |= {key: "a tag that was made meanwhile holds it" for key in batch if key in late.spared}
                failed |= {key: "a commit that was made meanwhile names it" for key in batch if key in commits.spared}
                failed |= {
                    key: str(error)
                    for key, error in store.delete_many([key for key in batch if key not in failed]).items()
                }
                done = min(start + BATCH_FILES, len(keys))
                _logger.info("%s: VACUUM has dealt with %s of %s files", url, done, len(keys))
                show_progress(done, len(keys))
        kept_checksums = {_checksum_of(key) for key in failed}
        # Errors do not matter: the next VACUUM deletes what is left, because its file is gone.
        store.delete_many([key for key in dead.checksums if key not in kept_checksums])
        with suppress(DeltaError):  # the files are deleted, and the user needs the report
            newest, deleted = self.table.snapshot(), [key for key in keys if key not in failed]
            late.look(newest, self.table.env.clock_ms(), deleted)
            commits.look(newest, deleted)
        for key, error in failed.items():
            _logger.warning("%s: VACUUM could not delete %s: %s", url, key, error)
        return failed

    def _report(
        self, dead: DeadFiles, held: HeldFiles, folders: tuple[str, ...], failed: Mapping[str, str]
    ) -> VacuumReport:
        """The report of files that were deleted, or with `dry_run` would be: those without the failed ones."""
        files = dead.files
        if failed:
            files = files.filter(pc.invert(pc.is_in(files["key"], value_set=pa.array(list(failed), pa.string()))))
        return VacuumReport(
            table=self.table.url,
            is_lite=self.request.lite,
            is_dry_run=self.request.dry_run,
            cutoff_ms=self.cutoff_ms,
            files=tuple(files["key"].to_pylist()),
            folders=folders,
            size_bytes=pc.sum(files["size_bytes"]).as_py() or 0,
            holds=held.holds,
            held_files=len(held.files),
            held_bytes=held.size_bytes,
            failed=failed,
        )

    # --- the history

    def _record_start(self, dead: DeadFiles, held: HeldFiles) -> int | None:
        """Record the begin. From this version on, no RESTORE of tahoe brings back what this run deletes: see
        `restore`.
        """
        given = {} if self.requested_ms is None else {"specifiedRetentionMillis": self.requested_ms}
        parameters = {
            "retentionCheckEnabled": self.request.retention_check,
            "defaultRetentionMillis": self.table_retention_ms,
            **given,
        }
        size_bytes = pc.sum(dead.files["size_bytes"]).as_py() or 0
        metrics = {"numFilesToDelete": len(dead.files) + len(dead.folders), "sizeOfDataToDelete": size_bytes}
        by_tags = {"numFilesHeldByTags": len(held.files), "sizeOfDataHeldByTags": held.size_bytes} if held.holds else {}
        return self._record(VACUUM_START, parameters, metrics | by_tags)

    def _record_end(self, report: VacuumReport, dead: DeadFiles, started: int | None) -> None:
        """Record the end. If that fails, the files are deleted all the same, and the user needs the report."""
        metrics = {
            "numDeletedFiles": len(report.files) + len(report.folders),
            "numVacuumedDirectories": dead.folders_seen,
        }
        try:
            self._record(VACUUM_END, {"status": "COMPLETED", VACUUM_STARTED: started}, metrics)
        except DeltaError as error:
            _logger.warning(
                "%s: VACUUM is complete, but its end could not be recorded in the history: %s", report.table, error
            )

    def _record_version(self, before: int) -> None:
        """Record for VACUUM LITE how far this run came. If that fails, the next one only reads more commits."""
        try:
            done = vacuumed_version(self._newest_writable())
        except DeltaError as error:
            _logger.warning("%s: VACUUM is complete, but VACUUM LITE will not know it: %s", self.table.url, error)
        else:
            record_vacuumed_version(self.table.env.store, before if done is None else max(before, done))

    def _record(self, operation: str, parameters: Mapping[str, object], metrics: Mapping[str, int]) -> int | None:
        """Commit the record; returns its version, or None if this run is not recorded."""
        wanted = self.request.log_history
        is_short = (
            self.requested_ms is not None and self.requested_ms < self.table_retention_ms
        )  # writers learn from it that their files may be gone
        if not (is_short or _is_logged(self.table.env.store) if wanted is None else wanted):
            return None
        snapshot = self._newest_writable()
        draft = Draft(log=snapshot.log, base=snapshot, protocol=snapshot.protocol, metadata=snapshot.metadata)
        author = Author(user_metadata=self.request.user_metadata, engine=self.request.engine)
        return draft.commit(OperationInfo(operation=operation, parameters=parameters, metrics=metrics, **author))


def _scope_of(snapshot: Snapshot) -> VacuumScope:
    """The part of the folder that VACUUM may touch. Folders of partition columns are part of it even if their names
    begin with `_` or `.`; they are named by logical or physical names. The folder of Iceberg's metadata is not.
    """
    fields = [
        field for field in (snapshot.schema.find(name) for name in snapshot.partition_columns) if field is not None
    ]
    physical = {stored_name(field, snapshot.column_mapping_mode) for field in fields}
    return VacuumScope(
        partition_columns=frozenset({*snapshot.partition_columns, *physical}),
        hidden_names=frozenset({METADATA_FOLDER} if has_iceberg(snapshot.properties) else ()),
    )


def _is_logged(store: Store) -> bool:
    try:
        return split_url(physical_url(store))[0] in _LOGGED_SCHEMES
    except StorageRefusedError:
        return False


def _amount(files: int, size_bytes: int) -> str:
    return f"{counted(files, 'file')} of {counted(size_bytes, 'byte')}"


def _checksum_of(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
