"""One attempt to change a table: what it read, its actions, and the commit.

Paper §3.2: read a snapshot, write data files, put the next log entry if absent. If another writer won the version,
check for a conflict and try the next version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tahoe._cached import cached_property
from tahoe._version import VERSION
from tahoe.errors import (
    CommitAttemptsExceededError,
    CommitOutcomeUnknownError,
    ConcurrentDeleteDeleteException,
    InvalidCommitError,
    MissingVersionError,
    WriteAlreadyRecordedError,
)
from tahoe.errors.root import cause_text
from tahoe.events.listeners import now
from tahoe.protocol.changes.assigned_numbers import assigned_row_ids
from tahoe.protocol.changes.column_values import moved_high_water_marks
from tahoe.protocol.changes.conflict import Intent, Isolation, Winner, find_conflict
from tahoe.protocol.configuration.features import setting
from tahoe.protocol.configuration.properties import ENABLE_DELETION_VECTORS, ENABLEMENT, ISOLATION_LEVEL
from tahoe.protocol.configuration.row_tracking import DOMAIN as ROW_TRACKING
from tahoe.protocol.configuration.row_tracking import (
    PRESERVED,
    assigns_row_ids,
    enabled_row_tracking,
    high_water_mark,
    with_row_ids,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    encode_commit,
)
from tahoe.protocol.log.log_files import LogFile
from tahoe.protocol.log.replay import check_commit
from tahoe.protocol.statistics import moved_rows
from tahoe.protocol.statistics.moved_rows import MovedRows
from tahoe.storage.env import Env
from tahoe.table.commit.carried_deletions import FileChanges, behind_compaction, behind_deletions
from tahoe.table.commit.commit_events import CommitEvents
from tahoe.table.commit.continuity import CommitMismatch, check_base, check_follows, gone
from tahoe.table.commit.post_commit_hooks import after_commit
from tahoe.table.commit.row_deletions import RowDeletion, num_records, rebased, with_row_ids_of, write_deletions
from tahoe.table.log.committer import Committed, Lost, put_commit
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.reading.snapshot_state import in_commit_timestamps_enabled
from tahoe.table.versions.history import parameter_text

# Each lost attempt means that another writer committed. So many in a row mean a very busy table, not a fault.
COMMIT_ATTEMPTS_MAX = 1000
_BACKOFF_SECONDS_MAX = 1.0
_BACKOFF_SECONDS = 0.01
# So many commits that followed while others were checked are checked too, before the next attempt.
_FOLLOWED_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """A commit, except for its version.

    Attributes:
        base: the snapshot that the work is based on; None if there was no table.
        intent: the input of the conflict check.
        actions: all actions except `commitInfo` and those that result from `deletions`.
        deletions: rows to delete through deletion vectors, by the canonical paths of their files.
        moved: what the added files consist of, if this is a compaction. The commit records it.
        carries: whether row deletions are carried over compactions, see `carried_deletions`.
        vector_files: the keys of the deletion vector files that `commit` has written. If it raises, and it is certain
            that the version was not written, the caller deletes them.
        copies: rows of added files that winners deleted from the removed files, by the canonical paths of the added
            files.
        operation, parameters, metrics, user_metadata, engine: for the table's history.
        txn_app_id: the application id of this write's `txn`. If a winner has recorded its version or a later one,
            nothing is committed.
        txn_id: identifies the commit; assigned by `commit`.
        last_winner: the newest winner that this transaction was rebased onto; None on the first attempt.
        last_winner_file: the commit file of `last_winner` as the storage listed it.
        protocol, metadata: those of the newest winner that changed them; None if they are the base's.
        row_id_high_water_mark: the highest row id that is assigned before this commit; None if the base's value
            applies.
    """

    log: Log
    base: Snapshot | None
    actions: Sequence[Action]
    operation: str
    deletions: Mapping[str, RowDeletion] = field(default_factory=dict)
    moved: MovedRows = field(default_factory=dict)
    carries: bool = False
    copies: Mapping[str, RowDeletion] = field(default_factory=dict)
    vector_files: list[str] = field(default_factory=list)
    intent: Intent = field(default_factory=Intent)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    engine: str | None = None
    txn_app_id: str | None = None
    txn_id: str = ""
    last_winner: Winner | None = None
    last_winner_file: LogFile | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    row_id_high_water_mark: int | None = None

    @property
    def read_version(self) -> int:
        return -1 if self.base is None else self.base.version

    def commit(self) -> int:
        """Commit the next version; after a lost attempt, rebase behind the winners unless one of them conflicts.

        Returns:
            the version that was committed.

        Raises:
            WriteAlreadyRecordedError: a winner recorded this write's `txn`, or a later one: there is nothing to commit.
            DeltaConcurrentModificationException: a winner conflicts, or the base is no longer part of the table;
                nothing was committed.
            InvalidCommitError: a winner broke a rule that this commit depends on.
            CommitOutcomeUnknownError: the storage did not tell whether the commit was written.
            CommitAttemptsExceededError: other writers won every attempt.
        """
        told = CommitEvents(self.log, self.read_version, self.operation, self.metrics)
        try:
            return self._commit(told)
        except Exception as error:
            told.failed(error)
            raise

    def _commit(self, told: CommitEvents) -> int:
        mine = replace(self, txn_id=self.log.env.new_id())
        deletions = mine._write_deletions(self.read_version)
        for attempt in range(COMMIT_ATTEMPTS_MAX):
            version = mine._next_version
            check_base(self.log, self.base)
            if mine._put(version, deletions, told):
                return version
            lost_at = now()
            # before the rebase: what wins meanwhile would win the next attempt as well
            self.log.env.sleep(
                self.log.env.random() * min(_BACKOFF_SECONDS * 2 ** min(attempt, 10), _BACKOFF_SECONDS_MAX)
            )
            before, mine = mine, mine._rebased()
            told.lost(version, lost_at, mine.last_winner)
            if mine.deletions is not before.deletions or mine.copies is not before.copies:
                self.log.env.discard(self.vector_files)
                self.vector_files.clear()
                deletions = mine._write_deletions(version)
        raise CommitAttemptsExceededError(table=self.log.url, attempts=COMMIT_ATTEMPTS_MAX, version=version)

    @property
    def _next_version(self) -> int:
        return (self.read_version if self.last_winner is None else self.last_winner.version) + 1

    def _write_deletions(self, version: int) -> list[Action]:
        return write_deletions(self.log, [*self.deletions.values(), *self.copies.values()], version, self.vector_files)

    def _put(self, version: int, deletions: Sequence[Action], told: CommitEvents) -> bool:
        """Try to put a version; False if another writer has put it."""
        env = self.log.env
        with_vectors = {deletion.file.path for deletion in self.copies.values()}
        others = [a for a in self.actions if not (isinstance(a, Add) and a.path in with_vectors)]
        actions = self._final_actions(version, [*others, *deletions])
        check_commit(actions, self.log.canonical, table=self.log.url, file=log_files.commit_name(version))
        data = encode_commit(actions)
        env.watch.before_put()
        match put_commit(env, version, data):
            case Committed():
                _check_follows(self, version, data)
                env.watch.committed(self.log.url, version)
                env.watch.made(CommitAgain(self))
                after_commit(self.log, self.base, version, actions, len(data))
                told.committed(version, actions, len(data))
                return True
            case Lost():
                env.watch.lost()
                return False
            case unknown:
                raise _in_doubt(self, version, unknown.error) from unknown.error

    @cached_property
    def isolation(self) -> Isolation:
        """`delta.isolationLevel`; `SnapshotIsolation` for a commit that only rearranges data, because concurrent adds
        do not affect it.
        """
        files = [a for a in self.actions if isinstance(a, Add | Remove)]
        changes = (
            bool(self.deletions)
            or any(a.data_change for a in files)
            or any(isinstance(a, Metadata | Protocol) for a in self.actions)
        )
        if not changes and (files or not self.intent.reads_table):
            return Isolation.SNAPSHOT
        before = self._before(Metadata)
        return Isolation(ISOLATION_LEVEL.get({} if before is None else before.configuration, table=self.log.url))

    @cached_property
    def _whole_intent(self) -> Intent:
        """The intent, completed with what follows from the actions."""
        is_of_base = self.base is not None and not any(isinstance(a, Metadata | Protocol) for a in self.actions)
        return replace(
            self.intent,
            isolation=self.isolation,
            row_deletions={path: deletion.rows for path, deletion in self.deletions.items()},
            domains=frozenset(a.domain for a in self.actions if isinstance(a, DomainMetadata)),
            metadata=self._before(Metadata) if is_of_base else None,
            protocol=self._before(Protocol) if is_of_base else None,
            added=tuple(a for a in self.actions if isinstance(a, Add)),
            records_changes=any(isinstance(a, Cdc) for a in self.actions),
            minted=() if self.base is None else moved_high_water_marks(self._before(Metadata), self._after(Metadata)),
        )

    # --- rebasing onto winners

    def _rebased(self) -> Transaction:
        """This transaction, rebased onto all commits that exist by now; each of them is checked for conflicts.

        A listing may not show the newest winner yet. So each version is read by its name, and none is skipped.

        Checking several takes so long that others follow, and the next put would be lost to them. So a transaction that
        is behind by more than one catches up first: beside a writer that never rests, only the put itself is a race.
        """
        lost = self._next_version
        newest = max([lost, *(f.version for f in self.log.list_files(lost) if f.kind is log_files.Kind.COMMIT)])
        if (file := self.log.commit_file(newest)) is None:
            raise gone(self.log, newest)
        mine = replace(self, last_winner_file=file)
        for version in range(lost, newest + 1):
            mine = mine._rebased_onto(_winner(self.log, version))
        for version in range(newest + 1, newest + 1 + (_FOLLOWED_MAX if newest > lost else 0)):
            if (file := self.log.commit_file(version)) is None:
                break
            mine = replace(mine, last_winner_file=file)._rebased_onto(_winner(self.log, version))
        return mine

    def _rebased_onto(self, winner: Winner) -> Transaction:
        """This transaction behind one more winner, if the two do not conflict. It takes over the winner's protocol,
        metadata and row id high-water mark, because it is committed on top of them.
        """
        _check_not_recorded(self, winner)
        mine, settled = self._carry_deletions(winner)
        intent = replace(
            mine._whole_intent,
            removed_paths=mine._whole_intent.removed_paths - settled,
            written_ms=_written_ms(mine) if winner.begins_vacuum else None,
        )
        conflict = find_conflict(
            intent,
            winner,
            self.log.canonical,
            read_deleted=lambda file: deleted_rows(self.log, file),
            table=self.log.url,
        )
        if isinstance(conflict, ConcurrentDeleteDeleteException):
            conflict.paths = frozenset(winner.files(self.log.canonical)) & intent.removed_paths
        if conflict is not None:
            raise conflict
        domain = next((a for a in winner.actions if isinstance(a, DomainMetadata) and a.domain == ROW_TRACKING), None)
        return replace(
            mine,
            last_winner=winner,
            protocol=winner.protocol or self.protocol,
            metadata=winner.metadata or self.metadata,
            carries=_still_carries(self, winner),
            actions=with_row_ids_of(mine.actions, winner.actions, self.log.canonical),
            deletions=_written_again(mine)
            if winner.begins_vacuum
            else rebased(mine.deletions, winner.actions, self.log.canonical),
            row_id_high_water_mark=self.row_id_high_water_mark if domain is None else high_water_mark(domain),
        )

    def _carry_deletions(self, winner: Winner) -> tuple[Transaction, frozenset[str]]:
        """This transaction with row deletions carried over a compaction, and the files for which the winner is then no
        conflict.
        """
        before = FileChanges(actions=self.actions, deletions=self.deletions, copies=self.copies)
        if not _still_carries(self, winner):
            return self, frozenset()
        if self.moved:
            after, settled = behind_deletions(self.log, before, self.moved, winner)
        else:
            after, settled = behind_compaction(self.log, self.base, before, winner), frozenset()
        if after is before:
            return self, settled
        removed = frozenset(self.log.canonical(a.path) for a in after.actions if isinstance(a, Remove))
        intent = replace(self.intent, removed_paths=self.intent.removed_paths & removed)
        return replace(
            self, actions=after.actions, deletions=after.deletions, copies=after.copies, intent=intent
        ), settled

    # --- values that depend on the version and on its predecessor

    def _final_actions(self, version: int, actions: Sequence[Action]) -> list[Action]:
        return self._with_timestamp(version, self._with_row_ids(version, actions))

    def _with_row_ids(self, version: int, actions: Sequence[Action]) -> Sequence[Action]:
        """Protocol: "Writer Requirements for Row Tracking"."""
        protocol, metadata = self._after(Protocol), self._after(Metadata)
        if protocol is None or metadata is None or not assigns_row_ids(protocol, metadata):
            return actions
        mark = self.row_id_high_water_mark
        if mark is None:
            mark = high_water_mark(None if self.base is None else self.base.domains.get(ROW_TRACKING))
        assigned = assigned_row_ids(None, metadata.configuration, table=self.log.url)
        return with_row_ids(
            actions,
            mark,
            version,
            num_records=lambda file: num_records(self.log, file, version),
            assigned=assigned,
        )

    def _after(self, kind: type[Any]) -> Any:
        """The table's protocol or metadata after this commit."""
        return next((a for a in self.actions if isinstance(a, kind)), None) or self._before(kind)

    def _before(self, kind: type[Any]) -> Any:
        """The table's protocol or metadata before this commit."""
        if kind is Protocol:
            return self.protocol or (None if self.base is None else self.base.protocol)
        return self.metadata or (None if self.base is None else self.base.metadata)

    def _with_timestamp(self, version: int, actions: Sequence[Action]) -> list[Action]:
        """Protocol: "Writer Requirements for In-Commit Timestamps".

        If this commit enables the feature on an existing table, the properties record the version and time. If it
        disables the feature, these properties are removed.
        """
        now_ms = self.log.env.clock_ms()
        protocol, metadata = self._after(Protocol), self._after(Metadata)
        if protocol is None or metadata is None or not in_commit_timestamps_enabled(protocol, metadata):
            info = self._commit_info(actions, now_ms)
            return [info, *(_without_enablement(a) if isinstance(a, Metadata) else a for a in actions)]
        stamp_ms = max(now_ms, self._timestamp_before() + 1)
        info = self._commit_info(actions, now_ms, stamp_ms)
        return [
            info,
            *(_with_enablement(a, self.base, version, stamp_ms) if isinstance(a, Metadata) else a for a in actions),
        ]

    def _timestamp_before(self) -> int:
        """The time of the preceding commit; -1 if there is none.

        Raises:
            InvalidCommitError: the preceding commit lacks the in-commit timestamp that the table requires.
        """
        if self.last_winner is None:
            return -1 if self.base is None else self.base.timestamp_ms
        stamp_ms = self.last_winner.info.in_commit_timestamp_ms
        if stamp_ms is not None:
            return stamp_ms
        protocol, metadata = self._before(Protocol), self._before(Metadata)
        if protocol is not None and metadata is not None and in_commit_timestamps_enabled(protocol, metadata):
            file = log_files.commit_name(self.last_winner.version)
            raise InvalidCommitError(
                table=self.log.url,
                file=file,
                detail="it has no inCommitTimestamp, but delta.enableInCommitTimestamps is true",
            )
        found = self.log.env.store.head(log_files.commit_key(self.last_winner.version))
        return -1 if found is None else found.modified_ms

    # --- commitInfo

    def _commit_info(
        self, actions: Sequence[Action], timestamp_ms: int, in_commit_timestamp_ms: int | None = None
    ) -> CommitInfo:
        """The `commitInfo` of an attempt. Moved rows are recorded only for the files that this attempt adds."""
        added = {a.path for a in actions if isinstance(a, Add)}
        moved = {target: rows for target, rows in self.moved.items() if target in added}
        fields = {
            "inCommitTimestamp": in_commit_timestamp_ms,
            "timestamp": timestamp_ms,
            "operation": self.operation,
            "operationParameters": {name: parameter_text(value) for name, value in self.parameters.items()},
            "readVersion": self.read_version if self.read_version >= 0 else None,
            "isolationLevel": self.isolation.value,
            "isBlindAppend": self.is_blind_append,
            "operationMetrics": {name: str(value) for name, value in self.metrics.items()},
            "userMetadata": self.user_metadata,
            "engineInfo": f"{self.engine} tahoe/{VERSION}" if self.engine else f"tahoe/{VERSION}",
            "txnId": self.txn_id,
            "tags": {PRESERVED: "true"} if self._tracks_rows else None,
            moved_rows.FIELD: moved_rows.to_json(moved) if moved else None,
        }
        return CommitInfo({name: value for name, value in fields.items() if value is not None})

    @property
    def _tracks_rows(self) -> bool:
        """Whether rows have stable ids after this commit. Every writer of tahoe keeps those of the rows that it copies
        or updates.
        """
        protocol, metadata = self._after(Protocol), self._after(Metadata)
        return (
            protocol is not None
            and metadata is not None
            and enabled_row_tracking(protocol, metadata.configuration) is not None
        )

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit only adds files, and read nothing of the table."""
        files = [a for a in self.actions if isinstance(a, Add | Remove)]
        is_append = bool(files) and all(isinstance(a, Add) and a.data_change for a in files)
        return is_append and not self.intent.reads_table and not self.deletions


def _check_follows(mine: Transaction, version: int, data: bytes) -> None:
    try:
        won = () if mine.last_winner is None else mine.last_winner.actions
        check_follows(mine.log, version, data, base=mine.base, winner=mine.last_winner_file, won=won)
    except CommitMismatch as error:
        raise _in_doubt(mine, version, error) from error


def _in_doubt(mine: Transaction, version: int, reason: Exception) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(table=mine.log.url, version=version, txn_id=mine.txn_id, detail=cause_text(reason))


@dataclass(frozen=True, slots=True)
class CommitAgain:
    """Commits a transaction in another environment, in which it was not committed. Its vectors are written anew."""

    transaction: Transaction

    @property
    def base(self) -> Snapshot | None:
        """The version on which it was planned."""
        return self.transaction.base

    def __call__(self, env: Env) -> int:
        env.discard(self.transaction.vector_files)
        self.transaction.vector_files.clear()
        return replace(self.transaction, log=replace(self.transaction.log, env=env)).commit()


def _winner(log: Log, version: int) -> Winner:
    """
    Raises:
        ConcurrentWriteException, MetadataChangedException: the winner's commit is gone, so conflicts cannot be checked.
    """
    try:
        return Winner(version=version, actions=tuple(log.read_version(version)))
    except MissingVersionError as error:
        raise gone(log, version) from error


def _check_not_recorded(transaction: Transaction, winner: Winner) -> None:
    """Protocol: "Transaction Identifiers". The application may have sent this write twice, and the other attempt may
    have won.
    """
    mine = {
        action.app_id: action.version
        for action in transaction.actions
        if isinstance(action, Txn) and action.app_id == transaction.txn_app_id
    }
    for action in winner.actions:
        if isinstance(action, Txn) and action.app_id in mine and action.version >= mine[action.app_id]:
            detail = (
                f"it recorded version {action.version} of the application {action.app_id}; this write has version "
                f"{mine[action.app_id]}"
            )
            raise WriteAlreadyRecordedError(table=transaction.log.url, winner=str(winner), detail=detail)


def _written_again(mine: Transaction) -> dict[str, RowDeletion]:
    """A copy of the row deletions, whose vectors are therefore written again: a VACUUM may delete those that no commit
    names yet.
    """
    return dict(mine.deletions)


def _written_ms(mine: Transaction) -> int | None:
    """When the first file was written that only this commit will name; None if there is none."""
    canonical, store = mine.log.canonical, mine.log.env.store
    new = (a for a in mine.actions if isinstance(a, Add) and canonical(a.path) not in mine.intent.restated_paths)
    changes = (store.head(canonical(a.path)) for a in mine.actions if isinstance(a, Cdc))
    return min(
        [*(a.modification_time_ms for a in new), *(0 if file is None else file.modified_ms for file in changes)],
        default=None,
    )


def _still_carries(mine: Transaction, winner: Winner) -> bool:
    """Whether row deletions can be carried over compactions from this winner on: it changes neither deletion vectors
    nor row ids.
    """
    if not mine.carries or (winner.protocol is None and winner.metadata is None):
        return mine.carries
    before: tuple[Protocol, Metadata] = mine._before(Protocol), mine._before(Metadata)
    after = winner.protocol or before[0], winner.metadata or before[1]
    return _deletes_by_vector(*after) and enabled_row_tracking(
        before[0], before[1].configuration
    ) == enabled_row_tracking(after[0], after[1].configuration)


def _deletes_by_vector(protocol: Protocol, metadata: Metadata) -> bool:
    return setting(ENABLE_DELETION_VECTORS, protocol, metadata.configuration)


def _with_enablement(metadata: Metadata, base: Snapshot | None, version: int, stamp_ms: int) -> Metadata:
    configuration = _without_enablement(metadata).configuration
    if base is None:
        return metadata.replace(configuration=configuration)
    if in_commit_timestamps_enabled(base.protocol, base.metadata):
        since = {name: base.properties[name] for name in ENABLEMENT if name in base.properties}
    else:
        since = dict(zip(ENABLEMENT, (str(version), str(stamp_ms)), strict=True))
    return metadata.replace(configuration={**configuration, **since})


def _without_enablement(metadata: Metadata) -> Metadata:
    return metadata.replace(
        configuration={name: value for name, value in metadata.configuration.items() if name not in ENABLEMENT}
    )
