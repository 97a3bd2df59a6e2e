"""Partition columns of every type answer aggregations and order rows as their rows do, whatever their values look like
in the log.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.statistics.answers import Aggregate, Question
from tahoe.protocol.statistics.limits import Order, RowLimit
from tahoe.protocol.types.predicate import TRUE, Column, Comparison, In, IsNull, Literal, Not, evaluate, order
from tahoe.protocol.types.schema import LONG, Field, Struct, parse_type
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.answers import answer, measures_of
from tahoe.table.reading.limits import needed
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import add, memory_env, put_commit

# For each type, values as they stand in the log, and what they are; null is drawn as well.
VALUES = {
    "string": {"a": "a", "Ä": "Ä", "": None, "\uffff": "\uffff", "\U0010ffff": "\U0010ffff", "z" * 40: "z" * 40},
    "byte": {"-128": -128, "127": 127},
    "integer": {"1": 1, "007": 7, "-5": -5, "2147483647": 2**31 - 1},
    "long": {"0": 0, str(2**63 - 1): 2**63 - 1, str(-(2**63)): -(2**63)},
    "boolean": {"true": True, "false": False},
    "date": {
        "2026-01-01": date(2026, 1, 1),
        "0001-01-01": date(1, 1, 1),
        "1582-10-10": date(1582, 10, 10),
        "9999-12-31": date.max,
    },
    "timestamp": {
        "2026-01-01 00:00:00": datetime(2026, 1, 1, tzinfo=UTC),
        "2026-01-01T00:00:00.000001Z": datetime(2026, 1, 1, 0, 0, 0, 1, UTC),
        "1600-02-29 12:00:00.5": datetime(1600, 2, 29, 12, 0, 0, 500_000, UTC),
    },
    "timestamp_ntz": {
        "2026-01-01 00:00:00": datetime(2026, 1, 1),
        "1890-01-01 00:00:00.123456": datetime(1890, 1, 1, 0, 0, 0, 123_456),
    },
    "decimal(5,2)": {"1": Decimal(1), "1.00": Decimal(1), "-2.5": Decimal("-2.5")},
    "decimal(38,10)": {
        "1.5": Decimal("1.5"),
        "-99999999999999999999.123456789": Decimal("-99999999999999999999.123456789"),
    },
    "double": {"NaN": math.nan, "-0.0": -0.0, "0.0": 0.0, "1.0E300": 1e300, "-Infinity": -math.inf},
}
Q = Column(("q",))
PROTOCOL = Protocol(
    reader_version=3,
    writer_version=7,
    reader_features=frozenset({"timestampNtz"}),
    writer_features=frozenset({"timestampNtz"}),
)


@st.composite
def tables(draw, kind):
    """The scan of a table for a condition, the condition, and for each path the value of its rows that satisfy it, once
    for each row.
    """
    texts = {**VALUES[kind], None: None}
    files, rows = [], {}
    for number in range(draw(st.integers(1, 5))):
        text, count = draw(st.sampled_from(list(texts))), draw(st.integers(0, 3))
        stats = draw(st.sampled_from([json.dumps({"numRecords": count})] * 4 + [None]))
        files.append(add(f"f{number}", stats=stats, partition_values={"q": text}))
        rows[f"f{number}"] = [texts[text]] * count
    literal = draw(st.sampled_from(list(texts.values())))
    compared = Comparison(draw(st.sampled_from(["=", "<=>", "<", "<=", ">", ">="])), Q, Literal(literal))
    condition = draw(
        st.sampled_from(
            [
                TRUE,
                TRUE,
                compared,
                Not(compared),
                IsNull(Q),
                Not(IsNull(Q)),
                In(Q, (literal, None)),
                Not(In(Q, (literal,))),
            ]
        )
    )
    schema = Struct((Field(name="x", type=LONG), Field(name="q", type=parse_type(kind))))
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, Metadata(id="t", schema_string=schema.to_json(), partition_columns=("q",)), *files])
    scan = load_snapshot(Log(env)).scan(None if condition == TRUE else condition)
    return (
        scan,
        condition,
        {path: [v for v in values if evaluate(condition, {"q": v}) is True] for path, values in rows.items()},
    )


def of_files(scan: Scan, rows: dict[str, list[object]]) -> list[object]:
    return [value for path in scan.column("path").to_pylist() for value in rows[path]]


def in_order(values: list[object], how: Order) -> list[object]:
    known = sorted((v for v in values if v is not None), key=cmp_to_key(order), reverse=how.is_descending)
    nulls = [v for v in values if v is None]
    return [*nulls, *known] if how.has_nulls_first else [*known, *nulls]


def are_equal(one: object, other: object) -> bool:
    return one is other if one is None or other is None else order(one, other) == 0


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_the_files_of_a_limit_have_the_first_rows(kind, data):
    scan, condition, rows = data.draw(tables(kind))
    limit = RowLimit(
        data.draw(st.sampled_from([1, 2, 5])),
        Order(("q",), data.draw(st.booleans()), data.draw(st.booleans())),
        condition,
    )
    found, everything = (
        in_order(of_files(files, rows), limit.order)[: limit.rows] for files in (needed(limit, scan), scan)
    )
    assert len(found) == len(everything)
    assert all(map(are_equal, found, everything))


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_answers_are_those_of_the_rows(kind, data):
    scan, condition, rows = data.draw(tables(kind))
    ends = data.draw(st.sampled_from([(), (Aggregate("min", (("q",),)), Aggregate("max", (("q",),)))]))
    question = Question(
        (Aggregate("count"), Aggregate("count", (("q",),)), *ends), data.draw(st.sampled_from([(), ("q",)])), condition
    )
    if measures_of(question, scan) is None:
        assert kind == "double"
        return
    found = answer(question, scan)
    left = set(found.left.column("path").to_pylist())
    values = [value for path, inside in rows.items() if path not in left for value in inside]
    groups = found.rows.to_pylist()
    for row in groups:
        same = [v for v in values if not question.keys or are_equal(v, row["q"])]
        known = sorted((v for v in same if v is not None), key=cmp_to_key(order))
        alike = [
            group for group in groups if not question.keys or are_equal(group["q"], row["q"])
        ]  # Spark joins the two zeros
        assert (sum(group["0"] for group in alike), sum(group["1"] for group in alike)) == (len(same), len(known))
        assert not ends or (row["2"], row["3"]) == ((known[0], known[-1]) if known else (None, None))
    assert sum(found.rows["0"].to_pylist()) == len(values), "a group is missing"


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_each_value_counts_once(kind, data):
    """Values whose texts differ, such as `1` and `01`, are one value; null is none."""
    scan, condition, rows = data.draw(tables(kind))
    question = Question((Aggregate("count_distinct", (("q",),)),), condition=condition)
    if measures_of(question, scan) is None:
        assert kind == "double"
        return
    found = answer(question, scan)
    left = set(found.left.column("path").to_pylist())
    known = sorted(
        (v for path, inside in rows.items() if path not in left for v in inside if v is not None), key=cmp_to_key(order)
    )
    different = sum(number == 0 or not are_equal(known[number - 1], value) for number, value in enumerate(known))
    assert found.rows.to_pylist() == [{"0": different}]
