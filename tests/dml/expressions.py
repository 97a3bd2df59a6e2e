"""SQL expressions as small trees, which are text for Spark and a function for Python: one tree, two meanings, which
must agree.

Values are Python's: None is NULL, a struct is a dict. Every operator is one record of OPERATORS; a new one is a new
record.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

# The rows in sight, by the name that they have in the statement; in DELETE and UPDATE there is only the target.
TARGET, SOURCE = "t", "s"
Values: TypeAlias = Mapping[str, Any]
Scope: TypeAlias = Mapping[str, Values]

EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct column.

    Attributes:
        written: how the statement spells it; names are the same whatever their case.
    """

    side: str
    path: tuple[str, ...]
    written: str

    def sql(self) -> str:
        return self.written

    def value(self, scope: Scope) -> Any:
        found: Any = scope[self.side]
        for name in self.path:
            found = None if found is None else found[name]
        return found


@dataclass(frozen=True)
class Literal:
    kind: str
    of: Any

    def sql(self) -> str:
        return literal(self.kind, self.of)

    def value(self, scope: Scope) -> Any:
        return self.of


@dataclass(frozen=True)
class Apply:
    """An operator of OPERATORS with its arguments."""

    operator: str
    arguments: tuple[Expression, ...]

    def sql(self) -> str:
        return OPERATORS[self.operator].template.format(*(argument.sql() for argument in self.arguments))

    def value(self, scope: Scope) -> Any:
        return OPERATORS[self.operator].of(*(argument.value(scope) for argument in self.arguments))


Expression: TypeAlias = Column | Literal | Apply


def apply(operator: str, *arguments: Expression) -> Apply:
    assert operator in OPERATORS, operator
    return Apply(operator, arguments)


def holds(condition: Expression | None, scope: Scope) -> bool:
    """Whether a condition is true: neither false nor unknown. Where there is none, it is."""
    return condition is None or condition.value(scope) is True


# --- comparing


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def equal(left: Any, right: Any) -> bool:
    """NaN is equal to itself, and 0.0 to -0.0."""
    return bool(left == right) or (is_nan(left) and is_nan(right))


def less(left: Any, right: Any) -> bool:
    """NaN is above everything. Text is ordered by its bytes in UTF-8, which is the order of code points."""
    if is_nan(left) or is_nan(right):
        return is_nan(right) and not is_nan(left)
    return bool(left < right)


def _same(left: Any, right: Any) -> bool:
    """<=>"""
    return (left is None) == (right is None) and (left is None or equal(left, right))


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _in(value: Any, *among: Any) -> bool | None:
    found: bool | None = False
    for one in among:
        found = _or(found, None if value is None or one is None else equal(value, one))
    return found


# --- operators


@dataclass(frozen=True)
class Operator:
    """How it is written, and what it is of values, NULLs among them."""

    template: str
    of: Callable[..., Any]


def _strict(of: Callable[..., Any]) -> Callable[..., Any]:
    """NULL where an argument is."""
    return lambda *arguments: None if any(argument is None for argument in arguments) else of(*arguments)


def _plus(left: float, right: float) -> float:
    return left + right


def _remainder(left: int, right: int) -> int:
    """As Java's: the sign is that of the dividend. Remainders of 0 are not asked for."""
    return int(math.copysign(abs(left) % abs(right), left)) if left else 0


OPERATORS: Mapping[str, Operator] = {
    "=": Operator("({} = {})", _strict(equal)),
    "<>": Operator("({} <> {})", _strict(lambda a, b: not equal(a, b))),
    "<": Operator("({} < {})", _strict(less)),
    "<=": Operator("({} <= {})", _strict(lambda a, b: not less(b, a))),
    ">": Operator("({} > {})", _strict(lambda a, b: less(b, a))),
    ">=": Operator("({} >= {})", _strict(lambda a, b: not less(a, b))),
    "<=>": Operator("({} <=> {})", _same),
    "between": Operator("({} BETWEEN {} AND {})", lambda v, low, high: _and(_at_least(v, low), _at_least(high, v))),
    "is null": Operator("({} IS NULL)", lambda v: v is None),
    "is not null": Operator("({} IS NOT NULL)", lambda v: v is not None),
    "in 2": Operator("({} IN ({}, {}))", _in),
    "not in 3": Operator("({} NOT IN ({}, {}, {}))", lambda *a: None if (found := _in(*a)) is None else not found),
    "and": Operator("({} AND {})", _and),
    "or": Operator("({} OR {})", _or),
    "not": Operator("(NOT {})", _strict(lambda v: not v)),
    "isnan": Operator("isnan({})", is_nan),
    "starts with": Operator("startswith({}, {})", _strict(lambda v, start: v.startswith(start))),
    "+": Operator("({} + {})", _strict(_plus)),
    "-": Operator("({} - {})", _strict(lambda a, b: a - b)),
    "%": Operator("({} % {})", _strict(_remainder)),
    "negative": Operator("(- {})", _strict(lambda v: -v)),
    "as int": Operator("CAST({} AS INT)", lambda v: v),
    "as bigint": Operator("CAST({} AS BIGINT)", lambda v: v),
    "as double": Operator("CAST({} AS DOUBLE)", _strict(float)),
    "as string": Operator("CAST({} AS STRING)", _strict(str)),
    "length": Operator("length({})", _strict(len)),
    "concat": Operator("concat({}, {})", _strict(lambda a, b: a + b)),
    "substring": Operator("substring({}, 1, 1)", _strict(lambda v: v[:1])),
    "date_add": Operator("date_add({}, {})", _strict(lambda v, days: v + dt.timedelta(days=days))),
    "case": Operator("(CASE WHEN {} THEN {} ELSE {} END)", lambda condition, a, b: a if condition is True else b),
    "coalesce": Operator("coalesce({}, {})", lambda a, b: b if a is None else a),
    "struct": Operator("named_struct('a', {}, 'b', {})", lambda a, b: {"a": a, "b": b}),
}


def _at_least(value: Any, least: Any) -> bool | None:
    return None if value is None or least is None else not less(value, least)


# --- literals

# Types as SQL spells them.
TYPES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "STRING",
    "date": "DATE",
    "struct": "STRUCT<a: INT, b: STRING>",
}


def literal(kind: str, value: Any) -> str:
    """A value as SQL."""
    if value is None:
        return f"CAST(NULL AS {TYPES[kind]})"
    match kind:
        case "boolean":
            return "true" if value else "false"
        case "bigint":
            return f"{value}L"
        case "double":
            return f"CAST('{value!r}' AS DOUBLE)"
        case "string":
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case "date":
            return f"DATE'{value.isoformat()}'"
        case "struct":
            return f"named_struct('a', {literal('int', value['a'])}, 'b', {literal('string', value['b'])})"
        case _:
            return str(value)
