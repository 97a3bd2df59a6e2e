"""In-commit timestamps rise with every version, whatever clocks and other writers do, and time travel goes by them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import TimestampOutOfRangeError
from tahoe.protocol.configuration.properties import ENABLEMENT
from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.storage.memory import MemoryStore
from tahoe.table.commit.transaction import Transaction
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.transactions.alter import set_properties, unset_properties
from tahoe.table.verify.log import check_log
from tahoe.table.versions.history import version_at
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import add, memory_env

ENABLE = {"delta.enableInCommitTimestamps": "true"}
ROWS = pa.table({"id": [1]})
START_MS = 1_700_000_000_000


class Clocks:
    """The writer's clock and the storage's, each of which a test may set."""

    def __init__(self) -> None:
        self.writer_ms = self.storage_ms = START_MS


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def table(clocks: Clocks) -> tahoe.Table:
    env = memory_env()
    store = MemoryStore(env.store.url, clock_ms=lambda: clocks.storage_ms)
    env = replace(env, store=store, clock_ms=lambda: clocks.writer_ms)
    return tahoe.Table(env.store.url, env=env)


def stamps(table: tahoe.Table) -> list[int | None]:
    infos = (table.log.commit_info(version) for version in range(table.version + 1))
    return [None if info is None else info.in_commit_timestamp_ms for info in infos]


def test_a_new_table_has_them_from_its_first_commit(table: tahoe.Table, clocks: Clocks) -> None:
    table.append(ROWS, properties=ENABLE)
    clocks.writer_ms += 5
    table.append(ROWS)
    assert stamps(table) == [START_MS, START_MS + 5]
    assert not set(ENABLEMENT) & set(table.properties)
    assert "inCommitTimestamp" in table.protocol.writer_features
    first, *_ = table.env.store.get("_delta_log/00000000000000000001.json").split(b"\n")
    assert first.startswith(b'{"commitInfo":{"inCommitTimestamp":')


@pytest.mark.parametrize("step_ms", [0, -60_000])
def test_they_rise_where_the_clock_does_not(table: tahoe.Table, clocks: Clocks, step_ms: int) -> None:
    table.append(ROWS, properties=ENABLE)
    for _ in range(3):
        clocks.writer_ms += step_ms
        table.append(ROWS)
    assert stamps(table) == [START_MS, START_MS + 1, START_MS + 2, START_MS + 3]
    assert list(check_log(table.log)) == []


def test_behind_a_winner_a_commit_is_stamped_anew(table: tahoe.Table, clocks: Clocks) -> None:
    table.append(ROWS, properties=ENABLE)
    mine = Transaction(log=table.log, base=table.snapshot(), actions=[add("mine")], operation="WRITE")
    clocks.writer_ms += 1000
    table.append(ROWS)
    clocks.writer_ms -= 900
    assert mine.commit() == 2
    assert stamps(table) == [START_MS, START_MS + 1000, START_MS + 1001]


def test_a_table_that_gets_them_later_says_since_when(table: tahoe.Table, clocks: Clocks) -> None:
    table.append(ROWS)
    clocks.storage_ms += 10_000  # the storage's clock is ahead of the writer's
    table.append(ROWS)
    assert set_properties(table, ENABLE) == 2
    since = START_MS + 10_001
    assert stamps(table) == [None, None, since]
    assert {name: table.properties[name] for name in ENABLEMENT} == dict(
        zip(ENABLEMENT, ("2", str(since)), strict=True)
    )


def test_since_when_is_told_anew_behind_a_winner(table: tahoe.Table, clocks: Clocks) -> None:
    table.append(ROWS)
    base = table.snapshot()
    enabled = base.metadata.replace(configuration=ENABLE)
    features = frozenset({"inCommitTimestamp", "appendOnly", "invariants"})
    protocol = base.protocol.replace(writer_version=7, writer_features=features)
    mine = Transaction(log=table.log, base=base, actions=[protocol, enabled], operation="SET TBLPROPERTIES")
    clocks.storage_ms += 500
    table.append(ROWS)
    assert mine.commit() == 2
    assert (table.properties[ENABLEMENT[0]], table.properties[ENABLEMENT[1]]) == ("2", str(START_MS + 501))


def test_switched_off_they_are_forgotten_and_switched_on_again_begin_anew(table: tahoe.Table, clocks: Clocks) -> None:
    table.append(ROWS)
    set_properties(table, ENABLE)
    unset_properties(table, list(ENABLE))
    assert not set(ENABLEMENT) & set(table.properties)
    clocks.storage_ms += 100
    table.append(ROWS)
    clocks.writer_ms += 1000
    assert set_properties(table, ENABLE) == 4
    assert table.properties[ENABLEMENT[0]] == "4"
    assert [stamp is not None for stamp in stamps(table)] == [False, True, False, False, True]


def test_a_replaced_table_remembers_since_when(table: tahoe.Table) -> None:
    table.append(ROWS)
    set_properties(table, ENABLE)
    before = {name: table.properties[name] for name in ENABLEMENT}
    schema = Struct((Field(name="other", type=LONG),))
    request = WriteRequest(
        mode="overwrite", schema=schema, overwrite_schema=True, properties=ENABLE, operation="CREATE OR REPLACE TABLE"
    )
    plan = plan_write(table, request)
    assert plan is not None
    plan.commit([])
    assert {name: table.properties[name] for name in ENABLEMENT} == before


def test_time_travel_looks_where_the_moment_belongs(table: tahoe.Table, clocks: Clocks) -> None:
    for _ in range(3):
        clocks.storage_ms += 1000
        table.append(ROWS)  # versions 0 to 2, at 1, 2 and 3 seconds of the storage's clock
    clocks.writer_ms += 10_000
    set_properties(table, ENABLE)  # version 3, at 10 seconds
    clocks.storage_ms += 100_000  # what the storage says does not count any more
    for _ in range(3):
        clocks.writer_ms += 10_000
        table.append(ROWS)

    def at(seconds: float) -> int:
        return version_at(table.snapshot(), START_MS + int(seconds * 1000))

    assert [at(s) for s in (1, 2.5, 3, 9.9, 10, 19.9, 20, 25, 40)] == [0, 1, 2, 2, 3, 3, 4, 4, 6]
    with pytest.raises(TimestampOutOfRangeError):
        at(40.1)
    assert [round(row["timestamp"].timestamp() * 1000 - START_MS) for row in table.history()] == [
        40000,
        30000,
        20000,
        10000,
        3000,
        2000,
        1000,
    ]


def test_a_moment_is_found_by_halving(clocks: Clocks) -> None:
    reads: list[str] = []

    class Counting(MemoryStore):
        def get(self, key: str) -> bytes:
            reads.append(key)
            return super().get(key)

    env = memory_env()
    env = replace(
        env, store=Counting(env.store.url, clock_ms=lambda: clocks.storage_ms), clock_ms=lambda: clocks.writer_ms
    )
    table = tahoe.Table(env.store.url, env=env)
    table.append(ROWS, properties={**ENABLE, "delta.checkpointInterval": "1000"})
    base = table.snapshot()
    for n in range(200):
        clocks.writer_ms += 1000
        Transaction(log=table.log, base=base, actions=[add(f"f{n}")], operation="WRITE").commit()
        base = table.snapshot()
    reads.clear()
    assert version_at(base, START_MS + 77_500) == 77
    assert len(reads) < 15


def test_the_checksum_has_the_timestamp(table: tahoe.Table) -> None:
    table.append(ROWS, properties=ENABLE)
    assert b'"inCommitTimestampOpt":1700000000000' in table.env.store.get("_delta_log/00000000000000000000.crc")


def test_metadata_of_others_is_left_as_it_is(table: tahoe.Table) -> None:
    table.append(ROWS, properties={"delta.appendOnly": "true", "mine": "1"})
    found = load_snapshot(table.log).metadata
    assert isinstance(found, Metadata)
    assert dict(found.configuration) == {"delta.appendOnly": "true", "mine": "1"}
