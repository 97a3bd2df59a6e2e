"""Where rows belong if files are to be told apart by several columns: a k-d partition of a sample.

All values are ranked. Rows that are to fill n leaves (files) are cut in two at the value that leaves n // 2 leaves
below it. Both parts are cut again, until each fills one leaf. A cut is made along the column that gains most: that
lowers most the number of rows that queries for one value of a column must read. A third of these queries ask for the
value of a random row, the others for a random one of the distinct values. So a constant column is not cut, a column
that follows from another is cut together with it, and a column of heavy duplicates is cut only as far as it tells rows
apart. One column alone is cut into ranges.

A value is never on both sides of a cut of its column. If it is heavier than what a side should hold, the number of
leaves on each side follows the rows. A cut that would overfill a leaf is avoided if another column has a better one,
and not made beyond `_OVERLOAD_MAX`. Rows that no cut tells apart are a cell of several leaves, which share them by row
number.

A leaf can be divided into parts in the same way. In the order of the parts, the pages and row groups of its file are
told apart too.

The error of the sample is the error of the leaves: with k rows of the sample in each leaf, their sizes vary by
1/sqrt(k).

Knows nothing of Delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.table.arrow.sort_keys import Bounds, Ranked, as_bytes, boundary, is_text, plain_type, ranked

# Enough for leaves whose sizes vary by 7 % (one standard deviation).
SAMPLE_ROWS_PER_LEAF = 200

# The assumed ratio of queries for a random distinct value to queries for the value of a random row. With a larger one,
# skewed columns are hardly cut; with a smaller one, they are cut at the expense of all others.
_DISTINCT_QUERIES = 2.0

# How many times the mean size of a leaf a cut may leave to the leaves on one side: if there is a choice, and at all.
_OVERLOAD_FAIR = 1.25
_OVERLOAD_MAX = 2.0

_Ranks: TypeAlias = npt.NDArray[np.int32]

# Rows that are assigned together: few enough for the processor's cache.
_BATCH_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class Split:
    """A cut: a row is above it if its value in a column is not null and at least as large as a bound of the column.

    Attributes:
        column, bound: indexes in `Layout.columns`, and in the bounds of this column.
        below, above: the node on either side. Node n is split n; behind the splits, node `len(splits) + n` is cell n.
    """

    column: int
    bound: int
    below: int
    above: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A k-d partition. The first node is node 0.

    Attributes:
        bounds: for each column ascending values.
        cells: the leaves of each cell: one, or several that share rows which no cut tells apart.
    """

    columns: tuple[str, ...]
    bounds: tuple[pa.Array, ...]
    splits: tuple[Split, ...]
    cells: tuple[range, ...]

    @property
    def leaves(self) -> int:
        return self.cells[-1].stop


def plan_layout(sample: pa.Table, leaves: int, parts: int = 1) -> Layout:
    """Divide the rows of a table among leaves of equal size, by a random sample of its rows.

    Args:
        sample: the columns by which queries select, in order of importance; about `SAMPLE_ROWS_PER_LEAF` rows for each
            leaf.
        parts: how many parts each leaf has. The layout's leaves are then these parts: part n belongs to leaf n //
            parts.
    """
    return _Partition([ranked(column) for column in sample.columns], leaves * parts, parts).layout(sample.column_names)


def row_order(keys: pa.Table, parts: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """The order of the rows of one leaf in which the pages and row groups of its file are told apart: by part. One
    column is sorted.

    Rows of a part, and equal values of one column, keep their order.
    """
    if keys.num_columns > 1:
        return np.argsort(parts, kind="stable")
    column = keys.column(0)
    kind = plain_type(column.type)
    if is_text(kind):  # ranks look at the beginning of a text only
        found: npt.NDArray[np.intp] = np.asarray(pc.sort_indices(column.cast(kind))).astype(np.intp)
        return np.roll(found, column.null_count)  # nulls first
    return np.argsort(ranked(column).ranks, kind="stable")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A possible cut of some rows: those of lower rank, so many of them, are below it, and fill so many leaves."""

    column: int
    rank: int
    leaves: int
    overload: float
    gain: float


class _Partition:
    """A partition of rows that are given by their ranks.

    Attributes:
        splits: cuts, with the node below and above each: a split, or the complement of a cell.
        cells: the numbers of the rows in each cell, and of its leaves.
    """

    def __init__(self, columns: Sequence[Ranked], leaves: int, parts: int = 1) -> None:
        self.splits: list[tuple[_Cut, int, int]] = []
        self.cells: list[tuple[_Ranks, int]] = []
        self._columns = columns
        self._parts = parts
        self._weights = [_weights_below(column) for column in columns]
        rows = len(columns[0].ranks)
        self._mean = max(rows / leaves, 1)
        self._divide(np.stack([*(column.ranks for column in columns), np.arange(rows, dtype=np.int32)]), leaves)

    def _divide(self, rows: _Ranks, leaves: int) -> int:
        """Divide rows, given by their ranks in each column and, last, by their numbers. Returns their node."""
        cut = self._best_cut(rows, leaves) if leaves > 1 else None
        if cut is None:
            self.cells.append((rows[-1], leaves))
            return ~(len(self.cells) - 1)
        node = len(self.splits)
        self.splits.append((cut, 0, 0))
        is_below = rows[cut.column] < cut.rank
        below = self._divide(rows[:, is_below], cut.leaves)
        above = self._divide(rows[:, ~is_below], leaves - cut.leaves)
        self.splits[node] = (cut, below, above)
        return node

    def _best_cut(self, rows: _Ranks, leaves: int) -> _Cut | None:
        cuts = [cut for column in range(len(self._columns)) if (cut := self._cut_along(column, rows[column], leaves))]
        fair = [cut for cut in cuts if cut.overload <= _OVERLOAD_FAIR]
        return max(fair or cuts, key=lambda cut: cut.gain, default=None)

    def _cut_along(self, column: int, ranks: _Ranks, leaves: int) -> _Cut | None:
        """The cut of a column that gives both sides whole leaves of nearly equal size; None if equal values would
        overload a leaf. Its gain is how much narrower, in weighted ranks, the rows' range in this column becomes.
        """
        unit = self._parts if leaves > self._parts else 1  # the parts of a leaf stay together until it is alone
        units = leaves // unit
        rank = _rank_to_cut(ranks, len(ranks) * (units // 2) // units)
        if rank is None:
            return None
        is_below = ranks < rank
        below = int(np.count_nonzero(is_below))
        above = len(ranks) - below
        taken = unit * min(max(round(units * below / len(ranks)), 1), units - 1)
        overload = max(below / taken, above / (leaves - taken)) / self._mean
        if overload > _OVERLOAD_MAX:
            return None
        weights, low, high = self._weights[column], ranks.min(), ranks.max() + 1
        gain = len(ranks) * (weights[high] - weights[low])
        gain -= below * (weights[ranks[is_below].max() + 1] - weights[low])
        gain -= above * (weights[high] - weights[rank])
        return _Cut(column, rank, taken, overload, float(gain))

    def layout(self, names: Sequence[str]) -> Layout:
        used = [sorted({cut.rank for cut, _, _ in self.splits if cut.column == n}) for n in range(len(names))]
        place = [{rank: n for n, rank in enumerate(ranks)} for ranks in used]

        def node(number: int) -> int:
            return number if number >= 0 else len(self.splits) + ~number

        splits = tuple(
            Split(cut.column, place[cut.column][cut.rank], node(below), node(above))
            for cut, below, above in self.splits
        )
        stops = np.cumsum([leaves for _, leaves in self.cells]).tolist()
        cells = tuple(range(stop - leaves, stop) for stop, (_, leaves) in zip(stops, self.cells, strict=True))
        return Layout(tuple(names), tuple(map(_bounds, self._columns, used)), splits, cells)


def _rank_to_cut(ranks: _Ranks, wanted: int) -> int | None:
    """The lowest rank above the cut that leaves nearest to the wanted number of rows below it; None if all ranks are
    equal.
    """
    if not len(ranks):
        return None
    middle = int(np.partition(ranks, wanted)[wanted])
    below, not_above = int(np.count_nonzero(ranks < middle)), int(np.count_nonzero(ranks <= middle))
    if below and (not_above == len(ranks) or wanted - below <= not_above - wanted):
        return middle
    return int(ranks[ranks > middle].min()) if not_above < len(ranks) else None


def _weights_below(column: Ranked) -> npt.NDArray[np.float64]:
    """For each rank how often queries ask for a lower one."""
    counts = np.bincount(column.ranks, minlength=len(column.values) + 1)
    is_used = counts > 0
    weights = counts / max(len(column.ranks), 1) + _DISTINCT_QUERIES * is_used / max(int(is_used.sum()), 1)
    return np.concatenate([[0.0], np.cumsum(weights)])


def _bounds(column: Ranked, ranks: Sequence[int]) -> pa.Array:
    """The values that separate each rank from the next lower one. Of strings, the shortest text that does."""
    values = column.values.take(pa.array([rank - 1 for rank in ranks], pa.int64()))
    if not is_text(values.type):
        return values
    lower = as_bytes(
        column.values.take(pa.array([rank - 2 if rank > 1 else None for rank in ranks], pa.int64()))
    ).to_pylist()
    return pa.array(map(boundary, lower, as_bytes(values).to_pylist()), pa.large_binary()).view(values.type)


class Assigner:
    """Finds the cells and leaves of many rows by a layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._bounds = [Bounds(values) for values in layout.bounds]
        cells = np.arange(len(layout.splits), len(layout.splits) + len(layout.cells))
        splits = layout.splits
        self._column = np.array([split.column for split in splits] + [0] * len(cells), np.intp)
        self._bound = np.array([split.bound for split in splits] + [len(layout.splits)] * len(cells), np.intp)
        sides = np.array([(split.below, split.above) for split in splits], np.intp).reshape(-1, 2)
        self._sides = np.concatenate([sides, np.stack([cells, cells], axis=1)]).reshape(-1)
        self._depth = depth(layout)
        self._first = np.array([cell.start for cell in layout.cells], np.int32)
        self._count = np.array([len(cell) for cell in layout.cells], np.int32)

    def leaves(self, rows: pa.Table | pa.RecordBatch, first_row: int = 0) -> npt.NDArray[np.int32]:
        """The leaf of each row. Leaves that share a cell take its rows in turn, by row number."""
        cells = self.cells(rows)
        if len(self._first) == self._layout.leaves:
            return cells
        numbers = np.arange(first_row, first_row + len(cells))
        return (self._first[cells] + numbers % self._count[cells]).astype(np.int32)

    def cells(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int32]:
        """The cell of each row. Only the layout's columns are looked at."""
        batches = (
            rows.select(self._layout.columns).to_batches(_BATCH_ROWS) if isinstance(rows, pa.Table) else _pieces(rows)
        )
        found = [self._descend(batch) for batch in batches]
        return np.concatenate([np.empty(0, np.int32), *found])

    def _descend(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Every row goes down the tree, one level at a time. At a cell it stays."""
        names = self._layout.columns
        codes = np.concatenate(
            [bounds.codes(batch.column(name)) for bounds, name in zip(self._bounds, names, strict=True)]
        )
        offsets, numbers = self._column * batch.num_rows, np.arange(batch.num_rows)
        nodes = np.zeros(batch.num_rows, np.intp)
        for _ in range(self._depth):
            is_above = codes.take(offsets.take(nodes) + numbers) > self._bound.take(nodes)
            nodes = self._sides.take(2 * nodes + is_above)
        return (nodes - len(self._layout.splits)).astype(np.int32)


def depth(layout: Layout) -> int:
    """The largest number of splits on the way to a cell."""
    depths = [0] * (len(layout.splits) + len(layout.cells))
    for number, split in enumerate(layout.splits):
        depths[split.below] = depths[split.above] = depths[number] + 1
    return max(depths)


def _pieces(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(start, _BATCH_ROWS) for start in range(0, batch.num_rows, _BATCH_ROWS)]
