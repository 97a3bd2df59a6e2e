"""Plans, the UI and inputFiles say what of a table is read."""

from __future__ import annotations

import pytest

from tests.spark.foreign import mark

pytestmark = pytest.mark.every_spark


@pytest.fixture
def table(spark, path) -> str:
    """Three files in three partitions, with a vector on the first, at version 1."""
    spark.range(0, 100, 1, 1).selectExpr("id", "id % 3 as p").write.format("delta").partitionBy("p").save(path)
    mark(path, {0: [1, 2]})
    return path


def explained(frame) -> str:
    return frame._jdf.queryExecution().explainString(
        frame._sc._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


def test_a_plan_tells_version_files_partitions_and_vectors(spark, table):
    frame = spark.read.format("delta").load(table)
    text = explained(frame.where("id > 5"))
    assert f"Scan parquet file://{table} v1 [1 of 3 files, 1 of 3 partitions, with deletion vectors]" in text
    assert f"Scan parquet file://{table} v1 [2 of 3 files, 2 of 3 partitions]" in text
    assert f"Scan parquet file://{table} v1 [1 of 3 files, 1 of 3 partitions]" in explained(frame.where("p = 2"))
    assert f"Scan parquet file://{table} v0 [3 of 3 files, 3 of 3 partitions]" in explained(
        spark.read.format("delta").option("versionAsOf", 0).load(table)
    )


def test_explain_of_a_name_tells_the_name(spark, table, table_name):
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{table}'")
    (row,) = spark.sql(f"EXPLAIN SELECT * FROM {table_name} WHERE p = 1").collect()
    assert f"spark_catalog.default.{table_name} v1 [1 of 3 files, 1 of 3 partitions]" in row.plan


@pytest.mark.sparks_reader
def test_the_ui_shows_the_same(spark, table):
    spark.read.format("delta").load(table).where("p = 1").collect()
    store = spark._jsparkSession.sharedState().statusStore()
    newest = store.executionsList().last()
    nodes = store.planGraph(newest.executionId()).allNodes()
    assert f"Scan parquet file://{table} v1 [1 of 3 files, 1 of 3 partitions]" in [
        nodes.apply(i).name() for i in range(nodes.size())
    ]


def test_input_files_are_those_that_may_be_read(spark, table):
    frame = spark.read.format("delta").load(table)
    assert len(frame.inputFiles()) == 3
    (file,) = frame.where("p = 1").inputFiles()
    assert "/p=1/" in file
    assert [f for f in frame.where("id > 1000").inputFiles() if "p=0" not in f] == []


def test_tables_with_the_same_columns_are_told_apart(spark, table, tmp_path):
    other = str(tmp_path / "other")
    spark.range(10).selectExpr("id", "id as p").write.format("delta").save(other)
    text = explained(
        spark.read.format("delta").load(table).where("p = 1").unionAll(spark.read.format("delta").load(other))
    )
    assert f"{table} v1 [1 of 3 files" in text
    assert f"{other} v0 [" in text
