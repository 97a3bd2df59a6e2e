"""DELETE and UPDATE by examples; `test_dml_model` has the random ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe import DeltaTable, Table
from tahoe.errors import (
    AppendOnlyTableError,
    CheckConstraintViolatedError,
    ColumnNotFoundError,
    ConcurrentDeleteDeleteException,
    ConflictingAssignmentsError,
    DeltaConcurrentModificationException,
    InvalidPredicateError,
    NotNullViolationError,
    WriteFailedError,
)
from tahoe.spark.dml.row_changes import RowChange
from tahoe.spark.reading import positions
from tahoe.table.commit import transaction
from tahoe.table.verify.check import check_version
from tests import sample
from tests.spark.builders import COPIES, VECTORS, data_files, ids, make


@pytest.fixture(params=["vectors", "copies"])
def mode(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """Each test runs on a table with deletion vectors and on one whose files are written again."""
    return VECTORS if request.param == "vectors" else COPIES


def numbers(spark: SparkSession, path: str, properties: Mapping[str, str], files: int = 2) -> DeltaTable:
    """The ids 0 to 9 with their squares as text, and a struct."""
    rows = spark.range(0, 10, 1, files).selectExpr(
        "id", "string(id * id) as text", "named_struct('a', id, 'b', 'x') as pair"
    )
    return make(rows, path, properties)


def last_commit(path: str) -> list[dict[str, Any]]:
    newest = max(Path(path, "_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


# --- DELETE


@pytest.mark.parametrize("condition", [None, "p = 0", "p = 0 OR p IS NULL", "p < 1 AND NOT p = 5"])
def test_a_delete_of_whole_partitions_opens_no_file(
    spark: SparkSession, tmp_path: Path, mode: Mapping[str, str], condition: str | None
) -> None:
    """A partition with missing files can be dropped."""
    path = str(tmp_path / "t")
    table = make(spark.range(6).selectExpr("id", "id % 2 AS p"), path, mode, "p")
    lost = Table(path).scan(condition).column("path").to_pylist()
    for name in lost:
        (Path(path) / name).unlink()
    table.delete(condition)
    assert ids(path) == ([] if condition is None else [1, 3, 5])
    assert Table(path).history()[0]["operationMetrics"]["numDeletedRows"] == ("6" if condition is None else "3")


def test_delete_takes_the_rows_for_which_the_condition_is_true(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    table = numbers(spark, path, mode)
    assert table.delete("id % 3 = 1").collect()[0].num_affected_rows == 3
    assert ids(path) == [0, 2, 3, 5, 6, 8, 9]
    assert list(check_version(Table(path).snapshot())) == []


def test_a_deletion_with_vectors_writes_no_data_file(spark: SparkSession, path: str) -> None:
    # a GDPR delete of one row in a large table must cost what the row costs
    table = numbers(spark, path, VECTORS)
    before = data_files(path)
    table.delete("id = 4")
    assert data_files(path) == before
    assert {a["add"]["deletionVector"]["cardinality"] for a in last_commit(path) if "add" in a} == {1}


def test_rows_for_which_the_condition_is_null_stay(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    make(spark.sql("select * from values (1, 'a'), (2, null) as t(id, text)"), path, mode).delete("text != 'b'")
    assert ids(path) == [2]


def test_delete_without_a_condition_takes_everything(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    assert numbers(spark, path, mode).delete().collect()[0].num_affected_rows == 10
    assert ids(path) == []


def test_a_condition_on_partitions_reads_no_data(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = make(spark.range(10).selectExpr("id", "id % 3 as part"), path, mode, "part")
    for file in Path(path).rglob("*.parquet"):  # whoever opened one would fail
        if "_delta_log" not in file.parts:
            file.write_bytes(b"")
    assert table.delete("part = 1").collect()[0].num_affected_rows == 3
    assert all("add" not in action for action in last_commit(path))
    assert {f["partition_values"]["part"] for f in Table(path).snapshot().files().to_pylist()} == {0, 2}


def test_a_python_function_in_the_condition_decides_row_by_row(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    # Spark takes such functions out of the filters that it tells a source of: a table must not take what is left for
    # the condition
    table = make(spark.range(10).selectExpr("id", "id % 3 as part"), path, mode, "part")
    table.delete(F.udf(lambda value: value == 4, "boolean")(F.col("id")))
    assert ids(path) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("id IN (SELECT id FROM other)", [0, 1, 2, 6, 7, 8, 9]),
        ("id NOT IN (SELECT id FROM other)", [3, 4, 5]),
        ("EXISTS (SELECT 1 FROM other WHERE other.id = t.id + 1)", [0, 1, 5, 6, 7, 8, 9]),
        ("id > (SELECT max(id) FROM other) OR id = 0", [1, 2, 3, 4, 5]),
        ("id = (SELECT max(o.id) FROM other o WHERE o.id % 2 = t.id % 2)", [0, 1, 2, 3, 6, 7, 8, 9]),
    ],
)
def test_conditions_may_hold_subqueries(
    spark: SparkSession, path: str, mode: Mapping[str, str], condition: str, left: list[int]
) -> None:
    spark.range(3, 6).createOrReplaceTempView("other")
    numbers(spark, path, mode).alias("t").delete(condition)
    assert ids(path) == left


def test_a_file_whose_rows_are_all_gone_is_removed(spark: SparkSession, path: str) -> None:
    table = numbers(spark, path, VECTORS)
    table.delete("id < 3")
    table.delete("id >= 3 and id < 5")
    assert len(Table(path).snapshot().live) == 1


def test_nothing_found_makes_no_version(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = numbers(spark, path, mode)
    assert table.delete("id = 100").collect()[0].num_affected_rows == 0
    assert table.update("id = 100", {"text": "'x'"}).collect()[0].num_affected_rows == 0
    assert Table(path).version == 0


# --- UPDATE


def test_update_computes_values_from_those_before(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = numbers(spark, path, mode).alias("t")
    table.update("t.id >= 8", {"id": "t.id + 100", "TEXT": F.concat(F.lit("was "), F.col("t.id"))})
    assert ids(path) == [0, 1, 2, 3, 4, 5, 6, 7, 108, 109]
    assert Table(path).to_arrow(["text"], filter="id > 100")["text"].to_pylist() == ["was 8", "was 9"]
    assert list(check_version(Table(path).snapshot())) == []


def test_update_of_a_field_leaves_the_others(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = numbers(spark, path, mode)
    table.update("id = 3", {"pair.b": "'y'"})
    assert Table(path).to_arrow(["pair"], filter="id = 3")["pair"].to_pylist() == [{"a": 3, "b": "y"}]
    table.update("id = 3", {"pair": "null"})
    table.update("id = 3", {"pair.a": "7"})
    assert Table(path).to_arrow(["pair"], filter="id = 3")["pair"].to_pylist() == [{"a": 7, "b": None}]


def test_update_moves_rows_between_partitions(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    make(spark.range(6).selectExpr("id", "id % 2 as part"), path, mode, "part").update("id < 3", {"part": "7"})
    files = Table(path).snapshot().files("part = 7")
    assert sum(Table(path).to_arrow(filter="part = 7")["id"].to_pylist()) == 3
    assert files.num_rows >= 1


def test_update_of_every_row(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    assert numbers(spark, path, mode).update(set={"id": "-id"}).collect()[0].num_affected_rows == 10
    assert ids(path) == list(range(-9, 1))


def test_values_may_hold_subqueries(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    spark.range(5).createOrReplaceTempView("other")
    numbers(spark, path, mode).update("id = 1", {"id": "(SELECT sum(id) FROM other)"})
    assert ids(path) == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]


# --- what is refused, before any work


@pytest.mark.parametrize(
    ("command", "error", "told"),
    [
        (lambda t: t.delete("nope = 1"), AnalysisException, "nope"),
        (lambda t: t.delete("id"), AnalysisException, "BOOLEAN"),
        (lambda t: t.delete("rand() > 0.5"), InvalidPredicateError, "not deterministic"),
        (lambda t: t.delete("sum(id) > 3"), AnalysisException, "sum"),
        (lambda t: t.update("id = 1", {"txt": "'x'"}), ColumnNotFoundError, "it has text"),
        (lambda t: t.update("id = 1", {"pair.c": "'x'"}), ColumnNotFoundError, "pair.c"),
        (lambda t: t.update("id = 1", {"text": "'x'", "TEXT": "'y'"}), ConflictingAssignmentsError, "text and TEXT"),
        (lambda t: t.update("id = 1", {"pair": "null", "pair.a": "1"}), ConflictingAssignmentsError, "pair and pair.a"),
        (
            lambda t: t.update("id = 1", {"id": "'x'"}),
            WriteFailedError,
            r"value x for column id of \S+ does not fit in long",
        ),
        (lambda t: t.update("id = 1", {"text": "max(text)"}), AnalysisException, "GROUP BY"),
        (lambda t: t.update("id = 1"), ValueError, "'set' cannot be None"),
        (lambda t: t.update("id = 1", {"text": 3}), TypeError, "Values of dict in 'set'"),
        (lambda t: t.delete(3), TypeError, "'condition' must be"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession, path: str, command: Callable[[DeltaTable], Any], error: type[Exception], told: str
) -> None:
    table = numbers(spark, path, VECTORS)
    before = data_files(path)
    with pytest.raises(error, match=told):
        command(table)
    assert data_files(path) == before
    assert Table(path).version == 0


def test_a_table_that_only_takes_appends_refuses(spark: SparkSession, path: str) -> None:
    table = numbers(spark, path, {"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyTableError):
        table.delete("id = 1")
    with pytest.raises(AppendOnlyTableError):
        table.update("id = 1", {"id": "2"})


def test_a_row_that_breaks_a_rule_leaves_nothing_behind(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    DeltaTable.create(spark).location(path).addColumn("id", "long", nullable=False).property(
        "delta.enableDeletionVectors", mode.get("delta.enableDeletionVectors", "false")
    ).execute()
    spark.range(10).write.format("delta").mode("append").save(path)
    with Table(path).transaction() as changes:
        changes.add_constraint("small", "id < 100")
    before, version = data_files(path), Table(path).version
    table = DeltaTable.forPath(spark, path)
    with pytest.raises(CheckConstraintViolatedError, match=r"small.*109"):
        table.update("id = 9", {"id": "id + 100"})
    with pytest.raises(NotNullViolationError, match="id"):
        table.update("id = 9", {"id": "null"})
    assert (data_files(path), Table(path).version) == (before, version)


# --- what is recorded


def test_the_history_tells_the_condition_and_the_counts(spark: SparkSession, path: str) -> None:
    table = numbers(spark, path, VECTORS)
    table.delete("id = 4")
    table.update("id > 7", {"text": "'x'"})
    updated, deleted = table.history(2).collect()
    assert (deleted.operation, deleted.operationParameters) == ("DELETE", {"predicate": '["(id = CAST(4 AS BIGINT))"]'})
    assert deleted.operationMetrics["numDeletedRows"] == "1"
    assert deleted.operationMetrics["numDeletionVectorsAdded"] == "1"
    assert deleted.isBlindAppend is False
    assert (updated.operation, updated.operationMetrics["numUpdatedRows"]) == ("UPDATE", "2")


def test_a_command_is_run_once_for_an_application_and_its_version(spark: SparkSession, path: str) -> None:
    table = numbers(spark, path, VECTORS)
    spark.conf.set("spark.databricks.delta.write.txnAppId", "job")
    spark.conf.set("spark.databricks.delta.write.txnVersion", "1")
    try:
        table.update("id = 1", {"id": "id + 100"})
        table.update("id = 101", {"id": "id + 100"})
    finally:
        spark.conf.unset("spark.databricks.delta.write.txnAppId")
        spark.conf.unset("spark.databricks.delta.write.txnVersion")
    assert ids(path)[-1] == 101


# --- rows keep what they are


@pytest.mark.parametrize("partitions", [(), ("part",)])
def test_row_ids_stay_with_their_rows(
    spark: SparkSession, path: str, mode: Mapping[str, str], partitions: tuple[str, ...]
) -> None:
    rows = spark.range(0, 20, 1, 2).selectExpr("id", "id % 2 as part", "id as was")
    table = make(rows, path, {**mode, "delta.enableRowTracking": "true"}, *partitions)
    given = {r.was: r.row_id for r in table.toDF().selectExpr("was", "_metadata.row_id").collect()}
    table.update("was % 5 = 0", {"id": "-1"})
    table.delete("was % 4 = 1")
    found = (
        table.toDF().selectExpr("was", "id", "_metadata.row_id", "_metadata.row_commit_version as version").collect()
    )
    assert {r.was: r.row_id for r in found} == {was: number for was, number in given.items() if was % 4 != 1}
    assert {r.version for r in found if r.id == -1} == {1}
    assert {r.version for r in found if r.id != -1} == {0}
    assert list(check_version(Table(path).snapshot())) == []


# --- beside other writers


def test_a_row_that_another_writer_deleted_meanwhile_is_a_conflict(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = numbers(spark, path, VECTORS, files=1)
    _meanwhile(monkeypatch, path, "id = 4")
    with pytest.raises(ConcurrentDeleteDeleteException):
        table.update("id = 4", {"text": "'x'"})
    assert data_files(path) == {str(f) for f in _live(path)}


def test_other_rows_of_the_same_file_are_no_conflict(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = numbers(spark, path, VECTORS, files=1)
    _meanwhile(monkeypatch, path, "id = 5")
    table.update("id = 4", {"id": "104"})
    assert ids(path) == [0, 1, 2, 3, 6, 7, 8, 9, 104]


def _live(path: str) -> list[str]:
    return Table(path).snapshot().live.column("path").to_pylist()


def _meanwhile(monkeypatch: pytest.MonkeyPatch, path: str, condition: str) -> None:
    """Just before Spark's session commits, another writer deletes rows."""
    commit = RowChange.commit

    def after_another(self: RowChange, *arguments: Any, **named: Any) -> None:
        with Table(path).transaction() as changes:
            changes.delete(condition)
        commit(self, *arguments, **named)

    monkeypatch.setattr(RowChange, "commit", after_another)


def test_many_threads_change_rows_of_one_file(spark: SparkSession, path: str) -> None:
    # the reference lets 10 of 80 of these through
    make(spark.range(0, 80, 1, 1).selectExpr("id", "0 as state"), path, VECTORS)
    steps, failures = sample.part(range(10), 2), list[Exception]()

    def work(thread: int) -> None:
        table = DeltaTable.forPath(spark, path)
        for step in steps:
            row = thread * 10 + step
            try:
                if step % 4 == 0:
                    table.update(f"id = {row}", {"state": "1"})
                else:
                    table.delete(f"id = {row}")
            except DeltaConcurrentModificationException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = Table(path).to_arrow().to_pylist()
    updated = [row for row in range(80) if row % 10 in steps and row % 10 % 4 == 0]
    deleted = [row for row in range(80) if row % 10 in steps and row % 10 % 4 != 0]
    assert {row["id"]: row["state"] for row in rows} == {
        row: int(row in updated) for row in range(80) if row not in deleted
    }


# --- what is easily got wrong


def test_a_partition_column_may_be_spelled_otherwise(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = make(spark.range(10).selectExpr("id", "id % 3 as part"), path, mode, "part")
    assert table.delete("PART = 1").collect()[0].num_affected_rows == 3
    assert ids(path) == [0, 2, 3, 5, 6, 8, 9]


def test_a_condition_that_is_another_one_later_loses_no_row(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    rows = "id", "current_timestamp() + make_interval(0, 0, 0, 0, 0, 0, id / 4) as expires"
    table = make(spark.range(40).selectExpr(*rows), path, mode)
    table.update("expires > current_timestamp()", {"expires": "null"})
    assert ids(path) == list(range(40))


def test_another_session_time_zone_finds_the_same_files(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    # the files of a version are in another order once its log is compacted, and a table is opened anew for another zone
    for number in range(6):
        spark.range(number * 10, number * 10 + 2).write.format("delta").options(**mode).mode("append").save(path)
    table = DeltaTable.forPath(spark, path)
    Table(path).compact_logs(1, 4)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table.delete("id = 11")
        table.update("id = 31", {"id": "99"})
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert ids(path) == [0, 1, 10, 20, 21, 30, 40, 41, 50, 51, 99]


@pytest.mark.parametrize("value", ["explode(array(1L, 2L))", "max(id)", "row_number() over (order by id)"])
def test_values_are_made_of_one_row(spark: SparkSession, path: str, mode: Mapping[str, str], value: str) -> None:
    make(spark.range(4), path, mode)
    with pytest.raises(AnalysisException):
        DeltaTable.forPath(spark, path).update(set={"id": value})
    assert ids(path) == [0, 1, 2, 3]


def test_an_interrupt_while_the_commit_is_sent_deletes_nothing(
    spark: SparkSession, path: str, mode: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = numbers(spark, path, mode)
    put = transaction.put_commit

    def interrupted(*arguments: Any) -> Any:
        put(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(transaction, "put_commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.update("id = 4", {"id": "104"})
    monkeypatch.undo()
    assert ids(path) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 104]


def test_many_positions_go_as_bitmaps(
    spark: SparkSession, path: str, mode: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # what large tables do, on a table that is large enough to have several bitmaps a file
    monkeypatch.setattr(positions, "LISTED_ROWS_MAX", 0)
    monkeypatch.setattr(positions, "_COMPARED_MAX", 0)
    table = make(spark.range(0, 300_000, 1, 2).selectExpr("id", "0 as state"), path, mode)
    table.delete("id % 3 = 0")
    table.update("id % 5 = 1", {"state": "1"})
    new = spark.range(0, 400_000, 7).selectExpr("id", "2 as state").alias("s")
    table.alias("t").merge(new, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll(
        "s.id >= 300000"
    ).execute()
    rows = Table(path).to_arrow().to_pydict()
    expected = {n: 2 if n % 7 == 0 else int(n % 5 == 1) for n in range(300_000) if n % 3}
    assert dict(zip(rows["id"], rows["state"], strict=True)) == {
        **expected,
        **dict.fromkeys(range(300_006, 400_000, 7), 2),
    }
    assert len(rows["id"]) == len(set(rows["id"]))


def test_the_change_feed_tells_what_was_done(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = numbers(spark, path, {**mode, "delta.enableChangeDataFeed": "true"}, files=1)
    table.delete("id = 3")
    table.update("id = 4", {"id": "104"})
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    told = sorted((r._commit_version, r._change_type, r.id) for r in feed.collect())
    assert told == [(1, "delete", 3), (2, "update_postimage", 104), (2, "update_preimage", 4)]
