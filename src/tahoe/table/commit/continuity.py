"""Checks that a commit continues the log on which its work was planned.

Protocol: "Creation of New Log Entries", "Metadata Cleanup". Put-if-absent protects only versions that exist. If
metadata cleanup has deleted commits, or the table was dropped and recreated, a late writer could still create an old
version: one that nobody reads, or one in the log of another table. So a writer checks its base before it puts a
version, and checks the preceding version afterwards. Checking only before the put would leave a race.
"""

from __future__ import annotations

from collections.abc import Sequence

from tahoe.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    DeltaError,
    DeltaLogError,
    MetadataChangedException,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action
from tahoe.protocol.log.log_files import Kind, LogFile
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, is_current

# A check that the storage does not answer is repeated: the version is already put, and its writer waits for the
# outcome.
LOOKS_MAX = 3
_PAUSE_SECONDS = 0.1


class CommitMismatch(Exception):
    """A version was put, and it is unknown whether it belongs to the table."""


def check_base(log: Log, base: Snapshot | None) -> None:
    """Before the put: check that the base is still part of the table.

    Args:
        base: None if there was no table.

    Raises:
        ConcurrentWriteException, MetadataChangedException: it is not.
    """
    if base is None:
        if log.commit_file(0) is None and (found := _versions(log.list_files())):
            raise _conflict(log, -1, found)
    elif not is_current(base):
        raise gone(log, base.version)


def check_same_table(planned: Snapshot, newest: Snapshot) -> None:
    """Before work that was planned on one version is committed on a newer one: check that both are of the same table.

    Raises:
        MetadataChangedException: the table was dropped and recreated, or another one was put in its place.
    """
    before, after = planned.metadata.id, newest.metadata.id
    if before != after:
        detail = f"this work was planned on another table: the id of the table was {before} and is {after}"
        raise MetadataChangedException(
            table=newest.url, winner=f"version {newest.version} or an earlier one", detail=detail
        )


def check_follows(
    log: Log, version: int, data: bytes, *, base: Snapshot | None, winner: LogFile | None, won: Sequence[Action] = ()
) -> None:
    """After the put: check that the preceding version still exists and is the one that this commit was planned behind.

    If it is not, the version that was put is deleted.

    Args:
        data: the bytes of the version that was put.
        winner: the preceding commit as the storage listed it; None if it is the base.
        won: the actions of that commit.

    Raises:
        ConcurrentWriteException, MetadataChangedException: the check failed, and the version was deleted.
        CommitMismatch: the check failed, and others may have read the version; or the storage does not answer.
    """
    for attempt in range(1, LOOKS_MAX + 1):
        try:
            if _follows(log, version, base, winner, won):
                return
            break
        except (DeltaError, OSError) as error:
            if attempt == LOOKS_MAX:
                raise CommitMismatch(f"whether version {version - 1} still exists is unknown: {error}") from error
            log.env.sleep(_PAUSE_SECONDS * attempt)
    try:
        conflict = _take_back(log, version, data)
    except (DeltaError, OSError) as error:
        raise CommitMismatch(f"version {version - 1} is gone, and the reason is unknown: {error}") from error
    raise conflict


def _follows(log: Log, version: int, base: Snapshot | None, winner: LogFile | None, won: Sequence[Action]) -> bool:
    if winner is not None:
        found = log.commit_file(winner.version)
        return found is not None and (found.identity == winner.identity or _says(log, found, won))
    if base is not None:
        return is_current(base)
    later = [number for number in _versions(log.list_files()) if number > version]
    return not later or min(later) == version + 1


def _says(log: Log, file: LogFile, actions: Sequence[Action]) -> bool:
    """Whether a commit has these actions although its identity in the storage differs, because the table was copied,
    restored or moved.
    """
    try:
        return log.read(file) == list(actions)
    except DeltaLogError:
        return False


def _take_back(log: Log, version: int, data: bytes) -> DeltaConcurrentModificationException:
    """Delete the version that was put, and return the conflict.

    Precondition: the preceding version is gone, or is another commit than the one that was planned on.

    Raises:
        CommitMismatch: others may have read the version already, so it must stay.
    """
    # There is a preceding version, so it is another commit: readers of that log may have read ours.
    if version and log.commit_file(version - 1) is not None:
        raise CommitMismatch(
            f"the table was dropped and recreated while version {version} was written: check the log of the new table"
        )
    commits = [file for file in log.list_files(version) if file.kind is Kind.COMMIT]
    mine = next((file for file in commits if file.version == version), None)
    newer = [file for file in commits if file.version > version]
    # If the log had a gap below newer versions when ours was put, nobody has read ours. Cleanup keeps the commit of the
    # checkpoint above the gap; if that commit is older than ours, the gap was there.
    gap_was_there = bool(newer) and mine is not None and newer[0].modified_ms < mine.modified_ms
    if newer and not gap_was_there:
        raise CommitMismatch(
            f"the log up to version {newer[0].version} was cleaned up while version {version} was written"
        )
    conflict = _conflict(log, version - 1, _versions(newer))
    key = log_files.commit_key(version)
    try:
        if log.env.store.get(key) == data:
            log.env.store.delete(key)
    except FileNotFoundError:
        pass
    return conflict


def gone(log: Log, version: int) -> DeltaConcurrentModificationException:
    """The conflict of a writer whose version is no longer in the log or was replaced by another commit."""
    return _conflict(log, version, _versions(log.list_files(max(version, 0))))


def _conflict(log: Log, version: int, found: Sequence[int]) -> DeltaConcurrentModificationException:
    """The conflict of a writer whose base is no longer `version`; `found` are the versions that the log has from there
    on.
    """
    if found and version not in found:
        cleaned = f"version {version}, on which this write is based, was deleted by metadata cleanup"
        return ConcurrentWriteException(
            table=log.url,
            winner=f"the log has versions {min(found)} to {max(found)}",
            detail=cleaned if version >= 0 else "there was no table when this write began",
        )
    return MetadataChangedException(
        table=log.url,
        winner=f"version {version} was replaced" if found else f"version {version} is gone",
        detail="the table was dropped or recreated since this write began",
    )


def _versions(files: Sequence[LogFile]) -> list[int]:
    return sorted({file.version for file in files if file.kind is Kind.COMMIT or file.is_checkpoint})
