"""Random rows, and predicates over their columns."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as PyDecimal

from hypothesis import strategies as st

from tahoe.protocol.statistics.stats import Statistics, has_bounds
from tahoe.protocol.types.partitions import single_precision
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
    order,
)
from tahoe.protocol.types.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Struct,
)

# Few values, so that rows, bounds and literals meet.
NUMBERS = st.sampled_from([-2.5, -0.0, 0.0, 1.0, 1.1, 3.4, 1e300, math.nan, math.nan, math.inf, -math.inf])

LONG_STEM = "stem of more than sixteen characters, and some more"

TEXTS = st.sampled_from(["", "a", "b", "ab", "a\x7f", "\ue000", "\U0001f600", "\U0010ffff"]) | st.sampled_from(
    [LONG_STEM[:cut] + tail for cut in (16, 32, 33, 34) for tail in ("", "\U0010ffff")]
)

MOMENTS = st.builds(
    lambda millis, micros: datetime(1970, 1, 1) + timedelta(milliseconds=millis, microseconds=micros),
    st.integers(-3, 3),
    st.integers(0, 1001),
)

VALUES = {
    "i": (INTEGER, st.integers(-3, 3)),
    "f": (FLOAT, NUMBERS.map(single_precision)),
    "x": (DOUBLE, NUMBERS),
    "dec": (Decimal(5, 2), st.integers(-5, 5).map(lambda n: PyDecimal(n) / 4)),
    "s": (STRING, TEXTS),
    "day": (DATE, st.integers(-3, 3).map(lambda n: date(1970, 1, 1) + timedelta(days=n))),
    "ts": (TIMESTAMP, MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "ntz": (TIMESTAMP_NTZ, MOMENTS),
    "flag": (BOOLEAN, st.booleans()),
}

SCHEMA = Struct(
    (
        *(Field(name=name, type=data_type) for name, (data_type, _) in VALUES.items()),
        Field(name="st", type=Struct((Field(name="n", type=INTEGER),))),
        Field(name="part", type=STRING),
    )
)

LEAVES = {**{(name,): values for name, (_, values) in VALUES.items()}, ("st", "n"): VALUES["i"][1]}

PARTITION = ("part",)


def rows_of(paths):
    """Rows that have values in some of the columns; the others are null in all of them."""
    columns = {name: st.none() | values if (name,) in paths else st.none() for name, (_, values) in VALUES.items()}
    inside = st.none() | st.fixed_dictionaries({"n": st.none() | VALUES["i"][1]}) if ("st", "n") in paths else st.none()
    return st.fixed_dictionaries({**columns, "st": inside})


@st.composite
def conditions(draw, paths, rows):
    """One condition, whose literals are often values of the file."""
    path = draw(st.sampled_from(paths))
    there = [value for row in rows if (value := at(row, path)) is not None]
    values = LEAVES.get(path, st.sampled_from(["a", "b"]))
    if there and draw(st.booleans()):
        values = st.sampled_from(there)
    column = Column(path)
    match draw(
        st.sampled_from(["compare", "compare", "compare", "compare", "null", "in", "prefix", "constant", "unknown"])
    ):
        case "null":
            return IsNull(column)
        case "in":
            return In(column, tuple(draw(st.lists(st.none() | values, max_size=3))))
        case "prefix" if path in (("s",), PARTITION):
            return StartsWith(column, draw(values))
        case "constant":
            return Constant(draw(st.sampled_from([True, False, None])))
        case "unknown":
            return Unknown("f(x)")
        case _:
            symbol = draw(st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]))
            return Comparison(symbol, column, Literal(draw(values if draw(st.integers(0, 5)) else st.none())))


def predicates(paths, rows):
    return st.recursive(
        conditions(paths, rows),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=4,
    )


def at(row, path):
    for name in path:
        row = None if row is None else row[name]
    return row


def smallest(values):
    found = values[0]
    for value in values:
        if order(value, found) < 0:
            found = value
    return found


def largest(values):
    found = values[0]
    for value in values:
        if order(value, found) > 0:
            found = value
    return found


def statistics_of(rows, *, omits_nan):
    low, high, nulls = {}, {}, {}
    for path in LEAVES:
        values = [at(row, path) for row in rows]
        nulls[path] = values.count(None)
        known = [v for v in values if v is not None and not (omits_nan and isinstance(v, float) and math.isnan(v))]
        if known and has_bounds(SCHEMA.resolve(path)[-1].type):
            low[path], high[path] = smallest(known), largest(known)
    return Statistics(num_records=len(rows), min_values=low, max_values=high, null_count=nulls)


@st.composite
def widened(draw, statistics):
    """Wide bounds: any null count but 0 and all rows may be wrong."""
    counts = {
        path: draw(st.integers(1, max(1, statistics.num_records - 1))) if 0 < count < statistics.num_records else count
        for path, count in statistics.null_count.items()
    }
    low = {path: value - 1 if isinstance(value, int) else value for path, value in statistics.min_values.items()}
    return replace(statistics, null_count=counts, min_values=low)
