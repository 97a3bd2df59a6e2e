"""Streams that tests start, and the tables that they read and write."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def source(spark: SparkSession, path: str) -> str:
    """A table of 40 rows in four files, with deletion vectors and row ids."""
    writer = (
        spark.range(0, 40, 1, 4).selectExpr("id", "id % 3 as part", "cast(id as string) as s").write.format("delta")
    )
    writer.option("delta.enableDeletionVectors", "true").option("delta.enableRowTracking", "true").save(path)
    return path


def append(spark: SparkSession, path: str, *ids: int) -> None:
    rows = spark.createDataFrame([(i,) for i in ids], "id long").selectExpr(
        "id", "id % 3 as part", "cast(id as string) as s"
    )
    rows.coalesce(1).write.format("delta").mode("append").save(path)


def run(frame: DataFrame, sink: str, mode: str = "append", **options: str) -> Any:
    """Run a query over what is there, with a checkpoint beside its sink."""
    writer = (
        frame.writeStream.format("delta")
        .outputMode(mode)
        .option("checkpointLocation", f"{sink}-checkpoint")
        .options(**options)
    )
    query = writer.trigger(availableNow=True).start(sink)
    query.awaitTermination()
    return query


def rows_in(query: Any) -> list[int]:
    """The input rows of each batch that had any."""
    return [count for progress in query.recentProgress if (count := progress["numInputRows"])]


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(path).select("id").collect())
