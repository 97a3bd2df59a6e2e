"""Where a column's value comes from in a row that brings none: an expression, a default, or a number that is minted.

Protocol: "Generated Columns", "Default Columns", "Identity Columns". Only columns of the table itself have such a rule, fields of structs
never do, and a rule counts only where the table's protocol supports its feature. Expressions are texts here; whoever writes rows evaluates
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tahoe.errors import (
    ColumnDefaultsNotEnabledError,
    GeneratedColumnTypeError,
    IdentityColumnTypeError,
    IdentityOverflowError,
    IdentityUpdateError,
    IdentityValueGivenError,
    InvalidIdentityColumnError,
    PartitionedByIdentityError,
)
from tahoe.protocol.actions import Metadata, Protocol
from tahoe.protocol.features import supported_features
from tahoe.protocol.schema import LONG, VARIANT, Field, Struct

GENERATION_EXPRESSION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"

# What Spark keeps beside a default: the value that rows from before the column have. Delta columns have none: such rows are null.
EXISTS_DEFAULT = "EXISTS_DEFAULT"

IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
IDENTITY_EXPLICIT = "delta.identity.allowExplicitInsert"
_DEFINING = (IDENTITY_START, IDENTITY_STEP, IDENTITY_EXPLICIT)

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The numbers of an identity column: `start`, `start + step`, ...

    Attributes:
        mark: the value minted last, the farthest from `start`; None before the first.
        is_explicit_allowed: whether rows may bring values of their own, which do not move the mark.
    """

    start: int
    step: int
    high_water_mark: int | None = None
    is_explicit_allowed: bool = False

    @property
    def next(self) -> int:
        return self.start if self.high_water_mark is None else self.high_water_mark + self.step

    def moved_to(self, value: int) -> Identity:
        """With the mark at a value that was minted, or the next after it that a step leads to. It never goes back."""
        steps = -((self.start - value) // self.step)
        reached = self.start + max(steps, 0) * self.step
        is_new = self.high_water_mark is None or (reached > self.high_water_mark if self.step > 0 else reached < self.high_water_mark)
        return replace(self, high_water_mark=reached) if is_new else self

    def check_room(self, count: int, *, table: str, column: str) -> None:
        """Refuse to mint more values than a long can hold.

        Raises:
            IdentityOverflowError
        """
        last = self.next + max(count - 1, 0) * self.step
        if not LONG_MIN <= last <= LONG_MAX:
            raise IdentityOverflowError(table=table, column=column, step=self.step, high_water_mark=self.high_water_mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """The rules of a table, by the names of its columns as the schema spells them.

    Attributes:
        generated: SQL expressions over the other columns; a value that is brought must be equal to it.
        defaults: SQL expressions without columns; a null that is brought stays null.
    """

    generated: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, Identity] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.generated or self.defaults or self.identity)

    def has(self, name: str) -> bool:
        """Whether a column, spelled as in the schema, need not be brought."""
        return name in self.generated or name in self.defaults or name in self.identity


def makes_values(column: Field) -> bool:
    """Whether a column has a rule that makes its values, supported or not."""
    return not column.metadata.keys().isdisjoint((GENERATION_EXPRESSION, CURRENT_DEFAULT, *_DEFINING))


def column_values(protocol: Protocol, schema: Struct, *, table: str = "the table") -> ColumnValues:
    """The rules that hold for a table.

    Raises:
        InvalidIdentityColumnError: a column has some of an identity's parts, and not all.
    """
    supported = supported_features(protocol)
    return ColumnValues(
        generated=_texts(schema, GENERATION_EXPRESSION) if "generatedColumns" in supported else {},
        defaults=_texts(schema, CURRENT_DEFAULT) if "allowColumnDefaults" in supported else {},
        identity=dict(identity_columns(schema, table=table)) if "identityColumns" in supported else {},
    )


def _texts(schema: Struct, key: str) -> dict[str, str]:
    return {f.name: str(f.metadata[key]) for f in schema if key in f.metadata}


def identity_columns(schema: Struct, *, table: str = "the table") -> Iterator[tuple[str, Identity]]:
    """The identity columns of a schema, supported or not.

    Raises:
        InvalidIdentityColumnError: a column has some of an identity's parts, and not all, or never steps.
    """
    for column in schema:
        found = [key for key in _DEFINING if key in column.metadata]
        if not found:
            continue
        if len(found) < len(_DEFINING):
            raise _invalid(table, column, f"it has {', '.join(found)}, and an identity column has {', '.join(_DEFINING)}")
        start, step, is_explicit_allowed = (column.metadata[key] for key in _DEFINING)
        if int(step) == 0:
            raise _invalid(table, column, "its step is 0")
        mark = column.metadata.get(IDENTITY_HIGH_WATER_MARK)
        yield (
            column.name,
            Identity(
                start=int(start),
                step=int(step),
                high_water_mark=None if mark is None else int(mark),
                is_explicit_allowed=str(is_explicit_allowed).lower() == "true",
            ),
        )


def _invalid(table: str, column: Field, detail: str) -> InvalidIdentityColumnError:
    return InvalidIdentityColumnError(table=table, column=column.name, detail=detail)


def check_given(values: ColumnValues, given: Set[str], *, table: str) -> None:
    """Refuse new rows that bring numbers for an identity column which always makes them.

    Args:
        given: the lower-cased names of the columns that the rows bring.

    Raises:
        IdentityValueGivenError
    """
    for name, identity in values.identity.items():
        if name.lower() in given and not identity.is_explicit_allowed:
            raise IdentityValueGivenError(table=table, column=name)


def check_assigned(values: ColumnValues, assigned: Set[str], *, table: str) -> None:
    """Refuse to change the numbers of rows that are there.

    Args:
        assigned: the lower-cased names of the columns that get other values.

    Raises:
        IdentityUpdateError
    """
    for name in values.identity:
        if name.lower() in assigned:
            raise IdentityUpdateError(table=table, column=name)


# --- the marks of identity columns


def with_high_water_marks(schema: Struct, minted: Mapping[str, int]) -> Struct:
    """The schema with the marks of identity columns moved to values that were minted, by column."""
    identity = dict(identity_columns(schema))
    return Struct(tuple(_with_high_water_mark(f, identity[f.name].moved_to(minted[f.name])) if f.name in minted else f for f in schema))


def _with_high_water_mark(column: Field, identity: Identity) -> Field:
    return replace(column, metadata={**column.metadata, IDENTITY_HIGH_WATER_MARK: identity.high_water_mark})


def moved_high_water_marks(before: Metadata, after: Metadata) -> tuple[str, ...]:
    """The identity columns whose marks are not the same in two metadata of a table."""
    if before.schema_string == after.schema_string:
        return ()
    known = {f.name: f.metadata.get(IDENTITY_HIGH_WATER_MARK) for f in before.schema}
    return tuple(f.name for f in after.schema if f.metadata.get(IDENTITY_HIGH_WATER_MARK) != known.get(f.name))


def without_high_water_marks(schema_string: str) -> Any:
    """What a schema's text says, but for the marks of identity columns: to compare two."""
    schema = json.loads(schema_string)
    for column in schema.get("fields", ()):
        (column.get("metadata") or {}).pop(IDENTITY_HIGH_WATER_MARK, None)
    return schema


# --- columns that are made


def as_declared(schema: Struct) -> Struct:
    """The columns of a statement, as a new table has them: nothing was minted, and there are no rows from before a column."""
    dropped = (IDENTITY_HIGH_WATER_MARK, EXISTS_DEFAULT)
    return Struct(tuple(replace(f, metadata={k: v for k, v in f.metadata.items() if k not in dropped}) for f in schema))


def check_new_columns(protocol: Protocol, schema: Struct, partition_columns: Iterable[str], *, table: str) -> None:
    """Refuse columns of a new table whose rules cannot be; the expressions themselves are for an engine to judge.

    Raises:
        InvalidIdentityColumnError, IdentityColumnTypeError, PartitionedByIdentityError: identity columns that cannot be.
        GeneratedColumnTypeError: a generated column whose values cannot be compared.
        ColumnDefaultsNotEnabledError: defaults, and the table has no `delta.feature.allowColumnDefaults`.
    """
    identity, partitions = dict(identity_columns(schema, table=table)), set(partition_columns)
    for column in schema:
        if column.name in identity:
            _check_identity(column, partitions, table)
        elif GENERATION_EXPRESSION in column.metadata and column.type == VARIANT:
            raise GeneratedColumnTypeError(table=table, column=column.name, type=column.type)
    defaults = [f.name for f in schema if CURRENT_DEFAULT in f.metadata]
    if defaults and "allowColumnDefaults" not in supported_features(protocol):
        raise ColumnDefaultsNotEnabledError(table=table, columns=", ".join(defaults))


def _check_identity(column: Field, partition_columns: Iterable[str], table: str) -> None:
    if GENERATION_EXPRESSION in column.metadata or CURRENT_DEFAULT in column.metadata:
        raise _invalid(table, column, "its values cannot come from an expression as well")
    if column.type != LONG:
        raise IdentityColumnTypeError(table=table, column=column.name, type=column.type)
    if column.name in partition_columns:
        raise PartitionedByIdentityError(table=table, column=column.name)
