"""Which files a query reads: those that its plan chose, whichever filters Spark has left when the query runs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

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
