"""Filters of Spark become predicates that are true for at least the rows for which the filter is."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tahoe.protocol.types.predicate import (
    TRUE,
    And,
    Column,
    Comparison,
    In,
    Literal,
    Not,
    Or,
    Unknown,
    evaluate,
    has_unknown,
)
from tahoe.spark.reading.filters import predicate_of

pytestmark = pytest.mark.every_spark

COLUMNS = """id int, big long, small tinyint, f float, d double, dec decimal(10,2), s string, flag boolean, day date, ts timestamp,
             ntz timestamp_ntz, bin binary, st struct<x: int, Y: struct<z: string>>, arr array<int>"""


@pytest.fixture(scope="module")
def rows(spark):
    nan = float("nan")
    struct = (1, ("a",))
    moment = datetime(2020, 1, 2, 3, 4, 5, 678901)
    data = [
        (
            1,
            1 << 40,
            1,
            0.1,
            0.1,
            Decimal("1.50"),
            "apple",
            True,
            date(2020, 1, 2),
            moment,
            moment,
            b"\x00\xff",
            struct,
            [1],
        ),
        (
            2,
            -5,
            -1,
            nan,
            nan,
            Decimal("-7.25"),
            "Äpfel",
            False,
            date(1969, 12, 31),
            datetime(1970, 1, 1),
            moment,
            b"",
            (None, None),
            [],
        ),
        (
            3,
            0,
            127,
            -0.0,
            float("inf"),
            Decimal("0.00"),
            "",
            None,
            date(9999, 12, 31),
            moment,
            datetime(1, 1, 1),
            b"abc",
            None,
            None,
        ),
        (None,) * 14,
        (
            12,
            1,
            0,
            1.5,
            -1e300,
            Decimal("99999999.99"),
            "a%b_c",
            True,
            date(2021, 6, 1),
            datetime(2021, 6, 1),
            moment,
            b"\x00",
            (5, ("zz",)),
            [7],
        ),
    ]
    frame = spark.createDataFrame(data, COLUMNS).coalesce(1)
    frame.createOrReplaceTempView("filtered")
    yield [row.asDict(recursive=True) for row in frame.collect()]
    spark.catalog.dropTempView("filtered")


@pytest.fixture(scope="module")
def matching(spark, rows) -> dict[str, set[int | None]]:
    """The ids for which Spark finds each condition true, all in one pass."""
    assert len(rows) == 5
    conditions = UNDERSTOOD + NOT_UNDERSTOOD + FOLDED
    answers = spark.table("filtered").selectExpr("id", *[f"({c}) as c{n}" for n, c in enumerate(conditions)]).collect()
    return {c: {row.id for row in answers if row[f"c{n}"]} for n, c in enumerate(conditions)}


UNDERSTOOD = [
    "id = 1",
    "1 < id",
    "id >= 2 and id <= 12",
    "id <> 2",
    "not (id = 2 or id = 3)",
    "id in (1, 2, null)",
    "id not in (1, 2)",
    "id in (1,2,4,5,6,7,8,9,10,11,12,13,14,15)",
    "big in (1099511627776,2,4,5,6,7,8,9,10,11,12,13,14,15)",
    "id is null",
    "id is not null",
    "id <=> null",
    "id <=> 2",
    "not (id <=> 2)",
    "big > 5",
    "small = 127Y",
    "f = cast(0.1 as float)",
    "f < cast(0.2 as float)",
    "d = 0.1D",
    "d > 1D",
    "d = double('NaN')",
    "d < double('Infinity')",
    "dec = 1.5",
    "dec > -7.25",
    "s = 'apple'",
    "s > 'a'",
    "s < 'b' or s is null",
    "s like 'a%'",
    "s = ''",
    "flag",
    "not flag",
    "flag = false",
    "flag is null or id = 1",
    "day = date'2020-01-02'",
    "day < '1970-01-01'",
    "day between '2020-01-01' and '2021-12-31'",
    "ts = timestamp'2020-01-02 03:04:05.678901'",
    "ts > '2020-06-01'",
    "ts in (timestamp'2020-01-02 03:04:05.678901', timestamp'1970-01-01 00:00:00')",
    "ntz = timestamp_ntz'2020-01-02 03:04:05.678901'",
    "bin = X'00FF'",
    "bin > X'00'",
    "bin in (X'00', X'616263')",
    "st.x = 1",
    "st.y.z = 'a'",
    "st.x is null",
    "st.y.z > 'b' and st.x >= 5",
    "st is null",
    "arr is null",
]

NOT_UNDERSTOOD = [
    "upper(s) = 'APPLE'",
    "s like '%pp%'",
    "year(day) = 2020",
    "cast(id as string) = '1'",
    "id + 1 = 2",
    "get(arr, 0) = 1",
    "size(arr) = 1 and id = 1",
    "id = 1 or length(s) = 5",
    "st = named_struct('x', 1, 'Y', named_struct('z', 'a'))",
    "id = small",
    "not (length(s) = 5)",
    "day = date'+10000-01-01'",
    "s collate utf8_lcase = 'APPLE'",
]


# The optimiser leaves no filter, or none that says anything.
FOLDED = ["true", "id = 1 and null", "false"]


def told(spark, condition: str, optimised: bool) -> str:
    """A condition as Java tells it: as it is analysed, and as the optimiser leaves it."""
    execution = spark.sql(f"select * from filtered where {condition}")._jdf.queryExecution()
    plan = execution.optimizedPlan() if optimised else execution.analyzed()
    while plan.nodeName() != "Filter":
        if plan.children().isEmpty():
            return "[]"
        plan = plan.children().apply(0)
    conditions = spark._jvm.java.util.ArrayList()
    conditions.add(plan.condition())
    return spark._jvm.delta.Files.json(conditions)


def plain(values: dict) -> dict:
    """A row as the protocol has it: times in UTC."""
    return {
        **values,
        "ts": None if values["ts"] is None else values["ts"].replace(tzinfo=UTC),
        "bin": _bytes(values["bin"]),
    }


def _bytes(value):
    return None if value is None else bytes(value)


@pytest.mark.parametrize("condition", UNDERSTOOD)
def test_what_is_understood_means_the_same(spark, rows, matching, condition):
    predicate = predicate_of(told(spark, condition, optimised=True))
    assert not has_unknown(predicate)
    assert {row["id"] for row in rows if evaluate(predicate, plain(row)) is True} == matching[condition]


@pytest.mark.parametrize("condition", UNDERSTOOD + NOT_UNDERSTOOD + FOLDED)
def test_no_matching_row_is_left_out(spark, rows, matching, condition):
    # what is not understood may be true of any row, and so must never make a whole filter false
    for optimised in (False, True):
        predicate = predicate_of(told(spark, condition, optimised=optimised))
        assert matching[condition] <= {row["id"] for row in rows if may_be_true(predicate, plain(row))}


def may_be_true(predicate, row) -> bool:
    """Whether a predicate is true for a row under some value of its unknown parts; `Unknown` must not be taken for null
    under NOT.
    """
    return any(evaluate(_filled(predicate, value), row) is True for value in (True, False))


def _filled(predicate, value):
    match predicate:
        case And(parts):
            return And(tuple(_filled(part, value) for part in parts))
        case Or(parts):
            return Or(tuple(_filled(part, value) for part in parts))
        case Not(part):
            return Not(_filled(part, not value))
        case Unknown():
            return TRUE if value else Not(TRUE)
        case _:
            return predicate


@pytest.mark.parametrize("condition", NOT_UNDERSTOOD)
@pytest.mark.usefixtures("rows")
def test_what_is_not_understood_says_so(spark, condition):
    assert has_unknown(predicate_of(told(spark, condition, optimised=False)))


@pytest.mark.usefixtures("rows")
def test_nondeterministic_conditions_and_subqueries_are_left_out(spark):
    assert told(spark, "rand() < 2", optimised=False) == "[]"
    assert told(spark, "id = (select max(id) from filtered)", optimised=False) == "[]"


# --- without Spark


def node(kind, children=0, **fields):
    return {"class": f"org.apache.spark.sql.catalyst.expressions.{kind}", "num-children": children, **fields}


ID = node("AttributeReference", name="id", dataType="integer")


def number(value):
    return node("Literal", value=str(value), dataType="integer")


def test_a_chain_of_thousands_is_no_deeper_than_one():
    nodes = [ID, number(0)]
    nodes = [node("EqualTo", 2), *nodes]
    for value in range(1, 3000):
        nodes = [node("Or", 2), *nodes, node("EqualTo", 2), ID, number(value)]
    predicate = predicate_of(json.dumps([nodes]))
    assert isinstance(predicate, Or)
    assert len(predicate.parts) == 3000


def test_no_filters_say_nothing():
    assert predicate_of("[]") == TRUE


def test_several_filters_hold_together():
    told = json.dumps([[node("EqualTo", 2), ID, number(1)], [node("In", 3), ID, number(1), number(2)]])
    column = Column(("id",))
    assert predicate_of(told) == And((Comparison("=", column, Literal(1)), In(column, (1, 2))))


def test_a_node_of_a_later_spark_is_unknown():
    assert predicate_of(json.dumps([[node("BetterEqual", 2), ID, number(1)]])) == Unknown("BetterEqual")
