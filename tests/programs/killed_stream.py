"""A driver with streams over one table, which is killed: `python killed_stream.py FOLDER forever|now`.

- `copied`: the rows as they are;
- `counted`: a count for each key, in complete mode;
- `windows`: a count for each fifty ids, written when a watermark has passed them;
- `joined`: the rows that another stream has too;
- `merged`: the newest row of each key, by MERGE in foreachBatch;
- `silver`: the table itself, by MERGE of its change data feed.

All but the last skip the commits that change rows. The queries are started again when the table has new columns. With `now` they read what
is there, and the program ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code
from pyspark.sql.streaming import DataStreamWriter

import tahoe

WINDOW = 50


def main() -> None:
    folder, until = Path(sys.argv[1]), sys.argv[2]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    tahoe.enable(spark)
    while True:
        start_all(spark, folder, until)
        print("started", flush=True)
        try:
            while spark.streams.active:
                spark.streams.awaitAnyTermination()
                spark.streams.resetTerminated()
            break
        except StreamingQueryException as error:
            if "DELTA_SCHEMA_CHANGED" not in str(error):
                raise
            for query in spark.streams.active:
                query.stop()
            spark.streams.resetTerminated()


def start_all(spark: SparkSession, folder: Path, until: str) -> None:
    files = "1000" if until == "now" else "3"
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", files).option("startingVersion", "0")
    source = str(folder / "source")
    rows = reader.option("skipChangeCommits", "true").load(source)
    changes = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "0").load(source)
    other = spark.readStream.format("delta").load(str(folder / "other"))
    at = F.timestamp_seconds("id").alias("at")
    windows = rows.select(at).withWatermark("at", "0 seconds").groupBy(F.window("at", f"{WINDOW} seconds")).count()
    windows = windows.select(F.col("window.start").cast("bigint").alias("first"), "count")

    def start(name: str, frame: DataFrame, mode: str = "append", batch: Callable[[DataFrame, int], None] | None = None) -> None:
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        writer = writer.trigger(availableNow=True) if until == "now" else writer.trigger(processingTime="0 seconds")
        if batch is None:
            into_table(writer).start(str(folder / name))
        else:
            writer.foreachBatch(batch).start()

    start("copied", rows)
    start("counted", rows.groupBy("key").count(), "complete")
    start("windows", windows)
    start("joined", rows.select("id").join(other, "id"))
    start("merged", rows, batch=lambda batch, _: merge_newest(batch, str(folder / "merged")))
    start("silver", changes, batch=lambda batch, _: merge_changes(batch, str(folder / "silver")))


def into_table(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.format("delta").option("mergeSchema", "true")


def merge_newest(batch: DataFrame, target: str) -> None:
    """MERGE by key and id changes nothing if the same batch comes again."""
    newest = batch.groupBy("key").agg(F.max("id").alias("id"))
    merge(newest, target, on="key", update=F.expr("s.id > t.id"))


def merge_changes(batch: DataFrame, target: str) -> None:
    """The last change of each row decides."""
    last = Window.partitionBy("id").orderBy(F.desc("_commit_version"), F.col("_change_type") == "delete")
    changes = batch.where("_change_type != 'update_preimage'").withColumn("rank", F.row_number().over(last)).where("rank = 1")
    merge(changes.select("id", "key", "_change_type"), target, on="id", update=F.lit(True), delete=F.expr("s._change_type = 'delete'"))


def merge(rows: DataFrame, target: str, *, on: str, update: Column, delete: Column | None = None) -> None:
    spark = rows.sparkSession
    if not tahoe.DeltaTable.isDeltaTable(spark, target):
        rows.select("id", "key").limit(0).write.format("delta").mode("ignore").save(target)
    values = {"id": "s.id", "key": "s.key"}
    merged = tahoe.DeltaTable.forPath(spark, target).alias("t").merge(rows.alias("s"), f"t.{on} = s.{on}")
    if delete is not None:
        merged = merged.whenMatchedDelete(delete)
    merged = merged.whenMatchedUpdate(update, set=values)
    merged.whenNotMatchedInsert(None if delete is None else ~delete, values=values).execute()


if __name__ == "__main__":
    main()
