"""Expressions that are computed without Spark have the values that Spark's have."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tahoe
from tahoe.errors import (
    ColumnNotFoundError,
    DeltaError,
    ExpressionFailedError,
    InvalidArgumentError,
    InvalidPredicateError,
    NeedsSparkError,
)
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.types.schema import STRING, Field, Struct
from tahoe.sql.expressions import parse_expression
from tahoe.sql.predicates import parse_predicate
from tahoe.table.arrow.computation import compute
from tahoe.table.arrow.types import delta_schema
from tahoe.table.reading.evaluation import evaluate
from tests.dml.calls import ARROW_TYPES
from tests.dml.expressions import TARGET, holds
from tests.dml.generator import Generator, _Maker
from tests.dml.model import frozen
from tests.expression_faults import FAULTS, FAULTY
from tests.table.builders import memory_env

UTC = dt.UTC
MOMENT = dt.datetime(2024, 2, 29, 23, 30, tzinfo=UTC)
ROWS = pa.table(
    {
        "i": pa.array([7, -7, None], pa.int32()),
        "n": pa.array([2, 2, 2], pa.int64()),
        "d": pa.array([2.5, float("nan"), None]),
        "f": pa.array([0.5, -0.5, None], pa.float32()),
        "s": ["  Ab%c ", "x_y", None],
        "t": [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None],
        "ts": pa.array([MOMENT, MOMENT, None], pa.timestamp("us", "UTC")),
        "dec": pa.array([Decimal("1.25"), Decimal("-0.05"), None], pa.decimal128(9, 2)),
        "b": [True, False, None],
        "st": [{"a": 1}, {"a": None}, None],
        "digits": ["12", "\t+7 ", None],
        "day": ["2024-1-2", "2024-01-02", None],
    }
)
SCHEMA = delta_schema(ROWS.schema, table="t")


def value(text: str, rows: pa.Table = ROWS, zone: dt.tzinfo = UTC) -> list[Any]:
    found: list[Any] = compute(parse_expression(text, SCHEMA, zone=zone, table="t"), rows).to_pylist()
    return found


@pytest.mark.parametrize("seed", range(40))
def test_conditions_and_values_are_those_of_the_model(seed: int) -> None:
    """The model of DELETE, UPDATE and MERGE says what each expression is, row by row; `tests/spark` shows that Spark
    agrees.
    """
    generator = Generator(f"expressions {seed}")
    shape = generator.shape(partitioned=False)
    rows = [row for file in shape.files for row in file]
    table = pa.table({c.name: pa.array([row[c.name] for row in rows], ARROW_TYPES[c.kind]) for c in shape.schema})
    schema = delta_schema(table.schema, table="t")
    maker = _Maker(random.Random(seed), [(TARGET, "", shape.schema)])
    for _ in range(25):
        condition = maker.condition()
        found = evaluate(parse_predicate(condition.sql(), schema, zone=UTC), table)
        expected = [holds(condition, {TARGET: row}) for row in rows]
        assert pc.fill_null(found, False).to_pylist() == expected, condition.sql()
        for name, assigned in maker.assignments(shape.schema).items():
            computed = compute(parse_expression(assigned.sql(), schema, zone=UTC, table="t"), table).to_pylist()
            wanted = [assigned.value({TARGET: row}) for row in rows]
            kind = next((c.kind for c in shape.schema if c.name == name), "")
            wanted = [float(each) if kind == "double" and each is not None else each for each in wanted]
            computed = [float(each) if kind == "double" and each is not None else each for each in computed]
            assert list(map(frozen, computed)) == list(map(frozen, wanted)), assigned.sql()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + 1", [8, -6, None]),
        ("i * n - 1", [13, -15, None]),
        ("i / n", [3.5, -3.5, None]),
        ("i div n", [3, -3, None]),
        ("i % 4", [3, -3, None]),
        ("-i", [-7, 7, None]),
        ("abs(i)", [7, 7, None]),
        ("dec + 1", [Decimal("2.25"), Decimal("0.95"), None]),
        ("dec * 0.5", [Decimal("0.625"), Decimal("-0.025"), None]),
        ("floor(f)", [0, -1, None]),
        ("ceil(f)", [1, 0, None]),
        ("floor(cast('NaN' as double)) + ceil(sqrt(-1D))", [0] * 3),
        ("floor(i * 1e300D)", [2**63 - 1, -(2**63), None]),
        ("ceil(i * 9e18D)", [2**63 - 1, -(2**63), None]),
        ("round(2.675D, 2)", [2.68, 2.68, 2.68]),
        ("round(i * 1e30D + 0.25D, 2)", [7e30, -7e30, None]),
        ("round(1e308D, 400) + round(1e308D, -400)", [1e308] * 3),
        ("cast(i * 1e20D as decimal(38,15))", [Decimal("7E20"), Decimal("-7E20"), None]),
        ("cast(2.7D as int)", [2, 2, 2]),
        ("cast(f as string) is null", None),
        ("cast(i as string)", ["7", "-7", None]),
        ("cast(b as string)", ["true", "false", None]),
        ("cast(digits as int)", [12, 7, None]),
        ("cast(day as date)", [dt.date(2024, 1, 2), dt.date(2024, 1, 2), None]),
        ("cast(dec as decimal(4,1))", [Decimal("1.3"), Decimal("-0.1"), None]),
        ("cast(dec as int)", [1, 0, None]),
        ("cast(d as decimal(4,1))", None),
        ("upper('Straße ﬁ')", ["STRASSE FI"] * 3),
        ("lower('İ') || lower(s)", ["i\u0307  ab%c ", "i\u0307x_y", None]),
        ("cast(digits as double) = n + 5", [False, True, None]),
        ("t - cast(-128 as tinyint)", [dt.date(2024, 7, 6), dt.date(1970, 5, 8), None]),
        ("null = null", [None] * 3),
        ("null <=> null", [True] * 3),
        ("round(i, -1)", None),
        ("cast(dec as string)", None),
        ("cast(ts as string)", None),
        ("exp(d)", None),
        ("s like 'a\\\\b'", None),
        ("s like 'ab\\\\'", None),
        ("cast('0x10' as int)", None),
        ("trim(s)", ["Ab%c", "x_y", None]),
        ("lower(ltrim(s)) || '!'", ["ab%c !", "x_y!", None]),
        ("length(s)", [7, 3, None]),
        ("substring(s, 3, 2)", ["Ab", "y", None]),
        ("substring(s, -3)", ["%c ", "x_y", None]),
        ("substring(s, -3, 2)", ["%c", "x_", None]),
        ("substring(s, -5, 3)", ["Ab%", "x", None]),
        ("s like '%b\\\\%%'", [True, False, None]),
        ("s like '_!_y' escape '!'", [False, True, None]),
        ("s ilike '%aB%'", [True, False, None]),
        ("s rlike '^x.y$'", [False, True, None]),
        ("contains(s, 'b%')", [True, False, None]),
        ("endswith(s, 'y')", [False, True, None]),
        ("year(t) * 100 + month(t)", [202402, 196912, None]),
        ("day(ts)", [29, 29, None]),
        ("hour(ts)", [23, 23, None]),
        ("date_add(t, 1)", [dt.date(2024, 3, 1), dt.date(1970, 1, 1), None]),
        ("date_sub(t, 1)", [dt.date(2024, 2, 28), dt.date(1969, 12, 30), None]),
        ("t + 1", [dt.date(2024, 3, 1), dt.date(1970, 1, 1), None]),
        ("datediff(t, date'1970-01-01')", [19782, -1, None]),
        ("cast(ts as date)", [dt.date(2024, 2, 29)] * 2 + [None]),
        ("cast(t as timestamp)", [dt.datetime(2024, 2, 29, tzinfo=UTC), dt.datetime(1969, 12, 31, tzinfo=UTC), None]),
        ("coalesce(i, n, 0)", [7, -7, 2]),
        ("nullif(i, 7)", [None, -7, None]),
        ("if(i > 0, 'up', 'down')", ["up", "down", "down"]),
        ("case i when 7 then 'seven' when -7 then 'minus' end", ["seven", "minus", None]),
        ("greatest(i, n, null)", [7, 2, 2]),
        ("least(d, 3)", [2.5, 3.0, 3.0]),
        ("greatest(d, 3)", [3.0, float("nan"), 3.0]),
        ("greatest(i, '3')", None),
        ("least(null, s, d)", None),
        ("st.a", [1, None, None]),
        ("named_struct('x', i, 'y', s).x", None),
        ("i in (n + 5, 1)", [True, False, None]),
        ("i not between n and 9", [False, True, None]),
        ("(i > 0) is true", [True, False, False]),
        ("i <=> null", [False, False, True]),
        ("bigint(i)", [7, -7, None]),
        ("cast(digits as binary)", [b"12", b"\t+7 ", None]),  # it was trimmed as a number
        ("cast(dec as boolean)", [True, True, None]),
        ("cast(if(i > 0, ' Yes', 'f') as boolean)", [True, False, False]),
        ("-null is null", [True] * 3),
        ("concat('\u0130', s) ilike '__%'", [True, True, None]),  # in lower case a letter of one character has two
        ("concat(s, '\\n') rlike 'y$'", [False, True, None]),  # as in Java, before the last end of a line
        ("concat(s, '\\r') rlike 'y.'", [False, False, None]),
        ("s rlike '[a-z&&[^b]]'", None),
    ],
)
def test_functions(text: str, expected: list[Any] | None) -> None:
    if expected is None:  # it is refused rather than computed otherwise than Spark computes it
        with pytest.raises((DeltaError, ArithmeticError, ValueError)):
            value(text)
    else:
        assert list(map(frozen, value(text))) == list(map(frozen, expected))


@pytest.mark.parametrize(
    ("text", "date", "timestamp"),
    [
        ("2024", "2024-01-01", "2024-01-01T00:00:00"),
        ("\t2024-3\x01", "2024-03-01", "2024-03-01T00:00:00"),
        ("2024-02-29 7", "2024-02-29", "2024-02-29T07:00:00"),
        ("2024-02-29 12:00:00.", "2024-02-29", "2024-02-29T12:00:00"),
        ("2024-02-29 12:00:00.123456789123", "2024-02-29", "2024-02-29T12:00:00.123456"),
        ("2024-02-29 25:00", "2024-02-29", None),
        ("2024-02-29T", "2024-02-29", None),
        ("2024-02-29Z", None, None),
        ("2024-02-29 12:", "2024-02-29", None),
        ("2024-", None, None),
        ("123", None, None),
        ("\u00a02024", None, None),
        ("\u0662\u0660\u0662\u0664", None, None),
    ],
)
def test_texts_are_dates_and_timestamps_as_in_spark(text: str, date: str | None, timestamp: str | None) -> None:
    """Parts that a text leaves out are the first ones, also beside a column; a text that is none is refused."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"s": [text]}))
    for kind, expected in (("date", date), ("timestamp", timestamp), ("timestamp_ntz", timestamp)):
        if expected is None:
            with pytest.raises(ExpressionFailedError):
                table.count(f"cast(s as {kind}) is null")
        else:
            assert table.count(f"cast(s as {kind}) = '{expected}'") == 1, kind


def test_a_constant_is_padded_for_a_char_column_wherever_it_is_compared() -> None:
    """Inside of CASE, IF and functions it was compared without its blanks."""
    table = tahoe.Table("/t", env=memory_env())
    fields = (Field(name="c", type=STRING, metadata={TEXT_TYPE: "char(3)"}), Field(name="s", type=STRING))
    table.create(Struct(fields))
    table.append(pa.table({"c": ["a", "b", None], "s": ["a", "b", None]}))
    for condition in (
        "if(c = 'a', true, false)",
        "case c when 'a' then true end",
        "nullif(c, 'a') is null and c is not null",
        "('a' = c) is true",
    ):
        assert table.to_arrow(["s"], condition)["s"].to_pylist() == ["a"], condition
    lists = {
        "c in ('a', 'a  ')": 1,
        "c in ('a', upper('x'))": 1,
        "c in ('a', s)": 0,
        "'a' in (c)": 0,
        "'a' in (c, s)": 1,
    }
    assert {condition: table.count(condition) for condition in lists} == lists, "Spark pads no constant beside columns"


@pytest.mark.parametrize(
    "text",
    [
        "i + 2147483647",
        "n * 9223372036854775807",
        "-2147483648 - i",
        "cast(if(i > 0, '0x10', '1') as int)",
        "i / (n - 2)",
        "i % (n - 2)",
        "cast(s as int)",
        "cast(d as int)",
        "cast(300 + i as tinyint)",
    ],
)
def test_what_ansi_mode_refuses_is_an_error(text: str) -> None:
    """A result that is too large wraps around, or a division by zero gives infinity, which Spark never stores."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(ROWS)
    with pytest.raises(ExpressionFailedError):
        table.to_arrow(filter=f"({text}) is not null")


def test_a_condition_guards_what_stands_behind_it() -> None:
    """As in Spark, a division is not computed for rows for which a condition before it is false."""
    assert value("n <> 2 and i / (n - 2) > 1") == [False] * 3
    assert value("n = 2 or i / (n - 2) > 1") == [True] * 3
    assert value("case when n = 2 then 0 else i / (n - 2) end") == [0.0] * 3
    assert value("coalesce(n, 1 / (n - 2))") == [2.0] * 3
    table = tahoe.Table("/t", env=memory_env())
    table.append(ROWS)
    assert table.count("n <> 2 and i / (n - 2) > 1") == 0


def test_local_times_are_those_of_the_zone() -> None:
    berlin = ZoneInfo(
        "Europe/Berlin"
    )  # clocks go from 2 to 3, so that 2:30 is 3:30; later from 3 to 2, so that 2:30 is there twice
    moments = [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30), dt.datetime(2024, 7, 1, 2, 30), None]
    rows = pa.table({"moment": pa.array(moments, pa.timestamp("us"))})
    cast = parse_expression("cast(moment as timestamp)", delta_schema(rows.schema, table="t"), zone=berlin, table="t")
    assert compute(cast, rows).to_pylist() == [each and each.replace(tzinfo=berlin).astimezone(UTC) for each in moments]
    zone = dt.timezone(dt.timedelta(hours=2))
    assert value("hour(ts)", zone=zone) == [1, 1, None]
    assert value("cast(ts as date)", zone=zone) == [dt.date(2024, 3, 1)] * 2 + [None]


def test_local_times_beside_moments_are_cast_to_moments() -> None:
    """At a change of clocks 2:30 is 3:30, but the moment was compared as local time, in which it is later than 2:30."""
    table = tahoe.Table("/t", env=memory_env(), time_zone="Europe/Berlin")
    hours = [dt.datetime(2024, 3, 31, hour, 30) for hour in (1, 2, 3)]
    for each in hours:
        table.append(pa.table({"at": pa.array([each], pa.timestamp("us"))}))
    assert sorted(table.to_arrow(filter="at = TIMESTAMP'2024-03-31 01:30:00Z'")["at"].to_pylist()) == hours[1:]
    assert table.count("at < TIMESTAMP'2024-03-31 02:30:00'") == 1
    assert table.count("at IN (TIMESTAMP'2024-03-31 02:30:00', NULL)") == 2
    assert table.count([("at", "<", hours[1].replace(tzinfo=ZoneInfo("Europe/Berlin")))]) == 1
    assert table.count("NOT (at = TIMESTAMP'2024-03-31 01:30:00Z')") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("frobnicate(i) = 1", "frobnicate"),
        ("i = s.x", "no column"),
        ("sum(i) > 1", "SUM"),
        ("st = st", "compares"),
        ("i + s > 1", "numbers"),
    ],
)
def test_what_only_spark_computes_is_refused_with_its_name(text: str, said: str) -> None:
    with pytest.raises((InvalidPredicateError, ColumnNotFoundError), match=said):
        parse_predicate(text, SCHEMA, zone=UTC)


# --- the kinds of filters


@pytest.fixture
def table() -> tahoe.Table:
    table = tahoe.Table("/t", env=memory_env())
    for start in (0, 100):
        table.append(
            pa.table(
                {"n": list(range(start, start + 10)), "s": [f"n{i}" for i in range(10)], "d": [float("nan"), *range(9)]}
            )
        )
    return table


def test_tuples(table: tahoe.Table) -> None:
    assert table.count([("n", ">", 5), ("n", "<", 102)]) == 6
    assert table.count([[("n", "=", 5)], [("n", "==", 102), ("s", "=", "n2")]]) == 2
    assert table.count([("n", "in", [1, 2, 500]), ("s", "!=", "n1")]) == 1
    assert table.count([("s", "not in", ["n1"])]) == 18
    assert table.files([("n", ">=", 100)]).num_rows == 1
    with pytest.raises(ColumnNotFoundError):
        table.count([("none", "=", 1)])
    with pytest.raises(InvalidPredicateError, match="expected ="):
        table.count([("n", "~", 1)])
    with pytest.raises(InvalidArgumentError):
        table.count([("n", ">")])  # type: ignore[list-item]


def test_tuples_with_values_of_numpy_and_pandas(table: tahoe.Table) -> None:
    """A float64 of NumPy and a NaT of pandas raised errors of Python."""
    assert table.count([("d", "=", np.float64(1.0))]) == 2
    assert table.count([("d", ">", np.float32(7.5)), ("n", "<", np.int64(100))]) == 2
    assert table.count([("n", "in", np.array([1, 2, 500]))]) == 2
    assert table.count([("d", "in", np.array([np.nan, 0.0]))]) == 4
    table.append(pa.table({"ts": [dt.datetime(2026, 1, 1)]}), merge_schema=True)
    assert table.count([("ts", "=", pd.Timestamp("2026-01-01"))]) == 1
    assert table.count([("ts", "!=", pd.NaT)]) == 0
    assert table.count([("ts", "in", [pd.NaT, pd.Timestamp("2026-01-01")])]) == 1


def test_conditions_of_arrow(table: tahoe.Table) -> None:
    """Files are skipped by them, and values are compared as Arrow compares them: NaN is not above all numbers."""
    assert table.count(pc.field("n") > 105) == 4
    assert table.files(pc.field("n") > 105).num_rows == 1
    assert table.files((pc.field("n") > 105) & (pc.field("s") == "n1")).num_rows == 1
    assert table.count((pc.field("d") > 7) | (pc.field("n") == 1)) == 3
    assert table.count(pc.field("d") > 7) == 2
    assert table.count("d > 7") == 4
    assert table.count(~pc.field("n").isin([1, 2])) == 18
    assert table.count(pc.field("n") == 5.0) == 1
    assert table.count(pc.starts_with(pc.field("s"), "n1")) == 2
    with pytest.raises(InvalidPredicateError, match="none"):
        table.count(pc.field("none") == 1)
    with pytest.raises(InvalidPredicateError, match="not bool"):
        table.count(pc.field("n") + 1)


def test_what_skipping_does_not_know_keeps_files(table: tahoe.Table) -> None:
    assert table.files("n % 2 = 1").num_rows == 2
    assert table.files("n > 100 and n % 2 = 1").num_rows == 1
    assert table.files("not (n % 2 = 1)").num_rows == 2
    assert table.count("n > 100 and n % 2 = 1") == 5
    assert table.count("s like '%3' or n % 50 = 0") == 4
    assert table.files("s like 'zz%z'").num_rows == 0


def test_partitions_are_filtered_by_functions_too() -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"n": [1, 2], "day": [dt.date(2024, 1, 1), dt.date(2025, 1, 1)]}), partition_by=["day"])
    assert table.to_arrow(["n"], "year(day) = 2025")["n"].to_pylist() == [2]
    assert table.to_arrow(["n"], pc.field("day") == dt.date(2025, 1, 1))["n"].to_pylist() == [2]


def test_what_stands_behind_a_null_is_not_computed() -> None:
    """As in Spark: a fault in rows that it does not look at failed the statement."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"n": pa.array([None, 1], pa.int64()), "z": [0, 1], "s": ["x", "5"]}))
    for text in (
        "n + 1 / z > 0",
        "n = cast(s as int) - 4",
        "(cast(s as int) - 4) % n = 0",
        "1 / z / n > 0",
        "n < 9 / z",
    ):
        assert table.count(text) == 1, text
    for text in ("1 / z + n > 0", "n % (cast(s as int) - 4) = 0", "n is null and 1 / z > 0"):
        with pytest.raises(ExpressionFailedError):
            table.count(text)


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_has_the_condition_that_spark_has_for_it(text: str) -> None:
    """Programs catch by it; `tests/spark/test_expressions.py` asks Spark."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(FAULTY)
    for compute_it in (
        lambda: table.count(f"({text}) is not null"),
        lambda: table.update({"s": f"cast(({text}) is null as string)"}),
    ):
        with pytest.raises(ExpressionFailedError) as raised:
            compute_it()
        assert raised.value.condition == FAULTS[text]


def test_what_only_spark_computes_is_no_invalid_predicate() -> None:
    """It is valid SQL: 42601 told of a syntax error."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"id": [1], "t": ["a"], "l": [[1]]}))
    for refused in (
        lambda: table.update({"l": "array(id)"}),
        lambda: table.count("reverse(t) = 'a'"),
        lambda: table.delete("l = l"),
    ):
        with pytest.raises(NeedsSparkError) as raised:
            refused()
        assert raised.value.sqlstate == "0A000"
