"""A driver with streams over one table, which is killed: `python killed_stream.py FOLDER forever|now FILES NAMES`.

NAMES are the queries that it runs, separated by commas, and FILES is how many files each of their batches reads at
most:

- `copied`: the rows as they are;
- `counted`: a count for each key, in complete mode;
- `windows`: a count for each fifty ids, written when a watermark has passed them;
- `joined`: the rows that another stream has too;
- `merged`: the newest row of each key, by MERGE in foreachBatch;
- `silver`: the table itself, by MERGE of its change data feed.

All but the last skip the commits that change rows. The queries are started again when the table has new columns. With
`now` they read what is there, and the program ends. It prints a line when Spark is there, and when the queries have
started.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code
from pyspark.sql.streaming import DataStreamWriter

import tahoe

WINDOW = 50


# A program of seconds is over before compiled code has paid for its compilation.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def main() -> None:
    folder, until, files, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4].split(",")
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = tahoe.enable(builder.config("spark.log.level", "ERROR").config(map=INTERPRETED).getOrCreate())
    print("enabled", flush=True)
    while True:
        queries = queries_over(spark, folder, files)
        for name in names:
            trigger = {"availableNow": True} if until == "now" else {"processingTime": "0 seconds"}
            queries[name].option("checkpointLocation", str(folder / f"{name}-checkpoint")).trigger(**trigger).start()
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


def queries_over(spark: SparkSession, folder: Path, files: str) -> dict[str, DataStreamWriter]:
    """The queries by name, not started."""

    def stream(table: str, **options: str) -> DataFrame:
        return spark.readStream.format("delta").options(maxFilesPerTrigger=files, **options).load(str(folder / table))

    rows = stream("source", startingVersion="0", skipChangeCommits="true")
    changes, other = stream("source", startingVersion="0", readChangeFeed="true"), stream("other")
    at = F.timestamp_seconds("id").alias("at")
    windows = rows.select(at).withWatermark("at", "0 seconds").groupBy(F.window("at", f"{WINDOW} seconds")).count()
    windows = windows.select(F.col("window.start").cast("bigint").alias("first"), "count")

    def into_table(name: str, frame: DataFrame, mode: str = "append") -> DataStreamWriter:
        return (
            frame.writeStream.format("delta")
            .outputMode(mode)
            .option("mergeSchema", "true")
            .option("path", str(folder / name))
        )

    return {
        "copied": into_table("copied", rows),
        "counted": into_table("counted", rows.groupBy("key").count(), "complete"),
        "windows": into_table("windows", windows),
        "joined": into_table("joined", rows.select("id").join(other, "id")),
        "merged": rows.writeStream.foreachBatch(lambda batch, _: merge_newest(batch, str(folder / "merged"))),
        "silver": changes.writeStream.foreachBatch(lambda batch, _: merge_changes(batch, str(folder / "silver"))),
    }


def merge_newest(batch: DataFrame, target: str) -> None:
    """MERGE by key and id changes nothing if the same batch comes again."""
    newest = batch.groupBy("key").agg(F.max("id").alias("id"))
    merge(newest, target, on="key", update=F.expr("s.id > t.id"))


def merge_changes(batch: DataFrame, target: str) -> None:
    """The last change of each row decides."""
    last = Window.partitionBy("id").orderBy(F.desc("_commit_version"), F.col("_change_type") == "delete")
    changes = (
        batch.where("_change_type != 'update_preimage'").withColumn("rank", F.row_number().over(last)).where("rank = 1")
    )
    merge(
        changes.select("id", "key", "_change_type"),
        target,
        on="id",
        update=F.lit(True),
        delete=F.expr("s._change_type = 'delete'"),
    )


def merge(rows: DataFrame, target: str, *, on: str, update: Column, delete: Column | None = None) -> None:
    spark = rows.sparkSession
    tahoe.DeltaTable.createIfNotExists(spark).location(target).addColumns(rows.select("id", "key").schema).execute()
    values = {"id": "s.id", "key": "s.key"}
    merged = tahoe.DeltaTable.forPath(spark, target).alias("t").merge(rows.alias("s"), f"t.{on} = s.{on}")
    if delete is not None:
        merged = merged.whenMatchedDelete(delete)
    merged = merged.whenMatchedUpdate(update, set=values)
    merged.whenNotMatchedInsert(None if delete is None else ~delete, values=values).execute()


if __name__ == "__main__":
    main()
