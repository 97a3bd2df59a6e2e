"""Optimised writes: how many files each partition gets, who asks for it, and that the rows are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tahoe import Table
from tahoe.errors import CheckConstraintViolatedError, InvalidOptionError
from tahoe.spark.jvm import redistribution
from tahoe.spark.jvm.redistribution import Redistribution
from tahoe.spark.writing.file_sizes import OptimizedWrite
from tahoe.spark.writing.write_options import parse_options

PREFIX = "spark.databricks.delta.optimizeWrite."
ENABLED = PREFIX + "enabled"


def asked(options: dict[str, str] | None = None, **settings: str) -> OptimizedWrite:
    return parse_options(
        options or {}, {PREFIX + name: value for name, value in settings.items()}, table="t"
    ).optimized_write


def test_the_settings_are_those_of_the_reference() -> None:
    assert asked() == OptimizedWrite(is_on=None, task_bytes=512 << 20, blocks_max=50_000_000, groups_max=2000)
    assert asked(binSize="64", numShuffleBlocks="7", maxShufflePartitions="3") == OptimizedWrite(
        task_bytes=64 << 20, blocks_max=7, groups_max=3
    )
    assert asked(binSize="2g").task_bytes == 2 << 30
    with pytest.raises(InvalidOptionError, match="binSize cannot be big"):
        asked(binSize="big")
    with pytest.raises(InvalidOptionError, match="optimizeWrite cannot be maybe"):
        asked({"optimizeWrite": "maybe"})


def test_the_option_goes_before_the_session_and_the_session_before_the_table() -> None:
    on, off = {"delta.autoOptimize.optimizeWrite": "true"}, {"delta.autoOptimize.optimizeWrite": "false"}
    both = {"delta.autoOptimize": "true"}
    for properties, is_on in [({}, False), (on, True), (off, False), (both, True), (both | off, False)]:
        assert asked().applies(properties, table="t") == is_on
        assert asked(enabled="true").applies(properties, table="t")
        assert not asked(enabled="false").applies(properties, table="t")
        assert not asked({"optimizeWrite": "false"}, enabled="true").applies(properties, table="t")
        assert asked({"OPTIMIZEWRITE": "true"}, enabled="false").applies(properties, table="t")


def test_the_groups_of_a_shuffle() -> None:
    spread = Redistribution(task_bytes=1, blocks_max=1000, groups_max=200)
    assert [spread.groups(tasks) for tasks in (1, 5, 10, 1000, 10_000)] == [200, 200, 100, 1, 1]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Twenty rows of five partitions, in four tasks that have rows of each."""
    return spark.range(0, 20, 1, 4).selectExpr("id", "cast(id % 5 as int) p", "concat('s', id) s")


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Any]:
    names: list[str] = []

    def put(name: str, value: str) -> None:
        names.append(name)
        spark.conf.set(name, value)

    yield put
    for name in names:
        spark.conf.unset(name)


def files(path: str, where: str | None = None) -> int:
    return int(Table(path).files(where).num_rows)


def ids(path: str) -> list[int]:
    return sorted(Table(path).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_partition_gets_one_file(
    spark: SparkSession, rows: DataFrame, path: str, settings: Any, adaptive: str
) -> None:
    settings("spark.sql.adaptive.enabled", adaptive)
    rows.write.format("delta").partitionBy("p").save(path)
    assert files(path) == 20
    rows.write.format("delta").mode("overwrite").option("optimizeWrite", "true").save(path)
    assert files(path) == 5
    assert ids(path) == list(range(20))
    assert sorted(spark.read.format("delta").load(path).collect()) == sorted(rows.collect())
    rows.write.format("delta").mode("overwrite").options(optimizeWrite="true", maxRecordsPerFile="3").save(path)
    assert (files(path), max(Table(path).files()["num_records"].to_pylist())) == (10, 3)


def test_without_partitions_the_files_of_tasks_are_joined_in_their_order(rows: DataFrame, path: str) -> None:
    rows.write.format("delta").option("optimizeWrite", "true").save(path)
    (file,) = Table(path).files()["url"].to_pylist()
    assert pq.read_table(file.removeprefix("file://"), columns=["id"])["id"].to_pylist() == list(range(20))


def test_neighbouring_tasks_are_joined_if_there_are_more_tasks_than_groups(
    spark: SparkSession, path: str, settings: Any
) -> None:
    settings(PREFIX + "maxShufflePartitions", "4")
    spark.range(0, 200, 1, 20).write.format("delta").option("optimizeWrite", "true").save(path)
    (file,) = Table(path).files()["url"].to_pylist()
    found = pq.read_table(file.removeprefix("file://"), columns=["id"])["id"].to_pylist()
    assert [sorted(found[start : start + 50]) for start in range(0, 200, 50)] == [
        list(range(start, start + 50)) for start in range(0, 200, 50)
    ]


def test_many_rows_are_split(
    spark: SparkSession, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that is larger than the bin size gets several files."""
    settings(PREFIX + "binSize", "1m")
    frame = spark.range(0, 200_000, 1, 4).selectExpr("id", "uuid() AS s", "0 AS p")
    for name, by in (("partitioned", ["p"]), ("plain", [])):
        frame.write.format("delta").partitionBy(*by).option("optimizeWrite", "true").save(str(tmp_path / name))
        assert files(str(tmp_path / name)) == 4, "each task has more than a megabyte, but less than a piece"
        assert ids(str(tmp_path / name)) == list(range(200_000))
    monkeypatch.setattr(redistribution, "_PIECE_ROWS", 30_000)
    frame.coalesce(2).write.format("delta").option("optimizeWrite", "true").save(str(tmp_path / "pieces"))
    assert files(str(tmp_path / "pieces")) > 4, "a task has several pieces of more than a megabyte"
    assert ids(str(tmp_path / "pieces")) == list(range(200_000))


@pytest.mark.parametrize("statement", ["insert", "ctas", "update", "delete", "merge", "merge by default"])
def test_every_writer(spark: SparkSession, rows: DataFrame, path: str, settings: Any, statement: str) -> None:
    rows.createOrReplaceTempView("four_tasks")
    if statement != "ctas":
        rows.write.format("delta").partitionBy("p").save(path)
    if statement != "merge by default":
        settings(ENABLED, "true")
    match statement:
        case "insert":
            spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT * FROM four_tasks")
        case "ctas":
            spark.sql(f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (p) AS SELECT * FROM four_tasks")
        case "update":
            spark.sql(f"UPDATE delta.`{path}` SET s = 'new'")
        case "delete":
            spark.sql(f"INSERT INTO delta.`{path}` SELECT id + 20, p, s FROM four_tasks")
            spark.sql(f"OPTIMIZE delta.`{path}`")
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id >= 20")
        case _:
            matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            spark.sql(f"MERGE INTO delta.`{path}` t USING four_tasks s ON t.id = s.id {matched}")
    assert files(path) == 5
    assert ids(path) == list(range(20))


def test_the_rows_of_one_task_are_not_shuffled(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redistribution, "_settings", lambda *_, **__: pytest.fail("shuffled"))
    spark.range(3).coalesce(1).write.format("delta").option("optimizeWrite", "true").save(path)
    assert ids(path) == [0, 1, 2]


def test_a_refused_row_fails_as_in_any_write(rows: DataFrame, path: str) -> None:
    rows.where("id < 9").write.format("delta").partitionBy("p").option("delta.constraints.few", "id < 11").save(path)
    with pytest.raises(CheckConstraintViolatedError, match="id"):
        rows.write.format("delta").mode("append").option("optimizeWrite", "true").save(path)
    assert Table(path).version == 0


def test_identity_values_are_unique(spark: SparkSession, rows: DataFrame, table_name: str) -> None:
    spark.sql(
        f"CREATE TABLE {table_name} (n BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, p INT) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')"
    )
    rows.select("id", "p").write.format("delta").mode("append").saveAsTable(table_name)
    found = spark.table(table_name)
    assert (found.select("n").distinct().count(), len(found.inputFiles())) == (20, 5)
