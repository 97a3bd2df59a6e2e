"""RESTORE through Spark: the forms of the statement, its result, the session's settings and the Python API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import InvalidOptionError, RestoreFilesMissingError, RestoreVersionError

RETENTION = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
MISSING = "spark.sql.files.ignoreMissingFiles"
ZONE = "spark.sql.session.timeZone"
COLUMNS = [
    *("table_size_after_restore", "num_of_files_after_restore", "num_removed_files"),
    *("num_restored_files", "removed_files_size", "restored_files_size"),
]


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    zone = spark.conf.get(ZONE)
    yield
    spark.conf.set(ZONE, zone)
    for name in (RETENTION, MISSING):
        spark.conf.unset(name)


@pytest.fixture
def changed(spark, path):
    """Version 0 has the rows 0 to 3. Version 1 lacks row 1, and version 2 has row 9 too."""
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (9)")
    return path


def ids(spark, path):
    return sorted(row.id for row in spark.read.format("delta").load(path).collect())


@pytest.mark.parametrize(
    "form", ["TABLE {} TO VERSION AS OF 0", "{} TO VERSION AS OF 1 - 1", "{} FOR SYSTEM_VERSION AS OF 0"]
)
def test_the_statement_answers_with_one_row_of_counts(spark, changed, form):
    frame = spark.read.format("delta").load(changed).cache()
    assert frame.count() == 4
    result = spark.sql("RESTORE " + form.format(f"delta.`{changed}`"))
    (row,) = result.collect()
    assert (result.columns, {kind for _, kind in result.dtypes}) == (COLUMNS, {"bigint"})
    assert (row.num_of_files_after_restore, row.num_removed_files, row.num_restored_files) == (1, 2, 1)
    assert ids(spark, changed) == [0, 1, 2, 3]
    assert sorted(row.id for row in frame.collect()) == [0, 1, 2, 3], "the cached rows of the old version"
    frame.unpersist()
    assert tahoe.Table(changed).version == 3
    assert spark.sql("RESTORE " + form.format(f"delta.`{changed}`")).count() == 1


def test_the_newest_version_is_no_work_and_no_row(spark, changed):
    result = spark.sql(f"RESTORE delta.`{changed}` TO VERSION AS OF 2")
    assert (result.columns, result.count(), tahoe.Table(changed).version) == (COLUMNS, 0, 2)


def test_timestamps_are_in_the_sessions_time_zone(spark, changed):
    moments = [commit["timestamp"] for commit in tahoe.Table(changed).history()][::-1]
    spark.conf.set(ZONE, "Asia/Tokyo")
    text = spark.sql(f"SELECT string(timestamp_millis({int(moments[1].timestamp() * 1000)}))").head()[0]
    spark.sql(f"RESTORE delta.`{changed}` TO TIMESTAMP AS OF '{text}'")
    assert ids(spark, changed) == [0, 2, 3]
    stored = tahoe.Table(changed).history(1)[0]["operationParameters"]["timestamp"]
    assert stored[:19] == text[:19]
    DeltaTable.forPath(spark, changed).restoreToTimestamp(
        str(spark.sql(f"SELECT string(timestamp_millis({int(moments[0].timestamp() * 1000)}))").head()[0])
    )
    assert ids(spark, changed) == [0, 1, 2, 3]
    spark.sql(f"RESTORE delta.`{changed}` TO TIMESTAMP AS OF timestamp_millis({int(moments[2].timestamp() * 1000)})")
    assert ids(spark, changed) == [0, 2, 3, 9]


def test_a_named_table_by_the_api(spark, changed):
    spark.sql(f"CREATE TABLE restored USING delta LOCATION '{changed}'")
    try:
        table = DeltaTable.forName(spark, "restored")
        assert table.restoreToVersion(1).head().num_of_files_after_restore == 1
        assert sorted(row.id for row in spark.table("restored").collect()) == [0, 2, 3]
        spark.sql("RESTORE TABLE restored VERSION AS OF 2")
        assert spark.table("restored").count() == 4
    finally:
        spark.sql("DROP TABLE restored")
    with pytest.raises(ValueError, match="version needs to be an int"):
        table.restoreToVersion("1")
    with pytest.raises(ValueError, match="timestamp needs to be a string"):
        table.restoreToTimestamp(1)


def test_errors_are_the_references(spark, changed):
    for version, kind in (("7", RestoreVersionError), ("-1", InvalidOptionError)):
        with pytest.raises((AnalysisException, IllegalArgumentException)) as raised:
            spark.sql(f"RESTORE delta.`{changed}` TO VERSION AS OF {version}")
        assert isinstance(raised.value, kind)
    for text, condition in (
        ("1999-01-01", "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"),
        ("2999-01-01", "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"),
        ("never", "DELTA_INVALID_TIME_TRAVEL"),
    ):
        with pytest.raises(AnalysisException) as raised:
            DeltaTable.forPath(spark, changed).restoreToTimestamp(text)
        assert raised.value.getCondition() == condition


def test_settings_switch_the_checks_off(spark, changed):
    spark.sql(
        f"ALTER TABLE delta.`{changed}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"RESTORE delta.`{changed}` TO VERSION AS OF 0")
    assert raised.value.getCondition() == "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
    spark.conf.set(RETENTION, "false")
    spark.sql(f"DELETE FROM delta.`{changed}`")
    for file in Path(changed).glob("*.parquet"):
        file.unlink()
    with pytest.raises(IllegalArgumentException, match="Not all files from version 0 are available") as missing:
        spark.sql(f"RESTORE delta.`{changed}` TO VERSION AS OF 0")
    assert isinstance(missing.value, RestoreFilesMissingError)
    spark.conf.set(MISSING, "true")
    spark.sql(f"RESTORE delta.`{changed}` TO VERSION AS OF 0")
    assert len(tahoe.Table(changed).snapshot().live) == 1


def test_auto_compaction_does_not_follow(spark, path):
    properties = {"delta.autoOptimize.autoCompact": "true"}
    for number in range(60):
        tahoe.Table(path).append(spark.range(number, number + 1).toArrow()) if number else tahoe.Table(path).append(
            spark.range(1).toArrow(), properties={}
        )
    tahoe.Table(path).optimize()
    with tahoe.Table(path).transaction() as changes:
        changes.set_properties(properties)
    spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF 59")
    with tahoe.Table(path).transaction() as changes:
        changes.set_properties(properties)
    spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF 60")
    version = tahoe.Table(path).version
    spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF {version - 1}")
    assert [commit["operation"] for commit in tahoe.Table(path).history(1)] == ["RESTORE"]
    assert len(tahoe.Table(path).snapshot().live) == 60
