"""Answers from the log: aggregates over the rows of a version, of the files whose statistics decide them, and the files that are left.

Protocol: "Per-file Statistics", "Deletion Vectors". `tahoe.protocol.answers` says which statistics are exact. Here null is unknown,
so that Arrow's null propagates; a minimum or maximum that may itself be null is accompanied by a mask of the files that decide it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.protocol.answers import Aggregate, BoundOf, CountOf, Measure, PartitionOf, Question, exception_to, measure_of
from tahoe.protocol.predicate import TRUE, Predicate
from tahoe.protocol.stats import Path
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.scan import Scan, may_match, part_of, statistics_of
from tahoe.table.reading.skipping import types_of


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question for some of a scan's files.

    Attributes:
        rows: the keys, and the values of the aggregates under their positions (`0`, `1`, ...) over all rows of the answered files. One row
            for each combination of keys, also if `left` has other rows of it; without keys one row in any case.
        left: the files that the statistics do not decide, which must be read.
    """

    rows: pa.Table
    left: Scan


def measures_of(question: Question, scan: Scan) -> tuple[Measure, ...] | None:
    """What gives the aggregates of a question; None if the log cannot give one of them."""
    snapshot = scan.snapshot
    found = [measure_of(a, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode) for a in question.aggregates]
    known = tuple(measure for measure in found if measure is not None)
    return known if len(known) == len(found) else None


def answer(question: Question, scan: Scan) -> Answer:
    """Answer a question as far as statistics and partition values decide it.

    Args:
        scan: the files that may have a row for which the question's condition is true.

    Raises:
        OverflowError: the texts of a partition column are too large for one array.

    Precondition: `measures_of` the question is not None.
    """
    measures = measures_of(question, scan)
    assert measures is not None
    facts = _Facts(scan, measures)
    values = [_value(facts, aggregate, measure) for aggregate, measure in zip(question.aggregates, measures, strict=True)]
    decided = reduce(pc.and_, (value.decided for value in values), facts.satisfying(question.condition))
    if question.keys:  # a group exists if it has a row
        decided = pc.and_(decided, facts.live.is_valid())
    left = pc.indices_nonzero(pc.invert(decided))
    return Answer(_combined(question, facts, values, decided), _part(scan, left))


def left_of(question: Question, scan: Scan) -> Scan:
    """The files of a scan that must be read to answer a question."""
    return answer(question, scan).left


def _part(scan: Scan, positions: pa.Array) -> Scan:
    """Some of a scan's files, by their ascending positions in it."""
    if len(positions) == scan.kept_files:
        return scan
    return part_of(scan, positions)


# --- file by file


class _Facts:
    """What the log says of a scan's files. Arrays have one value per file; null is unknown."""

    def __init__(self, scan: Scan, measures: Iterable[Measure]) -> None:
        self.scan = scan
        self._paths = frozenset(path for measure in measures for path in _paths(measure))

    @cached_property
    def _statistics(self) -> pa.Table:
        return statistics_of(self.scan, StatisticsRequest(types_of(self.scan.snapshot, self._paths)))

    def statistic(self, kind: str, path: Path = ()) -> pa.Array:
        return one_array(self._statistics.column(column_name(kind, path)))

    def has_no_bounds(self, path: Path) -> pa.Array:
        """Whether a data column has neither minimum nor maximum, as one without values must."""
        names = {column_name(kind, path) for kind in ("min", "max")} & {*self._statistics.column_names}
        nothing = pa.repeat(pa.scalar(True), self.scan.kept_files)
        return reduce(pc.and_, (one_array(self._statistics.column(name).is_null()) for name in names), nothing)

    @cached_property
    def stored(self) -> pa.Array:
        """The number of rows in the data file."""
        counts = one_array(self.scan.num_records)
        return _only_where(pc.greater_equal(counts, 0), counts)

    @cached_property
    def live(self) -> pa.Array:
        """The number of rows that no deletion vector marks."""
        rows = pc.subtract(self.stored, one_array(self.scan.deleted_records))
        return _only_where(pc.greater_equal(rows, 0), rows)

    @cached_property
    def is_empty(self) -> pa.Array:
        return _certainly(pc.equal(self.live, 0))

    @cached_property
    def is_exact(self) -> pa.Array:
        """Whether the statistics are about exactly the rows that are there."""
        has_vector = one_array(self.scan.column("deletion_vector").is_valid())
        return pc.and_(pc.invert(has_vector), pc.fill_null(self.statistic("tight_bounds"), True))

    def partition(self, name: str) -> pa.Array:
        """The values of a partition column, of which null is not unknown."""
        values = self.scan.partition
        return one_array(values.flatten()[values.type.get_field_index(name)])

    def satisfying(self, condition: Predicate) -> pa.Array:
        """Whether a condition is certainly true for all rows."""
        return pc.or_(self.is_empty, pc.invert(self._may_match(exception_to(condition, self.scan.snapshot.schema))))

    def failing(self, condition: Predicate) -> pa.Array:
        """Whether a condition is certainly true for no row."""
        return pc.or_(self.is_empty, pc.invert(self._may_match(condition)))

    def _may_match(self, predicate: Predicate) -> pa.Array:
        mask = may_match(self.scan, predicate)
        return pa.repeat(pa.scalar(True), self.scan.kept_files) if mask is None else mask


def _paths(measure: Measure) -> tuple[Path, ...]:
    match measure:
        case CountOf(paths):
            return paths
        case BoundOf(path=path):
            return (path,)
        case PartitionOf():
            return ()


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of an aggregate for each file, and which files decide it."""

    decided: pa.Array
    values: pa.Array


def _value(facts: _Facts, aggregate: Aggregate, measure: Measure) -> _Value:
    found = _measured(facts, measure)
    if aggregate.condition == TRUE:
        return found
    failing = facts.failing(aggregate.condition)
    nothing = pa.scalar(0 if aggregate.function == "count" else None, found.values.type)
    decided = pc.or_(failing, pc.and_(facts.satisfying(aggregate.condition), found.decided))
    return _Value(decided, pc.if_else(failing, nothing, found.values))


def _measured(facts: _Facts, measure: Measure) -> _Value:
    match measure:
        case CountOf():
            counts = _counted(facts, measure)
            return _Value(counts.is_valid(), counts)
        case BoundOf():
            return _bounded(facts, measure)
        case PartitionOf(_, name):
            values = facts.partition(name)
            return _Value(facts.live.is_valid(), pc.if_else(facts.is_empty, pa.scalar(None, values.type), values))


def _counted(facts: _Facts, measure: CountOf) -> pa.Array:
    counts = [_present(facts, path) for path in measure.paths]
    counts += [pc.if_else(facts.partition(name).is_null(), 0, facts.live) for name in measure.partitions]
    return reduce(lambda one, other: _present_in_both(facts, one, other), counts, facts.live)


def _present(facts: _Facts, path: Path) -> pa.Array:
    """The number of live rows in which a data column is not null."""
    stored, nulls = facts.stored, facts.statistic("null_count", path)
    is_sound = pc.and_(pc.greater_equal(nulls, 0), pc.less_equal(nulls, stored))
    nulls = _only_where(pc.and_(is_sound, pc.or_(pc.less(nulls, stored), facts.has_no_bounds(path))), nulls)
    some = _only_where(facts.is_exact, pc.subtract(stored, nulls))
    return pc.case_when(
        pc.make_struct(_certainly(pc.equal(nulls, 0)), _certainly(pc.equal(nulls, stored))), facts.live, pa.scalar(0, pa.int64()), some
    )


def _present_in_both(facts: _Facts, one: pa.Array, other: pa.Array) -> pa.Array:
    """The number of rows in which neither of two columns is null, if one of them is null in none of the rows, or in all of them."""
    never = pc.or_(_certainly(pc.equal(one, 0)), _certainly(pc.equal(other, 0)))
    conditions = pc.make_struct(never, _certainly(pc.equal(one, facts.live)), _certainly(pc.equal(other, facts.live)))
    return pc.case_when(conditions, pa.scalar(0, pa.int64()), other, one)


def _bounded(facts: _Facts, measure: BoundOf) -> _Value:
    low, high = facts.statistic("min", measure.path), facts.statistic("max", measure.path)
    bound = low if measure.statistic == "min" else high
    nulls = facts.statistic("null_count", measure.path)
    is_void = _certainly(pc.equal(nulls, facts.stored))  # of rows that are all null, or of none
    parts = [
        _certainly(pc.greater_equal(bound, pa.scalar(measure.least, bound.type))),
        _certainly(pc.less_equal(bound, pa.scalar(measure.greatest, bound.type))),
        _unless_known(pc.less_equal(low, high)),
        _unless_known(pc.greater(facts.stored, 0)),
        _unless_known(pc.greater_equal(nulls, 0)),
        _unless_known(pc.less(nulls, facts.stored)),
    ]
    is_sound = reduce(pc.and_, parts)
    is_known = pc.and_(is_sound, facts.is_exact)
    has_none = pc.or_(facts.is_empty, pc.and_(is_void, pc.and_(low.is_null(), high.is_null())))
    values = _only_where(is_known, bound).cast(arrow_type(measure.type))
    return _Value(pc.or_(is_known, has_none), pc.if_else(has_none, pa.scalar(None, values.type), values))


def _certainly(mask: pa.Array) -> pa.Array:
    return pc.fill_null(mask, False)


def _unless_known(mask: pa.Array) -> pa.Array:
    return pc.fill_null(mask, True)


def _only_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    """The values where a condition holds, null elsewhere."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))


# --- all files together


def _combined(question: Question, facts: _Facts, values: list[_Value], decided: pa.Array) -> pa.Table:
    """The values of the decided files, combined by their keys."""
    wanted = pc.and_(decided, pc.invert(facts.is_empty)) if question.keys else decided
    columns = {str(number): value.values.filter(wanted) for number, value in enumerate(values)}
    if not question.keys:
        return pa.table({name: _single(aggregate, columns[name]) for name, aggregate in zip(columns, question.aggregates, strict=True)})
    keys = {name: facts.partition(name).filter(wanted) for name in question.keys}
    # a partition column may have the name of a position
    named = {f"key {number}": column for number, column in enumerate(keys.values())} | columns
    functions = [(str(number), _HASHED[a.function]) for number, a in enumerate(question.aggregates)]
    grouped = pa.table(named).group_by([name for name in named if name not in columns]).aggregate(functions)
    found = [grouped.column(f"key {number}") for number in range(len(keys))] + [grouped.column(f"{n}_{f}") for n, f in functions]
    return pa.table([column.cast(kind) for column, kind in zip(found, _kinds(named), strict=True)], names=[*keys, *columns])


def _kinds(columns: dict[str, pa.Array]) -> list[pa.DataType]:
    return [column.type for column in columns.values()]


_HASHED = {"count": "sum", "min": "min", "max": "max"}


def _single(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    """The value over all files, as an array."""
    if aggregate.function == "count":
        return pa.array([pc.sum(values, min_count=0)], pa.int64())
    return pa.array([pc.min_max(values)[aggregate.function]], values.type)
