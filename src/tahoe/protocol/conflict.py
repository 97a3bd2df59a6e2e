"""Whether a commit that was won by somebody else matters to mine.

Paper §3 and the consistency model: a transaction may be committed after a winner if, had it run after the winner, it would have read
and done the same. A pure function of two values: what my transaction read and does, and what the winner did; what only a look at a file
can tell, it asks for. It is finer than the reference, for which every added file of a winner matters unless partition values alone
exclude it, every second deletion vector of a file, and every change of metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
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

RowIndexes: TypeAlias = BitMap64
"""Rows of one file, by their positions in it."""


class Isolation(Enum):
    """How far a transaction must seem to have run alone.

    Paper §3: all writers are serialisable. `delta.isolationLevel` may let appends that read nothing pass; a commit that changes no data
    needs to know of nothing but the files that it rewrites.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


class Reads(Interface):
    """Which rows a transaction has read, or would have read had they been there. As text it is for people."""

    def may_be_in(self, file: FileAction) -> bool:
        """Whether a file may hold such a row, by its partition values and statistics."""

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool:
        """Whether one of these rows of a file, of all that live in it if None, is such a row. True where that cannot be found out."""


@dataclass(frozen=True, slots=True)
class FilesRead:
    """Every row of the files that a test of the log's word picks."""

    test: Callable[[FileAction], bool] = lambda _: True
    text: str = "the whole table"

    def may_be_in(self, file: FileAction) -> bool:
        return self.test(file)

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool:  # noqa: ARG002 - nothing finer is known
        return True

    def __str__(self) -> str:
        return self.text


EVERYTHING = FilesRead()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a transaction read and means to do.

    Attributes:
        reads: the rows that it read; None for a blind append.
        is_exact: every row that it read is among those that it deletes, so that a row that it does not delete was not read.
        is_alone: it says something of every file of the table, or of the version that it makes, so that no other commit may come first.
        removed_paths: canonical paths of the files that it removes.
        marked: the rows that it deletes through vectors, by the canonical paths of their files.
        app_ids: the applications whose recorded versions it relies on.
        domains: the domains that it changes.
        metadata: the table's, as the work was planned with it; None where it changes metadata or protocol itself, or makes the table.
        minted: the identity columns that it gave numbers to, beyond the marks that it found.
        added: the files that it adds. Their statistics must be of the columns by which the table is clustered by then.
    """

    reads: Reads | None = None
    is_exact: bool = False
    is_alone: bool = False
    removed_paths: Set[str] = field(default_factory=frozenset)
    marked: Mapping[str, RowIndexes] = field(default_factory=dict)
    app_ids: Set[str] = field(default_factory=frozenset)
    domains: Set[str] = field(default_factory=frozenset)
    metadata: Metadata | None = None
    minted: tuple[str, ...] = ()
    added: tuple[Add, ...] = ()
    isolation: Isolation = Isolation.SERIALIZABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A commit that was there first."""

    version: int
    actions: tuple[Action, ...]

    @property
    def info(self) -> CommitInfo:
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo({}))

    @property
    def is_blind_append(self) -> bool:
        return self.info.is_blind_append and not any(isinstance(a, Remove) for a in self.actions)

    def files(self, canonical: Callable[[str], str]) -> dict[str, tuple[Remove | None, Add | None]]:
        """What was done to each file, by canonical path. One that is removed and added has another deletion vector now."""
        removes = {canonical(a.path): a for a in self.actions if isinstance(a, Remove)}
        adds = {canonical(a.path): a for a in self.actions if isinstance(a, Add)}
        return {path: (removes.get(path), adds.get(path)) for path in {**removes, **adds}}

    def __str__(self) -> str:
        fields = self.info.fields
        operation, timestamp, user = fields.get("operation", "an unknown operation"), fields.get("timestamp"), fields.get("userName")
        when = f" at {datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec='seconds')}" if isinstance(timestamp, int) else ""
        return f"version {self.version}: {operation}{when}{f' by {user}' if user else ''}"


Reason: TypeAlias = tuple[type[DeltaConcurrentModificationException], str]


def find_conflict(
    mine: Intent, winner: Winner, canonical: Callable[[str], str], deleted: Callable[[FileAction], RowIndexes], *, table: str
) -> DeltaConcurrentModificationException | None:
    """The reason why mine cannot be committed after the winner, or None.

    Args:
        canonical: the one spelling of a file's path.
        deleted: the rows that a file's deletion vector marks; asked only for files of which both change the vector, or mine has read.
    """
    reasons = chain(_table_reasons(mine, winner), _file_reasons(mine, winner, canonical, deleted), _reason_of_all(mine))
    found = next(reasons, None)
    return None if found is None else found[0](table=table, winner=str(winner), detail=found[1])


def _table_reasons(mine: Intent, winner: Winner) -> Iterator[Reason]:
    for action in winner.actions:
        match action:
            case Protocol():
                yield ProtocolChangedException, "it changed the table's protocol"
            case Metadata() if changed := _what_matters(mine, action):
                yield MetadataChangedException, f"it changed {changed}"
            case Txn() if action.app_id in mine.app_ids:
                yield ConcurrentTransactionException, f"it recorded a version for the same application {action.app_id}"
            case DomainMetadata() if action.domain in mine.domains:
                yield ConcurrentTransactionException, f"it changed the domain {action.domain}, which this write changes too"
            case DomainMetadata(domain=clustering.DOMAIN) if columns := clustering.columns_without_statistics(action, mine.added):
                detail = f"it clustered the table by {', '.join(columns)}, of which files of this write have no statistics"
                yield MetadataChangedException, detail
            case _:
                pass


def _file_reasons(
    mine: Intent, winner: Winner, canonical: Callable[[str], str], deleted: Callable[[FileAction], RowIndexes]
) -> Iterator[Reason]:
    for path, (removed, added) in winner.files(canonical).items():
        if mine.is_alone:
            yield ConcurrentAppendException, f"it added or removed {path}, and this write speaks of every file of the table"
        elif removed is not None and added is not None:
            yield from _about_vector(mine, path, removed, added, deleted)
        elif removed is not None:
            yield from _about_removed(mine, path, removed)
        elif added is not None and _sees_adds(mine, winner):
            yield from _about_added(mine, added)


def _reason_of_all(mine: Intent) -> Iterator[Reason]:
    if mine.is_alone:
        yield ConcurrentWriteException, "this write depends on the version that it makes"


def _sees_adds(mine: Intent, winner: Winner) -> bool:
    # files of the old schema or partitioning would be unreadable behind a change of it
    may_pass = mine.isolation is Isolation.WRITE_SERIALIZABLE and mine.metadata is not None
    return not (may_pass and winner.is_blind_append)


def _about_removed(mine: Intent, path: str, removed: Remove) -> Iterator[Reason]:
    if path in mine.removed_paths or path in mine.marked:
        yield ConcurrentDeleteDeleteException, f"it removed {removed.path}, which this write removes rows of too"
    elif removed.data_change and not mine.is_exact and (reads := _reads(mine, removed)) and reads.are_in(removed, None):
        yield ConcurrentDeleteReadException, f"it removed {removed.path}, of which this write has read rows (it read {reads})"


def _about_added(mine: Intent, added: Add) -> Iterator[Reason]:
    # rows that were only moved are no news
    if added.data_change and (reads := _reads(mine, added)) and reads.are_in(added, None):
        yield ConcurrentAppendException, f"it added {added.path}, of which this write would have had to read rows (it read {reads})"


def _about_vector(mine: Intent, path: str, removed: Remove, added: Add, deleted: Callable[[FileAction], RowIndexes]) -> Iterator[Reason]:
    """The same file with another vector: rows of it are gone, or back. What the log says of it stands in the add: a remove may lack it."""
    if removed.deletion_vector == added.deletion_vector:
        return  # its statistics or tags are other ones
    if path in mine.removed_paths:
        yield ConcurrentDeleteDeleteException, f"it deleted rows of {removed.path}, which this write removes"
        return
    marked, reads = mine.marked.get(path), _reads(mine, added)
    if marked is None and reads is None:
        return
    before, after = deleted(removed), deleted(added)
    gone, back = after - before, before - after
    if marked is not None and (both := marked & gone):
        detail = f"it deleted {len(both)} of the {len(marked)} rows of {removed.path} that this write deletes, row {both[0]} among them"
        yield ConcurrentDeleteDeleteException, detail
    if reads is not None and gone and not mine.is_exact and reads.are_in(added, gone):
        yield ConcurrentDeleteReadException, f"it deleted rows of {removed.path} that this write has read (it read {reads})"
    if reads is not None and back and reads.are_in(added, back):
        yield ConcurrentAppendException, f"it restored rows of {added.path} that this write would have had to read (it read {reads})"


def _reads(mine: Intent, file: FileAction) -> Reads | None:
    """What mine has read, where the file may hold such rows."""
    if mine.isolation is Isolation.SNAPSHOT or mine.reads is None or not mine.reads.may_be_in(file):
        return None
    return mine.reads


# Properties that change nothing of what a write that was planned before them did.
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
        properties.LOG_RETENTION,
        properties.TXN_RETENTION,
        properties.ENABLE_EXPIRED_LOG_CLEANUP,
        properties.PARQUET_COMPRESSION,
        properties.PARQUET_FORMAT_VERSION,
        properties.RANDOMIZE_FILE_PREFIXES,
        properties.RANDOM_PREFIX_LENGTH,
    )
)


def _what_matters(mine: Intent, after: Metadata) -> str:
    """What of a table's metadata changed and could matter to a write; nothing for a comment, a user's own property, a retention, or numbers
    that were given to identity columns, as far as the write gives none itself.
    """
    before = mine.metadata
    if before is None and mine.minted:
        return f"the table's metadata, which holds the numbers that this write gave to the identity column {', '.join(mine.minted)}"
    if before is None:
        return "the table's metadata, as this write does"
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
    """Both schemas, to be compared without the marks of identity columns."""
    if before.schema_string == after.schema_string:
        return None, None
    return without_high_water_marks(before.schema_string), without_high_water_marks(after.schema_string)
