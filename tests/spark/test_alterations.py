"""What Spark's own statements do to other tables, they do to ours by the log's rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import tahoe
from tahoe.errors import AppendOnlyTableError, InvalidPropertyError, UnsupportedOperationError


@pytest.fixture(params=["name", "path"])
def table(request, spark, path, table_name) -> str:
    """What a statement calls a table of four rows in two partitions."""
    spark.range(4).selectExpr("id", "id % 2 as p").write.format("delta").partitionBy("p").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    return table_name if request.param == "name" else f"delta.`{path}`"


def count(spark, table) -> int:
    return spark.sql(f"SELECT count(*) FROM {table}").head()[0]


def test_properties(spark, table, path):
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true', 'mine' = '1')")
    assert tahoe.Table(path).properties == {"delta.appendOnly": "true", "mine": "1"}
    with pytest.raises(AppendOnlyTableError):
        spark.range(1).selectExpr("id", "id as p").write.format("delta").mode("overwrite").save(path)
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.appendOnly')")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('delta.appendOnly', 'mine')")
    assert tahoe.Table(path).properties == {}
    assert count(spark, table) == 4
    with pytest.raises(InvalidPropertyError, match="no property of this name"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendsOnly' = 'true')")
    with pytest.raises(InvalidPropertyError, match="not set on the table"):
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('mine')")


def test_a_comment(spark, table, path):
    spark.sql(f"COMMENT ON TABLE {table} IS 'it''s ours'")
    assert tahoe.Table(path).snapshot().metadata.description == "it's ours"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('comment' = 'second')")
    assert tahoe.DeltaTable.forPath(spark, path).detail().head().description == "second"
    spark.sql(f"COMMENT ON TABLE {table} IS NULL")
    assert tahoe.Table(path).snapshot().metadata.description is None


def test_truncate_removes_rows_and_keeps_the_past(spark, table, path):
    cached = spark.table(table).cache()
    assert cached.count() == 4
    spark.sql(f"TRUNCATE TABLE {table}")
    assert count(spark, table) == 0
    assert spark.table(table).count() == 0, "what is cached must follow"
    cached.unpersist()
    assert spark.read.format("delta").option("versionAsOf", 0).load(path).count() == 4
    assert len(list(Path(path).rglob("*.parquet"))) >= 2
    spark.sql(f"INSERT INTO {table} VALUES (9, 1)")
    assert count(spark, table) == 1


def test_truncate_of_a_partition(spark, path, table_name):
    spark.sql("SELECT * FROM VALUES (1, 'it''s'), (2, 'b'), (3, null) AS t(id, p)").write.format("delta").partitionBy(
        "p"
    ).save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    spark.sql(f"TRUNCATE TABLE {table_name} PARTITION (P = 'it''s')")
    assert sorted(r.id for r in spark.table(table_name).collect()) == [2, 3]
    spark.sql(f"TRUNCATE TABLE {table_name} PARTITION (p = null)")
    assert [r.id for r in spark.table(table_name).collect()] == [2]
    with pytest.raises(AnalysisException, match="id"):
        spark.sql(f"TRUNCATE TABLE {table_name} PARTITION (id = 2)")


def test_explain_changes_nothing(spark, table, path):
    for statement in (
        f"TRUNCATE TABLE {table}",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')",
        f"COMMENT ON TABLE {table} IS 'x'",
    ):
        spark.sql(f"EXPLAIN {statement}").collect()
    assert tahoe.Table(path).version == 0


@pytest.mark.parametrize("columns", ["", " FOR ALL COLUMNS", " FOR COLUMNS id"])
def test_statistics_of_analyze_count_for_their_version(spark, path, table_name, columns):
    spark.range(100).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")

    def rows() -> object:
        found = spark.table(table_name)._jdf.queryExecution().optimizedPlan().stats().rowCount()
        return int(str(found.get())) if found.isDefined() else None

    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        assert rows() is None
        spark.sql(f"ANALYZE TABLE {table_name} COMPUTE STATISTICS{columns}")
        assert tahoe.Table(path).version == 0, "the log is none of Spark's business"
        assert rows() == 100
        spark.range(5).write.format("delta").mode("append").save(path)
        assert rows() is None, "they were of another version"
        assert spark.table(table_name).count() == 105
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def test_rename(spark, table_name):
    # the log's paths are relative, so that a managed table's folder can move
    spark.range(3).write.format("delta").saveAsTable(table_name)
    spark.table(table_name).count()
    spark.sql(f"ALTER TABLE {table_name} RENAME TO {table_name}_new")
    try:
        assert count(spark, f"{table_name}_new") == 3
        spark.sql(f"INSERT INTO {table_name}_new VALUES (7)")
        assert count(spark, f"{table_name}_new") == 4
        assert not spark.catalog.tableExists(table_name)
    finally:
        spark.sql(f"DROP TABLE {table_name}_new")


def test_drop(spark, path, table_name):
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    spark.sql(f"DROP TABLE {table_name}")
    assert spark.read.format("delta").load(path).count() == 3, "an external table's files stay"
    spark.range(3).write.format("delta").saveAsTable(table_name)
    folder = Path(tahoe.DeltaTable.forName(spark, table_name).detail().head().location.removeprefix("file:"))
    assert folder.exists()
    spark.sql(f"DROP TABLE {table_name}")
    assert not folder.exists()


def test_a_name_whose_folder_is_gone_can_be_dropped(spark, path, table_name):
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    Path(path).rename(path + "_moved")
    spark.sql(f"DROP TABLE {table_name}")
    assert not spark.catalog.tableExists(table_name)


def test_a_path_has_no_name_to_drop(spark, path):
    spark.range(3).write.format("delta").save(path)
    for statement, instead in (
        ("DROP TABLE delta.`{path}`", "Delete the folder"),
        ("DROP TABLE IF EXISTS delta.`{path}`", "Delete the folder"),
        ("ALTER TABLE delta.`{path}` RENAME TO other", "CREATE TABLE name USING delta LOCATION"),
    ):
        with pytest.raises(UnsupportedOperationError, match=instead) as caught:
            spark.sql(statement.format(path=path))
        assert caught.value.parameters["table"] == f"delta.`{path}`"
    assert count(spark, f"delta.`{path}`") == 3


def test_partitions_are_never_lost(spark, table):
    with pytest.raises(UnsupportedOperationError, match="The log lists all partitions"):
        spark.sql(f"ALTER TABLE {table} RECOVER PARTITIONS")
    with pytest.raises(UnsupportedOperationError, match="The log lists all partitions"):
        spark.catalog.recoverPartitions(table)


@pytest.mark.parametrize("place", ["name", "path"])
def test_a_default_collation_is_that_of_columns_added_later(spark, path, table_name, place):
    name = f"{table_name}_collated" if place == "name" else f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {name} (a STRING) USING delta DEFAULT COLLATION UTF8_LCASE")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN b STRING")
    spark.sql(f"ALTER TABLE {name} DEFAULT COLLATION UTF8_BINARY")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN c STRING")
    spark.sql(f"INSERT INTO {name} VALUES ('A', 'B', 'C')")
    matching = {c: spark.sql(f"SELECT * FROM {name} WHERE {c} = '{c}'").count() for c in "abc"}
    assert matching == {"a": 1, "b": 1, "c": 0}
    if place == "name":
        spark.sql(f"DROP TABLE {name}")
