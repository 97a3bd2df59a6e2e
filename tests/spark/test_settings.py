"""A session may be set to anything: what is read and written is the same, and nothing of it becomes a part of the
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import TimestampOutOfRangeError
from tahoe.protocol.types.time_zones import SHORT_IDS
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.table_cache import session_zone

# One of each kind of name that Spark takes for a time zone, besides the short ones.
ZONES = ("Z", "GMT+8", "UTC+5", "UT-03:30", "+05:30", "+7:30", "-08:5", "+0130", "Etc/GMT+8", "Europe/Paris", "EST5EDT")
MOMENTS = tuple(datetime(year, month, 15, 12, tzinfo=UTC) for year in (1975, 2026) for month in (1, 7))


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_every_zone_has_the_meaning_that_spark_gives_it(spark: SparkSession) -> None:
    """An offset of one moment is not the zone: they are compared in summer and winter, now and then."""
    jvm = Gateway(spark).jvm
    times = Gateway(spark).module("org.apache.spark.sql.catalyst.util.DateTimeUtils")
    instants = {moment: jvm.java.time.Instant.ofEpochSecond(int(moment.timestamp())) for moment in MOMENTS}
    for name in (*SHORT_IDS, *ZONES):
        with settings(spark, {"spark.sql.session.timeZone": name}):
            zone, rules = session_zone(spark, "t"), times.getZoneId(name).getRules()
        for moment, instant in instants.items():
            offset = timedelta(seconds=rules.getOffset(instant).getTotalSeconds())
            assert moment.astimezone(zone).utcoffset() == offset, (name, moment)


def test_a_table_is_made_written_and_read_in_a_zone_with_a_short_name(spark: SparkSession, path: str) -> None:
    with settings(spark, {"spark.sql.session.timeZone": "PST"}):
        spark.sql(f"CREATE TABLE delta.`{path}` (id INT, at TIMESTAMP) USING delta PARTITIONED BY (at)")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, timestamp'2026-07-01 00:00:00')")
        assert spark.sql(f"SELECT id FROM delta.`{path}` WHERE at = '2026-07-01'").collect() == [(1,)]
        with pytest.raises(TimestampOutOfRangeError, match="2000-01-01"):
            spark.read.format("delta").option("timestampAsOf", "2000-01-01").load(path)
    assert tahoe.Table(path).to_arrow()["at"].to_pylist() == [datetime(2026, 7, 1, 7, tzinfo=UTC)]


SETTINGS: tuple[dict[str, str], ...] = (
    {"spark.sql.streaming.fileSink.log.compactInterval": "1", "spark.sql.streaming.fileSink.log.cleanupDelay": "0"},
    {"spark.sql.streaming.checkpointFileManagerClass": "no.such.Class"},
    {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY", "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY"},
    {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION",
        "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
    },
    {"spark.sql.parquet.outputTimestampType": "INT96", "spark.sql.parquet.writeLegacyFormat": "true"},
)


@pytest.mark.parametrize("values", SETTINGS, ids=[next(iter(values)).removeprefix("spark.sql.") for values in SETTINGS])
def test_files_are_the_same_whatever_the_session_is_set_to(
    spark: SparkSession, path: str, values: dict[str, str]
) -> None:
    """Read without Spark, whose own reader would know what its writer has done."""
    rows: list[Any] = [
        (1, date(1000, 1, 1), datetime(1000, 1, 1, tzinfo=UTC)),
        (2, date(2026, 7, 1), datetime(2026, 7, 1, tzinfo=UTC)),
    ]
    frame = spark.sql(
        "SELECT id, cast(d AS DATE) AS d, cast(d || ' 00:00:00Z' AS TIMESTAMP) AS at "
        "FROM VALUES (1, '1000-01-01'), (2, '2026-07-01'), (3, '2026-07-02') AS t(id, d)"
    )
    with settings(spark, values):
        frame.coalesce(1).write.format("delta").save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
        assert spark.sql(f"SELECT id FROM delta.`{path}` WHERE d < '1500-01-01'").collect() == [(1,)]
    found = tahoe.Table(path).to_arrow().sort_by("id")
    assert list(zip(*(found[name].to_pylist() for name in ("id", "d", "at")), strict=True)) == rows


# --- what is given beside a table's name


def properties(path: str) -> dict[str, str]:
    return dict(tahoe.Table(path).snapshot().properties)


def test_a_table_that_is_there_gets_a_name_through_the_catalog(spark: SparkSession, path: str, table_name: str) -> None:
    spark.range(5).write.format("delta").save(path)
    spark.catalog.createTable(table_name, path=path, source="delta")
    assert spark.table(table_name).count() == 5


def test_options_are_no_properties(spark: SparkSession, path: str, table_name: str) -> None:
    """They say where a table is and how this writer gets there, with its keys; every reader sees the properties."""
    given = {"foo": "bar", "fs.s3a.secret.key": "secret", "delta.appendOnly": "true"}
    spark.catalog.createTable(table_name, path=path, source="delta", schema=spark.range(1).schema, **given)
    assert properties(path) == {"delta.appendOnly": "true"}


def test_options_in_sql_are_no_properties_and_count_for_its_rows(
    spark: SparkSession, path: str, table_name: str
) -> None:
    options = "OPTIONS (compression 'gzip', foo 'bar', 'delta.appendOnly' 'true')"
    spark.sql(
        f"CREATE TABLE {table_name} USING delta {options} LOCATION '{path}' TBLPROPERTIES ('mine' 'x') AS SELECT "
        f"1 AS id"
    )
    assert properties(path) == {"delta.appendOnly": "true", "mine": "x"}
    assert all(".gz." in add.path for add in tahoe.Table(path).snapshot().live.adds())


def test_options_of_write_to_are_no_properties(spark: SparkSession, path: str, table_name: str) -> None:
    writer = (
        spark.range(1)
        .writeTo(table_name)
        .using("delta")
        .option("path", path)
        .option("foo", "bar")
        .tableProperty("mine", "x")
    )
    writer.create()
    assert properties(path) == {"mine": "x"}
