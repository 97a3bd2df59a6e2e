"""Conflict detection: whether a winner, a concurrent commit that was first, conflicts with this transaction.

Paper §3 and the consistency model: a transaction may be committed after a winner if it would have read and written the
same had it run after the winner. The decision is a pure function of what this transaction read and writes and what the
winner wrote; file contents are requested only if needed. It finds fewer false conflicts than the reference, which
treats as conflicts all added files that partition values do not exclude, all concurrent deletion vectors of a file, and
all metadata changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from itertools import chain
from operator import or_
from typing import NamedTuple, TypeAlias
from typing import Protocol as Interface

from pyroaring import BitMap64

from tahoe.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tahoe.protocol.changes.conflict_rules import Change, Does, Outcome, changes, conflict_of
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from tahoe.protocol.statistics import clustering
from tahoe.protocol.types.moments import moment_of

RowIndexes: TypeAlias = BitMap64
"""Rows of one file, by their row index."""


class Isolation(Enum):
    """The isolation level of a transaction.

    Paper §3: all writers are serialisable. With `delta.isolationLevel` WriteSerializable, blind appends do not
    conflict. A commit that changes no data conflicts only on the files that it rewrites.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


class Reads(Interface):
    """Which rows a transaction read, or would have read had they existed. Its text is for error messages."""

    def may_be_in(self, file: FileAction) -> bool:
        """Whether a file may contain such a row, according to its partition values and statistics."""

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool | None:
        """Whether one of these rows of a file (None: all its live rows) is such a row; None if that cannot be
        determined.
        """


@dataclass(frozen=True, slots=True)
class FilesRead:
    """All rows of the files that pass a test on their actions."""

    test: Callable[[FileAction], bool] = lambda _: True
    text: str = "the whole table"

    def may_be_in(self, file: FileAction) -> bool:
        return self.test(file)

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool | None:  # noqa: ARG002 - all rows of a file count as read
        return True

    def __str__(self) -> str:
        return self.text


EVERYTHING = FilesRead()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a transaction read and will write.

    Attributes:
        reads: the rows that it read; None for a blind append.
        is_exact: whether it deletes every row that it read.
        is_alone: whether it depends on every file of the table, or on its own version number, so that no other commit
            may come first.
        removed_paths: the canonical paths of the files that it removes.
        restated_paths: those of the files whose entries it replaces, for the same rows: it copies what it does not
            change.
        row_deletions: the rows that it deletes with deletion vectors, by the canonical paths of their files.
        app_ids: the applications whose `txn` versions it depends on.
        domains: the metadata domains that it changes.
        metadata: the table's metadata before the winner; None if it changes metadata or protocol itself, or creates the
            table.
        protocol: the same for the table's protocol.
        minted: the identity columns whose high-water marks it raises by generating values.
        added: the files that it adds. They must have statistics of the clustering columns at commit time.
        records_changes: whether it writes change data files.
        written_ms: when the first of its new files was written; None if it has none, or no VACUUM was first.
    """

    reads: Reads | None = None
    is_exact: bool = False
    is_alone: bool = False
    removed_paths: Set[str] = field(default_factory=frozenset)
    restated_paths: Set[str] = field(default_factory=frozenset)
    row_deletions: Mapping[str, RowIndexes] = field(default_factory=dict)
    app_ids: Set[str] = field(default_factory=frozenset)
    domains: Set[str] = field(default_factory=frozenset)
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    minted: tuple[str, ...] = ()
    added: tuple[Add, ...] = ()
    records_changes: bool = False
    written_ms: int | None = None
    isolation: Isolation = Isolation.SERIALIZABLE

    @property
    def reads_table(self) -> bool:
        return self.reads is not None

    @property
    def does(self) -> Does:
        """What the write does, for the rules about changes of the table."""
        moves = self.isolation is Isolation.SNAPSHOT
        adds = not moves and any(add.data_change for add in self.added)
        removes = not moves and bool(self.removed_paths or self.row_deletions)
        traits = {
            Does.ADDS: adds,
            Does.REMOVES: removes,
            Does.CHANGES: adds and removes,
            Does.MOVES: bool(self.restated_paths) or (moves and bool(self.added or self.removed_paths)),
            Does.MARKS: bool(self.row_deletions)
            or (not moves and any(add.deletion_vector is not None for add in self.added)),
            Does.RECORDS: self.records_changes,
            Does.READS: not moves and self.reads_table,
            Does.DESCRIBES: bool(self.domains),
        }
        return reduce(or_, (trait for trait, holds in traits.items() if holds), Does.COMMITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A concurrent commit that was first."""

    version: int
    actions: tuple[Action, ...]

    @property
    def info(self) -> CommitInfo:
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo({}))

    @property
    def begins_vacuum(self) -> bool:
        return self.info.vacuum_cutoff_ms is not None

    @property
    def protocol(self) -> Protocol | None:
        return next((a for a in self.actions if isinstance(a, Protocol)), None)

    @property
    def metadata(self) -> Metadata | None:
        return next((a for a in self.actions if isinstance(a, Metadata)), None)

    @property
    def is_blind_append(self) -> bool:
        return self.info.is_blind_append and not any(isinstance(a, Remove) for a in self.actions)

    def files(self, canonical: Callable[[str], str]) -> dict[str, tuple[Remove | None, Add | None]]:
        """The remove and add of each file, by canonical path. A file with both has a new deletion vector."""
        removes = {canonical(a.path): a for a in self.actions if isinstance(a, Remove)}
        adds = {canonical(a.path): a for a in self.actions if isinstance(a, Add)}
        return {path: (removes.get(path), adds.get(path)) for path in {**removes, **adds}}

    def __str__(self) -> str:
        fields = self.info.fields
        operation, timestamp, user = (
            fields.get("operation", "an unknown operation"),
            fields.get("timestamp"),
            fields.get("userName"),
        )
        when = f" at {moment_of(timestamp).isoformat(timespec='seconds')}" if isinstance(timestamp, int) else ""
        return f"version {self.version}: {operation}{when}{f' by {user}' if user else ''}"


class Reason(NamedTuple):
    """Why a write cannot go on: the error, its detail, and for a change of the table what the write does behind it."""

    error: type[DeltaConcurrentModificationException]
    detail: str
    change: Change | None = None
    outcome: Outcome | None = None


def find_conflict(
    mine: Intent,
    winner: Winner,
    canonical: Callable[[str], str],
    read_deleted: Callable[[FileAction], RowIndexes],
    *,
    table: str,
) -> DeltaConcurrentModificationException | None:
    """Why this transaction cannot be committed after the winner; None if it can.

    Args:
        canonical: maps all spellings of a file's path to one.
        read_deleted: the rows that a file's deletion vector deletes; requested only for files whose vector the winner
            changed and of which this transaction deletes or read rows.
    """
    reasons = chain(
        _table_reasons(mine, winner),
        _reasons_of_vacuum(mine, winner),
        _file_reasons(mine, winner, canonical, read_deleted),
        _reason_of_all(mine),
    )
    found = next(reasons, None)
    if found is None:
        return None
    conflict = found.error(table=table, winner=str(winner), detail=found.detail)
    conflict.loses_files = winner.begins_vacuum
    if found.change is not None:
        conflict.may_rerun = found.outcome is Outcome.AGAIN
        conflict.is_of_columns = found.change.is_of_columns
    return conflict


def _table_reasons(mine: Intent, winner: Winner) -> Iterator[Reason]:
    """Conflicts about what is not a file: protocol and metadata, transaction identifiers, domains, and clustering
    columns of which the added files have no statistics.
    """
    if winner.protocol is not None or winner.metadata is not None:
        yield from _reasons_of_changes(mine, winner.protocol, winner.metadata)
    for action in winner.actions:
        match action:
            case Txn() if action.app_id in mine.app_ids:
                detail = f"it wrote a transaction identifier for the same application {action.app_id}"
                yield Reason(ConcurrentTransactionException, detail)
            case DomainMetadata() if action.domain in mine.domains:
                detail = f"it changed the metadata domain {action.domain}, which this write changes too"
                yield Reason(ConcurrentTransactionException, detail)
            case DomainMetadata(domain=clustering.DOMAIN) if columns := clustering.columns_without_statistics(
                action, mine.added
            ):
                change = Change("clustering columns", f"clustered the table by {', '.join(columns)}")
                yield _reason_of(change, change.rule.outcome)
            case _:
                pass


def _reasons_of_changes(mine: Intent, protocol: Protocol | None, metadata: Metadata | None) -> Iterator[Reason]:
    """Why a write cannot go on behind new protocol or metadata actions."""
    if mine.protocol is None or mine.metadata is None:
        if protocol is not None:
            yield Reason(ProtocolChangedException, "it changed the table's protocol")
        elif mine.minted:
            columns = ", ".join(mine.minted)
            detail = (
                f"it changed the table's metadata, and this write generated values for the identity column {columns}"
            )
            yield Reason(MetadataChangedException, detail)
        else:
            yield Reason(MetadataChangedException, "it changed the table's metadata, which this write changes too")
        return
    found = conflict_of(
        changes((mine.protocol, mine.metadata), (protocol or mine.protocol, metadata or mine.metadata)), mine.does
    )
    if found is not None:
        yield _reason_of(*found)


def _reasons_of_vacuum(mine: Intent, winner: Winner) -> Iterator[Reason]:
    """A VACUUM keeps the files that commits name, and deletes others if they are older than its cutoff: perhaps those
    of this write.
    """
    cutoff_ms, written_ms = winner.info.vacuum_cutoff_ms, mine.written_ms
    if cutoff_ms is not None and written_ms is not None and written_ms < cutoff_ms:
        moment = moment_of(cutoff_ms).isoformat(timespec="milliseconds")
        change = Change("vacuum", f"began to delete the files from before {moment} that no commit names")
        yield _reason_of(change, change.rule.outcome, ConcurrentWriteException)


def _reason_of(
    change: Change, outcome: Outcome, error: type[DeltaConcurrentModificationException] | None = None
) -> Reason:
    error = error or (ProtocolChangedException if change.is_of_protocol else MetadataChangedException)
    return Reason(error, f"it {change.text}, and {change.rule.why}", change, outcome)


def _file_reasons(
    mine: Intent, winner: Winner, canonical: Callable[[str], str], read_deleted: Callable[[FileAction], RowIndexes]
) -> Iterator[Reason]:
    """Conflicts about the files that the winner added or removed. For each path the first case decides."""
    for path, (removed, added) in winner.files(canonical).items():
        if mine.is_alone:
            yield Reason(
                ConcurrentAppendException,
                f"it added or removed {path}, but this write depends on every file of the table",
            )
        elif path in mine.restated_paths:
            yield Reason(
                ConcurrentWriteException, f"it removed or replaced the entry of {path}, which this write replaces too"
            )
        elif removed is not None and added is not None:
            yield from _about_vector(mine, path, removed, added, read_deleted)
        elif removed is not None:
            yield from _about_removed(mine, path, removed)
        elif added is not None and _sees_adds(mine, winner):
            yield from _about_added(mine, added)


def _reason_of_all(mine: Intent) -> Iterator[Reason]:
    if mine.is_alone:
        yield Reason(ConcurrentWriteException, "this write depends on its own version number")


def _sees_adds(mine: Intent, winner: Winner) -> bool:
    # after a change of schema or partitioning, files with the old one would be unreadable
    may_pass = mine.isolation is Isolation.WRITE_SERIALIZABLE and mine.metadata is not None
    return not (may_pass and winner.is_blind_append)


def _about_removed(mine: Intent, path: str, removed: Remove) -> Iterator[Reason]:
    if path in mine.removed_paths or path in mine.row_deletions:
        yield Reason(
            ConcurrentDeleteDeleteException, f"it removed {removed.path}, from which this write removes rows too"
        )
    elif removed.data_change and not mine.is_exact:
        yield from _about_rows(mine, removed, None, ConcurrentDeleteReadException, "removed")


def _about_added(mine: Intent, added: Add) -> Iterator[Reason]:
    if added.data_change:  # rows that were only moved are not new
        yield from _about_rows(mine, added, None, ConcurrentAppendException, "added")


def _about_rows(
    mine: Intent,
    file: FileAction,
    rows: RowIndexes | None,
    error: type[DeltaConcurrentModificationException],
    done: str,
) -> Iterator[Reason]:
    """About rows of a file (None: all its live rows) that the winner has added, removed, deleted or restored."""
    reads = _reads(mine, file)
    read = False if reads is None else reads.are_in(file, rows)
    if read is False:
        return
    what = f"it {done} {file.path}" if rows is None else f"it {done} rows of {file.path}"
    which = "from which" if rows is None else "of which"
    if read is None:
        yield Reason(
            error,
            f"{what}, {which} this write may depend: whether it has read one of them could not be determined ({reads})",
        )
    elif error is ConcurrentAppendException:
        yield Reason(error, f"{what}, {which} this write would have read some (this write read {reads})")
    else:
        yield Reason(error, f"{what}, {which} this write read some (this write read {reads})")


def _about_vector(
    mine: Intent, path: str, removed: Remove, added: Add, read_deleted: Callable[[FileAction], RowIndexes]
) -> Iterator[Reason]:
    """A file with a new deletion vector: rows were deleted or restored. Statistics come from the add, because a remove
    may lack them.
    """
    if removed.deletion_vector == added.deletion_vector:
        return  # only its statistics or tags changed
    if path in mine.removed_paths:
        yield Reason(ConcurrentDeleteDeleteException, f"it deleted rows of {removed.path}, which this write removes")
        return
    deletions = mine.row_deletions.get(path)
    if deletions is None and _reads(mine, added) is None:
        return
    before, after = read_deleted(removed), read_deleted(added)
    gone, back = after - before, before - after
    if deletions is not None and (both := deletions & gone):
        detail = (
            f"it deleted {len(both)} of the {len(deletions)} rows of {removed.path} that this write deletes, "
            f"including row {both[0]}"
        )
        yield Reason(ConcurrentDeleteDeleteException, detail)
    if gone and not mine.is_exact:
        yield from _about_rows(mine, added, gone, ConcurrentDeleteReadException, "deleted")
    if back:
        yield from _about_rows(mine, added, back, ConcurrentAppendException, "restored")


def _reads(mine: Intent, file: FileAction) -> Reads | None:
    """What this transaction read, if the file may contain such rows."""
    if mine.isolation is Isolation.SNAPSHOT or mine.reads is None or not mine.reads.may_be_in(file):
        return None
    return mine.reads
