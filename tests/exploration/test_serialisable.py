"""The consistency model, checked on the code that commits: whatever the order of their storage calls, writers have run one after the other.

Law (ConsistentRead): the rows that a version shows are those that the operations of the commits up to it give, one after the other in the
order of versions. Rows are files with a key, their partition, and a value, in their tags.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.actions import Action, Add, CommitInfo, Metadata, Remove, encode_commit, remove_of
from tahoe.protocol.conflict import EVERYTHING, FilesRead, Intent, Winner, find_conflict
from tahoe.protocol.log_files import Kind
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tahoe.table import transaction
from tahoe.table.log import Log
from tahoe.table.snapshot import load_snapshot
from tahoe.table.transaction import Transaction
from tests.exploration.explorer import Acknowledge, Check, Explored, Program, Writer, explore
from tests.table.builders import METADATA, PROTOCOL, memory_env

_numbers = itertools.count()


@dataclass(frozen=True)
class Op:
    """Insert a row; give all rows of a key a value; delete all rows of a key."""

    kind: str
    key: str = "R"
    value: str = "1"

    def __str__(self) -> str:
        return f"{self.kind} {self.key} {self.value}"

    def apply(self, rows: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        if self.kind == "insert":
            return rows | {(self.key, self.value)}
        others = frozenset(row for row in rows if row[0] != self.key)
        return others | {(self.key, self.value)} if self.kind == "update" and others != rows else others


INSERT, UPDATE, DELETE = Op("insert"), Op("update", value="2"), Op("delete")


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
    added = Add(
        path=name, size_bytes=1, modification_time_ms=1, partition_values={"key": op.key} if partitioned else {}, tags={"row": str(op)}
    )
    if op.kind == "insert":
        actions, intent = [added], Intent()
    else:
        targets = [a for a in base.live.adds() if _row(a)[0] == op.key]
        if not targets:
            return None
        removes = [remove_of(a, 1) for a in targets]
        actions = [*removes, *([added] if op.kind == "update" else [])]
        wanted = {"key": op.key}
        intent = Intent(
            reads=FilesRead(lambda file: file.partition_values == wanted) if partitioned else EVERYTHING,
            removed_paths=frozenset(a.path for a in targets),
        )
    told = {"op": str(op), "name": name}
    return Transaction(log=log, base=base, actions=actions, operation="TEST", intent=intent, parameters=told).commit()


def _row(file: Add) -> tuple[str, str]:
    assert file.tags is not None
    _, key, value = str(file.tags["row"]).split(" ")
    return key, value


def consistent(store: MemoryStore, writers: Sequence[Writer]) -> str | None:
    """What breaks the law, or was acknowledged and is not there."""
    broken = next((writer.failure for writer in writers if writer.failure is not None), None)
    if broken is not None:
        return f"a writer failed: {broken!r}"
    log = Log(replace(memory_env(), store=store))
    rows: frozenset[tuple[str, str]] = frozenset()
    made = {}
    for version in range(load_snapshot(log, by_checksum=False).version + 1):
        info = log.commit_info(version)
        if info is None:
            return f"version {version} has no commit"
        told = info.fields["operationParameters"]
        made[version] = told["name"]
        rows = Op(*told["op"].split(" ")).apply(rows)
        shown = frozenset(_row(a) for a in load_snapshot(log, version, by_checksum=False).live.adds())
        if shown != rows:
            return f"version {version} shows {sorted(shown)}, and its history gives {sorted(rows)}"
    lost = [pair for writer in writers for pair in writer.acknowledged if made.get(pair[0]) != pair[1]]
    return f"acknowledged and not there: {lost}" if lost else None


def run(
    programs: Sequence[Sequence[Op]],
    *,
    partitioned: bool = False,
    atomic: bool = True,
    upkeep: bool = False,
    deaths: int = 0,
    properties: Mapping[str, str] | None = None,
    check: Check = consistent,
) -> Explored:
    """Explore writers of a table that has the row R 1 to begin with."""
    columns = ("key",) if partitioned else ()
    metadata = Metadata(id="test", schema_string=METADATA.schema_string, partition_columns=columns, configuration=dict(properties or {}))
    first = Add(
        path="first", size_bytes=1, modification_time_ms=1, partition_values={"key": "R"} if partitioned else {}, tags={"row": str(INSERT)}
    )
    info = CommitInfo({"inCommitTimestamp": 1, "operationParameters": {"op": str(INSERT), "name": "first"}})
    return explore(
        lambda store: store.put("_delta_log/00000000000000000000.json", encode_commit([info, PROTOCOL, metadata, first])),
        [program(ops, partitioned=partitioned) for ops in programs],
        check,
        atomic=atomic,
        upkeep=upkeep,
        deaths=deaths,
        new_store=lambda: MemoryStore(f"memory://exploration-{next(_numbers)}", clock_ms=lambda: 1_700_000_000_000),
    )


ALL_SCOPES = os.environ.get("TAHOE_EXPLORE") == "all"
OPS = (INSERT, UPDATE, DELETE)
ELSEWHERE = (Op("insert", "B"), UPDATE, Op("update", "B", "2"))


def scopes() -> list[tuple[tuple[tuple[Op, ...], ...], bool]]:
    """The writers' programs, and whether the table is partitioned by the key: every choice of operations."""
    shapes = [(1, 1), (2, 1), (1, 1, 1), *([(2, 2), (3, 1)] if ALL_SCOPES else [])]
    found = []
    for shape, ops, partitioned in itertools.product(shapes, (OPS, ELSEWHERE), (False, True)):
        for chosen in itertools.product(ops, repeat=sum(shape)):
            parts = iter(chosen)
            found.append((tuple(tuple(itertools.islice(parts, count)) for count in shape), partitioned))
    return found if ALL_SCOPES else found[::23]


def test_every_order_of_storage_calls_is_an_order_of_operations(record_property: Callable[[str, object], None]) -> None:
    states = endings = 0
    for programs, partitioned in scopes():
        found = run(programs, partitioned=partitioned)
        assert not found.violations, (programs, partitioned, found.violations)
        states, endings = states + found.states, endings + found.endings
    record_property("states", states)
    print(f"{len(scopes())} programs, {states:,} states, {endings:,} endings, no violation")


@pytest.mark.parametrize("programs", [((INSERT,), (UPDATE,)), ((UPDATE,), (DELETE,)), ((UPDATE,), (INSERT, DELETE))])
@pytest.mark.parametrize("upkeep", [False, *([True] if ALL_SCOPES else [])])
def test_a_writer_may_die_before_any_call(programs: tuple[tuple[Op, ...], ...], upkeep: bool) -> None:
    interval = {"delta.checkpointInterval": "1"} if upkeep else {}
    found = run(programs, upkeep=upkeep, deaths=1, properties=interval)
    assert found.endings > 1
    assert not found.violations, found.violations


def test_without_atomic_creation_a_commit_is_lost_and_the_trace_says_how() -> None:
    found = run([[INSERT], [INSERT]], atomic=False)
    ((wrong, trace),) = found.violations
    assert wrong.startswith("acknowledged and not there")
    assert len(trace) <= 12
    print(f"without atomic creation: {wrong}, after {' '.join(trace)}")


# --- the exploration sees what is wrong: mutations of the rules


def ignoring(kind: type[Action]) -> Callable[..., Any]:
    """The conflict check without one kind of the winner's actions."""

    def check(mine: Intent, winner: Winner, *rest: Any, **named: Any) -> Any:
        kept = tuple(action for action in winner.actions if not isinstance(action, kind))
        return find_conflict(mine, replace(winner, actions=kept), *rest, **named)

    return check


def skipping_the_first(mine: Intent, winner: Winner, *rest: Any, **named: Any) -> Any:
    return None if winner.version == 1 else find_conflict(mine, winner, *rest, **named)


def only_the_newest(self: Transaction) -> Transaction:
    newest = max(f.version for f in self.log.list_files(self._next_version) if f.kind is Kind.COMMIT)
    return self._go_behind(Winner(version=newest, actions=tuple(self.log.read_version(newest))))


def old_stamps(self: Transaction) -> int:
    return self.base.timestamp_ms if self.base is not None else -1


MUTATIONS: dict[str, tuple[object, str, object, Sequence[Sequence[Op]]]] = {
    "no conflict check": (transaction, "find_conflict", lambda *_, **__: None, [[UPDATE], [INSERT]]),
    "the first winner is skipped": (transaction, "find_conflict", skipping_the_first, [[UPDATE], [INSERT]]),
    "only the newest winner is looked at": (Transaction, "_rebased", only_the_newest, [[UPDATE], [INSERT, Op("insert", "B")]]),
    "what winners add is ignored": (transaction, "find_conflict", ignoring(Add), [[UPDATE], [INSERT]]),
    "what winners remove is ignored": (transaction, "find_conflict", ignoring(Remove), [[UPDATE], [DELETE]]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, mutant, programs = MUTATIONS[name]
    partitioned = name.startswith("only")
    assert not run(programs, partitioned=partitioned).violations
    monkeypatch.setattr(target, attribute, mutant)
    found = run(programs, partitioned=partitioned)
    assert found.violations, "the exploration is blind to this"
    wrong, trace = found.violations[0]
    print(f"{name}: caught at depth {len(trace)} after {found.states} states: {wrong}")


def stamps_rise(store: MemoryStore, _: Sequence[Writer]) -> str | None:
    log = Log(replace(memory_env(), store=store))
    infos = [log.commit_info(version) for version in range(load_snapshot(log, by_checksum=False).version + 1)]
    stamps = [-1 if info is None or info.in_commit_timestamp_ms is None else info.in_commit_timestamp_ms for info in infos]
    return None if stamps == sorted(set(stamps)) else f"in-commit timestamps are {stamps}"


def test_in_commit_timestamps_rise_in_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = {"delta.enableInCommitTimestamps": "true"}
    programs = [[INSERT], [INSERT], [INSERT]]
    assert not run(programs, properties=stamped, check=stamps_rise).violations
    monkeypatch.setattr(Transaction, "_timestamp_before", old_stamps)
    assert run(programs, properties=stamped, check=stamps_rise).violations, "a rebase that keeps its old stamp is not seen"


# --- the weaker level


def in_some_order(store: MemoryStore, _: Sequence[Writer]) -> str | None:
    """What `WriteSerializable` promises: blind appends may come later than their version, everything else is in order."""
    log = Log(replace(memory_env(), store=store))
    newest = load_snapshot(log, by_checksum=False)
    infos = [log.commit_info(version) for version in range(newest.version + 1)]
    ops = [Op(*info.fields["operationParameters"]["op"].split(" ")) for info in infos if info is not None]
    shown = frozenset(_row(a) for a in newest.live.adds())
    for order in itertools.permutations(range(len(ops))):
        others = [number for number in order if ops[number].kind != "insert"]
        late = all(order.index(n) >= n for n in order if ops[n].kind == "insert")
        if others == sorted(others) and late:
            rows: frozenset[tuple[str, str]] = frozenset()
            for number in order:
                rows = ops[number].apply(rows)
            if rows == shown:
                return None
    return f"{sorted(shown)} is no outcome of {[str(op) for op in ops]}"


WEAKER = {"delta.isolationLevel": "WriteSerializable"}


def test_write_serializable_lets_blind_appends_pass_and_nothing_else() -> None:
    programs = [[UPDATE], [INSERT]]
    assert run(programs, properties=WEAKER).violations, "an append that passes an update is what the level allows"
    for chosen in ([[UPDATE], [INSERT]], [[UPDATE], [DELETE]], [[UPDATE, INSERT], [DELETE]], [[DELETE], [INSERT], [UPDATE]]):
        assert not run(chosen, properties=WEAKER, check=in_some_order).violations
