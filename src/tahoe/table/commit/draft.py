"""A commit while it is put together, whoever writes it: what it adds, removes and deletes by row, and how its files are deleted again.

Protocol: "Actions", "Writer Requirements for Deletion Vectors". Every writer fills a draft; here alone it becomes a transaction, and here
alone is decided what happens to its files where the transaction fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from tahoe.errors import CommitOutcomeUnknownError, DeltaError, WriteAlreadyRecordedError
from tahoe.protocol.actions import Action, Add, Cdc, DomainMetadata, Metadata, Protocol, Txn, remove_of
from tahoe.protocol.conflict import Intent, Reads
from tahoe.protocol.features import setting
from tahoe.protocol.properties import ENABLE_DELETION_VECTORS
from tahoe.storage.env import Watch
from tahoe.table.commit.row_deletions import RowDeletion
from tahoe.table.commit.transaction import Transaction
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot

_logger = logging.getLogger("tahoe")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationInfo:
    """What the history says of a commit."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    engine: str | None = None


class _PutWatch(Watch):
    """Notes that a commit was put, or might have been."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.has_put = False

    def before_put(self) -> None:
        self._watch.before_put()
        self.has_put = True

    def committed(self, url: str, version: int) -> None:
        self._watch.committed(url, version)


@dataclass(kw_only=True)
class Draft:
    """A commit that is being put together. As a context manager it deletes what was written for it where the block fails.

    Attributes:
        base: the snapshot that the work is based on; None for a table that was not there.
        protocol, metadata: the table's once this is committed.
        txn: the application and version by which this very write is known again.
        txns: further versions of applications that it records.
        domains: that it sets or removes, by name.
        adds, change_files: that were written for it.
        removed: files that go with all of their rows, by canonical path.
        deleted: rows that go, by the canonical path of their file.
        reads, is_exact, is_alone: see `Intent`.
        data_change: whether the table's rows are others afterwards.
    """

    log: Log
    base: Snapshot | None
    protocol: Protocol
    metadata: Metadata
    txn: tuple[str, int] | None = None
    data_change: bool = True
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    adds: list[Add] = field(default_factory=list)
    change_files: list[Cdc] = field(default_factory=list)
    removed: dict[str, Add] = field(default_factory=dict)
    deleted: dict[str, RowDeletion] = field(default_factory=dict)
    reads: Reads | None = None
    is_exact: bool = False
    is_alone: bool = False
    _discards: list[Callable[[], None]] = field(default_factory=list, init=False)
    _may_be_put: bool = field(default=False, init=False)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None:
            self.discard()

    # --- what it does to files

    def on_discard(self, delete_files: Callable[[], None]) -> None:
        """Remember how files that were written for it are deleted, should it not be committed."""
        self._discards.append(delete_files)

    def remove(self, files: Iterable[Add]) -> None:
        """Remove files with all of their rows."""
        self.removed |= {self.log.canonical(file.path): file for file in files}

    def delete_rows(self, deletions: Iterable[RowDeletion]) -> None:
        """Delete rows of files. Without deletion vectors the files go, and whoever fills the draft adds their other rows."""
        self.deleted |= {self.log.canonical(deletion.file.path): deletion for deletion in deletions}

    @property
    def has_vectors(self) -> bool:
        """Whether rows are deleted through deletion vectors; else their files are written again without them."""
        return setting(ENABLE_DELETION_VECTORS, self.protocol, self.metadata.configuration, table=self.log.url)

    @property
    def by_vector(self) -> dict[str, RowDeletion]:
        """The rows that go through deletion vectors."""
        return {path: deletion for path, deletion in self.deleted.items() if path not in self.removed} if self.has_vectors else {}

    @property
    def removed_files(self) -> dict[str, Add]:
        """The files that go: as such, or since rows of theirs go and there are no deletion vectors."""
        return self.removed if self.has_vectors else {**{path: deletion.file for path, deletion in self.deleted.items()}, **self.removed}

    # --- the end

    @property
    def is_recorded(self) -> bool:
        """Whether this very write was committed before."""
        return self.base is not None and self.base.has_recorded(self.txn)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        is_as_before = self.base is not None and (self.protocol, self.metadata) == (self.base.protocol, self.base.metadata)
        return is_as_before and not (self._recorded() or self.domains or self.adds or self.change_files or self.removed or self.deleted)

    def commit(self, info: OperationInfo) -> int | None:
        """Commit it. What was written for it is deleted where it certainly was not committed.

        Returns:
            the version that was made; None where this very write is recorded by now.

        Raises:
            DeltaConcurrentModificationException: another writer was first, and it matters; nothing was committed.
            CommitOutcomeUnknownError: the storage would not tell whether the commit arrived; the files stay.
        """
        if self.is_recorded:
            self.discard()
            return None
        watch = _PutWatch(self.log.env.watch)
        try:
            version = self._transaction(info, replace(self.log, env=replace(self.log.env, watch=watch))).commit()
        except WriteAlreadyRecordedError:
            self.discard()
            return None
        except BaseException as error:
            # Any that is none of ours may come after the commit, when readers already count on the files.
            self._may_be_put = isinstance(error, CommitOutcomeUnknownError) or (watch.has_put and not isinstance(error, DeltaError))
            self.discard()
            raise
        self._discards.clear()  # the table counts on them now, whatever comes
        return version

    def discard(self) -> None:
        """Delete what was written for it, unless it may be committed. What cannot be deleted stays: no version names it."""
        while self._discards and not self._may_be_put:
            try:
                self._discards.pop()()
            except Exception as error:
                _logger.warning("%s: files that no version names are left behind: %s", self.log.url, error)

    def _transaction(self, info: OperationInfo, log: Log) -> Transaction:
        return Transaction(
            log=log,
            base=self.base,
            actions=self._actions(),
            deletions=self.by_vector,
            operation=info.operation,
            intent=Intent(
                reads=self.reads,
                is_exact=self.is_exact,
                is_alone=self.is_alone,
                removed_paths=frozenset(self.removed_files),
                app_ids=frozenset(self._recorded()),
            ),
            parameters=info.parameters,
            metrics=info.metrics,
            user_metadata=info.user_metadata,
            engine=info.engine,
            once=self.txn[0] if self.txn else None,
        )

    def _actions(self) -> list[Action]:
        now_ms = self.log.env.clock_ms()
        protocol = [self.protocol] if self.base is None or self.protocol != self.base.protocol else []
        metadata = [self.metadata] if self.base is None or self.metadata != self.base.metadata else []
        txns = [Txn(app_id=app, version=version, last_updated_ms=now_ms) for app, version in self._recorded().items()]
        removes = [remove_of(file, now_ms, data_change=self.data_change) for file in self.removed_files.values()]
        return [*protocol, *metadata, *self.domains.values(), *txns, *removes, *self.adds, *self.change_files]

    def _recorded(self) -> dict[str, int]:
        return self.txns | (dict([self.txn]) if self.txn else {})
