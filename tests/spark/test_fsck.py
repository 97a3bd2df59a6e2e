"""FSCK REPAIR TABLE in Spark. What it does to tables: tests/table/test_repair.py."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import RepairUncertainError, StatementSyntaxError
from tahoe.table.verify.check import check_version


@pytest.fixture
def damaged(spark: SparkSession, path: str) -> tuple[str, str]:
    """A table of three files that has lost one, and the name of that file."""
    spark.range(0, 30, 1, 3).write.format("delta").save(path)
    lost = str(Table(path).files("id = 0")["path"][0])
    os.remove(f"{path}/{lost}")
    return path, lost


def test_the_statement_removes_what_is_gone_and_says_so(
    spark: SparkSession, damaged: tuple[str, str], table_name: str
) -> None:
    path, lost = damaged
    spark.sql(f"create table {table_name} using delta location '{path}'")
    spark.table(table_name).cache()
    (row,) = spark.sql(f"FSCK REPAIR TABLE {table_name} DRY RUN").collect()
    assert (row.file, row.problem, row.isRepairable) == (lost, "missing-data-file", True)
    assert Table(path).version == 0
    assert spark.sql(f"FSCK REPAIR TABLE {table_name} METADATA ONLY").collect() == []
    assert spark.sql(f"FSCK REPAIR TABLE {table_name}").collect() == [row]
    assert spark.table(table_name).count() == 20
    assert list(check_version(Table(path).snapshot())) == []
    entry = DeltaTable.forPath(spark, path).history(1).collect()[0]
    assert (entry.operation, entry.operationMetrics["numRemovedFiles"]) == ("FSCK", "1")
    assert "Spark" in entry.engineInfo
    assert spark.sql(f"FSCK REPAIR TABLE delta.`{path}` VERIFY ALL FILES").collect() == []


def test_errors_and_other_spellings_are_told(
    spark: SparkSession, damaged: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = damaged
    with pytest.raises(StatementSyntaxError, match="DRY RUN"):
        spark.sql(f"FSCK REPAIR TABLE delta.`{path}` DRY RUN METADATA ONLY")
    monkeypatch.setattr("os.stat", _refused)
    with pytest.raises(RepairUncertainError):
        spark.sql(f"FSCK REPAIR TABLE delta.`{path}`")
    monkeypatch.undo()
    assert Table(path).version == 0


_stat = os.stat


def _refused(path: object, *given: object, **options: object) -> os.stat_result:
    if str(path).endswith(".parquet"):
        raise PermissionError(13, "Permission denied", str(path))
    return _stat(path, *given, **options)  # type: ignore[arg-type]
