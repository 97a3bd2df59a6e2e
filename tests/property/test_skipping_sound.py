"""Law 3: skipping is sound. A file with a row for which the predicate is true is kept, whatever its statistics leave out or blur."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as PyDecimal
from unittest.mock import patch

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tahoe.protocol.partitions import single_precision
from tahoe.protocol.predicate import And, Column, Comparison, Constant, In, IsNull, Literal, Not, Or, StartsWith, Unknown, evaluate, order
from tahoe.protocol.schema import BOOLEAN, DATE, DOUBLE, FLOAT, INTEGER, STRING, TIMESTAMP, TIMESTAMP_NTZ, Decimal, Field, Struct
from tahoe.protocol.skipping import IN_VALUES_MAX, skipping_test
from tahoe.protocol.stat_tests import may_match
from tahoe.protocol.stats import Statistics, encode_statistics, has_bounds, parse_statistics

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


# --- predicates


@st.composite
def conditions(draw, paths, rows):
    """One condition, whose literals are often values of the file."""
    path = draw(st.sampled_from(paths))
    there = [value for row in rows if (value := at(row, path)) is not None]
    values = LEAVES.get(path, st.sampled_from(["a", "b"]))
    if there and draw(st.booleans()):
        values = st.sampled_from(there)
    column = Column(path)
    match draw(st.sampled_from(["compare", "compare", "compare", "compare", "null", "in", "prefix", "constant", "unknown"])):
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


@st.composite
def cases(draw, path):
    """A file, and a predicate over this column and perhaps another."""
    paths = [path, *draw(st.lists(st.sampled_from([*LEAVES, PARTITION]), max_size=1))]
    file = draw(files(paths))
    return file, draw(predicates(paths, file.rows))


# --- files


@dataclass(frozen=True)
class File:
    partition: dict
    rows: list  # those that are there
    statistics: Statistics | None


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


@st.composite
def files(draw, paths):
    """A file as writers leave it: some rows deleted by a vector, and statistics of one of several habits, some of them missing."""
    stored = draw(st.lists(rows_of(paths), max_size=3))
    deleted = draw(st.sets(st.integers(0, max(0, len(stored) - 1)), max_size=2)) if draw(st.booleans()) else set()
    rows = [row for number, row in enumerate(stored) if number not in deleted]
    partition = {"part": draw(st.sampled_from(["a", "b", None]))}
    exact = statistics_of(stored, omits_nan=draw(st.booleans()))
    blurred = draw(blurrings(exact, paths, is_wide=bool(deleted)))
    return File(partition, [{**row, **partition} for row in rows], blurred)


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
def blurrings(draw, exact, paths, *, is_wide):
    habit = draw(st.sampled_from(["none", "memory", "reference", "cut without tie-breaker", "cut without tie-breaker", "cut at 16"]))
    if habit == "none":
        return None
    if habit == "cut without tie-breaker":
        exact = replace(exact, max_values={k: v[:32] if isinstance(v, str) else v for k, v in exact.max_values.items()})
    written = replace(exact, tight_bounds=not is_wide)
    if is_wide:
        written = draw(widened(written))
    dropped = draw(st.sets(st.sampled_from([(kind, path) for kind in ("min", "max", "null") for path in paths]), max_size=2))
    written = replace(
        written,
        num_records=draw(st.sampled_from([written.num_records, written.num_records, written.num_records, None])),
        min_values={k: v for k, v in written.min_values.items() if ("min", k) not in dropped},
        max_values={k: v for k, v in written.max_values.items() if ("max", k) not in dropped},
        null_count={k: v for k, v in written.null_count.items() if ("null", k) not in dropped},
    )
    if habit == "memory":
        return without_nan(written)
    return parse_statistics(encode_statistics(written, SCHEMA, prefix_length=16 if habit == "cut at 16" else 32), SCHEMA)


def without_nan(statistics):
    """What `stats_parsed` gives: full precision."""

    def clean(values):
        return {k: v for k, v in values.items() if not (isinstance(v, float) and math.isnan(v))}

    return replace(statistics, min_values=clean(statistics.min_values), max_values=clean(statistics.max_values))


@st.composite
def widened(draw, statistics):
    """Wide bounds: any null count but 0 and all rows may be wrong."""
    counts = {
        path: draw(st.integers(1, max(1, statistics.num_records - 1))) if 0 < count < statistics.num_records else count
        for path, count in statistics.null_count.items()
    }
    low = {path: value - 1 if isinstance(value, int) else value for path, value in statistics.min_values.items()}
    return replace(statistics, null_count=counts, min_values=low)


@pytest.mark.parametrize("path", [*LEAVES, PARTITION], ids=".".join)
@given(data=st.data())
def test_a_file_with_a_matching_row_is_kept(path, data):
    file, predicate = data.draw(cases(path))
    with patch("tahoe.protocol.skipping.IN_VALUES_MAX", data.draw(st.sampled_from([100, 1]))):
        kept = may_match(skipping_test(predicate, SCHEMA, ["part"]), file.statistics, file.partition)
    matches = any(evaluate(predicate, row) is True for row in file.rows)
    event(f"matches {matches}, kept {kept}")
    assert kept or not matches


@given(low=st.integers(0, 100), width=st.integers(0, 100), values=st.sets(st.integers(-50, 250), min_size=IN_VALUES_MAX + 1))
def test_exact_bounds_of_integers_skip_all_that_a_long_list_does_not_name(low, width, values):
    statistics = Statistics(num_records=5, min_values={("i",): low}, max_values={("i",): low + width}, null_count={("i",): 0})
    kept = may_match(skipping_test(In(Column(("i",)), tuple(values)), SCHEMA), statistics)
    assert kept is any(low <= value <= low + width for value in values)


@given(low=st.integers(0, 100), width=st.integers(0, 100), value=st.integers(-50, 250))
def test_exact_bounds_of_integers_skip_all_that_they_can(low, width, value):
    # Without it, a test that keeps everything would pass the law.
    statistics = Statistics(num_records=5, min_values={("i",): low}, max_values={("i",): low + width}, null_count={("i",): 0})
    kept = may_match(skipping_test(Comparison("=", Column(("i",)), Literal(value)), SCHEMA), statistics)
    assert kept is (low <= value <= low + width)
