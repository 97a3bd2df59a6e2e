"""Expressions over a row: columns, values and calls of functions, each with its type.

They are built from SQL text (`tahoe.sql.expressions`), with every cast that Spark would add, and computed over Arrow
columns (`tahoe.table.arrow.computation`). Values are Python's, as in `tahoe.protocol.types.predicate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from tahoe.protocol.types.schema import DataType


@dataclass(frozen=True, slots=True)
class Reference:
    """A column, or a field inside of structs, by its path of logical names."""

    path: tuple[str, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Value:
    """A constant; None is SQL's NULL."""

    value: Any
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its arguments, by Spark's name in lower case; operators have their symbol.

    Attributes:
        options: what is not computed from rows: the time zone of a cast, a pattern.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: DataType
    options: tuple[Any, ...] = ()


Expression: TypeAlias = Reference | Value | Call


def references(expression: Expression) -> Iterator[Reference]:
    """Every column that the expression references, possibly more than once."""
    match expression:
        case Reference():
            yield expression
        case Call():
            for argument in expression.arguments:
                yield from references(argument)
        case _:
            return
