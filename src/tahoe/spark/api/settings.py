"""Settings of a session that are true or false."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tahoe.spark.jvm.flags import parse_flag


def flag(spark: SparkSession, name: str, table: str) -> bool | None:
    """The value of a setting; None if it is not set.

    Raises:
        InvalidOptionError: it is neither true nor false.
    """
    text = spark.conf.get(name, None)
    return None if text is None else parse_flag(text, name, table=table)
