"""Rows that Python has, as a DataFrame: whatever the session's settings for Arrow."""

from __future__ import annotations

from threading import Lock

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

# Zero or less is no limit. PySpark reads such tables as batches, but cannot make them.
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_DEFAULT_ROWS = "10000"

_one_at_a_time = Lock()


def local_rows(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A DataFrame of Arrow rows. It needs no Spark job."""
    if not rows.num_rows:
        rows = rows.schema.empty_table()  # PySpark expects at least one chunk in each column
    try:
        return spark.createDataFrame(rows, schema)
    except ValueError:
        with _one_at_a_time:
            batch_rows = spark.conf.get(_BATCH_ROWS, None)
            if batch_rows is None or int(batch_rows) > 0:
                raise
            spark.conf.set(_BATCH_ROWS, _DEFAULT_ROWS)
            try:
                return spark.createDataFrame(rows, schema)
            finally:
                spark.conf.set(_BATCH_ROWS, batch_rows)
