"""One side of streams.py: the streaming queries that it times, run in the process of that side. Needs nothing of tahoe.

Times are seconds.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

# Of queries that run until they are told to stop.
_running: list[Any] = []


def begin(spark: SparkSession, source: str, sink: str, checkpoint: str) -> None:
    """Start a query from a table into a table, which is triggered as fast as possible."""
    rows = spark.readStream.format("delta").load(source)
    _running.append(rows.writeStream.format("delta").option("checkpointLocation", checkpoint).start(sink))


def end() -> None:
    _running.pop().stop()


def backfill(spark: SparkSession, source: str, sink: str, **options: str) -> None:
    """Copy a table, or its change data feed, by a query that ends."""
    rows = spark.readStream.format("delta").options(**options).load(source)
    writer = rows.writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint")
    writer.trigger(availableNow=True).start(sink).awaitTermination()


def planned(spark: SparkSession, source: str, checkpoint: str, **options: str) -> list[list[float]]:
    """Plan one batch and do not read it. Returns the time from the start of the query, and that of the source in it."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    began = time.perf_counter()
    query = _idle_query(spark.readStream.format("delta").options(**options).load(source), checkpoint, "1 hour")
    _wait(lambda: query.recentProgress or not query.isActive)
    seconds = time.perf_counter() - began
    progress = _stopped(query)[0]
    parts = progress["durationMs"]
    assert progress["sources"][0]["endOffset"], "a batch was planned"
    return [[seconds, (parts["latestOffset"] + parts["getBatch"]) / 1000]]


def idle(spark: SparkSession, source: str, checkpoint: str, triggers: int) -> list[list[float]]:
    """The time that the source takes in each of so many triggers without anything new."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1ms")
    rows = spark.readStream.format("delta").option("startingVersion", "latest").load(source)
    query = _idle_query(rows, checkpoint, "0 seconds")
    _wait(lambda: len(query.recentProgress) > triggers or not query.isActive)
    return [[progress["durationMs"]["latestOffset"] / 1000] for progress in _stopped(query)[1:]]


def _idle_query(rows: DataFrame, checkpoint: str, interval: str) -> Any:
    """A query whose batches are planned, and of which nothing is read."""
    writer = rows.writeStream.foreachBatch(lambda _batch, _number: None).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime=interval).start()


def _stopped(query: Any) -> list[Any]:
    if query.exception() is not None:
        raise query.exception()
    found = list(query.recentProgress)
    query.stop()
    return found


def _wait(until: Callable[[], Any]) -> None:
    while not until():
        time.sleep(0.005)
