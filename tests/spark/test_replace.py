"""replaceWhere on any column: the rows that match go, those of the data come, in one version."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe import DeltaTable, Table
from tahoe.errors import ConcurrentAppendException, ReplaceWhereMismatchError
from tahoe.spark.dml.row_changes import RowChange
from tahoe.table.verify.check import check_version
from tests.spark.builders import COPIES, VECTORS, data_files, ids, make


@pytest.fixture(params=["vectors", "copies"])
def mode(request: pytest.FixtureRequest) -> Mapping[str, str]:
    return VECTORS if request.param == "vectors" else COPIES


def overwrite(frame: DataFrame, path: str, predicate: str) -> None:
    frame.write.format("delta").mode("overwrite").option("replaceWhere", predicate).save(path)


@pytest.mark.parametrize("predicate", ["id >= 5 and id < 8", "string(id) in ('5', '6', '7')"])
def test_rows_are_replaced(spark: SparkSession, path: str, mode: Mapping[str, str], predicate: str) -> None:
    make(spark.range(0, 10, 1, 2).selectExpr("id", "0 as v"), path, mode)
    overwrite(spark.range(5, 7).selectExpr("id", "1 as v"), path, predicate)
    found = Table(path).to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [
        *((n, 0) for n in range(5)),
        (5, 1),
        (6, 1),
        (8, 0),
        (9, 0),
    ]
    last = DeltaTable.forPath(spark, path).history(1).collect()[0]
    assert (last.version, last.operation, last.operationParameters["predicate"]) == (1, "WRITE", predicate)
    assert last.operationMetrics["numDeletedRows"] == "3"
    assert list(check_version(Table(path).snapshot())) == []


TRACKED = {"delta.enableRowTracking": "true"}


@pytest.mark.parametrize("feed", ["false", "true"])
def test_the_rows_that_stay_keep_their_ids(spark: SparkSession, path: str, mode: Mapping[str, str], feed: str) -> None:
    make(spark.range(0, 10, 1, 2), path, {**mode, **TRACKED, "delta.enableChangeDataFeed": feed})
    overwrite(spark.range(5, 7), path, "string(id) in ('5', '6', '7')")
    spark.range(6, 8).write.format("delta").mode("overwrite").option("replaceUsing", "id").save(path)
    source = spark.range(8, 12)
    DeltaTable.forPath(spark, path).alias("t").merge(
        source.alias("s"), "s.id = t.id"
    ).whenNotMatchedInsertAll().execute()
    rows = spark.read.format("delta").load(path).select("id", "_metadata.row_id", "_metadata.row_commit_version")
    found = {row.id: (row.row_id, row.row_commit_version) for row in rows.collect()}
    assert {number: found[number] for number in (*range(5), 8, 9)} == {
        number: (number, 0) for number in (*range(5), 8, 9)
    }
    assert {number: found[number][1] for number in (5, 6, 7, 10, 11)} == {5: 1, 6: 2, 7: 2, 10: 3, 11: 3}
    assert len({row_id for row_id, _ in found.values()}) == len(found) == 12
    assert list(check_version(Table(path).snapshot())) == []


def test_rows_that_do_not_match_are_refused(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    make(spark.range(10), path, mode)
    before = data_files(path)
    with pytest.raises(ReplaceWhereMismatchError, match="20"):
        overwrite(spark.range(20, 21, 1, 1), path, "id < 5")
    with pytest.raises(AnalysisException, match="nope"):
        overwrite(spark.range(1), path, "upper(nope) = 'X'")
    assert (data_files(path), ids(path)) == (before, list(range(10)))


def test_the_change_feed_tells_both(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    make(spark.range(0, 10, 1, 1), path, {**mode, "delta.enableChangeDataFeed": "true"})
    overwrite(spark.range(0, 2), path, "id < 3")
    changes = Table(path).changes(start_version=1).to_pylist()
    told = sorted((row["_change_type"], row["id"]) for row in changes)
    assert told == [("delete", 0), ("delete", 1), ("delete", 2), ("insert", 0), ("insert", 1)]


def test_a_statement_may_say_it(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    make(spark.range(10).selectExpr("id", "id % 2 as part"), path, mode, "part")
    spark.range(3, 4).selectExpr("id", "id % 2 as part").writeTo(f"delta.`{path}`").overwrite(
        F.expr("id > 2 and part = 1")
    )
    assert ids(path) == [0, 1, 2, 3, 4, 6, 8]


def test_a_row_that_another_writer_adds_meanwhile_is_a_conflict_where_it_matches(
    spark: SparkSession, path: str, mode: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(spark.range(10), path, mode)
    commit = RowChange.commit

    def after_another(self: RowChange, *arguments: object, **named: object) -> int | None:
        monkeypatch.setattr(RowChange, "commit", commit)
        spark.range(2, 3).write.format("delta").mode("append").save(path)
        return commit(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(RowChange, "commit", after_another)
    with pytest.raises(ConcurrentAppendException):
        overwrite(spark.range(0, 1), path, "id < 5")
    monkeypatch.setattr(RowChange, "commit", after_another)
    overwrite(spark.range(7, 8), path, "id > 5")
    assert sorted(ids(path)) == [0, 1, 2, 2, 2, 3, 4, 5, 7]
