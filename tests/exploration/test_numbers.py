"""No number is assigned twice, whatever the order of two writers' storage calls: `tests/property/test_numbers_law.py`
beside other writers.

The writers run what users call. A file is added without its rows, because no number depends on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest

import tahoe
from tahoe.errors import DeltaAnalysisError, DeltaConcurrentModificationException
from tahoe.protocol.changes.column_changes import NewColumn
from tahoe.protocol.changes.column_values import column_values
from tahoe.protocol.changes.conflict import Winner
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import DomainMetadata, Metadata
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.storage.env import Env, Store
from tahoe.storage.memory import MemoryStore
from tahoe.table.adoption import clone, restore
from tahoe.table.commit import draft
from tahoe.table.commit.transaction import Transaction
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.transactions import table_edits
from tahoe.table.writing.planning import create_table, plan_write
from tahoe.table.writing.write_request import WriteRequest, WrittenFile
from tahoe.testing.explorer import Acknowledge, Explored, Place, Program, Writer, explore
from tests import sample
from tests.property.assigned_numbers import COLUMNS, CREATED, NumbersOfLog
from tests.table.builders import memory_env

Operation = Callable[[tahoe.Table], object]

_names = itertools.count()

ALL_PAIRS = sample.IS_PROOF

TRACKED, STAMPED = {"delta.enableRowTracking": "true"}, {"delta.enableInCommitTimestamps": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


def append(table: tahoe.Table, *, mints: bool = True) -> None:
    given = Struct(tuple(column for column in COLUMNS if column.name == "id"))
    plan = plan_write(table, WriteRequest(mode="append", schema=given))
    assert plan is not None
    minted = (
        {name: each.next for name, each in column_values(plan.protocol, plan.schema).identity.items()} if mints else {}
    )
    key = f"{table.env.new_id()}.parquet"
    plan.commit(
        [WrittenFile(key=key, size_bytes=1, modification_time_ms=1, statistics='{"numRecords":2}', minted=minted)]
    )


def put(properties: Mapping[str, str]) -> Operation:
    def change(table: tahoe.Table) -> None:
        with table.transaction() as changes:
            changes.set_properties(properties)

    return change


def add_column(table: tahoe.Table) -> None:
    with table.transaction() as changes:
        changes.add_columns([NewColumn(field=Field(name=f"c{table.env.new_id()[-1]}{len(table.schema)}", type=LONG))])


def drop(feature: str) -> Operation:
    return lambda table: table.drop_feature(feature) if feature in supported_features(table.protocol) else None


def create_anew(table: tahoe.Table) -> None:
    create_table(
        table,
        WriteRequest(mode="error", schema=COLUMNS, keep_nullability=True, operation=CREATED),
        replace_existing=True,
    )


def clone_source(table: tahoe.Table) -> None:
    source().clone(table.url, shallow=True, replace=True, env=table.env)


OPERATIONS: Mapping[str, Operation] = {
    "append": append,
    "append explicit values": lambda table: append(table, mints=False),  # behind another append
    "restore": lambda table: table.restore(1, ignore_missing_files=True, retention_check=False),
    "clone": clone_source,
    "create anew": create_anew,
    "add a column": add_column,
    "map": put(MAPPED),
    "track": put(TRACKED),
    "drop tracking": drop("rowTracking"),
    "drop domains": drop("domainMetadata"),
    "drop timestamps": drop("inCommitTimestamp"),
}


@cache
def source() -> tahoe.Table:
    """A table to clone, whose storage no writer changes."""
    table = tahoe.Table("memory://source", env=memory_env())
    create_table(table, WriteRequest(mode="error", schema=COLUMNS, keep_nullability=True))
    append(table)
    return table


@cache
def start() -> Mapping[str, bytes]:
    """The files of a table with numbers of every kind. Its version 1 has none but identity values."""
    table = tahoe.Table("memory://start", env=memory_env())
    create_anew(table)
    for operation in (append, put({**MAPPED, **TRACKED, **STAMPED}), append, add_column):
        operation(table)
    return {info.key: table.env.store.get(info.key) for info in table.env.store.walk()}


def setup(store: Store) -> None:
    for key, data in start().items():
        store.put(key, data)


def program(names: Sequence[str]) -> Program:
    def run(env: Env, acknowledge: Acknowledge) -> None:
        for name in names:
            try:
                OPERATIONS[name](tahoe.Table(env.store.url, env=env))
            except (DeltaAnalysisError, DeltaConcurrentModificationException):
                acknowledge(-1, f"{name} was refused")

    return run


def law(store: Store, writers: Sequence[Writer]) -> str | None:
    log = Log(replace(memory_env(), store=store))
    faults = NumbersOfLog().look(log, load_snapshot(log, by_checksum=False).version)
    failures = [repr(writer.failure) for writer in writers if writer.failure is not None]
    return next(iter([*failures, *faults]), None)


def run(*programs: Sequence[str]) -> Explored:
    def new_store() -> MemoryStore:
        return MemoryStore(f"memory://numbers-{next(_names)}", clock_ms=lambda: 1_700_000_000_000)

    return explore(setup, [program(names) for names in programs], law, place=Place(new_store=new_store))


@pytest.mark.parametrize("first", OPERATIONS)
def test_no_number_is_assigned_twice_beside_another_writer(first: str) -> None:
    """Each writer goes on writing, so that what it has lost of the other's numbers would be assigned again."""
    pairs = [pair for pair in itertools.combinations_with_replacement(OPERATIONS, 2) if pair[0] == first]
    chosen = pairs if ALL_PAIRS else pairs[::4]
    states = endings = 0
    for one, other in chosen:
        found = run([one, "append"], [other, "append explicit values"])
        assert not found.violations, (one, other, found.violations)
        states, endings = states + found.states, endings + found.endings
    print(f"{first}: {len(chosen)} pairs, {states:,} states, {endings:,} endings, no violation")


def as_it_is(before: Metadata, after: Metadata, *, table: str) -> Metadata:  # noqa: ARG001  no number of the version before
    return after


def of_the_old_version(newest: Metadata, schema: Struct, *, table: str) -> Struct:  # noqa: ARG001
    return schema


def not_kept(metadata: Metadata, domain: DomainMetadata | None, *, table: str) -> Metadata:  # noqa: ARG001
    return metadata


def keeping_row_ids(self: Transaction, winner: Winner) -> Transaction:
    return replace(rebased_onto(self, winner), row_id_high_water_mark=self.row_id_high_water_mark)


rebased_onto = Transaction._rebased_onto

MUTATIONS: dict[str, tuple[object, str, object, Sequence[Sequence[str]]]] = {
    "a commit drops what the version before it has kept": (
        draft,
        "with_numbers_of",
        as_it_is,
        [["restore"], ["add a column"]],
    ),
    "RESTORE takes identity values back": (
        restore,
        "with_identity_marks_of",
        of_the_old_version,
        [["restore", "append"], ["append"]],
    ),
    "CLONE takes identity values back": (
        clone,
        "with_identity_marks_of",
        of_the_old_version,
        [["clone", "append"], ["append"]],
    ),
    "the mark of row ids goes with the domain": (
        table_edits,
        "with_row_ids_kept",
        not_kept,
        [["drop tracking", "drop domains"], ["track"]],
    ),
    "a rebase keeps its row ids": (Transaction, "_rebased_onto", keeping_row_ids, [["append explicit values"]] * 2),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, mutant, programs = MUTATIONS[name]
    assert not run(*programs).violations
    monkeypatch.setattr(target, attribute, mutant)
    found = run(*programs)
    assert found.violations, "the exploration is blind to this"
    print(f"{name}: caught after {found.states} states: {found.violations[0][0]}")
