"""The files that are read for a LIMIT have a correct answer, whatever the statistics look like: enough rows, or the
first in an order.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tahoe.protocol.statistics.limits import Order, RowLimit
from tahoe.protocol.statistics.stats import encode_statistics
from tahoe.protocol.types.predicate import TRUE, Column, Comparison, Literal, evaluate, order
from tahoe.table.reading.limits import needed
from tests.property.random_files import COLUMNS, Written, loaded, written
from tests.property.random_predicates import SCHEMA, at, predicates, statistics_of
from tests.table.builders import add


def first(limit: RowLimit, rows: list[dict]) -> list[object]:
    """The values by which the first rows are ordered; without an order, only how many rows there are matters."""
    found = [row for row in rows if evaluate(limit.condition, row) is True]
    if limit.order is None:
        return [None] * min(limit.rows, len(found))
    values = [at(row, limit.order.column) for row in found]
    nulls, known = [value for value in values if value is None], [value for value in values if value is not None]
    known.sort(key=cmp_to_key(order), reverse=limit.order.is_descending)
    return [*nulls, *known][: limit.rows] if limit.order.has_nulls_first else [*known, *nulls][: limit.rows]


def are_same(one: list[object], other: list[object]) -> bool:
    pairs = zip(one, other, strict=True) if len(one) == len(other) else [(0, None)]
    return all((a is None and b is None) or (a is not None and b is not None and order(a, b) == 0) for a, b in pairs)


@pytest.mark.parametrize("ordered_by", [*COLUMNS, None], ids=str)
@given(data=st.data())
def test_the_files_that_are_read_have_the_first_rows(ordered_by, data):
    how = None if ordered_by is None else Order(ordered_by, data.draw(st.booleans()), data.draw(st.booleans()))
    paths = list(dict.fromkeys([ordered_by or ("i",), *data.draw(st.lists(st.sampled_from(COLUMNS), max_size=1))]))
    loses = data.draw(st.sampled_from([False, False, True]))
    files = [data.draw(written(number, paths, loses=loses)) for number in range(data.draw(st.integers(2, 5)))]
    everything = [row for file in files for row in file.rows]
    condition = data.draw(st.just(TRUE) | st.just(TRUE) | st.just(TRUE) | predicates(paths, everything))
    limit = RowLimit(data.draw(st.sampled_from([1, 1, 2, 2, 3, 6])), how, condition)
    scan = loaded(files).scan(None if condition == TRUE else condition)
    found = needed(limit, scan)
    event("fewer files" if found.kept_files < scan.kept_files else "all files")
    read = set(found.column("path").to_pylist())
    assert are_same(
        first(limit, [row for file in files if file.action.path in read for row in file.rows]), first(limit, everything)
    )
    again = needed(limit, loaded(files[::-1]).scan(None if condition == TRUE else condition))
    assert set(again.column("path").to_pylist()) == read, "the choice depends on the order in which files are listed"


# --- what must be left out, or a scan of everything would pass the law


def exact(values: list[list], name: str = "i", partitions: list | None = None) -> list[Written]:
    files = []
    for number, inside in enumerate(values):
        part = partitions[number] if partitions else None
        rows = [{**dict.fromkeys(SCHEMA.names), name: value, "part": part} for value in inside]
        text = encode_statistics(statistics_of(rows, omits_nan=True), SCHEMA)
        files.append(Written(add(f"f{number}", stats=text, partition_values={"part": part}), rows))
    return files


def read_for(limit: RowLimit, files: list[Written]) -> list[str]:
    return sorted(needed(limit, loaded(files).scan(limit.condition)).column("path").to_pylist())


DAYS = [[date(2026, 1, 1) + timedelta(days=10 * number + day) for day in range(10)] for number in range(9)]


def test_the_newest_rows_are_in_the_last_files():
    assert read_for(RowLimit(15, Order(("day",), True, False)), exact(DAYS, "day")) == ["f7", "f8"]
    assert read_for(RowLimit(10, Order(("day",), True, False)), exact(DAYS, "day")) == ["f8"]
    assert read_for(RowLimit(11, Order(("day",), False, True)), exact(DAYS, "day")) == ["f0", "f1"]


STEP = timedelta(milliseconds=1, microseconds=7)
ENDS = "is the beginning of a long text that is cut"
BY_TYPE = {
    "decimals": ("dec", [[Decimal(10 * number + inside) / 4 for inside in range(3)] for number in range(5)]),
    "moments": (
        "ts",
        [[datetime(2026, 1, 1, number, tzinfo=UTC) + inside * STEP for inside in range(3)] for number in range(5)],
    ),
    "moments without a zone": (
        "ntz",
        [[datetime(2026, 1, 1, number) + inside * STEP for inside in range(3)] for number in range(5)],
    ),
    "texts": ("s", [[f"{number}{letter}" for letter in "abc"] for number in range(5)]),
    "long texts": ("s", [[f"{number} {ENDS} {letter}" for letter in "abc"] for number in range(5)]),
}


@pytest.mark.parametrize("case", BY_TYPE)
def test_files_of_every_type_with_an_order_are_left_out(case):
    name, values = BY_TYPE[case]
    assert read_for(RowLimit(4, Order((name,), False, True)), exact(values, name)) == ["f0", "f1"]
    assert read_for(RowLimit(4, Order((name,), True, False)), exact(values, name)) == ["f3", "f4"]


def test_texts_that_differ_where_they_are_cut_leave_nothing_out():
    values = [[f"the texts of all files begin alike {number}{letter}" for letter in "abc"] for number in range(5)]
    assert len(read_for(RowLimit(4, Order(("s",), False, False)), exact(values, "s"))) == 5


def test_rows_with_nan_are_not_before_the_maximum():
    values = [[1.0, math.nan], [1.5, 1.5], [2.0, 3.0]]
    assert read_for(RowLimit(2, Order(("x",), False, False)), exact(values, "x")) == ["f0", "f1"]


def test_moments_are_up_to_a_millisecond_behind_their_bounds():
    """One writer cuts them, and another one does not."""
    day = datetime(2026, 1, 1)
    files = exact(
        [[day + timedelta(microseconds=900)] * 2, [day + timedelta(microseconds=100)] * 2, [day + timedelta(days=1)]],
        "ntz",
    )
    precise = json.loads(files[1].action.stats)
    precise["minValues"]["ntz"] = precise["maxValues"]["ntz"] = "2026-01-01T00:00:00.000100"
    files[1] = replace(files[1], action=files[1].action.replace(stats=json.dumps(precise)))
    assert read_for(RowLimit(2, Order(("ntz",), False, False)), files) == ["f0", "f1"]


def test_a_text_that_is_cut_stands_for_all_that_begin_with_it():
    """One writer cuts a maximum without rounding it up, and another one does not cut."""
    stem = "s" * 32
    files = exact([[f"{stem}z"] * 2, [f"{stem}a"] * 2, ["t"]], "s")
    for number, bound in enumerate([stem, f"{stem}a"]):
        known = json.loads(files[number].action.stats)
        known["minValues"]["s"] = known["maxValues"]["s"] = bound
        files[number] = replace(files[number], action=files[number].action.replace(stats=json.dumps(known)))
    assert read_for(RowLimit(2, Order(("s",), False, False)), files) == ["f0", "f1"]


def test_no_row_has_a_maximum_that_was_rounded_up():
    """One writer cuts a maximum and rounds it up, and another one does not cut."""
    stem = "s" * 32
    files = exact([[f"{stem}a"], [f"{stem}b"], ["r"]], "s")
    known = json.loads(files[1].action.stats)
    known["minValues"]["s"] = known["maxValues"]["s"] = f"{stem}b"
    files[1] = replace(files[1], action=files[1].action.replace(stats=json.dumps(known)))
    assert read_for(RowLimit(1, Order(("s",), True, False)), files) == ["f0", "f1"]


def test_the_greatest_floats_may_be_in_any_file():
    values = [[float(number), number + 0.5] for number in range(5)]
    assert read_for(RowLimit(2, Order(("x",), False, False)), exact(values, "x")) == ["f0", "f1"]
    assert len(read_for(RowLimit(2, Order(("x",), True, False)), exact(values, "x"))) == 5


def test_one_row_of_each_file_suffices_if_all_files_overlap():
    values = [list(range(number, 1000, 10)) for number in range(10)]
    assert read_for(RowLimit(3, Order(("i",), False, False)), exact(values)) == ["f0", "f1", "f2"]


def test_files_with_nulls_are_read_where_nulls_come_first():
    values = [[1, 2], [3, None], [None, None], [4, 5]]
    assert read_for(RowLimit(2, Order(("i",), False, True)), exact(values)) == ["f1", "f2"]
    assert read_for(RowLimit(4, Order(("i",), False, True)), exact(values)) == ["f0", "f1", "f2"]
    assert read_for(RowLimit(2, Order(("i",), False, False)), exact(values)) == ["f0"]
    assert read_for(RowLimit(6, Order(("i",), False, False)), exact(values)) == ["f0", "f1", "f2", "f3"]


def test_partition_values_order_files():
    files = exact([[1], [2], [3], [4]], partitions=["b", "a", None, "c"])
    assert read_for(RowLimit(1, Order(("part",), False, True)), files) == ["f2"]
    assert read_for(RowLimit(2, Order(("part",), False, False)), files) == ["f0", "f1"]
    assert read_for(RowLimit(1, Order(("part",), True, False)), files) == ["f3"]


def test_a_condition_that_files_satisfy_wholly_limits_too():
    condition = Comparison(">=", Column(("i",)), Literal(15))
    files = exact([list(range(10 * number, 10 * number + 10)) for number in range(9)])
    assert read_for(RowLimit(5, Order(("i",), False, False), condition), files) == ["f1", "f2"]
    assert read_for(RowLimit(5, Order(("i",), True, False), condition), files) == ["f8"]
    assert read_for(RowLimit(5, None, condition), files) == ["f2"]


def test_the_smallest_file_with_enough_rows_is_read():
    files = exact([[1] * 3, [2] * 5, [3] * 8, [4] * 8, [5] * 2])
    sized = [
        replace(file, action=file.action.replace(size_bytes=size))
        for file, size in zip(files, (5, 9, 7, 7, 1), strict=True)
    ]
    assert read_for(RowLimit(2), sized) == ["f4"]
    assert read_for(RowLimit(4), sized) == ["f2"]
    assert read_for(RowLimit(10), sized) == ["f2", "f3"]
    assert read_for(RowLimit(18), sized) == ["f1", "f2", "f3"]
    assert read_for(RowLimit(27), sized) == ["f0", "f1", "f2", "f3", "f4"]
