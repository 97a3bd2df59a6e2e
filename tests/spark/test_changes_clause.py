"""CHANGES in SQL and `changes` of readers give the change data feed; and changes that nobody recorded follow from the
ids of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, Row, SparkSession

import tahoe
from tahoe.errors import (
    ChangesNotComputedError,
    ChangesNotRecordedError,
    ChangeStartTooLateError,
    InvalidChangeRangeError,
    InvalidOptionError,
    TimestampOutOfRangeError,
    UnsupportedOperationError,
)
from tests.table.feeds import net_of, random_life

pytestmark = pytest.mark.every_spark

FEED = {"delta.enableChangeDataFeed": "true"}
IDS = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}

LIVES = 3


def rows(frame: DataFrame) -> Counter[Row]:
    """Its rows, in the order of their names: as many of each as there are."""
    return Counter(tuple(row[name] for name in sorted(frame.columns)) for row in frame.collect())


def feed(spark: SparkSession, path: str, start: int, end: int | None = None, **options: str) -> DataFrame:
    ends = {} if end is None else {"endingVersion": str(end)}
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", str(start))
    return reader.options(**ends, **options).load(path)


def renamed(frame: DataFrame) -> DataFrame:
    """The rows of a feed, without updates."""
    names = {"update_preimage": "delete", "update_postimage": "insert"}
    return frame.replace(names, subset=["_change_type"])


# --- the clause


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three rows (1), one of which is updated (2), and another deleted (3)."""
    if spark.version.startswith("4.1"):
        pytest.skip("CHANGES is new in Spark 4.2")
    path = str(tmp_path_factory.mktemp("changes") / "t")
    made = tahoe.Table(path)
    made.create(pa.schema([("id", pa.int64()), ("v", pa.string())]), properties=FEED)
    made.append(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
    made.update({"v": "'B'"}, "id = 2")
    made.delete("id = 3")
    spark.sql(f"create table changed using delta location '{path}'")
    yield path
    spark.sql("drop table changed")


@pytest.mark.parametrize(
    ("clause", "start", "end"),
    [
        ("FROM VERSION 1", 1, None),
        ("FROM VERSION 1 TO VERSION 2", 1, 2),
        ("FROM VERSION 1 INCLUSIVE TO VERSION 3 EXCLUSIVE", 1, 2),
        ("FROM VERSION 1 EXCLUSIVE TO VERSION 3", 2, 3),
        ("FROM TIMESTAMP '2000-01-01'", 0, None),
    ],
)
def test_the_clause_is_the_feed(spark: SparkSession, table: str, clause: str, start: int, end: int | None) -> None:
    expected = feed(spark, table, start, end)
    asked = f"CHANGES {clause} WITH (computeUpdates = 'true')"
    for name in ("changed", "default.changed", "spark_catalog.default.changed", f"delta.`{table}`"):
        assert rows(spark.sql(f"SELECT * FROM {name} {asked}")) == rows(expected)
    assert rows(spark.sql(f"SELECT * FROM changed CHANGES {clause}")) == rows(renamed(expected))


@pytest.mark.parametrize(
    "clause",
    [
        *("FROM VERSION 3 EXCLUSIVE", "FROM VERSION 2 EXCLUSIVE TO VERSION 2", "FROM VERSION 3 EXCLUSIVE TO VERSION 9"),
        "FROM VERSION 2 TO VERSION 2 EXCLUSIVE",
    ],
)
def test_behind_the_last_version_there_is_nothing(spark: SparkSession, table: str, clause: str) -> None:
    empty = spark.sql(f"SELECT * FROM changed CHANGES {clause}")
    assert (empty.count(), empty.columns) == (0, feed(spark, table, 1).columns)


def test_times_count_in_microseconds(spark: SparkSession, table: str) -> None:
    """A commit's time is in milliseconds: it is before the microsecond behind it."""
    second = tahoe.Table(table).history()[1]["timestamp"]

    def versions(clause: str) -> set[int]:
        return {row[0] for row in spark.sql(f"SELECT _commit_version FROM changed CHANGES {clause}").collect()}

    at, behind = f"TIMESTAMP '{second}'", f"TIMESTAMP '{second + timedelta(microseconds=1)}'"
    assert versions(f"FROM {at}") == {2, 3}
    assert versions(f"FROM {at} EXCLUSIVE") == versions(f"FROM {behind}") == {3}
    assert versions(f"FROM TIMESTAMP '2000-01-01' TO {at}") == {1, 2}
    assert versions(f"FROM TIMESTAMP '2000-01-01' TO {at} EXCLUSIVE") == {1}
    assert versions(f"FROM {at} EXCLUSIVE TO {at}") == versions(f"FROM {at} TO {at} EXCLUSIVE") == set()


@pytest.mark.parametrize("bound", ["INCLUSIVE", "EXCLUSIVE"])
def test_a_time_behind_the_newest_commit_ends_a_range(spark: SparkSession, table: str, bound: str) -> None:
    """A job asks each time for what is later than what it has seen, until now."""
    now = f"TIMESTAMP '2999-01-01' {bound}"
    assert rows(spark.sql(f"SELECT * FROM changed CHANGES FROM TIMESTAMP '2000-01-01' TO {now}")) == rows(
        renamed(feed(spark, table, 0))
    )
    assert rows(spark.sql(f"SELECT * FROM changed CHANGES FROM TIMESTAMP '2000-01-01' EXCLUSIVE TO {now}")) == rows(
        renamed(feed(spark, table, 0))
    )
    seen = f"TIMESTAMP '{tahoe.Table(table).history()[0]['timestamp']}'"
    for end in ("", f"TO {now}"):
        assert spark.sql(f"SELECT * FROM changed CHANGES FROM {seen} EXCLUSIVE {end}").count() == 0
        assert rows(spark.sql(f"SELECT * FROM changed CHANGES FROM {seen} {end}")) == rows(feed(spark, table, 3))


def test_readers(spark: SparkSession, table: str) -> None:
    reader = spark.read.option("startingVersion", "2").option("computeUpdates", "true")
    for name in ("changed", f"delta.`{table}`"):
        assert rows(reader.changes(name)) == rows(feed(spark, table, 2))
    assert rows(spark.read.changes("changed")) == rows(renamed(feed(spark, table, 0)))
    bounds = {"endingVersion": "3", "startingBoundInclusive": "false", "endingBoundInclusive": "false"}
    assert rows(spark.read.option("startingVersion", "1").options(**bounds).changes("changed")) == rows(
        renamed(feed(spark, table, 2, 2))
    )


def test_the_clause_anywhere_in_a_query(spark: SparkSession, table: str) -> None:
    """Under a name, in a subquery, and in a view that is read from another database."""
    qualified = "SELECT changed.id, changed._change_type FROM changed CHANGES FROM VERSION 3"
    assert rows(spark.sql(qualified)) == Counter([("delete", 3)])
    counted = "SELECT c.id, count(*) AS n FROM changed CHANGES FROM VERSION 2 AS c GROUP BY c.id"
    assert rows(spark.sql(counted)) == Counter([(2, 2), (3, 1)])
    assert spark.sql("SELECT 1 WHERE EXISTS (SELECT * FROM changed CHANGES FROM VERSION 3)").count() == 1
    assert spark.sql("WITH x AS (SELECT * FROM changed CHANGES FROM VERSION 3) SELECT * FROM x").count() == 1
    spark.sql("CREATE VIEW of_changes AS SELECT * FROM changed CHANGES FROM VERSION 2")
    spark.sql("CREATE DATABASE elsewhere")
    try:
        spark.sql("USE elsewhere")
        assert rows(spark.table("default.of_changes")) == rows(renamed(feed(spark, table, 2)))
    finally:
        spark.sql("USE default")
        spark.sql("DROP VIEW of_changes")
        spark.sql("DROP DATABASE elsewhere")


@pytest.mark.usefixtures("table")
def test_a_condition_leaves_files_out(spark: SparkSession) -> None:
    asked = spark.sql("SELECT id FROM changed CHANGES FROM VERSION 1 WHERE _commit_version = 2 AND id > 0")
    plan = asked._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("changes from v1 to v3 [1 of ") == plan.count("changes from v1 to v3") == 1


@pytest.mark.parametrize("updates", ["true", "false"])
def test_streams(spark: SparkSession, table: str, tmp_path: Path, updates: str) -> None:
    def streamed(frame: DataFrame, name: str) -> DataFrame:
        target = str(tmp_path / name)
        writer = frame.writeStream.format("delta").option("checkpointLocation", str(tmp_path / f"of {name}"))
        writer.trigger(availableNow=True).start(target).awaitTermination()
        return spark.read.format("delta").load(target)

    reader = spark.readStream.option("computeUpdates", updates)
    expected = feed(spark, table, 2)
    expected = expected if updates == "true" else renamed(expected)
    assert rows(streamed(reader.option("startingVersion", "2").changes("changed"), "a")) == rows(expected)
    asked = f"SELECT * FROM STREAM changed CHANGES FROM VERSION 1 EXCLUSIVE WITH (computeUpdates = '{updates}')"
    assert rows(streamed(spark.sql(asked), "b")) == rows(expected)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("by", ["version", "time"])
def test_a_stream_begins_behind_what_has_been_seen(spark: SparkSession, tmp_path: Path, by: str) -> None:
    """The newest version has no rows for it, also where it goes on from its checkpoint, and the next one has."""
    path = str(tmp_path / "t")
    copy = tahoe.Table(path)
    copy.append(pa.table({"id": [1]}), properties=FEED)
    seen = "VERSION 0" if by == "version" else f"TIMESTAMP '{copy.history()[0]['timestamp']}'"

    def told() -> Counter[Row]:
        changes = spark.sql(f"SELECT id FROM STREAM delta.`{path}` CHANGES FROM {seen} EXCLUSIVE")
        writer = changes.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        out = tahoe.Table(str(tmp_path / "out"))
        return rows(spark.read.format("delta").load(out.url)) if out.exists() else Counter()

    assert told() == Counter()
    for more in (2, 3):
        copy.append(pa.table({"id": [more]}))
        assert told() == Counter((number,) for number in range(2, more + 1))


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("clause", "error"),
    [
        ("FROM VERSION 9", ChangeStartTooLateError),
        ("FROM VERSION 3 TO VERSION 1", InvalidChangeRangeError),
        ("FROM VERSION 3 EXCLUSIVE TO VERSION 1", InvalidChangeRangeError),
        ("FROM TIMESTAMP '2999-01-02' TO TIMESTAMP '2999-01-01'", InvalidChangeRangeError),
        ("FROM VERSION 'x'", InvalidOptionError),
        ("FROM TIMESTAMP '9999-12-31 23:59:59.999999'", TimestampOutOfRangeError),
        ("FROM VERSION 1 WITH (computeChanges = 'maybe')", InvalidOptionError),
    ],
)
def test_what_cannot_be_is_told(spark: SparkSession, clause: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        spark.sql(f"SELECT * FROM changed CHANGES {clause}")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("option", [{"deduplicationMode": "netChanges"}, {"computeChanges": "true"}])
def test_a_stream_has_no_changes_that_need_a_whole_commit(spark: SparkSession, option: dict[str, str]) -> None:
    with pytest.raises(UnsupportedOperationError):
        spark.readStream.options(**option).changes("changed")


@pytest.mark.usefixtures("table")
def test_a_name_of_no_table(spark: SparkSession) -> None:
    for name in ("missing", "missing.t", "spark_catalog.default.missing"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 0")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.read.option("startingVersion", "0").changes(name)


def test_an_older_spark_says_what_does_the_same(spark: SparkSession) -> None:
    """And what is no clause, or is in a text that cannot be parsed for another reason, is Spark's."""
    spark.sql("SELECT changes FROM VALUES (1) AS t (changes)")
    with pytest.raises(ParseException) as caught:
        spark.sql("SELECT * FROM t CHANGES FROM VERSION 1 ((")
    assert ("table_changes" in str(caught.value)) == spark.version.startswith("4.1")
    with pytest.raises(ParseException) as caught:
        spark.sql("SELECT (changes FROM t")
    assert "table_changes" not in str(caught.value)


# --- changes that were not recorded


@pytest.mark.parametrize("vectors", [VECTORS, {"delta.enableDeletionVectors": "false"}], ids=["vectors", "copies"])
@pytest.mark.parametrize("seed", range(LIVES))
def test_what_is_computed_is_what_was_recorded(
    spark: SparkSession, tmp_path: Path, seed: int, vectors: dict[str, str]
) -> None:
    """And net changes are the difference of two versions."""
    path = str(tmp_path / "t")
    table = random_life(tahoe.Table(path), seed, {**FEED, **IDS, **vectors})
    start = 1 + seed % max(table.version - 1, 1)
    assert rows(feed(spark, path, start, computeChanges="true")) == rows(feed(spark, path, start))
    some = "v % 2 = 0 AND part = 1"  # one side of an update may match alone
    assert rows(feed(spark, path, start, computeChanges="true").where(some)) == rows(
        feed(spark, path, start).where(some)
    )
    net = feed(spark, path, start, computeChanges="net").drop("_commit_timestamp", "_commit_version")
    expected = Counter(tuple(row[name] for name in sorted(row)) for row in net_of(table, start))
    assert rows(net) == expected


def test_vectors_alone_tell_inserts_and_deletes(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.create(pa.schema([("id", pa.int64()), ("v", pa.int64())]), properties=VECTORS)
    table.append(pa.table({"id": range(20), "v": range(20)}))
    table.delete("id = 3")
    with pytest.raises(ChangesNotRecordedError, match="computeChanges"):
        feed(spark, path, 1)
    computed = feed(spark, path, 1, computeChanges="true").select("id", "_change_type", "_commit_version")
    assert rows(computed) == Counter([*(("insert", 1, key) for key in range(20)), ("delete", 2, 3)])
    table.update({"v": "0"}, "id = 4")
    with pytest.raises(ChangesNotComputedError, match="version 3"):
        feed(spark, path, 1, computeChanges="true")
    with pytest.raises(ChangesNotComputedError, match="version 1"):
        feed(spark, path, 1, 2, computeChanges="net")
    if not spark.version.startswith("4.1"):
        asked = "CHANGES FROM VERSION 3 WITH (computeChanges = 'true')"
        kinds = spark.sql(f"SELECT _change_type, id, v FROM delta.`{path}` {asked}")
        assert rows(kinds) == Counter([("delete", 4, 4), ("insert", 4, 0)])
