"""CLONE through Spark: the forms of the statement, names and paths, the catalog, and the Python API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import ClonedFileMissingError, DataFileMissingError, PathIsNotEmptyError, TableExistsError

COLUMNS = [
    *("source_table_size", "source_num_of_files", "num_removed_files"),
    *("num_copied_files", "removed_files_size", "copied_files_size"),
]


@pytest.fixture(autouse=True)
def names(spark: SparkSession) -> Iterator[None]:
    yield
    for name in ("cloned", "cloned_from", "cloned_view"):
        spark.sql(f"DROP {'VIEW' if 'view' in name else 'TABLE'} IF EXISTS {name}")


@pytest.fixture
def source(spark, path):
    """Version 0 has the rows 0 to 3, and version 1 lacks row 1."""
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    return path


def ids(frame):
    return sorted(row.id for row in frame.collect())


def loaded(spark, path):
    return ids(spark.read.format("delta").load(str(path)))


@pytest.mark.parametrize("kind", ["SHALLOW", "DEEP"])
def test_a_path_and_what_lives_on(spark, source, tmp_path, kind):
    target = f"{tmp_path}/a clone"
    result = spark.sql(f"CREATE TABLE delta.`{target}` {kind} CLONE delta.`{source}` TBLPROPERTIES ('mine' = '1')")
    (row,) = result.collect()
    assert (result.columns, {kind for _, kind in result.dtypes}) == (COLUMNS, {"bigint"})
    assert (row.source_num_of_files, row.num_removed_files, row.num_copied_files) == (1, 0, int(kind == "DEEP"))
    spark.sql(f"INSERT INTO delta.`{target}` VALUES (9)")
    spark.sql(f"UPDATE delta.`{target}` SET id = 20 WHERE id = 2")
    assert (loaded(spark, target), loaded(spark, source)) == ([0, 3, 9, 20], [0, 2, 3])
    assert tahoe.Table(target).properties["mine"] == "1"
    with pytest.raises(TableExistsError):
        spark.sql(f"CREATE TABLE delta.`{target}` {kind} CLONE delta.`{source}`")
    frame = spark.read.format("delta").load(target).cache()
    assert frame.count() == 4
    (again,) = spark.sql(
        f"CREATE OR REPLACE TABLE delta.`{target}` {kind} CLONE delta.`{source}` VERSION AS OF 0"
    ).collect()
    assert (again.num_removed_files > 0, ids(frame), loaded(spark, target)) == (True, [0, 1, 2, 3], [0, 1, 2, 3])
    frame.unpersist()


def test_names_and_the_catalog(spark, source, tmp_path):
    spark.sql(f"CREATE TABLE cloned_from USING delta LOCATION '{source}'")
    spark.sql("CREATE TABLE cloned SHALLOW CLONE cloned_from")
    assert ids(spark.table("cloned")) == [0, 2, 3]
    (detail,) = spark.sql("DESCRIBE DETAIL cloned").collect()
    assert detail.name.endswith("default.cloned")
    history = tahoe.Table(detail.location).history()[0]
    assert history["operationParameters"] == {"source": "spark_catalog.default.cloned_from", "sourceVersion": "1"}
    assert spark.sql("CREATE TABLE IF NOT EXISTS cloned SHALLOW CLONE cloned_from VERSION AS OF 0").count() == 0
    with pytest.raises(TableExistsError):
        spark.sql("CREATE TABLE cloned SHALLOW CLONE cloned_from")
    spark.sql("REPLACE TABLE cloned DEEP CLONE cloned_from VERSION AS OF 0")
    assert ids(spark.table("cloned")) == [0, 1, 2, 3]
    spark.sql("DROP TABLE cloned")
    spark.sql(f"CREATE TABLE cloned SHALLOW CLONE cloned_from LOCATION '{tmp_path}/place'")
    assert Path(f"{tmp_path}/place/_delta_log").exists()
    assert ids(spark.table("cloned")) == [0, 2, 3]
    assert spark.sql("SHOW CREATE TABLE cloned").head()[0].count("place") == 1
    spark.sql("DROP TABLE cloned")
    assert loaded(spark, f"{tmp_path}/place") == [0, 2, 3]


def refusal(spark, text):
    with pytest.raises(AnalysisException) as raised:
        spark.sql(text)
    return raised.value.getCondition()


def test_refusals_are_the_references(spark, source, tmp_path):
    path = f"delta.`{tmp_path}/new`"
    assert (
        refusal(spark, f"REPLACE TABLE cloned SHALLOW CLONE delta.`{source}`") == "DELTA_CANNOT_REPLACE_MISSING_TABLE"
    )
    assert (
        refusal(spark, f"REPLACE TABLE {path} SHALLOW CLONE delta.`{source}`") == "DELTA_CANNOT_REPLACE_MISSING_TABLE"
    )
    assert (
        refusal(spark, f"CREATE TABLE {path} SHALLOW CLONE delta.`{source}` LOCATION '/other'")
        == "DELTA_CLONE_AMBIGUOUS_TARGET"
    )
    assert (
        refusal(spark, f"CREATE TABLE cloned SHALLOW CLONE delta.`{source}` LOCATION 'other'")
        == "DELTA_INVALID_CLONE_PATH"
    )
    spark.sql("CREATE TEMPORARY VIEW cloned_view AS SELECT 1 AS id")
    assert refusal(spark, f"CREATE TABLE {path} SHALLOW CLONE cloned_view") == "DELTA_CLONE_UNSUPPORTED_SOURCE"
    assert (
        refusal(spark, f"CREATE TABLE {path} SHALLOW CLONE delta.`{source}` VERSION AS OF 9")
        == "DELTA_VERSION_NOT_FOUND"
    )
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = false)"
    assert (
        refusal(spark, f"CREATE TABLE {path} SHALLOW CLONE delta.`{source}` {vectors}")
        == "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"
    )
    with pytest.raises(ParseException) as raised:
        spark.sql(f"CREATE OR REPLACE TABLE IF NOT EXISTS {path} SHALLOW CLONE delta.`{source}`")
    assert raised.value.getCondition() == "DELTA_PARSING_MUTUALLY_EXCLUSIVE_CLAUSES"
    assert not Path(f"{tmp_path}/new").exists()
    assert not spark.catalog.tableExists("cloned")


def test_a_target_that_is_a_view_or_in_another_catalog_is_refused(spark, source, table_name):
    """It was made in the session's catalog, over a table of the same name."""
    for name in (f"other.default.{table_name}", f"spark_catalog.a.b.{table_name}"):
        for start in ("CREATE", "CREATE OR REPLACE", "REPLACE"):
            assert (
                refusal(spark, f"{start} TABLE {name} SHALLOW CLONE delta.`{source}`") == "DELTA_UNSUPPORTED_OPERATION"
            )
        with pytest.raises(AnalysisException, match="in another catalog"):
            tahoe.DeltaTable.create(spark).tableName(name).addColumn("id", "int").execute()
    assert not spark.catalog.tableExists(table_name)
    spark.sql("CREATE VIEW a_view AS SELECT 1 AS id")
    for start in ("CREATE", "CREATE OR REPLACE"):
        assert refusal(spark, f"{start} TABLE a_view SHALLOW CLONE delta.`{source}`") == "DELTA_UNSUPPORTED_OPERATION"
    spark.sql("DROP VIEW a_view")


def test_a_file_that_is_gone_is_one_of_the_table_that_was_read(spark, source, tmp_path):
    """The error was about the source, which had been read before, and in whose folder the file was."""
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/target` SHALLOW CLONE delta.`{source}`")
    assert loaded(spark, source) == [0, 2, 3]
    for file in Path(source).glob("*.parquet"):
        file.unlink()
    with pytest.raises(ClonedFileMissingError, match=f"{tmp_path}/target, version 0"):
        loaded(spark, f"{tmp_path}/target")
    with pytest.raises(DataFileMissingError, match=f"{source}: ") as raised:
        loaded(spark, source)
    assert not isinstance(raised.value, ClonedFileMissingError)


def test_if_not_exists_leaves_a_table_at_a_path(spark, source, tmp_path):
    text = f"CREATE TABLE IF NOT EXISTS delta.`{tmp_path}/target` SHALLOW CLONE delta.`{source}`"
    assert [spark.sql(text).count(), spark.sql(text + " VERSION AS OF 0").count()] == [1, 0]
    assert loaded(spark, f"{tmp_path}/target") == [0, 2, 3]


def test_session_defaults_are_not_mixed_in(spark, source, tmp_path):
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(name, "true")
    try:
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/c` SHALLOW CLONE delta.`{source}`")
    finally:
        spark.conf.unset(name)
    assert "delta.enableChangeDataFeed" not in tahoe.Table(f"{tmp_path}/c").properties


def test_the_api_returns_the_clone(spark, source, tmp_path):
    table = DeltaTable.forPath(spark, source)
    clone = table.clone(f"{tmp_path}/a", isShallow=True, properties={"mine": "1"})
    assert isinstance(clone, DeltaTable)
    assert ids(clone.toDF()) == [0, 2, 3]
    clone.delete("id = 0")
    assert ids(table.toDF()) == [0, 2, 3]
    assert ids(table.cloneAtVersion(0, f"{tmp_path}/a", replace=True).toDF()) == [0, 1, 2, 3]
    moment = table.history().where("version = 0").selectExpr("string(timestamp)").head()[0]
    assert ids(table.cloneAtTimestamp(moment, "cloned").toDF()) == [0, 1, 2, 3]
    with pytest.raises(TableExistsError):
        table.clone("cloned")
    Path(f"{tmp_path}/full").mkdir()
    Path(f"{tmp_path}/full/file").write_text("x")
    with pytest.raises(PathIsNotEmptyError):
        table.clone(f"{tmp_path}/full")
    assert sorted(file.name for file in Path(f"{tmp_path}/full").iterdir()) == ["file"]
