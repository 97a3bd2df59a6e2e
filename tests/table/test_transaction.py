"""Commits by several writers of one table."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    CommandCancelledError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    MetadataChangedException,
    ProtocolChangedException,
    WriteAlreadyRecordedError,
)
from tahoe.protocol.changes.conflict import EVERYTHING, Intent
from tahoe.protocol.log.actions import CommitInfo, DomainMetadata, Remove, Txn
from tahoe.storage.env import Watch
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.commit import transaction
from tahoe.table.commit.transaction import Transaction
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.writing import arrow_writer, planning
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env, put_commit


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
    told = {
        "parameters": {"mode": "Append", "partitionBy": ["p"]},
        "metrics": {"numFiles": 1},
        "user_metadata": "why",
        "engine": "Spark",
    }
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
        log=log,
        base=load_snapshot(log, 0),
        actions=[Remove(path="a"), add("b")],
        operation="WRITE",
        intent=Intent(reads=EVERYTHING),
    )
    assert replaced.commit() == 1
    info = log.commit_info(1)
    assert info is not None
    assert info.fields["isBlindAppend"] is False


@pytest.mark.parametrize(
    ("winner", "intent", "error"),
    [
        ([add("b")], Intent(reads=EVERYTHING), ConcurrentAppendException),
        ([Remove(path="a")], Intent(reads=EVERYTHING), ConcurrentDeleteReadException),
        ([METADATA.replace(partition_columns=("id",))], Intent(), MetadataChangedException),
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
    log = make_log([[add("a")], [METADATA.replace(partition_columns=("id",))], [add("b")]])
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
    log = make_log([[add("a")], [METADATA.replace(partition_columns=("id",))]], env)
    with pytest.raises(MetadataChangedException):
        append(log, "mine").commit()


def test_commit_info_with_nothing_known_is_no_obstacle():
    log = make_log([[add("a")], [CommitInfo({}), add("b")]])
    assert append(log, "mine").commit() == 2


def test_a_comment_of_another_writer_does_not_stop_a_write():
    # the reference refuses this: every change of metadata is one to it
    log = make_log([[add("a")]])
    mine = Transaction(
        log=log, base=load_snapshot(log), actions=[Remove(path="a"), add("b")], operation="WRITE", intent=OVERWRITE
    )
    put_commit(
        log.env,
        1,
        [
            METADATA.replace(
                description="why", configuration={"delta.logRetentionDuration": "interval 9 days", "mine": "1"}
            )
        ],
    )
    assert mine.commit() == 2
    assert load_snapshot(log).metadata.description == "why"


def test_two_changes_of_metadata_conflict():
    log = make_log([[add("a")]])
    mine = Transaction(
        log=log, base=load_snapshot(log), actions=[METADATA.replace(name="mine")], operation="SET TBLPROPERTIES"
    )
    put_commit(log.env, 1, [METADATA.replace(description="theirs")])
    with pytest.raises(MetadataChangedException, match="which this write changes too"):
        mine.commit()


def test_compaction_by_another_writer_does_not_stop_one_that_read_the_rows():
    # the reference refuses this: the files that compaction adds are files like any other to it
    log = make_log([[add("a"), add("b")]])
    intent = Intent(reads=EVERYTHING)
    mine = Transaction(log=log, base=load_snapshot(log), actions=[add("c")], operation="WRITE", intent=intent)
    put_commit(
        log.env,
        1,
        [Remove(path="a", data_change=False), Remove(path="b", data_change=False), add("ab", data_change=False)],
    )
    assert mine.commit() == 2


def test_compaction_of_a_file_that_this_write_removes_stops_it():
    log = make_log([[add("a"), add("b")]])
    mine = Transaction(
        log=log, base=load_snapshot(log), actions=[Remove(path="a"), add("c")], operation="WRITE", intent=OVERWRITE
    )
    put_commit(log.env, 1, [Remove(path="a", data_change=False), add("ab", data_change=False)])
    with pytest.raises(ConcurrentDeleteDeleteException):
        mine.commit()


OVERWRITE = Intent(reads=EVERYTHING, removed_paths={"a"})


@pytest.mark.parametrize(("level", "conflicts"), [("Serializable", True), ("WriteSerializable", False)])
def test_the_isolation_level_says_whether_blind_appends_matter(level, conflicts):
    log = make_log([[]])
    put_commit(log.env, 1, [METADATA.replace(configuration={"delta.isolationLevel": level}), add("a")])
    base = load_snapshot(log)
    mine = Transaction(log=log, base=base, actions=[Remove(path="a"), add("b")], operation="WRITE", intent=OVERWRITE)
    assert Transaction(log=log, base=base, actions=[add("theirs")], operation="WRITE").commit() == 2
    if conflicts:
        with pytest.raises(ConcurrentAppendException):
            mine.commit()
    else:
        assert mine.commit() == 3
        assert log.commit_info(3).fields["isolationLevel"] == "WriteSerializable"
        assert paths(log) == ["b", "theirs"]


def test_under_write_serializable_an_append_that_read_the_table_still_matters():
    log = make_log([[]])
    put_commit(log.env, 1, [METADATA.replace(configuration={"delta.isolationLevel": "WriteSerializable"}), add("a")])
    base = load_snapshot(log)
    theirs = Transaction(
        log=log, base=base, actions=[add("theirs")], operation="WRITE", intent=Intent(reads=EVERYTHING)
    )
    theirs.commit()
    mine = Transaction(log=log, base=base, actions=[Remove(path="a"), add("b")], operation="WRITE", intent=OVERWRITE)
    with pytest.raises(ConcurrentAppendException):
        mine.commit()


def test_a_commit_that_only_moves_rows_conflicts_through_its_own_files_alone():
    log = make_log([[add("a"), add("b")]])
    base = load_snapshot(log)
    moved = [Remove(path="a", data_change=False), add("moved", data_change=False)]
    mine = Transaction(log=log, base=base, actions=moved, operation="OPTIMIZE", intent=OVERWRITE)
    put_commit(log.env, 1, [Remove(path="b"), add("new")])
    assert mine.commit() == 2
    assert log.commit_info(2).fields["isolationLevel"] == "SnapshotIsolation"
    again = Transaction(log=log, base=base, actions=moved, operation="OPTIMIZE", intent=OVERWRITE)
    with pytest.raises(ConcurrentDeleteDeleteException):
        again.commit()


@pytest.mark.parametrize(("domain", "conflicts"), [("mine", True), ("other", False)])
def test_domains_conflict_one_by_one(domain, conflicts):
    log = make_log([[]])
    actions = [DomainMetadata(domain="mine", configuration="1")]
    mine = Transaction(log=log, base=load_snapshot(log), actions=actions, operation="WRITE")
    put_commit(log.env, 1, [DomainMetadata(domain=domain, configuration="2")])
    if conflicts:
        with pytest.raises(ConcurrentTransactionException, match="the metadata domain mine"):
            mine.commit()
    else:
        assert mine.commit() == 2
        assert set(load_snapshot(log).domains) == {"mine", "other"}


def test_a_conflict_says_who_was_first():
    log = make_log([[add("a")]])
    mine = Transaction(
        log=log, base=load_snapshot(log), actions=[Remove(path="a")], operation="DELETE", intent=OVERWRITE
    )
    put_commit(log.env, 1, [CommitInfo({"operation": "MERGE", "timestamp": 0, "userName": "ada"}), Remove(path="a")])
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"version 1: MERGE at 1970-01-01T00:00:00\+00:00 by ada"):
        mine.commit()


@pytest.mark.parametrize(
    ("theirs", "error"),
    [(5, WriteAlreadyRecordedError), (6, WriteAlreadyRecordedError), (4, ConcurrentTransactionException)],
)
def test_a_write_that_another_recorded_meanwhile_is_not_made_twice(theirs, error):
    log = make_log([[add("a")]])
    base = load_snapshot(log)
    actions = [Txn(app_id="app", version=5), add("mine")]
    mine = Transaction(
        log=log, base=base, actions=actions, operation="WRITE", intent=Intent(app_ids={"app"}), txn_app_id="app"
    )
    put_commit(log.env, 1, [Txn(app_id="app", version=theirs), add("theirs")])
    with pytest.raises(error) as caught:
        mine.commit()
    assert type(caught.value) is error
    assert paths(log) == ["a", "theirs"]


def test_an_append_that_was_sent_twice_at_once_is_there_once(monkeypatch):
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    rows = pa.table({"id": [1]})
    table.append(rows)
    plan = planning.plan_write

    def overtaken(*args):
        planned = plan(*args)
        monkeypatch.setattr(arrow_writer, "plan_write", plan)
        assert tahoe.Table(env.store.url, env=env).append(rows, txn=("app", 1)) == 1
        return planned

    monkeypatch.setattr(arrow_writer, "plan_write", overtaken)
    assert table.append(rows, txn=("app", 1)) is None
    assert table.to_arrow().num_rows == 2
    assert len([info for info in env.store.walk() if info.key.endswith(".parquet")]) == 2


def test_under_write_serializable_a_change_of_schema_does_not_go_behind_an_append_of_the_old_one():
    log = make_log([[]])
    level = METADATA.replace(configuration={"delta.isolationLevel": "WriteSerializable"})
    put_commit(log.env, 1, [level, add("a")])
    base = load_snapshot(log)
    actions = [level.replace(schema_string='{"type":"struct","fields":[]}'), Remove(path="a")]
    mine = Transaction(log=log, base=base, actions=actions, operation="CREATE OR REPLACE TABLE", intent=OVERWRITE)
    Transaction(log=log, base=base, actions=[add("theirs")], operation="WRITE").commit()
    with pytest.raises(ConcurrentAppendException):
        mine.commit()


class Watched(Watch):
    """Lets the first so many puts go ahead, and tells what was made."""

    def __init__(self, puts: int) -> None:
        self.puts = puts
        self.made: list[int] = []

    def before_put(self) -> None:
        self.puts -= 1
        if self.puts < 0:
            raise CommandCancelledError(reason="nobody wants it")

    def committed(self, url: str, version: int) -> None:
        self.made.append(version)


def watched(log, puts):
    watch = Watched(puts)
    return replace(log, env=replace(log.env, watch=watch)), watch


def test_a_commit_that_is_not_wanted_any_more_is_not_put():
    log, watch = watched(make_log([[add("a")]]), 0)
    with pytest.raises(CommandCancelledError, match="nobody wants it"):
        append(log, "mine").commit()
    assert paths(log) == ["a"]
    assert watch.made == []


def test_a_commit_is_asked_about_again_when_it_goes_behind_a_winner():
    log, watch = watched(make_log([[add("a")], [add("b")]]), 1)
    with pytest.raises(CommandCancelledError):
        append(log, "mine").commit()
    assert paths(log) == ["a", "b"]
    log, watch = watched(log, 2)
    assert append(log, "mine").commit() == 2
    assert watch.made == [2]


def test_a_transaction_that_is_behind_catches_up_before_it_puts_again(monkeypatch):
    """While it checks a commit, another follows. Only its first put is lost, not one for each of them."""
    log, puts = make_log([[add("a")], [add("b")], [add("c")]]), list[int]()
    read, put = transaction._winner, transaction.put_commit

    def read_slowly(log, version):
        if version < 6:
            put_commit(log.env, version + 2, [add(f"theirs{version}")])
        return read(log, version)

    def counted(env, version, data):
        puts.append(version)
        return put(env, version, data)

    monkeypatch.setattr(transaction, "_winner", read_slowly)
    monkeypatch.setattr(transaction, "put_commit", counted)
    assert append(log, "mine").commit() == 8
    assert puts == [1, 8]
