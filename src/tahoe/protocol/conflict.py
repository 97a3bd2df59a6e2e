"""Whether a commit that was won by somebody else matters to mine.

Paper §3 and the consistency model: a transaction may be committed after a winner if, had it run after the winner, it would have read
and done the same. A pure function of two values: what my transaction read and does, and what the winner did. It is finer than the
reference, for which every added file of a winner matters unless partition values alone exclude it, and every change of metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from tahoe.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tahoe.protocol import properties
from tahoe.protocol.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn


class Isolation(Enum):
    """How far a transaction must seem to have run alone.

    Paper §3: all writers are serialisable. `delta.isolationLevel` may let appends that read nothing pass; a commit that changes no data
    needs to know of nothing but the files that it rewrites.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a transaction read and means to do.

    Attributes:
        reads: whether a file with these partition values and statistics could have changed what was read; None for a blind append.
        read_paths: canonical paths of the files that were read.
        removed_paths: canonical paths of the files that it removes.
        app_ids: the applications whose recorded versions it relies on.
        domains: the domains that it changes.
        metadata: the table's, as the work was planned with it; None where it changes the metadata itself, or makes the table.
    """

    reads: Callable[[Add | Remove], bool] | None = None
    read_paths: Set[str] = field(default_factory=frozenset)
    removed_paths: Set[str] = field(default_factory=frozenset)
    app_ids: Set[str] = field(default_factory=frozenset)
    domains: Set[str] = field(default_factory=frozenset)
    metadata: Metadata | None = None
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

    def __str__(self) -> str:
        fields = self.info.fields
        operation, timestamp, user = fields.get("operation", "an unknown operation"), fields.get("timestamp"), fields.get("userName")
        when = f" at {datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec='seconds')}" if isinstance(timestamp, int) else ""
        return f"version {self.version}: {operation}{when}{f' by {user}' if user else ''}"


def find_conflict(
    mine: Intent, winner: Winner, canonical: Callable[[str], str], *, table: str
) -> DeltaConcurrentModificationException | None:
    """The reason why mine cannot be committed after the winner, or None."""
    kind, detail = _first(_reasons(mine, winner, canonical))
    return None if kind is None else kind(table=table, winner=str(winner), detail=detail)


def _first(
    reasons: Iterable[tuple[type[DeltaConcurrentModificationException], str]],
) -> tuple[type[DeltaConcurrentModificationException] | None, str]:
    return next(iter(reasons), (None, ""))


def _reasons(
    mine: Intent, winner: Winner, canonical: Callable[[str], str]
) -> Iterable[tuple[type[DeltaConcurrentModificationException], str]]:
    reads = None if mine.isolation is Isolation.SNAPSHOT else mine.reads
    # files of the old schema or partitioning would be unreadable behind a change of it
    may_pass = mine.isolation is Isolation.WRITE_SERIALIZABLE and mine.metadata is not None
    sees_adds = reads is not None and not (may_pass and winner.is_blind_append)
    for action in winner.actions:
        match action:
            case Protocol():
                yield ProtocolChangedException, "it changed the table's protocol"
            case Metadata() if changed := _what_matters(mine.metadata, action):
                yield MetadataChangedException, f"it changed {changed}"
            case Txn() if action.app_id in mine.app_ids:
                yield ConcurrentTransactionException, f"it recorded a version for the same application {action.app_id}"
            case DomainMetadata() if action.domain in mine.domains:
                yield ConcurrentTransactionException, f"it changed the domain {action.domain}, which this write changes too"
            case Remove() if canonical(action.path) in mine.removed_paths:
                yield ConcurrentDeleteDeleteException, f"it removed {action.path}, which this write removes too"
            case Remove() if not action.data_change:
                pass  # its rows are in another file now
            case Remove() if canonical(action.path) in mine.read_paths or (reads is not None and reads(action)):
                yield ConcurrentDeleteReadException, f"it removed {action.path}, which this write has read"
            case Add() if sees_adds and action.data_change and reads is not None and reads(action):
                yield ConcurrentAppendException, f"it added {action.path}, which this write would have had to read"
            case _:
                pass


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


def _what_matters(before: Metadata | None, after: Metadata) -> str:
    """What of a table's metadata changed and could matter to a write; nothing for a comment, a user's own property, a retention."""
    if before is None:
        return "the table's metadata, as this write does"
    if before.id != after.id:
        return "the table itself: it was replaced"
    parts = {
        "the schema": (before.schema_string, after.schema_string),
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
