"""The files that a query with LIMIT needs: so many that their rows suffice, or those that may have one of the first
rows in an order.

Protocol: "Per-file Statistics", "Deletion Vectors". `tahoe.protocol.statistics.limits` says which statistics tell where
the first rows are. Only rows count that are there for certain: those of files that satisfy the condition wholly,
without the rows that deletion vectors mark.

The choice depends on the files alone, not on their order in the snapshot: a query chooses when it is planned and again
when it runs, and the version may have been loaded again in between.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.statistics.limits import ColumnKey, Order, RowLimit, key_of, rows_up_to, text_end
from tahoe.protocol.statistics.stat_tests import BoundName
from tahoe.protocol.statistics.stats import CUT_LENGTH_MIN
from tahoe.protocol.types.predicate import TRUE, Column, IsNull, Predicate
from tahoe.table.arrow.chunks import one_array, replaced, taken
from tahoe.table.arrow.statistics import python_values
from tahoe.table.reading.facts import Facts, certainly, only_where, unless_known
from tahoe.table.reading.scan import PrunedFiles, Scan, in_few_groups, may_match, part_of

Numbers = npt.NDArray[np.int64]


def needed(limit: RowLimit, scan: Scan) -> Scan:
    """The files of a scan that a limit needs; the scan itself if it may need all of them.

    Args:
        scan: the files that may have a row for which the limit's condition is true.
    """
    if limit.order is None:
        of_few_groups = _scan_of_first_groups(limit, scan)
        if of_few_groups is not None:
            return of_few_groups
        numbers = _enough(limit, scan)
    else:
        predicate = _where_first_rows_are(limit, limit.order, scan)
        mask = None if predicate is None else may_match(scan, predicate)
        numbers = None if mask is None else np.flatnonzero(mask)
    return scan if numbers is None or len(numbers) == scan.kept_files else part_of(scan, pa.array(numbers))


# --- any rows


def _enough(limit: RowLimit, scan: Scan, *, may_be_marked: bool = True) -> Numbers | None:
    """The positions of files with enough rows, ascending; None if files with so many rows are not known.

    Files without a deletion vector come first: Spark reads the others in a plan of their own. One file is enough if it
    has the rows; of several, the smallest.
    """
    facts = Facts(scan, ())
    rows = np.asarray(pc.fill_null(only_where(facts.satisfying(limit.condition), facts.live), 0)).astype(np.int64)
    unmarked = np.where(np.asarray(one_array(scan.column("deletion_vector").is_null())), rows, 0)
    for usable in (unmarked, rows) if may_be_marked else (unmarked,):
        if usable.sum() >= limit.rows:
            return _smallest(scan, usable, limit.rows)
    return None


def _smallest(scan: Scan, rows: Numbers, wanted: int) -> Numbers:
    """The fewest files with so many rows. Among files with equally many, paths decide."""
    paths = scan.column("path")
    alone = np.flatnonzero(rows >= wanted)
    if len(alone):
        sizes = np.asarray(taken(scan.column("size_bytes"), alone))
        return _first_paths(paths, alone[sizes == sizes.min()], 1)
    counts = np.sort(rows)[::-1]
    number = int(np.searchsorted(np.cumsum(counts), wanted)) + 1
    least = counts[number - 1]
    larger = np.flatnonzero(rows > least)
    return np.sort(np.concatenate([larger, _first_paths(paths, np.flatnonzero(rows == least), number - len(larger))]))


def _first_paths(paths: pa.ChunkedArray, files: Numbers, number: int) -> Numbers:
    """Of some files, those with the first paths."""
    in_order: Numbers = files[np.asarray(pc.sort_indices(taken(paths, files)))]
    return in_order[:number]


def _scan_of_first_groups(limit: RowLimit, scan: Scan) -> Scan | None:
    """Enough files of newer commits and of the first row groups of a large checkpoint, so that not all files are listed
    for few rows.

    All are files without a deletion vector, among which any choice is as good: which row groups come first depends on
    the checkpoint.
    """
    if limit.condition != TRUE or scan.chosen is not None:
        return None
    for among in in_few_groups(scan.snapshot):
        found = _enough(limit, Scan(replace(scan.snapshot, live=among.files), None, None), may_be_marked=False)
        if found is not None:
            return replace(scan, chosen=PrunedFiles(among, found), pruned_from=scan.full_scan)
    return None


# --- the first rows in an order


def _where_first_rows_are(limit: RowLimit, order: Order, scan: Scan) -> Predicate | None:
    """What is true for the first rows in an order; None if the log does not tell."""
    snapshot = scan.snapshot
    key = key_of(order, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode)
    if key is None or not scan.kept_files:
        return None
    facts = Facts(scan, (key.path,) if isinstance(key, ColumnKey) else ())
    certain = facts.satisfying(limit.condition)
    try:
        ends = _ends_of_column(facts, key) if isinstance(key, ColumnKey) else _ends_of_partition(facts, key.name)
    except (UnicodeDecodeError, pa.ArrowInvalid):  # Arrow does not check that the texts of a checkpoint are UTF-8
        return None
    wanted = limit.rows - (_total(only_where(certain, ends.nulls)) if order.has_nulls_first else 0)
    if wanted <= 0:
        return IsNull(Column(order.column))
    bound = _reached(ends, certain, wanted, order)
    return None if bound is None else rows_up_to(order, bound, snapshot.schema)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where rows of each file are in an order. Null is unknown, or there are none.

    Attributes:
        values: `rows` of the file are not behind these bounds, and others of its rows not behind those of the next one.
        nulls: the number of rows with null.
    """

    values: tuple[tuple[pa.Array, pa.Array], ...]
    nulls: pa.Array


def _ends_of_partition(facts: Facts, name: str) -> _Ends:
    values = facts.partition(name)
    return _Ends(((values, facts.live),), only_where(values.is_null(), facts.live))


def _ends_of_column(facts: Facts, key: ColumnKey) -> _Ends:
    """One row of a file has its near bound, if the statistics are about exactly its rows; the others are not behind the
    far bound.
    """
    present = facts.present(key.path)
    is_consistent = unless_known(pc.less_equal(facts.statistic("min", key.path), facts.statistic("max", key.path)))
    is_consistent = pc.and_(is_consistent, unless_known(pc.less(facts.statistic("null_count", key.path), facts.stored)))
    near = _bound(facts, key, key.near, pc.and_(is_consistent, facts.is_exact))
    far = _bound(facts, key, key.far, is_consistent)
    others = pc.subtract(present, certainly(near.is_valid()).cast(pa.int64()))
    one = pa.repeat(pa.scalar(1, pa.int64()), len(near))
    return _Ends(((near, one), (far, others)), pc.subtract(facts.live, present))


def _bound(facts: Facts, key: ColumnKey, name: BoundName | None, is_usable: pa.Array) -> pa.Array:
    """The bounds that prove something, null elsewhere."""
    bounds = facts.statistic(name or "min", key.path)
    if name is None:
        return pa.nulls(len(bounds), bounds.type)
    if key.least is not None:
        is_usable = pc.and_(is_usable, certainly(pc.greater_equal(bounds, pa.scalar(key.least, bounds.type))))
    bounds = only_where(is_usable, bounds)
    if not key.is_text:
        return bounds
    is_long = certainly(pc.greater_equal(pc.utf8_length(bounds), CUT_LENGTH_MIN))
    return one_array(replaced(pa.chunked_array([bounds]), pa.chunked_array([is_long]), text_end))


def _reached(ends: _Ends, certain: pa.Array, wanted: int, order: Order) -> Any:
    """The bound that so many rows are not behind; None if there are not so many, or Python cannot hold it."""
    bounds, counts = list[pa.Array](), list[pa.Array]()
    for values, rows in ends.values:
        usable = pc.and_(pc.and_(certain, values.is_valid()), certainly(pc.greater(rows, 0)))
        bounds.append(values.filter(usable))
        counts.append(rows.filter(usable))
    joined, numbers = pa.chunked_array(bounds), np.concatenate([np.asarray(count).astype(np.int64) for count in counts])
    places = np.asarray(pc.sort_indices(joined, sort_keys=[("", "descending" if order.is_descending else "ascending")]))
    last = int(np.searchsorted(np.cumsum(numbers[places]), wanted))
    if last == len(places):
        return None
    with suppress(UnicodeDecodeError):
        [bound] = python_values(joined.take([places[last]]))
        return bound if not isinstance(bound, int) or pa.types.is_integer(joined.type) else None
    return None


def _total(counts: pa.Array) -> int:
    return int(pc.sum(counts, min_count=0).as_py())
