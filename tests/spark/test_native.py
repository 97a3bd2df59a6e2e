"""A session with Comet: queries have the rows of Spark's own engine, and EXPLAIN says what runs natively and why the
rest does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import NativeEngineError, TextNotUtf8Error
from tahoe.spark.jvm import native_engine
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.reading import deletion_vectors, positions, scan
from tests.spark.foreign import mark
from tests.spark.natively import NEEDS_COMET, as_spark, explained, reads_natively, rows

pytestmark = [pytest.mark.every_case, NEEDS_COMET]

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
    "named_struct('x', " "id, " "'z', " "named_struct('w', " "concat('w', " "id " "% " "4), " "'f', " "if(id " "% " "5 " "= " "0, " "double('NaN'), " "cast(id " "as " "double)))) " "as " "a",
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


def of_table(query: str) -> str:
    """A query of `t`, as one of the table: other suites have views of that name."""
    return re.sub(r"\b(from|join) t\b", r"\1 natives t", re.sub(r"\b(from|join) t (?=[xy]\b)", r"\1 natives ", query))


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
    queries = QUERIES if table in ("plain", "vectors") else QUERIES[::3]
    differing = [query for query in map(of_table, queries) if rows(spark.sql(query)) != as_spark(spark, query)]
    assert not differing


@pytest.mark.usefixtures("table")
def test_plans_run_natively_whatever_the_layout(spark: SparkSession) -> None:
    query = spark.sql(of_table("select sum(d9) from t where id > 3"))
    assert reads_natively(query), "no file is left to Spark's reader, with a vector or without"
    assert explained(query).count("CometHashAggregate") >= 2


AGGREGATIONS = [
    "select p, sum(id), avg(f), min(s), max(f), count(*) from t group by p",
    "select count(distinct id % 7), sum(distinct id), count(f) from t where f > 3",
    "select id % 5 as k, sum(id) filter (where id > 10) as n from t group by id % 5 having sum(id) > 40",
    "select distinct p, id % 3 from t",
    "select u, max(id) from (select upper(s) as u, id from t where id <> 12) group by u",
    "select p, sort_array(collect_set(id % 2)) from t group by p",
    "select sum(x.id), count(*) from t x join t y on x.id = y.id + 1",
    "select id, (select sum(f) from t y where y.p = x.p) from t x where id < 5",
    "select p, grouping(p), sum(id) from t group by cube(p)",
]


def test_partial_aggregation_is_done_in_each_branch_of_a_union(spark: SparkSession, path: str) -> None:
    """Comet passes the rows of a branch through the JVM: with vectors on some files, all rows of the table."""
    made = spark.range(0, 60, 1, 3).selectExpr(
        "id", "id % 3 as p", "if(id % 5 = 0, double('NaN'), double(id)) as f", "concat('s', id % 4) as s"
    )
    made.write.format("delta").partitionBy("p").save(path)
    mark(path, {0: [0], 2: [1, 2]})
    spark.read.format("delta").load(path).createOrReplaceTempView("aggregated")
    for query in (re.sub(r"\bt\b", "aggregated", text) for text in AGGREGATIONS):
        assert rows(spark.sql(query)) == as_spark(spark, query), query
    plan = explained(spark.sql("select p, sum(id) from aggregated group by p")).partition("Extended Information")[2]
    assert plan.index("CometUnion") < plan.rindex("CometHashAggregate")
    assert plan.count("CometHashAggregate") == 3


def test_explain_says_why_spark_reads_files(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is above such a scan runs natively: it is an Arrow table to it."""
    made = spark.range(0, 40, 1, 2).selectExpr(
        "id", "named_struct('x', id) as a", "cast(null as void) as v", "id % 2 as p"
    )
    made.write.format("delta").partitionBy("p").option("delta.columnMapping.mode", "name").save(path)
    mark(path, {0: [0]})
    table = f"delta.`{path}`"
    monkeypatch.setattr(scan, "COUNTED_FILES_MAX", 0)
    for query, reason in (
        (f"select sum(id) from {table}", "the row index is needed"),
        (f"select max(a.x) from {table}", "fields inside of column a have other names"),
        (f"select max(id) from {table} where v is null", "column v has the type void"),
    ):
        text = explained(spark.sql(query))
        assert reason in text, query
        assert text.count("CometHashAggregate") >= 2
        assert rows(spark.sql(query)) == as_spark(spark, query)


def test_rows_with_nan_are_not_skipped_by_bounds_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Writers leave NaN out of the bounds of a row group, by which the native reader would skip it."""
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(
        pa.table({"id": [1, 2, 3], "f": [1.0, 5.0, NAN], "s": [{"g": NAN}, {"g": 1.0}, None]}), folder / "a.parquet"
    )
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
    spark.sql("select 2 as id, date'2024-01-01' as d, timestamp'2024-01-01' as t").write.format("delta").mode(
        "append"
    ).save(path)
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


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.parquet.enableVectorizedReader", "false"),
        ("spark.comet.scan.enabled", "false"),
        ("spark.comet.enabled", "true"),
    ],
)
def test_what_comet_leaves_to_sparks_reader_finds_both_zeros_and_nan(
    spark: SparkSession, path: str, setting: str, value: str
) -> None:
    """The scan has Spark's own format by then, whose filters would skip files: fields of structs lost such rows."""
    for number, values in enumerate(([-0.0, 5.0, -7.0], [0.0, 5.0, -7.0], [1.0, math.nan, 2.0], [math.nan] * 3)):
        column = pa.array(values)
        inner = pa.StructArray.from_arrays([column], ["d"])
        outer = pa.StructArray.from_arrays([inner], ["st"])
        tahoe.Table(path).append(pa.table({"id": [number] * 3, "d": column, "st": inner, "outer": outer}))
    spark.conf.set(setting, value)
    try:
        found = {}
        for column in ("d", "st.d", "outer.st.d"):
            for condition in (
                "= 0D",
                "= -0D",
                "<=> -0D",
                ">= 0D",
                "<= -0D",
                "IN (0D, 99D)",
                "= double('NaN')",
                "> 10D",
            ):
                query = spark.read.format("delta").load(path).where(f"{column} {condition}")
                found[column, condition] = sorted(row.id for row in query.collect())
            negated = spark.read.format("delta").load(path).where(f"NOT {column} <= 10D")
            found[column, "not"] = sorted(row.id for row in negated.collect())
    finally:
        spark.conf.unset(setting)
    zeros, nans = [0, 1], [2, 3, 3, 3]
    for column in ("d", "st.d", "outer.st.d"):
        assert {key[1]: ids for key, ids in found.items() if key[0] == column} == {
            "= 0D": zeros,
            "= -0D": zeros,
            "<=> -0D": zeros,
            ">= 0D": [0, 0, 1, 1, 2, 2, 2, 3, 3, 3],
            "<= -0D": [0, 0, 1, 1],
            "IN (0D, 99D)": zeros,
            "= double('NaN')": nans,
            "> 10D": nans,
            "not": nans,
        }


def test_dates_that_a_query_does_not_use_do_not_matter(spark: SparkSession, path: str) -> None:
    spark.sql("select 1 as id, date'1500-01-01' as d, array(date'2024-01-01') as l").write.format("delta").save(path)
    table = f"delta.`{path}`"
    assert "CometNativeScan" in explained(spark.sql(f"select id from {table} where id > 0"))
    assert "hybrid calendar" in explained(spark.sql(f"select id from {table} where d > date'1400-01-01'"))
    assert "hybrid calendar" in explained(spark.sql(f"select l from {table}"))


def test_a_collation_is_not_lost_with_another_name_in_the_files(spark: SparkSession, path: str) -> None:
    table, named = f"delta.`{path}`", "tblproperties ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"create table {table} (id bigint, c string collate utf8_lcase) using delta {named}")
    spark.sql(f"insert into {table} select id, if(id % 2 = 0, 'even', 'Odd') from range(10)")
    query = f"select max(id), count(*) from {table} where c = 'EVEN'"
    assert "column c has a collation" in explained(spark.sql(query))
    assert rows(spark.sql(query)) == as_spark(spark, query) == ["Row(max(id)=8, count(1)=5)"]


def test_joins_of_partition_columns_where_the_other_side_counts_rows(spark: SparkSession, path: str) -> None:
    """A plan that counts is not deterministic to Spark: its pruning by such a side reached no scan, and no row could be
    tested by it.
    """
    for start in (0, 60):
        made = spark.range(start, start + 60, 1, 2).selectExpr("id", "id % 9 as f", "int(id % 3) as p")
        made.write.format("delta").mode("append").partitionBy("p").save(path)
    mark(path, {0: [0], 3: [1]})
    query = f"select x.id, y.id from delta.`{path}` x join delta.`{path}` y on x.f = y.f and x.p = y.p where y.id < 40"
    for is_generated in ("true", "false"):
        spark.conf.set("spark.sql.codegen.wholeStage", is_generated)
        try:
            assert rows(spark.sql(query)) == as_spark(spark, query)
            assert "CometBroadcastHashJoin" in explained(spark.sql(query))
        finally:
            spark.conf.unset("spark.sql.codegen.wholeStage")


def test_a_column_with_the_name_that_another_has_in_the_files(spark: SparkSession, path: str) -> None:
    """Filters that reach the files have the names there: taken for the table's, they would skip by the other column's
    statistics.
    """
    table, keys = f"delta.`{path}`", "(select 5 as k union all select 105)"
    spark.range(10).selectExpr("int(id) as a", "id % 2 as p").coalesce(1).write.format("delta").partitionBy("p").save(
        path
    )
    spark.sql(f"alter table {table} set tblproperties ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"alter table {table} rename column a to b")
    spark.sql(f"alter table {table} add columns (a int)")
    spark.sql(f"insert into {table} (b, p, a) select int(id) + 100, id % 2, 1000 from range(10)")
    for query in (
        *(
            f"select a, b, p from {table} where {condition}"
            for condition in ("b = 5", "b > 105", "a = 1000", "a is null", "b < 50 and p = 1")
        ),
        f"select t.a, t.b from {table} t join {keys} on t.b = k",
        f"select a, max(b) from {table} group by a",
    ):
        assert "CometNativeScan" in explained(spark.sql(query))
        assert rows(spark.sql(query)) == as_spark(spark, query), query
    spark.sql(f"alter table {table} rename column p to q")
    spark.sql(f"alter table {table} add columns (p int)")
    assert rows(spark.sql(f"select p, q, b from {table}")) == as_spark(spark, f"select p, q, b from {table}")


def test_positions_of_rows_that_a_command_changes(spark: SparkSession, path: str) -> None:
    """MERGE and UPDATE find rows again by their row index, which a native scan counts."""
    for start in (0, 40):
        made = spark.range(start, start + 40, 1, 1).selectExpr(
            "id", "if(id % 5 = 0, double('NaN'), cast(id as double)) as f"
        )
        made.write.format("delta").mode("append").option("delta.enableDeletionVectors", "true").save(path)
    table = f"delta.`{path}`"
    spark.sql(f"delete from {table} where id in (3, 41)")
    spark.sql(f"update {table} set f = -1 where id % 10 = 4")
    spark.sql(
        f"merge into {table} t using (select id * 3 as id from range(30)) s on t.id = s.id "
        "when matched and t.f > 50 then delete when matched then update set f = 0.5 when not matched then insert "
        "(id) values (s.id)"
    )
    expected = {}
    for n in range(80):
        f = NAN if n % 5 == 0 else float(n)
        if n in (3, 41):
            continue
        expected[n] = -1.0 if n % 10 == 4 else f
    for n in range(0, 90, 3):
        if n not in expected:
            expected[n] = None
        elif expected[n] > 50 or expected[n] != expected[n]:
            del expected[n]
        else:
            expected[n] = 0.5
    found = {row.id: row.f for row in spark.sql(f"select id, f from {table}").collect()}
    assert str(sorted(found.items())) == str(sorted(expected.items()))


def test_many_positions_are_words_of_a_bitmap(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native join copies what it finds, for each row: a whole bitmap costs more than all the rest of a command."""
    monkeypatch.setattr(positions, "_COMPARED_MAX", 0)
    spark.range(0, 140_000, 1, 2).selectExpr("id", "0 as state").write.format("delta").save(path)
    table = f"delta.`{path}`"
    spark.sql(f"delete from {table} where id % 3 = 0 or id between 64000 and 66000")
    spark.sql(f"update {table} set state = 1 where id % 5 = 1")
    found = {row.id: row.state for row in spark.sql(f"select * from {table}").collect()}
    assert found == {n: int(n % 5 == 1) for n in range(140_000) if n % 3 and not 64_000 <= n <= 66_000}
    flagged = positions.with_flags(spark.range(9), positions.Positions({0: BitMap64([2, 7])}, 2), "id", "is_found")
    assert [row.id for row in flagged.where("is_found").collect()] == [2, 7]
    assert "array" not in flagged._jdf.queryExecution().optimizedPlan().collectLeaves().apply(1).schema().simpleString()


def test_more_deleted_rows_than_a_join_has_keys_for(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (0, 100_000):
        frame = (
            spark.range(start, start + 100_000, 1, 1)
            .write.format("delta")
            .option("delta.enableDeletionVectors", "true")
        )
        frame.mode("append").save(path)
    spark.sql(f"delete from delta.`{path}` where id % 7 = 0 or id between 65500 and 65600")
    query = f"select count(*), sum(id), min(id) from (select id from delta.`{path}` where id > 3)"
    expected = as_spark(spark, query)
    for name in ("MARKS_MAX", "ARRAY_BYTES_MAX"):
        monkeypatch.setattr(deletion_vectors, name, 0)
    monkeypatch.setattr(deletion_vectors, "_recent_bitmaps", deletion_vectors.Recent(1))
    assert "CometBroadcastHashJoin" in explained(spark.sql(query))
    assert rows(spark.sql(query)) == expected


def test_a_session_with_too_little_memory_is_sparks_own(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that has Comet by other means than ours would fail in its first aggregation."""
    monkeypatch.setattr(native_engine, "memory_obstacle", lambda _: "too little memory")
    shared = spark._jsparkSession.sharedState().conf()
    try:
        with pytest.warns(UserWarning, match="too little memory"):
            native_engine.prefer_native(Gateway(spark))
        spark.range(3).write.format("delta").save(path)
        query = spark.sql(f"select sum(id) from delta.`{path}` where id > 0")
        assert query.first()[0] == 3
        assert not re.search(r"Comet\w", explained(query)), "no operator is Comet's"
    finally:
        for conf in (spark.conf, shared):
            conf.set("spark.comet.enabled", "true")


def test_names_that_are_odd_in_urls(spark: SparkSession, path: str) -> None:
    for value in ("a b", "50%", "ü", "x=y", "q?", "#", "%25"):
        spark.sql(f"select 1 as id, '{value}' as p").write.format("delta").partitionBy("p").mode("append").save(path)
    query = f"select id, p, _metadata.file_path from delta.`{path}`"
    assert "CometNativeScan" in explained(spark.sql(query))
    assert rows(spark.sql(query)) == as_spark(spark, query)


FUNCTIONS = [
    *(
        f"{name}(x)"
        for name in (
            "sin",
            "cos",
            "tan",
            "cot",
            "sec",
            "csc",
            "atan",
            "tanh",
            "asinh",
            "cbrt",
            "sqrt",
            "degrees",
            "radians",
        )
    ),
    *(f"{name}(u)" for name in ("asin", "acos", "sinh", "cosh", "atanh", "exp", "expm1", "signum")),
    *(
        "acosh(w + 1)",
        "ln(w)",
        "log10(w)",
        "log2(w)",
        "log1p(w)",
        "log(w, w + 2)",
        "pow(w, 10 * u)",
        "atan2(x, u)",
        "hypot(x, u)",
    ),
    *("arrays_overlap(array(x), array(1.0D))", "arrays_overlap(array(x, u), array(double('NaN'), null))"),
]


def test_functions_that_comet_computes_otherwise_are_sparks(spark: SparkSession, path: str) -> None:
    """Comet has another last digit, or fails: with arrays_overlap and a constant array."""
    columns = ("(rand(5) - 0.5) * pow(10, id % 12 - 4) as x", "rand(6) * 2 - 1 as u", "rand(7) * 50 + 0.01 as w")
    spark.range(0, 2000, 1, 2).selectExpr("id", *columns).write.format("delta").save(path)
    query = f"select id, {', '.join(FUNCTIONS)} from delta.`{path}` where id >= 0"
    assert rows(spark.sql(query)) == as_spark(spark, query)
    assert "spark.comet.expression." in explained(spark.sql(query)), (
        "EXPLAIN says which setting lets Comet compute them"
    )


def test_a_failure_of_comets_says_what_to_do(spark: SparkSession, path: str) -> None:
    """It was Spark's: a task has failed four times, with a trace of Comet's library."""
    spark.range(9).write.format("delta").save(path)
    switch = "spark.comet.expression.ArraysOverlap.enabled"
    spark.conf.set(switch, "true")
    try:
        with pytest.raises(NativeEngineError, match=r"spark\.comet\.enabled"):
            spark.sql(f"select arrays_overlap(array(id), array(1L)) from delta.`{path}` where id >= 0").collect()
    finally:
        spark.conf.set(switch, "false")


def test_text_that_is_not_utf_8_is_said_to_be_comets_limit(spark: SparkSession, path: str) -> None:
    """Spark writes and reads such text. Where rows are shuffled, Comet does not say which file has it."""
    spark.sql("select 1 as id, cast(X'ff41' as string) as s").write.format("delta").save(path)
    read = f"from delta.`{path}`"
    for error, query in (
        (TextNotUtf8Error, f"select id, hex(s) {read}"),
        (NativeEngineError, f"select s, count(*) {read} group by s"),
    ):
        with pytest.raises(error, match=r"spark\.comet\.enabled"):
            spark.sql(query).collect()
        assert as_spark(spark, query)
