"""CLONE of Parquet folders, Parquet tables of the catalog, and Iceberg tables, through Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tahoe

KINDS = pytest.mark.parametrize("kind", ["SHALLOW", "DEEP"])


@pytest.fixture(autouse=True)
def names(spark: SparkSession) -> Iterator[None]:
    yield
    for name in ("cloned", "cloned_from"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> str:
    rows = "SELECT id, make_date(2026, 1, 1 + id % 2) AS day, id % 2 AS n, 'k ' || id % 2 AS key FROM range(6)"
    spark.sql(rows).repartition(1).write.partitionBy("day", "n", "key").parquet(f"{tmp_path}/in here")
    return f"{tmp_path}/in here"


def rows(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


@KINDS
def test_a_folder_with_partitions(spark, folder, tmp_path, kind):
    """Spark says which types the partition columns have."""
    before = sorted(Path(folder).rglob("*"))
    target = f"delta.`{tmp_path}/t`"
    (row,) = spark.sql(f"CREATE TABLE {target} {kind} CLONE parquet.`{folder}` TBLPROPERTIES ('mine' = '1')").collect()
    assert (row.source_num_of_files, row.num_copied_files) == (2, 0 if kind == "SHALLOW" else 2)
    found, expected = spark.table(target), spark.read.parquet(folder)
    assert found.dtypes == expected.dtypes
    assert rows(found) == rows(expected)
    assert found.where("day = '2026-01-02'").count() == 3
    spark.sql(f"UPDATE {target} SET id = 100 WHERE n = 1")
    spark.sql(f"INSERT INTO {target} VALUES (7, DATE'2026-01-01', 5, 'x')")
    assert found.where("id = 100").count() == 3
    assert rows(spark.read.parquet(folder)) == rows(expected)
    assert sorted(Path(folder).rglob("*")) == before
    assert tahoe.Table(tmp_path / "t").properties == {"mine": "1"}
    history = spark.sql(f"DESCRIBE HISTORY {target}").collect()[-1]
    assert (history.operation, history.operationParameters["source"]) == ("CLONE", f"parquet.`{folder}`")
    spark.sql(f"CREATE OR REPLACE TABLE {target} {kind} CLONE parquet.`{folder}`")
    assert rows(spark.table(target)) == rows(expected)


@KINDS
def test_a_table_of_the_catalog(spark, tmp_path, kind):
    """Its partitions and types are the catalog's; the session's defaults are not those of a clone."""
    spark.sql(
        "CREATE TABLE cloned_from (id BIGINT, p STRING COMMENT 'c') USING parquet PARTITIONED BY (p) "
        "TBLPROPERTIES ('a' = 'b')"
    )
    spark.sql("INSERT INTO cloned_from VALUES (1, '01'), (2, NULL)")
    spark.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS cloned {kind} CLONE cloned_from LOCATION '{tmp_path}/t'")
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.appendOnly")
    assert rows(spark.table("cloned").na.fill("none")) == [(1, "01"), (2, "none")]
    assert spark.table("cloned").schema["p"].metadata["comment"] == "c"
    assert tahoe.Table(tmp_path / "t").properties == {"a": "b"}
    assert (
        tahoe.Table(tmp_path / "t").history()[0]["operationParameters"]["source"] == "spark_catalog.default.cloned_from"
    )
    assert spark.sql("DESCRIBE DETAIL cloned").head().format == "delta"
    spark.sql("INSERT INTO cloned_from VALUES (3, 'new')")
    assert spark.sql(f"CREATE TABLE IF NOT EXISTS cloned {kind} CLONE cloned_from").count() == 0
    with pytest.raises(AnalysisException, match="DELTA_TABLE_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE cloned {kind} CLONE cloned_from")
    spark.sql(f"CREATE OR REPLACE TABLE cloned {kind} CLONE cloned_from")
    assert spark.table("cloned").count() == 3
    assert spark.table("cloned_from").count() == 3


@KINDS
def test_an_iceberg_table(spark, tmp_path, kind):
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("d")
    given = pa.table({"id": [1, 2], "day": [dt.date(2026, 1, 1), None], "s": [{"a": [1.5]}, None], "name": ["x", "y"]})
    source = catalog.create_table("d.t", schema=given.schema)
    with source.update_spec() as spec:
        spec.add_identity("day")
    source.append(given)
    with source.update_schema() as change:
        change.rename_column("name", "title")
        change.rename_column("s", "inner")
    target = f"delta.`{tmp_path}/t`"
    for place in (source.location(), source.metadata_location):
        spark.sql(f"CREATE OR REPLACE TABLE {target} {kind} CLONE iceberg.`{place}`")
        expected = [(1, dt.date(2026, 1, 1), (([1.5]),), "x"), (2, None, None, "y")]
        assert sorted(spark.table(target).collect()) == [tuple(row) for row in expected]
    assert spark.table(target).where("title = 'y'").count() == 1
    spark.sql(f"INSERT INTO {target} VALUES (3, DATE'2026-01-03', NULL, 'z')")
    spark.sql(f"ALTER TABLE {target} RENAME COLUMN title TO name")
    spark.sql(f"DELETE FROM {target} WHERE id = 1")
    assert [(row.id, row.name) for row in spark.table(target).orderBy("id").collect()] == [(2, "y"), (3, "z")]
    assert source.scan().to_arrow().num_rows == 2


def test_what_is_wrong_is_told(spark, folder, tmp_path, path):
    spark.range(1).write.format("delta").save(path)
    for source, condition in (
        (f"parquet.`{path}`", "DELTA_CLONE_INCOMPATIBLE_SOURCE"),
        (f"parquet.`{tmp_path}/nothing`", "DELTA_EMPTY_DIRECTORY"),
        (f"parquet.`{folder}` VERSION AS OF 1", "DELTA_INVALID_TIME_TRAVEL"),
        (f"iceberg.`{folder}`", "DELTA_CLONE_UNSUPPORTED_SOURCE"),
        (f"orc.`{folder}`", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with pytest.raises(AnalysisException) as raised:
            spark.sql(f"CREATE TABLE delta.`{tmp_path}/other` SHALLOW CLONE {source}")
        assert raised.value.getCondition() == condition, source
        assert not (tmp_path / "other").exists()
    with pytest.raises(AnalysisException, match="DELTA_CLONE_NESTED_TABLE"):
        spark.sql(f"CREATE TABLE delta.`{folder}/t` SHALLOW CLONE parquet.`{folder}`")
