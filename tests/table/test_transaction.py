"""Commits by several writers of one table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tahoe.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tahoe.protocol.actions import CommitInfo, Remove, Txn
from tahoe.protocol.conflict import Intent
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.snapshot import load_snapshot
from tahoe.table.transaction import Transaction
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env


def append(log, path, read_version=0, **fields):
    return Transaction(log=log, base=load_snapshot(log, read_version), actions=[add(path)], operation="WRITE", **fields)


def paths(log):
    return sorted(load_snapshot(log).live.column("path").to_pylist())


def test_an_append_goes_behind_the_appends_that_won():
    log = make_log([[add("a")], [add("b")], [add("c")]])
    assert append(log, "mine").commit() == 3
    assert paths(log) == ["a", "b", "c", "mine"]


def test_what_is_recorded_of_a_commit():
    log = make_log([[add("a")]])
    told = {"parameters": {"mode": "Append", "partitionBy": ["p"]}, "metrics": {"numFiles": 1}, "user_metadata": "why", "engine": "Spark"}
    append(log, "b", **told).commit()
    info = log.commit_info(1)
    assert info is not None
    known = {k: v for k, v in info.fields.items() if k not in ("timestamp", "txnId", "engineInfo")}
    assert known == {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["p"]'},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1"},
        "userMetadata": "why",
    }
    assert info.fields["engineInfo"].startswith("Spark tahoe/")
    assert info.txn_id
    assert log.read_version(1)[0] == info, "commitInfo must come first"


def test_a_write_that_read_or_removed_is_not_blind():
    log = make_log([[add("a")]])
    replaced = Transaction(
        log=log, base=load_snapshot(log, 0), actions=[Remove(path="a"), add("b")], operation="WRITE", intent=Intent(reads=lambda _: True)
    )
    assert replaced.commit() == 1
    info = log.commit_info(1)
    assert info is not None
    assert info.fields["isBlindAppend"] is False


@pytest.mark.parametrize(
    ("winner", "intent", "error"),
    [
        ([add("b")], Intent(reads=lambda _: True), ConcurrentAppendException),
        ([Remove(path="a")], Intent(read_paths={"a"}), ConcurrentDeleteReadException),
        ([replace(METADATA, name="renamed")], Intent(), MetadataChangedException),
        ([Txn(app_id="app", version=4)], Intent(app_ids={"app"}), ConcurrentTransactionException),
    ],
)
def test_a_winner_that_matters_stops_the_commit_and_nothing_is_written(winner, intent, error):
    log = make_log([[add("a")], winner])
    with pytest.raises(error, match=r"another writer committed first \(version 1"):
        append(log, "mine", intent=intent).commit()
    assert load_snapshot(log).version == 1
    assert "mine" not in paths(log)


def test_every_winner_is_checked_not_only_the_last():
    log = make_log([[add("a")], [replace(METADATA, name="renamed")], [add("b")]])
    with pytest.raises(MetadataChangedException):
        append(log, "mine").commit()


def test_two_that_make_the_table_at_once_do_not_both_succeed():
    log = make_log([[add("a")]])
    mine = Transaction(log=log, base=None, actions=[PROTOCOL, METADATA, add("b")], operation="CREATE TABLE")
    with pytest.raises((MetadataChangedException, ProtocolChangedException), match="version 0"):
        mine.commit()
    assert paths(log) == ["a"]


def test_a_commit_whose_answer_was_lost_is_made_once():
    env = memory_env(faults=FaultPlan(Fault(effect=Effect.RAISE_AFTER, operation=Operation.PUT_IF_ABSENT, nth=2)))
    log = make_log([[add("a")]], env)
    assert append(log, "mine").commit() == 1
    assert load_snapshot(log).version == 1


def test_a_winner_that_the_listing_does_not_show_yet_is_checked_all_the_same():
    env = memory_env(faults=FaultPlan(Fault(effect=Effect.HIDE, operation=Operation.LIST, key="*001.json")))
    log = make_log([[add("a")], [replace(METADATA, name="renamed")]], env)
    with pytest.raises(MetadataChangedException):
        append(log, "mine").commit()


def test_commit_info_with_nothing_known_is_no_obstacle():
    log = make_log([[add("a")], [CommitInfo({}), add("b")]])
    assert append(log, "mine").commit() == 2
