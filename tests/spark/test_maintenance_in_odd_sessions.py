"""Maintenance of tables with odd names, by conditions on the current time, and in sessions with odd settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table


def test_partition_columns_that_begin_with_a_dot_or_a_bracket(spark: SparkSession, path: str) -> None:
    """Arrow takes such names for paths: rows had the values of the column p."""
    rows = "select id, id % 2 as `.p`, id % 2 + 10 as p, id % 2 + 20 as `[0]` from range(4)"
    for _ in range(2):
        spark.sql(rows).write.format("delta").mode("append").partitionBy(".p", "p", "[0]").save(path)
    wanted = sorted(2 * spark.sql(rows).collect())
    assert sorted(spark.read.format("delta").load(path).collect()) == wanted
    spark.sql(f"OPTIMIZE delta.`{path}` WHERE `.p` = 1")
    assert sorted(spark.read.format("delta").load(path).collect()) == wanted
    assert Table(path).files("p = 11").num_rows == 1
    spark.sql(f"DELETE FROM delta.`{path}` WHERE `[0]` = 21 AND id = 1")
    assert sorted(spark.read.format("delta").load(path).collect()) == [row for row in wanted if row.id != 1]


@pytest.fixture
def by_date(spark: SparkSession, path: str) -> str:
    """Two files for each of five days until today."""
    for _ in range(2):
        rows = spark.sql("select id, date_add(current_date(), -cast(id as int)) as date from range(5)")
        rows.coalesce(1).write.format("delta").mode("append").partitionBy("date").option(
            "delta.enableDeletionVectors", "true"
        ).save(path)
    return path


@pytest.mark.parametrize(
    "condition", ["date >= current_timestamp() - INTERVAL 36 HOURS", "date in (current_date(), current_date() - 1)"]
)
def test_where_may_name_the_current_time(spark: SparkSession, by_date: str, condition: str) -> None:
    metrics = spark.sql(f"OPTIMIZE delta.`{by_date}` WHERE {condition}").collect()[0].metrics
    assert 1 <= metrics.partitionsOptimized <= 2, "older partitions are left as they are"
    assert metrics.numFilesRemoved == 2 * metrics.partitionsOptimized


def test_reorg_of_the_partitions_of_the_last_days(spark: SparkSession, by_date: str) -> None:
    for _ in range(2):  # two rows for each day and file, so that a file keeps one
        spark.sql(
            f"INSERT INTO delta.`{by_date}` SELECT /*+ COALESCE(1) */ id + n, date FROM delta.`{by_date}`, "
            f"(SELECT 10 AS n)"
        )
    DeltaTable.forPath(spark, by_date).optimize().executeCompaction()
    spark.sql(f"DELETE FROM delta.`{by_date}` WHERE id < 10")
    metrics = (
        spark.sql(f"REORG TABLE delta.`{by_date}` WHERE date >= current_date() - 1 APPLY (PURGE)").collect()[0].metrics
    )
    assert metrics.partitionsOptimized == 2


@pytest.fixture
def no_limit(spark: SparkSession) -> Iterator[None]:
    """Batches of Arrow without a limit, in Spark's spelling."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "0")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.usefixtures("no_limit")
def test_arrow_batches_without_a_limit(spark: SparkSession, path: str) -> None:
    """PySpark cannot make a DataFrame of Arrow rows then."""
    rows = spark.range(0, 400_000, 1, 2)
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE hash(id) % 3 = 0")
    left = rows.where("hash(id) % 3 <> 0").count()
    assert spark.read.format("delta").load(path).count() == left
    assert spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0].metrics.numFilesAdded == 1
    assert spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()[0].operation == "OPTIMIZE"
    assert spark.read.format("delta").load(path).count() == left
