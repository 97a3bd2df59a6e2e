"""VACUUM through Spark: the forms of the statement, its result, the history, and the session's settings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import InvalidInventoryError, InvalidOptionError, VacuumPartitionError, VacuumRetentionTooShortError

SETTING = "spark.databricks.delta."
CHECK = SETTING + "retentionDurationCheck.enabled"
IGNORE = SETTING + "vacuum.retentionWindowIgnore.enabled"


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(CHECK, "false")
    yield
    for name in (CHECK, IGNORE, SETTING + "vacuum.lite.enabled", SETTING + "vacuum.logging.enabled"):
        spark.conf.unset(name)


@pytest.fixture
def dead(path: str) -> str:
    """A table with a partition whose files are dead, an old file that no version names, and a young one."""
    table = tahoe.Table(path)
    table.append(pa.table({"p": ["a b", "c"], "v": [1, 2]}), partition_by=["p"])
    with table.transaction() as changes:
        changes.delete("p = 'a b'")
    stray = Path(path) / "stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (1, 1))
    time.sleep(0.05)
    return path


def dead_keys(path: str) -> set[str]:
    return {name for name in _files(path) if name.startswith("p=a b/") or name == "stray.parquet"}


def _files(path: str) -> set[str]:
    found = (file.relative_to(path) for file in Path(path).rglob("*.parquet"))
    return {str(file) for file in found if not str(file).startswith("_delta_log")}


def operations(path: str) -> list[str]:
    return [commit["operation"] for commit in tahoe.Table(path).history()]


def test_the_statement_deletes_and_answers_with_the_path(spark, dead):
    keys = dead_keys(dead)
    assert len(keys) == 2
    dry = spark.sql(f"VACUUM delta.`{dead}` RETAIN 0 HOURS DRY RUN")
    assert dry.dtypes == [("path", "string")]
    assert {row.path for row in dry.collect()} == {f"file://{dead}/{key}" for key in keys} | {f"file://{dead}/p=a b"}
    assert dead_keys(dead) == keys
    assert operations(dead)[0] == "DELETE"
    done = spark.sql(f"VACUUM '{dead}' RETAIN 0 HOURS")
    assert (done.columns, [tuple(row) for row in done.collect()]) == (["path"], [(f"file://{dead}",)])
    assert dead_keys(dead) == set()
    assert not (Path(dead) / "p=a b").exists()
    assert operations(dead)[:2] == ["VACUUM END", "VACUUM START"]
    end, start = spark.sql(f"DESCRIBE HISTORY delta.`{dead}` LIMIT 2").collect()
    assert start.operationParameters == {
        "retentionCheckEnabled": "false",
        "defaultRetentionMillis": "604800000",
        "specifiedRetentionMillis": "0",
    }
    assert set(start.operationMetrics) == {"numFilesToDelete", "sizeOfDataToDelete"}
    assert (end.operationParameters, end.operationMetrics["numDeletedFiles"]) == (
        {"status": "COMPLETED", "startVersion": "2"},
        "3",
    )
    assert [tuple(row) for row in spark.read.format("delta").load(dead).collect()] == [("c", 2)]


def test_the_method_answers_with_what_was_deleted(spark, dead):
    keys = dead_keys(dead)
    table = DeltaTable.forPath(spark, dead)
    assert table.vacuum().collect() == [
        spark.createDataFrame([(f"file://{dead}/stray.parquet",)], "path string").head()
    ]
    keys.discard("stray.parquet")
    lite = {row.path for row in table.vacuum(0, lite=True, dry_run=True).collect()}
    assert lite == {f"file://{dead}/{key}" for key in keys}
    assert {row.path for row in table.vacuum(0.4, lite=True).collect()} >= lite
    assert dead_keys(dead) == set()


def test_a_table_is_named_and_lite_is_a_setting(spark, dead, table_name):
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{dead}'")
    spark.conf.set(SETTING + "vacuum.lite.enabled", "true")
    spark.conf.set(SETTING + "vacuum.logging.enabled", "false")
    spark.sql(f"VACUUM {table_name} RETAIN 0 HOURS")
    assert dead_keys(dead) == {"stray.parquet"}
    assert "VACUUM END" not in operations(dead)
    spark.sql(f"VACUUM {table_name} FULL RETAIN 0 HOURS")
    assert dead_keys(dead) == set()


@pytest.mark.parametrize("clause", ["inventory", "(SELECT *, 1 AS more FROM inventory WHERE length > 0)"])
def test_an_inventory_is_used_instead_of_a_listing(spark, dead, clause):
    rows = [
        (f"file:{dead}/stray.parquet", 1, False, 0),
        (f"{dead}/_delta_log/00000000000000000000.json", 1, False, 0),
        ("/x", 1, False, 0),
    ]
    spark.createDataFrame(
        rows, "path string, length long, isDir boolean, modificationTime long"
    ).createOrReplaceTempView("inventory")
    found = spark.sql(f"VACUUM delta.`{dead}` USING INVENTORY {clause} RETAIN 0 HOURS DRY RUN").collect()
    assert [row.path for row in found] == [f"file://{dead}/stray.parquet"]
    with pytest.raises(InvalidOptionError):
        spark.sql(f"VACUUM delta.`{dead}` LITE USING INVENTORY {clause}")
    with pytest.raises(InvalidInventoryError) as raised:
        spark.sql(f"VACUUM delta.`{dead}` USING INVENTORY (SELECT path, length, isDir FROM inventory)")
    assert raised.value.getCondition() == "DELTA_INVALID_INVENTORY_SCHEMA"


def test_a_retention_is_checked_as_the_reference_does(spark, dead):
    spark.conf.unset(CHECK)
    with pytest.raises(VacuumRetentionTooShortError) as raised:
        spark.sql(f"VACUUM delta.`{dead}` RETAIN 0 HOURS")
    assert isinstance(raised.value, IllegalArgumentException)
    spark.sql(f"VACUUM delta.`{dead}` RETAIN 1 HOURS DRY RUN")  # ignored
    spark.sql(f"VACUUM delta.`{dead}` RETAIN -1 HOURS DRY RUN")
    spark.conf.set(IGNORE, "false")
    with pytest.raises(VacuumRetentionTooShortError):
        spark.sql(f"VACUUM delta.`{dead}` RETAIN 1 HOURS")
    with pytest.raises(IllegalArgumentException, match="DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"):
        spark.sql(f"VACUUM delta.`{dead}` RETAIN -1 HOURS")
    assert dead_keys(dead) != set()


@pytest.mark.parametrize("form", ["delta.`{}/p=c`", "'{}/p=c'"])
def test_a_partition_is_refused_with_the_table_it_belongs_to(spark, dead, form):
    with pytest.raises(VacuumPartitionError, match=dead):
        spark.sql(f"VACUUM {form.format(dead)}")


def test_what_is_not_a_table_is_refused(spark, tmp_path):
    spark.range(1).createOrReplaceTempView("a_view")
    for name in ("a_view", f"delta.`{tmp_path}/none`"):
        with pytest.raises(AnalysisException):
            spark.sql(f"VACUUM {name}")
