"""Evaluates predicates over Arrow columns in SQL's three-valued logic: exact filters for rows and for statistics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from decimal import Decimal as PyDecimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import ExpressionFailedError
from tahoe.protocol.types.predicate import (
    And,
    Column,
    Comparison,
    Computed,
    Constant,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    has_computed,
)
from tahoe.protocol.types.schema import BYTE, INTEGER, LONG, SHORT, DataType, Decimal
from tahoe.sql.literals import Value as Number
from tahoe.sql.literals import compared_at, place
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.computation import IMPOSSIBLE, column_values, compute, expression_failed
from tahoe.table.arrow.conditions import arrow_condition_values


def evaluate(predicate: Predicate, rows: pa.Table, *, table: str = "the table") -> pa.Array:
    """The predicate's value for each row; null is SQL's NULL, which a filter treats as false.

    Args:
        table: whose rows these are, for the error.

    Raises:
        ExpressionFailedError: a part has no value for a row, or Arrow cannot compare its literal.
    """
    try:
        return one_array(_evaluate(predicate, rows))
    except ExpressionFailedError as error:
        raise type(error)(**error.parameters | {"table": table}) from error.__cause__


def _evaluate(predicate: Predicate, table: pa.Table) -> pa.Array:
    """Whether a predicate is true for each row, with null for unknown. If a part cannot be computed, the error shows
    that part alone.
    """
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value, pa.bool_()), table.num_rows)
        case Unknown():
            return pa.nulls(table.num_rows, pa.bool_())
        case Not(part):
            return pc.invert(_evaluate(part, table))
        case And(parts) | Or(parts):
            return _combined(parts, table, is_and=isinstance(predicate, And))
        case _:
            try:
                return _part(predicate, table)
            except IMPOSSIBLE as error:
                raise expression_failed(error, table="the table", expression=_shown(predicate)) from error


def _part(predicate: Comparison | IsNull | In | StartsWith | Computed, table: pa.Table) -> pa.Array:
    """A condition that is no combination of others, for each row."""
    match predicate:
        case Computed(rule):
            return arrow_condition_values(rule, table) if isinstance(rule, pc.Expression) else compute(rule, table)
        case IsNull(column):
            return pc.is_null(column_values(table, column.path))
        case StartsWith(column, prefix):
            return pc.starts_with(column_values(table, column.path), prefix)
        case In(column, candidates):
            return _is_in(column_values(table, column.path), candidates)
        case Comparison(operator, column, literal):
            return compare(operator, column_values(table, column.path), literal.value)


def _shown(predicate: Comparison | IsNull | In | StartsWith | Computed) -> str:
    match predicate:
        case Computed(text=text):
            return text
        case Comparison(operator, column, literal):
            return f"{'.'.join(column.path)} {operator} {literal.value!r}"
        case _:
            return f"a condition on {'.'.join(predicate.column.path)}"


def _combined(parts: Sequence[Predicate], table: pa.Table, *, is_and: bool) -> pa.Array:
    """AND or OR. As in SQL, a computed part may fail for rows that an earlier part has decided, so it is not computed
    for these.
    """
    result = pa.repeat(pa.scalar(is_and), table.num_rows)
    for part in parts:
        if not has_computed(part):
            result = (pc.and_kleene if is_and else pc.or_kleene)(result, _evaluate(part, table))
            continue
        result = one_array(result)
        undecided = pc.fill_null(result if is_and else pc.invert(result), True)
        found = one_array(_evaluate(part, table.filter(undecided)))
        spread = pc.replace_with_mask(pa.repeat(pa.scalar(is_and), table.num_rows), undecided, found)
        result = (pc.and_kleene if is_and else pc.or_kleene)(result, spread)
    return result


# Longer lists are looked up in a hash table instead of compared one by one.
_COMPARED_MAX = 100


def _is_in(values: pa.Array, candidates: Sequence[Any]) -> pa.Array:
    """`values IN (candidates)`. The result equals that of `compare` with each candidate."""
    looked_up, compared = (
        ([], candidates) if len(candidates) <= _COMPARED_MAX else _to_be_looked_up(values.type, candidates)
    )
    result = pa.repeat(pa.scalar(False), len(values))
    if looked_up:
        found, wanted = _one_zero(values), _one_zero(pa.array(looked_up, values.type))
        result = pc.if_else(pc.is_valid(values), pc.is_in(found, value_set=wanted), pa.scalar(None, pa.bool_()))
    for candidate in compared:
        result = pc.or_kleene(result, compare("=", values, candidate))
    return result


def _to_be_looked_up(kind: pa.DataType, candidates: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The candidates that are exact values of the column's type, and the others: null, NaN, values that the type cannot
    represent.
    """
    looked_up: list[Any] = []
    others: list[Any] = []
    for candidate in dict.fromkeys(candidates):
        (others if candidate is None or _literal_type(kind, candidate) is None else looked_up).append(candidate)
    return looked_up, others


def _one_zero(values: pa.Array) -> pa.Array:
    """The same values with -0.0 replaced by 0.0: they are equal in SQL, but the lookup compares bits."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


_COMPARE: dict[str, Callable[[Any, Any], pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TRUE_FOR_NAN = frozenset({">", ">="})
_INTEGERS: Mapping[int, DataType] = {8: BYTE, 16: SHORT, 32: INTEGER, 64: LONG}


def compare(operator: Operator, values: pa.Array, literal: Any) -> pa.Array:
    """`values operator literal`. NaN equals NaN and is greater than all other numbers."""
    if operator == "<=>":
        return pc.is_null(values) if literal is None else pc.fill_null(compare("=", values, literal), False)
    if literal is None:
        return pa.nulls(len(values), pa.bool_())
    floating = pa.types.is_floating(values.type)
    if floating and isinstance(literal, float) and literal != literal:
        nan = pc.is_nan(values)  # null for null, as every comparison is
        number = pc.invert(nan)
        return {"=": nan, ">=": nan, "<": number, "<=": pc.or_(nan, number), ">": pc.and_(nan, number)}[operator]
    kind = _literal_type(values.type, literal)
    if kind is None and (pa.types.is_integer(values.type) or pa.types.is_decimal(values.type)):
        return _compare_by_place(operator, values, literal)
    result = _COMPARE[operator](values, pa.scalar(literal, kind))
    return pc.or_(result, pc.is_nan(values)) if floating and operator in _TRUE_FOR_NAN else result


def _compare_by_place(operator: Operator, values: pa.Array, literal: Any) -> pa.Array:
    """A comparison of exact numbers with one that is none of their type's: Arrow has no wider type for the largest."""
    kind = values.type
    exact_type = Decimal(kind.precision, kind.scale) if pa.types.is_decimal(kind) else _INTEGERS[kind.bit_width]
    number = PyDecimal(literal)
    placed = place(Number("number", number if number.is_finite() else float(number)), exact_type, UTC)
    assert placed is not None, "every number has a place"
    return _evaluate(compared_at(operator, Column(("",)), placed), pa.table({"": values}))


def _literal_type(kind: pa.DataType, literal: Any) -> pa.DataType | None:
    """The column's type if the literal is exactly one of its values; None otherwise."""
    try:
        as_kind = pa.scalar(literal, kind)
        is_counted = pa.types.is_temporal(kind) and isinstance(literal, int)  # outside of Python's calendar
        return kind if (as_kind.value if is_counted else as_kind.as_py()) == literal else None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


def overlap(low: pa.Array, high: pa.Array, least: Sequence[Any], greatest: Sequence[Any]) -> pa.Array:
    """Whether the range from `low` to `high` overlaps one of the ranges from `least[n]` to `greatest[n]`; null if a
    bound is null or NaN.

    Precondition: `least` and `greatest` are ascending, and their values are comparable with the column's; none is null
    or NaN.
    """
    if pa.types.is_decimal(low.type) or pa.types.is_string(low.type):
        return pa.array(list(_objects_overlap(low, high, least, greatest)), pa.bool_())
    starts, ends = _numbers(low), _numbers(high)
    lowest, highest = (_numbers(pa.array(values, _number_type(low.type))) for values in (least, greatest))
    first = np.searchsorted(highest, starts)  # the lowest range that does not end before `low`
    found = np.append(lowest, 0)[first] <= ends
    is_known = np.asarray(pc.and_(low.is_valid(), high.is_valid())) & (starts == starts) & (ends == ends)
    return pa.array(found & (first < len(lowest)), mask=~is_known)


def _number_type(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(kind) else pa.int64() if pa.types.is_integer(kind) else kind


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    """Numbers in the order of the values; any number for null."""
    wide = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    kind = pa.float64() if pa.types.is_floating(values.type) else pa.int64()
    return np.asarray(pc.fill_null(one_array(wide).cast(kind), 0))


def _objects_overlap(
    low: pa.Array, high: pa.Array, least: Sequence[Any], greatest: Sequence[Any]
) -> Iterator[bool | None]:
    for start, end in zip(_objects(low), _objects(high), strict=True):
        if start is None or end is None:
            yield None
            continue
        first = bisect_left(greatest, start)
        yield first < len(least) and least[first] <= end


def _objects(values: pa.Array) -> Iterator[Any]:
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        yield from chunk.to_pylist()
