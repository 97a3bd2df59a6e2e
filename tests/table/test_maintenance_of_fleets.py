"""`tahoe maintain` does what is advised, once; it goes on where it was interrupted, and leaves what others change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ConcurrentAppendException
from tahoe.table.fleet import fleet, maintenance
from tahoe.table.fleet.fleet import NamedTable, tables_below
from tahoe.table.fleet.maintenance import Limit, Step, maintain
from tahoe.table.report import upkeep
from tests.table.builders import memory_env

DAY_MS = 86_400_000
FOREVER = Limit(lambda: 0.0, 1.0)


def grown(number: int, **properties: str) -> tuple[tahoe.Table, NamedTable]:
    """A table of small files on the memory store, whose clock a test sets."""
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    for at in range(number):
        table.append(pa.table({"id": [at]}), properties=None if at else properties)
    return table, NamedTable("t", lambda: tahoe.Table(env.store.url, env=env))


def told(steps: Iterator[Step]) -> list[tuple[str, str | None, str]]:
    return [(step.table, step.kind, step.outcome) for step in steps]


def test_what_is_advised_is_done_once(tmp_path: Path) -> None:
    for name, number in (("a", 12), ("b", 30), ("few", 2)):
        for at in range(number):
            tahoe.Table(tmp_path / name).append(pa.table({"id": [at]}))
    rows = {name: tahoe.Table(tmp_path / name).count() for name in ("a", "b", "few")}
    tables = tables_below(tahoe.Table(tmp_path), tahoe.Table)
    assert told(maintain(tables, FOREVER, dry_run=True)) == [("b", "optimize", "planned"), ("a", "optimize", "planned")]
    assert tahoe.Table(tmp_path / "a").version == 11
    assert told(maintain(tables, FOREVER)) == [("b", "optimize", "done"), ("a", "optimize", "done")]
    assert {name: tahoe.Table(tmp_path / name).count() for name in rows} == rows
    assert [len(tahoe.Table(tmp_path / name).files()) for name in ("a", "b", "few")] == [1, 1, 2]
    assert told(maintain(tables, FOREVER)) == []


def test_vacuum_keeps_the_retention() -> None:
    """What OPTIMIZE has just removed stays, and goes when it is older than the retention."""
    table, named = grown(12)
    list(maintain([named], FOREVER))
    assert told(maintain([named], FOREVER)) == []
    assert table.snapshot(11).to_arrow().num_rows == 12
    later_ms = table.env.clock_ms() + 8 * DAY_MS
    later = replace(table.env, clock_ms=lambda: later_ms)
    named = NamedTable("t", lambda: tahoe.Table(later.store.url, env=later))
    assert told(maintain([named], FOREVER)) == [("t", "vacuum", "done")]
    assert len(list(table.env.store.walk())) == len(list(table.env.store.walk("_delta_log"))) + 1


def test_a_run_that_ends_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPTIMIZE commits batch by batch; after the limit no batch begins, and the next run does the rest."""
    monkeypatch.setattr(maintenance, "_BATCH_BYTES", 1)
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    for at in range(12):
        table.append(pa.table({"id": [at] * 3, "p": [0, 1, 2]}), partition_by=["p"])
    named = NamedTable("t", lambda: tahoe.Table(env.store.url, env=env))
    began = table.version
    times = iter([0.0] * 3 + [9.0] * 100)  # before the tables, before OPTIMIZE, before its first batch
    steps = list(maintain([named], Limit(lambda: next(times), 1.0)))
    assert [(step.kind, step.outcome) for step in steps] == [("optimize", "left")]
    assert 0 < table.version - began < 3
    assert told(maintain([named], FOREVER)) == [("t", "optimize", "done")]
    assert len(table.files()) == 3
    assert table.count() == 36


def test_after_the_limit_nothing_begins() -> None:
    table, named = grown(12)
    other = NamedTable("other", named.open)
    steps = list(maintain([named, other], Limit(lambda: 5.0, 1.0)))
    assert [(step.table, step.outcome) for step in steps] == [("other", "left"), ("t", "left")]
    assert table.version == 11


@pytest.mark.parametrize(("conflicts", "outcome"), [(2, "done"), (3, "left")])
def test_a_conflict_is_tried_again_and_then_left(conflicts: int, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, named = grown(12)
    real, calls = maintenance.optimize, []

    def conflicting(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) <= conflicts:
            raise ConcurrentAppendException(table="t", winner="version 12", detail="a row was added")
        return real(*arguments, **options)

    monkeypatch.setattr(maintenance, "optimize", conflicting)
    assert told(maintain([named], FOREVER)) == [("t", "optimize", outcome)]


def test_what_fails_does_not_stop_the_others() -> None:
    _, named = grown(12)

    def fail() -> tahoe.Table:
        raise OSError("no network")

    steps = list(maintain([NamedTable("gone", fail), named], FOREVER))
    assert [(step.table, step.kind, step.outcome) for step in steps] == [
        ("gone", None, "failed"),
        ("t", "optimize", "done"),
    ]
    assert steps[0].detail == "no network"


def test_missing_checkpoints_are_written() -> None:
    table, named = grown(25, **{"delta.checkpointInterval": "10"})
    table.optimize()
    for info in list(table.env.store.list_from("_delta_log")):
        if "checkpoint" in info.key:
            table.env.store.delete(info.key)
    assert told(maintain([named], FOREVER)) == [("t", "checkpoint", "done")]
    assert any(f"{table.version:020}.checkpoint" in info.key for info in table.env.store.list_from("_delta_log"))
    assert told(maintain([named], FOREVER)) == []


@pytest.mark.parametrize(("property_value", "steps"), [("true", ["vacuum", "cleanup"]), ("false", ["vacuum"])])
def test_a_log_that_is_to_be_kept_is_not_cleaned_up(property_value: str, steps: list[str]) -> None:
    """Only who calls `cleanup_metadata` overrules the property."""
    properties = {"delta.checkpointInterval": "40", "delta.enableExpiredLogCleanup": property_value}
    table, named = grown(121, **properties)
    table.optimize()
    later_ms = table.env.clock_ms() + 40 * DAY_MS
    later = replace(table.env, clock_ms=lambda: later_ms)
    named = NamedTable("t", lambda: tahoe.Table(later.store.url, env=later))
    tahoe.Table(later.store.url, env=later).append(pa.table({"id": [0]}))
    assert [step.kind for step in maintain([named], FOREVER)] == steps
    commits = [info.key for info in table.env.store.list_from("_delta_log") if info.key.endswith(".json")]
    assert (f"_delta_log/{0:020}.json" in commits) == (property_value == "false")
    assert table.count() == 122


def test_a_table_too_large_to_plan_is_vacuumed_by_the_bytes_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    table, named = grown(12)
    monkeypatch.setattr(upkeep, "LISTED_FILES_MAX", 3)
    list(maintain([named], FOREVER))
    assert told(maintain([named], FOREVER)) == [("t", "vacuum", "done")]
    assert table.snapshot(11).to_arrow().num_rows == 12  # within the retention
    assert fleet.table_row(named).advice[0].kind == "vacuum"


def test_every_step_is_one_that_is_maintained() -> None:
    steps: dict[Any, Callable[..., Any]] = dict(maintenance._STEPS)
    assert set(steps) == set(fleet.MAINTAINED)
