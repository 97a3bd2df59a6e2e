"""Several changes in one commit, and what of another writer's commits they can go behind."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    AppendOnlyTableError,
    CheckConstraintViolatedError,
    CommitOutcomeUnknownError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConstraintExistsError,
    InvalidArgumentError,
    InvalidCommitError,
    InvalidOptionError,
    InvalidPredicateError,
    InvalidPropertyError,
    MetadataChangedException,
    SchemaMismatchError,
    UnsupportedOperationError,
)
from tahoe.protocol.log.actions import Add, CommitInfo, DomainMetadata, Remove, Txn, remove_of
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.predicate import And, Column, Comparison, Literal, Unknown
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.transactions.alter import set_properties
from tahoe.table.verify.check import check_version
from tahoe.table.writing.arrow_writer import write_arrow
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env, put_commit

WITH_VECTORS = {"delta.enableDeletionVectors": "true"}


def rows(*ids: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids), pa.string())})


def make(properties=WITH_VECTORS, *, partition_by=None, ids=range(10)) -> tahoe.Table:
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(rows(*ids), properties=properties, partition_by=partition_by)
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table as another writer has it."""
    return tahoe.Table(table.url, env=table.env)


def ids(table: tahoe.Table) -> list[int]:
    assert list(check_version(table.snapshot())) == []
    return sorted(table.to_arrow().column("id").to_pylist())


def only_path(table: tahoe.Table) -> str:
    (path,) = table.files().column("path").to_pylist()
    return path


# --- operations


def test_several_changes_are_one_version():
    table = make()
    with table.transaction(user_metadata="why") as changes:
        assert changes.delete("id < 3") == 3
        assert changes.append(rows(20, 21)) == 1
        changes.set_properties({"owner": "me"})
        changes.set_domain("app.progress", "42")
    assert changes.version == table.version == 1
    assert ids(table) == [3, 4, 5, 6, 7, 8, 9, 20, 21]
    assert table.properties["owner"] == "me"
    assert table.snapshot().domains["app.progress"].configuration == "42"
    newest = table.history()[0]
    assert newest["operation"] == "TRANSACTION"
    assert newest["operationParameters"]["operations"] == '["DELETE","WRITE","SET TBLPROPERTIES","SET DOMAIN"]'
    expected = {
        "numDeletedRows": "3",
        "numOutputRows": "2",
        "numAddedFiles": "1",
        "numFiles": "1",
        "numDeletionVectorsAdded": "1",
    }
    assert newest["operationMetrics"].items() >= expected.items()
    assert newest["isBlindAppend"] is False


def test_where_the_block_fails_nothing_is_left():
    table = make()
    before = [info.key for info in table.env.store.walk()]
    with pytest.raises(ZeroDivisionError), table.transaction() as changes:
        changes.append(rows(20))
        raise ZeroDivisionError
    assert [info.key for info in table.env.store.walk()] == before
    assert table.version == 0


def test_a_file_that_cannot_be_deleted_neither_hides_the_failure_nor_keeps_the_others(caplog):
    table = make()
    before = len(list(table.env.store.walk()))
    faults = FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.DELETE))
    failing = tahoe.Table(table.url, env=replace(table.env, store=MemoryStore(table.url, faults)))
    with pytest.raises(ZeroDivisionError), failing.transaction() as changes:
        changes.append(rows(20))
        changes.append(rows(21))
        raise ZeroDivisionError
    assert len(list(table.env.store.walk())) == before + 1
    assert "left behind" in caplog.text


def test_nothing_to_do_is_no_version():
    table = make()
    with table.transaction() as changes:
        assert changes.delete("id = 99") == 0
    assert changes.version is None
    assert table.version == 0


@pytest.mark.parametrize("properties", [WITH_VECTORS, {}], ids=["vectors", "copies"])
@pytest.mark.parametrize("partition_by", [None, ["p"]])
def test_deleted_rows_are_gone_and_others_stay(properties, partition_by):
    table = make(properties, partition_by=partition_by)
    with table.transaction() as changes:
        assert changes.delete("id in (0, 2, 4) or id = 1") == 4
    assert ids(table) == [3, 5, 6, 7, 8, 9]
    with table.transaction() as changes:
        assert changes.delete("id in (1, 3)") == 1
    with table.transaction() as changes:
        assert changes.delete() == 5
    assert ids(table) == []
    assert table.files().num_rows == 0


def test_a_file_whose_rows_are_all_marked_is_removed():
    table = make()
    with table.transaction() as changes:
        changes.mark_deleted(only_path(table), range(10))
    (remove,) = [a for a in table.log.read_version(1) if isinstance(a, Add | Remove)]
    assert isinstance(remove, Remove)
    assert remove.data_change


def test_a_vector_keeps_the_statistics_and_says_that_they_are_wide():
    table = make()
    with table.transaction() as changes:
        changes.mark_deleted(only_path(table), [0, 9])
    (add,) = table.snapshot().live.adds()
    assert add.deletion_vector.storage_type == "i"
    assert '"numRecords":10' in add.stats
    assert '"tightBounds":false' in add.stats
    assert '"maxValues":{"id":9' in add.stats


def test_large_vectors_of_a_commit_share_one_file():
    table = make(ids=range(100_000))
    table.append(rows(*range(100_000, 200_000)))
    with table.transaction() as changes:
        for path in table.files().column("path").to_pylist():
            assert changes.mark_deleted(path, range(0, 100_000, 7)) == 14_286
    kinds = {add.deletion_vector.storage_type for add in table.snapshot().live.adds()}
    assert kinds == {"u"}
    assert len([info for info in table.env.store.walk() if info.key.endswith(".bin")]) == 1
    assert len(ids(table)) == 200_000 - 2 * 14_286


def test_positions_and_paths_that_are_not_there_are_refused():
    table = make()
    with pytest.raises(InvalidOptionError, match="rows 0 to 9"), table.transaction() as changes:
        changes.mark_deleted(only_path(table), [10])
    with pytest.raises(InvalidOptionError, match="no such file"), table.transaction() as changes:
        changes.remove(["other.parquet"])
    assert table.version == 0


def test_whole_files_can_be_removed():
    table = make()
    table.append(rows(20))
    with table.transaction() as changes:
        changes.remove([next(iter(table.files("id = 20").column("path").to_pylist()))])
    assert ids(table) == list(range(10))


def test_an_append_only_table_loses_no_rows():
    table = make({"delta.appendOnly": "true", **WITH_VECTORS})
    for change in (lambda c: c.delete("id = 1"), lambda c: c.remove([]), lambda c: c.mark_deleted("x", [1])):
        with pytest.raises(AppendOnlyTableError), table.transaction() as changes:
            change(changes)


LAYOUTS = [
    {**vectors, **mapping, "delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
    for vectors in ({}, WITH_VECTORS)
    for mapping in ({}, {"delta.columnMapping.mode": "id"})
]


@pytest.mark.parametrize("partition_by", [None, ["p"]])
@pytest.mark.parametrize("properties", LAYOUTS)
def test_rows_that_stay_are_the_same_rows_and_the_feed_tells_what_comes_and_goes(properties, partition_by):
    table = make(properties, partition_by=partition_by)
    table.append(rows(20, 21, p="b"))
    (whole,) = table.files("id = 20").column("path").to_pylist()
    tracked = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = {row["id"]: tuple(row.values()) for row in table.to_arrow(tracked).to_pylist()}
    with table.transaction() as changes:
        assert changes.delete("id < 3 or id = 7") == 4
        changes.remove([whole])
        changes.append(rows(30, 31, p="c"))
    version = changes.version
    after = {row["id"]: tuple(row.values()) for row in table.to_arrow(tracked).to_pylist()}
    assert {number: row for number, row in after.items() if number < 30} == {n: before[n] for n in (3, 4, 5, 6, 8, 9)}
    assert sorted(after)[-2:] == [30, 31]
    assert len({row[1] for row in after.values()}) == len(after)
    told = table.changes(start_version=version, end_version=version, columns=["id", "p", "_change_type"]).to_pylist()
    gone = [(number, "b" if number >= 20 else "a", "delete") for number in (0, 1, 2, 7, 20, 21)]
    assert sorted(tuple(row.values()) for row in told) == sorted([*gone, (30, "c", "insert"), (31, "c", "insert")])
    assert not [finding for finding in check_version(table) if finding.severity.name == "ERROR"]


def test_a_refused_commit_leaves_no_change_files():
    table = make({"delta.enableChangeDataFeed": "true"})
    kept = [info.key for info in table.env.store.walk()]
    with pytest.raises(ConcurrentDeleteDeleteException), table.transaction() as changes:
        changes.delete("id = 1")
        again(table).append(rows(40))
        with again(table).transaction() as others:
            others.delete("id = 2")
        kept = [info.key for info in table.env.store.walk()]
    assert [info.key for info in table.env.store.walk()] == kept


def test_a_constraint_holds_for_the_rows_that_are_there_and_for_those_that_come():
    table = make()
    with pytest.raises(CheckConstraintViolatedError, match=r"id.*0"), table.transaction() as changes:
        changes.add_constraint("positive", "id > 0")
    with table.transaction() as changes:
        changes.add_constraint("positive", "id >= 0")
    with pytest.raises(CheckConstraintViolatedError, match=r'positive \(id >= 0\).*"id":-1'):
        table.append(rows(1, -1))
    with pytest.raises(CheckConstraintViolatedError, match="null"):
        table.append(pa.table({"id": pa.array([None], pa.int64()), "p": ["a"]}))
    with pytest.raises(ConstraintExistsError, match="id >= 0"), table.transaction() as changes:
        changes.add_constraint("Positive", "id > 5")
    with table.transaction() as changes:
        changes.drop_constraint("POSITIVE")
    table.append(rows(-1))
    assert "checkConstraints" in table.protocol.writer_features


def test_a_constraint_that_only_spark_understands_is_named():
    with (
        pytest.raises(UnsupportedOperationError, match=r"constraint sound \(soundex\(p\) = p\)"),
        make().transaction() as changes,
    ):
        changes.add_constraint("sound", "soundex(p) = p")
    with (
        pytest.raises(UnsupportedOperationError, match="cannot be evaluated: it cannot be parsed at line 1"),
        make().transaction() as changes,
    ):
        changes.add_constraint("broken", "id +")
    with (
        pytest.raises(InvalidArgumentError, match="must be the name of a constraint, not empty"),
        make().transaction() as changes,
    ):
        changes.add_constraint("", "id >= 0")


def test_a_schema_grows_and_nothing_is_lost():
    table = make()
    wider = Struct((Field(name="new", type=STRING), *table.schema))
    with table.transaction() as changes:
        changes.set_schema(wider)
        changes.append(pa.table({"id": [50], "p": ["b"], "new": ["x"]}))
    found = table.to_arrow(["new", "id"], "id >= 9").sort_by("id").to_pylist()
    assert found == [{"new": None, "id": 9}, {"new": "x", "id": 50}]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (Struct((Field(name="id", type=LONG),)), "p would be dropped"),
        (Struct((Field(name="id", type=STRING), Field(name="p", type=STRING))), "id is long and would become string"),
        (Struct((Field(name="id", type=LONG, nullable=False), Field(name="p", type=STRING))), "NOT NULL"),
        (
            Struct(
                (Field(name="id", type=LONG), Field(name="p", type=STRING), Field(name="q", type=LONG, nullable=False))
            ),
            "NOT NULL",
        ),
    ],
)
def test_a_schema_that_the_files_do_not_allow_is_refused(schema, problem):
    table = make()
    with pytest.raises(SchemaMismatchError, match=problem), table.transaction() as changes:
        changes.set_schema(schema)
    assert table.version == 0


def test_mapped_columns_are_dropped_and_renamed():
    table = make({"delta.columnMapping.mode": "name", **WITH_VECTORS})
    number, text = table.schema
    with table.transaction() as changes:
        changes.set_schema(
            Struct((Field(name="key", type=LONG, metadata=number.metadata), Field(name="q", type=STRING)))
        )
    assert table.to_arrow(filter="key = 3").to_pylist() == [{"key": 3, "q": None}]
    assert (
        table.schema.find("q").metadata["delta.columnMapping.physicalName"]
        != text.metadata["delta.columnMapping.physicalName"]
    )


def test_a_type_is_widened_where_the_table_says_so():
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(pa.table({"n": pa.array([1], pa.int32())}), properties={"delta.enableTypeWidening": "true"})
    with table.transaction() as changes:
        changes.set_schema(Struct((Field(name="n", type=LONG),)))
    table.append(pa.table({"n": [1 << 40]}))
    assert table.to_arrow().sort_by("n").to_pylist() == [{"n": 1}, {"n": 1 << 40}]
    assert table.schema.find("n").metadata["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]


def test_domains_of_features_are_closed():
    table = make()
    with pytest.raises(InvalidOptionError, match="belong to"), table.transaction() as changes:
        changes.set_domain("delta.clustering", "{}")
    with pytest.raises(InvalidOptionError, match="no such domain"), table.transaction() as changes:
        changes.set_domain("mine", None)
    with table.transaction() as changes:
        changes.set_domain("mine", "1")
    with table.transaction() as changes:
        changes.set_domain("mine", None)
    assert not table.snapshot().domains


def test_the_protocol_grows_and_never_shrinks():
    table = make({})
    with table.transaction() as changes:
        changes.upgrade_protocol(2, 5)
    assert (table.protocol.reader_version, table.protocol.writer_version) == (2, 5)
    with table.transaction() as changes:
        changes.upgrade_protocol(1, 2, features=["v2Checkpoint"])
    assert "v2Checkpoint" in table.protocol.reader_features
    assert "checkConstraints" in table.protocol.writer_features


def test_an_application_is_recorded_and_not_twice():
    table = make()
    for _ in range(2):
        with table.transaction(txn=("app", 3)) as changes:
            changes.append(rows(30))
    assert table.version == 1
    assert changes.version is None
    assert ids(table) == [*range(10), 30]
    assert table.snapshot().txn_version("app") == 3


def test_the_version_of_an_application_may_be_lowered():
    table = make()
    for version in (5, 2):
        with table.transaction() as changes:
            changes.set_txn("app", version)
        assert table.snapshot().txn_version("app") == version
    with pytest.raises(ConcurrentTransactionException):
        overtaken(table, lambda c: c.set_txn("app", 1), lambda c: c.set_txn("app", 9))


def test_another_applications_version_does_not_swallow_a_write():
    table = make()

    def mine(changes):
        changes.append(rows(100))
        changes.set_txn("shared", 2)

    with pytest.raises(ConcurrentTransactionException), table.transaction(txn=("mine", 1)) as changes:
        mine(changes)
        with again(table).transaction() as others:
            others.set_txn("shared", 2)
    with table.transaction(txn=("mine", 1)) as changes:
        changes.append(rows(100))
        with again(table).transaction(txn=("mine", 1)) as others:
            others.append(rows(100))
    assert changes.version is None
    assert ids(table) == [*range(10), 100]


def test_tracking_and_suspending_rows_exclude_each_other():
    table = make(TRACKED)
    with pytest.raises(InvalidPropertyError, match="only one of them"):
        set_properties(table, {"delta.rowTrackingSuspended": "true"})
    with pytest.raises(InvalidPropertyError):
        make({"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"})


def test_a_foreign_commit_without_its_timestamp_is_named_and_nothing_is_put_on_it():
    table = make({"delta.enableInCommitTimestamps": "true"})
    with (
        pytest.raises(InvalidCommitError, match=r"00000000000000000001\.json.*inCommitTimestamp"),
        table.transaction() as changes,
    ):
        changes.append(rows(20))
        put_commit(table.env, 1, [CommitInfo({"operation": "WRITE"}), Txn(app_id="theirs", version=1)])
    assert len([info for info in table.env.store.walk() if info.key.endswith(".parquet")]) == 1


# --- what several changes in one transaction do to each other


@pytest.mark.parametrize("properties", [WITH_VECTORS, {}], ids=["vectors", "copies"])
def test_several_deletes_add_up(properties):
    table = make(properties)
    with table.transaction() as changes:
        assert (changes.delete("id = 1"), changes.delete("id in (1, 2)"), changes.delete("id = 2")) == (1, 1, 0)
    assert ids(table) == [0, *range(3, 10)]
    with table.transaction() as changes:
        changes.delete("id = 3")
        changes.remove([only_path(table)])
        assert changes.delete("id = 4") == 0
    assert ids(table) == []


@pytest.mark.parametrize("switch", ["true", "false"])
def test_vectors_may_be_switched_between_two_deletes(switch):
    table = make({"delta.enableDeletionVectors": "false" if switch == "true" else "true"})
    with table.transaction() as changes:
        changes.delete("id = 1")
        changes.set_properties({"delta.enableDeletionVectors": switch})
        changes.delete("id = 2")
    assert ids(table) == [0, *range(3, 10)]


def test_what_was_refused_is_not_half_done():
    table = make()
    with table.transaction() as changes:
        changes.add_constraint("positive", "id >= 0")
        with pytest.raises(CheckConstraintViolatedError):
            changes.append(pa.table({"id": [-1], "extra": ["x"]}), merge_schema=True)
        changes.append(rows(20))
    assert list(table.schema.names) == ["id", "p"]
    assert ids(table) == [*range(10), 20]


@pytest.mark.parametrize("properties", [WITH_VECTORS, {}], ids=["vectors", "copies"])
def test_a_delete_behind_a_change_of_the_schema_goes_by_the_new_names(properties):
    table = make({"delta.columnMapping.mode": "name", **properties})
    number, text = table.schema
    with table.transaction() as changes:
        changes.set_schema(Struct((replace(number, name="key"), replace(text, name="id"))))
        assert changes.delete("key = 3 and id = 'a'") == 1
    assert sorted(table.to_arrow().column("key").to_pylist()) == [0, 1, 2, *range(4, 10)]
    assert set(table.to_arrow().column("id").to_pylist()) == {"a"}


def test_a_name_that_is_free_again_is_a_new_column():
    table = make({"delta.columnMapping.mode": "name", **WITH_VECTORS})
    number, text = table.schema
    with table.transaction() as changes:
        changes.set_schema(Struct((replace(number, name="key"), Field(name="id", type=LONG), text)))
    assert table.to_arrow(filter="key = 3").to_pylist() == [{"key": 3, "id": None, "p": "a"}]


def test_a_constraint_looks_at_what_the_transaction_leaves():
    table = make()
    with pytest.raises(CheckConstraintViolatedError), table.transaction() as changes:
        changes.append(rows(-5))
        changes.add_constraint("positive", "id >= 0")
    with table.transaction() as changes:
        changes.delete("id < 3")
        changes.add_constraint("large", "id >= 3")
    assert ids(table) == list(range(3, 10))


def test_a_column_that_a_constraint_names_cannot_go_nor_become_another():
    table = make({"delta.columnMapping.mode": "name"})
    number, text = table.schema
    with table.transaction() as changes:
        changes.add_constraint("positive", "id >= 0")
    swapped = Struct((replace(number, name="p"), replace(text, name="id")))
    anew = Struct((Field(name="id", type=LONG, metadata={"delta.columnMapping.id": 77}), text))
    for schema in (Struct((text,)), Struct((replace(number, name="key"), text)), swapped, anew):
        with pytest.raises(SchemaMismatchError, match="id >= 0 depends on it"), table.transaction() as changes:
            changes.set_schema(schema)


def test_a_field_that_a_constraint_names_cannot_go():
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(pa.table({"s": [{"x": 1, "y": 2}]}), properties={"delta.columnMapping.mode": "name"})
    with table.transaction() as changes:
        changes.add_constraint("positive", "s.x > 0")
    (column,) = table.schema
    smaller = Struct((replace(column, type=Struct(tuple(column.type)[1:])),))
    with pytest.raises(SchemaMismatchError, match=r"s\.x"), table.transaction() as changes:
        changes.set_schema(smaller)


def test_partition_columns_in_files_cannot_begin_where_files_lack_them():
    table = make({"delta.columnMapping.mode": "name"}, partition_by=["p"])
    for begin in (
        lambda c: c.upgrade_protocol(features=["materializePartitionColumns"]),
        lambda c: c.set_properties({"delta.enableIcebergCompatV1": "true"}),
    ):
        with pytest.raises(UnsupportedOperationError, match="do not contain them"), table.transaction() as changes:
            begin(changes)
    with table.transaction() as changes:
        changes.delete()
    with pytest.raises(ConcurrentAppendException), table.transaction() as changes:
        changes.set_properties({"delta.enableIcebergCompatV1": "true"})
        again(table).append(rows(3))
    assert "icebergCompatV1" not in table.protocol.writer_features


def test_a_whole_file_that_is_removed_is_gone_whatever_a_winner_brings_back():
    table = make()
    before = next(iter(table.snapshot().live.adds()))
    with table.transaction() as changes:
        changes.delete("id < 5")
    live = next(iter(table.snapshot().live.adds()))
    with pytest.raises(ConcurrentDeleteDeleteException), table.transaction() as changes:
        changes.remove([live.path])
        put_commit(table.env, 2, [CommitInfo({}), remove_of(live, 1), before])


def test_an_interruption_ends_a_transaction(monkeypatch):
    table = make({})
    table.append(rows(20, 21))
    kept = [info.key for info in table.env.store.walk()]
    with pytest.raises(KeyboardInterrupt), table.transaction() as changes:
        changes.delete("id = 0 or id = 20")
        monkeypatch.setattr(
            "tahoe.table.commit.draft.Transaction", lambda **_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        changes.commit()
    assert [info.key for info in table.env.store.walk()] == kept
    with pytest.raises(UnsupportedOperationError, match="the transaction has ended"):
        changes.commit()


def test_only_what_is_known_to_be_true_is_deleted():
    table = make()
    with pytest.raises(InvalidPredicateError), table.transaction() as changes:
        changes.delete(And((Comparison("<", Column(("id",)), Literal(5)), Unknown("f(id)"))))
    assert ids(table) == list(range(10))


# --- the end of a transaction


@pytest.mark.parametrize("txn", [None, ("app", 1)])
def test_a_transaction_that_was_committed_is_over(txn):
    table = make()
    with table.transaction(txn=txn) as changes:
        changes.append(rows(20))
        assert changes.commit() == 1
        for more in (
            changes.commit,
            lambda: changes.append(rows(1)),
            lambda: changes.delete(),
            lambda: changes.set_domain("a", "b"),
        ):
            with pytest.raises(UnsupportedOperationError, match="the transaction has ended"):
                more()
    with pytest.raises(ZeroDivisionError), table.transaction() as changes:
        changes.append(rows(21))
        changes.commit()
        raise ZeroDivisionError
    assert table.version == 2
    assert ids(table) == [*range(10), 20, 21]


def test_where_nobody_knows_whether_it_was_committed_nothing_is_deleted():
    table = make()
    faults = FaultPlan(
        Fault(effect=Effect.RAISE_AFTER, operation=Operation.PUT_IF_ABSENT, times=9),
        Fault(effect=Effect.RAISE_BEFORE, operation=Operation.GET, key="*001.json", times=9),
    )
    failing = tahoe.Table(table.url, env=replace(table.env, store=MemoryStore(table.url, faults)))
    with pytest.raises(CommitOutcomeUnknownError), failing.transaction() as changes:
        changes.append(rows(20))
        changes.commit()
    assert ids(table) == [*range(10), 20]


def test_a_table_that_was_made_anew_is_not_written_to():
    table = make()
    table.append(rows(20))
    with pytest.raises(MetadataChangedException, match="recreated"), table.transaction() as changes:
        changes.append(rows(21))
        for info in list(table.env.store.walk()):
            table.env.store.delete(info.key)
        again(table).append(rows(1))
    assert again(table).version == 0


# --- conflicts: each of these the reference refuses


def overtaken(table, mine, theirs):
    """Mine begins, theirs is committed, and mine ends."""
    with table.transaction() as changes:
        mine(changes)
        with again(table).transaction() as others:
            theirs(others)
    return changes.version


def test_two_deletes_of_different_rows_of_a_file_both_succeed():
    table = make()
    assert overtaken(table, lambda c: c.delete("id = 1"), lambda c: c.delete("id in (2, 3)")) == 2
    assert ids(table) == [0, 4, 5, 6, 7, 8, 9]
    (add,) = table.snapshot().live.adds()
    assert add.deletion_vector.cardinality == 3


def copy_one(changes):
    assert changes.to_arrow(filter="id = 5").num_rows == 1
    changes.append(rows(500))


# What this writer does, what another one does before it commits, and the conflict, if there is one.
TWO_WRITERS = {
    "deletes that together empty a file": (lambda c: c.delete("id < 4"), lambda c: c.delete("id >= 4"), None),
    "deletes of the same row": (
        lambda c: c.delete("id in (1, 2, 3)"),
        lambda c: c.delete("id in (2, 5)"),
        (ConcurrentDeleteDeleteException, r"1 of the 3 rows .* including row 2"),
    ),
    "a delete in a file that is gone": (
        lambda c: c.delete("id = 1"),
        lambda c: c.remove(c.scan().listing()["path"].to_pylist()),
        (ConcurrentDeleteDeleteException, "it removed"),
    ),
    "statistics exclude the file that is added": (
        lambda c: c.delete("id = 1"),
        lambda c: c.append(rows(50)),
        None,
    ),
    "rows of the file that is added do not match": (
        lambda c: c.delete("id = 2 or id = 55"),
        lambda c: c.append(rows(54, 56)),
        None,
    ),
    "rows of the file that is added match": (
        lambda c: c.delete("id = 3 or id = 55"),
        lambda c: c.append(rows(55)),
        (ConcurrentAppendException, "this write read id = 3 or id = 55"),
    ),
    "a null does not match": (
        lambda c: c.delete("id = 1 or id = 69"),
        lambda c: c.append(pa.table({"id": pa.array([None, 70], pa.int64()), "p": ["a", "a"]})),
        None,
    ),
    "rows that were read and kept": (
        copy_one,
        lambda c: c.delete("id = 5"),
        (ConcurrentDeleteReadException, r"rows of .*, of which this write read some"),
    ),
    "rows that were not read": (copy_one, lambda c: c.delete("id = 6"), None),
    "what was read counts though no row is written": (
        lambda c: c.set_domain("count", str(c.to_arrow(filter="id < 100").num_rows)),
        lambda c: c.append(rows(50)),
        (ConcurrentAppendException, ""),
    ),
    "a domain beside an append": (lambda c: c.set_domain("a", "b"), lambda c: c.append(rows(51)), None),
    "two domains": (lambda c: c.set_domain("a", "1"), lambda c: c.set_domain("b", "1"), None),
    "a domain that both set": (
        lambda c: c.set_domain("a", "2"),
        lambda c: c.set_domain("a", "3"),
        (ConcurrentTransactionException, "the metadata domain a"),
    ),
}


@pytest.mark.parametrize(("mine", "theirs", "conflict"), TWO_WRITERS.values(), ids=TWO_WRITERS)
def test_two_writers_leave_what_one_after_the_other_would_or_the_second_leaves_nothing(mine, theirs, conflict):
    def state(table):
        assert list(check_version(table.snapshot())) == []
        domains = {name: domain.configuration for name, domain in table.snapshot().domains.items()}
        return sorted(map(str, table.to_arrow()["id"].to_pylist())), len(table.files()), domains

    table, expected = (make({"delta.feature.domainMetadata": "supported", **WITH_VECTORS}) for _ in range(2))
    for change in [theirs] if conflict else [theirs, mine]:
        with expected.transaction() as changes:
            change(changes)
    if conflict:
        error, told = conflict
        with pytest.raises(error, match=f".*{told}"):
            overtaken(table, mine, theirs)
        assert not [info for info in table.env.store.walk() if info.key.endswith(".bin")]
    else:
        assert overtaken(table, mine, theirs) == 2
    assert state(table) == state(expected)


def test_a_conflict_is_told_where_what_was_written_cannot_be_deleted(caplog):
    table, scattered = (
        make(ids=range(1000)),
        f"id in ({', '.join(map(str, range(0, 1000, 3)))})",
    )  # a vector of its own file
    faults = FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.DELETE, times=9))
    mine = tahoe.Table(table.url, env=replace(table.env, store=MemoryStore(table.url, faults)))
    with pytest.raises(ConcurrentDeleteDeleteException), mine.transaction() as changes:
        changes.delete(scattered)
        with again(table).transaction() as others:
            others.delete("id = 0")
    assert "left behind" in caplog.text


def test_a_writer_that_was_second_is_not_second_again_for_having_waited():
    """Who wins while it waits would win the next attempt too, if it looked at the log before it waits."""
    table = make()
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) < 50:
            again(table).append(rows(100 + len(pauses)))

    slow = tahoe.Table(table.url, env=replace(table.env, sleep=sleep))
    with slow.transaction() as changes:
        changes.append(rows(20))
        again(table).append(rows(100))
    assert len(pauses) == 1
    assert changes.version == 3


def test_rows_that_come_back_are_rows_that_are_added():
    table = make()
    with table.transaction() as changes:
        changes.delete("id in (1, 2)")
    before = next(iter(table.snapshot(0).live.adds()))

    def restore(version):
        live = next(iter(table.snapshot().live.adds()))
        remove = Remove(
            path=live.path, deletion_vector=live.deletion_vector, partition_values={}, size_bytes=live.size_bytes
        )
        put_commit(table.env, version, [CommitInfo({}), remove, before])

    with pytest.raises(ConcurrentAppendException, match="restored rows"), table.transaction() as mine:
        mine.delete("id = 2 or id = 4")
        restore(2)


def test_a_change_of_a_property_does_not_stop_a_delete():
    table = make()
    with table.transaction() as changes:
        changes.delete("id = 1")
        set_properties(again(table), {"owner": "them", "delta.logRetentionDuration": "interval 5 days"})
    assert table.properties["owner"] == "them"
    assert 1 not in ids(table)
    with pytest.raises(MetadataChangedException, match=r"delta\.appendOnly"), table.transaction() as changes:
        changes.delete("id = 2")
        set_properties(again(table), {"delta.appendOnly": "true"})


@pytest.mark.parametrize("with_vector", [False, True])
def test_a_remove_that_does_not_tell_its_partition_may_be_of_any(with_vector):
    table = make(partition_by=["p"])
    (live,) = table.snapshot().live.adds()
    with pytest.raises(ConcurrentDeleteReadException), table.transaction() as changes:
        changes.append(rows(changes.to_arrow(filter="p = 'a' and id > 3").num_rows, p="b"))
        marked = live.replace(deletion_vector=inline_descriptor([5]))
        put_commit(table.env, 1, [CommitInfo({}), Remove(path=live.path), *([marked] if with_vector else [])])


# --- row tracking

TRACKED = {"delta.enableRowTracking": "true", **WITH_VECTORS}


def row_ids(table: tahoe.Table) -> list[tuple[int, int, int]]:
    """First id, last id and commit version of each file, by first id."""
    adds = table.snapshot().live.adds()
    return sorted(
        (a.base_row_id, a.base_row_id + json.loads(a.stats)["numRecords"] - 1, a.default_row_commit_version)
        for a in adds
    )


def mark_of(table: tahoe.Table) -> str:
    return table.snapshot().domains["delta.rowTracking"].configuration


def test_new_files_get_row_ids_that_nobody_else_has():
    table = make(TRACKED)
    table.append(rows(10, 11, 12))
    assert row_ids(table) == [(0, 9, 0), (10, 12, 1)]
    assert mark_of(table) == '{"rowIdHighWaterMark":12}'
    assert overtaken(table, lambda c: c.append(rows(1, 2)), lambda c: c.append(rows(3))) == 3
    assert row_ids(table) == [(0, 9, 0), (10, 12, 1), (13, 13, 2), (14, 15, 3)]
    assert {name for name in table.properties if "materialized" in name} == {
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }


def test_marked_files_keep_their_row_ids():
    table = make(TRACKED)
    table.append(rows(10))
    with table.transaction() as changes:
        changes.delete("id = 3")
    assert row_ids(table) == [(0, 9, 0), (10, 10, 1)]
    assert mark_of(table) == '{"rowIdHighWaterMark":10}'


def test_files_that_were_there_get_ids_when_tracking_begins():
    table = make()
    table.append(rows(10, 11))
    set_properties(table, {"delta.enableRowTracking": "true"})
    assert [version for _, _, version in row_ids(table)] == [2, 2]
    assert [number for first, last, _ in row_ids(table) for number in range(first, last + 1)] == list(range(12))
    assert ids(table) == [*range(10), 10, 11]
    with pytest.raises(ConcurrentAppendException, match="every file of the table"), make().transaction() as changes:
        changes.set_properties({"delta.enableRowTracking": "true"})
        again(changes.table).append(rows(99))


@pytest.mark.parametrize("begins", [True, False], ids=["begins", "ends"])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_of_a_file_may_go_in_the_commit_in_which_tracking_begins_or_ends(vectors, begins):
    """The commit named such a file twice, and was refused; or the file kept row ids without row tracking."""
    table = make({"delta.enableDeletionVectors": vectors, **({} if begins else TRACKED)})
    table.append(rows(10, 11))
    with table.transaction() as changes:
        changes.delete("id IN (3, 11)")
        changes.set_properties({"delta.enableRowTracking": str(begins).lower()})
        if not begins:
            changes.drop_feature("rowTracking")
        changes.append(rows(12))
        (last,) = changes.scan("id = 10").listing()["path"].to_pylist()
        changes.remove([last])
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 12]
    assert all((add.base_row_id is None) != begins for add in table.snapshot().live.adds())
    if begins:
        assert len(set(table.to_arrow(columns=["_metadata.row_id"])["_metadata.row_id"].to_pylist())) == 10


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_files_that_come_while_tracking_begins_are_not_passed_over(level):
    def compact(table):
        data = table.to_arrow()
        request = WriteRequest(mode="overwrite", schema=table.schema, data_change=False)
        write_arrow(again(table), data, request)

    for winner in (compact, lambda table: again(table).append(rows(99))):
        table = make({"delta.isolationLevel": level})
        table.append(rows(50))
        with pytest.raises(ConcurrentAppendException), table.transaction() as changes:
            changes.set_properties({"delta.enableRowTracking": "true"})
            winner(table)
        assert len(set(ids(table))) == len(ids(table))


def test_tracking_that_begins_on_an_empty_table_is_not_passed_by_an_append():
    table = make(ids=[])
    with pytest.raises(ConcurrentAppendException), table.transaction() as changes:
        changes.set_properties({"delta.enableRowTracking": "true"})
        again(table).append(rows(7))
    set_properties(table, {"delta.enableRowTracking": "true"})
    assert table.history()[0]["isBlindAppend"] is False


def test_a_suspended_table_gives_no_ids():
    table = make(TRACKED)
    set_properties(table, {"delta.rowTrackingSuspended": "true", "delta.enableRowTracking": "false"})
    table.append(rows(10))
    assert [a.base_row_id for a in table.snapshot().live.adds()].count(None) == 1


def test_what_the_log_says_is_what_a_new_reader_sees():
    table = make(TRACKED)
    with table.transaction() as changes:
        changes.delete("id = 3")
        changes.set_domain("mine", "1")
    fresh = load_snapshot(again(table).log, by_checksum=False)
    assert fresh.domains.keys() == {"mine", "delta.rowTracking"}
    assert isinstance(fresh.domains["mine"], DomainMetadata)
