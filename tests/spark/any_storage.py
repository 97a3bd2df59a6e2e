"""Tables in a storage that a test chooses."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tahoe.spark.jvm import table_cache
from tahoe.table.table import Table


def load(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.read.format("delta").options(**options).load(url)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def append(frame: DataFrame, url: str) -> None:
    frame.write.format("delta").mode("append").save(url)


def without_spark(spark: SparkSession, url: str) -> Table:
    """The table, read by nothing that has been read before."""
    return Table(url, env=table_cache.open_table(spark, url).env)
