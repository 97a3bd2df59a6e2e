"""Engines that are driven by a Spark session: tahoe, delta-spark, Spark on Parquet, and Sail."""

from __future__ import annotations

import glob
import importlib
import os
import sys
from typing import Any

from pyspark.sql import SparkSession
from side import serve

NAME, JARS, FOLDER = sys.argv[1:]
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.warehouse.dir": os.path.join(FOLDER, f"warehouse-{NAME}"),
    # VACUUM is asked to delete at once
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


def started() -> SparkSession:
    """The session, as each engine's own documentation starts it."""
    if NAME == "sail":
        global server  # it ends with its last reference
        server = importlib.import_module("pysail.spark").SparkConnectServer()
        server.start(background=True)
        return SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
    builder = SparkSession.builder.master("local[*]").appName(f"race {NAME}")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if NAME == "tahoe-comet":
        importlib.import_module("tahoe").configure(builder, native=next(iter(glob.glob(f"{JARS}/*.jar")), True))
    if NAME == "delta-spark":
        key, found = "spark.jars.packages", JARS
        if os.path.isdir(JARS):
            key, found = "spark.jars", ",".join(sorted(glob.glob(f"{JARS}/*.jar")))
        builder = builder.config(key, found)
        builder = builder.config("spark.databricks.delta.vacuum.parallelDelete.enabled", "true")
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    session = builder.getOrCreate()
    if NAME == "tahoe":
        importlib.import_module("tahoe").enable(session)
    return session


FORMAT = "parquet" if NAME == "parquet" else "delta"
spark: SparkSession
server: Any


def ready() -> str:
    global spark
    spark = started()
    return f"Spark {spark.version}"


def tables(paths: dict[str, str]) -> None:
    for name, path in paths.items():
        spark.read.format(FORMAT).load(path).createOrReplaceTempView(name)


def query(text: str) -> list[Any]:
    return spark.sql(text).collect()


def load(source: str, path: str) -> None:
    spark.read.parquet(source).write.format(FORMAT).mode("overwrite").save(path)


def files(source: str, path: str, count: int) -> None:
    spark.read.parquet(source).repartition(count).write.format("delta").save(path)


def append(source: str, path: str, times: int) -> None:
    for _ in range(times):
        spark.read.parquet(source).write.format("delta").mode("append").save(path)


def statement(text: str) -> None:
    spark.sql(text).collect()


def delete(path: str, where: str) -> None:
    statement(f"DELETE FROM delta.`{path}` WHERE {where}")


def update(path: str, where: str, column: str, value: str) -> None:
    statement(f"UPDATE delta.`{path}` SET {column} = {value} WHERE {where}")


def merge(path: str, source: str, on: list[str]) -> None:
    condition = " AND ".join(f"t.{column} = s.{column}" for column in on)
    statement(
        f"MERGE INTO delta.`{path}` t USING parquet.`{source}` s ON {condition} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def optimize(path: str) -> None:
    statement(f"OPTIMIZE delta.`{path}`")


def vacuum(path: str) -> None:
    statement(f"VACUUM delta.`{path}` RETAIN 0 HOURS")


def stream(source: str, path: str, checkpoint: str) -> None:
    schema = spark.read.parquet(source).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(path).awaitTermination()


def look(path: str, sums: list[str]) -> list[Any]:
    columns = ["count(*)", *(f"sum({column})" for column in sums)]
    return spark.read.format(FORMAT).load(path).selectExpr(*columns).collect()


if __name__ == "__main__":
    deeds = {d.__name__: d for d in (tables, query, load, look)}
    if NAME != "parquet":
        deeds |= {d.__name__: d for d in (files, append, delete, update, merge, optimize, vacuum, stream)}
    serve(deeds, ready)
