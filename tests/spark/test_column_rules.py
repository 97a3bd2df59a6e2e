"""Rules on rows through Spark, on every way to write: generated, default and identity columns, and what breaks a
rule.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField

import tahoe
from tahoe import DeltaTable
from tahoe.errors import (
    AggregateInGeneratedColumnError,
    CheckConstraintViolatedError,
    ColumnDefaultsNotEnabledError,
    FunctionInGeneratedColumnError,
    GeneratedColumnExpressionError,
    GeneratedColumnExpressionTypeError,
    GeneratedColumnReferenceError,
    GeneratedColumnTypeError,
    GeneratedValueMismatchError,
    IdentityColumnTypeError,
    IdentityOverflowError,
    IdentityValueGivenError,
    InvalidIdentityColumnError,
    MetadataChangedException,
    NonDeterministicGeneratedColumnError,
    NotNullViolationError,
    PartitionedByIdentityError,
    SchemaMismatchError,
)
from tahoe.protocol.changes.column_values import LONG_MAX, Identity, identity_columns
from tahoe.spark.api.table_builder import IdentityGenerator
from tahoe.spark.jvm.types import delta_schema
from tahoe.spark.writing.column_rules import complete
from tahoe.spark.writing.data_writer import rows_for_files
from tahoe.spark.writing.store_assignment import Refusals
from tahoe.table.verify.check import check_version
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WriteRequest

DEFAULTS_ALLOWED = "tblproperties ('delta.feature.allowColumnDefaults' = 'supported')"


def append(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("append").options(**options).save(path)


def rows(spark: SparkSession, path: str, *columns: str) -> list[tuple[Any, ...]]:
    assert list(check_version(tahoe.Table(path).snapshot())) == []
    return sorted(map(tuple, spark.read.format("delta").load(path).select(*(columns or ("*",))).collect()), key=repr)


def builder(spark: SparkSession, path: str) -> Any:
    return DeltaTable.create(spark).location(path)


# --- generated columns


@pytest.fixture
def generated(spark: SparkSession, path: str) -> str:
    """A table of which the day is computed, and is what it is partitioned by, and a number that may not be null."""
    new = builder(spark, path).addColumn("id", "long").addColumn("at", "timestamp")
    new = new.addColumn("day", "date", generatedAlwaysAs="CAST(at AS DATE)")
    new.addColumn("twice", "long", nullable=False, generatedAlwaysAs="id * 2").partitionedBy("day").execute()
    return path


def test_missing_columns_are_computed_however_rows_are_written(
    spark: SparkSession, generated: str, table_name: str
) -> None:
    spark.sql(f"create table {table_name} using delta location '{generated}'")
    given = spark.sql("select 1L as id, timestamp'2024-01-01 10:00:00' as at")
    append(given, generated)
    append(given.select("at", "id"), generated)
    given.writeTo(table_name).append()
    given.write.insertInto(table_name)
    given.write.format("delta").mode("append").saveAsTable(table_name)
    spark.sql(f"insert into {table_name} (at, id) values (timestamp'2024-01-01 10:00:00', 1)")
    spark.sql(f"insert into {table_name} values (1, timestamp'2024-01-01 10:00:00')")
    spark.sql(f"insert into {table_name} by name select 1 as id, timestamp'2024-01-01 10:00:00' as at")
    found = spark.read.format("delta").load(generated).groupBy("id", "day", "twice").count().collect()
    assert [(row.id, str(row.day), row.twice, row["count"]) for row in found] == [(1, "2024-01-01", 2, 8)]
    assert {add.partition_values["day"] for add in tahoe.Table(generated).snapshot().live.adds()} == {"2024-01-01"}


def test_overwrites_compute_as_appends_do(spark: SparkSession, generated: str) -> None:
    two_days = spark.sql("select id, timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, id) as at from range(2)")
    append(two_days, generated)
    again = two_days.where("id = 1").selectExpr("id + 10 as id", "at")
    again.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(generated)
    assert [row[0] for row in rows(spark, generated, "id")] == [0, 11]
    again.write.format("delta").mode("overwrite").option("replaceWhere", "day = '2024-01-02'").save(generated)
    assert rows(spark, generated, "id", "twice") == [(0, 0), (11, 22)]
    with pytest.raises(tahoe.errors.ReplaceWhereMismatchError, match="2024-01-02"):
        again.write.format("delta").mode("overwrite").option("replaceWhere", "day = '2024-01-01'").save(generated)
    again.write.format("delta").mode("overwrite").save(generated)
    assert rows(spark, generated, "id", "twice") == [(11, 22)]


def test_given_values_are_checked_and_shown(spark: SparkSession, generated: str) -> None:
    fits = "timestamp'2024-01-01 10:00:00' as at, date'2024-01-01' as day"
    append(spark.sql(f"select 1L as id, 2L as twice, {fits}"), generated)
    append(
        spark.sql("select 2L as id, 4L as twice, cast(null as timestamp) as at, cast(null as date) as day"), generated
    )
    with pytest.raises(GeneratedValueMismatchError, match=r'column twice .* id \* 2.*\{"id":1,"twice":3\}') as raised:
        append(spark.sql(f"select 1L as id, 3L as twice, {fits}"), generated)
    assert isinstance(raised.value, tahoe.errors.DeltaAnalysisError)
    with pytest.raises(GeneratedValueMismatchError, match='"day":null'):
        append(spark.sql(f"select 1L as id, {fits}").drop("day").withColumn("day", F.lit(None).cast("date")), generated)
    assert len(rows(spark, generated)) == 2


def test_a_computed_null_is_a_null(spark: SparkSession, generated: str) -> None:
    with pytest.raises(NotNullViolationError, match="Column twice"):
        append(spark.sql("select cast(null as long) as id"), generated)


def test_expressions_see_rows_as_they_are_stored(spark: SparkSession, path: str) -> None:
    # the text is cut to its length first
    new = builder(spark, path).addColumn("a b", "varchar(2)").addColumn("n", "int").addColumn("d", "int", nullable=True)
    new = new.addColumn("g", "string", generatedAlwaysAs="concat(`A B`, '|', n + 1)").property(
        "delta.columnMapping.mode", "name"
    )
    new.execute()
    append(spark.sql("select 'xy   ' as `a b`, 6 as n"), path)
    assert rows(spark, path) == [("xy", 6, None, "xy|7")]


def test_fields_of_structs_may_be_named(spark: SparkSession, path: str) -> None:
    new = builder(spark, path).addColumn("s", "struct<a: int, b: array<int>>")
    new.addColumn("g", "int", generatedAlwaysAs="s.a + s.b[0]").execute()
    append(spark.sql("select named_struct('a', 1, 'b', array(2)) as s"), path)
    assert rows(spark, path, "g") == [(3,)]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("nothing + 1", GeneratedColumnReferenceError),
        ("g + 1", GeneratedColumnReferenceError),
        ("other + 1", GeneratedColumnReferenceError),
        ("sum(id)", AggregateInGeneratedColumnError),
        ("row_number() over (order by id)", AggregateInGeneratedColumnError),
        ("twice_of(id)", FunctionInGeneratedColumnError),
        ("rand()", NonDeterministicGeneratedColumnError),
        ("monotonically_increasing_id()", NonDeterministicGeneratedColumnError),
        ("unix_millis(current_timestamp())", NonDeterministicGeneratedColumnError),
        ("(select max(1))", GeneratedColumnExpressionError),
        ("explode(array(1L))", GeneratedColumnExpressionError),
        ("id +", GeneratedColumnExpressionError),
        ("*", GeneratedColumnExpressionError),
        ("", GeneratedColumnExpressionError),
        ("cast(id as int)", GeneratedColumnExpressionTypeError),
    ],
)
def test_expressions_that_cannot_be(spark: SparkSession, path: str, expression: str, error: type[Exception]) -> None:
    spark.udf.register("twice_of", lambda x: x, "long")
    new = builder(spark, path).addColumn("id", "long").addColumn("other", "long", generatedAlwaysAs="id + 1")
    with pytest.raises(error, match="column g "):
        new.addColumn("g", "long", generatedAlwaysAs=expression).execute()
    assert not DeltaTable.isDeltaTable(spark, path)


def test_a_variant_cannot_be_generated(spark: SparkSession, path: str) -> None:
    with pytest.raises(GeneratedColumnTypeError, match="variant"):
        builder(spark, path).addColumn("a", "string").addColumn(
            "v", "variant", generatedAlwaysAs="parse_json(a)"
        ).execute()


def test_in_sql(spark: SparkSession, path: str, table_name: str) -> None:
    for name in (table_name, f"delta.`{path}`"):
        spark.sql(
            f"create table {name} (id long, g long generated always as (id + 1), d int) using delta partitioned by (d)"
        )
        spark.sql(f"insert into {name} (id, d) values (1, 0)")
        assert [tuple(row) for row in spark.sql(f"select * from {name}").collect()] == [(1, 2, 0)]
        spark.sql(
            f"create or replace table {name} (i long generated by default as identity (start with 5 increment by "
            f"2), x int) using delta"
        )
        spark.sql(f"insert into {name} (x) values (0)")
        spark.sql(f"insert into {name} (x, i) values (1, 100)")
        spark.sql(f"insert into {name} values (200, 2)")
        spark.sql(f"insert into {name} (x) values (3)")
        assert [row.i for row in spark.sql(f"select * from {name} order by x").collect()] == [5, 100, 200, 7]
    with pytest.raises(Exception, match="generated columns"):
        spark.sql(f"create table {table_name}_x (id long, g long generated always as (id + 1)) using parquet")


# --- defaults


@pytest.fixture
def defaulted(spark: SparkSession, table_name: str) -> str:
    columns = (
        "id long, name string default 'nobody', n int not null default 1 + 1, at timestamp default current_timestamp()"
    )
    spark.sql(f"create table {table_name} ({columns}) using delta {DEFAULTS_ALLOWED}")
    return table_name


def test_missing_columns_take_their_defaults_however_rows_are_written(spark: SparkSession, defaulted: str) -> None:
    given = spark.range(1)
    location = DeltaTable.forName(spark, defaulted).detail().collect()[0].location
    append(given, location)
    given.writeTo(defaulted).append()
    given.write.insertInto(defaulted)
    given.write.format("delta").mode("append").saveAsTable(defaulted)
    spark.sql(f"insert into {defaulted} (id) values (0)")
    spark.sql(f"insert into {defaulted} values (0)")
    spark.sql(f"insert into {defaulted} values (0, default, default, default)")
    spark.sql(f"insert into {defaulted} (n, name, id) values (default, default, 0)")
    spark.sql(f"insert into {defaulted} select 0")
    spark.sql(f"insert into {defaulted} by name select 0 as id")
    spark.sql(f"insert into delta.`{location}` (id) values (0)")
    found = (
        spark.table(defaulted)
        .groupBy("id", "name", "n", F.expr("at > current_timestamp() - interval 1 hour").alias("now"))
        .count()
    )
    assert [tuple(row) for row in found.collect()] == [(0, "nobody", 2, True, 11)]
    spark.sql(f"insert overwrite {defaulted} (id) values (7)")
    assert [tuple(row) for row in spark.table(defaulted).select("id", "name", "n").collect()] == [(7, "nobody", 2)]


def test_nulls_that_are_given_stay_or_are_refused(spark: SparkSession, defaulted: str) -> None:
    spark.sql(f"insert into {defaulted} (id, name) values (1, null)")
    assert spark.table(defaulted).collect()[0].name is None
    with pytest.raises(NotNullViolationError, match="Column n "):
        spark.sql(f"insert into {defaulted} (id, n) values (1, null)")


def test_defaults_must_be_asked_for(spark: SparkSession, path: str) -> None:
    with pytest.raises(ColumnDefaultsNotEnabledError, match="allowColumnDefaults"):
        spark.sql(f"create table delta.`{path}` (id long default 1, x int) using delta")
    spark.sql(f"create table delta.`{path}` (id long default 1, x int) using delta {DEFAULTS_ALLOWED}")
    (field,) = [f for f in tahoe.Table(path).schema if f.metadata]
    assert field.metadata == {"CURRENT_DEFAULT": "1"}, "rows from before a column are null"


def test_defaults_and_numbers_may_be_computed_with(spark: SparkSession, path: str) -> None:
    columns = "i long generated always as identity, d int default 5, g long generated always as (i * d)"
    spark.sql(f"create table delta.`{path}` ({columns}, x int) using delta {DEFAULTS_ALLOWED}")
    spark.sql(f"insert into delta.`{path}` (x) values (0)")
    assert rows(spark, path) == [(1, 5, 5, 0)]


# --- identity columns


def counted(path: str, name: str = "i") -> Identity:
    return dict(identity_columns(tahoe.Table(path).schema))[name]


def make_counted(spark: SparkSession, path: str, start: int = 1, step: int = 1, *, explicit: bool = False) -> str:
    numbers = IdentityGenerator(start, step)
    given: Any = {"generatedByDefaultAs": numbers} if explicit else {"generatedAlwaysAs": numbers}
    builder(spark, path).addColumn("i", "long", **given).addColumn("x", "long").execute()
    return path


@pytest.mark.parametrize("step", [1, -3])
def test_numbers_are_unique_whatever_the_parallelism(spark: SparkSession, path: str, step: int) -> None:
    make_counted(spark, path, 10, step)
    frames = [
        spark.range(0, 100, 1, 7).selectExpr("id as x"),
        spark.range(0, 100, 1, 3).selectExpr("id as x").repartition(5),
        spark.range(0, 100, 1, 3).groupBy(F.expr("id % 50 as x")).count().select("x"),
        spark.range(0, 100, 1, 2).selectExpr("id as x").union(spark.range(10).selectExpr("id as x")).coalesce(1),
        spark.range(10).selectExpr("id as x").orderBy("x").limit(3),
    ]
    for frame in frames:
        before = counted(path).high_water_mark
        append(frame, path)
        mark = counted(path).high_water_mark
        assert mark is not None
        new = [
            row.i
            for row in spark.read.format("delta").load(path).collect()
            if before is None or (row.i - before) * step > 0
        ]
        assert len(new) == frame.count()
        assert mark == (max(new) if step > 0 else min(new))
    found = [i for (i,) in rows(spark, path, "i")]
    assert len(set(found)) == len(found) == 100 + 100 + 50 + 110 + 3
    assert all((i - 10) % step == 0 and (i - 10) * step >= 0 for i in found)
    assert max(abs(i - 10) for i in found) < 4 * abs(step) * len(found), (
        "the gaps are as large as partitions are uneven"
    )


def test_a_few_rows_have_the_first_numbers(spark: SparkSession, path: str) -> None:
    make_counted(spark, path, 100, 10)
    append(spark.range(0, 3, 1, 1).selectExpr("id as x"), path)
    append(spark.range(3, 5, 1, 1).selectExpr("id as x"), path)
    assert rows(spark, path) == [(100, 0), (110, 1), (120, 2), (130, 3), (140, 4)]
    assert '"delta.identity.highWaterMark":140' in tahoe.Table(path).snapshot().metadata.schema_string


def test_numbers_of_partitions_and_of_mapped_columns(spark: SparkSession, path: str) -> None:
    new = (
        builder(spark, path)
        .addColumn("my i", "long", generatedAlwaysAs=IdentityGenerator())
        .addColumn("p", "int")
        .addColumn("x", "int")
    )
    new.partitionedBy("p").property("delta.columnMapping.mode", "name").property(
        "delta.dataSkippingNumIndexedCols", "0"
    ).execute()
    append(spark.range(0, 20, 1, 4).selectExpr("cast(id % 3 as int) as p", "cast(id as int) as x"), path)
    assert {i for (i,) in rows(spark, path, "`my i`")} == set(range(1, 21))
    assert counted(path, "my i").high_water_mark == 20


def test_numbers_are_given_to_no_rows(spark: SparkSession, path: str) -> None:
    make_counted(spark, path)
    append(spark.range(0).selectExpr("id as x"), path)
    assert counted(path).high_water_mark is None


def test_numbers_go_on_after_an_overwrite(spark: SparkSession, path: str) -> None:
    make_counted(spark, path)
    append(spark.range(3).coalesce(1).selectExpr("id as x"), path)
    spark.range(2).coalesce(1).selectExpr("id as x").write.format("delta").mode("overwrite").save(path)
    assert rows(spark, path) == [(4, 0), (5, 1)]


def test_given_numbers(spark: SparkSession, path: str, tmp_path: Any) -> None:
    make_counted(spark, path)
    with pytest.raises(IdentityValueGivenError, match="column i"):
        append(spark.range(3).selectExpr("id as x", "id as I"), path)
    other = make_counted(spark, str(tmp_path / "other"), explicit=True)
    append(spark.sql("select 50L as i, 0L as x"), other)
    assert counted(other).high_water_mark is None
    append(spark.sql("select 1L as x"), other)
    assert rows(spark, other) == [(1, 1), (50, 0)]


def test_columns_that_cannot_be_counted(spark: SparkSession, path: str) -> None:
    with pytest.raises(IdentityColumnTypeError, match="integer"):
        builder(spark, path).addColumn("i", "int", generatedAlwaysAs=IdentityGenerator()).addColumn(
            "x", "int"
        ).execute()
    with pytest.raises(PartitionedByIdentityError):
        new = builder(spark, path).addColumn("i", "long", generatedAlwaysAs=IdentityGenerator()).addColumn("x", "int")
        new.partitionedBy("i").execute()
    half = StructField("i", LongType(), True, {"delta.identity.start": 1})
    with pytest.raises(InvalidIdentityColumnError, match=r"delta\.identity\.step"):
        builder(spark, path).addColumns([half]).addColumn("x", "int").execute()
    assert not DeltaTable.isDeltaTable(spark, path)


def test_no_numbers_are_left(spark: SparkSession, path: str) -> None:
    # whatever the session does about overflows
    make_counted(spark, path, LONG_MAX - 2)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(IdentityOverflowError, match="column i"):
            append(spark.range(0, 4, 1, 1).selectExpr("id as x"), path)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    append(spark.range(0, 3, 1, 1).selectExpr("id as x"), path)
    with pytest.raises(IdentityOverflowError, match="column i"):
        append(spark.range(1).selectExpr("id as x"), path)


def test_of_two_writers_that_count_one_fails_and_the_other_goes_on(spark: SparkSession, path: str) -> None:
    make_counted(spark, path, explicit=True)
    commit, other = WritePlan.commit, spark.range(0, 2, 1, 1).selectExpr("id as x")

    def late_commit(self: Any, *args: Any) -> int:
        patch.undo()
        append(other, path)
        return commit(self, *args)

    for frame, fails in ((other, True), (other.selectExpr("x + 100 as i", "x"), False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WritePlan, "commit", late_commit)
            if fails:
                with pytest.raises(MetadataChangedException, match="identity column i"):
                    append(frame, path)
            else:
                append(frame, path)
    assert [i for (i,) in rows(spark, path, "i")] == [1, 100, 101, 2, 3, 4]


def test_threads_that_count_never_give_a_number_twice(spark: SparkSession, path: str) -> None:
    make_counted(spark, path)
    done = []

    def write_until_it_is_done(number: int) -> None:
        for _ in range(20):
            try:
                append(spark.range(0, 5, 1, 2).selectExpr(f"{number}L as x"), path)
                done.append(number)
                return
            except MetadataChangedException:
                continue

    threads = [threading.Thread(target=write_until_it_is_done, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [i for (i,) in rows(spark, path, "i")]
    assert len(done) == 4
    assert len(set(found)) == len(found) == 20


def test_a_failure_before_the_last_stage_is_told_as_any_other(spark: SparkSession, path: str) -> None:
    # to count partitions, a part of the query runs before the files are written
    make_counted(spark, path)
    frame = (
        spark.range(10)
        .selectExpr("id as x", "id % 3 as k")
        .withColumn("x", F.expr("if(x > 5, raise_error('not so'), x)"))
    )
    with pytest.raises(SparkRuntimeException, match="not so"):
        append(frame.groupBy("k").agg(F.sum("x").alias("x")).select("x"), path)
    assert rows(spark, path) == []


# --- rows of which some were there before


def test_rows_that_are_changed_keep_what_they_have(spark: SparkSession, path: str) -> None:
    """What UPDATE needs: numbers stay, and what is made of a column that changed is made again."""
    columns = "i long generated always as identity, d int default 5, g long generated always as (x + 1)"
    spark.sql(
        f"create table delta.`{path}` ({columns}, x int) using delta {DEFAULTS_ALLOWED}".replace(
            "(x + 1)", "(cast(x + 1 as long))"
        )
    )
    table = tahoe.Table(path)
    found = spark.sql("select 40L as i, cast(null as int) as d, 0L as g, 7 as x, 'kept' as k")
    plan = plan_write(table, WriteRequest(mode="append", schema=table.schema))
    assert plan is not None
    done = rows_for_files(plan, found, Refusals(table.url), given=dict.fromkeys(["i", "d", "x"]), keep=["k"])
    assert done.minted == ()
    assert done.frame.columns == ["i", "d", "g", "x", "k"]
    assert [tuple(row) for row in done.frame.collect()] == [(40, None, 8, 7, "kept")]


def test_rows_of_both_kinds_at_once(spark: SparkSession, path: str) -> None:
    """What MERGE needs: rows that are changed and rows that are new, told apart by a condition."""
    columns = (
        "i long generated always as identity, d int default 5, g long generated always as (cast(x + 1 as long)), x "
        "int, y int"
    )
    spark.sql(f"create table delta.`{path}` ({columns}) using delta {DEFAULTS_ALLOWED}")
    table = tahoe.Table(path)
    values = "(40L, 1, 9L, 8, 3, false), (null, null, null, 10, null, true), (null, 2, null, 11, 4, true)"
    found = spark.sql(f"select * from values {values} as t(i, d, g, x, y, new)").coalesce(1)
    plan = plan_write(table, WriteRequest(mode="append", schema=table.schema))
    assert plan is not None
    old = ~F.col("new")
    done = rows_for_files(plan, found, Refusals(table.url), given={"i": old, "d": old, "g": old, "x": None, "y": old})
    assert done.minted == ("i",)
    assert sorted(map(tuple, done.frame.collect())) == [(2, 5, 11, 10, None), (3, 5, 12, 11, None), (40, 1, 9, 8, 3)]
    has_number = F.col("i").isNotNull()  # which is so of all rows, once they are counted
    by_value = {"i": has_number, "d": has_number, "g": F.col("g") > 0, "x": None, "y": None}
    by_values = rows_for_files(plan, found, Refusals(table.url), given=by_value)
    assert sorted(map(tuple, by_values.frame.collect())) == [(2, 5, 11, 10, None), (3, 5, 12, 11, 4), (40, 1, 9, 8, 3)]
    wrong = found.withColumn("g", F.lit(1).cast("long"))
    refusals = Refusals(table.url)
    done = rows_for_files(plan, wrong, refusals, given={"i": old, "d": old, "g": old, "x": None, "y": old})
    with pytest.raises(Exception, match="generated column g") as raised:
        done.frame.collect()
    assert isinstance(refusals.recognise(str(raised.value)), GeneratedValueMismatchError)


def test_without_rules_nothing_is_done(spark: SparkSession, path: str) -> None:
    append(spark.range(1), path)
    values = plan_write(tahoe.Table(path), WriteRequest(mode="append", schema=tahoe.Table(path).schema)).column_values  # type: ignore[union-attr]
    frame = spark.range(1)
    assert complete(frame, delta_schema(frame.schema, table="t"), values, {"id": None}, Refusals("t")).frame is frame


# --- nulls inside, and other rules together


def test_nulls_inside_structs_arrays_and_maps_are_refused_and_named(spark: SparkSession, path: str) -> None:
    columns = (
        "s struct<a: int not null, b: struct<c: int not null>>, l array<struct<a: int not null>>, m map<string, "
        "struct<v: int not null>>"
    )
    spark.sql(f"create table delta.`{path}` (x int, {columns}) using delta")
    fine = {
        "s": "named_struct('a', 1, 'b', named_struct('c', 1))",
        "l": "array(named_struct('a', 1), null)",
        "m": "map('k', named_struct('v', 1), 'n', null)",
    }
    wrong = {
        "s.a": ("s", "named_struct('a', cast(null as int), 'b', null)"),
        "s.b.c": ("s", "named_struct('a', 1, 'b', named_struct('c', cast(null as int)))"),
        "l.element.a": ("l", "array(named_struct('a', 1), named_struct('a', cast(null as int)))"),
        "m.value.v": ("m", "map('k', named_struct('v', cast(null as int)))"),
    }

    def select(values: dict[str, str]) -> DataFrame:
        return spark.sql("select 1 as x, " + ", ".join(f"{text} as {name}" for name, text in values.items()))

    append(select(fine), path)
    append(spark.sql("select 2 as x"), path)
    append(select({**fine, "s": "named_struct('a', 1, 'b', null)"}), path)
    for place, (name, text) in wrong.items():
        with pytest.raises(NotNullViolationError, match=rf"Column {place} "):
            append(select({**fine, name: text}), path)
    for place, (name, text) in {
        "l.element.a": ("l", "array(named_struct('z', 1))"),
        "s.a": ("s", "named_struct('b', null)"),
    }.items():
        with pytest.raises(SchemaMismatchError, match=place):
            append(select({**fine, name: text}), path, mergeSchema=True)
    assert len(rows(spark, path)) == 3


def test_constraints_see_what_was_computed(spark: SparkSession, path: str) -> None:
    new = builder(spark, path).addColumn("a", "long").addColumn("g", "long", generatedAlwaysAs="a * 2")
    new.execute()
    with tahoe.Table(path).transaction() as changes:
        changes.add_constraint("small", "g < 10")
    append(spark.range(2).selectExpr("id as a"), path)
    with pytest.raises(CheckConstraintViolatedError, match=r'small .*\{"g":12\}'):
        append(spark.range(6, 7).selectExpr("id as a"), path)
