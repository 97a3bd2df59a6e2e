"""ANALYZE TABLE ... COMPUTE DELTA STATISTICS in Spark. What it does to files: tests/table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import StatementSyntaxError
from tahoe.spark.layout import statistics
from tahoe.table.verify.check import check_version


@pytest.fixture
def table(spark: SparkSession, path: str) -> str:
    """Rows that Spark wrote, in two files with deleted rows, one column of which has no statistics."""
    rows = spark.range(20).selectExpr(
        "id",
        "concat('s', id) as s",
        "if(id = 13, double('nan'), id / 4) as x",
        "date_add(date '1500-01-01', int(id)) as d",
        "id as late",
    )
    writer = rows.repartitionByRange(2, "id").write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.option("delta.dataSkippingNumIndexedCols", "4").save(path)
    spark.sql(f"delete from delta.`{path}` where id in (0, 9, 19)")
    spark.sql(f"alter table delta.`{path}` set tblproperties ('delta.dataSkippingNumIndexedCols' = '-1')")
    return path


def stats(path: str) -> list[Any]:
    found = [json.loads(text) for text in Table(path).snapshot().live.column("stats").to_pylist()]
    return sorted(found, key=lambda entry: str(entry["minValues"]["d"]))


@pytest.mark.parametrize("in_workers", [False, True])
def test_the_statement_makes_statistics_tight_and_complete(
    spark: SparkSession, table: str, in_workers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_workers:
        monkeypatch.setattr(statistics, "DRIVER_BYTES_MAX", 0)
        monkeypatch.setattr(statistics, "is_local", lambda _: False)
    before = sorted(map(str, spark.read.format("delta").load(table).collect()))
    assert spark.sql(f"ANALYZE TABLE delta.`{table}` COMPUTE DELTA STATISTICS").collect() == []
    low, high = stats(table)
    assert (low["minValues"], low["maxValues"]["id"]) == (
        {"id": 1, "s": "s1", "x": 0.25, "d": "1500-01-02", "late": 1},
        8,
    )
    assert (high["minValues"]["id"], high["maxValues"]["late"], "x" in high["maxValues"]) == (10, 18, False)
    assert "tightBounds" not in low
    assert sorted(map(str, spark.read.format("delta").load(table).collect())) == before
    assert spark.read.format("delta").load(table).where("id = 19").count() == 0
    assert list(check_version(Table(table).snapshot())) == []
    entry = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert (entry.operation, entry.operationParameters) == ("COMPUTE STATS", {"predicate": "[]"})


def test_sparks_own_analyze_and_other_spellings_are_left_to_spark(
    spark: SparkSession, table: str, table_name: str
) -> None:
    spark.sql(f"create table {table_name} using delta location '{table}'")
    version = Table(table).version
    spark.sql(f"ANALYZE TABLE {table_name} COMPUTE STATISTICS FOR COLUMNS id")
    assert Table(table).version == version
    with pytest.raises(StatementSyntaxError):
        spark.sql(f"ANALYZE TABLE {table_name} COMPUTE DELTA STATISTICS NOSCAN")
    spark.sql(f"ANALYZE TABLE {table_name} COMPUTE DELTA STATISTICS")
    assert Table(table).version == version + 1
