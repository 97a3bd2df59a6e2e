"""What a retention protects: the files of every version that was the newest at some time within it.

Protocol: "Action Reconciliation", and `delta.deletedFileRetentionDuration`. A tombstone's time alone does not tell: a slow writer removes
files of a version that others have read until its commit, its clock may be wrong, and checkpoints keep tombstones only for as long as the
table property says. So the versions are read themselves: the version at the cutoff, and the commits since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tahoe.errors import CommitGoneError
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, Cdc, Remove
from tahoe.protocol.log_files import Kind
from tahoe.table.commit.checkpoint_writer import unexpired_tombstones
from tahoe.table.log.delta_log import Log
from tahoe.table.maintenance.named_files import Keys, NamedFiles, keys_of, named_by_actions, named_by_live, named_by_tombstones
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

# Commits are small, so most of the time is spent waiting for the storage.
_READERS = 16


def protected_files(newest: Snapshot, before: int | None, cutoff_ms: int) -> Keys:
    """The files that VACUUM must keep whatever their age.

    - the live files of the newest version, and its tombstones from the cutoff on;
    - the live files of the version at the cutoff: the newest one before it, or the oldest one that can be read; and its change files;
    - the files that later commits add or remove, their change files among them.

    Args:
        before: the newest version that was committed at or before the cutoff; None if the log has none.

    Raises:
        DeltaLogError, DeletionVectorError: a version within the retention cannot be read, so it is unknown what it needs.
    """
    return keys_of(_named(newest, before, cutoff_ms), newest.url)


def _named(newest: Snapshot, before: int | None, cutoff_ms: int) -> Iterator[NamedFiles]:
    yield named_by_live(newest.live)
    for removes in unexpired_tombstones(newest, cutoff_ms - 1):
        yield named_by_tombstones(removes)
    files = newest.log.list_files()
    readable = log_files.readable_versions(files)
    oldest = newest.version if readable is None else min(readable[0], newest.version)
    base = oldest if before is None else min(max(before, oldest), newest.version)
    if base < newest.version:
        yield named_by_live(load_snapshot(newest.log, base).live)
    since = -1 if before is None else before
    for actions in file_actions(newest.log, [] if before is None else [before], may_be_gone_until=base):
        yield named_by_actions(action for action in actions if isinstance(action, Cdc))
    later = [file.version for file in files if file.kind is Kind.COMMIT and file.version > since]
    for actions in file_actions(newest.log, later, may_be_gone_until=base):
        yield named_by_actions(actions)


def file_actions(log: Log, versions: Sequence[int], *, may_be_gone_until: int = -1) -> Iterator[list[Action]]:
    """The adds, removes and change files of some commits, in order, read in parallel.

    Args:
        may_be_gone_until: commits up to this version are left out if metadata cleanup deletes them meanwhile.

    Raises:
        CommitGoneError: another commit was deleted meanwhile.
        DeltaLogError: a commit cannot be read.
    """

    def read(version: int) -> list[Action]:
        try:
            actions = log.read_version(version)
        except CommitGoneError:
            if version > may_be_gone_until:
                raise
            return []
        return [action for action in actions if isinstance(action, Add | Remove | Cdc)]

    if len(versions) < 2:
        yield from map(read, versions)
        return
    with ThreadPoolExecutor(_READERS) as readers:
        yield from readers.map(read, versions)
