"""Streams that track the schema of their table, and changes of that schema."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def append(spark: SparkSession, path: str, *values: tuple[Any, ...]) -> None:
    table = spark.read.format("delta").load(path)
    spark.createDataFrame(list(values), table.schema).coalesce(1).write.format("delta").mode("append").save(path)


def alter(spark: SparkSession, path: str, change: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{path}` {change}")


def run(frame: DataFrame, sink: str, **options: str) -> None:
    """Run a query over what is there, with a checkpoint beside its sink."""
    writer = (
        frame.writeStream.format("delta")
        .option("checkpointLocation", f"{sink}-checkpoint")
        .option("mergeSchema", "true")
    )
    writer.options(**options).trigger(availableNow=True).start(sink).awaitTermination()


def rows(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.format("delta").load(path).collect())


def tracked(spark: SparkSession, source: str, sink: str, **options: str) -> DataFrame:
    """A new DataFrame that tracks its schema below the checkpoint of `run`."""
    return (
        spark.readStream.format("delta")
        .option("schemaTrackingLocation", f"{sink}-checkpoint/schema")
        .options(**options)
        .load(source)
    )
