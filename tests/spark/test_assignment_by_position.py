"""INSERT without names, and `insertInto`: columns by their places, and the fields of structs as well, at every depth.

tests/interop/test_store_assignment.py asks the reference the same.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from tahoe.errors import SchemaMismatchError
from tahoe.protocol.types.type_widening import is_widening
from tahoe.spark.writing.assignment_by_position import named_by_position, named_inside

pytestmark = pytest.mark.usefixtures("spark")  # it parses types

PAIR = "struct<a: int, b: int>"
SHAPES = [
    "{}",
    "array<{}>",
    "map<string, {}>",
    "struct<n: {}>",
    "struct<n: array<{}>>",
    "array<array<{}>>",
    "map<{}, int>",
]


def struct(text: str) -> StructType:
    return StructType.fromDDL(text)


def named(given: str, wanted: str) -> str:
    return named_by_position(struct(given), struct(wanted), table="t").simpleString()


@pytest.mark.parametrize("shape", SHAPES)
def test_fields_are_taken_by_their_places(shape: str) -> None:
    wanted = f"id int, c {shape.format(PAIR)}"
    for given in ("struct<{}: int, {}: int>", "struct<{}: bigint, {}: string>"):
        inside = shape.format(given.format("a", "b"))
        for first, second in (("x", "y"), ("b", "a"), ("B", "c"), ("A", "B")):
            assert (
                named(f"col1 int, col2 {shape.format(given.format(first, second))}", wanted)
                == struct(f"id int, c {inside}").simpleString()
            )


@pytest.mark.parametrize("shape", SHAPES)
def test_fields_are_taken_by_name_where_all_names_and_types_are_the_tables(shape: str) -> None:
    wanted, moved = f"id int, c {shape.format(PAIR)}", f"id int, c {shape.format('struct<b: int, a: int>')}"
    assert named(moved, wanted) == struct(moved).simpleString()
    more = f"id int, c {shape.format('struct<z: int, b: int, a: int>')}"
    assert named(more, wanted) == struct(more).simpleString()


@pytest.mark.parametrize("shape", SHAPES)
def test_places_and_names_that_say_two_things_are_refused(shape: str) -> None:
    wanted = f"id int, c {shape.format(PAIR)}"
    for odd in (
        f"id int, c {shape.format('struct<b: bigint, a: int>')}",
        f"id bigint, c {shape.format('struct<b: int, a: int>')}",
        f"id int, c {shape.format('struct<B: int, a: int>')}",
        f"id int, c {shape.format('struct<x: int, a: int>')}",
    ):
        with pytest.raises(
            SchemaMismatchError, match=r"the fields of c\S* have the table's names in another order.*BY NAME"
        ):
            named(odd, wanted)
    widened = struct(f"id int, c {shape.format('struct<b: bigint, a: int>')}")
    assert named_by_position(widened, struct(wanted), table="t", widens=is_widening) == widened


@pytest.mark.parametrize("shape", SHAPES)
def test_a_struct_with_too_few_fields_is_refused(shape: str) -> None:
    for names in ("col1 int, col2", "id int, c"):
        with pytest.raises(
            SchemaMismatchError, match=r"column c\S* has too few fields: a in the data, but a, b in the table"
        ):
            named(f"{names} {shape.format('struct<a: int>')}", f"id int, c {shape.format(PAIR)}")


def test_what_is_in_no_place_of_the_tables_keeps_its_name() -> None:
    assert (
        named("x int, y struct<p: int, q: int, r: int>, z int", f"id int, c {PAIR}")
        == "struct<id:int,c:struct<a:int,b:int,r:int>,z:int>"
    )
    assert named("x int", f"id int, c {PAIR}") == "struct<id:int>"
    assert named("x int, y int", f"id int, c {PAIR}") == "struct<id:int,c:int>"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_statement_that_names_columns_names_no_fields(shape: str) -> None:
    wanted = struct(f"id int, c {shape.format(PAIR)}")
    known = struct(f"C {shape.format('struct<b: bigint, z: int>')}, x int")
    unknown = struct(f"C {shape.format('struct<col1: bigint, col2: int, z: int>')}, x int")
    short = struct(f"C {shape.format('struct<col1: int>')}, x int")
    assert named_inside(known, wanted, table="t") == known
    assert named_inside(unknown, wanted, table="t") == struct(
        f"C {shape.format('struct<a: bigint, b: int, z: int>')}, x int"
    )
    with pytest.raises(
        SchemaMismatchError, match=r"column C\S* has too few fields: col1 in the data, but a, b in the table"
    ):
        named_inside(short, wanted, table="t")


# --- with a session

Way = Callable[[SparkSession, str, str], object]
BY_POSITION: dict[str, Way] = {
    "VALUES": lambda spark, table, value: spark.sql(f"INSERT INTO {table} VALUES (1, {value})"),
    "SELECT": lambda spark, table, value: spark.sql(f"INSERT INTO {table} SELECT 1, {value}"),
    "TABLE": lambda spark, table, value: spark.sql(f"INSERT INTO {table} (SELECT 1 AS id, {value} AS d)"),
    "OVERWRITE": lambda spark, table, value: spark.sql(f"INSERT OVERWRITE {table} SELECT 1, {value}"),
    "PARTITION": lambda spark, table, value: spark.sql(f"INSERT INTO {table} PARTITION (p = 7) SELECT 1, {value}"),
    "REPLACE WHERE": lambda spark, table, value: spark.sql(
        f"INSERT INTO {table} REPLACE WHERE id = 1 SELECT 1, {value}"
    ),
    "columns": lambda spark, table, value: spark.sql(f"INSERT INTO {table} (c, id) SELECT {value}, 1"),
    "BY NAME": lambda spark, table, value: spark.sql(f"INSERT INTO {table} BY NAME SELECT {value} AS c, 1 AS id"),
    "insertInto": lambda spark, table, value: spark.sql(f"SELECT 1 AS x, {value} AS y").write.insertInto(table),
}
VALUES = [
    (PAIR, "struct(1, 2)"),
    (f"array<{PAIR}>", "array(struct(1, 2L))"),
    (f"map<string, {PAIR}>", "map('k', struct('1', 2))"),
    (f"struct<n: array<{PAIR}>>", "struct(array(struct(1, 2)))"),
]
ONE = Row(a=1, b=2)
STORED = [ONE, [ONE], {"k": ONE}, Row(n=[ONE])]


@pytest.mark.parametrize("way", BY_POSITION)
def test_every_way_by_position_takes_fields_by_their_places(spark: SparkSession, table_name: str, way: str) -> None:
    partitioned = ", p INT) USING delta PARTITIONED BY (p)" if way == "PARTITION" else ") USING delta"
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(VALUES))
    inside = ", ".join(f"c{number}: {kind}" for number, (kind, _) in enumerate(VALUES))
    assert columns
    spark.sql(f"CREATE TABLE {table_name} (id INT, c struct<{inside}>{partitioned}")
    BY_POSITION[way](spark, table_name, f"struct({', '.join(value for _, value in VALUES)})")
    (row,) = spark.table(table_name).collect()
    assert list(row.c) == STORED
