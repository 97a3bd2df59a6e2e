"""A driver with three streams over one table, which is killed: `python killed_stream.py FOLDER forever|now`.

- `copied`: the rows as they are;
- `counted`: a count for each key, in complete mode;
- `merged`: the newest row of each key, by MERGE in foreachBatch.

With `now` the queries read what is there, and the program ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import tahoe


def main() -> None:
    folder, until = Path(sys.argv[1]), sys.argv[2]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    tahoe.enable(spark)
    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", "3").load(str(folder / "source"))
    queries = [
        start(rows.writeStream.format("delta"), folder, "copied", until),
        start(rows.groupBy("key").count().writeStream.format("delta").outputMode("complete"), folder, "counted", until),
        start(rows.writeStream.foreachBatch(lambda batch, _: merge(batch, str(folder / "merged"))), folder, "merged", until),
    ]
    print("started", flush=True)
    for query in queries:
        query.awaitTermination()


def start(writer: DataStreamWriter, folder: Path, name: str, until: str) -> object:
    writer = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
    writer = writer.trigger(availableNow=True) if until == "now" else writer.trigger(processingTime="0 seconds")
    return writer.start() if name == "merged" else writer.start(str(folder / name))


def merge(batch: DataFrame, target: str) -> None:
    """MERGE by key and id changes nothing if the same batch comes again."""
    newest = batch.groupBy("key").agg({"id": "max"}).withColumnRenamed("max(id)", "id")
    spark = batch.sparkSession
    if not tahoe.DeltaTable.isDeltaTable(spark, target):
        newest.limit(0).write.format("delta").mode("ignore").save(target)
    merged = tahoe.DeltaTable.forPath(spark, target).alias("t").merge(newest.alias("s"), "t.key = s.key")
    merged.whenMatchedUpdateAll("s.id > t.id").whenNotMatchedInsertAll().execute()


if __name__ == "__main__":
    main()
