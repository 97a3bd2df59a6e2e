"""Clustering on write: large appends and overwrites of a clustered table go into the files of a cube at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tahoe import Table
from tahoe.errors import InvalidOptionError
from tahoe.spark.writing.clustering_on_write import sample_columns
from tahoe.table.verify.check import check_version

SETTING = "spark.tahoe.clusterOnWrite"
ROWS = 20_000


@pytest.fixture
def sizes(spark: SparkSession) -> Any:
    """Writes of more than a kilobyte are clustered, in files of about 30 kB."""
    spark.conf.set(SETTING + ".minSize", "1kb")
    yield {"delta.targetFileSize": "30kb"}
    spark.conf.unset(SETTING + ".minSize")
    spark.conf.unset(SETTING)


def rows(spark: SparkSession, start: int = 0, count: int = ROWS) -> DataFrame:
    """Rows without an order, with a clustering column in a struct."""
    return spark.range(start, start + count, 1, 4).selectExpr(
        "id",
        "hash(id) % 1000 as a",
        "named_struct('b', concat('s', hash(id, 1))) as s",
        "array(map('k', id)) as nested",
    )


def create(spark: SparkSession, path: str, sizes: dict[str, str], columns: str = "a, s.b") -> None:
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in sizes.items())
    fields = "id LONG, a INT, s STRUCT<b: STRING>, nested ARRAY<MAP<STRING, LONG>>"
    spark.sql(f"CREATE TABLE delta.`{path}` ({fields}) USING delta CLUSTER BY ({columns}) TBLPROPERTIES ({properties})")


def cubes(path: str) -> list[int]:
    """The number of files in each cube; 0 for a file in none."""
    found: dict[str, int] = {}
    for add in Table(path).snapshot().live.adds():
        name = (add.tags or {}).get("ZCUBE_ID", "")
        assert (add.clustering_provider == "liquid") == bool(name)
        found[name] = found.get(name, 0) + (1 if name else 0)
    return sorted(found.values())


def skips(path: str, column: str, value: str) -> bool:
    """Whether a query for a value reads less than half of the files."""
    found = Table(path).snapshot().scan(f"{column} = {value}")
    return found.kept_files < found.total_files / 2


WRITES: dict[str, Callable[[SparkSession, str], Any]] = {
    "append": lambda spark, path: rows(spark).write.format("delta").mode("append").save(path),
    "overwrite": lambda spark, path: rows(spark).write.format("delta").mode("overwrite").save(path),
    "insert": lambda spark, path: (
        rows(spark).createOrReplaceTempView("new") or spark.sql(f"INSERT INTO delta.`{path}` TABLE new")
    ),
    "rows of an RDD": lambda spark, path: (
        spark.createDataFrame(rows(spark).rdd, rows(spark).schema).write.format("delta").mode("append").save(path)
    ),
    "after a shuffle": lambda spark, path: (
        rows(spark).join(spark.range(ROWS), "id").write.format("delta").mode("append").save(path)
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_large_write_becomes_a_cube(
    spark: SparkSession, path: str, sizes: dict[str, str], write: Callable[[SparkSession, str], Any]
) -> None:
    create(spark, path, sizes)
    write(spark, path)
    assert cubes(path)[0] > 5
    assert {(add.tags or {})["ZCUBE_ZORDER_BY"] for add in Table(path).snapshot().live.adds()} == {'["a","s.b"]'}
    read = spark.read.format("delta").load(path)
    assert sorted(read.selectExpr("id", "a", "s.b", "to_json(nested)").collect()) == sorted(
        rows(spark).selectExpr("id", "a", "s.b", "to_json(nested)").collect()
    )
    assert skips(path, "a", "7")
    assert skips(path, "s.b", "'s5'")
    assert list(check_version(Table(path).snapshot())) == []
    assert spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0].metrics.numFilesAdded == 0, "nothing is left to do"


@pytest.mark.usefixtures("sizes")
def test_a_table_is_created_clustered(spark: SparkSession, path: str) -> None:
    rows(spark).createOrReplaceTempView("new")
    spark.sql(
        f"CREATE TABLE delta.`{path}` USING delta CLUSTER BY (id) TBLPROPERTIES ('delta.targetFileSize' = '30kb') "
        f"AS TABLE new"
    )
    assert cubes(path)[0] > 5
    found = Table(path).snapshot().scan("id = 77")
    assert found.kept_files == 1, "one column is sorted"
    first = Table(path).files("id = 77").column("url").to_pylist()[0]
    ids = [row.id for row in spark.read.parquet(first).select("id").collect()]
    assert ids == sorted(ids)


def test_cubes_of_similar_size_are_merged(spark: SparkSession, path: str, sizes: dict[str, str]) -> None:
    create(spark, path, sizes)
    for start in (0, ROWS):
        rows(spark, start).write.format("delta").mode("append").save(path)
    assert len(cubes(path)) == 2
    metrics = spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0].metrics.clusteringStats
    assert (metrics.inputNumZCubes, metrics.inputOtherFiles.numFiles, metrics.numOutputZCubes) == (2, 0, 1)
    assert len(cubes(path)) == 1
    assert spark.read.format("delta").load(path).count() == 2 * ROWS


@pytest.mark.parametrize("by", ["option", "setting", "property", "size", "few rows"])
def test_a_write_is_left_as_it_is(spark: SparkSession, path: str, sizes: dict[str, str], by: str) -> None:
    create(spark, path, {**sizes, **({"tahoe.clusterOnWrite": "false"} if by == "property" else {})})
    if by == "setting":
        spark.conf.set(SETTING, "false")
    if by == "size":
        spark.conf.set(SETTING + ".minSize", "100mb")
    count = 100 if by == "few rows" else ROWS
    writer = rows(spark, count=count).write.format("delta").mode("append")
    writer.options(**({"clusterOnWrite": "false"} if by == "option" else {})).save(path)
    assert cubes(path) == [0]
    assert Table(path).files().num_rows == 4, "a file for each task"
    assert spark.read.format("delta").load(path).count() == count


def test_the_option_takes_precedence(spark: SparkSession, path: str, sizes: dict[str, str]) -> None:
    create(spark, path, {**sizes, "tahoe.clusterOnWrite": "false"})
    spark.conf.set(SETTING, "false")
    rows(spark).write.format("delta").mode("append").option("clusterOnWrite", "true").save(path)
    assert cubes(path)[0] > 5


@pytest.mark.parametrize("where", ["option", "setting", "size"])
def test_invalid_values_are_refused(spark: SparkSession, path: str, sizes: dict[str, str], where: str) -> None:
    create(spark, path, sizes)
    if where != "option":
        spark.conf.set(SETTING if where == "setting" else SETTING + ".minSize", "maybe")
    writer = (
        rows(spark, count=10)
        .write.format("delta")
        .mode("append")
        .options(**({"clusterOnWrite": "maybe"} if where == "option" else {}))
    )
    with pytest.raises(InvalidOptionError, match=r"lusterOnWrite.*maybe"):
        writer.save(path)
    assert Table(path).files().num_rows == 0


def test_rows_that_nothing_tells_apart_are_shared_by_files(
    spark: SparkSession, path: str, sizes: dict[str, str]
) -> None:
    create(spark, path, sizes, "a")
    rows(spark).selectExpr("id", "1 as a", "s", "nested").write.format("delta").mode("append").save(path)
    assert cubes(path)[0] > 5
    assert spark.read.format("delta").load(path).selectExpr("sum(id)", "count(1)").collect() == [
        (sum(range(ROWS)), ROWS)
    ]
    counts = Table(path).files().column("num_records").to_pylist()
    assert max(counts) < 2 * min(counts)


@pytest.mark.usefixtures("sizes")
def test_new_identity_values_are_unique(spark: SparkSession, path: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (n BIGINT GENERATED ALWAYS AS IDENTITY, a INT) USING delta CLUSTER BY (a) "
        "TBLPROPERTIES ('delta.targetFileSize' = '10kb')"
    )
    rows(spark).select("a").write.format("delta").mode("append").save(path)
    assert cubes(path)[0] > 2
    found = spark.read.format("delta").load(path)
    assert found.select("n").distinct().count() == ROWS
    rows(spark, count=10).select("a").write.format("delta").mode("append").save(path)
    assert found.sparkSession.read.format("delta").load(path).select("n").distinct().count() == ROWS + 10


def test_a_rule_that_rows_break_is_named_and_leaves_nothing(
    spark: SparkSession, path: str, sizes: dict[str, str]
) -> None:
    create(spark, path, sizes)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (id < 19999)")
    with pytest.raises(Exception, match="small"):
        rows(spark).write.format("delta").mode("append").save(path)
    assert Table(path).files().num_rows == 0
    assert not list(Path(path).glob("*.parquet"))


def test_a_sample_of_long_texts_is_short(spark: SparkSession) -> None:
    """Spark expects texts of 20 bytes, so that the sample may have many rows."""
    texts = spark.range(2).selectExpr("repeat('€', 1000) as `a.b`", "named_struct('c', repeat('x', 1000)) as s", "id")
    found = texts.select(*sample_columns(texts, ["`a.b`", "`s`.`c`", "`id`"])).collect()
    assert [tuple(row) for row in found] == [("€" * 32, "x" * 32, 0), ("€" * 32, "x" * 32, 1)]
