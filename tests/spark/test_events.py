"""What is told of queries, statements and streams in Spark; see tests/table/test_events.py for the events themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.events import Commit, Event, QueryPlanned, StreamBatch


@contextmanager
def heard(kind: type[Event]) -> Iterator[list[Any]]:
    found: list[Any] = []
    with tahoe.on(kind, found.append):
        yield found


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """A table of two files: 0 to 9, and 100 to 109."""
    path = str(tmp_path / "t")
    for start in (0, 100):
        spark.range(start, start + 10, numPartitions=1).write.format("delta").mode("append").save(path)
    return path


def test_a_query_is_told_once_when_it_is_planned(spark: SparkSession, path: str) -> None:
    frame = spark.read.format("delta").load(path).where("id > 50")
    with heard(QueryPlanned) as found:
        assert len(frame.collect()) == 10
    (query,) = found
    files = tahoe.Table(path).files()["size_bytes"].to_pylist()
    assert (query.table, query.version, query.engine, query.purpose) == (f"file://{path}", 1, "spark", "rows")
    assert (query.files_read, query.files_skipped) == (1, 1)
    assert query.bytes_read in files
    assert query.bytes_read + query.bytes_skipped == sum(files)
    assert query.duration_seconds > 0


def test_a_query_of_two_tables_is_told_for_each(spark: SparkSession, path: str) -> None:
    with heard(QueryPlanned) as found:
        spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 0 JOIN delta.`{path}` USING (id)").collect()
    assert sorted(query.version for query in found) == [0, 1]


def test_what_the_log_answers_and_what_a_limit_needs_is_told(spark: SparkSession, path: str) -> None:
    with heard(QueryPlanned) as found:
        spark.sql(f"SELECT count(*) FROM delta.`{path}`").collect()
        spark.sql(f"SELECT * FROM delta.`{path}` LIMIT 3").collect()
    assert [(query.purpose, query.files_read, query.files_skipped) for query in found] == [
        ("aggregate", 0, 2),
        ("limit", 1, 1),
    ]


def test_a_read_of_changes_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "fed")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for start in (0, 100):
        spark.range(start, start + 10, numPartitions=1).write.format("delta").mode("append").save(path)
    with heard(QueryPlanned) as found:
        rows = spark.sql(f"SELECT * FROM table_changes('delta.`{path}`', 1) WHERE id > 50")
        assert len(rows.collect()) == 10
    (query,) = found
    assert (query.version, query.purpose, query.files_read, query.files_skipped) == (2, "changes", 1, 1)


@pytest.mark.parametrize(
    ("statement", "operation", "figure"),
    [
        ("DELETE FROM delta.`{path}` WHERE id = 3", "DELETE", "numDeletedRows"),
        ("UPDATE delta.`{path}` SET id = -id WHERE id = 3", "UPDATE", "numUpdatedRows"),
        (
            "MERGE INTO delta.`{path}` t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "MERGE",
            "numTargetRowsDeleted",
        ),
    ],
)
def test_a_statement_is_told_by_its_commit(
    spark: SparkSession, path: str, statement: str, operation: str, figure: str
) -> None:
    with heard(Commit) as found:
        spark.sql(statement.format(path=path))
    (commit,) = found
    assert (commit.table, commit.version, commit.read_version) == (f"file://{path}", 2, 1)
    assert (commit.operation, commit.attempts, commit.files_removed) == (operation, 1, 1)
    assert commit.metrics[figure] == 1


def test_batches_of_a_stream_are_told_where_they_are_read_and_where_they_are_written(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    to, sizes = str(tmp_path / "to"), tahoe.Table(path).files()["size_bytes"].to_pylist()
    with heard(StreamBatch) as found:
        rows = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(path)
        writer = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(to)
        query.awaitTermination()
    assert spark.read.format("delta").load(to).count() == 20
    read, written = ([batch for batch in found if batch.side == side] for side in ("source", "sink"))
    assert [(batch.table, batch.version, batch.files_read) for batch in read] == [(f"file://{path}", 1, 1)] * 2
    assert sorted(batch.bytes_read for batch in read) == sorted(sizes)
    assert [(batch.table, batch.version, batch.batch) for batch in written] == [
        (f"file://{to}", 0, 0),
        (f"file://{to}", 1, 1),
    ]
    assert {batch.query for batch in found} == {query.id}


def test_a_stream_behind_its_first_rows_reads_up_to_the_version_that_it_tells(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    with heard(StreamBatch) as found:
        rows = spark.readStream.format("delta").option("startingVersion", 1).load(path)
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    (batch,) = found
    assert (batch.side, batch.version, batch.files_read) == ("source", 1, 1)


def test_a_listener_that_fails_breaks_no_query_and_no_statement(spark: SparkSession, path: str) -> None:
    with tahoe.on(Event, lambda _: 1 / 0):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
        assert spark.read.format("delta").load(path).count() == 19
