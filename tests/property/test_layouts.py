"""Laws of layouts: each row has one leaf, the leaf that the splits say, in whatever order rows come; leaves are of
equal size.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tahoe.table.arrow.layout import Assigner, Layout, plan_layout, row_order

EPOCH = datetime.datetime(1970, 1, 1)
FEW_TEXTS = st.text(alphabet="a\0é\U0001f600", max_size=3)
VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, math.nan, 1.0]),
    pa.float32(): st.floats(width=32),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.decimal128(38, 3): st.decimals(-(10**34), 10**34, places=3)
    | st.sampled_from([Decimal("0.256"), Decimal("-0.256"), Decimal(0)]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
    pa.string(): FEW_TEXTS | st.text() | FEW_TEXTS.map(lambda text: "a common beginning " * 2 + text),
    pa.large_string(): FEW_TEXTS,
    pa.binary(): st.binary(max_size=3) | st.binary(min_size=30, max_size=40),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["", "a", "b", "\0"]),
}
LEAVES = st.integers(1, 12)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES, key=str)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | VALUES[kind] for kind in kinds))
    distinct = draw(st.lists(row, min_size=1, max_size=30))
    rows = draw(st.lists(st.sampled_from(distinct), max_size=60))
    return pa.table({f"c{n}": pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)})


def key(value: Any) -> Any:
    """A value in the order of Spark: texts by bytes, NaN above all numbers."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def naive_cell(layout: Layout, row: dict[str, Any]) -> int:
    """The cell of a row, as the records of the splits define it."""
    node = 0
    while node < len(layout.splits):
        split = layout.splits[node]
        value, bound = row[layout.columns[split.column]], layout.bounds[split.column][split.bound].as_py()
        node = split.above if value is not None and key(value) >= key(bound) else split.below
    return node - len(layout.splits)


@given(tables(), tables(), LEAVES)
@example(pa.table({"c0": ["a", "a\0", "ab", None]}), pa.table({"c0": ["a\0\0", "", "\0", "a"]}), 4)
def test_rows_are_in_the_cell_that_the_splits_say(sample: pa.Table, others: pa.Table, leaves: int) -> None:
    """Rows outside the sample too: a bound is shorter than the texts that it separates."""
    layout = plan_layout(sample, leaves)
    rows = others.select(sample.column_names) if others.schema == sample.schema else sample
    assert Assigner(layout).cells(rows).tolist() == [naive_cell(layout, row) for row in rows.to_pylist()]


@given(tables(), LEAVES)
def test_leaves_are_numbered_and_each_row_has_one(table: pa.Table, leaves: int) -> None:
    layout = plan_layout(table, leaves)
    assert [leaf for cell in layout.cells for leaf in cell] == list(range(leaves))
    assert layout.leaves == leaves
    assigner = Assigner(layout)
    cells = assigner.cells(table).tolist()
    assert all(leaf in layout.cells[cell] for leaf, cell in zip(assigner.leaves(table).tolist(), cells, strict=True))
    if layout.splits:
        assert set(cells) == set(range(len(layout.cells))), "a cell is empty although the sample is the table"


@given(tables(), LEAVES, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table: pa.Table, leaves: int, random: Any) -> None:
    order = list(range(table.num_rows))
    random.shuffle(order)
    shuffled = table.take(pa.array(order, pa.int64()))
    one, other = plan_layout(table, leaves), plan_layout(shuffled, leaves)
    assert (one.splits, one.cells) == (other.splits, other.cells)
    assert Assigner(one).cells(shuffled).tolist() == Assigner(other).cells(table).take(order).tolist()


@given(tables(), LEAVES)
def test_no_leaf_is_overfilled(table: pa.Table, leaves: int) -> None:
    """Whatever the duplicates: cuts are chosen so that no leaf has more than twice the mean."""
    sizes = np.bincount(Assigner(plan_layout(table, leaves)).leaves(table), minlength=leaves)
    assert sizes.max() <= 2 * max(table.num_rows / leaves, 1) + 1


@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 20), st.integers(0, 100))
def test_leaves_of_distinct_values_have_equal_sizes(leaves: int, columns: int, each: int, seed: int) -> None:
    """For any number of leaves, not only for powers of two."""
    random = np.random.default_rng(seed)
    table = pa.table({f"c{n}": random.permutation(leaves * each) for n in range(columns)})
    sizes = np.bincount(Assigner(plan_layout(table, leaves)).leaves(table), minlength=leaves)
    assert sizes.tolist() == [each] * leaves


@given(tables(), LEAVES)
@example(pa.table({"c0": pa.array(["\0", "", None, "a", "", "\0"], pa.dictionary(pa.int8(), pa.string()))}), 2)
def test_one_column_is_a_sort(table: pa.Table, leaves: int) -> None:
    column = table.select(["c0"])
    ordered = column.take(pa.array(row_order(column, np.zeros(len(column), np.int32))))
    values = ordered.column(0).to_pylist()
    present = [key(value) for value in values if value is not None]
    assert values[: len(values) - len(present)] == [None] * (len(values) - len(present))
    assert present == sorted(present)
    cells = Assigner(plan_layout(column, leaves)).cells(ordered).tolist()
    assert cells == sorted(cells)


@given(st.lists(st.none() | st.binary(max_size=3) | st.binary(min_size=30, max_size=40), max_size=40), LEAVES)
@example([b"a\xc3", b"\xa9b", "é".encode() * 20], 3)
def test_strings_that_are_not_valid_are_ordered_by_their_bytes(values: list[bytes | None], leaves: int) -> None:
    table = pa.table({"c0": pa.array([*values, b"\xff"], pa.binary())})
    texts = pa.table({"c0": table["c0"].combine_chunks().view(pa.string())})
    one, other = plan_layout(table, leaves), plan_layout(texts, leaves)
    assert other.bounds[0].type == pa.large_string()
    assert (one.splits, one.cells) == (other.splits, other.cells)
    for rows, same in ((texts, table), (texts.slice(1), table.slice(1)), (texts.slice(0, 0), table.slice(0, 0))):
        assert Assigner(other).cells(rows).tolist() == Assigner(one).cells(same).tolist()
        parts = np.zeros(len(rows), np.int32)
        assert row_order(rows, parts).tolist() == row_order(same, parts).tolist()


@given(tables(), LEAVES, st.integers(1, 6))
def test_parts_divide_leaves(table: pa.Table, leaves: int, parts: int) -> None:
    """Each part belongs to a leaf. Rows are ordered by part, and rows of a part keep their order."""
    layout = plan_layout(table, leaves, parts)
    assert layout.leaves == leaves * parts
    inner = [cell for cell in layout.cells if len(cell) < parts]
    assert all(cell.start // parts == (cell.stop - 1) // parts for cell in inner)
    assert all(cell.start % parts == 0 and len(cell) % parts == 0 for cell in layout.cells if cell not in inner)
    found = Assigner(layout).leaves(table)
    order = row_order(table, found)
    assert sorted(order.tolist()) == list(range(table.num_rows))
    if table.num_columns > 1:
        assert order.tolist() == sorted(range(table.num_rows), key=lambda row: (found[row], row))


@given(st.integers(1, 10), st.integers(1, 5), st.integers(1, 5), st.integers(0, 100))
def test_leaves_with_parts_have_equal_sizes(leaves: int, parts: int, each: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = pa.table({f"c{n}": random.permutation(leaves * parts * each) for n in range(2)})
    found = Assigner(plan_layout(table, leaves, parts)).leaves(table)
    assert np.bincount(found // parts, minlength=leaves).tolist() == [parts * each] * leaves


def test_row_numbers_divide_what_no_column_tells_apart() -> None:
    layout = plan_layout(pa.table({"c0": [1] * 10, "c1": pa.nulls(10, pa.string())}), 4)
    assert layout.cells == (range(4),)
    assert layout.splits == ()
    leaves = Assigner(layout).leaves(pa.table({"c0": [1] * 5, "c1": pa.nulls(5, pa.string())}), first_row=3)
    assert leaves.tolist() == [3, 0, 1, 2, 3]


def test_a_type_without_an_order_is_refused() -> None:
    with pytest.raises(pa.ArrowNotImplementedError):
        plan_layout(pa.table({"c0": [[1], [2]]}), 2)


def test_a_heavy_value_is_not_divided_where_another_column_is_cut() -> None:
    """Half of the rows have one value: its leaves hold no other, and are told apart by the second column."""
    random = np.random.default_rng(1)
    rows = 4000
    table = pa.table(
        {"heavy": np.where(np.arange(rows) % 2, 500, random.integers(0, 1000, rows)), "other": random.random(rows)}
    )
    cells = Assigner(plan_layout(table, 16)).cells(table)
    values = [set(table["heavy"].take(pa.array(np.flatnonzero(cells == cell))).to_pylist()) for cell in range(16)]
    assert sum(found == {500} for found in values) == 8
    assert sum(500 in found for found in values) == 8
