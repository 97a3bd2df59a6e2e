"""What users may pass as a filter, as one predicate: SQL text, a `pyarrow.compute` condition, tuples, or a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, tzinfo
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import InvalidPredicateError
from tahoe.protocol.predicate import And, Column, Computed, Or, Predicate
from tahoe.protocol.schema import BOOLEAN, BYTE, DATE, DOUBLE, INTEGER, LONG, SHORT, STRING, TIMESTAMP, TIMESTAMP_NTZ, Struct
from tahoe.sql.predicates import compared_with, parse_predicate
from tahoe.table.arrow.conditions import columns_in, comparisons_in, condition_of_arrow
from tahoe.table.arrow.types import arrow_schema

Condition: TypeAlias = tuple[str, str, Any]
"""A column, an operator (`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`) and a value."""

Filter: TypeAlias = "str | Predicate | pc.Expression | Sequence[Condition] | Sequence[Sequence[Condition]]"
"""Tuples are joined by AND; lists of tuples by OR."""


def predicate_of(filter: Filter, schema: Struct, *, zone: tzinfo, table: str) -> Predicate:
    """The predicate for a filter, which `tahoe.table.arguments.FILTER` has checked: tuples are in lists of lists.

    Raises:
        InvalidPredicateError, ColumnNotFoundError: the filter does not fit the schema.
    """
    match filter:
        case str():
            return parse_predicate(filter, schema, table=table, zone=zone)
        case pc.Expression():
            return _of_arrow(filter, schema, zone, table)
        case list():
            groups: list[list[Condition]] = filter
            return Or(tuple(And(tuple(_of_tuple(each, schema, zone, table) for each in group)) for group in groups))
        case _:  # Spark's may name columns of `_metadata`; whoever reads rows by a predicate looks for its columns
            return cast("Predicate", filter)


def _of_tuple(condition: Condition, schema: Struct, zone: tzinfo, table: str) -> Predicate:
    name, operator, value = condition
    return compared_with(name, operator, value, schema, zone=zone, table=table)


def _of_arrow(condition: pc.Expression, schema: Struct, zone: tzinfo, table: str) -> Predicate:
    """A condition of Arrow, beside the comparisons that it implies, by which statistics exclude files."""
    empty = arrow_schema(schema).empty_table()
    try:
        found = condition_of_arrow(condition, empty)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        raise InvalidPredicateError(table=table, predicate=str(condition), detail=str(error).strip().splitlines()[0]) from error
    if found.type != pa.bool_():
        raise InvalidPredicateError(table=table, predicate=str(condition), detail=f"it is of type {found.type}, not bool")
    columns = tuple(Column((name,)) for name in columns_in(condition, schema.names))
    computed = Computed(condition, columns, str(condition))
    alike = [comparison for comparison in comparisons_in(condition) if _is_alike(schema, *comparison)]
    return And((*(compared_with(*each, schema=schema, zone=zone, table=table) for each in alike), computed))


def _is_alike(schema: Struct, name: str, symbol: str, value: object) -> bool:
    """Whether SQL's comparison is true wherever Arrow's is: both compare values of the column's type, without a cast."""
    field = schema.find(name)
    if field is None or symbol not in ("==", "<", "<=", ">", ">="):
        return False
    match value:
        case bool():
            return field.type == BOOLEAN
        case int():
            return field.type in (BYTE, SHORT, INTEGER, LONG)
        case float():
            return field.type == DOUBLE
        case str():
            return field.type == STRING
        case datetime():
            return field.type == (TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP)
        case date():
            return field.type == DATE
    return False
