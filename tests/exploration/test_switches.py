"""A write beside a change of the table's configuration, in every order of the storage calls of both:
`tests/table/test_behind_switches.py` beside other writers.

Whatever the order, the rows are those of one of the two orders of the operations, and the log follows the rules of its
configuration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import DeltaConcurrentModificationException, DeltaError
from tahoe.protocol.changes import conflict
from tahoe.protocol.changes.conflict_rules import Change
from tahoe.storage.env import Env, Store
from tahoe.storage.memory import MemoryStore
from tahoe.testing.explorer import Acknowledge, Explored, Place, Program, Writer, explore
from tests import sample
from tests.table.builders import memory_env
from tests.table.switches import check_values, set_to

Operation = Callable[[tahoe.Table], object]

_names = itertools.count()

ALL_PAIRS = sample.IS_PROOF

VECTORS, REWRITING = {"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "false"}

SWITCHES: Mapping[str, Operation] = {
    "vectors on": set_to(delta__enableDeletionVectors="true"),
    "vectors off": set_to(delta__enableDeletionVectors="false"),
    "mapping": set_to(delta__columnMapping__mode="name"),
    "feed on": set_to(delta__enableChangeDataFeed="true"),
    "stamps on": set_to(delta__enableInCommitTimestamps="true"),
    "row ids on": set_to(delta__enableRowTracking="true"),
    "append-only": set_to(delta__appendOnly="true"),
}
WRITES: Mapping[str, Operation] = {
    "append": lambda table: table.append(rows(8)),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"n": "n + 1"}, "id = 2"),
}
NO_CHANGE = {("vectors on", True), ("vectors off", False)}
PAIRS = [pair for pair in itertools.product(SWITCHES, WRITES, (False, True)) if pair[::2] not in NO_CHANGE]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(ids, pa.int64())})


def program(operation: Operation) -> Program:
    def run(env: Env, acknowledge: Acknowledge) -> None:  # noqa: ARG001  the rows tell what was done
        with suppress(DeltaConcurrentModificationException):  # the user would run it again
            operation(tahoe.Table(env.store.url, env=env))

    return run


def explored(switch: str, write: str, *, by_vector: bool) -> Explored:
    def setup(store: Store) -> None:
        table = tahoe.Table(store.url, env=replace(memory_env(), store=store))
        table.append(rows(1, 2, 3), properties=VECTORS if by_vector else REWRITING)

    return explore(
        setup,
        [program(SWITCHES[switch]), program(WRITES[write])],
        lambda store, writers: wrong(store, writers, write),
        place=Place(
            new_store=lambda: MemoryStore(f"memory://switches-{next(_names)}", clock_ms=lambda: 1_700_000_000_000)
        ),
    )


def wrong(store: Store, writers: Sequence[Writer], write: str) -> str | None:
    failed = next(
        (
            writer.failure
            for writer in writers
            if writer.failure is not None and not isinstance(writer.failure, DeltaError)
        ),
        None,
    )
    if failed is not None:
        return f"a writer failed: {failed!r}"
    table = tahoe.Table(store.url, env=replace(memory_env(), store=store))
    ids = {(row["id"], row["n"]) for row in table.to_arrow().to_pylist()}
    before = {(1, 1), (2, 2), (3, 3)}
    after = {"append": before | {(8, 8)}, "delete": before - {(1, 1)}, "update": (before - {(2, 2)}) | {(2, 3)}}[write]
    if ids not in (before, after):
        return f"the rows are {sorted(ids)}"
    removes = [
        a
        for v in range(1, table.version + 1)
        for a in table.log.read_version(v)
        if type(a).__name__ == "Remove" and a.data_change
    ]
    switched = next(
        (v for v in range(table.version + 1) if table.snapshot(v).properties.get("delta.appendOnly") == "true"), None
    )
    if switched is not None and switched < table.version and removes:
        return "rows were removed from an append-only table"
    try:
        check_values(table)
    except AssertionError as error:
        return str(error).partition("\n")[0] or "a rule of the table is broken"
    return wrong_feed(table, write)


def wrong_feed(table: tahoe.Table, write: str) -> str | None:
    """An update is recorded as such, and copied rows are no changes."""
    fed = next(
        (
            v
            for v in range(table.version + 1)
            if table.snapshot(v).properties.get("delta.enableChangeDataFeed") == "true"
        ),
        None,
    )
    if fed is None or fed == table.version:
        return None
    kinds = sorted(row["_change_type"] for row in table.changes(start_version=fed + 1).to_pylist())
    expected = {"append": ["insert"], "delete": ["delete"], "update": ["update_postimage", "update_preimage"]}[write]
    return None if kinds == expected else f"the feed has {kinds}"


@pytest.mark.parametrize(("switch", "write", "by_vector"), PAIRS if ALL_PAIRS else PAIRS[::6])
def test_a_write_beside_a_switch_keeps_the_rules_in_every_order(switch: str, write: str, by_vector: bool) -> None:
    found = explored(switch, write, by_vector=by_vector)
    assert found.endings > 1, "nothing was in another's way"
    assert not found.violations, found.violations
    print(
        f"{write} beside {switch}: {found.states} states, {found.endings} endings, at most {found.depth} steps, "
        f"no violation"
    )


def without_rules(*_: Any) -> Iterator[Change]:
    return iter(())


@pytest.mark.parametrize(("switch", "write"), [("feed on", "update"), ("append-only", "delete")])
def test_a_rule_that_is_missing_is_caught(switch: str, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflict, "changes", without_rules)
    assert explored(switch, write, by_vector=True).violations, "the exploration is blind to this"
