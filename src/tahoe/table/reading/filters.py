"""What users may pass as a filter, as one predicate: SQL text, a `pyarrow.compute` condition, tuples, or a
predicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import InvalidPredicateError
from tahoe.protocol.types.predicate import And, Column, Computed, IsNull, Not, Or, Predicate
from tahoe.protocol.types.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Struct,
)
from tahoe.protocol.types.schema import Decimal as DecimalType
from tahoe.table.arrow.conditions import (
    FieldRef,
    FunctionCall,
    Part,
    Scalar,
    arrow_condition_values,
    columns_in,
    tree_of,
)
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
            from tahoe.sql.predicates import parse_predicate  # noqa: PLC0415 - it imports sqlglot

            return parse_predicate(filter, schema, table=table, zone=zone)
        case pc.Expression():
            return _arrow_predicate(filter, schema, zone, table)
        case list():
            groups: list[list[Condition]] = filter
            return Or(tuple(_all_of(group, schema, zone, table) for group in groups))
        case _:  # Spark's may name columns of `_metadata`; whoever reads rows by a predicate looks for its columns
            return cast("Predicate", filter)


def _all_of(conditions: Sequence[Condition], schema: Struct, zone: tzinfo, table: str) -> Predicate:
    return And(tuple(_compared(*condition, schema, zone, table) for condition in conditions))


def _compared(name: str, symbol: str, value: Any, schema: Struct, zone: tzinfo, table: str) -> Predicate:
    from tahoe.sql.predicates import compared_with  # noqa: PLC0415 - it imports sqlglot

    return compared_with(name, symbol, value, schema, zone=zone, table=table)


def _arrow_predicate(condition: pc.Expression, schema: Struct, zone: tzinfo, table: str) -> Predicate:
    """The predicate of an Arrow condition: itself, for the rows, AND the comparisons that it implies, by which
    statistics exclude files.
    """
    empty = arrow_schema(schema).empty_table()
    try:
        values = arrow_condition_values(condition, empty)  # of no rows: whether it fits the columns, and its type
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        raise InvalidPredicateError(
            table=table, predicate=str(condition), detail=str(error).strip().splitlines()[0]
        ) from error
    if values.type != pa.bool_():
        raise InvalidPredicateError(
            table=table, predicate=str(condition), detail=f"it is of type {values.type}, not bool"
        )
    columns = tuple(Column((name,)) for name in columns_in(condition, schema.names))
    computed = Computed(condition, columns, str(condition))
    tree = tree_of(condition)
    implied = None if tree is None else _Implications(schema, zone, table).of(tree)
    return computed if implied is None else And((implied, computed))


@dataclass(frozen=True, slots=True)
class _Implications:
    """Finds what a condition of Arrow implies, by which statistics exclude files."""

    schema: Struct
    zone: tzinfo
    table: str

    def of(self, part: Part) -> Predicate | None:
        """A predicate that is true wherever a part of the condition is; None if there is none that statistics would
        understand.
        """
        match part:
            case FunctionCall("and" | "and_kleene", parts):
                known = tuple(found for found in map(self.of, parts) if found is not None)
                return And(known) if known else None
            case FunctionCall("or" | "or_kleene", parts):
                known = tuple(found for found in map(self.of, parts) if found is not None)
                return Or(known) if len(known) == len(parts) else None
            case FunctionCall("if_else", (test, then, Scalar(None))):
                return self.of(FunctionCall("and", (test, then)))
            case FieldRef(path) if self._type(path) == BOOLEAN:
                return self._comparison(path, "=", True, [True])
            case FunctionCall("is_null", (FieldRef(path),), {"nan_is_null": False}):
                return IsNull(Column(path)) if self._type(path) else None
            case FunctionCall("is_valid", (FieldRef(path),)):
                return Not(IsNull(Column(path))) if self._type(path) else None
            case FunctionCall("is_in", (FieldRef(path),), {"value_set": list(values)}):
                return self._comparison(path, "in", values, values)
            case FunctionCall(function, (FieldRef(path), Scalar(value))) if function in _SYMBOLS:
                return self._comparison(path, _SYMBOLS[function], value, [value])
        return None

    def _comparison(
        self, path: tuple[str, ...], symbol: str, value: object, values: Sequence[object]
    ) -> Predicate | None:
        kind, name = self._type(path), ".".join(path)
        is_clear = len(path) == 1 or (not any("." in part for part in path) and self.schema.find(name) is None)
        if kind is None or not is_clear or not all(_is_alike(kind, each) for each in values):
            return None
        return _compared(name, symbol, value, self.schema, self.zone, self.table)

    def _type(self, path: tuple[str, ...]) -> DataType | None:
        fields = self.schema.resolve(path)
        return None if fields is None else fields[-1].type


_SYMBOLS = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}

# Beyond this number, not every whole number is a double.
_DOUBLE_WHOLE_MAX = 2**53


def _is_alike(kind: DataType, value: object) -> bool:
    """Whether SQL's comparison with a column of this type is true wherever Arrow's is: both compare values of the type,
    without a cast.
    """
    match value:
        case bool():
            return kind == BOOLEAN
        case int():
            return kind in (BYTE, SHORT, INTEGER, LONG) or (kind == DOUBLE and abs(value) <= _DOUBLE_WHOLE_MAX)
        case float():
            return kind == DOUBLE
        case str():
            return kind == STRING
        case Decimal():
            return isinstance(kind, DecimalType)
        case datetime():  # a Timestamp of pandas may have nanoseconds
            return type(value) is datetime and kind == (TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP)
        case date():
            return kind == DATE
    return False
