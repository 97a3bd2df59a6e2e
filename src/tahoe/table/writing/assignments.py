"""New values of columns and struct fields, for UPDATE and MERGE without Spark.

A text is SQL; any other Python value is taken as it is. A column without an assignment keeps its value. If a struct is
null of which a field is assigned, it becomes a struct with this field, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import (
    ColumnNotFoundError,
    ExpressionFailedError,
    InvalidArgumentError,
    InvalidPredicateError,
    MissingNotNullColumnError,
)
from tahoe.protocol.changes.evolution import check_fields
from tahoe.protocol.types.assigned_paths import Path, assigned_paths, without_qualifier
from tahoe.protocol.types.assignment_rules import mismatches
from tahoe.protocol.types.expressions import Expression, Value
from tahoe.protocol.types.names import parse_column_list
from tahoe.protocol.types.schema import TIMESTAMP, TIMESTAMP_NTZ, Array, DataType, Field, Map, Struct
from tahoe.sql.coercion import is_cast_here
from tahoe.sql.expressions import parse_expression
from tahoe.table.arrow.chunks import one_array, with_columns
from tahoe.table.arrow.computation import IMPOSSIBLE, compute, expression_failed
from tahoe.table.arrow.types import arrow_type
from tahoe.table.writing.arrow_assignment import unfit_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What expressions may name.

    Attributes:
        schema: the columns; in a MERGE one struct for each side.
        sides: the names of these structs, which expressions may leave out.
    """

    schema: Struct
    sides: tuple[str, ...] = ()
    zone: tzinfo
    table: str

    def parse(self, text: str, wanted: Any = None) -> Expression:
        return parse_expression(text, self.schema, wanted=wanted, implied=self.sides, zone=self.zone, table=self.table)

    def computed(self, expression: Expression, rows: pa.Table, text: str) -> pa.Array:
        """
        Raises:
            ExpressionFailedError: there is no value for a row.
        """
        try:
            return compute(expression, rows)
        except IMPOSSIBLE as error:
            raise expression_failed(error, table=self.table, expression=text) from error


@dataclass(frozen=True, slots=True)
class Assignment:
    """A new value as a text, as an expression of its own type, and as one of the column's type."""

    text: str
    given: Expression
    value: Expression


def parse_assignments(
    given: Mapping[str, Any],
    own: Struct,
    scope: Scope,
    alias: str | None = None,
    *,
    may_lack: bool = False,
    missing: type[ColumnNotFoundError] = ColumnNotFoundError,
) -> dict[Path, Assignment]:
    """The values by column path, spelled as in the schema.

    Args:
        given: by column, or `column.field`, which `alias` may qualify.
        own: the columns of the table.
        may_lack: whether structs may lack fields, because the command evolves the schema.
        missing: the error for a column that the table does not have.

    Raises:
        ColumnNotFoundError, ConflictingAssignmentsError, UnsupportedOperationError: see `assigned_paths`.
        SchemaMismatchError: a struct has other fields than the column, or a value has a type that is not cast to the
            column's.
        UnfitValueError: a constant that the column cannot hold.
        InvalidArgumentError: a value of Python is not one that the column can hold.
        InvalidPredicateError: an expression is invalid, or only Spark can compute it.
    """
    found: dict[Path, Assignment] = {}
    meanings = ((name, _meanings(name, scope, () if alias is None else (alias,))) for name in given)
    paths = assigned_paths(meanings, own, table=scope.table, missing=missing)
    for path, (name, value) in zip(paths, given.items(), strict=True):
        kind = own.resolve(path)[-1].type  # type: ignore[index]  # the path was found in the schema
        if isinstance(value, str):
            try:
                found[path] = _parse_assignment(value, path, kind, scope)
            except InvalidPredicateError as error:
                raise error.suggesting(f"It is the new value of column {name}, of type {kind}.") from error.__cause__
            check_fields(found[path].value.type, kind, path, may_lack=may_lack, table=scope.table)
        else:
            constant = Value(_checked_value(name, value, kind, scope), kind)
            found[path] = Assignment(repr(value), constant, constant)
    return found


def _parse_assignment(text: str, path: Path, kind: DataType, scope: Scope) -> Assignment:
    """An SQL text as the value of a column, cast to its type; but a nested value is as it is."""
    value = scope.parse(text)
    value_columns, target_columns = (Struct((Field(name=".".join(path), type=each),)) for each in (value.type, kind))
    mismatch = next(
        (
            each
            for each in mismatches(value_columns, target_columns, "ANSI")
            if each.error is not MissingNotNullColumnError
        ),
        None,
    )
    if mismatch is not None:
        raise mismatch.error(
            table=scope.table,
            detail=mismatch.detail.replace(" in the data", " in the assignment"),
            remedy="Cast the value.",
        )
    if isinstance(kind, Struct | Array | Map):
        return Assignment(text, value, value)
    try:
        return Assignment(text, value, scope.parse(text, kind))
    except InvalidPredicateError as error:
        if isinstance(value, Value) and is_cast_here(value.type, kind):
            constant = pa.array([value.value], arrow_type(value.type))
            raise unfit_value(constant, kind, path, zone=scope.zone, table=scope.table) from error
        raise


def _checked_value(name: str, given: Any, kind: DataType, scope: Scope) -> Any:
    """A value of Python for a column.

    Raises:
        InvalidArgumentError: the column cannot hold it.
    """
    value = given.as_py() if isinstance(given, pa.Scalar) else given
    try:
        value = _in_zone(value, kind, scope.zone)
        is_exact = _is_stored_exactly(value, pa.scalar(value, arrow_type(kind)).as_py())
    except (*IMPOSSIBLE, TypeError):
        is_exact = False
    if not is_exact:
        expected, remedy = (
            f"a value of type {kind} for {name}",
            'Convert the value, or pass an SQL text: "CAST(1.5 AS INT)".',
        )
        raise InvalidArgumentError(
            argument="set", table=scope.table, found=f"{value!r}", expected=expected, remedy=remedy
        )
    return value


def _in_zone(value: Any, kind: DataType, zone: tzinfo) -> Any:
    """A value whose times are cast to instants where the column has instants, and back where it has none, in this
    zone.
    """
    match kind:
        case Struct(fields) if isinstance(value, Mapping):
            kinds = {field.name: field.type for field in fields}
            return {name: _in_zone(part, kinds[name], zone) if name in kinds else part for name, part in value.items()}
        case Array() if isinstance(value, list | tuple):
            return [_in_zone(part, kind.element, zone) for part in value]
        case Map():
            pairs = value.items() if isinstance(value, Mapping) else value or ()
            return (
                None
                if value is None
                else [(_in_zone(k, kind.key, zone), _in_zone(part, kind.value, zone)) for k, part in pairs]
            )
        case _ if kind == TIMESTAMP and isinstance(value, datetime) and value.tzinfo is None:
            return value.replace(tzinfo=zone)
        case _ if kind == TIMESTAMP_NTZ and isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(zone).replace(tzinfo=None)
    return value


def _is_stored_exactly(value: Any, stored: Any) -> bool:
    """Whether Arrow stores all of a value: of a fraction it may store the whole number, of a time the date, and of a
    struct it leaves out the fields that the type does not have.
    """
    match stored:
        case int():
            return bool(value == stored)
        case date() if isinstance(value, datetime) and not isinstance(stored, datetime):
            return value.time() == time()
        case dict() if isinstance(value, Mapping):
            return value.keys() <= stored.keys() and all(
                _is_stored_exactly(value.get(name), part) for name, part in stored.items()
            )
        case list() if isinstance(value, Mapping):  # Arrow has a map as a list of its entries, which are tuples
            return all(map(_is_stored_exactly, value.items(), stored))
        case list() | tuple():
            return all(map(_is_stored_exactly, value, stored))
    return True


def _meanings(name: str, scope: Scope, qualifier: Sequence[str]) -> Iterator[Path]:
    """The paths that a name may mean: a column of this very name, which may have dots, or the name as in SQL."""
    yield (name,)
    try:
        (path,) = parse_column_list(name)
    except ValueError:
        expected, remedy = "names of columns such as day, address.city or `a.b`", "Quote names with other characters."
        raise InvalidArgumentError(
            argument="set", table=scope.table, found=repr(name), expected=expected, remedy=remedy
        ) from None
    yield from without_qualifier(path, qualifier)


def with_assigned(before: pa.Table, assigned: Mapping[Path, Assignment], rows: pa.Table, scope: Scope) -> pa.Table:
    """Rows of the table with their new values.

    Args:
        before: the rows as they are.
        rows: the same rows as `scope` names their columns.
    """
    changed: dict[str, pa.Array] = {}
    for path, assignment in assigned.items():
        value = _compute_assignment(assignment, path, rows, scope)
        current = changed[path[0]] if path[0] in changed else one_array(before.column(path[0]))
        changed[path[0]] = _with_value(current, path[1:], value)
    return with_columns(before, changed)


def _compute_assignment(assignment: Assignment, path: Path, rows: pa.Table, scope: Scope) -> pa.Array:
    """The values of an assignment.

    Raises:
        UnfitValueError: one that the column cannot hold.
        ExpressionFailedError: there is no value for a row.
    """
    try:
        return scope.computed(assignment.value, rows, assignment.text)
    except ExpressionFailedError as error:
        if assignment.given is assignment.value or assignment.given.type == assignment.value.type:
            raise
        given = scope.computed(assignment.given, rows, assignment.text)
        raise unfit_value(given, assignment.value.type, path, zone=scope.zone, table=scope.table) from error


def _with_value(current: pa.Array, path: Path, value: pa.Array) -> pa.Array:
    """A column with another value, or with another value of a field inside of it."""
    if not path:
        return completed(value, current)
    children = {field.name: child for field, child in zip(current.type, current.flatten(), strict=True)}
    children[path[0]] = _with_value(children[path[0]], path[1:], value)
    return pa.StructArray.from_arrays(list(children.values()), list(children))


def completed(value: pa.Array, current: pa.Array) -> pa.Array:
    """A value in which the struct fields that its type lacks have the row's current values. A null struct stays null,
    unless the row has a value for one of these fields.
    """
    if not _lacks(value.type, current.type):
        return value
    given = {field.name.lower(): part for field, part in zip(value.type, value.flatten(), strict=True)}
    inside = [
        completed(given[field.name.lower()], part) if field.name.lower() in given else part
        for field, part in zip(current.type, current.flatten(), strict=True)
    ]
    is_there = reduce(pc.or_, (part.is_valid() for part in inside), value.is_valid())
    return pa.StructArray.from_arrays(inside, [field.name for field in current.type], mask=pc.invert(is_there))


def _lacks(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a struct lacks a field of another one, at any depth of structs."""
    if not pa.types.is_struct(given) or not pa.types.is_struct(wanted):
        return False
    kinds = {field.name.lower(): field.type for field in given}
    return any(field.name.lower() not in kinds or _lacks(kinds[field.name.lower()], field.type) for field in wanted)


def taken_over(source: pa.Table, own: Struct) -> pa.Table:
    """The columns of a table's schema that a source has, for `UPDATE SET *` and `INSERT *`."""
    names = {name.lower(): name for name in source.column_names}
    kept = [name for name in own.names if name.lower() in names]
    return source.select([names[name.lower()] for name in kept]).rename_columns(kept)
