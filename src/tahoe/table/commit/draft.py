"""A commit in preparation: files to add and remove, rows to delete, and how to delete the files of a failed write.

Protocol: "Actions", "Writer Requirements for Deletion Vectors". Every writer fills a draft. Only this module makes a
transaction from a draft, and only this module decides whether the draft's files are deleted if the transaction fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, TypedDict

from tahoe.errors import (
    CommitOutcomeUnknownError,
    DeltaConcurrentModificationException,
    DeltaError,
    WriteAlreadyRecordedError,
)
from tahoe.protocol.changes.assigned_numbers import with_numbers_of
from tahoe.protocol.changes.conflict import EVERYTHING, Intent, Reads
from tahoe.protocol.configuration.features import setting
from tahoe.protocol.configuration.properties import ENABLE_DELETION_VECTORS
from tahoe.protocol.log.actions import Action, Add, Cdc, DomainMetadata, Metadata, Protocol, Txn, remove_of
from tahoe.protocol.statistics.moved_rows import CopiedRows
from tahoe.storage.env import Env, Watch, may_be_described
from tahoe.table.commit.new_files import NewFiles, note
from tahoe.table.commit.row_deletions import RowDeletion
from tahoe.table.commit.symlink_manifests import check_manifests_before_commit, manifests_after_commit
from tahoe.table.commit.transaction import Transaction
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, check_may_open

_logger = logging.getLogger("tahoe")


class Author(TypedDict, total=False):
    """Who makes a commit, for the history.

    Attributes:
        user_metadata: a text of the user's.
        engine: the program that hosts tahoe.
    """

    user_metadata: str | None
    engine: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationInfo:
    """What the history records about a commit."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    engine: str | None = None


class _PutWatch(Watch):
    """Tells a draft from when on it may be put. An interruption may come between any two lines."""

    def __init__(self, watch: Watch, draft: Draft) -> None:
        self._watch, self._draft = watch, draft

    def before_put(self) -> None:
        self._watch.before_put()
        self._draft.may_be_put = True

    def lost(self) -> None:
        self._draft.may_be_put = False
        self._watch.lost()

    def committed(self, url: str, version: int) -> None:
        self._watch.committed(url, version)

    def made(self, commit: Callable[[Env], int]) -> None:
        self._watch.made(commit)


@dataclass(kw_only=True)
class Draft:
    """A commit in preparation. As a context manager it deletes the files written for it if the block fails.

    Attributes:
        base: the snapshot that the work is based on; None if there was no table.
        protocol, metadata: those of the table after the commit.
        txn: application id and version that identify this write.
        txns: further application versions that the commit records.
        domains: the domains that the commit sets or removes, by name.
        adds, change_files: the files that were written for the commit.
        removed: files that are removed with all their rows, by canonical path.
        restated: the new entries of files that keep their rows and their deletion vectors, by canonical path.
        deleted: rows to delete, by the canonical path of their file.
        moved: what the added files consist of, if this is a compaction, by their paths as in the log.
        carries: whether rows to delete may be followed into the files of a compaction that was first; see
            `carried_deletions`.
        reads, is_exact, is_alone: the rows that were read, whether all of them are deleted, and whether no other commit
            may come first; see `Intent`.
        data_change: whether the commit changes the table's rows.
        compacts: whether auto compaction may follow.
        may_be_put: whether the commit may be in the log, so that readers may need its files.
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
    restated: dict[str, Add] = field(default_factory=dict)
    deleted: dict[str, RowDeletion] = field(default_factory=dict)
    moved: dict[str, Sequence[CopiedRows]] = field(default_factory=dict)
    carries: bool = True
    reads: Reads | None = None
    is_exact: bool = False
    is_alone: bool = False
    compacts: bool = True
    _discards: list[Callable[[], None]] = field(default_factory=list, init=False)
    may_be_put: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.log.env.watch.begin(self.log.url)

    def __enter__(self) -> Draft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()

    # --- changes of files

    def on_discard(self, delete_files: Callable[[], None]) -> None:
        """Register a function that deletes files written for this draft. It is called if it is certain that they are
        not committed.
        """
        self._discards.append(delete_files)

    def remove(self, files: Iterable[Add]) -> None:
        """Remove files with all their rows."""
        self.removed |= {self.log.canonical(file.path): file for file in files}

    def restate(self, files: Iterable[Add]) -> None:
        """Replace the entries of live files by others for the same rows, for example with other statistics."""
        self.restated |= {self.log.canonical(file.path): file for file in files}

    def delete_rows(self, deletions: Iterable[RowDeletion]) -> None:
        """Delete rows of files. Without deletion vectors the files are removed, and the caller adds their remaining
        rows.
        """
        self.deleted |= {self.log.canonical(deletion.file.path): deletion for deletion in deletions}

    @property
    def deletes_by_vector(self) -> bool:
        """Whether rows are deleted through deletion vectors; otherwise their files are rewritten."""
        return setting(ENABLE_DELETION_VECTORS, self.protocol, self.metadata.configuration, table=self.log.url)

    @property
    def by_vector(self) -> dict[str, RowDeletion]:
        """The rows to delete through deletion vectors."""
        return (
            {path: deletion for path, deletion in self.deleted.items() if path not in self.removed}
            if self.deletes_by_vector
            else {}
        )

    @property
    def removed_files(self) -> dict[str, Add]:
        """The files that the commit removes: whole files and, without deletion vectors, files that contain deleted
        rows.
        """
        return (
            self.removed
            if self.deletes_by_vector
            else {**{path: deletion.file for path, deletion in self.deleted.items()}, **self.removed}
        )

    # --- commit or discard

    @property
    def is_recorded(self) -> bool:
        """Whether the base has recorded this write's `txn` already."""
        return was_recorded(self.base, self.txn)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        changes = (
            self._txn_versions(),
            self.domains,
            self.adds,
            self.change_files,
            self.removed,
            self.restated,
            self.deleted,
        )
        return self._is_same_table and not any(changes)

    @property
    def _is_same_table(self) -> bool:
        """Whether protocol and metadata stay as they are."""
        return self.base is not None and (self.protocol, self.metadata) == (self.base.protocol, self.base.metadata)

    def commit(self, info: OperationInfo) -> int | None:
        """Commit the draft. Its files are deleted if it is certain that it was not committed.

        Returns:
            the version that was committed; None if this write's `txn` is already recorded.

        Raises:
            CatalogManagedTableError: the table was opened by its path, and is, or would be, managed by a catalog.
            DeltaConcurrentModificationException: a winner conflicts; nothing was committed.
            CommitOutcomeUnknownError: the storage did not tell whether the commit was written; the files stay.
            PostCommitHookFailedError, ManifestsWithVectorsError: the version is committed, but its manifests are not
                written.
        """
        if self.is_recorded:
            self.discard()
            return None
        check_manifests_before_commit(
            self.base, self.protocol, self.metadata, adds=self.adds, removed=self.removed_files, table=self.log.url
        )
        watch = _PutWatch(self.log.env.watch, self)
        try:
            check_may_open(self.log, self.protocol)
            transaction = self._transaction(info, replace(self.log, env=replace(self.log.env, watch=watch)))
            self.on_discard(lambda: self.log.env.discard(transaction.vector_files))
            version = transaction.commit()
        except WriteAlreadyRecordedError as error:
            _logger.info("%s: nothing was written, because another writer was faster: %s", self.log.url, error)
            self.discard()
            return None
        except BaseException as error:
            if isinstance(error, DeltaConcurrentModificationException):
                error.may_rerun &= (
                    self.reads is not EVERYTHING
                )  # what else it read may be cached rows of the old version
                error.makes_table = self.base is None
            # An error that is not a DeltaError may occur after the commit, when readers already need the files.
            if isinstance(error, DeltaError) and not isinstance(error, CommitOutcomeUnknownError):
                self.may_be_put = False
            self.discard()
            raise
        self._discards.clear()  # committed: the files now belong to the table
        self._note(version, is_blind_append=transaction.is_blind_append)
        if may_be_described(self.log.env.store, version):
            manifests_after_commit(
                self.log, self.base, version, self.metadata, [*self.adds, *self.removed_files.values()]
            )
        return version

    def _note(self, version: int, *, is_blind_append: bool) -> None:
        """Note the files with new or deleted rows for auto compaction, which follows the write."""
        paths = frozenset(file.path for file in self.adds if file.data_change)
        marked = frozenset(deletion.file.path for deletion in self.by_vector.values())
        if self.compacts and (paths or marked) and may_be_described(self.log.env.store, version):
            new = NewFiles(
                log=self.log,
                base=self.base,
                version=version,
                properties=self.metadata.configuration,
                paths=paths,
                marked=marked,
                is_blind_append=is_blind_append,
            )
            note(new)

    def discard(self) -> None:
        """Delete the files written for this draft, unless it may be committed. Files that cannot be deleted stay,
        unreferenced.
        """
        while self._discards and not self.may_be_put:
            try:
                if self.base is None and self.log.was_converted():
                    return  # its files may belong to the table all the same
                self._discards.pop()()
            except Exception as error:
                _logger.warning(
                    "%s: cannot delete files, so they are left behind; no version refers to them: %s",
                    self.log.url,
                    error,
                )

    def _transaction(self, info: OperationInfo, log: Log) -> Transaction:
        """The commit as a transaction. It carries row deletions over compactions only on the table that it read, and
        only if it changes rows or is a compaction itself.
        """
        return Transaction(
            log=log,
            base=self.base,
            actions=self._actions(),
            deletions=self.by_vector,
            moved=self.moved,
            carries=self.carries
            and self.deletes_by_vector
            and self._is_same_table
            and (self.data_change or bool(self.moved)),
            operation=info.operation,
            intent=Intent(
                reads=self.reads,
                is_exact=self.is_exact,
                is_alone=self.is_alone,
                removed_paths=frozenset(self.removed_files),
                restated_paths=frozenset(self.restated),
                app_ids=frozenset(self._txn_versions()),
            ),
            parameters=info.parameters,
            metrics=info.metrics,
            user_metadata=info.user_metadata,
            engine=info.engine,
            txn_app_id=self.txn[0] if self.txn else None,
        )

    def _actions(self) -> list[Action]:
        """The actions of the commit. Protocol and metadata are among them only if it changes them."""
        now_ms = self.log.env.clock_ms()
        protocol = [self.protocol] if self.base is None or self.protocol != self.base.protocol else []
        metadata = self._changed_metadata()
        txns = [
            Txn(app_id=app, version=version, last_updated_ms=now_ms) for app, version in self._txn_versions().items()
        ]
        removes = [remove_of(file, now_ms, data_change=self.data_change) for file in self.removed_files.values()]
        return [
            *protocol,
            *metadata,
            *self.domains.values(),
            *txns,
            *removes,
            *self.adds,
            *self.restated.values(),
            *self.change_files,
        ]

    def _changed_metadata(self) -> list[Metadata]:
        if self.base is None:
            return [self.metadata]
        if self.metadata == self.base.metadata:
            return []
        return [with_numbers_of(self.base.metadata, self.metadata, table=self.log.url)]

    def _txn_versions(self) -> dict[str, int]:
        return self.txns | (dict([self.txn]) if self.txn else {})


def was_recorded(base: Snapshot | None, txn: tuple[str, int] | None) -> bool:
    """Whether a write, identified by application id and version, was committed already. Logs that it is skipped.

    It is a warning if a later write is recorded: the application has gone back.
    """
    recorded = None if base is None or txn is None else base.txn_version(txn[0])
    if base is None or txn is None or recorded is None or recorded < txn[1]:
        return False
    skipped = (
        f"{base.url}: write {txn[1]} of {txn[0]} is skipped: version {base.version} of the table has recorded its "
        f"write {recorded}"
    )
    if recorded == txn[1]:
        _logger.info(skipped)
    else:
        _logger.warning(
            "%s. If its checkpoint is an old copy, rows may be missing: compare the table with its source", skipped
        )
    return True
