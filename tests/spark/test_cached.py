"""What Spark has cached and a command changes: a command that is committed is done, whatever becomes of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tahoe import Table
from tahoe.table.verify.check import check_version
from tests.spark.builders import COPIES, VECTORS, make

pytestmark = pytest.mark.every_spark

STATEMENTS: Mapping[str, str] = {
    "update": "UPDATE {t} SET v = 9 WHERE id = 1",
    "merge": "MERGE INTO {t} t USING (SELECT 1L AS id, 9L AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "replace": "INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 9)",
    "delete": "DELETE FROM {t} WHERE id = 1",
    "insert": "INSERT INTO {t} VALUES (10, 9)",
    "overwrite": "INSERT OVERWRITE {t} VALUES (10, 9)",
    "property": "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",
}


@pytest.fixture(params=[VECTORS, COPIES], ids=["vectors", "copies"])
def table(spark: SparkSession, path: str, request: pytest.FixtureRequest) -> str:
    make(spark.range(0, 10, 1, 2).selectExpr("id", "0L AS v"), path, request.param)
    return f"delta.`{path}`"


@pytest.fixture
def lost(spark: SparkSession, table: str, tmp_path: Path) -> Iterator[DataFrame]:
    """Rows of a table, cached together with those of one that is gone."""
    other = str(tmp_path / "other")
    spark.range(3).write.format("delta").save(other)
    both = spark.table(table).join(spark.read.format("delta").load(other), "id").cache()
    assert both.count() == 3
    shutil.rmtree(other)
    yield both
    both.unpersist()


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_done_though_what_is_cached_cannot_be_made_anew(
    spark: SparkSession, table: str, path: str, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql(STATEMENTS[statement].format(t=table))
    assert "no longer cached" in caplog.text
    assert Table(path).version == 1
    assert sorted(Table(path).to_arrow().to_pylist(), key=str) == sorted(
        (r.asDict() for r in spark.table(table).collect()), key=str
    )
    assert list(check_version(Table(path).snapshot())) == []


def test_a_cached_table_whose_column_is_renamed(spark: SparkSession, table_name: str) -> None:
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE {table_name} USING delta {mapped} AS SELECT 1 AS id, 'a' AS v, 'b' AS w")
    spark.sql(f"CACHE TABLE {table_name}")
    spark.sql(f"ALTER TABLE {table_name} RENAME COLUMN v TO vv")
    assert [row.asDict() for row in spark.table(table_name).collect()] == [{"id": 1, "vv": "a", "w": "b"}]
    spark.sql(f"CACHE TABLE {table_name}")
    spark.sql(f"ALTER TABLE {table_name} DROP COLUMN w")
    assert [row.asDict() for row in spark.table(table_name).collect()] == [{"id": 1, "vv": "a"}]
