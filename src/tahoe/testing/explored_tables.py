"""The consistency model on the code that commits: operations on rows, what they do to a table, and the laws for what a
reader sees.

Rows are pairs of a key, by which a table may be partitioned, and a value; as in the model, equal rows are one. Files
hold their rows in their tags, so that nothing has to be read to know them; deletion vectors are real.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from unittest.mock import patch

from pyroaring import BitMap64

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.changes.conflict import EVERYTHING, FilesRead, Intent, Reads, RowIndexes
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    FileAction,
    Metadata,
    Protocol,
    Remove,
    encode_commit,
    remove_of,
)
from tahoe.protocol.statistics.moved_rows import CopiedRows
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.storage.env import Env, Store
from tahoe.storage.memory import MemoryStore
from tahoe.table.commit import row_deletions
from tahoe.table.commit.row_deletions import RowDeletion
from tahoe.table.commit.transaction import Transaction
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.testing.explorer import Acknowledge, Check, Explored, Place, Program, Writer, explore

Row: TypeAlias = tuple[str, str]
Rows: TypeAlias = frozenset[Row]

FEATURES = frozenset({"deletionVectors", "inCommitTimestamp", "rowTracking", "domainMetadata"})
PROTOCOL = Protocol(
    reader_version=3, writer_version=7, reader_features=frozenset({"deletionVectors"}), writer_features=FEATURES
)


@dataclass(frozen=True)
class Op:
    """One transaction of a writer.

    The model's: `insert` a row; `update` gives all rows of a key one value; `delete` takes them away; files are
    rewritten. Beyond it: `mark` and `remark` are delete and update through vectors; `overwrite` leaves nothing but one
    row; `clear` leaves nothing; `sort` makes one file of all, and `compact` records what it moved; `copy` gives the
    values of a key's rows to the key C, so that what it read decides what it writes.
    """

    kind: str
    key: str = "R"
    value: str = "1"

    def __str__(self) -> str:
        return f"{self.kind} {self.key} {self.value}"

    def apply(self, rows: Rows) -> Rows:
        others = frozenset(row for row in rows if row[0] != self.key)
        match self.kind:
            case "insert":
                return rows | {(self.key, self.value)}
            case "update" | "remark":
                return others | {(self.key, self.value)} if others != rows else rows
            case "delete" | "mark":
                return others
            case "overwrite":
                return frozenset({(self.key, self.value)})
            case "clear":
                return frozenset()
            case "copy":
                return rows | {("C", value) for key, value in rows if key == self.key}
            case _:
                return rows


@dataclass(frozen=True)
class KeyRead:
    """The rows of one key, by a look at the rows of a file."""

    key: str

    def may_be_in(self, file: FileAction) -> bool:  # noqa: ARG002  what is in it is decided by a look
        return True

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool:
        return any(row[0] == self.key for number, row in enumerate(_stored(file)) if rows is None or number in rows)


def program(ops: Sequence[Op], *, partitioned: bool) -> Program:
    def run(env: Env, acknowledge: Acknowledge) -> None:
        log = Log(env)
        for op in ops:
            name = env.new_id()
            try:
                version = _commit(log, op, name, partitioned=partitioned)
                if version is not None:
                    acknowledge(version, name)
            except DeltaConcurrentModificationException:
                pass  # the user would run it again

    return run


def _commit(log: Log, op: Op, name: str, *, partitioned: bool) -> int | None:
    base = load_snapshot(log)
    planned = _planned(base, op, name, partitioned=partitioned)
    if planned is None:
        return None
    actions, deletions, intent = planned
    return Transaction(
        log=log,
        base=base,
        actions=actions,
        deletions=deletions,
        moved=_moved(base, actions) if op.kind == "compact" else {},
        carries=op.kind != "sort",
        operation="TEST",
        intent=intent,
        parameters={"op": str(op), "name": name},
    ).commit()


def _planned(
    base: Snapshot, op: Op, name: str, *, partitioned: bool
) -> tuple[list[Action], dict[str, RowDeletion], Intent] | None:
    """What an operation does to the table that it sees; None where that is nothing."""
    files = {a.path: a for a in base.live.adds()}
    new = _file(name, [(op.key, op.value)], partitioned=partitioned)
    wanted = {"key": op.key}
    by_key: Reads = FilesRead(lambda file: file.partition_values == wanted) if partitioned else KeyRead(op.key)
    hits = {path: found for path, a in files.items() if (found := _live(base, a, op.key))}
    match op.kind:
        case "insert":
            return [new], {}, Intent()
        case "overwrite" | "clear":
            actions: list[Action] = [
                *(remove_of(a, 1) for a in files.values()),
                *([new] if op.kind == "overwrite" else []),
            ]
            return (actions, {}, Intent(reads=EVERYTHING, removed_paths=frozenset(files))) if actions else None
        case "compact" | "sort":
            return _compaction(base, files, name, partitioned=partitioned)
        case "mark" | "remark" if hits:
            deletions = {path: RowDeletion(file=files[path], rows=rows) for path, rows in hits.items()}
            return [new] if op.kind == "remark" else [], deletions, Intent(reads=by_key, is_exact=True)
        case "update" | "delete" if hits:
            kept = [row for path in hits for row in _rows_of(base, files[path]) if row[0] != op.key]
            again = [_file(f"{name}-kept", kept, partitioned=partitioned)] if kept else []
            actions = [*(remove_of(files[path], 1) for path in hits), *again, *([new] if op.kind == "update" else [])]
            return actions, {}, Intent(reads=by_key, is_exact=True, removed_paths=frozenset(hits))
        case "copy" if hits:
            copied = [("C", value) for path in hits for key, value in _rows_of(base, files[path]) if key == op.key]
            return [_file(name, copied, partitioned=partitioned)], {}, Intent(reads=by_key)
        case _:
            return None


def _compaction(
    base: Snapshot, files: Mapping[str, Add], name: str, *, partitioned: bool
) -> tuple[list[Action], dict[str, RowDeletion], Intent] | None:
    if len(files) < 2:
        return None
    removes = [remove_of(a, 1).replace(data_change=False) for a in files.values()]
    rows = [row for a in _in_bin(files.values()) for row in _rows_of(base, a)]
    keys = sorted({row[0] for row in rows}) if partitioned else [""]
    parts = [
        _file(f"{name}-{key}", [row for row in rows if key in ("", row[0])], partitioned=partitioned) for key in keys
    ]
    adds = [part.replace(data_change=False) for part in parts]
    changed: list[Action] = [*removes, *adds]
    return changed, {}, Intent(reads=EVERYTHING, removed_paths=frozenset(files))


def _in_bin(files: Iterable[Add]) -> list[Add]:
    """The order in which a compaction writes the rows of files: another one than that of the snapshot and of the
    paths.
    """
    return sorted(files, key=lambda a: a.path, reverse=True)


def _moved(base: Snapshot, actions: Iterable[Action]) -> dict[str, list[CopiedRows]]:
    """What the files of a compaction consist of. A file of a partition has only rows of files of that partition."""
    live = {a.path: a for a in base.live.adds()}
    sources = _in_bin(live[a.path] for a in actions if isinstance(a, Remove))
    return {
        a.path: [
            CopiedRows(path=source.path, vector=source.deletion_vector, count=len(_rows_of(base, source)))
            for source in sources
            if source.partition_values == a.partition_values
        ]
        for a in actions
        if isinstance(a, Add)
    }


def _file(path: str, rows: Sequence[Row], *, partitioned: bool) -> Add:
    return Add(
        path=path,
        size_bytes=1,
        modification_time_ms=1,
        partition_values={"key": rows[0][0]} if partitioned and rows else {},
        tags={"rows": json.dumps(rows)},
        stats=json.dumps({"numRecords": len(rows)}),
    )


def _stored(file: FileAction) -> list[Row]:
    return [(key, value) for key, value in json.loads(str((file.tags or {})["rows"]))]


def _footer(_log: Log, file: Add, _version: int) -> int:
    """How many rows a file has."""
    return len(_stored(file))


def _live(base: Snapshot, file: Add, key: str) -> BitMap64:
    gone = deleted_rows(base.log, file)
    return BitMap64(number for number, row in enumerate(_stored(file)) if row[0] == key and number not in gone)


def _rows_of(base: Snapshot, file: Add) -> list[Row]:
    gone = deleted_rows(base.log, file)
    return [row for number, row in enumerate(_stored(file)) if number not in gone]


# --- running it

_NOW_MS = 1_700_000_000_000

_numbers = itertools.count()

START: tuple[Row, ...] = (("R", "1"),)


def run(
    programs: Sequence[Sequence[Op]],
    *,
    partitioned: bool = False,
    atomic: bool = True,
    upkeep: int = 0,
    deaths: int = 0,
    properties: Mapping[str, str] | None = None,
    start: Sequence[Row] = START,
    rows_per_file: int = 2,
    check: Check | None = None,
    place: Place | None = None,
) -> Explored:
    """Explore writers of a table that has some rows to begin with, two in a file, or one where it is partitioned."""
    metadata = Metadata(
        id="test",
        schema_string=Struct((Field(name="id", type=LONG),)).to_json(),
        partition_columns=("key",) if partitioned else (),
        configuration={
            "delta.rowTrackingSuspended": "true",
            "delta.enableDeletionVectors": "true",
            **(properties or {}),
        },
    )
    size = 1 if partitioned else rows_per_file
    groups = [start[at : at + size] for at in range(0, len(start), size)]
    files = [_file(f"first-{number}", rows, partitioned=partitioned) for number, rows in enumerate(groups)]
    told = {"op": "start", "name": "first"}
    info = CommitInfo({"inCommitTimestamp": 1, "operationParameters": told})
    first = encode_commit([info, PROTOCOL, metadata, *files])
    with patch.object(row_deletions, "stored_records", _footer):
        return explore(
            lambda store: store.put("_delta_log/00000000000000000000.json", first),
            [program(ops, partitioned=partitioned) for ops in programs],
            check or consistent,
            atomic=atomic,
            upkeep=upkeep,
            deaths=deaths,
            place=place or Place(new_store=_in_memory),
        )


def _in_memory() -> Store:
    return MemoryStore(f"memory://exploration-{next(_numbers)}", clock_ms=lambda: _NOW_MS)


# --- laws


@dataclass(frozen=True)
class History:
    """What a storage holds when all writers have ended: for each version its operation, its commit's name, and the rows
    that it shows.
    """

    log: Log
    ops: tuple[Op | None, ...]
    names: tuple[str, ...]
    shown: tuple[Rows, ...]


def _quiet_env(store: Store) -> Env:
    """The world of somebody who reads."""
    return Env(
        store=store,
        clock_ms=lambda: _NOW_MS,
        new_id=lambda: "",
        sleep=lambda _: None,
        random=lambda: 0.5,
        store_at=lambda _: store,
        background=lambda _: None,
    )


def history(store: Store) -> History:
    log = Log(_quiet_env(store))
    newest = load_snapshot(log, by_checksum=False).version
    ops, names, shown = [], [], []
    for version in range(newest + 1):
        info = log.commit_info(version)
        told = {} if info is None else info.fields["operationParameters"]
        ops.append(Op(*told["op"].split(" ")) if " " in told.get("op", "") else None)
        names.append(told.get("name", ""))
        snapshot = load_snapshot(log, version, by_checksum=False)
        shown.append(frozenset(row for a in snapshot.live.adds() for row in _rows_of(snapshot, a)))
    return History(log, tuple(ops), tuple(names), tuple(shown))


def _failed(found: History, writers: Sequence[Writer]) -> str | None:
    broken = next((writer.failure for writer in writers if writer.failure is not None), None)
    if broken is not None:
        return f"a writer failed: {broken!r}"
    lost = [
        pair
        for writer in writers
        for pair in writer.acknowledged
        if dict(enumerate(found.names)).get(pair[0]) != pair[1]
    ]
    return f"acknowledged and not there: {lost}" if lost else None


def consistent(store: Store, writers: Sequence[Writer]) -> str | None:
    """ConsistentRead: the rows that a version shows are those that its history gives, one operation after the other;
    all of it is there.
    """
    found = history(store)
    rows = found.shown[0]
    for version, op in enumerate(found.ops):
        rows = rows if op is None else op.apply(rows)
        if found.shown[version] != rows:
            return f"version {version} shows {sorted(found.shown[version])}, and its history gives {sorted(rows)}"
    return _failed(found, writers)


def each_row_once(store: Store, writers: Sequence[Writer]) -> str | None:
    """Beyond ConsistentRead, where no operation adds a row twice: no version has a row twice, and a compaction changes
    no data.
    """
    found = history(store)
    for version, op in enumerate(found.ops):
        snapshot = load_snapshot(found.log, version, by_checksum=False)
        rows = [row for a in snapshot.live.adds() for row in _rows_of(snapshot, a)]
        if len(rows) != len(set(rows)):
            return f"version {version} has {sorted(rows)}"
        files = [a for a in found.log.read_version(version) if isinstance(a, Add | Remove)]
        if op is not None and op.kind == "compact" and any(a.data_change for a in files):
            return f"version {version} is a compaction and changes data: {files}"
    return consistent(store, writers)


def all_done(store: Store, writers: Sequence[Writer]) -> str | None:
    """Nobody had to give up because of a conflict."""
    idle = [writer.name for writer in writers if not writer.acknowledged]
    return f"{idle} did nothing" if idle else each_row_once(store, writers)


def in_some_order(store: Store, writers: Sequence[Writer]) -> str | None:
    """What `WriteSerializable` promises: blind appends may come later than their version, everything else is in
    order.
    """
    found = history(store)
    ops = [op for op in found.ops if op is not None]
    for order in itertools.permutations(range(len(ops))):
        others = [number for number in order if ops[number].kind != "insert"]
        late = all(order.index(n) >= n for n in order if ops[n].kind == "insert")
        if others == sorted(others) and late:
            rows = found.shown[0]
            for number in order:
                rows = ops[number].apply(rows)
            if rows == found.shown[-1]:
                return _failed(found, writers)
    return f"{sorted(found.shown[-1])} is no outcome of {[str(op) for op in ops]}"


def stamps_rise(store: Store, writers: Sequence[Writer]) -> str | None:
    """In-commit timestamps rise, and no row id is given twice."""
    found = history(store)
    infos = [found.log.commit_info(version) for version in range(len(found.ops))]
    stamps = [
        -1 if info is None or info.in_commit_timestamp_ms is None else info.in_commit_timestamp_ms for info in infos
    ]
    if stamps != sorted(set(stamps)):
        return f"in-commit timestamps are {stamps}"
    adds = load_snapshot(found.log, by_checksum=False).live.adds()
    given = [a.base_row_id for a in adds if a.base_row_id is not None]  # each of these files has one row
    return f"row ids are {given}" if len(given) != len(set(given)) else _failed(found, writers)
