"""Tells of commits, conflicts and checkpoints; see `tahoe.events`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tahoe.errors import CommitOutcomeUnknownError, DeltaConcurrentModificationException, WriteAlreadyRecordedError
from tahoe.events.kinds import Checkpoint, Commit, CommitFailed, Conflict, Retry, cause_of
from tahoe.events.listeners import emit, now
from tahoe.protocol.changes.conflict import Winner
from tahoe.protocol.log.actions import Action, Add, CommitInfo, Remove
from tahoe.storage.env import may_be_described
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot


class CommitEvents:
    """Tells how one commit goes on, from now.

    Args:
        metrics: of the operation.
    """

    def __init__(self, log: Log, read_version: int, operation: str, metrics: Mapping[str, int]) -> None:
        self._log, self._read_version, self._operation, self._metrics = log, read_version, operation, metrics
        self._begun, self._attempts = now(), 1

    @property
    def _told(self) -> dict[str, Any]:
        """What each of its events has."""
        return {
            "table": self._log.url,
            "duration_seconds": now() - self._begun,
            "read_version": self._read_version,
            "operation": self._operation,
            "attempts": self._attempts,
        }

    def committed(self, version: int, actions: Sequence[Action], log_bytes: int) -> None:
        emit(Commit, lambda: self._commit(version, actions, log_bytes))

    def _commit(self, version: int, actions: Sequence[Action], log_bytes: int) -> Commit:
        info = next(action for action in actions if isinstance(action, CommitInfo))
        added = [action for action in actions if isinstance(action, Add)]
        removed = [action for action in actions if isinstance(action, Remove)]
        return Commit(
            **self._told,
            version=version,
            files_added=len(added),
            bytes_added=sum(action.size_bytes for action in added),
            files_removed=len(removed),
            bytes_removed=sum(action.size_bytes or 0 for action in removed),
            log_bytes=log_bytes,
            is_blind_append=info.is_blind_append,
            is_pending=not may_be_described(self._log.env.store, version),
            txn_id=info.txn_id or "",
            engine=info.engine or "",
            metrics=dict(self._metrics),
        )

    def lost(self, version: int, begun: float, winner: Winner | None) -> None:
        """An attempt was lost, and the next one follows.

        Args:
            begun: when it was lost, by `now`.
        """
        attempt, self._attempts = self._attempts, self._attempts + 1
        emit(
            Retry,
            lambda: Retry(
                table=self._log.url,
                duration_seconds=now() - begun,
                what="commit",
                attempt=attempt,
                cause="unknown" if winner is None else str(winner.info.fields.get("operation", "unknown")),
                version=version,
            ),
        )

    def failed(self, error: Exception) -> None:
        match error:
            case WriteAlreadyRecordedError():
                pass  # the table has this write
            case DeltaConcurrentModificationException():
                emit(Conflict, lambda: Conflict(**self._told, cause=cause_of(error), winner=_winner_of(error)))
            case _:
                is_in_doubt = isinstance(error, CommitOutcomeUnknownError)
                emit(CommitFailed, lambda: CommitFailed(**self._told, cause=cause_of(error), is_in_doubt=is_in_doubt))


def _winner_of(error: DeltaConcurrentModificationException) -> int | None:
    """The version that an error names as the winner."""
    found = re.match(r"version (\d+)", str(error.parameters.get("winner", "")))
    return None if found is None else int(found[1])


def told_checkpoint(snapshot: Snapshot, begun: float, *, is_v2: bool, files: int, size_bytes: int) -> None:
    """Tell that a checkpoint of a version was written.

    Args:
        begun: when, by `now`.
    """
    emit(
        Checkpoint,
        lambda: Checkpoint(
            table=snapshot.url,
            duration_seconds=now() - begun,
            version=snapshot.version,
            policy="v2" if is_v2 else "classic",
            files=files,
            size_bytes=size_bytes,
        ),
    )
