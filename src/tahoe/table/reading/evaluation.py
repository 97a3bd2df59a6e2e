"""Evaluates predicates over Arrow columns in SQL's three-valued logic: exact filters for rows and for statistics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import ExpressionFailedError
from tahoe.protocol.predicate import (
    And,
    Comparison,
    Computed,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    has_computed,
)
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.computation import IMPOSSIBLE, column_values, compute
from tahoe.table.arrow.conditions import condition_of_arrow


def evaluate(predicate: Predicate, table: pa.Table) -> pa.Array:
    """The predicate's value for each row; null is SQL's NULL, which a filter treats as false.

    Raises:
        ExpressionFailedError: a computed part has no value for a row.
    """
    return one_array(_evaluate(predicate, table))


def _evaluate(predicate: Predicate, table: pa.Table) -> pa.Array:
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value, pa.bool_()), table.num_rows)
        case Unknown():
            return pa.nulls(table.num_rows, pa.bool_())
        case Computed():
            return _computed(predicate, table)
        case Not(part):
            return pc.invert(_evaluate(part, table))
        case And(parts) | Or(parts):
            return _combined(parts, table, is_and=isinstance(predicate, And))
        case IsNull(column):
            return pc.is_null(column_values(table, column.path))
        case StartsWith(column, prefix):
            return pc.starts_with(column_values(table, column.path), prefix)
        case In(column, candidates):
            return _is_in(column_values(table, column.path), candidates)
        case Comparison():
            return compare(predicate.operator, column_values(table, predicate.column.path), predicate.literal.value)


def _combined(parts: Sequence[Predicate], table: pa.Table, *, is_and: bool) -> pa.Array:
    """AND or OR. As in SQL, a computed part may fail for rows that an earlier part has decided, so it is not computed for these."""
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


def _computed(predicate: Computed, table: pa.Table) -> pa.Array:
    if isinstance(predicate.rule, pc.Expression):
        return condition_of_arrow(predicate.rule, table)
    try:
        return compute(predicate.rule, table)
    except IMPOSSIBLE as error:
        raise ExpressionFailedError(expression=predicate.text, detail=str(error)) from error


# Longer lists are looked up in a hash table instead of compared one by one.
_COMPARED_MAX = 100


def _is_in(values: pa.Array, candidates: Sequence[Any]) -> pa.Array:
    """`values IN (candidates)`. The result equals that of `compare` with each candidate."""
    looked_up, compared = ([], candidates) if len(candidates) <= _COMPARED_MAX else _to_be_looked_up(values.type, candidates)
    result = pa.repeat(pa.scalar(False), len(values))
    if looked_up:
        found, wanted = _one_zero(values), _one_zero(pa.array(looked_up, values.type))
        result = pc.if_else(pc.is_valid(values), pc.is_in(found, value_set=wanted), pa.scalar(None, pa.bool_()))
    for candidate in compared:
        result = pc.or_kleene(result, compare("=", values, candidate))
    return result


def _to_be_looked_up(kind: pa.DataType, candidates: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The candidates that are exact values of the column's type, and the others: null, NaN, values that the type cannot represent."""
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


def compare(operator: str, values: pa.Array, literal: Any) -> pa.Array:
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
    result = _COMPARE[operator](values, pa.scalar(literal, _literal_type(values.type, literal)))
    return pc.or_(result, pc.is_nan(values)) if floating and operator in _TRUE_FOR_NAN else result


def _literal_type(kind: pa.DataType, literal: Any) -> pa.DataType | None:
    """The column's type if the literal is exactly one of its values; otherwise None, and Arrow compares in a wider type."""
    try:
        as_kind = pa.scalar(literal, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return kind if as_kind.as_py() == literal else None


def overlap(low: pa.Array, high: pa.Array, least: Sequence[Any], greatest: Sequence[Any]) -> pa.Array:
    """Whether the range from `low` to `high` overlaps one of the ranges from `least[n]` to `greatest[n]`; null if a bound is null or NaN.

    Precondition: `least` and `greatest` are ascending, and their values are comparable with the column's; none is null or NaN.
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


def _objects_overlap(low: pa.Array, high: pa.Array, least: Sequence[Any], greatest: Sequence[Any]) -> Iterator[bool | None]:
    for start, end in zip(_objects(low), _objects(high), strict=True):
        if start is None or end is None:
            yield None
            continue
        first = bisect_left(greatest, start)
        yield first < len(least) and least[first] <= end


def _objects(values: pa.Array) -> Iterator[Any]:
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        yield from chunk.to_pylist()
