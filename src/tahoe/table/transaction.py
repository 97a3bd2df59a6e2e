"""One attempt to change a table: what was read, what is done, and the commit.

Paper §3.2: read a snapshot, write data files, put the next log entry if absent; where another writer was first, check whether it
matters and try the version after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tahoe._version import VERSION
from tahoe.errors import CommitAttemptsExceededError, CommitOutcomeUnknownError, WriteAlreadyRecordedError
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn, encode_commit
from tahoe.protocol.conflict import Intent, Isolation, Winner, find_conflict
from tahoe.protocol.properties import ISOLATION_LEVEL
from tahoe.protocol.replay import check_commit
from tahoe.table.committer import Committed, Lost, put_commit
from tahoe.table.log import Log
from tahoe.table.snapshot import ENABLEMENT, Snapshot, in_commit_timestamps_enabled
from tahoe.table.upkeep import after_commit

# Each lost attempt means that another writer got through, so many of them in a row mean a very busy table, not a fault.
COMMIT_ATTEMPTS_MAX = 1000
_BACKOFF_SECONDS_MAX = 1.0
_BACKOFF_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """Everything about a commit but its version.

    Attributes:
        base: the snapshot that the work is based on; None for a table that was not there.
        intent: what the conflict check must know of it.
        actions: all but the `commitInfo`.
        operation, parameters, metrics, user_metadata, engine: for the table's history.
    """

    log: Log
    base: Snapshot | None
    actions: Sequence[Action]
    operation: str
    intent: Intent = field(default_factory=Intent)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    engine: str | None = None

    @property
    def read_version(self) -> int:
        return -1 if self.base is None else self.base.version

    def commit(self) -> int:
        """Make the next version, or the one after the winners that do not matter.

        Returns:
            the version that was made.

        Raises:
            WriteAlreadyRecordedError: a winner recorded this write's `txn`, or a later one: nothing need be committed.
            DeltaConcurrentModificationException: a winner did something that matters; nothing was committed.
            CommitOutcomeUnknownError: the storage would not tell whether the commit arrived.
            CommitAttemptsExceededError: too many others were faster.
        """
        env = self.log.env
        txn_id = env.new_id()
        version = self.read_version + 1
        for attempt in range(COMMIT_ATTEMPTS_MAX):
            actions = self._stamped(txn_id, version)
            check_commit(actions, self.log.canonical, table=self.log.url, file=log_files.commit_name(version))
            match put_commit(env, version, encode_commit(actions)):
                case Committed():
                    after_commit(self.log, self.base, version, txn_id)
                    return version
                case Lost():
                    version = self._rebase(version)
                    env.sleep(env.random() * min(_BACKOFF_SECONDS * 2 ** min(attempt, 10), _BACKOFF_SECONDS_MAX))
                case unknown:
                    detail = str(unknown.error)
                    raise CommitOutcomeUnknownError(table=self.log.url, version=version, txn_id=txn_id, detail=detail) from unknown.error
        raise CommitAttemptsExceededError(table=self.log.url, attempts=COMMIT_ATTEMPTS_MAX, version=version)

    @cached_property
    def isolation(self) -> Isolation:
        """By `delta.isolationLevel`; a commit that only moves rows need not know what others add."""
        changes_data = any(a.data_change for a in self.actions if isinstance(a, Add | Remove))
        if not changes_data and not any(isinstance(a, Metadata | Protocol) for a in self.actions):
            return Isolation.SNAPSHOT
        properties = {} if self.base is None else self.base.properties
        return Isolation(ISOLATION_LEVEL.get(properties, table=self.log.url))

    @cached_property
    def _whole_intent(self) -> Intent:
        """What was read, with what the actions themselves tell."""
        keeps_metadata = self.base is not None and not any(isinstance(a, Metadata) for a in self.actions)
        return replace(
            self.intent,
            isolation=self.isolation,
            domains=frozenset(a.domain for a in self.actions if isinstance(a, DomainMetadata)),
            metadata=self.base.metadata if self.base is not None and keeps_metadata else None,
        )

    def _rebase(self, lost: int) -> int:
        """Check every commit from a lost version on, and give the next version to try.

        A listing may be late to show the winner, so each version is read by its name and none is passed over unread.
        """
        newest = max([lost, *(f.version for f in self.log.list_files(lost) if f.kind is log_files.Kind.COMMIT)])
        for version in range(lost, newest + 1):
            winner = Winner(version=version, actions=tuple(self.log.read_version(version)))
            self._check_not_recorded(winner)
            conflict = find_conflict(self._whole_intent, winner, self.log.canonical, table=self.log.url)
            if conflict is not None:
                raise conflict
        return newest + 1

    def _check_not_recorded(self, winner: Winner) -> None:
        """Protocol: "Transaction Identifiers". An application's write may have been sent twice, and the other one was first."""
        mine = {action.app_id: action.version for action in self.actions if isinstance(action, Txn)}
        for action in winner.actions:
            if isinstance(action, Txn) and action.app_id in mine and action.version >= mine[action.app_id]:
                detail = f"it recorded version {action.version} of the application {action.app_id}, of which this is {mine[action.app_id]}"
                raise WriteAlreadyRecordedError(table=self.log.url, winner=str(winner), detail=detail)

    # --- in-commit timestamps

    def _stamped(self, txn_id: str, version: int) -> list[Action]:
        """The actions of a version, with what depends on which one it is.

        Protocol: "Writer Requirements for In-Commit Timestamps". Where the feature is switched on after the table was made, the properties
        tell since when; where it is switched off, they go.
        """
        now_ms = self.log.env.clock_ms()
        changed = next((a for a in self.actions if isinstance(a, Metadata)), None)
        metadata = changed or (None if self.base is None else self.base.metadata)
        if metadata is None or not in_commit_timestamps_enabled(metadata):
            info = self._commit_info(txn_id, now_ms)
            return [info, *(_without_enablement(a) if isinstance(a, Metadata) else a for a in self.actions)]
        stamp_ms = max(now_ms, self._timestamp_before(version) + 1)
        info = self._commit_info(txn_id, now_ms, stamp_ms)
        return [info, *(self._with_enablement(a, version, stamp_ms) if isinstance(a, Metadata) else a for a in self.actions)]

    def _timestamp_before(self, version: int) -> int:
        """The time of the commit before a version; before the first there is none."""
        if self.base is None and version == 0:
            return -1
        if self.base is not None and version == self.base.version + 1:
            return self.base.timestamp_ms
        info = self.log.commit_info(version - 1)
        if info is not None and info.in_commit_timestamp_ms is not None:
            return info.in_commit_timestamp_ms
        found = self.log.env.store.head(log_files.commit_key(version - 1))
        return -1 if found is None else found.modified_ms

    def _with_enablement(self, metadata: Metadata, version: int, stamp_ms: int) -> Metadata:
        configuration = _without_enablement(metadata).configuration
        if self.base is None:
            return replace(metadata, configuration=configuration)
        if in_commit_timestamps_enabled(self.base.metadata):
            since = {name: self.base.properties[name] for name in ENABLEMENT if name in self.base.properties}
        else:
            since = dict(zip(ENABLEMENT, (str(version), str(stamp_ms)), strict=True))
        return replace(metadata, configuration={**configuration, **since})

    # --- what is recorded

    def _commit_info(self, txn_id: str, timestamp_ms: int, in_commit_timestamp_ms: int | None = None) -> CommitInfo:
        fields = {
            "inCommitTimestamp": in_commit_timestamp_ms,
            "timestamp": timestamp_ms,
            "operation": self.operation,
            "operationParameters": {name: _parameter(value) for name, value in self.parameters.items()},
            "readVersion": self.read_version if self.read_version >= 0 else None,
            "isolationLevel": self.isolation.value,
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


def _without_enablement(metadata: Metadata) -> Metadata:
    return replace(metadata, configuration={name: value for name, value in metadata.configuration.items() if name not in ENABLEMENT})


def _parameter(value: Any) -> str:
    """Operation parameters are text; lists and maps are JSON in it, as other writers do."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
