"""A stream whose tasks fail at their first attempt, after they have written rows: `python retried_tasks.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import tahoe


def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows. The first attempt of a task fails behind the last of them."""
    yield from batches
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        raise RuntimeError("this attempt fails")


def main() -> None:
    folder = Path(sys.argv[1])
    builder = (
        SparkSession.builder.master("local[2, 3]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    )
    spark = tahoe.enable(builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "100").getOrCreate())
    spark.range(0, 4000, 1, 4).write.format("delta").save(str(folder / "source"))
    rows = spark.readStream.format("delta").load(str(folder / "source")).mapInArrow(failing, "id LONG")
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "sink")).awaitTermination()


if __name__ == "__main__":
    main()
