"""What a retention protects: the files of every version that was the newest at some time within it.

Protocol: "Action Reconciliation", and `delta.deletedFileRetentionDuration`. A tombstone's time alone does not tell: a
slow writer removes files of a version that others have read until its commit, its clock may be wrong, and checkpoints
keep tombstones only for as long as the table property says. So the versions are read themselves: the version at the
cutoff, and the commits since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tahoe.errors import CommitGoneError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, Cdc, Remove
from tahoe.protocol.log.log_files import Kind, LogFile
from tahoe.storage.threads import load_all
from tahoe.table.cleanup.named_files import (
    Keys,
    NamedFiles,
    keys_of,
    named_by_actions,
    named_by_live,
    named_by_tombstones,
)
from tahoe.table.commit.checkpoint_writer import unexpired_tombstones
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

_VECTORS = "deletionVectors"

# Commits whose names are looked at together.
_COMMITS_AT_ONCE = 1000


def protected_files(newest: Snapshot, files: Sequence[LogFile], before: int | None, cutoff_ms: int) -> Keys:
    """The files that VACUUM must keep whatever their age.

    - the live files of the newest version, and its tombstones from the cutoff on;
    - the files that commits after the cutoff add or remove, their change files among them: every file that was live
      at the cutoff (in the newest version before it, or the oldest one that can be read) is live now or has a
      tombstone;
    - the change files of that version; and its deletion vectors, which a careless writer may have removed without
      naming them.

    Args:
        files: the whole log, as it was listed after that version was read.
        before: the newest version that was committed at or before the cutoff; None if the log has none.

    Raises:
        DeltaLogError, DeletionVectorError: a version within the retention cannot be read, so it is unknown what it
            needs.
    """
    return keys_of(_kept_names(newest, files, before, cutoff_ms), newest.url)


def _kept_names(newest: Snapshot, files: Sequence[LogFile], before: int | None, cutoff_ms: int) -> Iterator[NamedFiles]:
    """The names of the files to keep, piece by piece; `protected_files` says why each is kept. Of the commit `before`
    only change files are kept by name.
    """
    yield from named_by_live(newest.live)
    # the commits that are read below name what they have removed
    for removes in unexpired_tombstones(newest, cutoff_ms - 1, files, until=-1 if before is None else before):
        yield named_by_tombstones(removes)
    readable = log_files.readable_versions(files)
    oldest = newest.version if readable is None else min(readable[0], newest.version)
    base = oldest if before is None else min(max(before, oldest), newest.version)
    has_vectors = _VECTORS in (newest.protocol.reader_features or ())
    commits = [file for file in files if file.kind is Kind.COMMIT and (before is None or file.version >= before)]
    actions = zip(commits, file_actions(newest.log, commits, may_be_gone_until=base), strict=True)
    while some := list(islice(actions, _COMMITS_AT_ONCE)):
        found = [(file.version, action) for file, of_file in some for action in of_file]
        yield named_by_actions(action for version, action in found if version != before or isinstance(action, Cdc))
        has_vectors = has_vectors or any(
            isinstance(a, (Add, Remove)) and a.deletion_vector is not None for _, a in found
        )
    if base < newest.version and has_vectors:
        yield from named_by_live(load_snapshot(newest.log, base, listed=files).live)


def file_actions(log: Log, files: Sequence[LogFile], *, may_be_gone_until: int = -1) -> Iterator[list[Action]]:
    """The adds, removes and change files of some commits, in order, read in parallel.

    Args:
        may_be_gone_until: commits up to this version are left out if metadata cleanup deletes them meanwhile.

    Raises:
        CommitGoneError: another commit was deleted meanwhile.
        DeltaLogError: a commit cannot be read.
    """

    def read(file: LogFile) -> list[Action]:
        try:
            actions = log.read(file)
        except CommitGoneError:
            if file.version > may_be_gone_until:
                raise
            return []
        return [action for action in actions if isinstance(action, (Add, Remove, Cdc))]

    return load_all(read, files)
