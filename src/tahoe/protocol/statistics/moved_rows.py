"""Where a compaction put the rows of the files that it removed.

A compaction copies the live rows of files in their order, so that a row has a place in the new file: the number of rows
that were copied before it. Its commit records what it copied in `commitInfo`, as `movedRows`. With that, row deletions
that were planned on the old files are rebased onto the new ones. `commitInfo` is free JSON and not part of checkpoints
(protocol: "Commit Provenance Information").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from pyroaring import BitMap64

from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVectorDescriptor,
    Remove,
    decode_deletion_vector,
    encode_deletion_vector,
)
from tahoe.protocol.statistics.stats import num_records_of

FIELD = "movedRows"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRows:
    """Consecutive live rows of a file that were copied in their order.

    Attributes:
        path: of the source file, as in the log.
        vector: the deletion vector with which the source was read; None if it had none.
        first: how many live rows of the source come before these.
        count: the number of rows.
    """

    path: str
    vector: DeletionVectorDescriptor | None = None
    first: int = 0
    count: int


MovedRows: TypeAlias = Mapping[str, Sequence[CopiedRows]]
"""The rows of new files, in their order, by the paths of the files as in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRange:
    """Where copied rows are: in which new file, by its path as in the log, and how many of its rows come before
    them.
    """

    target: str
    start: int
    rows: CopiedRows


Places: TypeAlias = Mapping[str, Sequence[CopiedRange]]
"""Where the rows of removed files are, by the canonical paths of these files."""


def to_json(moved: MovedRows) -> dict[str, list[dict[str, Any]]]:
    """The value of `movedRows`."""
    return {target: [_range_to_json(rows) for rows in copied] for target, copied in moved.items()}


def _range_to_json(rows: CopiedRows) -> dict[str, Any]:
    vector = {} if rows.vector is None else {"vector": encode_deletion_vector(rows.vector)}
    return {"path": rows.path, **vector, "first": rows.first, "count": rows.count}


def from_json(value: Any) -> MovedRows:
    """Parse a value of `movedRows`.

    Raises:
        ValueError: it is not one.
    """
    if not isinstance(value, dict) or not all(isinstance(copied, list) for copied in value.values()):
        raise ValueError("expected a map of lists")
    return {target: tuple(map(_range_from_json, copied)) for target, copied in value.items()}


def _range_from_json(value: Any) -> CopiedRows:
    match value:
        case {"path": str(path), "first": int(first), "count": int(count)} if first >= 0 and count >= 0:
            return CopiedRows(path=path, vector=decode_deletion_vector(value.get("vector")), first=first, count=count)
        case _:
            raise ValueError(f"expected path, first and count, found {value}")


def places_of(moved: MovedRows, canonical: Callable[[str], str]) -> dict[str, list[CopiedRange]]:
    """Where the rows of each source are."""
    found: dict[str, list[CopiedRange]] = {}
    for target, copied in moved.items():
        start = 0
        for rows in copied:
            found.setdefault(canonical(rows.path), []).append(CopiedRange(target=target, start=start, rows=rows))
            start += rows.count
    return found


def recorded_places(actions: Iterable[Action], canonical: Callable[[str], str]) -> Places:
    """Where a commit says that it moved rows; empty if it does not say it, or if it says what does not fit its other
    actions.

    Only a commit that changes no rows moves them. Its new files have as many rows as it says, and no row of a source is
    in two places.
    """
    known = list(actions)
    info = next((a for a in known if isinstance(a, CommitInfo)), CommitInfo({}))
    files = [a for a in known if isinstance(a, Add | Remove)]
    if FIELD not in info.fields or any(a.data_change for a in files):
        return {}
    try:
        moved = from_json(info.fields[FIELD])
    except ValueError:
        return {}
    records = {a.path: num_records_of(a.stats) for a in files if isinstance(a, Add)}
    if any(records.get(target) != sum(rows.count for rows in copied) for target, copied in moved.items()):
        return {}
    places = places_of(moved, canonical)
    return places if all(map(_is_each_row_once, places.values())) else {}


def _is_each_row_once(places: Sequence[CopiedRange]) -> bool:
    ranges = sorted((place.rows for place in places), key=lambda rows: rows.first)
    return all(a.vector == b.vector and a.first + a.count <= b.first for a, b in pairwise(ranges))


def new_places(places: Sequence[CopiedRange], rows: BitMap64, dead: BitMap64) -> dict[str, BitMap64]:
    """The places of rows of one source.

    Args:
        places: of the source.
        rows: row indexes in the source.
        dead: the rows of the source that were deleted when it was copied.

    Returns:
        row indexes in the new files, by the paths of these files.

    Raises:
        ValueError: one of the rows was not copied.
    """
    found: dict[str, BitMap64] = {}
    for row in rows:
        rank = row - dead.rank(row)  # the rank of a dead row is that of the live row before it: excluded below
        place = next((p for p in places if p.rows.first <= rank < p.rows.first + p.rows.count), None)
        if place is None or row in dead:
            raise ValueError(f"row {row} was not copied")
        found.setdefault(place.target, BitMap64()).add(place.start + rank - place.rows.first)
    return found


def all_places(places: Sequence[CopiedRange]) -> dict[str, BitMap64]:
    """The places of all rows of one source that were copied."""
    found: dict[str, BitMap64] = {}
    for place in places:
        found.setdefault(place.target, BitMap64()).add_range(place.start, place.start + place.rows.count)
    return found
