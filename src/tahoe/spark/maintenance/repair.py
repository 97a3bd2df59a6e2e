"""FSCK REPAIR TABLE in a Spark session: the result as a DataFrame; and MSCK REPAIR TABLE ... SYNC METADATA. The work is
done in the driver, without Spark jobs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.commit.other_formats import sync_other_formats
from tahoe.table.verify.findings import Finding
from tahoe.table.verify.repair import RepairReport, RepairRequest, repair
from tahoe.table.versions.table_reader import TableReader

# The result of FSCK REPAIR TABLE: one row for each finding, first those that are repaired, or would be with DRY RUN.
REPAIRS = StructType(
    [
        StructField("file", StringType()),
        StructField("problem", StringType()),
        StructField("detail", StringType()),
        StructField("isRepairable", BooleanType()),
        StructField("action", StringType()),
    ]
)


def run_repair(target: DmlTarget, request: RepairRequest) -> DataFrame:
    """Repair a table, and return what was found and done. `action` says what was done, or why nothing was."""
    whole = replace(request, **author_of(target.spark))
    report = run_for_user(target.spark, lambda: repair(target.table, whole))
    if report.repairs and not report.is_dry_run:
        recache(Gateway(target.spark), target.table.url)
    return result_frame(target.spark, _rows(report), REPAIRS)


def run_sync_metadata(spark: SparkSession, table: TableReader) -> None:
    """Bring the metadata of other formats up to the newest version.

    Raises:
        UnsupportedOperationError: the table does not ask for such metadata.
    """
    run_for_user(spark, lambda: sync_other_formats(table.snapshot()))


def _rows(report: RepairReport) -> list[dict[str, Any]]:
    done = [_row(r.finding, True, r.action.value) for r in report.repairs]
    return [*done, *(_row(u.finding, False, u.reason) for u in report.left)]


def _row(found: Finding, is_repairable: bool, action: str) -> dict[str, Any]:
    return {
        "file": found.file,
        "problem": found.kind.value,
        "detail": found.detail,
        "isRepairable": is_repairable,
        "action": action,
    }
