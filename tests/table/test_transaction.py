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


def planned(log, actions, operation, intent):
    """A write on the newest version, to be committed later."""
    base = load_snapshot(log)
    return Transaction(log=log, base=base, actions=actions, operation=operation, intent=intent).commit


def paths(log):
    return sorted(load_snapshot(log).live.column("path").to_pylist())


@pytest.mark.parametrize(
    ("winners", "faults"),
    [
        pytest.param([[add("b")], [add("c")]], [], id="two appends"),
        pytest.param([[CommitInfo({}), add("b")]], [], id="a commitInfo with nothing known"),
        pytest.param(
            [],
            [Fault(effect=Effect.RAISE_AFTER, operation=Operation.PUT_IF_ABSENT, nth=2)],
            id="itself, whose answer was lost",
        ),
    ],
)
def test_an_append_goes_behind_the_appends_that_won_and_is_made_once(winners, faults):
    log = make_log([[add("a")], *winners], memory_env(faults=FaultPlan(*faults)))
    assert append(log, "mine").commit() == len(winners) + 1
    assert load_snapshot(log).version == len(winners) + 1
    assert paths(log) == [*"abc"[: len(winners) + 1], "mine"]


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


OVERWRITE = Intent(reads=EVERYTHING, removed_paths={"a"})
# What this write does: its actions, its operation and its intent.
READS = [add("mine")], "WRITE", Intent(reads=EVERYTHING)
REPLACES = [Remove(path="a"), add("mine")], "WRITE", OVERWRITE
SETS_DOMAIN = [DomainMetadata(domain="mine", configuration="1")], "WRITE", Intent()


@pytest.mark.parametrize(
    ("mine", "winner", "error", "told"),
    [
        pytest.param(READS, [add("new")], ConcurrentAppendException, "", id="adds what was read"),
        pytest.param(READS, [Remove(path="a")], ConcurrentDeleteReadException, "", id="removes what was read"),
        pytest.param(
            ([add("mine")], "WRITE", Intent()),
            [METADATA.replace(partition_columns=("id",))],
            MetadataChangedException,
            "",
            id="other partition columns",
        ),
        pytest.param(
            ([add("mine")], "WRITE", Intent(app_ids={"app"})),
            [Txn(app_id="app", version=4)],
            ConcurrentTransactionException,
            "",
            id="the same application",
        ),
        pytest.param(
            ([METADATA.replace(name="mine")], "SET TBLPROPERTIES", Intent()),
            [METADATA.replace(description="theirs")],
            MetadataChangedException,
            "which this write changes too",
            id="two changes of metadata",
        ),
        pytest.param(
            REPLACES,
            [Remove(path="a", data_change=False), add("ab", data_change=False)],
            ConcurrentDeleteDeleteException,
            "",
            id="compaction of a file that this write removes",
        ),
        pytest.param(
            SETS_DOMAIN,
            [DomainMetadata(domain="mine", configuration="2")],
            ConcurrentTransactionException,
            "the metadata domain mine",
            id="the same domain",
        ),
        pytest.param(
            ([Remove(path="a")], "DELETE", OVERWRITE),
            [CommitInfo({"operation": "MERGE", "timestamp": 0, "userName": "ada"}), Remove(path="a")],
            ConcurrentDeleteDeleteException,
            r": MERGE at 1970-01-01T00:00:00\+00:00 by ada",
            id="the error says who was first",
        ),
    ],
)
def test_a_winner_that_matters_stops_the_commit_and_nothing_is_written(mine, winner, error, told):
    log = make_log([[add("a"), add("b")]])
    commit = planned(log, *mine)
    put_commit(log.env, 1, winner)
    with pytest.raises(error, match=rf"another writer committed first \(version 1.*{told}"):
        commit()
    assert load_snapshot(log).version == 1
    assert "mine" not in paths(log)


@pytest.mark.parametrize(
    ("mine", "winner", "is_kept"),
    [
        # the reference refuses this: every change of metadata is one to it
        pytest.param(
            REPLACES,
            [
                METADATA.replace(
                    description="why", configuration={"delta.logRetentionDuration": "interval 9 days", "mine": "1"}
                )
            ],
            lambda snapshot: snapshot.metadata.description == "why",
            id="a comment, properties of no effect on rows",
        ),
        # the reference refuses this: the files that compaction adds are files like any other to it
        pytest.param(
            READS,
            [Remove(path="a", data_change=False), Remove(path="b", data_change=False), add("ab", data_change=False)],
            lambda snapshot: {*snapshot.live.column("path").to_pylist()} == {"ab", "mine"},
            id="compaction of the rows that this write has read",
        ),
        pytest.param(
            SETS_DOMAIN,
            [DomainMetadata(domain="other", configuration="2")],
            lambda snapshot: set(snapshot.domains) == {"mine", "other"},
            id="another domain",
        ),
    ],
)
def test_a_winner_that_does_not_matter_does_not_stop_the_commit(mine, winner, is_kept):
    log = make_log([[add("a"), add("b")]])
    commit = planned(log, *mine)
    put_commit(log.env, 1, winner)
    assert commit() == 2
    assert is_kept(load_snapshot(log))


@pytest.mark.parametrize(
    ("later", "faults"),
    [
        pytest.param([[add("b")]], [], id="not only the last"),
        pytest.param(
            [],
            [Fault(effect=Effect.HIDE, operation=Operation.LIST, key="*001.json")],
            id="one that the listing does not show yet",
        ),
    ],
)
def test_every_winner_is_checked(later, faults):
    repartitioned = [METADATA.replace(partition_columns=("id",))]
    log = make_log([[add("a")], repartitioned, *later], memory_env(faults=FaultPlan(*faults)))
    with pytest.raises(MetadataChangedException):
        append(log, "mine").commit()


def test_two_that_make_the_table_at_once_do_not_both_succeed():
    log = make_log([[add("a")]])
    mine = Transaction(log=log, base=None, actions=[PROTOCOL, METADATA, add("b")], operation="CREATE TABLE")
    with pytest.raises((MetadataChangedException, ProtocolChangedException), match="version 0"):
        mine.commit()
    assert paths(log) == ["a"]


@pytest.mark.parametrize(
    ("level", "theirs", "new_schema", "conflicts"),
    [
        pytest.param("Serializable", Intent(), None, True, id="Serializable"),
        pytest.param("WriteSerializable", Intent(), None, False, id="WriteSerializable"),
        pytest.param("WriteSerializable", Intent(reads=EVERYTHING), None, True, id="an append that read the table"),
        pytest.param(
            "WriteSerializable",
            Intent(),
            '{"type":"struct","fields":[]}',
            True,
            id="a change of the schema behind an append with the old one",
        ),
    ],
)
def test_the_isolation_level_says_whether_blind_appends_matter(level, theirs, new_schema, conflicts):
    log = make_log([[]])
    metadata = METADATA.replace(configuration={"delta.isolationLevel": level})
    put_commit(log.env, 1, [metadata, add("a")])
    change = [] if new_schema is None else [metadata.replace(schema_string=new_schema)]
    operation = "CREATE OR REPLACE TABLE" if change else "WRITE"
    mine = planned(log, [*change, Remove(path="a"), add("b")], operation, OVERWRITE)
    assert planned(log, [add("theirs")], "WRITE", theirs)() == 2
    if conflicts:
        with pytest.raises(ConcurrentAppendException):
            mine()
    else:
        assert mine() == 3
        assert log.commit_info(3).fields["isolationLevel"] == "WriteSerializable"
        assert paths(log) == ["b", "theirs"]


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


class Watched(Watch):
    """Lets the first so many puts go ahead, and tells what was made."""

    def __init__(self, puts: int) -> None:
        self.puts = puts
        self.versions: list[int] = []

    def before_put(self) -> None:
        self.puts -= 1
        if self.puts < 0:
            raise CommandCancelledError(reason="nobody wants it")

    def committed(self, url: str, version: int) -> None:
        self.versions.append(version)


def watched(log, puts):
    watch = Watched(puts)
    return replace(log, env=replace(log.env, watch=watch)), watch


def test_a_commit_that_is_not_wanted_any_more_is_not_put():
    log, watch = watched(make_log([[add("a")]]), 0)
    with pytest.raises(CommandCancelledError, match="nobody wants it"):
        append(log, "mine").commit()
    assert paths(log) == ["a"]
    assert watch.versions == []


def test_a_commit_is_asked_about_again_when_it_goes_behind_a_winner():
    log, watch = watched(make_log([[add("a")], [add("b")]]), 1)
    with pytest.raises(CommandCancelledError):
        append(log, "mine").commit()
    assert paths(log) == ["a", "b"]
    log, watch = watched(log, 2)
    assert append(log, "mine").commit() == 2
    assert watch.versions == [2]


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
