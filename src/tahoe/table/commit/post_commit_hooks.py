"""Work after a commit: version checksums, metadata of other formats, checkpoints, compacted log files, log cleanup.

Protocol: "Version Checksum File", "Checkpoints", "Log Compaction Files", "Metadata Cleanup". None of these changes the
table's rows, so each may fail or be interrupted at any point. Cleanup deletes files only after it has read the
checkpoint that replaces them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta

import pyarrow.compute as pc

from tahoe.errors import CommitGoneError, DeltaError, InvalidOptionError
from tahoe.events.listeners import background_job
from tahoe.protocol.configuration import properties
from tahoe.protocol.configuration.features import setting, supports
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
    encode_commit,
)
from tahoe.protocol.log.copied_files import FOLDER as COPIED_FOLDER
from tahoe.protocol.log.copied_files import copied_files, superseded
from tahoe.protocol.log.log_files import Checkpoint, Kind, LogFile
from tahoe.protocol.log.replay import FileKey, file_key
from tahoe.protocol.log.version_checksum import VersionChecksum, encode_version_checksum
from tahoe.storage.env import FileInfo, before_describing, may_be_described
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.other_formats import convert_to_other_formats
from tahoe.table.log.checkpoint import read_checkpoint, read_other_actions, sidecar_key
from tahoe.table.log.delta_log import Log
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.snapshot import Snapshot, check_may_delete, is_current, load_snapshot, refresh
from tahoe.table.reading.snapshot_state import in_commit_timestamps_enabled
from tahoe.table.versions.history import version_before
from tahoe.table.versions.tags import holding_tags, oldest_held, tagged_snapshot

_logger = logging.getLogger("tahoe")

# Version checksums list files, transactions and domains if there are few, so that a small table can be opened from one
# file. Every commit writes the list again: with up to 50 files, as the reference has it, a table of tiny commits was
# mostly such lists.
CHECKSUM_FILES_MAX = 10
CHECKSUM_TXNS_MAX = 100
CHECKSUM_DOMAINS_MAX = 10

_DAY_MS = 86_400_000


def _is_there_still(log: Log, version: int) -> bool:
    """Whether the log still has a version. If not, a failed hook is not worth a warning: tables in temporary folders
    are deleted early.
    """
    try:
        return log.commit_file(version) is not None
    except (DeltaError, OSError):
        return True


def after_commit(log: Log, base: Snapshot | None, version: int, actions: Sequence[Action], size_bytes: int) -> None:
    """Run the post-commit hooks of a new version in the background. Errors are only logged.

    Args:
        base: the snapshot that the writer began with.
        actions: the actions of the commit, so that it need not be read again.
        size_bytes: the size of the commit file. It identifies the commit, because the table may have been dropped and
            recreated meanwhile.
    """

    told = background_job(
        "after_commit", log.url, version, lambda: _after_commit(log, base, version, actions, size_bytes)
    )

    def work() -> None:
        try:
            told()
        except Exception as error:
            if _is_there_still(log, version):
                _logger.warning(
                    "%s: version %s is committed, but a post-commit hook failed, and it may have no checksum, "
                    "checkpoint or Iceberg metadata: %s",
                    log.url,
                    version,
                    error,
                )

    if may_be_described(log.env.store, version):
        log.env.background(work)


def _after_commit(log: Log, base: Snapshot | None, version: int, actions: Sequence[Action], size_bytes: int) -> None:
    commit = log.commit_file(version)
    if commit is None or commit.size_bytes != size_bytes or (base is not None and not is_current(base)):
        return  # the table was dropped or recreated
    snapshot = _snapshot_after(log, base, commit, actions)
    write_version_checksum(snapshot, next(a for a in actions if isinstance(a, CommitInfo)))
    convert_to_other_formats(snapshot)
    if version and version % properties.CHECKPOINT_INTERVAL.get(snapshot.properties, table=log.url) == 0:
        write_checkpoint(snapshot)
        if _may_expire(snapshot):
            clean_log(snapshot)


def _may_expire(snapshot: Snapshot) -> bool:
    """Whether the log is cleaned up unasked."""
    return bool(properties.ENABLE_EXPIRED_LOG_CLEANUP.get(snapshot.properties, table=snapshot.url))


def _snapshot_after(log: Log, base: Snapshot | None, commit: LogFile, actions: Sequence[Action]) -> Snapshot:
    if base is None:
        return load_snapshot(log, commit.version)
    winners = range(base.version + 1, commit.version)
    files = {f.version: f for f in log.list_files(base.version + 1) if f.kind is Kind.COMMIT} if winners else {}
    return base.after([*((files[v], log.read(files[v])) for v in winners), (commit, list(actions))])


# --- version checksums


def write_version_checksum(snapshot: Snapshot, info: CommitInfo) -> None:
    """Write the checksum of a version, unless it has one."""
    key = log_files.checksum_key(snapshot.version)
    content = encode_version_checksum(checksum_of(snapshot, info))
    if is_current(snapshot):
        snapshot.log.env.store.put_if_absent(key, content)


def checksum_of(snapshot: Snapshot, info: CommitInfo) -> VersionChecksum:
    """The totals of a version; `info` is the `commitInfo` of its commit."""
    live = snapshot.live
    deleted = sum(pc.sum(chunk.field("cardinality")).as_py() or 0 for chunk in live.vectors.chunks)
    txns, domains = tuple(snapshot.txns.values()), tuple(snapshot.domains.values())
    return VersionChecksum(
        num_files=len(live),
        table_size_bytes=live.size_bytes,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        txn_id=info.txn_id,
        in_commit_timestamp_ms=info.in_commit_timestamp_ms
        if in_commit_timestamps_enabled(snapshot.protocol, snapshot.metadata)
        else None,
        txns=txns if len(txns) <= CHECKSUM_TXNS_MAX else None,
        domains=domains if len(domains) <= CHECKSUM_DOMAINS_MAX else None,
        files=tuple(live.adds()) if _can_be_listed(live) else None,
        num_deleted_records=deleted,
        num_deletion_vectors=len(live.vectors),
    )


def _can_be_listed(live: LiveFiles) -> bool:
    """Whether there are few files, and none of them has its statistics only in a checkpoint's `stats_parsed`."""
    if len(live) > CHECKSUM_FILES_MAX:  # reading the statistics of many files after each commit would be slow
        return False
    return not live.lacks_texts()


# --- compacted files


def compact_log(log: Log, start: int, end: int) -> LogFile:
    """Write a compacted log file for the commits `start` to `end`. Readers use it instead of these commits.

    Raises:
        InvalidOptionError: `start` and `end` are not a range.
        MissingVersionError: the log lacks some of these commits.
    """
    if not 0 <= start < end:
        raise InvalidOptionError(
            option="ending_version", value=end, table=log.url, detail=f"it must be after the starting version, {start}"
        )
    before_describing(log.env.store, end)
    last = log.commit_file(end)
    name = log_files.compacted_name(start, end)
    actions = _reconciled(log, (log.read_version(v) for v in range(start, end + 1)))
    log.env.store.put(f"{log_files.LOG_FOLDER}/{name}", log_files.KEEPS_TOMBSTONES + encode_commit(actions))
    file = log_files.parse_name(name)
    assert file is not None
    found = log.commit_file(end)
    if last is None or found is None or found.identity != last.identity:  # the table was recreated meanwhile
        log.env.store.delete(file.key)
        raise CommitGoneError(
            table=log.url, version=end, detail=f"{log_files.commit_name(end)} disappeared while it was read"
        )
    return file


def _reconciled(log: Log, commits: Iterable[Iterable[Action]]) -> list[Action]:
    """The newest protocol and metadata, and the newest action of each file, domain and application.

    Tombstones are kept, because older log files may have the add.
    """
    last: dict[tuple[str, str | FileKey], Action] = {}
    for actions in commits:
        for action in actions:
            match action:
                case Protocol() | Metadata():
                    last[(type(action).__name__, "")] = action
                case Txn():
                    last[("Txn", action.app_id)] = action
                case DomainMetadata():
                    last[("DomainMetadata", action.domain)] = action
                case Add() | Remove():
                    last[("file", file_key(action, log.canonical))] = action
                case _:
                    pass
    return list(last.values())


# --- log cleanup


def clean_log(snapshot: Snapshot, retention: timedelta | None = None) -> list[str]:
    """Delete the commits and checkpoints past `delta.logRetentionDuration`, and sidecars that no checkpoint refers to.

    Every version from the last one before the cutoff on stays readable, and every version from the oldest one on that a
    tag holds. If no checkpoint can be kept for it, nothing is deleted.

    The tags are read after the cutoff was chosen. So a tag that is not seen here is newer than the cutoff's clock, and
    if its version was within the retention at that time, it is not deleted.

    Args:
        retention: the minimum age of an expired version. None uses the table's retention, with the cutoff moved back to
            midnight (UTC).

    Returns:
        the keys of the files that were deleted.
    """
    check_may_delete(snapshot.log, "cleaning up the log")
    log, now_ms = snapshot.log, snapshot.log.env.clock_ms()
    cutoff_ms = _cutoff_ms(snapshot, retention, now_ms)
    newest = refresh(snapshot)
    if newest.metadata.id != snapshot.metadata.id:
        return []  # the table was dropped and recreated
    snapshot = newest
    kept, expired = _expired(snapshot, cutoff_ms, now_ms)
    staged: list[str] = []
    if kept is not None and expired:
        read_checkpoint(log, kept, whole=True)  # all later versions will depend on it
        if _is_v2(snapshot) and not _has_classic_name(log.list_files(), expired):
            # Protocol, "Handling Backward compatibility while moving to UUID-named v2 Checkpoints"
            write_checkpoint(snapshot, classic_name=True)
        staged = _staged_commits(log, kept.version)
    deleted = [key for file in expired if (key := delete_if_same(log, file))]
    for key in (others := [*staged, *_unused_sidecars(log), *_unused_copied_parts(snapshot, cutoff_ms)]):
        log.env.store.delete(key)
    return [*deleted, *others]


def expired_log_files(snapshot: Snapshot) -> list[LogFile]:
    """The commits and checkpoints that log cleanup would delete now; none if the table is to keep them."""
    if not _may_expire(snapshot):
        return []
    now_ms = snapshot.log.env.clock_ms()
    return _expired(snapshot, _cutoff_ms(snapshot, None, now_ms), now_ms)[1]


def delete_if_same(log: Log, file: LogFile | FileInfo) -> str | None:
    """Delete a file if it is still the one that was listed: a table recreated since then has files of the same names.
    Returns its key.
    """
    found = log.env.store.head(file.key)
    if found is None or found.identity != file.identity:
        return None
    log.env.store.delete(file.key)
    return file.key


def _cutoff_ms(snapshot: Snapshot, retention: timedelta | None, now_ms: int) -> int:
    if retention is not None:
        return now_ms - int(retention.total_seconds() * 1000)
    of_table = properties.LOG_RETENTION.get(snapshot.properties, table=snapshot.url)
    return _midnight(now_ms - int(of_table.total_seconds() * 1000))


def _expired(snapshot: Snapshot, cutoff_ms: int, now_ms: int) -> tuple[Checkpoint | None, list[LogFile]]:
    """The checkpoint to keep, and the expired files."""
    log = snapshot.log
    oldest = version_before(snapshot, cutoff_ms)
    if oldest is None:
        return None, []
    protected = setting(properties.PROTECTED_CHECKPOINTS_BEFORE, snapshot.protocol, snapshot.properties, table=log.url)
    files = log.list_files()
    held = oldest_held(snapshot, files, now_ms)
    return log_files.expired_files(files, oldest if held is None else min(oldest, held), protected_before=protected)


def _midnight(time_ms: int) -> int:
    return time_ms - time_ms % _DAY_MS


def _is_v2(snapshot: Snapshot) -> bool:
    return supports(snapshot.protocol, "v2Checkpoint")


def _has_classic_name(files: Iterable[LogFile], expired: Iterable[LogFile]) -> bool:
    gone = {file.name for file in expired}
    return any(file.kind is Kind.CLASSIC_CHECKPOINT and file.name not in gone for file in files)


def _staged_commits(log: Log, version: int) -> list[str]:
    """Protocol: "delete all the staged commit files having version <=" that of the checkpoint to keep."""
    return [
        info.key
        for info in log.env.store.list_from(log_files.STAGED_FOLDER)
        if (found := _staged_version(info.key)) is not None and found <= version
    ]


def _staged_version(key: str) -> int | None:
    digits = key.rpartition("/")[2].partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdigit() else None


def _unused_sidecars(log: Log) -> list[str]:
    """Sidecars from before yesterday that no checkpoint refers to; none if a checkpoint cannot be read.

    A writer puts sidecars before the checkpoint that refers to them. Their age is measured by the storage's clock, as
    far as the log shows it: the local clock may be ahead.
    """
    store = log.env.store
    sidecars = list(store.list_from(log_files.SIDECAR_FOLDER))
    if not sidecars:
        return []
    files = log.list_files()
    storage_ms = max([0, *(file.modified_ms for file in files), *(info.modified_ms for info in sidecars)])
    newest_ms = _midnight(min(log.env.clock_ms(), storage_ms) - _DAY_MS)
    old = [info.key for info in sidecars if info.modified_ms < newest_ms]
    if not old:
        return []
    try:
        named = {
            sidecar_key(a)
            for file in files
            if file.is_checkpoint
            for a in read_other_actions(store, file.key)
            if isinstance(a, Sidecar)
        }
    except DeltaError as error:
        _logger.warning("%s: sidecars are kept, because a checkpoint cannot be read: %s", log.url, error)
        return []
    return [key for key in old if key not in named]


def _unused_copied_parts(snapshot: Snapshot, cutoff_ms: int) -> list[str]:
    """Parts of the record of loaded files that no version since the cutoff has, and none that a tag holds; none if it
    is unknown what those have.
    """
    record = copied_files(snapshot.domains, snapshot.metadata.id)
    if not record.parts:
        return []
    store = snapshot.log.env.store
    listed = {info.key.rpartition("/")[2]: info for info in store.list_from(COPIED_FOLDER)}
    settled = [part for part in record.parts if part.name in listed and listed[part.name].modified_ms < cutoff_ms]
    if not superseded(listed, settled, record.parts):
        return []
    try:
        held = [tagged_snapshot(snapshot, tag) for tag in holding_tags(snapshot, snapshot.log.env.clock_ms())]
        kept = [part for at in held for part in copied_files(at.domains, at.metadata.id).parts]
    except DeltaError as error:
        _logger.warning("%s: parts of the record of loaded files are kept: %s", snapshot.url, error)
        return []
    return [f"{COPIED_FOLDER}/{name}" for name in superseded(listed, settled, [*record.parts, *kept])]
