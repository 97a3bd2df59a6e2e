"""OPTIMIZE in Spark: the statement, the builder, the settings, and who rewrites the files. What it does to files:
tests/table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tahoe.spark.layout import optimize
from tahoe.table.verify.check import check_version


@pytest.fixture
def small_files(spark: SparkSession, path: str) -> str:
    """Twenty rows in ten files, of two partitions."""
    rows = spark.range(20).selectExpr(
        "id", "concat('s', id) as s", "cast(id % 2 as int) as p", "if(id = 3, double('nan'), id / 7) as x"
    )
    rows.repartition(5).write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true").save(path)
    return path


def rows(spark: SparkSession, path: str) -> list[Row]:
    return sorted(spark.read.format("delta").load(path).where("not isnan(x)").collect())


def live(path: str, where: str | None = None) -> int:
    return int(Table(path).files(where).num_rows)


def test_the_statement_compacts_and_answers_with_metrics(spark: SparkSession, small_files: str) -> None:
    spark.sql(f"delete from delta.`{small_files}` where id = 6")
    before, files = rows(spark, small_files), live(small_files)
    answer = spark.sql(f"OPTIMIZE delta.`{small_files}`")
    (row,) = answer.collect()
    assert rows(spark, small_files) == before
    assert row.path == Table(small_files).url
    metrics = row.metrics.asDict(recursive=True)
    told = {
        name: metrics[name]
        for name in ("numFilesAdded", "numFilesRemoved", "partitionsOptimized", "numBins", "totalConsideredFiles")
    }
    assert told == {
        "numFilesAdded": 2,
        "numFilesRemoved": files,
        "partitionsOptimized": 2,
        "numBins": 2,
        "totalConsideredFiles": files,
    }
    assert metrics["filesAdded"]["totalFiles"] == live(small_files) == 2
    assert metrics["deletionVectorStats"] == {"numDeletionVectorsRemoved": 1, "numDeletionVectorRowsRemoved": 1}
    assert (metrics["numTableColumns"], metrics["numTableColumnsWithStats"]) == (4, 4)
    assert list(check_version(Table(small_files).snapshot())) == []
    history = DeltaTable.forPath(spark, small_files).history(1).collect()[0]
    assert (history.operation, history.operationParameters["predicate"], history.operationParameters["auto"]) == (
        "OPTIMIZE",
        "[]",
        "false",
    )


def test_nothing_to_do_commits_nothing(spark: SparkSession, small_files: str) -> None:
    spark.sql(f"OPTIMIZE '{small_files}'")
    version = Table(small_files).version
    metrics = spark.sql(f"OPTIMIZE '{small_files}'").collect()[0].metrics
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.numBins, metrics.numBatches) == (0, 0, 0, 1)
    assert metrics.filesAdded.asDict() == {"min": None, "max": None, "avg": 0.0, "totalFiles": 0, "totalSize": 0}
    assert Table(small_files).version == version


@pytest.mark.parametrize("condition", ["p = 1", "p = 1 and s >= 's'", "id % 2 = 1 and p = 1"])
def test_where_may_name_any_column(spark: SparkSession, small_files: str, condition: str) -> None:
    spark.sql(f"OPTIMIZE delta.`{small_files}` WHERE {condition}")
    assert (live(small_files, "p = 1"), live(small_files, "p = 0") > 1) == (1, True)
    assert DeltaTable.forPath(spark, small_files).history(1).collect()[0].operationParameters["predicate"] != "[]"


def test_conditions_of_the_builder_are_combined(spark: SparkSession, small_files: str) -> None:
    DeltaTable.forPath(spark, small_files).optimize().where("p = 1").where("p = 0").executeCompaction()
    assert Table(small_files).version == 0
    answer = DeltaTable.forPath(spark, small_files).optimize().where("p = 1").executeCompaction().collect()
    assert answer[0].metrics.partitionsOptimized == 1


def test_a_condition_with_a_subquery_is_refused(spark: SparkSession, small_files: str) -> None:
    with pytest.raises(InvalidOptionError, match="subquery"):
        spark.sql(f"OPTIMIZE delta.`{small_files}` WHERE id in (select 1)")


def test_settings_choose_the_files(spark: SparkSession, small_files: str) -> None:
    prefix = "spark.databricks.delta.optimize."
    for name, value, removed in [
        ("minFileSize", "1", 0),
        ("maxFileSize", "2", 0),
        ("maxFileSize", str(1 << 30), live(small_files)),
    ]:
        spark.conf.set(prefix + name, value)
        try:
            assert spark.sql(f"OPTIMIZE delta.`{small_files}`").collect()[0].metrics.numFilesRemoved == removed
        finally:
            spark.conf.unset(prefix + name)
    for name, value in [
        ("maxFileSize", "big"),
        ("minFileSize", "-1"),
        ("maxDeletedRowsRatio", "2"),
        ("maxDeletedRowsRatio", "many"),
    ]:
        spark.conf.set(prefix + name, value)
        try:
            with pytest.raises(InvalidOptionError, match=f"{name}.*{value}|{value}.*{name}"):
                spark.sql(f"OPTIMIZE delta.`{small_files}`")
        finally:
            spark.conf.unset(prefix + name)


@pytest.mark.parametrize("who", ["workers", "spark"])
def test_whoever_rewrites_the_rows_stay(
    spark: SparkSession, small_files: str, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if who == "workers":
        monkeypatch.setattr(optimize, "DRIVER_BYTES_MAX", -1)
        monkeypatch.setattr(optimize, "is_local", lambda spark: False)
    else:
        refused = UnsupportedOperationError(operation="Reading", table="t", detail="shredded", remedy="Use Spark.")
        monkeypatch.setattr(optimize, "in_threads", lambda plan, bins: [refused] * len(bins))
    spark.sql(f"ALTER TABLE delta.`{small_files}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    spark.sql(f"delete from delta.`{small_files}` where id = 6")
    ids = "select id, _metadata.row_id, _metadata.row_commit_version from delta.`{}`"
    before, tracked = rows(spark, small_files), sorted(spark.sql(ids.format(small_files)).collect())
    spark.sql(f"OPTIMIZE delta.`{small_files}`")
    assert rows(spark, small_files) == before
    assert sorted(spark.sql(ids.format(small_files)).collect()) == tracked
    assert live(small_files) == 2
    assert spark.read.format("delta").load(small_files).where("x > 1e300").count() == 1, (
        "NaN is larger than all numbers"
    )
    assert list(check_version(Table(small_files).snapshot())) == []


def test_a_cached_dataframe_still_answers(spark: SparkSession, small_files: str) -> None:
    frame: Any = spark.read.format("delta").load(small_files).cache()
    try:
        assert frame.count() == 20
        spark.sql(f"OPTIMIZE delta.`{small_files}`")
        kept = {Path(small_files, name) for name in Table(small_files).files()["path"].to_pylist()}
        for file in set(Path(small_files).glob("p=*/*.parquet")) - kept:
            file.unlink()
        assert frame.count() == 20
    finally:
        frame.unpersist()


def test_explain_tells_what_would_be_done(spark: SparkSession, path: str) -> None:
    spark.range(0, 100, 1, 4).selectExpr("id", "id % 2 as p").write.format("delta").partitionBy("p").save(path)

    def told(statement: str) -> str:
        return str(spark.sql(f"EXPLAIN {statement}").collect()[0][0])

    assert "rewrites 8 of 8 files" in told(f"OPTIMIZE delta.`{path}`")
    assert "as at most 2: 8 small" in told(f"OPTIMIZE delta.`{path}`")
    assert "rewrites 4 of 4 files" in told(f"OPTIMIZE delta.`{path}` WHERE p = 1")
    assert "in 2 partitions, ordered by id" in told(f"OPTIMIZE delta.`{path}` ZORDER BY (id)")
    assert Table(path).version == 0
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert "nothing to do: 2 files considered" in told(f"OPTIMIZE delta.`{path}`")
