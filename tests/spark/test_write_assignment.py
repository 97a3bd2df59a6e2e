"""Which types may be stored as which, by every way to write rows into a table by its name: what Spark casts under the
session's policy, and no value lost unsaid.

tests/interop/test_store_assignment.py asks the reference the same.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal as Number
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tahoe import DeltaTable
from tahoe.errors import NotNullViolationError, SchemaMismatchError, UnsupportedDataTypeError, WriteFailedError
from tahoe.protocol.types.assignment_rules import (
    Policy,
    always_fits,
    check_assignable,
    conforms_inside,
    error_of_cast,
    storable,
)
from tahoe.protocol.types.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, encode_type

NAMES = (
    *("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary"),
    *("date", "timestamp", "timestamp_ntz", "variant", "void"),
)
TYPES: list[DataType] = [
    *map(Primitive, NAMES),
    *itertools.starmap(Decimal, [(2, 0), (3, 0), (5, 0), (10, 0), (10, 2), (10, 4), (38, 0)]),
]
LONG, STRING, BINARY = Primitive("long"), Primitive("string"), Primitive("binary")
NESTED: list[DataType] = [Array(element=LONG), Map(key=STRING, value=LONG), Struct((Field(name="x", type=LONG),))]


def test_types_may_be_stored_as_spark_casts_them(spark: SparkSession) -> None:
    cast = spark._jvm.org.apache.spark.sql.catalyst.expressions.Cast
    can: Mapping[Policy, Any] = {"ANSI": cast.canAnsiCast, "LEGACY": cast.canCast, "STRICT": cast.canUpCast}
    java = {str(kind): spark._jsparkSession.parseDataType(json.dumps(encode_type(kind))) for kind in (*TYPES, *NESTED)}
    for given, wanted in itertools.product([*TYPES, *NESTED], repeat=2):
        if wanted != Primitive("void") and (given in TYPES or wanted in TYPES):
            for policy in can:
                assert storable(given, wanted, policy) == can[policy](java[str(given)], java[str(wanted)]), (
                    given,
                    wanted,
                    policy,
                )


def test_a_cast_that_always_fits_does_for_the_ends_of_the_range(spark: SparkSession) -> None:
    ends = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}
    sql = {"byte": "tinyint", "short": "smallint", "long": "bigint"}
    casts = {}
    for given, wanted in itertools.product(map(Primitive, ends), TYPES):
        if always_fits(given, wanted):
            for value in (-ends[given.name], ends[given.name] - 1):
                source, target = sql.get(given.name, given.name), sql.get(str(wanted), str(wanted))
                casts[f"{value} as {given} in {wanted}"] = f"try_cast(cast('{value}' as {source}) as {target}) is null"
    (found,) = spark.sql("select " + ", ".join(f"{test} as `{name}`" for name, test in casts.items())).collect()
    assert [name for name, is_null in found.asDict().items() if is_null] == []


def field(name: str, kind: DataType, nullable: bool = True) -> Field:
    return Field(name=name, type=kind, nullable=nullable)


def test_every_mismatch_is_told_with_its_path() -> None:
    table = Struct(
        (
            field("a", LONG),
            field("s", Struct((field("x", Array(element=LONG)), field("y", LONG, nullable=False)))),
            field("m", Map(key=STRING, value=LONG)),
        )
    )
    data = Struct(
        (
            field("A", BINARY),
            field("S", Struct((field("X", Array(element=BINARY)),))),
            field("m", Map(key=STRING, value=BINARY)),
        )
    )
    with pytest.raises(SchemaMismatchError) as caught:
        check_assignable(data, table, table="t")
    for told in ("column a is long", "column s.x.element is long", "column s.y is NOT NULL", "column m.value is long"):
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("inside", "suggestion"),
    [
        (lambda kind: kind, "WITH_FUNC_SUGGESTION"),
        (lambda kind: Struct((field("x", kind),)), "WITH_FUNC_SUGGESTION"),
        (lambda kind: Array(element=Struct((field("x", kind),))), "WITH_FUNC_SUGGESTION"),
        (lambda kind: Array(element=kind), "WITH_CONF_SUGGESTION"),
        (lambda kind: Map(key=STRING, value=kind), "WITH_CONF_SUGGESTION"),
    ],
)
def test_a_function_is_suggested_only_where_it_takes_the_value(
    inside: Callable[[DataType], DataType], suggestion: str
) -> None:
    """Spark casts an array or a map as a whole, and no function converts it: a program would not find the condition
    that it catches.
    """
    given, wanted = (Struct((field("c", inside(kind)),)) for kind in (Primitive("date"), Primitive("integer")))
    with pytest.raises(SchemaMismatchError) as caught:
        check_assignable(given, wanted, table="t")
    assert caught.value.condition == f"DATATYPE_MISMATCH.CAST_{suggestion}"


def test_what_conforms_needs_no_expression() -> None:
    # a needless cast of a nested column would cost time for each row
    table = Struct((field("a", LONG), field("l", Array(element=Struct((field("x", LONG),))))))
    assert conforms_inside(table, table)
    assert not conforms_inside(Struct(table.fields[::-1]), table)
    assert not conforms_inside(Struct((field("A", LONG), table.fields[1])), table)
    assert conforms_inside(Struct((field("a", LONG, nullable=False), table.fields[1])), table)
    assert not conforms_inside(table, Struct((field("a", LONG, nullable=False), table.fields[1])))
    assert not conforms_inside(Array(element=LONG), Array(element=LONG, contains_null=False))
    assert not conforms_inside(Map(key=STRING, value=LONG), Map(key=STRING, value=LONG, value_contains_null=False))


@pytest.mark.parametrize(
    ("given", "wanted", "value", "condition", "name"),
    [
        ("string", "integer", "x", "CAST_INVALID_INPUT", "NumberFormatException"),
        ("string", "byte", "300", "CAST_INVALID_INPUT", "NumberFormatException"),
        ("string", "date", "x", "CAST_INVALID_INPUT", "DateTimeException"),
        ("double", "timestamp", "Infinity", "CAST_INVALID_INPUT", "DateTimeException"),
        ("string", "boolean", "x", "CAST_INVALID_INPUT", "SparkRuntimeException"),
        ("variant", "integer", '"x"', "INVALID_VARIANT_CAST", "SparkRuntimeException"),
        ("long", "integer", "4294967297", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("timestamp", "short", "2024-01-31 12:13:14", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
    ],
)
def test_an_error_has_the_condition_and_the_class_that_it_has_in_spark(
    given: str, wanted: str, value: str, condition: str, name: str
) -> None:
    """A program that catches Spark's condition does not find it."""
    error = error_of_cast(Primitive(given), Primitive(wanted), value, are_assigned=False)
    assert (error.condition, error.pyspark_class) == (condition, name)


def test_an_overflow_is_told_by_who_gave_the_value() -> None:
    decimal = Decimal(4, 2)
    for value, are_assigned, condition in (
        ("1234.5", False, "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("1234.5", True, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
        ("x", True, "CAST_INVALID_INPUT"),
    ):
        assert error_of_cast(STRING, decimal, value, are_assigned=are_assigned).condition == condition


# --- by every way to write rows

Way = Callable[[SparkSession, str, str], Any]
"""Stores what a query gives as `c` in the column `c` of a table with a row of the id 1."""


def merged_by_builder(spark: SparkSession, table: str, query: str) -> None:
    merge = DeltaTable.forName(spark, table).alias("t").merge(spark.sql(query).alias("s"), "false")
    merge.whenNotMatchedInsert(values={"id": "s.id", "c": "s.c"}).execute()


def merge(clause: str) -> Way:
    return lambda spark, table, query: spark.sql(f"MERGE INTO {table} t USING ({query}) s ON t.id = s.id - 1 {clause}")


ADDING: Mapping[str, Way] = {
    "INSERT": lambda spark, table, query: spark.sql(f"INSERT INTO {table} {query}"),
    "INSERT (columns)": lambda spark, table, query: spark.sql(
        f"INSERT INTO {table} (c, id) SELECT c, id FROM ({query})"
    ),
    "INSERT BY NAME": lambda spark, table, query: spark.sql(f"INSERT INTO {table} BY NAME {query}"),
    "INSERT REPLACE WHERE": lambda spark, table, query: spark.sql(f"INSERT INTO {table} REPLACE WHERE id = 2 {query}"),
    "saveAsTable": lambda spark, table, query: spark.sql(query).write.format("delta").mode("append").saveAsTable(table),
    "insertInto": lambda spark, table, query: spark.sql(query).write.insertInto(table),
    "writeTo": lambda spark, table, query: spark.sql(query).writeTo(table).append(),
    "MERGE INSERT *": merge("WHEN NOT MATCHED THEN INSERT *"),
    "MERGE INSERT": merge("WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)"),
    "DeltaTable.merge": merged_by_builder,
}
CHANGING: Mapping[str, Way] = {
    "UPDATE": lambda spark, table, query: spark.sql(f"UPDATE {table} SET id = 2, c = (SELECT c FROM ({query}))"),
    "MERGE UPDATE": merge("WHEN MATCHED THEN UPDATE SET id = s.id, c = s.c"),
    "MERGE UPDATE *": merge("WHEN MATCHED THEN UPDATE SET *"),
}
WAYS = {**ADDING, **CHANGING}


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def stored(spark: SparkSession, table: str, way: str, query: str, kind: str) -> Any:
    """What a way of writing stores in a column of a type."""
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql(f"CREATE TABLE {table} (id INT, c {kind}) USING delta")
    if way in CHANGING:
        spark.sql(f"INSERT INTO {table} VALUES (1, null)")
    WAYS[way](spark, table, query)
    (row,) = spark.sql(f"SELECT c FROM {table} WHERE id = 2").collect()
    return row.c


DAY = datetime.date(2024, 1, 31)
MANY = """named_struct('d', '2024-01-31', 'n', '1.25', 'i', 7L, 'l', array('1', null), 'm', map('k', '2.5'),
    's', named_struct('x', true), 'b', 'b')"""
INTO = (
    "struct<d: date, n: decimal(5, 2), i: tinyint, l: array<int>, m: map<string, double>, s: struct<x: int>, b: binary>"
)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_casts_alike(spark: SparkSession, table_name: str, way: str) -> None:
    with settings(spark, {"spark.sql.ansi.enabled": "false"} if way in ("INSERT", "UPDATE", "MERGE INSERT") else {}):
        found = stored(spark, table_name, way, f"SELECT 2 AS id, {MANY} AS c", INTO)
        assert found == Row(d=DAY, n=Number("1.25"), i=7, l=[1, None], m={"k": 2.5}, s=Row(x=1), b=bytearray(b"b"))
        with pytest.raises(WriteFailedError, match=r"value soon for column c.* does not fit in date"):
            stored(spark, table_name, way, "SELECT 2 AS id, array('2024-01-31', 'soon') AS c", "array<date>")


@pytest.mark.parametrize("way", ["INSERT", "writeTo", "UPDATE", "MERGE INSERT", "MERGE UPDATE *"])
def test_the_sessions_policy_counts(spark: SparkSession, table_name: str, way: str) -> None:
    with settings(spark, {"spark.sql.storeAssignmentPolicy": "LEGACY"}):
        fits = "SELECT 2 AS id, named_struct('i', 4294967297L, 'd', 'soon', 'n', 123.45, 'l', array('x', '1')) AS c"
        found = stored(spark, table_name, way, fits, "struct<i: int, d: date, n: decimal(4, 2), l: array<int>>")
        assert found == Row(i=1, d=None, n=None, l=[None, 1])
        assert stored(spark, table_name, way, "SELECT 2 AS id, 1 AS c", "binary") == bytearray(b"\0\0\0\1")
        with pytest.raises(NotNullViolationError):
            stored(spark, table_name, way, "SELECT 2 AS id, named_struct('i', 'x') AS c", "struct<i: int NOT NULL>")
    with settings(spark, {"spark.sql.storeAssignmentPolicy": "STRICT"}):
        assert stored(spark, table_name, way, "SELECT 2 AS id, named_struct('x', 7) AS c", "struct<x: bigint>") == Row(
            x=7
        )
        with pytest.raises(SchemaMismatchError, match="STRICT"):
            stored(spark, table_name, way, "SELECT 2 AS id, 7L AS c", "int")


@pytest.mark.parametrize(("way", "is_legacy"), [("INSERT", False), ("UPDATE", True), ("MERGE INSERT", True)])
def test_updates_may_follow_the_ansi_mode_instead(
    spark: SparkSession, table_name: str, way: str, is_legacy: bool
) -> None:
    follows = {
        "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag": "true",
        "spark.sql.ansi.enabled": "false",
    }
    query = "SELECT 2 AS id, 'x' AS c"
    with settings(spark, follows):
        if is_legacy:
            assert stored(spark, table_name, way, query, "int") is None
        else:
            with pytest.raises(WriteFailedError, match="value x for column c"):
                stored(spark, table_name, way, query, "int")


DEFAULTS = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"


def test_a_default_is_cast_whatever_the_policy(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, c TINYINT DEFAULT 1) USING delta {DEFAULTS}")
    with settings(spark, {"spark.sql.storeAssignmentPolicy": "STRICT"}):
        spark.sql(f"INSERT INTO {table_name} (id) VALUES (1)")
    assert spark.table(table_name).collect() == [Row(id=1, c=1)]


def test_what_a_variant_holds_is_stored(spark: SparkSession, table_name: str) -> None:
    variant = "SELECT 2 AS id, parse_json('{}') AS c"
    assert stored(spark, table_name, "INSERT", variant.format('{"x": 7}'), "struct<x: int>") == Row(x=7)
    assert stored(spark, table_name, "INSERT", variant.format("null"), "int") is None
    with pytest.raises(WriteFailedError, match="does not fit in integer"):
        stored(spark, table_name, "INSERT", variant.format('"seven"'), "int")


# --- types that Delta does not have

FOREIGN = [
    ("'x' COLLATE UTF8_LCASE", "string", "x"),
    ("'7' COLLATE UTF8_LCASE", "int", 7),
    ("INTERVAL 3 DAYS", "string", "INTERVAL '3' DAY"),
    ("INTERVAL 3 DAYS", "bigint", 3),
    ("INTERVAL '1-2' YEAR TO MONTH", "tinyint", 14),
    ("INTERVAL '1.25' SECOND", "decimal(10, 2)", Number("1.25")),
    ("INTERVAL '1 2' DAY TO HOUR", "int", 26),
    ("array(INTERVAL 3 DAYS)", "array<int>", [3]),
    (
        "map('k' COLLATE UTF8_LCASE, named_struct('x', INTERVAL 3 DAYS))",
        "map<string, struct<x: string>>",
        {"k": Row(x="INTERVAL '3' DAY")},
    ),
]


@pytest.mark.parametrize("way", WAYS)
def test_what_delta_has_no_type_for_is_cast_to_the_columns_type(spark: SparkSession, table_name: str, way: str) -> None:
    value = ", ".join(f"'c{number}', {text}" for number, (text, _, _) in enumerate(FOREIGN))
    kind = ", ".join(f"c{number}: {kind}" for number, (_, kind, _) in enumerate(FOREIGN))
    found = stored(spark, table_name, way, f"SELECT 2 AS id, named_struct({value}) AS c", f"struct<{kind}>")
    assert list(found) == [value for _, _, value in FOREIGN]


def test_a_time_is_stored_as_text(spark: SparkSession, table_name: str) -> None:
    assert stored(spark, table_name, "INSERT", "SELECT 2 AS id, TIME'10:00:00' AS c", "string") == "10:00:00"
    assert stored(spark, table_name, "insertInto", "SELECT 2, struct(TIME'10:00:00')", "struct<x: string>") == Row(
        x="10:00:00"
    )


def test_a_value_of_a_foreign_type_that_does_not_fit_is_refused(spark: SparkSession, table_name: str) -> None:
    with pytest.raises(WriteFailedError, match=r"value 300 for column c.* does not fit in byte"):
        stored(spark, table_name, "INSERT", "SELECT 2 AS id, INTERVAL 300 DAYS AS c", "tinyint")
    with pytest.raises(UnsupportedDataTypeError, match=r"column c .*interval"):
        stored(spark, table_name, "INSERT", "SELECT 2 AS id, INTERVAL 3 DAYS AS c", "date")
    with (
        settings(spark, {"spark.sql.storeAssignmentPolicy": "STRICT"}),
        pytest.raises(UnsupportedDataTypeError, match="column c"),
    ):
        stored(spark, table_name, "INSERT", "SELECT 2 AS id, INTERVAL 3 DAYS AS c", "int")


def test_a_new_column_of_a_foreign_type_is_refused(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, c STRING) USING delta")
    query = spark.sql("SELECT 1 AS id, INTERVAL 3 DAYS AS c, INTERVAL 4 DAYS AS d")
    with settings(spark, {"spark.databricks.delta.schema.autoMerge.enabled": "true"}):
        for write in (
            lambda: query.writeTo(table_name).append(),
            lambda: spark.sql(
                f"MERGE INTO {table_name} t USING {{q}} s ON false WHEN NOT MATCHED THEN INSERT *", q=query
            ),
        ):
            with pytest.raises(UnsupportedDataTypeError, match="column d "):
                write()
    with pytest.raises(UnsupportedDataTypeError, match="column c "):
        query.drop("d").write.format("delta").mode("overwrite").option("overwriteSchema", True).saveAsTable(table_name)
    spark.sql(
        f"MERGE INTO {table_name} t USING {{q}} s ON s.d < INTERVAL 3 DAYS WHEN NOT MATCHED THEN INSERT (id, c) "
        f"VALUES (id, c)",
        q=query,
    )
    assert spark.table(table_name).collect() == [Row(id=1, c="INTERVAL '3' DAY")]
