"""Data whose schema is not the table's: what mergeSchema lets in, at every depth, and how files of both schemas are
read afterwards.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.errors import FieldsNotMergedError, GeneratedColumnTypeMismatchError, SchemaMismatchError
from tahoe.protocol.types.type_widening import TYPE_CHANGES
from tahoe.table.verify.check import check_version

WIDENS = {"delta.enableTypeWidening": "true"}

# The types of the protocol's list, with a value of each that the other does not have.
VALUES: dict[str, tuple[str, Any, str, Any]] = {
    "byte to short": ("-5Y", -5, "300S", 300),
    "byte to int": ("-5Y", -5, "70000", 70000),
    "byte to long": ("-5Y", -5, "5000000000L", 5000000000),
    "byte to double": ("-5Y", -5.0, "0.5D", 0.5),
    "byte to decimal": ("-5Y", Decimal("-5.0"), "cast(0.5 as decimal(12,1))", Decimal("0.5")),
    "short to int": ("-300S", -300, "70000", 70000),
    "short to long": ("-300S", -300, "5000000000L", 5000000000),
    "short to double": ("-300S", -300.0, "0.5D", 0.5),
    "short to decimal": ("-300S", Decimal("-300.0"), "cast(0.5 as decimal(12,1))", Decimal("0.5")),
    "int to long": ("-7", -7, "5000000000L", 5000000000),
    "int to double": ("-7", -7.0, "0.5D", 0.5),
    "int to decimal": ("-7", Decimal("-7.00"), "cast(0.25 as decimal(12,2))", Decimal("0.25")),
    "long to decimal": ("-7L", Decimal("-7.0"), "cast(0.5 as decimal(21,1))", Decimal("0.5")),
    "float to double": ("1.5F", 1.5, "0.1D", 0.1),
    "decimal to more digits": (
        "cast(1.25 as decimal(5,2))",
        Decimal("1.25"),
        "cast(12345678.25 as decimal(12,2))",
        Decimal("12345678.25"),
    ),
    "decimal to more of both": (
        "cast(1.25 as decimal(5,2))",
        Decimal("1.250"),
        "cast(1.125 as decimal(12,3))",
        Decimal("1.125"),
    ),
    "decimal of a long to one of many digits": (
        "cast(1.25 as decimal(12,2))",
        Decimal("1.2500"),
        "cast(1.0625 as decimal(30,4))",
        Decimal("1.0625"),
    ),
    "date to timestamp_ntz": (
        "DATE'2024-02-29'",
        dt.datetime(2024, 2, 29),
        "TIMESTAMP_NTZ'2024-03-01 10:00:00'",
        dt.datetime(2024, 3, 1, 10),
    ),
}


def save(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("append").options(**options).save(path)


def read(spark: SparkSession, path: str) -> DataFrame:
    assert list(check_version(tahoe.Table(path).snapshot())) == []
    return spark.read.format("delta").load(path)


def everywhere(value: str) -> str:
    """A row that has a value in every kind of place; `k` is a key."""
    places = [
        f"{value} as a",
        f"named_struct('x', {value}) as s",
        f"array({value}, null) as l",
        f"map('k', {value}) as v",
    ]
    return ", ".join([*places, f"map({value}, 1) as k", f"array(named_struct('x', {value})) as ls"])


def flat(row: Any) -> list[Any]:
    """The values of those places."""
    (key,) = row["k"].keys() if isinstance(row["k"], dict) else (row["k"][0][0],)
    value = row["v"]["k"] if isinstance(row["v"], dict) else row["v"][0][1]
    assert row["l"][1] is None
    return [row["a"], row["s"]["x"], row["l"][0], value, key, row["ls"][0]["x"]]


@pytest.mark.parametrize("case", VALUES)
def test_types_are_widened_wherever_they_are_and_read_by_all(spark: SparkSession, path: str, case: str) -> None:
    narrow, before, wide, after = VALUES[case]
    save(spark.sql(f"select 1 as id, {everywhere(narrow)}"), path, **WIDENS)
    save(spark.sql(f"select 2 as id, {everywhere(wide)}"), path, mergeSchema=True)
    spark.sql(f"select 3 as id, {everywhere(narrow)}").writeTo(f"delta.`{path}`").append()
    frame = read(spark, path)
    found = frame.orderBy("id").collect()
    arrow = tahoe.Table(path).to_arrow().sort_by("id").to_pylist()
    for row in (found[0], found[2], arrow[0], arrow[2]):
        assert flat(row) == [before] * 6
    for row in (found[1], arrow[1]):
        assert flat(row) == [after] * 6
    # by the statistics of all files, written when the column was narrow and when it was wide
    for value, ids in ((narrow, [1, 3]), (wide, [2])):
        assert sorted(row.id for row in frame.where(f"a = {value}").collect()) == ids
        assert sorted(row.id for row in frame.where(f"s.x = {value}").collect()) == ids
    table = tahoe.Table(path)
    paths = {f.name: [c.get("fieldPath") for c in f.metadata.get(TYPE_CHANGES, [])] for f in table.schema}
    assert paths == {"id": [], "a": [None], "s": [], "l": ["element"], "v": ["value"], "k": ["key"], "ls": []}


@pytest.mark.parametrize("case", ["int to long", "int to decimal", "date to timestamp_ntz", "decimal to more of both"])
def test_partition_columns_are_widened_too(spark: SparkSession, path: str, case: str) -> None:
    narrow, before, wide, after = VALUES[case]
    spark.sql(f"select 1 as id, {narrow} as p").write.format("delta").partitionBy("p").options(**WIDENS).save(path)
    save(spark.sql(f"select 2 as id, {wide} as p"), path, mergeSchema=True)
    frame = read(spark, path)
    assert [tuple(row) for row in frame.orderBy("id").collect()] == [(1, before), (2, after)]
    assert [row["p"] for row in tahoe.Table(path).to_arrow().sort_by("id").to_pylist()] == [before, after]
    assert [row.id for row in frame.where(f"p = {narrow}").collect()] == [1]
    assert [row.id for row in frame.where(f"p = {wide}").collect()] == [2]


def test_nothing_is_widened_unless_both_ask_for_it(spark: SparkSession, path: str, tmp_path: Any) -> None:
    save(spark.sql("select 1 as a"), path, **WIDENS)
    with pytest.raises(
        SchemaMismatchError, match=r"column a is integer, but long in the data.* option mergeSchema=true"
    ):
        save(spark.sql("select 2L as a"), path)
    other = str(tmp_path / "other")
    save(spark.sql("select 1 as a"), other)
    with pytest.raises(FieldsNotMergedError, match="column a is integer, but long in the data"):
        save(spark.sql("select 2L as a"), other, mergeSchema=True)
    assert [str(tahoe.Table(table).schema) for table in (path, other)] == ["struct<a:integer>"] * 2


def test_a_write_by_name_casts_what_it_does_not_widen(spark: SparkSession, path: str) -> None:
    save(spark.sql("select 1 as a"), path)
    spark.sql("select 2.9D as a").writeTo(f"delta.`{path}`").option("mergeSchema", "true").append()
    assert sorted(row.a for row in read(spark, path).collect()) == [1, 2]
    assert str(tahoe.Table(path).schema) == "struct<a:integer>"


def test_columns_that_rules_name_keep_their_types(spark: SparkSession, path: str) -> None:
    columns = "a int, g int generated always as (a + 1), c int, f int, i long generated by default as identity"
    spark.sql(
        f"create table delta.`{path}` ({columns}) using delta tblproperties ('delta.enableTypeWidening' = 'true')"
    )
    with tahoe.Table(path).transaction() as changes:
        changes.add_constraint("small", "c < 100")
    data = spark.sql("select 1L as a, 2L as g, 3L as c, 4L as f, cast(5 as decimal(20,0)) as i")
    with pytest.raises(GeneratedColumnTypeMismatchError, match=r"column a is integer, but long.*g is.*c is.*i is"):
        save(data, path, mergeSchema=True)
    data.writeTo(f"delta.`{path}`").option("mergeSchema", "true").append()
    assert [str(f.type) for f in tahoe.Table(path).schema] == ["integer", "integer", "integer", "long", "long"]
    assert [tuple(row) for row in read(spark, path).collect()] == [(1, 2, 3, 4, 5)]


def test_columns_are_added_inside_everything(spark: SparkSession, path: str) -> None:
    save(
        spark.sql(
            "select 1 as id, named_struct('x', 1) as s, array(named_struct('x', 1)) as l, map('k', "
            "named_struct('x', 1)) as m"
        ),
        path,
    )
    wider = "named_struct('y', 2, 'x', 1, 'z', named_struct('w', 3))"
    data = spark.sql(f"select 2 as id, {wider} as s, array({wider}) as l, map('k', {wider}) as m, 'new' as n")
    with pytest.raises(SchemaMismatchError, match=r"s\.y, s\.z, l\.element\.y, .*m\.value\.z, n"):
        save(data, path)
    save(data, path, mergeSchema=True)
    save(spark.sql("select 3 as id, named_struct('x', 5) as s"), path)
    inner = "x:integer,y:integer,z:struct<w:integer>"
    assert str(tahoe.Table(path).schema) == (
        f"struct<id:integer,s:struct<{inner}>,l:array<struct<{inner}>>,m:map<string,struct<{inner}>>,n:string>"
    )
    found = read(spark, path).orderBy("id").selectExpr("s.y", "l[0].z.w", "m['k'].y as my", "n", "s.x").collect()
    assert [tuple(row) for row in found] == [
        (None, None, None, None, 1),
        (2, 3, 2, "new", 1),
        (None, None, None, None, 5),
    ]
    arrow = tahoe.Table(path).to_arrow().sort_by("id").to_pylist()
    assert [row["s"] for row in arrow] == [
        {"x": 1, "y": None, "z": None},
        {"x": 1, "y": 2, "z": {"w": 3}},
        {"x": 5, "y": None, "z": None},
    ]


def test_an_overwrite_evolves_as_an_append_does(spark: SparkSession, path: str) -> None:
    save(spark.sql("select 1 as a"), path, **WIDENS)
    spark.sql("select 2L as a, 'x' as b").write.format("delta").mode("overwrite").option("mergeSchema", True).save(path)
    assert [tuple(row) for row in read(spark, path).collect()] == [(2, "x")]
    assert [tuple(row) for row in spark.read.format("delta").option("versionAsOf", 0).load(path).collect()] == [(1,)]


def test_sql_widens_where_the_session_lets_schemas_grow(spark: SparkSession, table_name: str) -> None:
    spark.sql(
        f"create table {table_name} (a int, b int) using delta tblproperties ('delta.enableTypeWidening' = 'true')"
    )
    spark.sql(f"insert into {table_name} values (1, 1)")
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        spark.sql(f"insert into {table_name} (b, a) values (2, 5000000000)")
        spark.sql(f"insert into {table_name} values (3, 3)")
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert sorted(map(tuple, spark.table(table_name).collect())) == [(1, 1), (3, 3), (5000000000, 2)]
    assert spark.table(table_name).schema.simpleString() == "struct<a:bigint,b:int>"


@pytest.mark.parametrize("text", ["true", " TRUE "])
def test_one_setting_is_read_alike_by_every_statement(spark: SparkSession, table_name: str, text: str) -> None:
    spark.sql(f"create table {table_name} (a int) using delta")
    spark.sql(f"insert into {table_name} values (1)")
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", text)
    try:
        spark.sql(
            f"merge into {table_name} t using (select 1 as a, 'x' as b) s on t.a = s.a when matched then update "
            f"set t.b = s.b"
        )
        spark.sql(f"insert into {table_name} by name select 2 as a, 'y' as b, 3 as c")
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert sorted(map(tuple, spark.table(table_name).collect())) == [(1, "x", None), (2, "y", 3)]
