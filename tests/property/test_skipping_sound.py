"""Law 3: skipping is sound. A file with a row for which the predicate is true is kept, whatever its statistics leave
out or blur.
"""

import math
from dataclasses import dataclass, replace
from unittest.mock import patch

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tahoe.protocol.statistics.skipping import IN_VALUES_MAX, skipping_test
from tahoe.protocol.statistics.stat_tests import may_match
from tahoe.protocol.statistics.stats import Statistics, encode_statistics, parse_statistics
from tahoe.protocol.types.predicate import Column, Comparison, In, Literal, evaluate
from tests.property.random_predicates import (
    LEAVES,
    PARTITION,
    SCHEMA,
    predicates,
    rows_of,
    statistics_of,
    widened,
)

# --- predicates


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


@st.composite
def files(draw, paths):
    """A file as writers leave it: some rows deleted by a vector, and statistics of one of several habits, some of them
    missing.
    """
    stored = draw(st.lists(rows_of(paths), max_size=3))
    deleted = draw(st.sets(st.integers(0, max(0, len(stored) - 1)), max_size=2)) if draw(st.booleans()) else set()
    rows = [row for number, row in enumerate(stored) if number not in deleted]
    partition = {"part": draw(st.sampled_from(["a", "b", None]))}
    exact = statistics_of(stored, omits_nan=draw(st.booleans()))
    blurred = draw(blurrings(exact, paths, is_wide=bool(deleted)))
    return File(partition, [{**row, **partition} for row in rows], blurred)


@st.composite
def blurrings(draw, exact, paths, *, is_wide):
    habit = draw(
        st.sampled_from(
            ["none", "memory", "reference", "cut without tie-breaker", "cut without tie-breaker", "cut at 16"]
        )
    )
    if habit == "none":
        return None
    if habit == "cut without tie-breaker":
        exact = replace(exact, max_values={k: v[:32] if isinstance(v, str) else v for k, v in exact.max_values.items()})
    written = replace(exact, tight_bounds=not is_wide)
    if is_wide:
        written = draw(widened(written))
    dropped = draw(
        st.sets(st.sampled_from([(kind, path) for kind in ("min", "max", "null") for path in paths]), max_size=2)
    )
    written = replace(
        written,
        num_records=draw(st.sampled_from([written.num_records, written.num_records, written.num_records, None])),
        min_values={k: v for k, v in written.min_values.items() if ("min", k) not in dropped},
        max_values={k: v for k, v in written.max_values.items() if ("max", k) not in dropped},
        null_count={k: v for k, v in written.null_count.items() if ("null", k) not in dropped},
    )
    if habit == "memory":
        return without_nan(written)
    return parse_statistics(
        encode_statistics(written, SCHEMA, prefix_length=16 if habit == "cut at 16" else 32), SCHEMA
    )


def without_nan(statistics):
    """What `stats_parsed` gives: full precision."""

    def clean(values):
        return {k: v for k, v in values.items() if not (isinstance(v, float) and math.isnan(v))}

    return replace(statistics, min_values=clean(statistics.min_values), max_values=clean(statistics.max_values))


@pytest.mark.parametrize("path", [*LEAVES, PARTITION], ids=".".join)
@given(data=st.data())
def test_a_file_with_a_matching_row_is_kept(path, data):
    file, predicate = data.draw(cases(path))
    with patch("tahoe.protocol.statistics.skipping.IN_VALUES_MAX", data.draw(st.sampled_from([100, 1]))):
        kept = may_match(skipping_test(predicate, SCHEMA, ["part"]), file.statistics, file.partition)
    matches = any(evaluate(predicate, row) is True for row in file.rows)
    event(f"matches {matches}, kept {kept}")
    assert kept or not matches


@given(
    low=st.integers(0, 100),
    width=st.integers(0, 100),
    values=st.sets(st.integers(-50, 250), min_size=IN_VALUES_MAX + 1),
)
def test_exact_bounds_of_integers_skip_all_that_a_long_list_does_not_name(low, width, values):
    statistics = Statistics(
        num_records=5, min_values={("i",): low}, max_values={("i",): low + width}, null_count={("i",): 0}
    )
    kept = may_match(skipping_test(In(Column(("i",)), tuple(values)), SCHEMA), statistics)
    assert kept is any(low <= value <= low + width for value in values)


@given(low=st.integers(0, 100), width=st.integers(0, 100), value=st.integers(-50, 250))
def test_exact_bounds_of_integers_skip_all_that_they_can(low, width, value):
    # Without it, a test that keeps everything would pass the law.
    statistics = Statistics(
        num_records=5, min_values={("i",): low}, max_values={("i",): low + width}, null_count={("i",): 0}
    )
    kept = may_match(skipping_test(Comparison("=", Column(("i",)), Literal(value)), SCHEMA), statistics)
    assert kept is (low <= value <= low + width)
