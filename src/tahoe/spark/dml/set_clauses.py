"""Assignments of UPDATE and MERGE: new values of columns and struct fields.

A column without an assignment keeps its value. A single field of a struct can be assigned. If the struct is null, it
becomes a struct with this field, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import ColumnNotFoundError
from tahoe.protocol.changes.evolution import unlike_fields
from tahoe.protocol.types.assigned_paths import assigned_paths, without_qualifier
from tahoe.protocol.types.schema import DataType, Field, Struct
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import Named, Value, column_of, name_parts
from tahoe.spark.writing.store_assignment import spark_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A value for a column or struct field. `column` is the name as the user wrote it, and `path` its parts."""

    column: str
    path: tuple[str, ...]
    value: Column


def assignment(gateway: Gateway, column: str, value: Column) -> Assignment:
    """An assignment to a column named as in SQL: `a`, `a.b`, `` `a.b` ``.

    Raises:
        AnalysisException: the name cannot be parsed.
    """
    return Assignment(column=column, path=tuple(name_parts(gateway, column)), value=value)


def resolve_assignments(
    assignments: Iterable[Assignment],
    schema: Struct,
    name: Sequence[str],
    table: str,
    error: type[ColumnNotFoundError] = ColumnNotFoundError,
) -> dict[tuple[str, ...], Column]:
    """Resolve assignments. Returns the values by column path, spelled as in the schema.

    Args:
        name: the parts of the table's name; the last ones may qualify a column.
        error: for a column that the table does not have.

    Raises:
        DeltaAnalysisError: see `assigned_paths`.
    """
    listed = list(assignments)
    meanings = ((each.column, without_qualifier(each.path, name)) for each in listed)
    paths = assigned_paths(meanings, schema, table=table, missing=error)
    return dict(zip(paths, (each.value for each in listed), strict=True))


def new_values(
    values: Mapping[tuple[str, ...], Value], schema: Struct, own: Struct, current: Callable[[str], Value]
) -> list[Named]:
    """One value per column of a schema: the assigned value, or else the current one.

    Args:
        values: as from `resolve_assignments`.
        own: the schema of existing rows, which may have fewer fields than `schema`.
        current: `current(name)`: the current value of a column.
    """
    structs = {path[0] for path in values if len(path) > 1}
    columns = []
    for field in schema:
        value = values[(field.name,)] if (field.name,) in values else current(field.name)
        if field.name in structs:
            value = _new_value(values, (field.name,), field, own.find(field.name), column_of(value))
        columns.append(Named(field.name, value))
    return columns


def _new_value(
    values: Mapping[tuple[str, ...], Value], path: tuple[str, ...], field: Field, own: Field | None, current: Column
) -> Column:
    """The value of a column or field: the assigned one, else the current one; a struct in which fields are assigned is
    built of its fields. A field that existing rows lack (see `own`) is null unless it is assigned.
    """
    if path in values:
        return column_of(values[path])
    if not isinstance(field.type, Struct) or not any(other[: len(path)] == path for other in values):
        return current
    own_struct = own.type if own is not None and isinstance(own.type, Struct) else Struct(())
    fields = []
    for part in field.type:
        before = own_struct.find(part.name)
        now = F.lit(None).cast(spark_type(part.type)) if before is None else current.getField(before.name)
        fields.append(_new_value(values, (*path, part.name), part, before, now).alias(part.name))
    return F.struct(*fields)


def lacks_fields(value_type: DataType, column_type: DataType) -> bool:
    """Whether the fields of a struct differ from those of its column."""
    return (
        isinstance(value_type, Struct)
        and isinstance(column_type, Struct)
        and next(unlike_fields(value_type, column_type), None) is not None
    )


def with_current_fields(value: Column, value_type: DataType, column_type: DataType, current: Column) -> Column:
    """A value in which the struct fields that its type lacks have the row's current values. A null struct stays null,
    unless the row has a value for one of these fields.
    """
    if not lacks_fields(value_type, column_type):
        return value
    assert isinstance(value_type, Struct)
    assert isinstance(column_type, Struct)
    fields, has_value = [], []
    for field in column_type:
        source = value_type.find(field.name)
        if source is None:
            fields.append(current.getField(field.name).alias(field.name))
            has_value.append(current.getField(field.name).isNotNull())
        else:
            part = with_current_fields(
                value.getField(source.name), source.type, field.type, current.getField(field.name)
            )
            fields.append(part.alias(field.name))
            has_value.append(part.isNotNull())
    return F.when(value.isNotNull() | reduce(or_, has_value), F.struct(*fields))


def first_parts(paths: Iterable[Sequence[str]]) -> set[str]:
    """The top-level columns of paths, in lower case."""
    return {path[0].lower() for path in paths}
