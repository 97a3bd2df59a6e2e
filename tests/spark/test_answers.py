"""Aggregations are answered from the log: with the results of a scan, without reading files, and without hiding what a
write has read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import ConcurrentAppendException
from tahoe.spark.configuration import setting_names
from tests import sample
from tests.spark.varied_tables import explained, mapped, thirty_days, various

SETTING = setting_names.ANSWERS_FROM_LOG.name

pytestmark = pytest.mark.every_spark

# Random queries over each table.
QUERIES = 40


@pytest.fixture
def scanned(spark: SparkSession) -> Iterator[Callable[[Callable[[], object]], object]]:
    """Runs a function with answers turned off."""

    def run(function: Callable[[], object]) -> object:
        spark.conf.set(SETTING, "false")
        try:
            return function()
        finally:
            spark.conf.unset(SETTING)

    yield run
    spark.conf.unset(SETTING)


def without_files(path: str) -> None:
    """Delete all data files, so that whatever reads one fails."""
    for file in Path(path).rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()


COMPUTED = {
    "char": "SELECT max(c), min(c), count(DISTINCT c) FROM {t}",
    "expression": "SELECT min(x), max(x) FROM (SELECT upper(p) || 'a' AS x FROM {t})",
    "beside a count": "SELECT min(x), max(x), count(*) FROM (SELECT upper(p) || 'a' AS x FROM {t})",
    "grouped": "SELECT p, max(c), min(c) FILTER (WHERE c > 'a') FROM {t} GROUP BY p ORDER BY p",
}


@pytest.mark.every_case
@pytest.mark.parametrize("query", COMPUTED)
def test_aggregates_of_computed_partition_values(spark, table_name, query):
    """Spark pads columns of a fixed length above the scan."""
    spark.sql(f"CREATE TABLE {table_name} (id INT, p STRING, c CHAR(5)) USING delta PARTITIONED BY (p, c)")
    spark.sql(f"INSERT INTO {table_name} VALUES (1, 'x', 'a'), (2, 'y', 'b'), (3, 'x', 'c')")
    frame = spark.sql(COMPUTED[query].format(t=table_name))
    expected = {
        "char": [("c    ", "a    ", 3)],
        "expression": [("Xa", "Ya")],
        "beside a count": [("Xa", "Ya", 3)],
        "grouped": [("x", "c    ", "c    "), ("y", "b    ", "b    ")],
    }
    assert [tuple(row) for row in frame.collect()] == expected[query]
    assert "answered from the log" in explained(frame)


# --- the law


COLUMNS = ("i", "l", "d", "st.n", "day", "p", "weight", "void_like", "s", "f", "ts", "dec")
FUNCTIONS = (
    *(
        "count(*)",
        "count(1)",
        "count(d, l)",
        *(f"count({column})" for column in ("i", "l", "s", "f", "st.n", "st", "arr", "p")),
    ),
    *(f"{end}({column})" for end in ("min", "max") for column in COLUMNS),
    *("count(distinct p)", "count(distinct day)", "max(upper(p))", "max(day) - min(day)", "count(*) + max(i)"),
    *("count(*) filter (where i < 50)", "min(l) filter (where p = 'x')", "max(i) filter (where d is null)"),
    *(
        "count(l) filter (where day > '2026-02-01')",
        "count(distinct p) filter (where i < 50)",
        "count(distinct weight)",
        "count(distinct p, day)",
    ),
)
CONDITIONS = (
    *(
        "true",
        "p = 'x'",
        "p <> 'x'",
        "p is null",
        "p <=> null",
        "day = '2026-02-01'",
        "weight = 0",
        "p = 'x' and i < 90",
    ),
    *(
        "i < 45",
        "i >= 40",
        "i between 20 and 90",
        "not (i > 100)",
        "i in (1, 2, 3)",
        "i > 1000",
        "i % 2 = 0",
        "i < 10 or day = '2026-02-02'",
    ),
    *(
        "l is not null",
        "l > 30000",
        "d >= '2026-01-03'",
        "s like 'a long%'",
        "f < 20",
        "f > 1",
        "dec < 20",
        "st.n > 30",
        "void_like is null",
    ),
    "ts < timestamp_micros(60000)",
)
GROUPINGS = ("", "", "", "p", "day", "p, day", "weight", "year(day), p", "upper(p)", "i")


def drawn(random: random.Random) -> str:
    functions = random.sample(FUNCTIONS, random.choice((1, 1, 2, 3)))
    if random.random() < 0.1:
        functions.append("sum(i)")
    grouping = random.choice(GROUPINGS)
    columns = [
        *([grouping] if grouping else []),
        *(f"{function} as c{number}" for number, function in enumerate(functions)),
    ]
    return f"select {', '.join(columns)} from answered where {random.choice(CONDITIONS)}" + (
        f" group by {grouping}" if grouping else ""
    )


@pytest.mark.every_case
@pytest.mark.parametrize("make", [various, mapped])
def test_results_are_those_of_a_scan(spark, path, scanned, make):
    spark.read.format("delta").load(make(spark, path)).createOrReplaceTempView("answered")
    chosen, answered = random.Random(make.__name__), 0

    def result(query: str) -> tuple[object, list[str]]:
        frame = spark.sql(query)
        return frame.schema, sorted(map(repr, frame.collect()))

    queries = sample.part([drawn(chosen) for _ in range(QUERIES)], 5)
    for query in queries:
        assert result(query) == scanned(lambda query=query: result(query)), query
        answered += "answered from the log" in explained(spark.sql(query))
    assert answered >= len(queries) // 7


# --- nothing is read


def test_no_file_is_read_for_an_answer(spark, path, table_name):
    thirty_days(spark, path)
    spark.range(5).selectExpr("id + 1000 as id", "date'2027-01-01' as day", "id as p").write.format("delta").mode(
        "append"
    ).save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    without_files(path)
    frame = spark.read.format("delta").load(path)
    assert frame.count() == 305
    assert spark.sql(
        f"SELECT count(*) c, min(id) a, max(day) b, count(p) FROM {table_name} VERSION AS OF 0"
    ).first() == (*(300, 0, date(2026, 1, 30), 300),)
    assert spark.read.format("delta").load(f"{path}@v0").count() == 300
    assert frame.where("day >= '2026-01-11' and day < '2026-01-21'").count() == 100
    assert (
        spark.sql(f"SELECT (SELECT max(id) FROM {table_name}) - (SELECT count(*) FROM delta.`{path}`)").first()[0]
        == 1004 - 305
    )
    assert spark.sql(f"SELECT count(*) FROM {table_name} WHERE id > 5000").first()[0] == 0
    assert spark.sql(f"SELECT max(id) FROM {table_name} WHERE id > 5000").first()[0] is None
    joined = f"SELECT x.id FROM range(400) x JOIN (SELECT count(*) AS c FROM {table_name}) ON x.id = c"
    assert [row.id for row in spark.sql(joined).collect()] == [305]
    assert [
        row.id
        for row in spark.sql(f"SELECT id FROM range(2000) WHERE id IN (SELECT max(id) FROM {table_name})").collect()
    ] == [1004]


def test_partitions_are_listed_without_reading(spark, path, scanned):
    spark.range(20).selectExpr("id", "id % 3 as p", "id % 2 as q").write.format("delta").partitionBy("p", "q").save(
        path
    )
    frame = spark.read.format("delta").load(path)
    queries = [
        lambda: frame.select("p").distinct(),
        lambda: frame.groupBy("q", "p").count(),
        lambda: frame.select("q", "p").where("p > 0").dropDuplicates(),
        lambda: frame.groupBy("p").agg({"id": "max", "*": "count"}).where("p = 1"),
        lambda: frame.where("p = 9").groupBy("p").count(),
        lambda: frame.selectExpr("count(distinct q)", "count(*)"),
    ]
    wanted = [scanned(lambda query=query: sorted(query().collect())) for query in queries]
    without_files(path)
    assert [sorted(query().collect()) for query in queries] == wanted
    assert wanted[4] == []


def test_partition_values_are_counted_without_handing_them_to_spark(spark, path):
    """A million of them took Spark seven seconds."""
    spark.range(20).selectExpr("id", "id % 3 as p").write.format("delta").partitionBy("p").save(path)
    frame = spark.read.format("delta").load(path)
    counted = frame.selectExpr("count(distinct p) as n", "count(*) as rows", "max(id) as last")
    assert "Aggregate" not in explained(counted)
    assert [tuple(row) for row in counted.collect()] == [(3, 20, 19)]


def test_a_plan_tells_what_is_answered_and_what_is_read(spark, path):
    thirty_days(spark, path)
    frame = spark.read.format("delta").load(path)
    assert f"file://{path} v0 [30 files answered from the log, 0 of 30 read]" in explained(frame.groupBy().count())
    edges = explained(frame.where("id between 15 and 144").groupBy().count())
    assert f"file://{path} v0 [12 files answered from the log, 2 of 30 read]" in edges
    assert f"file://{path} v0 [2 of 30 files]" in edges
    assert frame.where("id between 15 and 144").count() == 130


# --- what is not answered


def test_turned_off_and_lenient_reads_are_scans(spark, path, scanned):
    thirty_days(spark, path)

    def is_answered(**options: str) -> bool:
        return "answered from the log" in explained(
            spark.read.format("delta").options(**options).load(path).groupBy().count()
        )

    assert is_answered()
    assert not scanned(is_answered)
    assert not is_answered(ignoreMissingFiles="true")
    assert not is_answered(ignoreCorruptFiles="TRUE")
    for name in ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"):
        spark.conf.set(name, "true")
        try:
            assert not is_answered()
            assert is_answered(**{name.rpartition(".")[2]: "false"})
        finally:
            spark.conf.unset(name)


def test_other_rows_than_those_of_the_files_are_scanned(spark, path):
    thirty_days(spark, path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    frame = spark.read.format("delta").load(path)
    queries = [
        frame.sample(0.5, seed=1).groupBy().count(),
        frame.limit(7).groupBy().count(),
        frame.where("_metadata.file_name like '%part-00001%'").groupBy().count(),
        frame.where("rand(1) < 0.5").groupBy().count(),
        frame.where(f"id > (select min(id) from delta.`{path}`)").groupBy().agg({"p": "sum"}),
        frame.selectExpr("max(_metadata.row_index)"),
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 1)
        .load(path)
        .groupBy()
        .count(),
    ]
    assert ["answered from the log" in explained(query) for query in queries] == [*[False] * 4, True, *[False] * 2]
    assert queries[1].first()[0] == 7
    assert queries[2].first()[0] == 10
    assert queries[5].first()[0] == 9


def test_a_cached_answer_is_of_its_version_until_a_commit(spark, path):
    thirty_days(spark, path)
    counts = spark.read.format("delta").load(path).groupBy().count().cache()
    assert counts.first()[0] == 300
    spark.range(1).selectExpr("id", "current_date() as day", "id as p").write.format("delta").mode("append").save(path)
    assert counts.first()[0] == 301
    counts.unpersist()


# --- writes

READS = {
    "insert": "INSERT INTO {t} SELECT count(*) AS id FROM {t}",
    "scalar subquery": "INSERT INTO {t} SELECT (SELECT max(id) FROM {t}) + 1 AS id",
    "subquery in a condition": "INSERT INTO {t} SELECT id FROM range(9) WHERE id IN (SELECT min(id) FROM {t})",
    "correlated subquery": "INSERT INTO {t} SELECT id FROM range(9) r WHERE EXISTS (SELECT max(id) FROM {t} s HAVING max(id) > 3)",
    "join": "INSERT INTO {t} SELECT r.id FROM range(9) r JOIN (SELECT count(*) AS c FROM {t}) ON r.id < c",
    "overwrite": "INSERT INTO {t} REPLACE WHERE id = 2 SELECT 2 + 0 * count(*) AS id FROM {t}",
    "delete": "DELETE FROM {t} WHERE id = (SELECT max(id) FROM {t})",
    "update": "UPDATE {t} SET id = (SELECT max(id) FROM {t}) + 1 WHERE id = 0",
    "merge": "MERGE INTO {t} USING (SELECT max(id) AS id FROM {t}) s ON {t}.id = s.id + 1 WHEN NOT MATCHED THEN INSERT *",
}


@pytest.mark.parametrize("statement", READS)
def test_what_a_write_has_read_from_the_log_is_read(spark, path, table_name, behind_a_rival, statement):
    spark.range(5).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    behind_a_rival(lambda: tahoe.Table(path).append(spark.range(100, 101).toArrow()))
    with pytest.raises(ConcurrentAppendException):
        spark.sql(READS[statement].format(t=table_name))


def test_what_a_dataframe_has_read_from_the_log_is_read(spark, path, behind_a_rival):
    spark.range(5).write.format("delta").save(path)
    rows = spark.read.format("delta").load(path).selectExpr("count(*) as id")
    behind_a_rival(lambda: tahoe.Table(path).append(spark.range(100, 101).toArrow()))
    with pytest.raises(ConcurrentAppendException):
        rows.write.format("delta").mode("append").save(path)


READS_OF_SUBQUERIES = {
    "the log": "SELECT max(id) FROM {t}",
    "the log within a subquery": "SELECT max(id) FROM range(50) WHERE id <= (SELECT count(*) FROM {t})",
    "one file because of a limit": "SELECT id FROM {t} ORDER BY p DESC LIMIT 1",
}


@pytest.mark.every_case
@pytest.mark.parametrize("read", READS_OF_SUBQUERIES.values(), ids=READS_OF_SUBQUERIES)
def test_what_a_dynamic_overwrite_has_read_from_the_log_is_read(spark, path, table_name, behind_a_rival, read):
    """Spark has optimised the subqueries of this statement when tahoe meets it. The rival writes to another
    partition.
    """
    spark.range(5).selectExpr("id", "id as p").write.format("delta").partitionBy("p").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    rows = spark.sql(f"SELECT ({read.format(t=table_name)}) + 1 AS id, 1L AS p")
    rival = spark.range(100, 101).selectExpr("id", "id as p").toArrow()
    behind_a_rival(lambda: tahoe.Table(path).append(rival))
    with pytest.raises(ConcurrentAppendException):
        rows.writeTo(table_name).overwritePartitions()


def test_a_write_that_reads_nothing_goes_on_behind_a_rival(spark, path, behind_a_rival):
    # Without it, a test whose rival always wins would prove nothing.
    spark.range(5).write.format("delta").save(path)
    behind_a_rival(lambda: tahoe.Table(path).append(spark.range(100, 101).toArrow()))
    spark.sql(f"INSERT INTO delta.`{path}` SELECT 7L AS id")
    assert spark.read.format("delta").load(path).count() == 7
