"""RESTORE in a Spark session: the session's settings, and the result as a DataFrame.

Names and result columns are the reference's. The work is done in the driver, without Spark jobs.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.adoption.restore import RestoreReport, RestoreRequest, restore
from tahoe.table.table import Table

# The result of RESTORE: one row. There is none if the newest version was asked for.
RESTORED = StructType(
    [
        StructField("table_size_after_restore", LongType()),
        StructField("num_of_files_after_restore", LongType()),
        StructField("num_removed_files", LongType()),
        StructField("num_restored_files", LongType()),
        StructField("removed_files_size", LongType()),
        StructField("restored_files_size", LongType()),
    ]
)


def run_restore(spark: SparkSession, table: Table, version: int | str | None, timestamp: datetime | None) -> DataFrame:
    """Restore a table by the settings of a session; see `tahoe.table.adoption.restore`. Raises errors as users of Spark
    expect them.
    """

    def run() -> RestoreReport:
        request = RestoreRequest(
            version=version,
            timestamp=timestamp,
            ignore_missing_files=setting_names.IGNORES_MISSING.of(spark.conf, table=table.url),
            retention_check=setting_names.CHECK_EXPIRED.of(spark.conf, table=table.url),
            **author_of(spark),
        )
        report = restore(table, request)
        if report.version is not None:
            recache(Gateway(spark), table.url)
        return report

    report = run_for_user(spark, run)
    values = dict(zip(RESTORED.names, report.metrics.values(), strict=True))
    return result_frame(spark, [] if report.version is None else [values], RESTORED)
