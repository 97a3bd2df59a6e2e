"""Rules through Spark: those on rows see the row as it is stored, and a switch counts where its feature is in the
protocol.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.errors import (
    CheckConstraintViolatedError,
    GeneratedValueMismatchError,
    NotNullViolationError,
    ReplaceWhereMismatchError,
)
from tahoe.protocol.log.actions import Metadata, Protocol, encode_commit
from tahoe.protocol.types.schema import INTEGER, Field, Struct
from tahoe.table.verify.check import check_version


def append(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode(options.pop("mode", "append")).options(**options).save(path)


def rows(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    assert list(check_version(tahoe.Table(path).snapshot())) == []
    return sorted(map(tuple, spark.read.format("delta").load(path).collect()), key=repr)


EMPTY = ("select '' as p, 1 as x", "select X'' as p, 1 as x")


@pytest.mark.parametrize(("kind", "given"), [("string", EMPTY[0]), ("binary", EMPTY[1])])
def test_an_empty_value_is_null_to_not_null_and_to_check(spark: SparkSession, path: str, kind: str, given: str) -> None:
    spark.sql(f"create table delta.`{path}/n` (p {kind} not null, x int) using delta partitioned by (p)")
    spark.sql(
        f"create table delta.`{path}/c` (p {kind}, x int, constraint c check (p is not null)) using delta "
        f"partitioned by (p)"
    )
    for statement in (
        f"insert into delta.`{path}/n` {given}",
        f"insert into delta.`{path}/n` (x, p) select x, p from ({given})",
    ):
        with pytest.raises(NotNullViolationError, match="Column p"):
            spark.sql(statement)
    with pytest.raises(NotNullViolationError):
        append(spark.sql(given), f"{path}/n")
    with pytest.raises(CheckConstraintViolatedError, match="p is not null"):
        append(spark.sql(given), f"{path}/c")
    assert rows(spark, f"{path}/n") == rows(spark, f"{path}/c") == []


def test_updates_and_merges_are_checked_likewise(spark: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    spark.sql(f"create table {table} (p string not null, x int) using delta partitioned by (p)")
    spark.sql(f"insert into {table} values ('a', 1)")
    with pytest.raises(NotNullViolationError):
        spark.sql(f"update {table} set p = ''")
    with pytest.raises(NotNullViolationError):
        spark.sql(f"merge into {table} t using (select '' as p, 2 as x) s on t.x = s.x when not matched then insert *")
    assert rows(spark, path) == [("a", 1)]


def test_other_columns_and_char_hold_empty_texts(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (p char(2) not null, s string not null) using delta partitioned by (p)")
    spark.sql(f"insert into delta.`{path}` values ('', '')")
    assert rows(spark, path) == [("  ", "")]


def test_replace_where_is_about_stored_rows(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 'a' as p, 1 as x"), path, mode="overwrite")
    spark.sql(f"create or replace table delta.`{path}` using delta partitioned by (p) as select 'a' as p, 1 as x")
    with pytest.raises(ReplaceWhereMismatchError, match='"p":null'):
        append(spark.sql("select '' as p, 2 as x"), path, mode="overwrite", replaceWhere="p = ''")
    append(spark.sql("select '' as p, 3 as x"), path, mode="overwrite", replaceWhere="p is null")
    assert rows(spark, path) == [("a", 1), (None, 3)]


def test_generated_partition_columns_are_compared_as_stored_and_others_computed_of_what_is_stored(
    spark: SparkSession, path: str
) -> None:
    table = f"delta.`{path}`"
    columns = (
        "p string generated always as (trim(s)), s string, q string, g string generated always as (coalesce(q, 'none'))"
    )
    spark.sql(f"create table {table} ({columns}) using delta partitioned by (p, q)")
    append(spark.sql("select '' as p, ' ' as s, '' as q"), path)
    append(spark.sql("select string(null) as p, '' as s, 'b' as q, 'b' as g"), path)
    append(spark.sql("select ' ' as s, 'c' as q"), path)
    assert rows(spark, path) == [(None, " ", "c", "c"), (None, " ", None, "none"), (None, "", "b", "b")]
    with pytest.raises(GeneratedValueMismatchError):
        append(spark.sql("select '' as p, 'a' as s, '' as q"), path)


@pytest.mark.parametrize("writer", ["legacy", "features"])
def test_switches_without_their_features_say_nothing(spark: SparkSession, path: str, writer: str) -> None:
    """As another writer may leave them: old readers would not look at vectors, nor write the feed."""
    schema = Struct((Field(name="id", type=INTEGER),))
    switches = (
        "delta.enableDeletionVectors",
        "delta.enableChangeDataFeed",
        "delta.enableRowTracking",
        "delta.enableInCommitTimestamps",
    )
    metadata = Metadata(id="t", schema_string=schema.to_json(), configuration=dict.fromkeys(switches, "true"))
    plain = Protocol(reader_version=1, writer_version=2)
    protocol = plain if writer == "legacy" else plain.replace(writer_version=7, writer_features=frozenset())
    log = Path(path, "_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_bytes(encode_commit([protocol, metadata]))
    append(spark.range(10).selectExpr("int(id) as id").coalesce(1), path)
    spark.sql(f"delete from delta.`{path}` where id < 3")
    spark.sql(f"update delta.`{path}` set id = 100 where id = 3")
    assert rows(spark, path) == sorted([(100,), *((n,) for n in range(4, 10))], key=repr)
    table = tahoe.Table(path)
    assert not table.snapshot().has_deletion_vectors
    assert not Path(path, "_change_data").exists()
    assert table.protocol == protocol
    assert [commit["version"] for commit in table.history()] == [3, 2, 1, 0]


def test_changes_tell_what_is_stored(spark: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    spark.sql(
        f"create table {table} (p string, x int) using delta partitioned by (p) tblproperties "
        f"('delta.enableChangeDataFeed' = true)"
    )
    spark.sql(f"insert into {table} values ('a', 1), ('a', 2)")
    spark.sql(f"update {table} set p = '' where x = 1")
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 2).load(path)
    assert sorted(map(tuple, feed.select("p", "x", "_change_type").collect()), key=repr) == [
        ("a", 1, "update_preimage"),
        (None, 1, "update_postimage"),
    ]
