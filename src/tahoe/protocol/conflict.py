"""Conflict detection: whether a winner, a concurrent commit that was first, conflicts with this transaction.

Paper §3 and the consistency model: a transaction may be committed after a winner if it would have read and written the same had it run
after the winner. The decision is a pure function of what this transaction read and writes and what the winner wrote; file contents are
requested only if needed. It finds fewer false conflicts than the reference, which treats as conflicts all added files that partition
values do not exclude, all concurrent deletion vectors of a file, and all metadata changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, TypeAlias
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
from tahoe.protocol import clustering, properties
from tahoe.protocol.actions import Action, Add, CommitInfo, DomainMetadata, FileAction, Metadata, Protocol, Remove, Txn
from tahoe.protocol.column_values import without_high_water_marks
from tahoe.protocol.features import supported_features
from tahoe.protocol.moments import moment_of

RowIndexes: TypeAlias = BitMap64
"""Rows of one file, by their row index."""


class Isolation(Enum):
    """The isolation level of a transaction.

    Paper §3: all writers are serialisable. With `delta.isolationLevel` WriteSerializable, blind appends do not conflict. A commit that
    changes no data conflicts only on the files that it rewrites.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


class Reads(Interface):
    """Which rows a transaction read, or would have read had they existed. Its text is for error messages."""

    def may_be_in(self, file: FileAction) -> bool:
        """Whether a file may contain such a row, according to its partition values and statistics."""

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool:
        """Whether one of these rows of a file (None: all its live rows) is such a row. True if that cannot be determined."""


@dataclass(frozen=True, slots=True)
class FilesRead:
    """All rows of the files that pass a test on their actions."""

    test: Callable[[FileAction], bool] = lambda _: True
    text: str = "the whole table"

    def may_be_in(self, file: FileAction) -> bool:
        return self.test(file)

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool:  # noqa: ARG002 - all rows of a file count as read
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
        is_alone: whether it depends on every file of the table, or on its own version number, so that no other commit may come first.
        removed_paths: the canonical paths of the files that it removes.
        restated_paths: those of the files whose entries it replaces, for the same rows: it copies what it does not change.
        row_deletions: the rows that it deletes with deletion vectors, by the canonical paths of their files.
        app_ids: the applications whose `txn` versions it depends on.
        domains: the metadata domains that it changes.
        metadata: the table's metadata at planning time; None if it changes metadata or protocol itself, or creates the table.
        protocol: the same for the table's protocol.
        minted: the identity columns whose high-water marks it raises by generating values.
        added: the files that it adds. They must have statistics of the clustering columns at commit time.
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
    isolation: Isolation = Isolation.SERIALIZABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A concurrent commit that was first."""

    version: int
    actions: tuple[Action, ...]

    @property
    def info(self) -> CommitInfo:
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo({}))

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
        operation, timestamp, user = fields.get("operation", "an unknown operation"), fields.get("timestamp"), fields.get("userName")
        when = f" at {moment_of(timestamp).isoformat(timespec='seconds')}" if isinstance(timestamp, int) else ""
        return f"version {self.version}: {operation}{when}{f' by {user}' if user else ''}"


Reason: TypeAlias = tuple[type[DeltaConcurrentModificationException], str]


def find_conflict(
    mine: Intent, winner: Winner, canonical: Callable[[str], str], deleted: Callable[[FileAction], RowIndexes], *, table: str
) -> DeltaConcurrentModificationException | None:
    """Why this transaction cannot be committed after the winner; None if it can.

    Args:
        canonical: maps all spellings of a file's path to one.
        deleted: the rows that a file's deletion vector deletes; requested only for files whose vector the winner changed and of which
            this transaction deletes or read rows.
    """
    reasons = chain(_table_reasons(mine, winner), _file_reasons(mine, winner, canonical, deleted), _reason_of_all(mine))
    found = next(reasons, None)
    return None if found is None else found[0](table=table, winner=str(winner), detail=found[1])


def _table_reasons(mine: Intent, winner: Winner) -> Iterator[Reason]:
    for action in winner.actions:
        match action:
            case Protocol() if mine.protocol is None or not _makes_no_rule(mine.protocol, action):
                yield ProtocolChangedException, "it changed the table's protocol"
            case Metadata() if changed := _what_matters(mine, action):
                yield MetadataChangedException, f"it changed {changed}"
            case Txn() if action.app_id in mine.app_ids:
                yield ConcurrentTransactionException, f"it wrote a transaction identifier for the same application {action.app_id}"
            case DomainMetadata() if action.domain in mine.domains:
                yield ConcurrentTransactionException, f"it changed the metadata domain {action.domain}, which this write changes too"
            case DomainMetadata(domain=clustering.DOMAIN) if columns := clustering.columns_without_statistics(action, mine.added):
                detail = f"it clustered the table by {', '.join(columns)}, for which files of this write have no statistics"
                yield MetadataChangedException, detail
            case _:
                pass


def _file_reasons(
    mine: Intent, winner: Winner, canonical: Callable[[str], str], deleted: Callable[[FileAction], RowIndexes]
) -> Iterator[Reason]:
    for path, (removed, added) in winner.files(canonical).items():
        if mine.is_alone:
            yield ConcurrentAppendException, f"it added or removed {path}, but this write depends on every file of the table"
        elif path in mine.restated_paths:
            yield ConcurrentWriteException, f"it removed or replaced the entry of {path}, which this write replaces too"
        elif removed is not None and added is not None:
            yield from _about_vector(mine, path, removed, added, deleted)
        elif removed is not None:
            yield from _about_removed(mine, path, removed)
        elif added is not None and _sees_adds(mine, winner):
            yield from _about_added(mine, added)


def _reason_of_all(mine: Intent) -> Iterator[Reason]:
    if mine.is_alone:
        yield ConcurrentWriteException, "this write depends on its own version number"


def _sees_adds(mine: Intent, winner: Winner) -> bool:
    # after a change of schema or partitioning, files with the old one would be unreadable
    may_pass = mine.isolation is Isolation.WRITE_SERIALIZABLE and mine.metadata is not None
    return not (may_pass and winner.is_blind_append)


def _about_removed(mine: Intent, path: str, removed: Remove) -> Iterator[Reason]:
    if path in mine.removed_paths or path in mine.row_deletions:
        yield ConcurrentDeleteDeleteException, f"it removed {removed.path}, from which this write removes rows too"
    elif removed.data_change and not mine.is_exact and (reads := _reads(mine, removed)) and reads.are_in(removed, None):
        yield ConcurrentDeleteReadException, f"it removed {removed.path}, from which this write read rows (this write read {reads})"


def _about_added(mine: Intent, added: Add) -> Iterator[Reason]:
    # rows that were only moved are not new
    if added.data_change and (reads := _reads(mine, added)) and reads.are_in(added, None):
        yield (
            ConcurrentAppendException,
            f"it added {added.path}, from which this write would have read rows (this write read {reads})",
        )


def _about_vector(mine: Intent, path: str, removed: Remove, added: Add, deleted: Callable[[FileAction], RowIndexes]) -> Iterator[Reason]:
    """A file with a new deletion vector: rows were deleted or restored. Statistics come from the add, because a remove may lack them."""
    if removed.deletion_vector == added.deletion_vector:
        return  # only its statistics or tags changed
    if path in mine.removed_paths:
        yield ConcurrentDeleteDeleteException, f"it deleted rows of {removed.path}, which this write removes"
        return
    deletions, reads = mine.row_deletions.get(path), _reads(mine, added)
    if deletions is None and reads is None:
        return
    before, after = deleted(removed), deleted(added)
    gone, back = after - before, before - after
    if deletions is not None and (both := deletions & gone):
        detail = f"it deleted {len(both)} of the {len(deletions)} rows of {removed.path} that this write deletes, including row {both[0]}"
        yield ConcurrentDeleteDeleteException, detail
    if reads is not None and gone and not mine.is_exact and reads.are_in(added, gone):
        yield ConcurrentDeleteReadException, f"it deleted rows of {removed.path} that this write read (this write read {reads})"
    if reads is not None and back and reads.are_in(added, back):
        yield (
            ConcurrentAppendException,
            f"it restored rows of {added.path} that this write would have read (this write read {reads})",
        )


def _reads(mine: Intent, file: FileAction) -> Reads | None:
    """What this transaction read, if the file may contain such rows."""
    if mine.isolation is Isolation.SNAPSHOT or mine.reads is None or not mine.reads.may_be_in(file):
        return None
    return mine.reads


# Features that say nothing about what commits contain that do not use them.
_WITHOUT_RULES = frozenset({"domainMetadata"})


def _makes_no_rule(before: Protocol, after: Protocol) -> bool:
    """Whether a change of the protocol leaves everything legal that was planned before it."""
    had, has = supported_features(before), supported_features(after)
    same_readers = (before.reader_version, before.reader_features) == (after.reader_version, after.reader_features)
    return same_readers and had <= has and has - had <= _WITHOUT_RULES


# Properties whose change does not affect writes that were planned before it. Those of other names than `delta.` never do.
_HARMLESS = frozenset(
    known.name
    for known in (
        properties.CHECKPOINT_INTERVAL,
        properties.CHECKPOINT_POLICY,
        properties.CHECKPOINT_RETENTION,
        properties.WRITE_STATS_AS_JSON,
        properties.WRITE_STATS_AS_STRUCT,
        properties.NUM_INDEXED_COLUMNS,
        properties.STATS_COLUMNS,
        properties.STRING_PREFIX_LENGTH,
        properties.DELETED_FILE_RETENTION,
        properties.DROP_FEATURE_RETENTION,
        properties.LOG_RETENTION,
        properties.TXN_RETENTION,
        properties.ENABLE_EXPIRED_LOG_CLEANUP,
        properties.PARQUET_COMPRESSION,
        properties.PARQUET_FORMAT_VERSION,
        properties.RANDOMIZE_FILE_PREFIXES,
        properties.RANDOM_PREFIX_LENGTH,
        properties.AUTO_COMPACT,
        properties.AUTO_OPTIMIZE,
        properties.OPTIMIZE_WRITE,
        properties.TARGET_FILE_SIZE,
    )
)


def _what_matters(mine: Intent, after: Metadata) -> str:
    """Which metadata changes conflict with a write; "" if none do.

    Comments, user-defined properties and retentions do not conflict, nor do high-water marks if the write generates no identity values.
    """
    before = mine.metadata
    if before is None and mine.minted:
        return f"the table's metadata, and this write generated values for the identity column {', '.join(mine.minted)}"
    if before is None:
        return "the table's metadata, which this write changes too"
    if before.id != after.id:
        return "the table itself: it was replaced"
    parts = {
        "the schema": _schemas(before, after),
        "the partitioning": (before.partition_columns, after.partition_columns),
        "the format": (before.format, after.format),
    }
    changed = [name for name, (old, new) in parts.items() if old != new]
    names = sorted({*before.configuration, *after.configuration})
    changed += [
        name
        for name in names
        if name.startswith(properties.PREFIX) and name not in _HARMLESS and before.configuration.get(name) != after.configuration.get(name)
    ]
    return ", ".join(changed)


def _schemas(before: Metadata, after: Metadata) -> tuple[Any, Any]:
    """Both schemas without the high-water marks of identity columns, for comparison."""
    if before.schema_string == after.schema_string:
        return None, None
    return without_high_water_marks(before.schema_string), without_high_water_marks(after.schema_string)
