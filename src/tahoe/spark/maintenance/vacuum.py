"""VACUUM in a Spark session: the session's settings, an inventory from a DataFrame, and the result as a DataFrame.

Names, defaults and result columns are the reference's. The work is done in the driver, without Spark jobs.
"""

from __future__ import annotations

import logging
import math

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from tahoe.errors import InvalidInventoryError
from tahoe.protocol.configuration.properties import DELETED_FILE_RETENTION
from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import author_of
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.arguments import FLAG, or_none
from tahoe.table.cleanup.inventory import INVENTORY
from tahoe.table.cleanup.vacuum import VacuumReport, VacuumRequest, vacuum
from tahoe.table.table import Table

_logger = logging.getLogger("tahoe")

# The warning about what tags hold back.
HELD_BACK = "%s: VACUUM: %s"

# The metadata of a column that Spark shows as its comment.
COMMENT = "comment"

# The result of VACUUM.
PATH = StructType([StructField("path", StringType())])


def run_vacuum(
    spark: SparkSession,
    table: Table,
    *,
    retention_hours: float | None = None,
    lite: bool | None = None,
    dry_run: bool = False,
    inventory: DataFrame | None = None,
) -> VacuumReport:
    """Run VACUUM with the settings of a session; see `tahoe.table.cleanup.vacuum`. Raises errors as users of Spark
    expect them.

    The results that the reference defines have no place for what tags hold back, so a warning tells it.

    Args:
        lite: None for the setting `vacuum.lite.enabled`.
        inventory: a DataFrame with the columns of `INVENTORY`.

    Raises:
        as `tahoe.table.cleanup.vacuum.vacuum`; InvalidOptionError also for a setting that is not true or false.
    """

    def run() -> VacuumReport:
        requested_lite = or_none(FLAG)(lite, "lite", table=table.url)
        by_log = (
            setting_names.VACUUM_LITE.of(spark.conf, table=table.url)
            if requested_lite is None and inventory is None
            else requested_lite
        )
        return vacuum(
            table,
            _request(spark, table, retention_hours, bool(by_log), FLAG(dry_run, "dry_run", table=table.url), inventory),
        )

    report = run_for_user(spark, run)
    if report.held_back is not None:
        _logger.warning(HELD_BACK, report.table, report.held_back)
    return report


def _request(
    spark: SparkSession,
    table: Table,
    retention_hours: float | None,
    lite: bool,
    dry_run: bool,
    inventory: DataFrame | None,
) -> VacuumRequest:
    """The request, with the settings of the session."""
    return VacuumRequest(
        retention_hours=_hours(spark, table, retention_hours),
        lite=lite,
        dry_run=dry_run,
        inventory=None if inventory is None else _collected_inventory(inventory, table),
        retention_check=setting_names.CHECK_RETENTION.of(spark.conf, table=table.url),
        log_history=setting_names.VACUUM_LOGGING.of(spark.conf, table=table.url),
        **author_of(spark),
    )


def paths_frame(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Paths as the column `path`."""
    return result_frame(spark, [{"path": path} for path in paths], PATH)


def report_frame(spark: SparkSession, report: VacuumReport) -> DataFrame:
    """The paths of a report as the column `path`. Its comment says what tags hold back, so that remote clients learn
    it, too.
    """
    held = report.held_back
    comment = {} if held is None else {COMMENT: HELD_BACK % (report.table, held)}
    schema = StructType([StructField("path", StringType(), metadata=comment)])
    return result_frame(spark, [{"path": path} for path in report.paths], schema)


def _hours(spark: SparkSession, table: Table, requested_hours: float | None) -> float | None:
    """The retention in whole hours that applies; None for the table's.

    By default, the reference uses the table's retention whatever is given, except for 0. A longer one than the table's
    is used here all the same: to ignore it would delete files that the user wants to keep.
    """
    if requested_hours is None or not math.isfinite(requested_hours):
        return None
    hours = math.floor(requested_hours + 0.5)  # as Java's Math.round
    if hours == 0 or not setting_names.IGNORE_RETENTION.of(spark.conf, table=table.url):
        return hours
    of_table = DELETED_FILE_RETENTION.get(table.properties, table=table.url)
    if hours * 3600 > of_table.total_seconds():
        return hours
    _logger.warning(
        "%s: VACUUM ignores the retention of %s h and uses that of the table, delta.deletedFileRetentionDuration. "
        "To use a shorter one, set %s to false",
        table.url,
        hours,
        setting_names.IGNORE_RETENTION.name,
    )
    return None


def _collected_inventory(inventory: DataFrame, table: Table) -> pa.Table:
    """The columns of an inventory, collected into the driver."""
    types = {"string": "string", "int64": "bigint", "bool": "boolean"}
    columns = [(name, kind) for name, kind in inventory.dtypes if name in INVENTORY.names]
    if sorted(columns) != sorted((field.name, types[str(field.type)]) for field in INVENTORY):
        expected = ", ".join(f"{field.name} {types[str(field.type)]}" for field in INVENTORY)
        columns_text = ", ".join(f"{name} {kind}" for name, kind in inventory.dtypes) or "none"
        raise InvalidInventoryError(table=table.url, expectedSchema=expected, detail=f"its columns are {columns_text}")
    return inventory.select(*INVENTORY.names).toArrow()
