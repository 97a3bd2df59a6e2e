"""One attempt to change a table: what was read, what is done, and the commit.

Paper §3.2: read a snapshot, write data files, put the next log entry if absent; where another writer was first, check whether it
matters and try the version after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tahoe._version import VERSION
from tahoe.errors import CommitAttemptsExceededError, CommitOutcomeUnknownError
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, encode_commit
from tahoe.protocol.conflict import Intent, Winner, find_conflict
from tahoe.protocol.replay import check_commit
from tahoe.table.committer import Committed, Lost, put_commit
from tahoe.table.log import Log

# Each lost attempt means that another writer got through, so many of them in a row mean a very busy table, not a fault.
COMMIT_ATTEMPTS_MAX = 1000
_BACKOFF_SECONDS_MAX = 1.0
_BACKOFF_SECONDS = 0.01

ISOLATION_LEVEL = "Serializable"
SNAPSHOT_ISOLATION = "SnapshotIsolation"


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """Everything about a commit but its version.

    Attributes:
        read_version: of the snapshot that the work is based on; -1 for a table that was not there.
        intent: what the conflict check must know of it.
        actions: all but the `commitInfo`.
        operation, parameters, metrics, user_metadata, engine: for the table's history.
    """

    log: Log
    read_version: int
    actions: Sequence[Action]
    operation: str
    intent: Intent = field(default_factory=Intent)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    engine: str | None = None

    def commit(self) -> int:
        """Make the next version, or the one after the winners that do not matter.

        Returns:
            the version that was made.

        Raises:
            DeltaConcurrentModificationException: a winner did something that matters; nothing was committed.
            CommitOutcomeUnknownError: the storage would not tell whether the commit arrived.
            CommitAttemptsExceededError: too many others were faster.
        """
        env = self.log.env
        txn_id = env.new_id()
        version = self.read_version + 1
        for attempt in range(COMMIT_ATTEMPTS_MAX):
            actions = [self._commit_info(txn_id, env.clock_ms()), *self.actions]
            check_commit(actions, self.log.canonical, table=self.log.url, file=log_files.commit_name(version))
            match put_commit(env, version, encode_commit(actions)):
                case Committed():
                    return version
                case Lost():
                    version = self._rebase(version)
                    env.sleep(env.random() * min(_BACKOFF_SECONDS * 2 ** min(attempt, 10), _BACKOFF_SECONDS_MAX))
                case unknown:
                    detail = str(unknown.error)
                    raise CommitOutcomeUnknownError(table=self.log.url, version=version, txn_id=txn_id, detail=detail) from unknown.error
        raise CommitAttemptsExceededError(table=self.log.url, attempts=COMMIT_ATTEMPTS_MAX, version=version)

    def _rebase(self, lost: int) -> int:
        """Check every commit from a lost version on, and give the next version to try.

        A listing may be late to show the winner, so each version is read by its name and none is passed over unread.
        """
        newest = max([lost, *(f.version for f in self.log.list_files(lost) if f.kind is log_files.Kind.COMMIT)])
        for version in range(lost, newest + 1):
            winner = Winner(version=version, actions=tuple(self.log.read_version(version)))
            conflict = find_conflict(self.intent, winner, self.log.canonical, table=self.log.url)
            if conflict is not None:
                raise conflict
        return newest + 1

    def _commit_info(self, txn_id: str, timestamp_ms: int) -> CommitInfo:
        changes_data = any(a.data_change for a in self.actions if isinstance(a, Add | Remove))
        only_files = not any(isinstance(a, Metadata | Protocol) for a in self.actions)
        fields = {
            "timestamp": timestamp_ms,
            "operation": self.operation,
            "operationParameters": {name: _parameter(value) for name, value in self.parameters.items()},
            "readVersion": self.read_version if self.read_version >= 0 else None,
            "isolationLevel": ISOLATION_LEVEL if changes_data or not only_files else SNAPSHOT_ISOLATION,
            "isBlindAppend": self._is_blind_append(),
            "operationMetrics": {name: str(value) for name, value in self.metrics.items()},
            "userMetadata": self.user_metadata,
            "engineInfo": f"{self.engine} tahoe/{VERSION}" if self.engine else f"tahoe/{VERSION}",
            "txnId": txn_id,
        }
        return CommitInfo({name: value for name, value in fields.items() if value is not None})

    def _is_blind_append(self) -> bool:
        """Only files added, and nothing read to know which."""
        files = [a for a in self.actions if isinstance(a, Add | Remove)]
        return bool(files) and all(isinstance(a, Add) for a in files) and self.intent.reads is None and not self.intent.read_paths


def _parameter(value: Any) -> str:
    """Operation parameters are text; lists and maps are JSON in it, as other writers do."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
