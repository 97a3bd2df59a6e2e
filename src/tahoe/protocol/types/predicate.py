"""Predicates over a table's columns, with SQL's three-valued logic.

They are built from SQL text (`tahoe.sql.predicates`) or Spark's filters, and used for data skipping, row filters and
replaceWhere. Literals are Python values of the column's type: int, float, bool, str, bytes, `decimal.Decimal`,
`datetime.date`, `datetime.datetime` (aware in UTC for timestamp, naive for timestamp_ntz), and the ints of
`tahoe.protocol.types.partitions` for dates and timestamps outside of Python's calendar. As in Spark, NaN is larger than
any other number and equal to itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeAlias
from typing import Literal as OneOf

from tahoe.protocol.types.partitions import to_days, to_micros
from tahoe.protocol.types.schema import DataType

Operator: TypeAlias = OneOf["=", "<=>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, given by its path of logical names through structs."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is SQL's NULL."""

    value: Any


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator literal`. Comparisons with the literal on the left are swapped before they are built."""

    operator: Operator
    column: Column
    literal: Literal


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`: null if the column is null, or if no value matches and one of them is null."""

    column: Column
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


@dataclass(frozen=True, slots=True)
class Constant:
    """True, False, or None for SQL's NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that cannot be evaluated here: it may be true, false or null for any row. `text` is for
    messages.
    """

    text: str


@dataclass(frozen=True, slots=True)
class InVariant(Unknown):
    """A condition on a value inside a variant. Only data skipping looks into it: for all others it is unknown.

    Attributes:
        column: the variant.
        keys: of the objects that the value is in; without any, it is the variant itself.
        type: to which the value is cast. A missing value is null.
        condition: on the value, which is the column `VALUE`.
    """

    column: Column
    keys: tuple[str, ...]
    type: DataType
    condition: Comparison | In | StartsWith


VALUE = Column(())


@dataclass(frozen=True, slots=True)
class Computed:
    """A condition that is computed for each row: it can be evaluated, but statistics tell nothing about it.

    Attributes:
        rule: a `tahoe.protocol.types.expressions.Expression`, or a condition of another library, which the outer rings
            evaluate.
        columns: those that the rule references.
        text: for messages.
    """

    rule: Any
    columns: tuple[Column, ...]
    text: str


Predicate: TypeAlias = Comparison | IsNull | In | StartsWith | And | Or | Not | Constant | Computed | Unknown

TRUE = Constant(True)


def columns_of(predicate: Predicate) -> Iterator[Column]:
    """Every column that the predicate references, possibly more than once."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from columns_of(part)
        case Not(part):
            yield from columns_of(part)
        case Comparison() | IsNull() | In() | StartsWith():
            yield predicate.column
        case Computed():
            yield from predicate.columns


def has_computed(predicate: Predicate) -> bool:
    """Whether a part of the predicate can be evaluated only with the rows."""
    match predicate:
        case And(parts) | Or(parts):
            return any(has_computed(part) for part in parts)
        case Not(part):
            return has_computed(part)
        case _:
            return isinstance(predicate, Computed)


def has_unknown(predicate: Predicate) -> bool:
    """Whether the predicate contains an unknown part, so that it cannot be evaluated exactly."""
    match predicate:
        case And(parts) | Or(parts):
            return any(has_unknown(part) for part in parts)
        case Not(part):
            return has_unknown(part)
        case _:
            return isinstance(predicate, Unknown)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The parts of an AND, flattened."""
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from conjuncts(part)
    else:
        yield predicate


def rename(predicate: Predicate, column: Callable[[Column], Column]) -> Predicate:
    """The same predicate with every column replaced."""
    match predicate:
        case And(parts):
            return And(tuple(rename(part, column) for part in parts))
        case Or(parts):
            return Or(tuple(rename(part, column) for part in parts))
        case Not(part):
            return Not(rename(part, column))
        case Comparison():
            return Comparison(predicate.operator, column(predicate.column), predicate.literal)
        case IsNull():
            return IsNull(column(predicate.column))
        case In():
            return In(column(predicate.column), predicate.values)
        case StartsWith():
            return StartsWith(column(predicate.column), predicate.prefix)
        case InVariant():
            return replace(predicate, column=column(predicate.column))
        case _:
            return predicate


def known_by(predicate: Predicate, names: Iterable[str]) -> Predicate:
    """What the values of some top-level columns tell of a predicate: a part that references other columns is unknown.

    If there is such a part, computed parts are unknown too: SQL computes them only for rows that the other parts leave.
    """
    folded = {name.lower() for name in names}
    if all(column.path[0].lower() in folded for column in columns_of(predicate)):
        return predicate
    return _without_others(predicate, folded)


def _without_others(predicate: Predicate, folded: Set[str]) -> Predicate:
    """The predicate with unknown parts in place of those that are computed, or reference a column whose name is not
    among `folded`.
    """
    match predicate:
        case And(parts):
            return And(tuple(_without_others(part, folded) for part in parts))
        case Or(parts):
            return Or(tuple(_without_others(part, folded) for part in parts))
        case Not(part):
            return Not(_without_others(part, folded))
        case Computed():
            return Unknown(predicate.text)
        case Comparison(column=column) | IsNull(column) | In(column) | StartsWith(column):
            return predicate if column.path[0].lower() in folded else Unknown(".".join(column.path))
        case _:
            return predicate


# --- the rows for which a predicate is not true


def untrue(predicate: Predicate) -> Predicate:
    """A predicate that is true for exactly the rows for which this one is false or null, and false for all others.

    An unknown part stays unknown, and a computed part becomes unknown.
    """
    return _two_valued(predicate, wanted=False)


def _two_valued(predicate: Predicate, *, wanted: bool) -> Predicate:
    """A predicate that is true for exactly the rows for which this one is null or `wanted`, and false for all
    others.
    """
    match predicate:
        case Not(part):
            return _two_valued(part, wanted=not wanted)
        case And(parts) | Or(parts):
            inner = tuple(_two_valued(part, wanted=wanted) for part in parts)
            return And(inner) if isinstance(predicate, And) is wanted else Or(inner)
        case Constant(value):
            return Constant(value is None or value is wanted)
        case In(column, values) if values:
            members = tuple(value for value in values if value is not None)
            is_ever = bool(members) and (not wanted or len(members) == len(values))
            return _null_or(column, In(column, members), wanted) if is_ever else TRUE
        case Comparison("=" | "<" | "<=" | ">" | ">=", column, literal):
            return TRUE if literal.value is None else _null_or(column, predicate, wanted)
        case StartsWith(column):
            return _null_or(column, predicate, wanted)
        case Unknown() | Computed():
            return Unknown(predicate.text)
        case _:  # `<=>`, IS NULL and IN an empty list are never null
            return predicate if wanted else Not(predicate)


def _null_or(column: Column, predicate: Predicate, wanted: bool) -> Predicate:
    return Or((IsNull(column), predicate if wanted else Not(predicate)))


# --- evaluation of one row


def evaluate(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """The predicate's value for a row given as nested mappings; None is SQL's NULL. `Unknown` and `Computed` evaluate
    to None.
    """
    match predicate:
        case Constant(value):
            return value
        case Unknown() | Computed():
            return None
        case Not(part):
            inner = evaluate(part, row)
            return None if inner is None else not inner
        case And(parts):
            return _kleene((evaluate(part, row) for part in parts), absorbing=False)
        case Or(parts):
            return _kleene((evaluate(part, row) for part in parts), absorbing=True)
        case IsNull(column):
            return value_at(row, column.path) is None
        case StartsWith(column, prefix):
            text = value_at(row, column.path)
            return None if text is None else text.startswith(prefix)
        case In(column, values):
            return _is_in(value_at(row, column.path), values)
        case Comparison():
            return compare(predicate.operator, value_at(row, predicate.column.path), predicate.literal.value)


def _kleene(values: Iterator[bool | None], *, absorbing: bool) -> bool | None:
    result: bool | None = not absorbing
    for value in values:
        if value is absorbing:
            return absorbing
        if value is None:
            result = None
    return result


def _is_in(value: Any, values: tuple[Any, ...]) -> bool | None:
    return _kleene((compare("=", value, candidate) for candidate in values), absorbing=True)


def value_at(row: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = row
    for name in path:
        here = None if here is None else here.get(name)
    return here


def compare(symbol: Operator, left: Any, right: Any) -> bool | None:
    """SQL's comparison of two values: null if either is null, except for `<=>`."""
    if symbol == "<=>":
        return left is None and right is None if left is None or right is None else order(left, right) == 0
    if left is None or right is None:
        return None
    return _TESTS[symbol](order(left, right), 0)


_TESTS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def order(left: Any, right: Any) -> int:
    """-1, 0 or 1: `left` is less than, equal to, or greater than `right`. NaN equals NaN and is greater than every
    number; strings are ordered by their UTF-8 bytes, as in Spark.
    """
    if isinstance(left, float) or isinstance(right, float):
        left_nan, right_nan = is_nan(left), is_nan(right)
        if left_nan or right_nan:
            return int(left_nan) - int(right_nan)
    if isinstance(left, date) != isinstance(right, date):  # one is outside of Python's calendar, so an int
        left, right = _since_epoch(left), _since_epoch(right)
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
    return int(left > right) - int(left < right)


def _since_epoch(value: Any) -> Any:
    """A date or timestamp as the int that it would be outside of Python's calendar."""
    if isinstance(value, datetime):
        return to_micros(value)
    return to_days(value) if isinstance(value, date) else value


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
