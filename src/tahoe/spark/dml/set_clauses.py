"""What UPDATE and MERGE assign: new values for columns, and for fields of structs.

A column that nothing is assigned to keeps its value. A field of a struct may be assigned alone, even where the struct is null: it is a
struct with that field then, as in the reference.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import ColumnNotFoundError, ConflictingAssignmentsError, UnsupportedOperationError
from tahoe.protocol.schema import VOID, Array, DataType, Field, Map, Struct
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import name_parts
from tahoe.spark.writing.store_assignment import spark_type

# How many names an error shows where there are many.
_SHOWN_NAMES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A value for a column, or for a field of one. `column` is as the user wrote it, with the parts of its path."""

    column: str
    path: tuple[str, ...]
    value: Column


def assignment(gateway: Gateway, column: str, value: Column) -> Assignment:
    """An assignment to a column named as in SQL: `a`, `a.b`, `` `a.b` ``.

    Raises:
        AnalysisException: the name cannot be parsed.
    """
    return Assignment(column=column, path=tuple(name_parts(gateway, column)), value=value)


def resolved(assignments: Iterable[Assignment], schema: Struct, name: Sequence[str], table: str) -> dict[tuple[str, ...], Column]:
    """The values by the paths of the columns that they are for, spelled as in the schema.

    Args:
        name: the table's, by the last parts of which a column's name may begin.

    Raises:
        ColumnNotFoundError: there is no such column.
        ConflictingAssignmentsError: two values for one column, or for a struct and a field of it.
    """
    found: dict[tuple[str, ...], Column] = {}
    written: dict[tuple[str, ...], str] = {}
    for given in assignments:
        path = _path(given, schema, name, table)
        clash = next((other for other in written if other[: len(path)] == path[: len(other)]), None)
        if schema.resolve(path)[-1].type == VOID:  # type: ignore[index]  # the path was found in the schema
            raise UnsupportedOperationError(
                operation=f"Assigning to {given.column}",
                table=table,
                detail="the column is void, and no file holds a value for it",
                remedy="Give the column a type first.",
            )
        if clash is not None:
            raise ConflictingAssignmentsError(table=table, first=written[clash], second=given.column)
        found[path] = given.value
        written[path] = given.column
    return found


def paths_in(path: tuple[str, ...], name: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What a written path may mean in a table of a name: all of it, or what follows the name."""
    yield path
    folded = [part.lower() for part in path]
    for start in range(len(name)):
        before = [part.lower() for part in name[start:]]
        if len(path) > len(before) and folded[: len(before)] == before:
            yield path[len(before) :]


def _path(given: Assignment, schema: Struct, name: Sequence[str], table: str) -> tuple[str, ...]:
    for path in paths_in(given.path, name):
        fields = schema.resolve(path)
        if fields:
            return tuple(field.name for field in fields)
    first = schema.find(given.path[0])
    if first is not None and not isinstance(first.type, Struct):
        raise UnsupportedOperationError(
            operation=f"Assigning to {given.column}",
            table=table,
            detail=f"{first.name} is {first.type}, and only fields of structs can be assigned alone",
            remedy="Assign the whole column, with transform() or map functions for what is inside.",
        )
    raise column_not_found(given.column, schema, table)


def column_not_found(column: str, schema: Struct, table: str) -> ColumnNotFoundError:
    """The error for a name that a table does not have, with the nearest names first."""
    near = difflib.get_close_matches(column.lower(), [name.lower() for name in schema.names], n=_SHOWN_NAMES_MAX, cutoff=0.5)
    names = [field.name for name in near if (field := schema.find(name)) is not None]
    rest = [name for name in schema.names if name not in names][: _SHOWN_NAMES_MAX - len(names)]
    return ColumnNotFoundError(table=table, column=column, columns=", ".join([*names, *rest]))


def new_values(values: Mapping[tuple[str, ...], Column], schema: Struct, own: Struct, current: Callable[[str], Column]) -> list[Column]:
    """One column for each of a schema's: the assigned value, or else the current one.

    Args:
        values: as from `resolved`.
        own: the columns of rows as they are, which the schema may have taken more into.
        current: the column of a row as it is.
    """
    return [_new_value(values, (field.name,), field, own.find(field.name), current(field.name)).alias(field.name) for field in schema]


def _new_value(values: Mapping[tuple[str, ...], Column], path: tuple[str, ...], field: Field, own: Field | None, current: Column) -> Column:
    if path in values:
        return values[path]
    if not isinstance(field.type, Struct) or not any(other[: len(path)] == path for other in values):
        return current
    known = own.type if own is not None and isinstance(own.type, Struct) else Struct(())
    inside = []
    for part in field.type:
        before = known.find(part.name)
        now = F.lit(None).cast(spark_type(part.type)) if before is None else current.getField(before.name)
        inside.append(_new_value(values, (*path, part.name), part, before, now).alias(part.name))
    return F.struct(*inside)


def completed(value: Column, given: DataType, wanted: DataType, current: Column) -> Column:
    """A value with what a row already has for those fields of structs that the value's type lacks. Where a struct is null, so is what is
    made of it, unless that would lose a field that only the row has.
    """
    if not isinstance(given, Struct) or not isinstance(wanted, Struct) or next(unlike_fields(given, wanted), None) is None:
        return value
    inside, own = [], []
    for field in wanted:
        source = given.find(field.name)
        if source is None:
            inside.append(current.getField(field.name).alias(field.name))
            own.append(current.getField(field.name).isNotNull())
        else:
            part = completed(value.getField(source.name), source.type, field.type, current.getField(field.name))
            inside.append(part.alias(field.name))
            own.append(part.isNotNull())
    return F.when(value.isNotNull() | reduce(or_, own), F.struct(*inside))


def unlike_fields(given: DataType, wanted: DataType, path: tuple[str, ...] = (), *, may_lack: bool = False) -> Iterator[str]:
    """The fields of structs, at any depth, that only one of two types has; where the given one may lack some, that only it has."""
    match given, wanted:
        case Struct(), Struct():
            for field in wanted:
                source = given.find(field.name)
                if source is not None:
                    yield from unlike_fields(source.type, field.type, (*path, field.name), may_lack=may_lack)
                elif not may_lack:
                    yield f"{'.'.join((*path, field.name))} is missing"
            yield from (f"the table has no {'.'.join((*path, field.name))}" for field in given if wanted.find(field.name) is None)
        case Array(), Array():
            yield from unlike_fields(given.element, wanted.element, (*path, "element"), may_lack=may_lack)
        case Map(), Map():
            yield from unlike_fields(given.key, wanted.key, (*path, "key"), may_lack=may_lack)
            yield from unlike_fields(given.value, wanted.value, (*path, "value"), may_lack=may_lack)


def first_parts(paths: Iterable[Sequence[str]]) -> set[str]:
    """The columns that paths begin with, in lower case."""
    return {path[0].lower() for path in paths}
