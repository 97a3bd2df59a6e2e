"""Whether a commit that was won by somebody else matters to mine.

Paper §3 and the consistency model: a transaction may be committed after a winner if, had it run after the winner, it would have read
and done the same. A pure function of two values: what my transaction read and does, and what the winner did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tahoe.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tahoe.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Txn


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a transaction read and means to do.

    Attributes:
        reads: whether a file with these partition values and statistics could have changed what was read; None for a blind append.
        read_paths: canonical paths of the files that were read.
        removed_paths: canonical paths of the files that it removes.
        app_ids: the applications whose recorded versions it relies on.
    """

    reads: Callable[[Add | Remove], bool] | None = None
    read_paths: Set[str] = field(default_factory=frozenset)
    removed_paths: Set[str] = field(default_factory=frozenset)
    app_ids: Set[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A commit that was there first."""

    version: int
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        info = next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo({}))
        operation = info.fields.get("operation", "an unknown operation")
        timestamp = info.fields.get("timestamp")
        when = f" at {datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec='seconds')}" if isinstance(timestamp, int) else ""
        return f"version {self.version}: {operation}{when}"


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
    for action in winner.actions:
        match action:
            case Protocol():
                yield ProtocolChangedException, "it changed the table's protocol"
            case Metadata():
                yield MetadataChangedException, "it changed the table's schema, partitioning or properties"
            case Txn() if action.app_id in mine.app_ids:
                yield ConcurrentTransactionException, f"it recorded a version for the same application {action.app_id}"
            case Remove() if canonical(action.path) in mine.removed_paths:
                yield ConcurrentDeleteDeleteException, f"it removed {action.path}, which this write removes too"
            case Remove() if canonical(action.path) in mine.read_paths or (mine.reads is not None and mine.reads(action)):
                yield ConcurrentDeleteReadException, f"it removed {action.path}, which this write has read"
            case Add() if mine.reads is not None and action.data_change and mine.reads(action):
                yield ConcurrentAppendException, f"it added {action.path}, which this write would have had to read"
            case _:
                pass
