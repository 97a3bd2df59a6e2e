"""Streams whose data files are gone, and streams that track the schema of a change data feed or of widened types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tests.spark.tracked_streams import alter, append, rows, run, tracked

pytestmark = pytest.mark.every_spark

# What a running query finds where its table is dropped and made again: no folder, a folder without a commit, or the
# other table.
DROPPED = "DELTA_TABLE_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


def made(spark: SparkSession, path: str, **properties: str) -> str:
    """A table of three rows, partitioned by a text that folders escape."""
    writer = (
        spark.range(3)
        .selectExpr("cast(id as int) as id", "'a b' as p")
        .coalesce(1)
        .write.format("delta")
        .partitionBy("p")
    )
    writer.options(**{f"delta.{name.replace('__', '.')}": value for name, value in properties.items()}).save(path)
    return path


def file_of(path: str, version: int) -> Path:
    """The file that a version has added."""
    now, before = (
        set(tahoe.Table(path).snapshot(v).live.column("path").to_pylist()) if v >= 0 else set()
        for v in (version, version - 1)
    )
    (added,) = now - before
    (found,) = Path(path).rglob(added.rpartition("/")[2])
    return found


@pytest.mark.parametrize("gone", [0, 2], ids=["of the initial snapshot", "of a commit"])
def test_a_missing_file_is_named_with_its_version(spark: SparkSession, path: str, tmp_path: Path, gone: int) -> None:
    """The batch spans versions 1 to 3, or is the initial snapshot of version 0."""
    made(spark, path)
    stream, sinks = spark.readStream.format("delta").load(path), [str(tmp_path / name) for name in "ab"]

    def into_noop(sink: str) -> None:
        writer = stream.writeStream.format("noop").option("checkpointLocation", f"{sink}-checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()

    if gone:
        run(stream, sinks[0])
        into_noop(sinks[1])
        for number in (3, 4, 5):
            append(spark, path, (number, "a b"))
    file = file_of(path, gone)
    file.unlink()
    match = rf"DELTA_FILE_NOT_FOUND.*{path}: the data file .*{file.name} belongs to version {gone} but .*new checkpoint"
    with pytest.raises(StreamingQueryException, match=match):
        run(stream, sinks[0])
    with pytest.raises(StreamingQueryException) as caught:
        into_noop(sinks[1])
    assert f"{path}: the data file " in "\n".join(
        caught.value.__notes__
    )  # the query has ended, and the version is the one read last


def with_changes(frame: DataFrame) -> DataFrame:
    return frame.withColumnsRenamed({"_change_type": "kind", "_commit_version": "version"}).drop("_commit_timestamp")


def test_a_tracked_schema_follows_a_change_data_feed(spark: SparkSession, path: str, tmp_path: Path) -> None:
    made(spark, path, columnMapping__mode="name", enableChangeDataFeed="true")
    sink, options = str(tmp_path / "sink"), {"readChangeFeed": "true"}
    run(with_changes(tracked(spark, path, sink, **options)), sink)
    spark.sql(f"UPDATE delta.`{path}` SET id = 7 WHERE id = 2")
    alter(spark, path, "RENAME COLUMN id TO number")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE number = 7")
    with pytest.raises(StreamingQueryException, match=r"DELTA_STREAMING_METADATA_EVOLUTION.*version 2"):
        run(with_changes(tracked(spark, path, sink, **options)), sink)
    changes: list[tuple[Any, ...]] = [(2, "a b", "update_preimage", 1), (7, "a b", "update_postimage", 1)]
    assert rows(spark, sink) == sorted([*((id, "a b", "insert", 0) for id in range(3)), *changes])
    follows = with_changes(tracked(spark, path, sink, **options, allowSourceColumnRename="always"))
    assert follows.columns == ["number", "p", "kind", "version"]
    run(follows.selectExpr("number as id", "p", "kind", "version"), sink)
    assert (7, "a b", "delete", 3) in rows(spark, sink)


def test_a_tracked_schema_follows_a_wider_type(spark: SparkSession, path: str, tmp_path: Path) -> None:
    """Without tracking, a new DataFrame is enough; with it, the session may ask for an acknowledgement."""
    made(spark, path, enableTypeWidening="true")
    sinks = [str(tmp_path / name) for name in "ab"]
    run(spark.readStream.format("delta").load(path), sinks[0])
    setting = "spark.databricks.delta.typeWidening.enableStreamingSchemaTracking"
    spark.conf.set(setting, "true")
    try:
        run(tracked(spark, path, sinks[1]), sinks[1], **{"delta.enableTypeWidening": "true"})
        alter(spark, path, "ALTER COLUMN id TYPE LONG")
        append(spark, path, (1 << 40, "a b"))
        with pytest.raises(StreamingQueryException, match=r"DELTA_STREAMING_METADATA_EVOLUTION.*version 1"):
            run(tracked(spark, path, sinks[1]), sinks[1])
        with pytest.raises(StreamingQueryException, match=r"TYPE WIDENING.*id.*int.*allowSourceColumnTypeChange"):
            run(tracked(spark, path, sinks[1]), sinks[1])
        run(tracked(spark, path, sinks[1], allowSourceColumnTypeChange="1"), sinks[1])
        assert rows(spark, sinks[1])[-1] == (1 << 40, "a b")
    finally:
        spark.conf.unset(setting)
    alter(spark, sinks[0], "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    run(spark.readStream.format("delta").load(path), sinks[0])
    assert rows(spark, sinks[0])[-1] == (1 << 40, "a b")


def test_a_table_that_is_restored_cloned_over_and_made_again(
    spark: SparkSession, table_name: str, tmp_path: Path
) -> None:
    """A running query is told by the error's class what has become of its table; past a change it goes on with what is
    appended.
    """
    sink = str(tmp_path / "sink")

    def made_again() -> None:
        spark.sql(f"DROP TABLE IF EXISTS {table_name}")
        spark.range(3).coalesce(1).write.format("delta").saveAsTable(table_name)

    def started(**options: str) -> Any:
        writer = spark.readStream.options(**options).table(table_name).writeStream.format("delta")
        query = writer.option("checkpointLocation", f"{sink}-checkpoint").start(sink)
        query.processAllAvailable()
        return query

    made_again()
    other = f"delta.`{tmp_path}/other`"
    spark.sql(f"CREATE TABLE {other} SHALLOW CLONE {table_name}")
    spark.sql(f"DELETE FROM {other} WHERE id = 0")
    spark.sql(f"INSERT INTO {table_name} VALUES (10)")
    for statement, options, error in (
        (f"RESTORE TABLE {table_name} TO VERSION AS OF 0", {}, "DELTA_SOURCE_IGNORE_DELETE.*Version 2"),
        (
            f"CREATE OR REPLACE TABLE {table_name} SHALLOW CLONE {other}",
            {"ignoreDeletes": "true"},
            "DELTA_SOURCE_TABLE_IGNORE_CHANGES.*Version 3.*CLONE",
        ),
    ):
        query = started(**options)
        spark.sql(statement)
        with pytest.raises(StreamingQueryException, match=error):
            query.processAllAvailable()
    query = started(skipChangeCommits="true")
    spark.sql(f"INSERT INTO {table_name} VALUES (20)")
    query.processAllAvailable()
    made_again()
    with pytest.raises(StreamingQueryException, match=DROPPED):
        query.processAllAvailable()
    with pytest.raises(StreamingQueryException, match="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"):
        started()
    assert sorted(row.id for row in spark.read.format("delta").load(sink).collect()) == [0, 1, 2, 10, 20]
