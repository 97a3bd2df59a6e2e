"""What becomes of a batch of a streaming query that comes to its sink twice, late, or after the sink has changed."""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ConcurrentTransactionException, ProtocolChangedException
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tahoe.table.writing.arrow_writer import commit_files, write_arrow, write_files
from tahoe.table.writing.planning import plan_replacement, plan_write
from tahoe.table.writing.write_request import STREAMING_UPDATE, Mode, WriteRequest
from tests.table.builders import memory_env

QUERY = "d5c4b9a2-query"
SCHEMA = Struct((Field(name="id", type=LONG),))
DAY_MS = 86_400_000


def request(number: int, mode: Mode = "append", query: str = QUERY) -> WriteRequest:
    return WriteRequest(mode=mode, schema=SCHEMA, txn=(query, number), operation=STREAMING_UPDATE, finds_rows=True)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def put(env: Env, number: int, *ids: int, mode: Mode = "append", query: str = QUERY) -> int | None:
    """Write a batch as a driver with its own view of the table."""
    return write_arrow(tahoe.Table(env.store.url, env=env), rows(*ids), request(number, mode, query))


def ids(env: Env) -> list[int]:
    return sorted(tahoe.Table(env.store.url, env=env).to_arrow()["id"].to_pylist())


def files(env: Env) -> int:
    return sum(info.key.endswith(".parquet") for info in env.store.walk())


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("number", [0, 1], ids=["the batch makes the table", "the table is there"])
def test_two_drivers_that_write_one_batch_write_it_once(mode: Mode, number: int) -> None:
    """Both have planned the batch and written its files before one of them commits. The other one leaves no files."""
    env = memory_env()
    if number:
        put(env, 0, 1, 2)
    before = files(env)
    plans = [plan_write(tahoe.Table(env.store.url, env=env), request(number, mode)) for _ in range(2)]
    assert None not in plans
    written = [write_files(plan, rows(7, 8)) for plan in plans]
    versions = [commit_files(plan, found, 2) for plan, found in zip(plans, written, strict=True)]
    assert versions == [number, None]
    assert ids(env) == ([1, 2, 7, 8] if number and mode == "append" else [7, 8])
    assert files(env) == before + 1


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_of_queries_that_make_one_table_the_others_may_write_into_it(mode: Mode) -> None:
    """The conflict tells that there was no table. Later conflicts do not: a change of the protocol is not passed
    over.
    """
    env = memory_env()
    plans = [plan_write(tahoe.Table(env.store.url, env=env), request(0, mode, query)) for query in ("first", "second")]
    written = [(plan, write_files(plan, rows(number))) for number, plan in enumerate(plans) if plan is not None]
    assert commit_files(*written[0], 1) == 0
    with pytest.raises(ProtocolChangedException) as caught:
        commit_files(*written[1], 1)
    assert (caught.value.makes_table, files(env)) == (True, 1)
    assert put(env, 0, 1, query="second") == 1
    assert ids(env) == [0, 1]
    plan = plan_write(tahoe.Table(env.store.url, env=env), request(1, mode, "first"))
    assert plan is not None
    found = write_files(plan, rows(3))
    with tahoe.Table(env.store.url, env=env).transaction() as changes:
        changes.set_properties({"delta.feature.materializePartitionColumns": "supported"})
    with pytest.raises(ProtocolChangedException) as later:
        commit_files(plan, found, 1)
    assert not later.value.makes_table


def test_a_driver_that_is_ahead_of_another_fails_and_leaves_no_files() -> None:
    """It read the table before batch 1 of the other driver, so it cannot know whether its rows follow those."""
    env = memory_env()
    put(env, 0, 1)
    plan = plan_write(tahoe.Table(env.store.url, env=env), request(2))
    assert plan is not None
    found = write_files(plan, rows(3))
    put(env, 1, 2)
    with pytest.raises(ConcurrentTransactionException, match=QUERY):
        commit_files(plan, found, 1)
    assert (ids(env), files(env)) == ([1, 2], 2)


def test_a_batch_that_is_tried_again_is_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    env = memory_env()
    put(env, 0, 1)
    caplog.set_level(logging.INFO, "tahoe")
    assert put(env, 0, 1) is None
    assert [(record.levelname, QUERY in record.message) for record in caplog.records] == [("INFO", True)]


def test_batches_of_an_older_copy_of_a_checkpoint_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """They may have other rows than the batches that the table has recorded under their numbers."""
    env = memory_env()
    for number in range(4):
        put(env, number, number)
    assert [put(env, number, 100 + number) for number in (2, 3, 4)] == [None, None, 4]
    assert ids(env) == [0, 1, 2, 3, 104]
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert f"write 2 of {QUERY} is skipped: version 3 of the table has recorded its write 3" in warning.message
    assert "compare the table with its source" in warning.message


def test_a_query_with_a_new_checkpoint_is_another_query() -> None:
    """A deleted checkpoint begins again with batch 0 under a new id, so its rows are in the table twice."""
    env = memory_env()
    put(env, 0, 1)
    assert put(env, 0, 1, query="another") == 1
    assert ids(env) == [1, 1]


@pytest.mark.parametrize(("pause_days", "wanted"), [(6, [1]), (8, [1, 1])])
def test_a_batch_is_known_for_as_long_as_the_table_keeps_transactions(pause_days: int, wanted: list[int]) -> None:
    """delta.setTransactionRetentionDuration: checkpoints of the table forget queries that have written nothing for
    longer.
    """
    now_ms = [1_700_000_000_000]
    env = memory_env()
    env = replace(env, store=MemoryStore(env.store.url, clock_ms=lambda: now_ms[0]), clock_ms=lambda: now_ms[0])
    table = tahoe.Table(env.store.url, env=env)
    table.append(
        rows(), properties={"delta.setTransactionRetentionDuration": "interval 7 days", "delta.checkpointInterval": "1"}
    )
    put(env, 0, 1)
    now_ms[0] += pause_days * DAY_MS
    table.append(rows(), txn=("other", 0))  # any write makes a checkpoint
    assert put(env, 0, 1) == (None if wanted == [1] else 3)
    assert ids(env) == wanted


def test_a_sink_that_was_restored_keeps_its_queries() -> None:
    """RESTORE is a commit like others: the query goes on behind the last batch that it wrote."""
    env = memory_env()
    put(env, 0, 1)
    put(env, 1, 2)
    tahoe.Table(env.store.url, env=env).restore(0)
    assert ids(env) == [1]
    assert put(env, 1, 2) is None
    assert put(env, 2, 3) == 3
    assert ids(env) == [1, 3]


def test_a_sink_that_was_replaced_keeps_its_queries() -> None:
    env = memory_env()
    put(env, 0, 1)
    columns = Struct((*SCHEMA.fields, Field(name="new", type=LONG)))
    table = tahoe.Table(env.store.url, env=env)
    plan = plan_replacement(table, WriteRequest(mode="overwrite", schema=columns, operation="CREATE OR REPLACE TABLE"))
    commit_files(plan, [], 0)
    assert [put(env, 0, 1), put(env, 1, 2)] == [None, 2]
    assert (ids(env), table.schema.names) == ([2], ("id", "new"))


def test_a_sink_that_was_made_again_knows_no_queries() -> None:
    env = memory_env()
    for number in range(3):
        put(env, number, number)
    for info in list(env.store.walk()):
        env.store.delete(info.key)
    assert put(env, 2, 2) == 0
    assert put(env, 3, 3) == 1
    assert ids(env) == [2, 3]
