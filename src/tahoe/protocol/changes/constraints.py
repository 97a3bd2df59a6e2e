"""The SQL expressions that every row of a table must satisfy.

Protocol: "CHECK Constraints", "Column Invariants". An expression must be true: both null and false are violations.
Expressions are text here; the writer evaluates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tahoe._version import VERSION
from tahoe.errors import InvalidActionError, WriteNotImplementedError
from tahoe.protocol.configuration.declared_keys import CHECK_PREFIX
from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.column_metadata import INVARIANTS
from tahoe.protocol.types.json_text import is_text, load_json
from tahoe.protocol.types.schema import walk_fields

PREFIX = CHECK_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A CHECK constraint under its own name, or a column invariant, named after its column."""

    name: str
    expression: str


def constraints_of(metadata: Metadata, *, table: str) -> tuple[Constraint, ...]:
    """The CHECK constraints and column invariants of a table.

    As in the reference, they are enforced even if the protocol does not list their features: enforcing more is never
    wrong.

    Raises:
        WriteNotImplementedError: an invariant is inside an array or a map, where an expression cannot reference it.
    """
    return (*checks_of(metadata.configuration), *_invariants(metadata, table))


def checks_of(configuration: Mapping[str, str]) -> tuple[Constraint, ...]:
    """The CHECK constraints among the properties of a table."""
    return tuple(
        Constraint(name=key[len(PREFIX) :], expression=text)
        for key, text in configuration.items()
        if key.lower().startswith(PREFIX)
    )


def _invariants(metadata: Metadata, table: str) -> Iterator[Constraint]:
    """The invariants of the columns. Those inside arrays and maps are refused, because no condition over a row can
    check them.
    """
    for path, field in walk_fields(metadata.schema):
        stored = field.metadata.get(INVARIANTS)
        if stored is not None:
            if metadata.schema.resolve(path) is None:
                rule = f"the invariant of {'.'.join(path)}, inside an array or a map"
                raise WriteNotImplementedError(table=table, rule=rule, feature="invariants", tahoe_version=VERSION)
            text = _expression(stored)
            if text is None:
                detail = f"the invariant of column {'.'.join(path)} is {stored!r}, not a JSON object with an expression"
                raise InvalidActionError(table=table, action="metaData", detail=detail)
            yield Constraint(name=f"the invariant of column {'.'.join(path)}", expression=text)


def _expression(stored: Any) -> str | None:
    """The SQL expression in the stored form of an invariant; None if it is invalid."""
    try:
        text = load_json(stored)["expression"]["expression"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return text if is_text(text) else None
