"""Answers from the log: aggregates over the rows of a version, of the files whose statistics decide them, and the files
that are left.

Protocol: "Per-file Statistics", "Deletion Vectors". `tahoe.protocol.statistics.answers` says which statistics are
exact. A minimum or maximum that may itself be null is accompanied by a mask of the files that decide it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.statistics.answers import Aggregate, BoundOf, CountOf, Measure, PartitionOf, Question, measure_of
from tahoe.protocol.statistics.stats import Path
from tahoe.protocol.types.predicate import TRUE
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.facts import Facts, certainly, only_where, unless_known
from tahoe.table.reading.scan import Scan, part_of


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question for some of a scan's files.

    Attributes:
        rows: the keys, and the values of the aggregates under their positions (`0`, `1`, ...) over all rows of the
            answered files. One row for each combination of keys, also if `left` has other rows of it; without keys one
            row in any case.
        left: the files that the statistics do not decide, which must be read.
    """

    rows: pa.Table
    left: Scan


def measures_of(question: Question, scan: Scan) -> tuple[Measure, ...] | None:
    """What gives the aggregates of a question; None if the log cannot give one of them."""
    snapshot = scan.snapshot
    found = [
        measure_of(a, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode)
        for a in question.aggregates
    ]
    known = tuple(measure for measure in found if measure is not None)
    return known if len(known) == len(found) else None


def answer(question: Question, scan: Scan) -> Answer:
    """Answer a question as far as statistics and partition values decide it. Questions with keys have no
    `count_distinct`.

    Args:
        scan: the files that may have a row for which the question's condition is true.

    Raises:
        OverflowError: the texts of a partition column are too large for one array.

    Precondition: `measures_of` the question is not None.
    """
    measures = measures_of(question, scan)
    assert measures is not None
    facts = Facts(scan, (path for measure in measures for path in _paths(measure)))
    values = [
        _value(facts, aggregate, measure) for aggregate, measure in zip(question.aggregates, measures, strict=True)
    ]
    decided = reduce(pc.and_, (value.decided for value in values), facts.satisfying(question.condition))
    if question.keys:  # a group exists if it has a row
        decided = pc.and_(decided, facts.live.is_valid())
    left = pc.indices_nonzero(pc.invert(decided))
    return Answer(_combine_files(question, facts, values, decided), _part(scan, left))


def left_of(question: Question, scan: Scan) -> Scan:
    """The files of a scan that must be read to answer a question."""
    return answer(question, scan).left


def _part(scan: Scan, positions: pa.Array) -> Scan:
    """Some of a scan's files, by their ascending positions in it."""
    if len(positions) == scan.kept_files:
        return scan
    return part_of(scan, positions)


# --- file by file


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


def _value(facts: Facts, aggregate: Aggregate, measure: Measure) -> _Value:
    found = _measure_value(facts, measure)
    if aggregate.condition == TRUE:
        return found
    failing = facts.failing(aggregate.condition)
    nothing = pa.scalar(0 if aggregate.function == "count" else None, found.values.type)
    decided = pc.or_(failing, pc.and_(facts.satisfying(aggregate.condition), found.decided))
    return _Value(decided, pc.if_else(failing, nothing, found.values))


def _measure_value(facts: Facts, measure: Measure) -> _Value:
    match measure:
        case CountOf():
            counts = _count_value(facts, measure)
            return _Value(counts.is_valid(), counts)
        case BoundOf():
            return _bound_value(facts, measure)
        case PartitionOf(name):
            values = facts.partition(name)
            return _Value(facts.live.is_valid(), pc.if_else(facts.is_empty, pa.scalar(None, values.type), values))


def _count_value(facts: Facts, measure: CountOf) -> pa.Array:
    counts = [facts.present(path) for path in measure.paths]
    counts += [pc.if_else(facts.partition(name).is_null(), 0, facts.live) for name in measure.partitions]
    return reduce(lambda one, other: _present_in_both(facts, one, other), counts, facts.live)


def _present_in_both(facts: Facts, one: pa.Array, other: pa.Array) -> pa.Array:
    """The number of rows in which both columns have a value. Exact only if one of them is always or never null."""
    never = pc.or_(certainly(pc.equal(one, 0)), certainly(pc.equal(other, 0)))
    conditions = pc.make_struct(never, certainly(pc.equal(one, facts.live)), certainly(pc.equal(other, facts.live)))
    return pc.case_when(conditions, pa.scalar(0, pa.int64()), other, one)


def _bound_value(facts: Facts, measure: BoundOf) -> _Value:
    """The minimum or maximum of a column for each file. A bound decides only if it is exact, and all statistics of the
    column are plausible: an aggregate, in contrast to skipping, is wrong by a wrong bound.
    """
    low, high = facts.statistic("min", measure.path), facts.statistic("max", measure.path)
    bound = low if measure.statistic == "min" else high
    nulls = facts.statistic("null_count", measure.path)
    is_void = certainly(pc.equal(nulls, facts.stored))  # of rows that are all null, or of none
    parts = [
        certainly(pc.greater_equal(bound, pa.scalar(measure.least, bound.type))),
        certainly(pc.less_equal(bound, pa.scalar(measure.greatest, bound.type))),
        unless_known(pc.less_equal(low, high)),
        unless_known(pc.greater(facts.stored, 0)),
        unless_known(pc.greater_equal(nulls, 0)),
        unless_known(pc.less(nulls, facts.stored)),
    ]
    is_sound = reduce(pc.and_, parts)
    is_known = pc.and_(is_sound, facts.is_exact)
    has_none = pc.or_(facts.is_empty, pc.and_(is_void, pc.and_(low.is_null(), high.is_null())))
    values = only_where(is_known, bound).cast(arrow_type(measure.type))
    return _Value(pc.or_(is_known, has_none), pc.if_else(has_none, pa.scalar(None, values.type), values))


# --- all files together


def _combine_files(question: Question, facts: Facts, values: list[_Value], decided: pa.Array) -> pa.Table:
    """The values of the decided files, combined by their keys."""
    is_counted = pc.and_(decided, pc.invert(facts.is_empty)) if question.keys else decided
    columns = {str(number): value.values.filter(is_counted) for number, value in enumerate(values)}
    if not question.keys:
        return pa.table(
            {
                name: _single(aggregate, columns[name])
                for name, aggregate in zip(columns, question.aggregates, strict=True)
            }
        )
    keys = {name: facts.partition(name).filter(is_counted) for name in question.keys}
    # a partition column may have the name of a position
    keys_and_values = {f"key {number}": column for number, column in enumerate(keys.values())} | columns
    functions = [(str(number), _HASHED[a.function]) for number, a in enumerate(question.aggregates)]
    grouped = (
        pa.table(keys_and_values)
        .group_by([name for name in keys_and_values if name not in columns])
        .aggregate(functions)
    )
    result = [grouped.column(f"key {number}") for number in range(len(keys))] + [
        grouped.column(f"{n}_{f}") for n, f in functions
    ]
    return pa.table(
        [column.cast(kind) for column, kind in zip(result, _kinds(keys_and_values), strict=True)],
        names=[*keys, *columns],
    )


def _kinds(columns: dict[str, pa.Array]) -> list[pa.DataType]:
    return [column.type for column in columns.values()]


_HASHED = {"count": "sum", "min": "min", "max": "max"}


def _single(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    """The value over all files, as an array."""
    if aggregate.function == "count":
        return pa.array([pc.sum(values, min_count=0)], pa.int64())
    if aggregate.function == "count_distinct":
        return pa.array([pc.count_distinct(values)], pa.int64())
    return pa.array([pc.min_max(values)[aggregate.function]], values.type)
