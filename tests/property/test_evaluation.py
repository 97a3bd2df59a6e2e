"""Conditions on rows in Arrow are what they are on one row after the other, however long their lists are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tahoe
from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.predicate import Column, Comparison, In, Literal, Not
from tahoe.protocol.types.predicate import evaluate as evaluate_row
from tahoe.protocol.types.schema import DATE, DOUBLE, FLOAT, INTEGER, LONG, STRING, TIMESTAMP, Decimal, Field, Struct
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.evaluation import evaluate
from tests.table.builders import PROTOCOL, memory_env, put_commit

NAN = float("nan")
# Of each type: values of columns, values of lists (some are none of the type's), and others that make a list long.
KINDS: dict[Any, tuple[list[Any], list[Any], list[Any]]] = {
    DOUBLE: (
        [0.0, -0.0, NAN, 0.1, float("inf"), 7.0],
        [0.0, -0.0, NAN, 0.1, float("inf"), 7],
        [1000.5 + n for n in range(101)],
    ),
    FLOAT: ([0.0, -0.0, NAN, 0.125, 7.0], [0.0, -0.0, NAN, 0.125, 0.1, 7], [1000.5 + n for n in range(101)]),
    INTEGER: ([0, -1, 7, 2**31 - 1], [0, -1, 7, 2**31, 2**40], [1000 + n for n in range(101)]),
    LONG: ([0, -1, 2**53 + 1], [0, -1, 2**53 + 1], [1000 + n for n in range(101)]),
    Decimal(6, 2): (
        [PyDecimal("0.00"), PyDecimal("1.25"), PyDecimal("-9999.99")],
        [PyDecimal("0"), PyDecimal("1.25"), PyDecimal("1.250"), PyDecimal("1.255"), PyDecimal("12345.6")],
        [PyDecimal(1000 + n) for n in range(101)],
    ),
    STRING: (["", "a", "ü"], ["", "a", "ü"], [f"x{n}" for n in range(101)]),
    DATE: (
        [date(1, 1, 1), date(2026, 1, 31)],
        [date(1, 1, 1), date(2026, 1, 31)],
        [date(1900 + n, 1, 1) for n in range(101)],
    ),
    TIMESTAMP: (
        [datetime(2026, 1, 31, 0, 0, 0, 1, UTC), datetime(1970, 1, 1, tzinfo=UTC)],
        [datetime(2026, 1, 31, 0, 0, 0, 1, UTC), datetime(1970, 1, 1, tzinfo=UTC)],
        [datetime(1900 + n, 1, 1, tzinfo=UTC) for n in range(101)],
    ),
}

memberships = st.sampled_from(list(KINDS)).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.lists(st.one_of(st.none(), st.sampled_from(KINDS[kind][0])), min_size=1, max_size=5),
        st.lists(st.one_of(st.none(), st.sampled_from(KINDS[kind][1])), max_size=5),
        st.booleans(),
    )
)


@given(memberships)
@example((DOUBLE, [-0.0, 0.0], [0.0], True))
@example((DOUBLE, [-0.0, 0.0], [-0.0], True))
@example((DOUBLE, [NAN, None], [NAN, None], True))
@example((Decimal(6, 2), [PyDecimal("1.25")], [PyDecimal("1.255")], True))
def test_a_list_holds_what_it_holds_value_by_value(membership: tuple[Any, list[Any], list[Any], bool]) -> None:
    kind, values, listed, is_long = membership
    candidates = (*listed, *(KINDS[kind][2] if is_long else ()))
    table = pa.table({"c": pa.array(values, arrow_type(kind))})
    for condition in (In(Column(("c",)), candidates), Not(In(Column(("c",)), candidates))):
        assert evaluate(condition, table).to_pylist() == [evaluate_row(condition, {"c": value}) for value in values]


@pytest.mark.parametrize("partition_by", [(), ("c",)])
@pytest.mark.parametrize("listed", [0.0, -0.0, NAN])
def test_a_long_list_keeps_every_file_and_partition_with_one_of_its_values(
    listed: float, partition_by: tuple[str, ...]
) -> None:
    env = memory_env()
    schema = Struct((Field(name="c", type=DOUBLE), Field(name="x", type=INTEGER)))
    put_commit(env, 0, [PROTOCOL, Metadata(id="t", schema_string=schema.to_json(), partition_columns=partition_by)])
    table = tahoe.Table(env.store.url, env=env)
    for number, value in enumerate([0.0, -0.0, NAN, 5.0]):
        table.append(pa.table({"c": [value], "x": pa.array([number], pa.int32())}))
    column, others = Column(("c",)), tuple(1000.5 + n for n in range(101))
    expected = sorted(table.to_arrow(filter=Comparison("=", column, Literal(listed))).column("x").to_pylist())
    assert expected == ([2] if listed != listed else [0, 1])
    assert sorted(table.to_arrow(filter=In(column, (listed, *others))).column("x").to_pylist()) == expected
    text = "double('NaN')" if listed != listed else repr(listed)
    assert (
        sorted(table.to_arrow(filter=f"c IN ({', '.join(map(str, others))}, {text})").column("x").to_pylist())
        == expected
    )
