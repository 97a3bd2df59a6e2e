"""A session with Comet: queries have the rows of Spark's own engine, and EXPLAIN says what runs natively and why the rest does not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tahoe.errors import NativeEngineError, TextNotUtf8Error
from tests.spark.foreign import mark

pytestmark = [
    pytest.mark.every_case,
    pytest.mark.skipif(not os.environ.get("TAHOE_NATIVE"), reason="needs Comet, which has no build for the newest Spark: make native"),
]

NAN = float("nan")

# One column of each kind that Spark and Comet read in different ways, or might.
COLUMNS = [
    "id", "id % 3 as p", "id % 2 = 0 as b", "cast(id as byte) as i1", "cast(id as short) as i2", "cast(id as int) as i4",
    "if(id % 7 = 0, null, if(id % 5 = 0, double('NaN'), if(id % 4 = 0, -0.0D, cast(id - 20 as double)))) as f8",
    "if(id % 5 = 1, float('NaN'), if(id % 4 = 1, float(0), cast(id as float))) as f4",
    "cast(id as decimal(9, 2)) as d9", "cast(id as decimal(18, 4)) as d18", "cast(id as decimal(38, 10)) as d38",
    "concat('s', id) as s", "cast(concat('b', id) as binary) as y", "if(id % 3 = 0, '', if(id % 3 = 1, null, 'é🎈')) as u",
    "date_add(date'2024-01-01', cast(id as int)) as day", "timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, id) as ts",
    "timestamp_ntz'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) as tn",
    "named_struct('x', id, 'z', named_struct('w', concat('w', id % 4), 'f', if(id % 5 = 0, double('NaN'), cast(id as double)))) as a",
    "array(id, null, id + 1) as l", "map('k', id, 'm', null) as m", "array(named_struct('e', id)) as ls",
]  # fmt: skip

CONDITIONS = [
    *(f"f8 {operator} {value}" for operator in ("=", "<=>", "<=", ">", ">=", "<>") for value in ("10", "-0.0D", "double('NaN')")),
    "not f8 > 10", "not (f8 < 10 or f8 is null)", "f8 between 3 and double('NaN')", "f8 in (0.0D, double('NaN'), 3)", "f8 not in (0.0D, 3)",
    "f4 > 10", "f4 = float('NaN')", "f4 >= 0 and f4 < 5", "f4 in (0, 5)", "f8 + 1 > 11", "-f8 < -10", "f8 > f4", "abs(f8) >= 25",
    "a.z.f > 10", "a.z.f = double('NaN')", "a.z.w = 'w1'", "a.x > 30 or f8 > 30", "f8 > (select max(f8) - 1 from t where f8 < 12)",
    "p = 1 and f8 > 3", "p in (0, 2) and s like 's1%'", "d38 > 30.5 and i2 < 35", "u = ''", "u is null", "y = cast('b7' as binary)",
    "day > date'2024-01-20'", "ts >= timestamp'2024-01-25 12:00:00'", "tn < timestamp_ntz'2024-01-01 09:00:00'",
    "id in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
    "id in (select x.id + 1 from t x where x.f8 > 10)", "exists (select 1 from t x where x.f8 = t.f8 and x.id <> t.id)",
]  # fmt: skip

QUERIES = [
    "select * from t",
    *(f"select id from t where {condition}" for condition in CONDITIONS),
    "select p, count(*), sum(d9), sum(d38), min(f8), max(f8), min(f4), max(s), count(distinct u) from t group by p",
    "select f8, count(*) from t group by f8",
    "select max(f8), min(f8), max(f4), max(day), min(ts) from t",
    "select x.id, y.id from t x join t y on x.f8 = y.f8 where x.id < y.id",
    "select id, f8 from t order by f8 desc, id limit 7",
    "select id, row_number() over (partition by p order by f8, id) from t",
    "select _metadata.file_name, _metadata.file_path, count(*) from t group by all",
    "select id, _metadata.row_index from t where id % 10 = 3",
    "select id, input_file_name() from t where id < 5",
    "select id, explode(l) from t where id < 9",
    "select ls[0].e, m['k'], a.z from t where id > 30",
    "select count(*) from t",
    "select 1 from t where id < 3",
    "select p from t where p > 0",
]


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def of_table(query: str) -> str:
    """A query of `t`, as one of the table: other suites have views of that name."""
    return re.sub(r"\b(from|join) t\b", r"\1 natives t", re.sub(r"\b(from|join) t (?=[xy]\b)", r"\1 natives ", query))


def as_spark(spark: SparkSession, query: str) -> list[str]:
    """The rows of Spark's own engine."""
    spark.conf.set("spark.comet.enabled", "false")
    try:
        return rows(spark.sql(query))
    finally:
        spark.conf.set("spark.comet.enabled", "true")


def explained(frame: DataFrame) -> str:
    return str(frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))


LAYOUTS = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "mapped": {"delta.columnMapping.mode": "name"},
    "mapped by id": {"delta.columnMapping.mode": "id"},
    "row ids": {"delta.enableRowTracking": "true"},
}


@pytest.fixture(params=LAYOUTS)
def table(spark: SparkSession, path: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Forty rows in several files, as table `natives`; one layout has vectors on some of the files."""
    made = spark.range(0, 40, 1, 4).selectExpr(*COLUMNS)
    made.write.format("delta").partitionBy("p").options(**LAYOUTS[request.param]).save(path)
    if request.param == "vectors":
        mark(path, {0: [0], 2: [1, 2]})
    spark.sql(f"CREATE TABLE natives USING delta LOCATION '{path}'")
    yield request.param
    spark.sql("DROP TABLE natives")


def test_every_query_has_the_rows_of_sparks_own_engine(spark: SparkSession, table: str) -> None:
    queries = QUERIES if table in ("plain", "vectors") else QUERIES[::9]
    differing = [query for query in map(of_table, queries) if rows(spark.sql(query)) != as_spark(spark, query)]
    assert not differing


def test_plans_run_natively_and_explain_says_why_others_do_not(spark: SparkSession, table: str) -> None:
    text = explained(spark.sql(of_table("select sum(d9) from t where id > 3")))
    reasons = {"vectors": "row index is needed", "mapped": "columns have other names", "mapped by id": "columns have other names"}
    assert ("CometNativeScan" in text) == (table not in ("mapped", "mapped by id"))
    assert reasons.get(table, "") in text
    assert text.count("CometHashAggregate") >= 2, "aggregates above a scan of Spark's run natively, too"


def test_rows_with_nan_are_not_skipped_by_bounds_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Writers leave NaN out of the bounds of a row group, by which the native reader would skip it."""
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "f": [1.0, 5.0, NAN], "s": [{"g": NAN}, {"g": 1.0}, None]}), folder / "a.parquet")
    pq.write_table(pa.table({"id": [4], "f": [-0.0], "s": [{"g": -0.0}]}), folder / "b.parquet")
    pq.write_table(pa.table({"id": [5], "f": [0.0], "s": [{"g": 0.0}]}), folder / "c.parquet")
    spark.sql(f"CONVERT TO DELTA parquet.`{folder}`")
    spark.read.format("delta").load(str(folder)).createOrReplaceTempView("nans")
    for column in ("f", "s.g"):
        for operator in (">", ">=", "=", "<=>", "<>", "<", "<="):
            for value in ("10", "double('NaN')", "0.0D", "-0.0D", "(select 10.0D)"):
                query = f"select id from nans where {column} {operator} {value}"
                assert "CometNativeScan" in explained(spark.sql(query))
                assert rows(spark.sql(query)) == as_spark(spark, query), query
    assert rows(spark.sql("select id from nans where f > 10")) == ["Row(id=3)"]


def test_files_with_early_dates_are_read_by_spark(spark: SparkSession, path: str) -> None:
    """Comet reads those of the hybrid calendar wrongly, and nothing but a file's footer tells which calendar it has."""
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        spark.sql("select 1 as id, date'1500-01-01' as d, timestamp'1850-01-01' as t").write.format("delta").save(path)
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    spark.sql("select 2 as id, date'2024-01-01' as d, timestamp'2024-01-01' as t").write.format("delta").mode("append").save(path)
    spark.read.format("delta").load(path).createOrReplaceTempView("early")
    for query in ("select string(d), string(t) from early", "select id from early where d < date'1600-01-01'"):
        assert rows(spark.sql(query)) == as_spark(spark, query)
    assert "hybrid calendar" in explained(spark.sql("select d from early"))
    assert "CometNativeScan" in explained(spark.sql("select d from early where id = 2"))


def test_a_session_without_comets_settings_reads_as_before(spark: SparkSession, path: str) -> None:
    spark.range(10).write.format("delta").save(path)
    spark.conf.set("spark.comet.enabled", "false")
    try:
        assert "CometNativeScan" not in explained(spark.read.format("delta").load(path).where("id > 3"))
    finally:
        spark.conf.set("spark.comet.enabled", "true")


def test_names_that_are_odd_in_urls(spark: SparkSession, path: str) -> None:
    for value in ("a b", "50%", "ü", "x=y", "q?", "#", "%25"):
        spark.sql(f"select 1 as id, '{value}' as p").write.format("delta").partitionBy("p").mode("append").save(path)
    query = f"select id, p, _metadata.file_path from delta.`{path}`"
    assert "CometNativeScan" in explained(spark.sql(query))
    assert rows(spark.sql(query)) == as_spark(spark, query)


def test_text_that_is_not_utf_8_is_said_to_be_comets_limit(spark: SparkSession, path: str) -> None:
    """Spark writes and reads such text. Where rows are shuffled, Comet does not say which file has it."""
    spark.sql("select 1 as id, cast(X'ff41' as string) as s").write.format("delta").save(path)
    read = f"from delta.`{path}`"
    for error, query in ((TextNotUtf8Error, f"select id, hex(s) {read}"), (NativeEngineError, f"select s, count(*) {read} group by s")):
        with pytest.raises(error, match=r"spark\.comet\.enabled"):
            spark.sql(query).collect()
        assert as_spark(spark, query)
