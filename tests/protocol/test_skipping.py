"""Skipping, case by case: what must be kept, and what must not be read. The law itself is in
tests/property/test_skipping_sound.py.
"""

from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal

import pytest

from tahoe.protocol.configuration.column_mapping import PHYSICAL_NAME
from tahoe.protocol.statistics.skipping import skipping_test
from tahoe.protocol.statistics.stat_tests import DROP, KEEP, Both, Bound, HasValues, OnPartition, may_match, paths_in
from tahoe.protocol.statistics.stats import Statistics
from tahoe.protocol.types.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    Unknown,
)
from tahoe.protocol.types.schema import BOOLEAN, DATE, DOUBLE, INTEGER, STRING, TIMESTAMP, Array, Decimal, Field, Struct

SCHEMA = Struct(
    (
        Field(name="i", type=INTEGER),
        Field(name="x", type=DOUBLE),
        Field(name="dec", type=Decimal(9, 2)),
        Field(name="s", type=STRING),
        Field(name="day", type=DATE),
        Field(name="ts", type=TIMESTAMP),
        Field(name="flag", type=BOOLEAN),
        Field(name="list", type=Array(element=INTEGER)),
        Field(name="p", type=STRING),
        Field(name="st", type=Struct((Field(name="b", type=INTEGER),))),
    )
)


def op(symbol, name, value):
    return Comparison(symbol, Column(tuple(name.split("."))), Literal(value))


def keeps(predicate, *, schema=SCHEMA, partition=None, **statistics):
    """Whether a file of 10 rows is kept; statistics as `i=(min, max, null_count)`."""
    paths = {tuple(name.split("__")): values for name, values in statistics.items()}
    found = Statistics(
        num_records=10,
        min_values={path: low for path, (low, _, _) in paths.items() if low is not None},
        max_values={path: high for path, (_, high, _) in paths.items() if high is not None},
        null_count={path: count for path, (_, _, count) in paths.items() if count is not None},
    )
    return may_match(skipping_test(predicate, schema, ["p"]), found, partition)


LONG = "a" * 20


@pytest.mark.parametrize(
    ("predicate", "values", "kept"),
    [
        (op("=", "i", 5), (1, 9, 0), True),
        (op("=", "i", 0), (1, 9, 0), False),
        (op("=", "I", 0), (1, 9, 0), False),
        (op("<=>", "i", 10), (1, 9, 0), False),
        (op("<", "i", 1), (1, 9, 0), False),
        (op("<=", "i", 1), (1, 9, 0), True),
        (op(">", "i", 9), (1, 9, 0), False),
        (op(">=", "i", 9), (1, 9, 0), True),
        (op("=", "i", None), (1, 9, 5), False),
        (op("<=>", "i", None), (1, 9, 0), False),
        (op("<=>", "i", None), (1, 9, 1), True),
        (op("=", "i", 5), (None, None, None), True),
        (op("=", "i", 5), (None, None, 10), False),
        (op("=", "i", 5), (None, 4, None), False),
        (op("=", "i", 5.0), (6, 9, 0), True),  # a float says nothing exact about an integer column
        (Not(op("<", "i", 9)), (1, 8, 0), False),
        (Not(op("=", "i", 5)), (5, 5, 0), False),
        (Not(op("=", "i", 5)), (5, 6, 0), True),
        (Not(op("=", "i", 5)), (5, None, 0), True),
        (Not(op("<=>", "i", 5)), (5, 5, 0), False),
        (Not(op("<=>", "i", 5)), (5, 5, 1), True),
        (Not(op("<=>", "i", None)), (None, None, 10), False),
        (Not(op("=", "i", None)), (1, 9, 0), False),
        (IsNull(Column(("i",))), (1, 9, 0), False),
        (IsNull(Column(("i",))), (1, 9, None), True),
        (Not(IsNull(Column(("i",)))), (None, None, 10), False),
        (Not(IsNull(Column(("i",)))), (None, None, 9), True),
        (In(Column(("i",)), (0, 10, None)), (1, 9, 0), False),
        (In(Column(("i",)), (0, 7)), (1, 9, 0), True),
        (In(Column(("i",)), (None,)), (1, 9, 0), False),
        (In(Column(("i",)), tuple(range(10, 500))), (1, 9, 0), False),
        (In(Column(("i",)), (0, *range(10, 500))), (1, 9, 0), False),
        (In(Column(("i",)), (0, 9, *range(10, 500))), (1, 9, 0), True),
        (In(Column(("i",)), (1, *range(10, 500), None)), (1, 9, 0), True),
        (In(Column(("i",)), (0, *range(10, 500))), (None, 9, 0), True),
        (In(Column(("i",)), (0, *range(10, 500))), (1, None, 0), True),
        (In(Column(("i",)), range(10, 500)), (None, 9, 0), False),
        (Not(In(Column(("i",)), (5, 6))), (5, 5, 0), False),
        (Not(In(Column(("i",)), (5, None))), (1, 9, 0), False),
        (Not(In(Column(("i",)), (5, 6))), (5, 6, 0), True),
        (And((op(">", "i", 3), op("<", "i", 1))), (1, 9, 0), False),
        (Or((op(">", "i", 9), op("<", "i", 1))), (1, 9, 0), False),
        (Not(And((op(">", "i", 0), op("<", "i", 10)))), (1, 9, 0), False),
        (Not(Or((op(">", "i", 9), Unknown("f(x)")))), (1, 9, 0), True),
        (And((Unknown("f(x)"), op(">", "i", 9))), (1, 9, 0), False),
        (Or((Unknown("f(x)"), op(">", "i", 9))), (1, 9, 0), True),
        (Not(Not(op(">", "i", 9))), (1, 9, 0), False),
    ],
)
def test_integers(predicate, values, kept):
    assert keeps(predicate, i=values) is kept


@pytest.mark.parametrize(
    ("predicate", "values", "kept"),
    [
        # There may be a NaN, which is above all numbers and not in the maximum.
        (op(">", "x", 9.0), (1.0, 2.0, 0), True),
        (op(">=", "x", 9.0), (1.0, 2.0, 0), True),
        (Not(op("<", "x", 9.0)), (1.0, 2.0, 0), True),
        (Not(op("=", "x", 1.0)), (1.0, 1.0, 0), True),
        (op("=", "x", float("nan")), (1.0, 2.0, 0), True),
        (op("<=", "x", float("nan")), (1.0, 2.0, 0), True),
        (op(">", "x", float("nan")), (1.0, 2.0, 0), False),
        (In(Column(("x",)), (9.0, float("nan"))), (1.0, 2.0, 0), True),
        # But not where the row must be a number.
        (op("=", "x", 9.0), (1.0, 2.0, 0), False),
        (op("<", "x", 0.0), (1.0, 2.0, 0), False),
        (And((op(">=", "x", 9.0), op("<=", "x", 11.0))), (1.0, 2.0, 0), False),
        (And((op(">=", "x", 9.0), op("<", "x", float("nan")))), (1.0, 2.0, 0), False),
        (And((op(">=", "x", 9.0), op("<=", "x", float("nan")))), (1.0, 2.0, 0), True),
        (And((op(">=", "x", 9.0), And((IsNull(Column(("i",))), op("<=", "X", 11.0))))), (1.0, 2.0, 0), False),
        (Or((op(">=", "x", 9.0), op("<", "x", 0.0))), (1.0, 2.0, 0), True),
        (op(">", "x", 9.0), (None, None, 10), False),
    ],
)
def test_doubles(predicate, values, kept):
    assert keeps(predicate, x=values) is kept


@pytest.mark.parametrize(
    ("predicate", "values", "kept"),
    [
        (op("=", "s", "b"), ("c", "d", 0), False),
        (op(">", "s", "d"), ("c", "d", 0), False),
        # A maximum this long may stand for longer texts.
        (op("=", "s", LONG + "z"), ("a", LONG, 0), True),
        (op(">", "s", LONG), ("a", LONG, 0), True),
        (op("=", "s", "b" + LONG), ("a", LONG, 0), False),
        (Not(op("=", "s", LONG)), (LONG, LONG, 0), True),
        (Not(op("=", "s", "x")), ("x", "x", 0), False),
        (StartsWith(Column(("s",)), "b"), ("a", "bz", 0), True),
        (StartsWith(Column(("s",)), "b"), ("c", "d", 0), False),
        (StartsWith(Column(("s",)), "b"), ("a", "az", 0), False),
        (StartsWith(Column(("s",)), LONG + "z"), ("a", LONG, 0), True),
        (StartsWith(Column(("s",)), ""), ("a", "b", 0), True),
        (StartsWith(Column(("s",)), "\U0010ffff"), ("a", "b", 0), False),
        (StartsWith(Column(("s",)), "\ud7ff"), ("\ue000", "\ue001", 0), False),
        (Not(StartsWith(Column(("s",)), "b")), ("b", "bz", 0), True),
        (op("=", "s", "\U0001f600"), ("a", "\uffff", 0), False),  # by code points, not by UTF-16 units
    ],
)
def test_texts(predicate, values, kept):
    assert keeps(predicate, s=values) is kept


@pytest.mark.parametrize(
    ("micros", "kept"),
    [(0, True), (999, True), (1000, False)],
)
def test_a_maximum_of_timestamps_stands_for_the_rest_of_its_millisecond(micros, kept):
    highest = datetime(2024, 1, 1, tzinfo=UTC)
    assert keeps(op("=", "ts", highest.replace(microsecond=micros)), ts=(highest, highest, 0)) is kept
    assert keeps(Not(op("=", "ts", highest)), ts=(highest, highest, 0)) is True
    assert keeps(op(">=", "ts", datetime(1, 1, 1, tzinfo=UTC)), ts=(highest, highest, 0)) is True


def test_a_date_is_not_compared_with_a_timestamp():
    assert keeps(op("=", "day", date(2024, 1, 1)), day=(date(2024, 1, 2), date(2024, 1, 3), 0)) is False
    assert keeps(op("=", "day", datetime(2024, 1, 1)), day=(date(2024, 1, 2), date(2024, 1, 3), 0)) is True
    assert keeps(op("=", "ts", date(2024, 1, 1)), ts=(datetime(2025, 1, 1, tzinfo=UTC), None, 0)) is True
    assert keeps(op("=", "ts", datetime(2024, 1, 1)), ts=(datetime(2025, 1, 1, tzinfo=UTC), None, 0)) is True


def test_a_bound_beyond_pythons_calendar_proves_nothing():
    assert keeps(op("=", "day", date(2024, 1, 1)), day=(-1_000_000, 3_000_000, 0)) is True
    assert keeps(Not(op("=", "day", date(2024, 1, 1))), day=(3_000_000, 3_000_000, 0)) is True


def test_decimals_are_compared_exactly():
    assert keeps(op(">", "dec", PyDecimal("1.00")), dec=(PyDecimal("0.50"), PyDecimal("1.00"), 0)) is False
    assert keeps(op("=", "dec", PyDecimal("0.75")), dec=(PyDecimal("0.50"), PyDecimal("1.00"), 0)) is True


def test_columns_without_an_order_are_only_tested_for_values():
    assert keeps(op("=", "flag", True), flag=(None, None, 0)) is True
    assert keeps(op("=", "flag", True), flag=(None, None, 10)) is False
    # The null count of a list may count its elements.
    assert skipping_test(IsNull(Column(("list",))), SCHEMA) == KEEP
    assert skipping_test(IsNull(Column(("st",))), SCHEMA) == KEEP
    assert skipping_test(op("=", "nowhere", 1), SCHEMA) == KEEP


def test_nested_columns_are_looked_up_by_physical_names():
    mapped = Struct(
        (
            Field(
                name="st",
                type=Struct((Field(name="b", type=INTEGER, metadata={PHYSICAL_NAME: "col-2"}),)),
                metadata={PHYSICAL_NAME: "col-1"},
            ),
        )
    )
    assert paths_in(skipping_test(op("=", "st.b", 1), mapped, mode="name")) == {("col-1", "col-2")}
    assert paths_in(skipping_test(op("=", "ST.B", 1), mapped)) == {("st", "b")}
    assert keeps(op("=", "st.b", 1), st__b=(2, 3, 0)) is False


def test_a_collation_other_than_binary_never_skips_by_order():
    def schema(collation):
        return Struct((Field(name="s", type=STRING, metadata={"__COLLATIONS": {"s": collation}}),))

    predicate = op("=", "s", "ABC")
    assert keeps(predicate, schema=schema("spark.UTF8_LCASE"), s=("abc", "abd", 0)) is True
    assert keeps(predicate, schema=schema("icu.UNICODE"), s=("abc", "abd", 0)) is True
    assert keeps(predicate, schema=schema("icu.UNICODE"), s=("abc", "abd", 10)) is False
    assert keeps(predicate, schema=schema("spark.UTF8_BINARY"), s=("abc", "abd", 0)) is False


def test_a_collation_of_a_partition_column_is_left_to_the_engine():
    collated = Struct((Field(name="p", type=STRING, metadata={"__COLLATIONS": {"p": "spark.UTF8_LCASE"}}),))
    test = skipping_test(op("=", "p", "ABC"), collated, ["p"])
    assert may_match(test, None, {"p": "abc"}) is True
    assert (
        may_match(
            skipping_test(op("=", "p", "ABC"), Struct((Field(name="p", type=STRING),)), ["p"]), None, {"p": "abc"}
        )
        is False
    )


def test_bounds_written_for_a_float_column_prove_nothing_once_it_is_double():
    # The log of such a table holds 3.4 for the float 3.4000000953674316.
    widened = Struct(
        (Field(name="x", type=DOUBLE, metadata={"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}),)
    )
    assert keeps(op("=", "x", 3.4000000953674316), schema=widened, x=(3.4, 3.4, 0)) is True


def test_partition_values_are_exact():
    assert keeps(op("=", "p", "a"), partition={"p": "a"}) is True
    assert keeps(op("=", "P", "a"), partition={"p": "b"}) is False
    assert keeps(op("=", "p", "a"), partition={"p": None}) is False
    assert keeps(Not(StartsWith(Column(("p",)), LONG)), partition={"p": LONG}) is False
    assert keeps(IsNull(Column(("p",))), partition={"p": None}) is True
    both = And((op("=", "p", "a"), op("=", "i", 0)))
    assert keeps(both, partition={"p": "a"}, i=(1, 9, 0)) is False
    assert skipping_test(both, SCHEMA, ["P"]).parts[0] == OnPartition(op("=", "p", "a"))


def test_wide_bounds_still_bound():
    wide = Statistics(
        num_records=10, tight_bounds=False, min_values={("i",): 1}, max_values={("i",): 9}, null_count={("i",): 4}
    )
    assert may_match(skipping_test(op(">", "i", 9), SCHEMA), wide) is False
    assert may_match(skipping_test(IsNull(Column(("i",))), SCHEMA), wide) is True
    assert may_match(skipping_test(Not(IsNull(Column(("i",)))), SCHEMA), wide) is True


def test_trees_stay_small():
    assert skipping_test(Constant(None), SCHEMA) == DROP
    assert skipping_test(Or((Unknown("f"), op("=", "i", 1))), SCHEMA) == KEEP
    assert skipping_test(And((op("=", "i", 1), Unknown("f"))), SCHEMA) == Both(
        (HasValues(("i",)), Bound("min", ("i",), "<=", 1), Bound("max", ("i",), ">=", 1))
    )
    assert may_match(skipping_test(op("=", "i", 1), SCHEMA), None) is True
