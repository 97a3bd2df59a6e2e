"""The SQL of a layout, as text. tests/spark/test_layout_sql.py runs it."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tahoe.table.arrow.layout import Assigner, Layout, Split, depth, plan_layout
from tahoe.table.arrow.layout_sql import NESTED_LEVELS, leaf_steps

# Four leaves: a < 10 and b < "m"; a < 10 and b >= "m"; a >= 10 (two leaves).
SPLITS = (Split(column=0, bound=0, below=1, above=4), Split(column=1, bound=0, below=2, above=3))
BOUNDS = (pa.array([10], pa.int64()), pa.array(["m"], pa.large_string()))
LAYOUT = Layout(("a", "b"), BOUNDS, SPLITS, (range(1), range(1, 2), range(2, 4)))


def test_the_first_levels_are_nested_conditions() -> None:
    assert leaf_steps(LAYOUT, ["a", "b"], "n", "row") == (
        "if(a >= CAST('10' AS long), -3, if(b >= CAST(X'6d' AS STRING), -2, -1))",
        "cast(get(array(0, 1, 2), -1 - n) + pmod(row, get(array(1, 1, 2), -1 - n)) as int)",
    )


def test_further_levels_are_looked_up_in_arrays() -> None:
    first, second, _ = leaf_steps(LAYOUT, ["a", "b"], "n", "row", nested_levels=1)
    assert first == "if(a >= CAST('10' AS long), -3, 0)"
    assert second == (
        "if(n < 0, n, if(coalesce(b >= get(array(CAST(X'6d' AS STRING)), n), false), get(array(-2), n), "
        "get(array(-1), n)))"
    )


def test_a_leaf_for_each_cell_needs_no_row_number() -> None:
    layout = plan_layout(pa.table({"a": [1, 2]}), 2)
    assert leaf_steps(layout, ["a"], "n", "row") == ("if(a >= CAST('2' AS long), -2, -1)", "-1 - n")
    one = plan_layout(pa.table({"a": [1, 2]}), 1)
    assert leaf_steps(one, ["a"], "n", "row") == ("-1", "-1 - n")


def test_the_text_grows_with_the_leaves_and_not_faster() -> None:
    layout = plan_layout(pa.table({"a": range(4000), "b": [n * 7919 % 4000 for n in range(4000)]}), 1000)
    steps = leaf_steps(layout, ["a", "b"], "n", "row")
    assert len(steps) == depth(layout) - NESTED_LEVELS + 2
    assert sum(map(len, steps)) < 1000 * 60


def test_a_bound_need_not_be_valid_utf8() -> None:
    texts = pa.array([b"a", b"\xc3(", b"\xff\xfe"], pa.binary()).view(pa.string())
    first = leaf_steps(plan_layout(pa.table({"a": texts}), 3), ["a"], "n", "row")[0]
    assert first == "if(a >= CAST(X'c3' AS STRING), if(a >= CAST(X'ff' AS STRING), -3, -2), -1)"


@pytest.mark.parametrize(
    ("value", "kind", "literal"),
    [
        (2**63 - 1, pa.int64(), "CAST('9223372036854775807' AS long)"),
        (-(2**31), pa.int32(), "CAST('-2147483648' AS integer)"),
        (0.1, pa.float64(), "CAST('0.1' AS double)"),
        (math.inf, pa.float64(), "CAST('inf' AS double)"),
        (math.nan, pa.float32(), "CAST('nan' AS float)"),
        (Decimal("-1.50"), pa.decimal128(5, 2), "CAST('-1.50' AS decimal(5,2))"),
        (True, pa.bool_(), "CAST('true' AS boolean)"),
        (datetime.date(1960, 1, 1), pa.date32(), "date_from_unix_date(-3653)"),
        (datetime.datetime(1970, 1, 2), pa.timestamp("us", "UTC"), "timestamp_micros(86400000000)"),
        (
            datetime.datetime(1970, 1, 2),
            pa.timestamp("us"),
            "timestampadd(MICROSECOND, 86400000000, TIMESTAMP_NTZ'1970-01-01 00:00:00')",
        ),
        ("it's \\ 'é", pa.large_string(), "CAST(X'69742773205c2027c3a9' AS STRING)"),
        (b"\x00'", pa.large_binary(), "X'0027'"),
    ],
)
def test_bounds_are_constants_in_any_session(value: Any, kind: pa.DataType, literal: str) -> None:
    layout = Layout(("a",), (pa.array([value], kind),), (Split(0, 0, 1, 2),), (range(1), range(1, 2)))
    assert leaf_steps(layout, ["a"], "n", "row")[0] == f"if(a >= {literal}, -2, -1)"


@pytest.mark.parametrize("nested_levels", [0, 1, 3, NESTED_LEVELS])
@pytest.mark.parametrize("leaves", [1, 2, 13, 100])
def test_the_steps_lead_to_the_leaf_that_arrow_finds(leaves: int, nested_levels: int) -> None:
    """Evaluated by Python, of which the text is almost a part."""
    table = pa.table(
        {"a": [None if n % 10 == 0 else n * 37 % 101 for n in range(200)], "b": [n // 60 for n in range(200)]}
    )
    layout = plan_layout(table, leaves)
    steps = [python(step) for step in leaf_steps(layout, ["a", "b"], "n", "row", nested_levels=nested_levels)]
    assert [evaluate(steps, row, number) for number, row in enumerate(table.to_pylist())] == Assigner(layout).leaves(
        table
    ).tolist()


class Nullable:
    """A column's value, compared as in SQL."""

    def __init__(self, value: int | None) -> None:
        self.value = value

    def __ge__(self, other: int | None) -> bool | None:
        return None if self.value is None or other is None else self.value >= other


FUNCTIONS = {
    "choose": lambda test, yes, no: yes if test else no,
    "coalesce": lambda test, otherwise: otherwise if test is None else test,
    "array": lambda *values: values,
    "get": lambda values, index: values[index] if 0 <= index < len(values) else None,
    "pmod": lambda number, divisor: number % divisor,
    "false": False,
    "NULL": None,
}


def python(step: str) -> str:
    return (
        re.sub(r" as int\)$", ")", re.sub(r"CAST\('(-?\d+)' AS long\)", r"\1", step))
        .replace("if(", "choose(")
        .replace("cast(", "(")
    )


def evaluate(steps: list[str], row: dict[str, int | None], number: int) -> int | None:
    node: int | None = None
    for step in steps:
        node = eval(step, {**FUNCTIONS, "a": Nullable(row["a"]), "b": Nullable(row["b"]), "n": node, "row": number})
    return node
