"""Scans leave out files by the keys of a join's other side, which are known when the query runs.

When a query is planned, `prunings` chooses the scans and the keys; `join_rules` says which are possible, this module
which are worth it. When it runs, Spark finds the keys: in the broadcast of the join, or by a query of its own.
`ordinals_without` then tells which files have none of them, by the data skipping of all queries.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.types.names import dotted, visible
from tahoe.protocol.types.predicate import Column, In, IsNull, Or, Predicate
from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.table_cache import scan_of
from tahoe.spark.reading.answers import are_trusted
from tahoe.spark.reading.filters import column_of
from tahoe.spark.reading.join_rules import (
    OTHER,
    Side,
    are_comparable,
    is_fixed,
    is_selective,
    may_be_broadcast,
    may_lack,
    node_of,
    passes,
    step_of,
)
from tahoe.spark.reading.scan import FilesRequest, Selection, file_ordinals, source_of
from tahoe.table.reading.keys import share_of_files
from tahoe.table.reading.scan import Scan, may_match

# A single value is expected in no larger share of the files.
SHARE_MAX = 0.5

# With fewer bytes to leave out, a look at the keys of a broadcast takes longer than the scan.
SAVED_BYTES_MIN = 1 << 20

# With fewer bytes to leave out, a query for the keys takes longer than the scan.
SAVED_BY_QUERY_BYTES_MIN = 32 << 20

# A query for the keys reads at most this share of the bytes that may be left out.
QUERY_SHARE_MAX = 0.1

# A side without a filter probably has all keys, unless it is so small.
UNFILTERED_BYTES_MAX = 1 << 20

# If Spark estimates a side at no more than this, all of its keys may be collected in the driver.
COLLECTED_BYTES_MAX = 10 << 20

# More keys are not looked up: it would take longer than reading most files.
KEYS_MAX = 100_000

# How Spark finds keys: in the broadcast of the join only; there or else by the same query; by a query with a limit.
Source: TypeAlias = Literal["broadcast", "either", "own"]


def are_wanted(gateway: Gateway) -> bool:
    """Whether the session allows scans to leave out files by the keys of joins."""
    conf = gateway.spark.conf
    return are_trusted(gateway) and setting_names.PRUNE_JOINS.of(conf) and setting_names.PRUNES_BY_JOINS.of(conf)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The column of a table that has the keys of a join. `is_null_safe`: null is a key too."""

    path: tuple[str, ...]
    is_null_safe: bool

    def encode(self) -> str:
        return json.dumps([*self.path, self.is_null_safe])

    @staticmethod
    def decode(text: str) -> KeyColumn:
        *path, is_null_safe = json.loads(text)
        return KeyColumn(tuple(path), bool(is_null_safe))


# --- planning


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A scan that may leave out files.

    Attributes:
        key, end: the numbers of the key and of the scan in what Java tells.
        share: of the files that may have a single value of the key.
    """

    key: int
    side: Side
    end: int
    key_column: KeyColumn
    share: float
    size_bytes: int

    @property
    def saved_bytes(self) -> float:
        """What may be left out at most."""
        return self.size_bytes * (1 - self.share)


def prunings(gateway: Gateway, joins_json: str) -> str:
    """The scans that leave out files, a line for each: the numbers of the join and the key, the side and the number of
    the scan, where the keys are found, the encoded `KeyColumn`, the column's name and `KEYS_MAX`, separated by NUL. A
    join has lines of one key only, first those of the side that does not have the keys.

    Args:
        joins_json: the joins of a query, as `delta.Joins` describes them in JSON.
    """
    if not are_wanted(gateway):
        return ""
    broadcast_bytes = _broadcast_bytes(gateway)
    lines = []
    for number, join in enumerate(json.loads(joins_json)):
        for c, source in _best_scans(gateway, join, broadcast_bytes):
            column, name = c.key_column.encode(), visible(dotted(c.key_column.path))
            fields = (number, c.key, c.side, c.end, source, column, name, KEYS_MAX)
            lines.append("\0".join(map(str, fields)))
    return "\n".join(lines)


def _broadcast_bytes(gateway: Gateway) -> int:
    """How large a side may be for Spark to broadcast it by its estimate."""
    return int(gateway.session.sessionState().conf().autoBroadcastJoinThreshold())


def _best_scans(gateway: Gateway, join: Mapping[str, Any], broadcast_bytes: int) -> Sequence[tuple[_Candidate, Source]]:
    """The scans of a join that leave out files by one key, with where it is found.

    A side whose keys come from a query of its own has only rows with these keys, or null: its second reading leaves out
    files, too.
    """
    scans = [
        (c, source)
        for side in OTHER
        for c in _prunable(gateway, join, side)
        if (source := _source(join, c, broadcast_bytes))
    ]
    if not scans:
        return []
    best = max((c for c, _ in scans), key=lambda c: c.saved_bytes)
    best_scans = [(c, source) for c, source in scans if (c.side, c.key) == (best.side, best.key)]
    if best_scans[0][1] != "own":
        return best_scans
    again = _candidates(gateway, join["keys"][best.key], best.key, OTHER[best.side], is_null_safe=True)
    return [*best_scans, *((c, "own") for c in again if c.saved_bytes >= SAVED_BYTES_MIN)]


def _prunable(gateway: Gateway, join: Mapping[str, Any], side: Side) -> Iterator[_Candidate]:
    """The scans of a side that may leave out files by the keys of the other side."""
    nodes = [node_of(node) for node in join[OTHER[side]]["nodes"]]
    if may_lack(join["type"], side) and join["deterministic"] and is_fixed(nodes):
        for number, key in enumerate(join["keys"]):
            yield from _candidates(gateway, key, number, side, is_null_safe=key["null_safe"])


def _candidates(
    gateway: Gateway, key: Mapping[str, Any], number: int, side: Side, *, is_null_safe: bool
) -> Iterator[_Candidate]:
    """The scans of a side that have a column with the values of a key, in fewer files than all."""
    for end, scan_node in enumerate(key[side]):
        if not (passes([step_of(step) for step in scan_node["steps"]]) and are_comparable(scan_node["types"])):
            continue
        [column] = json.loads(scan_node["column"]) or [None]
        path = None if column is None else column_of(column, dict(Selection.decode(scan_node["selection"]).names))
        scan = None if path is None else _scan(gateway, scan_node)
        if path is None or scan is None:
            continue
        share = share_of_files(scan, path)
        if share <= SHARE_MAX:
            yield _Candidate(number, side, end, KeyColumn(path, is_null_safe), share, scan.size_bytes)


def _scan(gateway: Gateway, scan_node: Mapping[str, Any]) -> Scan | None:
    """The planned scan of a table; None if it may not leave out files: a command's, one of a change feed, one of a few
    files of many.
    """
    selection = Selection.decode(scan_node["selection"])
    if selection.within is not None or selection.changes is not None:
        return None
    request = FilesRequest(scan_node["table"], scan_node["metadata"], scan_node["version"], scan_node["selection"], ())
    snapshot = source_of(gateway, request, selection)
    return scan_of(snapshot, selection.predicate, None, selection.purpose) if snapshot.live.is_listed else None


def _source(join: Mapping[str, Any], candidate: _Candidate, broadcast_bytes: int) -> Source | None:
    """Where the keys of a join are found; None if a scan is hardly faster without the files that do not have them."""
    other: Side = OTHER[candidate.side]
    nodes, size_bytes = [node_of(node) for node in join[other]["nodes"]], int(join[other]["bytes"])
    saved_bytes = candidate.saved_bytes
    if not is_selective(nodes) and size_bytes > min(UNFILTERED_BYTES_MAX, saved_bytes * QUERY_SHARE_MAX):
        return None
    is_queried = saved_bytes >= SAVED_BY_QUERY_BYTES_MIN and size_bytes <= saved_bytes * QUERY_SHARE_MAX
    if size_bytes <= broadcast_bytes and may_be_broadcast(join["type"], other) and saved_bytes >= SAVED_BYTES_MIN:
        return "either" if is_queried and size_bytes <= COLLECTED_BYTES_MAX else "broadcast"
    return None if not is_queried else "either" if size_bytes <= COLLECTED_BYTES_MAX else "own"


# --- execution


def ordinals_without(gateway: Gateway, request: FilesRequest, column: str, keys: bytes) -> bytes:
    """The places (`scan.FILE_ORDINAL`) of the files of a scan that have none of the keys, ascending, as bytes of longs.

    Args:
        request: the scan, without columns.
        column: the encoded `KeyColumn`.
        keys: an Arrow stream of one column.
    """
    selection = Selection.decode(request.selection or "")
    snapshot = source_of(gateway, request, selection)
    predicate = _predicate(KeyColumn.decode(column), pa.ipc.open_stream(io.BytesIO(keys)).read_all()["key"])
    if predicate is None or not snapshot.live.is_listed:
        return b""
    scan = scan_of(snapshot, selection.predicate, selection.within, selection.purpose)
    mask = may_match(scan, predicate)
    without = scan.file_numbers.filter(pc.invert(mask)) if mask is not None else pa.array([], pa.int64())
    return np.asarray(file_ordinals(snapshot, without)).astype("<i8").tobytes()


def _predicate(column: KeyColumn, keys: pa.ChunkedArray) -> Predicate | None:
    """What is true for all rows with one of the keys; None if Python cannot hold one of them."""
    try:
        values = tuple(pc.unique(keys.drop_null()).to_pylist())
    except (OverflowError, ValueError):  # for example a date after the year 9999
        return None
    members = In(Column(column.path), values)
    return Or((members, IsNull(Column(column.path)))) if column.is_null_safe else members
