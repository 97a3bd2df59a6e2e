"""A user's program on a cluster: writes, reads and deletion-vector reads, whose answers it prints as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import tahoe
from tahoe.spark.reading import deletion_vectors
from tests.spark.foreign import larger_files, mark

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.quantile": "0.3",
}


def main(master: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.cores.max", "2")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map=SPECULATION)
        .getOrCreate()
    )
    tahoe.enable(spark)
    path = f"{folder}/t"
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 2 as p", "named_struct('x', id) as s")
    rows.write.format("delta").option("delta.columnMapping.mode", "name").partitionBy("p").save(path)
    spark.range(5).selectExpr("id", "0L as p", "null as s").write.format("delta").mode("append").save(path)

    def answer() -> list[int]:
        frame = spark.read.format("delta").load(path).where("p = 0")
        return [int(value) for value in frame.selectExpr("count(*)", "sum(id)", "sum(s.x)").head()]

    found = {"executors": _executors(spark), "before": answer()}
    first, second = larger_files(path, 125)[:2]
    mark(path, {first: range(100), second: [3]}, stored=True)
    found["marked"] = answer()
    deletion_vectors.BROADCAST_BYTES_MAX = 0
    deletion_vectors._recent_bitmaps = deletion_vectors.Recent(1)
    found["marked, vectors loaded by executors"] = answer()
    stream = (
        spark.readStream.format("delta")
        .load(path)
        .where("p = 0")
        .selectExpr("id", "_metadata.row_index AS i")
        .writeStream
    )
    stream = stream.format("delta").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start(f"{folder}/sink").awaitTermination()
    found["streamed"] = [
        int(value)
        for value in spark.read.format("delta").load(f"{folder}/sink").selectExpr("count(i)", "sum(id)").head()
    ]
    found["speculated"] = _with_a_slow_task(spark, folder)
    found["arrow"] = [tahoe.Table(path).to_arrow(filter="p = 0").num_rows]
    print("FOUND " + json.dumps(found))
    spark.stop()


def _with_a_slow_task(spark: SparkSession, folder: str) -> dict[str, int]:
    """A stream in which one task waits behind its last row, so that Spark runs it a second time beside the first."""
    attempts = Path(folder, "attempts")
    attempts.mkdir()

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        (attempts / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        yield from batches
        if (context.partitionId(), context.attemptNumber()) == (0, 0):
            time.sleep(60)

    spark.range(0, 4000, 1, 4).write.format("delta").save(f"{folder}/source")
    rows = (
        spark.readStream.format("delta")
        .option("maxFilesPerTrigger", 4)
        .load(f"{folder}/source")
        .mapInArrow(slow, "id LONG")
    )
    stream = rows.writeStream.format("delta").option("checkpointLocation", f"{folder}/speculated-checkpoint")
    stream.trigger(availableNow=True).start(f"{folder}/speculated").awaitTermination()
    table = tahoe.Table(f"{folder}/speculated")
    return {
        "attempts of the slow task": len(list(attempts.glob("0-*"))),
        "rows": table.to_arrow().num_rows,
        "different rows": len(set(table.to_arrow()["id"].to_pylist())),
    }


def _executors(spark: SparkSession) -> int:
    """How many processes besides the driver ran something."""
    return spark.range(0, 8, 1, 8).mapInArrow(lambda batches: batches, "id long").count() and (
        spark._jsc.sc().getExecutorMemoryStatus().size() - 1
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
