"""Streams with a watermark whose initial snapshot is read in the order of event time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import UnsupportedOperationError

pytestmark = pytest.mark.every_spark

ORDERED = {"withEventTimeOrder": "true", "maxFilesPerTrigger": "1"}


@pytest.fixture
def events(spark: SparkSession, path: str) -> str:
    """Five files of ten rows, the newest of them first, with deletion vectors; and a row without a time."""
    for hour in reversed(range(5)):
        rows = spark.range(10).selectExpr(
            f"{hour} * 10 + id + 1 as id", f"timestamp_seconds(({hour} * 10 + id + 1) * 60) as at"
        )
        writer = rows.coalesce(1).write.format("delta").mode("append").option("delta.enableDeletionVectors", "true")
        writer.option("delta.enableChangeDataFeed", "true").save(path)
    spark.sql("SELECT 99L AS id, cast(null as timestamp) AS at").write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 25")
    return path


IDS = [*range(1, 25), *range(26, 51)]


def late_rows(query: Any) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def run(frame: DataFrame, checkpoint: Path, batch: Callable[[list[int]], None]) -> Any:
    """Run a query that drops what is late, and is told the ids of each of its batches that has any."""

    def received(rows: DataFrame, _: int) -> None:
        if ids := sorted(row.id for row in rows.select("id").collect()):
            batch(ids)

    first_of_each = frame.withWatermark("time", "0 seconds").dropDuplicates(["id", "time"])
    writer = first_of_each.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(received)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_no_row_is_late(spark: SparkSession, events: str, table_name: str, tmp_path: Path) -> None:
    """By name and with a column under another name; also if the query fails within the initial snapshot, and is started
    again.
    """
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{events}'")
    batches: list[list[int]] = []

    def failing(ids: list[int]) -> None:
        if len(batches) == 2:
            raise ValueError("the query fails")
        batches.append(ids)

    stream = spark.readStream.options(**ORDERED).table(table_name).where("id > 0").withColumnRenamed("at", "time")
    with pytest.raises(StreamingQueryException, match="the query fails"):
        run(stream, tmp_path / "c", failing)
    query = run(stream, tmp_path / "c", batches.append)
    assert late_rows(query) == 0
    assert len(batches) == 5, "a batch for each file"
    assert [id for batch in batches for id in batch] == [*IDS[:10], 99, *IDS[10:]]
    unordered = (
        spark.readStream.format("delta").options(maxFilesPerTrigger="1").load(events).withColumnRenamed("at", "time")
    )
    assert late_rows(run(unordered, tmp_path / "unordered", lambda ids: None)) > 0, (
        "the rows of this test are late without the option"
    )


def test_no_inserted_row_of_a_feed_is_late(spark: SparkSession, events: str, tmp_path: Path) -> None:
    """The session asks for the order. A commit after the initial snapshot is a batch of its own."""
    batches: list[list[int]] = []
    stream = (
        spark.readStream.format("delta").option("readChangeFeed", "true").option("maxFilesPerTrigger", "2").load(events)
    )
    spark.conf.set("spark.databricks.delta.withEventTimeOrder.enabled", "true")
    try:
        spark.sql("SELECT 60L AS id, timestamp_seconds(6000) AS at").write.format("delta").mode("append").save(events)
        query = run(stream.withColumnRenamed("at", "time"), tmp_path / "c", batches.append)
    finally:
        spark.conf.unset("spark.databricks.delta.withEventTimeOrder.enabled")
    assert late_rows(query) == 0
    assert sorted(id for batch in batches for id in batch) == [*IDS, 60, 99]
    assert len(batches) == 3


def computed(stream: DataFrame) -> DataFrame:
    return stream.select(F.timestamp_seconds("id").alias("time")).withWatermark("time", "1 minute")


def of_two(stream: DataFrame) -> DataFrame:
    return stream.union(stream.where("id < 5")).withWatermark("at", "1 minute")


@pytest.mark.parametrize(
    ("query", "match"), [(computed, "on time, which the query computes"), (of_two, "the rows of several streams")]
)
def test_an_order_that_is_not_known_is_refused(
    spark: SparkSession, events: str, tmp_path: Path, query: Callable[[DataFrame], DataFrame], match: str
) -> None:
    writer = query(spark.readStream.format("delta").options(**ORDERED).load(events)).writeStream.format("noop")
    with pytest.raises(UnsupportedOperationError, match=rf"withEventTimeOrder .*{events}.*{match}.*once=True"):
        writer.option("checkpointLocation", str(tmp_path / "c")).start()
