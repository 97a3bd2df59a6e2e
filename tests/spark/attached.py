"""An attached catalog `shop` of orders and stock."""

from __future__ import annotations

from pyspark.sql import SparkSession


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(query).collect()), key=repr)
