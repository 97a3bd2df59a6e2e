"""Literals at and beyond the ends of types are compared by their exact values; no call ends in an error of Arrow or
Python.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import DeltaError, SchemaMismatchError
from tests.property.ends_of_types import COLUMNS, DATA, EXACT_NUMBERS, INTEGERS, NUMBERS, PYTHON_VALUES, literals
from tests.table.builders import memory_env

OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
EXACT_COLUMNS = [name for name in NUMBERS if name not in ("f", "x")]


def ends() -> tahoe.Table:
    table = tahoe.Table("memory://ends", env=memory_env())
    table.append(DATA)
    return table


@pytest.fixture(scope="module")
def table() -> tahoe.Table:
    return ends()


@pytest.mark.parametrize("column", EXACT_COLUMNS)
def test_exact_numbers_are_compared_exactly(table: tahoe.Table, column: str) -> None:
    """In SQL, an integer beside a decimal that no LONG reaches is compared as in Spark: true or false, also where it is
    NULL.
    """
    for text in EXACT_NUMBERS:
        number = Decimal(text.removesuffix("BD"))
        for symbol, holds in OPERATORS.items():
            expected = [
                k for k, value in enumerate(COLUMNS[column][1]) if value is not None and holds(Decimal(value), number)
            ]
            assert table.to_arrow(["k"], filter=[(column, symbol, number)])["k"].to_pylist() == expected, (
                column,
                symbol,
                text,
            )
            folded = column in INTEGERS and symbol != "=" and not -(1 << 63) <= number < 1 << 63 and holds(0, number)
            found = table.to_arrow(["k"], filter=f"{column} {symbol} {text}")["k"].to_pylist()
            assert found == ([0, 1, 2, 3] if folded else expected), (column, symbol, text)
            turned = symbol.translate(str.maketrans("<>", "><"))
            assert table.to_arrow(["k"], filter=f"{text} {turned} {column}")["k"].to_pylist() == found, (
                column,
                symbol,
                text,
            )
        assert table.count(f"{column} IN ({text}, 0)") == len(
            {v for v in COLUMNS[column][1] if v is not None and v in (number, 0)}
        )


@pytest.mark.parametrize(
    "text", ["CAST(9223372036854775808 AS DECIMAL(20, 0))", "9223372036854775807 + 1BD", "1e30", "9223372036854775808D"]
)
def test_only_a_decimal_that_stands_there_as_such_decides_for_nulls(table: tahoe.Table, text: str) -> None:
    for column in INTEGERS:
        found = [table.count(f"{column} {symbol} {text}") for symbol in OPERATORS]
        assert found == [0, 3, 3, 0, 0], (column, text)
    assert table.count("l BETWEEN 0 AND 9223372036854775808") == 2
    assert table.count("NOT (l + 0 > 9223372036854775808)") == 4


def test_moments_outside_of_pythons_calendar_are_compared(table: tahoe.Table) -> None:
    for column in ("dt", "ts", "ntz"):
        for text, is_late in {"+10000-01-01": True, "-0044-03-15": False}.items():
            for literal in (f"'{text}'", f"DATE'{text}'", f"TIMESTAMP'{text}'", f"TIMESTAMP_NTZ'{text}'"):
                assert table.count(f"{column} < {literal}") == (3 if is_late else 0), (column, literal)
                assert table.count(f"{column} >= {literal} OR {column} <=> {literal}") == (0 if is_late else 3), (
                    column,
                    literal,
                )
    late, early = (
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    )
    assert [table.count([("ts", "<", late)]), table.count([("ts", "<=", early)]), table.count([("dt", "<", late)])] == [
        3,
        0,
        3,
    ]


def test_a_finite_number_beyond_the_doubles_is_no_infinity() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(pa.table({"x": [float("inf"), float("-inf"), 1.0]}))
    huge = 10**400
    assert [table.count([("x", symbol, huge)]) for symbol in ("=", "<", ">")] == [0, 2, 1]
    assert [table.count([("x", symbol, -huge)]) for symbol in ("=", "<", ">")] == [0, 1, 2]
    with pytest.raises(DeltaError, match="larger than every DOUBLE"):
        table.update({"x": "1E400"})


@pytest.mark.parametrize(
    ("given_type", "value"),
    [(pa.decimal128(38, 0), Decimal(2**31)), (pa.int64(), 2**63 - 1), (pa.decimal128(38, 37), Decimal(2))],
)
def test_a_number_that_a_decimal_has_no_place_for_is_refused(given_type: pa.DataType, value: Any) -> None:
    # Arrow's own cast stores 0.6016... for 2147483648.
    table = tahoe.Table("memory://t", env=memory_env())
    table.create(pa.schema([("d", pa.decimal128(38, 38))]))
    with pytest.raises(SchemaMismatchError):
        table.append(pa.table({"d": pa.array([value], given_type)}))
    table.append(pa.table({"d": pa.array([Decimal("0.5")], pa.decimal128(38, 38))}))
    for text in ("2147483648", "-9223372036854775808", "'1'"):
        with pytest.raises(DeltaError):
            table.update({"d": text})
    assert table.to_arrow()["d"].to_pylist() == [Decimal("0.5")]


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        ((38, 0), f"'{'9' * 38}'", Decimal("9" * 38)),
        ((38, 0), f"'{'9' * 39}'", None),
        ((38, 0), "0.99999999999999999999999999999999999999", Decimal(1)),
        ((38, 0), "9999999999999999999999999999.5", Decimal(10**28)),
        ((5, 2), "0.9999999999999999999999999999999999999", Decimal("1.00")),
        ((5, 2), "999.994", Decimal("999.99")),
        ((5, 2), "999.995", None),
        ((5, 2), "CAST('NaN' AS DOUBLE)", None),
    ],
)
def test_numbers_are_rounded_to_decimals_as_spark_rounds_them_or_refused(
    kind: tuple[int, int], text: str, stored: Decimal | None
) -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(pa.table({"d": pa.array([Decimal(0)], pa.decimal128(*kind))}))
    if stored is None:
        with pytest.raises(DeltaError):
            table.update({"d": text})
    else:
        table.update({"d": text})
        assert table.to_arrow()["d"].to_pylist() == [stored]


CALLS = {
    "count": lambda table, column, literal: table.count(f"{column} <=> {literal}"),
    "in": lambda table, column, literal: table.count(f"{column} NOT IN ({literal}, {literal})"),
    "computed": lambda table, column, literal: table.count(f"{column} < coalesce({literal}, {column})"),
    "rows": lambda table, column, literal: table.to_arrow(filter=f"NOT ({column} >= {literal})"),
    "delete": lambda table, column, literal: table.delete(f"{column} BETWEEN {literal} AND {literal}"),
    "overwrite": lambda table, column, literal: table.overwrite(DATA.slice(0, 0), filter=f"{column} <= {literal}"),
    "update": lambda table, column, literal: table.update({column: literal}),
    "update where": lambda table, column, literal: table.update({"k": "k + 1"}, f"{column} > {literal}"),
    "merge": lambda table, column, literal: (
        table.merge(DATA, f"target.k = source.k AND target.{column} < {literal}")
        .when_matched_update({column: literal})
        .execute()
    ),
}
OF_VALUES = {
    "count": lambda table, column, value: [table.count([(column, symbol, value)]) for symbol in OPERATORS],
    "in": lambda table, column, value: [table.count([(column, symbol, [value, value])]) for symbol in ("in", "not in")],
    "delete": lambda table, column, value: table.delete([(column, "<", value)]),
    "overwrite": lambda table, column, value: table.overwrite(DATA.slice(0, 0), filter=[(column, "!=", value)]),
    "append": lambda table, column, value: table.append([{"k": 9, column: value}]),
    "update": lambda table, column, value: table.update({column: value}),
}


@given(st.sampled_from(sorted(COLUMNS)), st.sampled_from(sorted(CALLS)), st.data())
def test_a_literal_is_answered_or_refused_by_an_error_of_ours(column: str, call: str, data: st.DataObject) -> None:
    with suppress(DeltaError):
        CALLS[call](ends(), column, data.draw(st.sampled_from(literals(column))))


@given(st.sampled_from(sorted(COLUMNS)), st.sampled_from(sorted(OF_VALUES)), st.sampled_from(range(len(PYTHON_VALUES))))
def test_a_value_of_python_is_answered_or_refused_by_an_error_of_ours(column: str, call: str, number: int) -> None:
    with suppress(DeltaError):
        OF_VALUES[call](ends(), column, PYTHON_VALUES[number])


def test_what_arrow_cannot_compute_is_told_by_an_error_of_ours(table: tahoe.Table) -> None:
    import pyarrow.compute as pc  # noqa: PLC0415 - the only use

    with pytest.raises(DeltaError, match="cannot be computed"):
        table.count(pc.divide(pc.field("l"), 0) > 1)


def test_long_texts_are_skipped_by_as_many_prefixes_as_statistics_have(table: tahoe.Table) -> None:
    # The prefixes of a text of 100,000 characters have five billion of them.
    assert table.count(f"t < '{'z' * 100_000}'") == 2
    assert table.count([("t", ">", "z" * 100_000)]) == 1


def test_utc_is_where_moments_with_zones_are_compared(table: tahoe.Table) -> None:
    assert table.count([("ts", "=", datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))]) == 1
    assert table.count([("ts", "=", datetime(1970, 1, 1, tzinfo=UTC))]) == 1
