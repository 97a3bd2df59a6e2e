"""Generated, default and identity columns: the value of a column for rows that do not provide one.

Protocol: "Generated Columns", "Default Columns", "Identity Columns". Only top-level columns can have such a rule, and
it applies only if the table's protocol supports the feature. Expressions are text here; the writer evaluates them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tahoe.errors import (
    ColumnDefaultsNotEnabledError,
    GeneratedColumnTypeError,
    GeospatialUnsupportedError,
    IdentityColumnTypeError,
    IdentityOverflowError,
    IdentityUpdateError,
    IdentityValueGivenError,
    InvalidIdentityColumnError,
    PartitionedByIdentityError,
)
from tahoe.protocol.configuration.column_mapping import column_id, physical_name
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.column_metadata import (
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_EXPLICIT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)
from tahoe.protocol.types.schema import LONG, VARIANT, Field, Struct, holds_geospatial

_DEFINING = (IDENTITY_START, IDENTITY_STEP, IDENTITY_EXPLICIT)

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The definition of an identity column, whose values are `start`, `start + step`, ...

    Attributes:
        high_water_mark: the last generated value, the farthest from `start`; None before the first.
        is_explicit_allowed: whether rows may provide values, which do not change the high-water mark.
    """

    start: int
    step: int
    high_water_mark: int | None = None
    is_explicit_allowed: bool = False

    @property
    def next(self) -> int:
        """The first value beyond the high-water mark. Another writer's mark may be between two values, or before
        `start`.
        """
        if self.high_water_mark is None:
            return self.start
        return self.start + max((self.high_water_mark - self.start) // self.step + 1, 0) * self.step

    def moved_to(self, value: int) -> Identity:
        """With the high-water mark raised to a value, or to the next value after it that steps can reach. It never goes
        back.
        """
        steps = -((self.start - value) // self.step)
        reached = self.start + max(steps, 0) * self.step
        is_new = self.high_water_mark is None or (
            reached > self.high_water_mark if self.step > 0 else reached < self.high_water_mark
        )
        return replace(self, high_water_mark=reached) if is_new else self

    def has_passed(self, value: int) -> bool:
        """Whether the column never generates a value again, because the high-water mark is beyond it."""
        return not self.is_before_start(value) and self.moved_to(value) == self

    def is_before_start(self, value: int) -> bool:
        """Whether a value comes before all values of the column."""
        return value < self.start if self.step > 0 else value > self.start

    def check_room(self, count: int, *, table: str, column: str) -> None:
        """Refuse to generate values beyond the range of a long.

        Raises:
            IdentityOverflowError
        """
        last = self.next + max(count - 1, 0) * self.step
        if not LONG_MIN <= last <= LONG_MAX:
            raise IdentityOverflowError(
                table=table, column=column, step=self.step, high_water_mark=self.high_water_mark
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """The generated, default and identity columns of a table, by their names as in the schema.

    Attributes:
        generated: SQL expressions over the other columns; a provided value must equal the result.
        defaults: SQL expressions without column references; a provided null stays null.
    """

    generated: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, Identity] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.generated or self.defaults or self.identity)

    def has(self, name: str) -> bool:
        """Whether rows may leave out a column, whose name is spelled as in the schema."""
        return name in self.generated or name in self.defaults or name in self.identity


def makes_values(column: Field) -> bool:
    """Whether a column is generated, has a default or is an identity column, even if the protocol does not support
    it.
    """
    return not column.metadata.keys().isdisjoint((GENERATION_EXPRESSION, CURRENT_DEFAULT, *_DEFINING))


def column_values(protocol: Protocol, schema: Struct, *, table: str = "the table") -> ColumnValues:
    """The generated, default and identity columns that the table's protocol supports.

    Raises:
        InvalidIdentityColumnError: the metadata of an identity column is incomplete, a value is not an integer, or the
            step is 0.
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
    """The identity columns of a schema, even if the protocol does not support them.

    Raises:
        InvalidIdentityColumnError: the metadata of an identity column is incomplete, a value is not an integer, or the
            step is 0.
    """
    for column in schema:
        found = [key for key in _DEFINING if key in column.metadata]
        if not found:
            continue
        if len(found) < len(_DEFINING):
            raise _invalid(
                table, column, f"it has {', '.join(found)}, but an identity column needs {', '.join(_DEFINING)}"
            )
        step = _integer(column, IDENTITY_STEP, table)
        if step == 0:
            raise _invalid(table, column, "its step is 0")
        yield (
            column.name,
            Identity(
                start=_integer(column, IDENTITY_START, table),
                step=step,
                high_water_mark=_high_water_mark(column, table),
                is_explicit_allowed=str(column.metadata[IDENTITY_EXPLICIT]).lower() == "true",
            ),
        )


def _high_water_mark(column: Field, table: str) -> int | None:
    return (
        None
        if column.metadata.get(IDENTITY_HIGH_WATER_MARK) is None
        else _integer(column, IDENTITY_HIGH_WATER_MARK, table)
    )


def _integer(column: Field, key: str, table: str) -> int:
    value = column.metadata[key]
    if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:  # a bool is no number here
        raise _invalid(table, column, f"expected {key} to be an integer of 64 bits, found {json.dumps(value)}")
    return value


def _invalid(table: str, column: Field, detail: str) -> InvalidIdentityColumnError:
    return InvalidIdentityColumnError(table=table, column=column.name, detail=detail)


def check_given(values: ColumnValues, given: Set[str], *, table: str) -> None:
    """Refuse new rows with values for a GENERATED ALWAYS identity column.

    Args:
        given: the lower-cased names of the columns in the data.

    Raises:
        IdentityValueGivenError
    """
    for name, identity in values.identity.items():
        if name.lower() in given and not identity.is_explicit_allowed:
            raise IdentityValueGivenError(table=table, column=name)


def check_assigned(values: ColumnValues, assigned: Set[str], *, table: str) -> None:
    """Refuse to update an identity column.

    Args:
        assigned: the lower-cased names of the updated columns.

    Raises:
        IdentityUpdateError
    """
    for name in values.identity:
        if name.lower() in assigned:
            raise IdentityUpdateError(table=table, column=name)


# --- the high-water marks of identity columns


def with_high_water_marks(schema: Struct, minted: Mapping[str, int]) -> Struct:
    """The schema with the high-water marks of identity columns raised to the generated values, by column."""
    identity = dict(identity_columns(schema))
    return Struct(
        tuple(
            _with_high_water_mark(f, identity[f.name].moved_to(minted[f.name])) if f.name in minted else f
            for f in schema
        )
    )


def _with_high_water_mark(column: Field, identity: Identity) -> Field:
    return replace(column, metadata={**column.metadata, IDENTITY_HIGH_WATER_MARK: identity.high_water_mark})


def is_same_column(one: Field, other: Field) -> bool:
    """Whether top-level columns of two versions of a table are the same.

    The name in data files identifies them. It stays when column mapping begins, also for the second time, when columns
    get other ids. When column mapping ends, it is the name that stays.
    """
    if physical_name(one).lower() == physical_name(other).lower():
        return True
    return None in (column_id(one), column_id(other)) and one.name.lower() == other.name.lower()


def moved_high_water_marks(before: Metadata, after: Metadata) -> tuple[str, ...]:
    """The identity columns whose high-water marks differ between two versions of a table's metadata."""
    if before.schema_string == after.schema_string:
        return ()
    known = {f.name: f.metadata.get(IDENTITY_HIGH_WATER_MARK) for f in before.schema}
    return tuple(f.name for f in after.schema if f.metadata.get(IDENTITY_HIGH_WATER_MARK) != known.get(f.name))


def without_high_water_marks(schema_string: str) -> Any:
    """The JSON value of a schema without the high-water marks of identity columns, for comparing two schemas."""
    schema = json.loads(schema_string)
    for column in schema.get("fields", ()):
        (column.get("metadata") or {}).pop(IDENTITY_HIGH_WATER_MARK, None)
    return schema


# --- columns of new tables


def as_declared(schema: Struct) -> Struct:
    """The columns of a CREATE statement for a new table, without high-water marks and values for existing rows."""
    dropped = (IDENTITY_HIGH_WATER_MARK, EXISTS_DEFAULT)
    return Struct(tuple(replace(f, metadata={k: v for k, v in f.metadata.items() if k not in dropped}) for f in schema))


def check_new_columns(protocol: Protocol, schema: Struct, partition_columns: Iterable[str], *, table: str) -> None:
    """Refuse invalid generated, default and identity columns of a new table. The engine checks the expressions
    themselves.

    Raises:
        InvalidIdentityColumnError, IdentityColumnTypeError, PartitionedByIdentityError: an identity column is invalid.
        GeneratedColumnTypeError: the values of a generated column cannot be compared.
        ColumnDefaultsNotEnabledError: a column has a default, but the table does not support `allowColumnDefaults`.
        GeospatialUnsupportedError: a geospatial column has a default.
    """
    identity, partitions = dict(identity_columns(schema, table=table)), set(partition_columns)
    for column in schema:
        if column.name in identity:
            _check_identity(column, partitions, table)
        elif GENERATION_EXPRESSION in column.metadata and (column.type == VARIANT or holds_geospatial(column.type)):
            raise GeneratedColumnTypeError(table=table, column=column.name, type=column.type)
    defaults = [f.name for f in schema if CURRENT_DEFAULT in f.metadata]
    if defaults and "allowColumnDefaults" not in supported_features(protocol):
        raise ColumnDefaultsNotEnabledError(table=table, columns=", ".join(defaults))
    check_defaults((f for f in schema if CURRENT_DEFAULT in f.metadata), table=table)


def check_defaults(columns: Iterable[Field], *, table: str) -> None:
    """Refuse columns that cannot have default values, as the reference does.

    Raises:
        GeospatialUnsupportedError: a column is geospatial, or has such a part.
    """
    refused = [f"{column.name} {column.type}" for column in columns if holds_geospatial(column.type)]
    if refused:
        raise GeospatialUnsupportedError(operation="DEFAULT", table=table, columns=", ".join(refused))


def _check_identity(column: Field, partition_columns: Iterable[str], table: str) -> None:
    if GENERATION_EXPRESSION in column.metadata or CURRENT_DEFAULT in column.metadata:
        raise _invalid(table, column, "it also has a default or generation expression")
    if column.type != LONG:
        raise IdentityColumnTypeError(table=table, column=column.name, type=column.type)
    if column.name in partition_columns:
        raise PartitionedByIdentityError(table=table, column=column.name)
