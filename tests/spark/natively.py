"""Queries of one session that run natively, and in Spark's own engine."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import DataFrame, SparkSession

NEEDS_COMET = pytest.mark.skipif(
    not os.environ.get("TAHOE_NATIVE"), reason="needs Comet, which has no build for the newest Spark: make native"
)


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def as_spark(spark: SparkSession, query: str) -> list[str]:
    """The rows of Spark's own engine."""
    spark.conf.set("spark.comet.enabled", "false")
    try:
        return rows(spark.sql(query))
    finally:
        spark.conf.set("spark.comet.enabled", "true")


def explained(frame: DataFrame) -> str:
    return str(frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))


def reads_natively(frame: DataFrame) -> bool:
    """Whether no scan of a query is Spark's."""
    text = explained(frame)
    return "CometNativeScan" in text and "Scan parquet" not in text.replace("CometNativeScan parquet", "")
