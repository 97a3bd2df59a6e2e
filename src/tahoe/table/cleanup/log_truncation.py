"""Truncates a log to the newest version: its checkpoint and its commit stay, and all that older log files tell is gone.

Protocol: "Metadata Cleanup", "Checkpoint Protection": all earlier versions are deleted at once. An interrupted run has
deleted some of the files, and the next run deletes the others. Commits go before the checkpoints of their versions, and
checkpoints before their sidecars.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from tahoe.errors import CorruptCheckpointError
from tahoe.protocol.configuration.features import supports
from tahoe.protocol.log.actions import Sidecar
from tahoe.protocol.log.log_files import LOG_FOLDER, SIDECAR_FOLDER, Kind, LogFile
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import delete_if_same
from tahoe.table.log.checkpoint import read_checkpoint, read_other_actions, sidecar_key
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot

# Where commits are prepared for commit services and catalogs. The names begin with the version.
_PREPARED_FOLDERS = ("_staged_commits", "_commits", ".tmp")
_DIGITS = 20


def truncate_log(snapshot: Snapshot) -> list[str]:
    """Write a checkpoint of the newest version without tombstones, and delete every log file that the version does not
    need.

    Preconditions: no tag holds an earlier version; no file that earlier versions need is left for VACUUM.

    Returns:
        the keys of the files that were deleted.
    """
    log, is_v2 = snapshot.log, supports(snapshot.protocol, "v2Checkpoint")
    # Protocol, "Handling Backward compatibility while moving to UUID-named v2 Checkpoints"
    checkpoint = write_checkpoint(snapshot, classic_name=is_v2, with_tombstones=False)
    read_checkpoint(log, checkpoint, whole=True)  # the table will depend on it
    names = {file.name for file in checkpoint.files}
    expired_files = [
        file for file in log.list_files() if _is_expired(file, checkpoint.version) and file.name not in names
    ]
    expired_files.sort(key=lambda file: (file.version, file.is_checkpoint, file.name))
    their_sidecars = _named_sidecars(log, expired_files)
    deleted_keys = [key for file in expired_files if (key := delete_if_same(log, file))]
    superfluous_keys = [
        *_sidecars(snapshot, their_sidecars),
        *(key for name in _PREPARED_FOLDERS for key in _prepared_commits(log, name, checkpoint.version)),
    ]
    for key in superfluous_keys:
        log.env.store.delete(key)
    return [*deleted_keys, *superfluous_keys]


def _is_expired(file: LogFile, newest: int) -> bool:
    return file.version < newest or (file.version == newest and (file.is_checkpoint or file.kind is Kind.COMPACTED))


def _prepared_commits(log: Log, folder: str, newest: int) -> list[str]:
    """The keys of the commits that were prepared up to a version. Later ones may be those of writers at work."""
    keys = [info.key for info in log.env.store.walk(f"{LOG_FOLDER}/{folder}")]
    return [key for key in keys if (digits := key.rpartition("/")[2][:_DIGITS]).isdigit() and int(digits) <= newest]


def _sidecars(snapshot: Snapshot, deleted: set[str]) -> list[str]:
    """The keys of the sidecars that no checkpoint refers to.

    Those that are younger than the version may be of a checkpoint in the making, unless they are known to be of one
    that was deleted.
    """
    log, newest_ms = snapshot.log, 0 if snapshot.commit is None else snapshot.commit.modified_ms
    live_keys = _named_sidecars(log, log.list_files())
    listing = log.env.store.list_from(SIDECAR_FOLDER)
    return [
        info.key
        for info in listing
        if info.key not in live_keys and (info.key in deleted or info.modified_ms <= newest_ms)
    ]


def _named_sidecars(log: Log, files: Iterable[LogFile]) -> set[str]:
    """The keys of the sidecars that checkpoints refer to; of broken checkpoints they are unknown."""
    found: set[str] = set()
    for file in files:
        if file.is_checkpoint:
            with suppress(CorruptCheckpointError):
                found |= {sidecar_key(a) for a in read_other_actions(log.env.store, file.key) if isinstance(a, Sidecar)}
    return found
