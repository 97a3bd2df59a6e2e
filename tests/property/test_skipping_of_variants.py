"""Skipping by values inside variants is sound: a file with a row for which the condition is true is kept, whatever it is
cast to. Over columns it keeps the same files as one at a time.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP
from decimal import Decimal as PyDecimal

from hypothesis import event, given
from hypothesis import strategies as st

from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.statistics.skipping import skipping_test
from tahoe.protocol.statistics.stat_tests import may_match
from tahoe.protocol.statistics.stats import Statistics, encode_statistics, parse_statistics
from tahoe.protocol.types import predicate as p
from tahoe.protocol.types.predicate import VALUE, And, Column, Comparison, In, InVariant, Literal, Not, Or, StartsWith
from tahoe.protocol.types.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VARIANT,
    Decimal,
    Field,
    Struct,
)
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import PROTOCOL, add, memory_env, put_commit

SCHEMA = Struct((Field(name="Docs", type=VARIANT),))
MONEY = Decimal(18, 2)
START = datetime(2020, 1, 1, tzinfo=UTC)

# Few values, so that conditions often are at the ends of files.
STORED = {
    LONG: st.sampled_from([-(1 << 63), -129, -1, 0, 1, 127, 128, (1 << 53) + 1, (1 << 63) - 1]),
    MONEY: st.sampled_from(["-1.25", "-0.01", "0.00", "0.10", "0.11", "127.50", "9007199254740993.00"]).map(PyDecimal),
    DOUBLE: st.sampled_from([-math.inf, -0.5, -0.0, 0.0, 0.1, 1.0, math.inf, math.nan]),
    FLOAT: st.sampled_from([-0.5, 0.0, 0.10000000149011612, 1.0, math.nan]),
    STRING: st.one_of(
        st.text("ab", max_size=2),
        st.tuples(st.sampled_from(["x" * 16, "x" * 31, "x" * 32]), st.text("x\x7f\U0010ffff🌍", max_size=3)).map(
            "".join
        ),
    ),
    TIMESTAMP: st.integers(0, 5000).map(lambda micros: START + timedelta(microseconds=micros)),
}
TARGETS = {
    LONG: [LONG, INTEGER, BYTE, DOUBLE, STRING, Decimal(4, 1), Decimal(38, 0)],
    MONEY: [MONEY, Decimal(20, 3), Decimal(4, 1), DOUBLE, LONG, STRING],
    DOUBLE: [DOUBLE, LONG],
    FLOAT: [FLOAT, DOUBLE],
    STRING: [STRING],
    TIMESTAMP: [TIMESTAMP],
}


def cast(value, target):
    """What `try_variant_get` makes of a value: null where it does not fit."""
    if value is None:
        return None
    if target == STRING:
        return f"{value.normalize():f}" if isinstance(value, PyDecimal) else str(value)
    if target == DOUBLE:
        return float(value)
    if isinstance(target, Decimal):
        rounded = PyDecimal(value).quantize(PyDecimal(1).scaleb(-target.scale), ROUND_HALF_UP)
        return rounded if abs(rounded) < 10 ** (target.precision - target.scale) else None
    if target in (LONG, INTEGER, BYTE):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        limit = 1 << {LONG: 63, INTEGER: 31, BYTE: 7}[target]
        return int(value) if -limit <= int(value) < limit else None
    return value


@st.composite
def files(draw, kind):
    """The values of a file's rows, null where the path is missing, and the statistics of a footer of Spark's."""
    values = draw(st.lists(st.one_of(st.none(), STORED[kind]), min_size=1, max_size=4))
    there = [value for value in values if value is not None]
    if any(map(p.is_nan, there)):
        if not draw(st.booleans()):  # most footers have no bounds then; some leave NaN out of them
            there = []
        there = [value for value in there if not p.is_nan(value)]
    low, high = ({"$['k']": (kind, end(there))} if there else {} for end in (min, max))
    statistics = Statistics(num_records=len(values), min_values={("Docs",): low}, max_values={("Docs",): high})
    return values, encode_statistics(statistics, SCHEMA)


@st.composite
def conditions(draw, target, values):
    literals = st.sampled_from([cast(value, target) for value in values if cast(value, target) is not None] or [None])
    if target == STRING and draw(st.booleans()):
        return StartsWith(VALUE, (draw(literals) or "")[: draw(st.integers(0, 40))])
    if draw(st.booleans()):
        return In(VALUE, tuple(draw(st.lists(literals, max_size=3))))
    return Comparison(draw(st.sampled_from(["=", "<=>", "<", "<=", ">", ">="])), VALUE, Literal(draw(literals)))


@st.composite
def cases(draw):
    """Files of one type, a predicate of up to two conditions, and its value for a row."""
    kind = draw(st.sampled_from(list(STORED)))
    found = draw(st.lists(files(kind), min_size=1, max_size=3))
    values = [draw(STORED[kind]), *(value for rows, _ in found for value in rows)]
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        target = draw(st.sampled_from(TARGETS[kind]))
        parts.append((target, draw(conditions(target, values)), draw(st.sampled_from([True, True, False]))))
    return found, parts, draw(st.sampled_from([And, Or]))


def predicate_of(parts, connection):
    inside = [InVariant("docs", Column(("docs",)), ("k",), target, condition) for target, condition, _ in parts]
    return connection(tuple(part if plain else Not(part) for part, (_, _, plain) in zip(inside, parts, strict=True)))


def holds(value, parts, connection):
    """The predicate's value for a row, with what its conditions say of the value after the cast."""
    results = []
    for target, condition, plain in parts:
        named = p.rename(condition, lambda _: Column(("x",)))
        result = p.evaluate(named, {"x": cast(value, target)})
        results.append(result if plain or result is None else not result)
    constants = connection(tuple(map(p.Constant, results)))
    return p.evaluate(constants, {}) is True


@given(cases())
def test_a_file_with_a_matching_row_is_kept(case):
    found, parts, connection = case
    test = skipping_test(predicate_of(parts, connection), SCHEMA)
    for rows, text in found:
        kept = may_match(test, parse_statistics(text, SCHEMA))
        event("kept" if kept else "skipped")
        assert kept or not any(holds(value, parts, connection) for value in rows)


@given(cases())
def test_columnar_skipping_keeps_the_same_files(case):
    found, parts, connection = case
    predicate = predicate_of(parts, connection)
    env = memory_env()
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json())
    put_commit(env, 0, [PROTOCOL, metadata, *(add(f"f{i}", stats=text) for i, (_, text) in enumerate(found))])
    kept = set(load_snapshot(Log(env)).scan(predicate).column("path").to_pylist())
    test = skipping_test(predicate, SCHEMA)
    assert kept == {f"f{i}" for i, (_, text) in enumerate(found) if may_match(test, parse_statistics(text, SCHEMA))}


@given(cases())
def test_the_opposite_of_a_condition_keeps_every_file(case):
    """No other rule looks into a variant, so nothing is known of the rows for which a condition is not true."""
    found, parts, connection = case
    test = skipping_test(p.untrue(predicate_of(parts, connection)), SCHEMA)
    assert all(may_match(test, parse_statistics(text, SCHEMA)) for _, text in found)
