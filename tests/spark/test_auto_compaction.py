"""Auto compaction in Spark: the settings, the statements that it follows, and that no statement suffers from it. Which
files it chooses: tests/table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import DataFileMissingError, InvalidOptionError
from tahoe.spark.layout import auto_compaction
from tahoe.spark.writing.file_sizes import auto_compaction as parsed
from tahoe.table.layout.auto_compaction import AutoCompaction
from tahoe.table.verify.check import check_version

PREFIX = "spark.databricks.delta.autoCompact."


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[..., None]]:
    """Sets settings of auto compaction until the end of the test."""
    names: list[str] = []

    def put(**values: str) -> None:
        for name, value in values.items():
            names.append(PREFIX + name.replace("_", "."))
            spark.conf.set(names[-1], value)

    yield put
    for name in names:
        spark.conf.unset(name)


def live(path: str) -> int:
    return int(Table(path).files().num_rows)


def history(spark: SparkSession, path: str) -> list[Row]:
    return DeltaTable.forPath(spark, path).history().orderBy("version").collect()


def append(spark: SparkSession, path: str, *ids: int, **options: str) -> None:
    frame = (
        spark.range(max(ids) + 1).where(f"id in ({', '.join(map(str, ids))})").selectExpr("id", "cast(id % 2 as int) p")
    )
    frame.coalesce(1).write.format("delta").partitionBy("p").mode("append").options(**options).save(path)


def test_the_settings_are_those_of_the_reference() -> None:
    assert parsed({}, table="t") == AutoCompaction(min_file_bytes=64 << 20)
    given = {
        "enabled": "TRUE",
        "minNumFiles": "3",
        "maxFileSize": "1000",
        "modifiedPartitionsOnly.enabled": "false",
        "maxNumModifiedPartitions": "7",
        "nonBlindAppend.enabled": "true",
    }
    wanted = AutoCompaction(
        is_on=True,
        min_files=3,
        max_file_bytes=1000,
        min_file_bytes=500,
        only_modified=False,
        max_partitions=7,
        skips_blind_appends=True,
    )
    assert parsed({PREFIX + name: value for name, value in given.items()}, table="t") == wanted
    assert parsed({PREFIX + "minFileSize": "5"}, table="t").small_bytes == 5
    assert parsed({PREFIX + "enabled": "false"}, table="t").is_on is False


INVALID = [("enabled", "maybe"), ("minNumFiles", "-1"), ("maxFileSize", "big"), ("maxNumModifiedPartitions", "0")]


@pytest.mark.parametrize(("name", "value"), INVALID)
def test_an_invalid_setting_is_refused_before_the_write(
    spark: SparkSession, path: str, settings: Any, name: str, value: str
) -> None:
    settings(**{name: value})
    with pytest.raises(InvalidOptionError, match=f"{name} cannot be {value}"):
        append(spark, path, 1)
    assert not Table(path).exists()


def test_writes_compact_the_partitions_in_which_they_added_files(spark: SparkSession, path: str, settings: Any) -> None:
    settings(minNumFiles="3")
    enabled = {"delta.autoOptimize.autoCompact": "true"}
    for ids in ((0, 1), (2, 3), (4,)):
        append(spark, path, *ids, **enabled)
    told = [row.operation for row in history(spark, path)]
    assert told == ["WRITE"] * 3 + ["OPTIMIZE"]
    assert [Table(path).files(f"p = {p}").num_rows for p in (0, 1)] == [1, 2]
    spark.sql(f"UPDATE delta.`{path}` SET id = id + 2 WHERE id = 3")  # copies the file's only row: one file for one
    assert live(path) == 3
    spark.sql(f"INSERT INTO delta.`{path}` SELECT 7L, 1")
    optimize = history(spark, path)[-1]
    assert (optimize.operation, optimize.operationParameters["auto"], optimize.engineInfo.split("/")[0]) == (
        "OPTIMIZE",
        "true",
        "Apache-Spark",
    )
    assert live(path) == 2
    assert sorted(row.id for row in spark.read.format("delta").load(path).collect()) == [0, 1, 2, 4, 5, 7]
    assert list(check_version(Table(path).snapshot())) == []


def test_the_session_goes_before_the_table(spark: SparkSession, path: str, settings: Any) -> None:
    settings(minNumFiles="2", enabled="false")
    for i in range(3):
        append(spark, path, i, **{"delta.autoOptimize": "true"})
    assert live(path) == 3
    settings(enabled="true")
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('delta.autoOptimize')")
    assert live(path) == 3, "it added no file"
    append(spark, path, 4)
    assert live(path) == 2


@pytest.mark.parametrize("statement", ["ctas", "merge", "delete", "overwrite"])
def test_every_writer(spark: SparkSession, path: str, settings: Any, statement: str) -> None:
    settings(minNumFiles="2", enabled="true")
    frame = spark.range(40).repartition(4)
    if statement == "ctas":
        frame.createOrReplaceTempView("four_files")
        spark.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT /*+ REPARTITION(4) */ * FROM four_files")
    else:
        settings(enabled="false")
        frame.write.format("delta").save(path)
        assert live(path) == 4
        settings(enabled="true")
    if statement == "merge":
        target, source = DeltaTable.forPath(spark, path).alias("t"), spark.range(39, 41).alias("s")
        target.merge(source, "t.id = s.id").whenNotMatchedInsertAll().execute()
    if statement == "delete":
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 1")
    if statement == "overwrite":
        frame.write.format("delta").mode("overwrite").save(path)
    assert (history(spark, path)[-1].operation, live(path)) == ("OPTIMIZE", 1)


def test_a_failure_is_a_warning_and_the_write_stands(
    spark: SparkSession, path: str, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: Any, bins: Any) -> list[BaseException]:
        return [DataFileMissingError.of(table="t", file="f", version=1)] * len(bins)

    monkeypatch.setattr(auto_compaction, "rewriter_of", lambda target: failing)
    settings(minNumFiles="2", enabled="true")
    with caplog.at_level(logging.WARNING, "tahoe"):
        append(spark, path, 0)
        append(spark, path, 2)
        assert spark.sql(f"INSERT INTO delta.`{path}` SELECT 4L, 0").collect() == []
    assert "version 1 is committed, but auto compaction failed" in caplog.text
    assert spark.read.format("delta").load(path).count() == live(path) == 3


def test_a_cached_dataframe_reads_the_new_files(spark: SparkSession, path: str, settings: Any) -> None:
    settings(minNumFiles="2", enabled="true")
    append(spark, path, 0)
    frame = spark.read.format("delta").load(path).cache()
    try:
        assert frame.count() == 1
        append(spark, path, 2)
        assert live(path) == 1
        Table(path).vacuum(0, retention_check=False)
        assert frame.count() == 2
    finally:
        frame.unpersist()
