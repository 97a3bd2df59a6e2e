"""Settings of a session that are true or false."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tahoe.errors import InvalidOptionError
from tahoe.protocol.partitions import parse_boolean

# The prefix of the reference's settings.
SETTING = "spark.databricks.delta."


def flag(spark: SparkSession, name: str, table: str) -> bool | None:
    """The value of a setting; None if it is not set.

    Raises:
        InvalidOptionError: it is neither true nor false.
    """
    text = spark.conf.get(name, None)
    if text is None:
        return None
    try:
        return parse_boolean(text)
    except ValueError as error:
        raise InvalidOptionError(option=name, value=text, table=table, detail="it is true or false") from error
