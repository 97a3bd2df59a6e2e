"""Which files a query reads: those that its plan chose, whichever filters Spark has left when the query runs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.reading.positions import are_few
from tahoe.table.reading.snapshot import load_snapshot
from tests.property.numbered_logs import numbered_log, small
from tests.spark.foreign import mark

pytestmark = pytest.mark.every_spark

# Neither side of it can be checked by a partition's values or by a row's alone, so that Spark gives it to no scan.
MIXED = "p = 2 or x = 5"


@pytest.fixture
def partitioned(spark: SparkSession, path: str) -> str:
    """Partitions 1, with x = 1 and x = 5, and 2, with x = 7."""
    spark.sql("select * from values (1, 1), (1, 5), (2, 7) as t(p, x)").coalesce(1).write.format("delta").partitionBy(
        "p"
    ).save(path)
    return path


def test_marked_rows_stay_away_where_the_plan_left_their_file_out(spark: SparkSession, partitioned: str) -> None:
    mark(partitioned, {0: [1]}, tight={"minValues": {"x": 1}, "maxValues": {"x": 1}})
    frame = spark.read.format("delta").load(partitioned)
    assert frame.count() == 2
    assert [tuple(row) for row in frame.where(MIXED).collect()] == [(2, 7)]


def test_a_filter_that_spark_gives_to_no_scan_still_skips_files(spark: SparkSession, partitioned: str) -> None:
    spark.sql("select 3 p, 9 x").write.format("delta").mode("append").save(partitioned)
    frame = spark.read.format("delta").load(partitioned).where(MIXED)
    assert sorted(tuple(row) for row in frame.collect()) == [(1, 5), (2, 7)]
    scan = frame._jdf.queryExecution().sparkPlan().collectLeaves().apply(0)
    assert scan.selectedPartitions().totalNumberOfFiles() == 2


def test_a_command_does_not_count_the_files_of_a_large_checkpoint() -> None:
    """It would search all paths for those that newer commits name, only to learn that there are many."""
    with small(4):
        snapshot = load_snapshot(numbered_log())
        assert not are_few(snapshot)
        assert "gone" not in snapshot.live.parts[1].__dict__
    assert are_few(load_snapshot(numbered_log()))


@pytest.mark.every_case
@pytest.mark.parametrize(
    "url",
    [
        *("file:/a/b.parquet", "file:///a/p=2026-01-31/b_1.parquet", "s3a://lake/t/p=1/b.parquet", "file:/a"),
        *("file:////a/b", "file:///a//b", "s3a://lake//b", "file:///a/b/", "file:///a/./b", "file:///a/../b"),
        *("file:///a/..b", "file:///a/.b", "file:///a/b..c", "file:///a/b c", "file:///a/b%20c", "file:///a/b:c"),
        *("file:///a/b?c", "file:///a/b#c", "file:///a/ä", "file:///a/b+c&d", "file:///a/b\\c", "s3a://a_b/c"),
        *("hdfs://host:8020/a", "abfss://c@account.dfs.core.windows.net/a", "/a/b", "a/b", "s3a:///a"),
    ],
)
def test_the_path_of_a_url_is_the_one_that_hadoop_makes_of_it(spark: SparkSession, url: str) -> None:
    """A shorter way to it must not read what Hadoop quotes, cuts or joins in another way."""
    gateway = Gateway(spark)
    ours, theirs = gateway.java_class("delta.Files").path(url), gateway.java_class("org.apache.hadoop.fs.Path")(url)
    assert ours.equals(theirs)
    assert (ours.toString(), ours.toUri().toString()) == (theirs.toString(), theirs.toUri().toString())
