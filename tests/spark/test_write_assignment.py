"""Which types may be stored as which: the same rule as Spark's INSERT, and what never fails never does."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import SparkSession

from tahoe.errors import SchemaMismatchError
from tahoe.protocol.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, encode_type
from tahoe.spark.assignment import always_fits, check_assignable, conforms_inside, storable

NAMES = (
    *("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary"),
    *("date", "timestamp", "timestamp_ntz", "variant", "void"),
)
TYPES: list[DataType] = [*map(Primitive, NAMES), Decimal(10, 2), Decimal(10, 4), Decimal(38, 0)]
LONG, STRING = Primitive("long"), Primitive("string")


def test_types_may_be_stored_as_in_sparks_insert(spark: SparkSession) -> None:
    cast = spark._jvm.org.apache.spark.sql.catalyst.expressions.Cast
    java = {kind: spark._jsparkSession.parseDataType(f'"{encode_type(kind)}"') for kind in TYPES}
    for given, wanted in itertools.product(TYPES, TYPES):
        if wanted != Primitive("void"):
            assert storable(given, wanted) == cast.canANSIStoreAssign(java[given], java[wanted]), (given, wanted)


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
    data = Struct((field("A", STRING), field("S", Struct((field("X", Array(element=STRING)),))), field("m", Map(key=STRING, value=STRING))))
    with pytest.raises(SchemaMismatchError) as caught:
        check_assignable(data, table, table="t")
    for told in ("column a is long", "column s.x.element is long", "column s.y is NOT NULL", "column m.value is long"):
        assert told in str(caught.value)


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
