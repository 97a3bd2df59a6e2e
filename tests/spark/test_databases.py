"""Names in databases: where their tables are, which one is meant, and what goes when a name goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tahoe
from tahoe.spark.ddl import creation
from tahoe.spark.ddl.table_names import SessionName, TableLocation

pytestmark = pytest.mark.every_spark


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database with a place of its own, which is the current one."""
    spark.sql(f"CREATE DATABASE at_home LOCATION '{tmp_path}/home'")
    spark.sql("USE at_home")
    yield "at_home"
    spark.sql("USE default")
    spark.sql("DROP DATABASE IF EXISTS at_home CASCADE")


@pytest.mark.usefixtures("generated_code")
def test_a_managed_table_is_in_its_databases_folder(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id BIGINT) USING delta")
    spark.range(3).write.format("delta").saveAsTable("at_home.u")
    spark.range(3).writeTo("v").using("delta").create()
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["t", "u", "v"]
    assert [table.name for table in spark.catalog.listTables(database) if not table.isTemporary] == ["t", "u", "v"]
    spark.sql("USE default")
    assert spark.table("at_home.u").count() == 3
    assert not spark.catalog.tableExists("t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("u")
    spark.sql("ALTER TABLE at_home.t ADD COLUMN x INT")
    assert spark.table("spark_catalog.at_home.t").columns == ["id", "x"]
    spark.sql("DROP DATABASE at_home CASCADE")
    assert not list((tmp_path / "home").glob("*/_delta_log"))


@pytest.mark.usefixtures("database")
def test_every_mode_of_save_as_table(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "home" / "t")
    for mode, rows in (("error", 2), ("append", 4), ("ignore", 4), ("overwrite", 2)):
        spark.range(2).write.format("delta").mode(mode).saveAsTable("t")
        assert spark.table("t").count() == rows, mode
    with pytest.raises(AnalysisException):
        spark.range(2).write.format("delta").mode("error").saveAsTable("t")
    assert tahoe.Table(place).version == 2
    spark.range(5).writeTo("t").using("delta").replace()
    assert (spark.table("t").count(), tahoe.Table(place).version) == (5, 3)


@pytest.mark.usefixtures("database")
def test_if_not_exists_holds_for_a_table_that_another_session_makes_meanwhile(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other, made = SessionName.place, spark.newSession(), list[str]()

    def late(name: SessionName, location: str | None) -> TableLocation:
        found = place(name, location)
        if not made:
            made.append(name.text)
            other.sql("CREATE TABLE at_home.t USING delta AS SELECT 7 AS theirs")
        return found

    monkeypatch.setattr(SessionName, "place", late)
    spark.sql("CREATE TABLE IF NOT EXISTS t USING delta AS SELECT 1 AS mine")
    assert made == ["spark_catalog.at_home.t"]
    assert [tuple(row) for row in spark.table("t").collect()] == [(7,)]
    spark.sql("DROP TABLE t")
    made.clear()
    with pytest.raises(tahoe.errors.TableExistsError):
        spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS mine")


@pytest.mark.usefixtures("database")
def test_a_replacement_does_not_run_its_query_again_for_a_name_of_its_own_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session makes the same table at the same time, and is the first to give the name."""
    create, other, runs = creation.create_as_select, spark.newSession(), list[str]()

    def then_named(session: SparkSession, url: str, *arguments: Any, **more: Any) -> None:
        create(session, url, *arguments, **more)
        runs.append(url)
        if len(runs) == 1:
            other.sql(f"CREATE TABLE at_home.t USING delta LOCATION '{tmp_path}/home/t'")

    monkeypatch.setattr(creation, "create_as_select", then_named)
    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 1 AS mine")
    assert len(runs) == 1
    assert (spark.table("t").columns, tahoe.Table(f"{tmp_path}/home/t").version) == (["mine"], 0)


@pytest.mark.usefixtures("database")
def test_views_follow_and_go(spark: SparkSession) -> None:
    spark.range(3).write.format("delta").saveAsTable("t")
    spark.sql("CREATE VIEW seen AS SELECT max(id) AS m FROM t")
    spark.table("t").createOrReplaceTempView("passing")
    spark.sql("INSERT INTO t VALUES (9)")
    assert [row.m for row in spark.table("seen").collect()] == [9]
    assert spark.table("passing").count() == 4
    spark.sql("ALTER TABLE t ADD COLUMN x INT")
    assert spark.table("seen").count() == 1
    assert spark.catalog.dropTempView("passing")
    assert not spark.catalog.tableExists("passing")
    spark.sql("DROP VIEW seen")
    spark.sql("DROP TABLE t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("DROP TABLE t")
    spark.sql("DROP TABLE IF EXISTS t PURGE")


@pytest.mark.usefixtures("database")
def test_a_name_that_is_not_there_keeps_sparks_error(spark: SparkSession) -> None:
    for statement in (
        "ALTER TABLE nothing ADD COLUMN x INT",
        "DESCRIBE TABLE nothing",
        "SHOW CREATE TABLE nothing",
        "TRUNCATE TABLE nothing",
    ):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(statement)
    with pytest.raises(AnalysisException):
        spark.sql("ALTER TABLE nothing ADD CONSTRAINT c CHECK (id > 0)")


def test_drop_table_deletes_the_files_only_of_a_table_without_a_location(
    spark: SparkSession, table_name: str, path: str
) -> None:
    """docs/reference/sql.md says so: the path of an external table can still be read, and named again."""
    for location in ("", f"LOCATION '{path}'"):
        spark.sql(f"CREATE TABLE {table_name} USING delta {location} AS SELECT 1 AS id")
        folder = spark.sql(f"DESCRIBE DETAIL {table_name}").collect()[0].location
        spark.sql(f"DROP TABLE {table_name}")
        assert tahoe.Table(folder).exists() == bool(location)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    assert spark.table(table_name).count() == 1
