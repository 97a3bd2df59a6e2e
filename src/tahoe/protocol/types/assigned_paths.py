"""The columns and fields that UPDATE and MERGE assign, whoever runs them: names become paths of a schema. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from tahoe.errors import ColumnNotFoundError, ConflictingAssignmentsError, UnsupportedOperationError
from tahoe.protocol.types.schema import VOID, Struct

Path: TypeAlias = tuple[str, ...]

# An error shows at most this many names.
_SHOWN_NAMES_MAX = 10


def assigned_paths(
    assigned: Iterable[tuple[str, Iterable[Path]]],
    schema: Struct,
    *,
    table: str,
    missing: type[ColumnNotFoundError] = ColumnNotFoundError,
) -> list[Path]:
    """The paths of assigned columns and fields of structs, spelled as in the schema.

    Args:
        assigned: of each assignment the name as the user wrote it, and the paths that it may mean; the first of these
            that is in the schema counts.
        missing: the error for a column that the table does not have.

    Raises:
        ColumnNotFoundError: the table does not have the column.
        ConflictingAssignmentsError: two values are assigned to one column, or to a struct and one of its fields.
        UnsupportedOperationError: a value is assigned to a void column, or to a part of a column that is not a struct.
    """
    names: dict[Path, str] = {}
    for name, meanings in assigned:
        path = _path(name, meanings, schema, table, missing)
        clash = next((other for other in names if other[: len(path)] == path[: len(other)]), None)
        if clash is not None:
            raise ConflictingAssignmentsError(table=table, first=names[clash], second=name)
        names[path] = name
    return list(names)


def without_qualifier(path: Path, qualifier: Sequence[str]) -> Iterator[Path]:
    """The paths that a written path may mean: itself, and what is left of it without the table's name or the last parts
    of that.
    """
    yield path
    folded = [part.lower() for part in path]
    for start in range(len(qualifier)):
        before = [part.lower() for part in qualifier[start:]]
        if len(path) > len(before) and folded[: len(before)] == before:
            yield path[len(before) :]


def _path(name: str, meanings: Iterable[Path], schema: Struct, table: str, missing: type[ColumnNotFoundError]) -> Path:
    """The path of the column that is assigned, as the schema spells it: of the first meaning that is a column."""
    fields, others = None, list[Path]()
    for path in meanings:
        fields = schema.resolve(path)
        if fields:
            break
        others.append(path)
    if not fields:
        raise _not_found(name, others, schema, table, missing)
    if fields[-1].type == VOID:
        raise UnsupportedOperationError(
            operation=f"Assigning to {name}",
            table=table,
            detail="the column has type void, whose values are not stored",
            remedy="Change the type of the column first.",
        )
    return tuple(field.name for field in fields)


def _not_found(
    name: str, meanings: Iterable[Path], schema: Struct, table: str, missing: type[ColumnNotFoundError]
) -> ColumnNotFoundError | UnsupportedOperationError:
    """The error for an assignment to no column. If it names a part of an array or a map, the error says so, because the
    column does exist.
    """
    firsts = (schema.find(path[0]) for path in meanings if len(path) > 1)
    whole = next((field for field in firsts if field is not None and not isinstance(field.type, Struct)), None)
    if whole is None:
        return column_not_found(name, schema, table, missing)
    return UnsupportedOperationError(
        operation=f"Assigning to {name}",
        table=table,
        detail=f"{whole.name} is {whole.type}, but only fields of structs can be assigned individually",
        remedy="Assign the whole column; in Spark, transform() and the functions of maps change its elements.",
    )


def column_not_found(
    column: str, schema: Struct, table: str, error: type[ColumnNotFoundError] = ColumnNotFoundError
) -> ColumnNotFoundError:
    """The error for a missing column; it lists the table's most similar names first."""
    near = difflib.get_close_matches(
        column.lower(), [name.lower() for name in schema.names], n=_SHOWN_NAMES_MAX, cutoff=0.5
    )
    names = [field.name for name in near if (field := schema.find(name)) is not None]
    rest = [name for name in schema.names if name not in names][: _SHOWN_NAMES_MAX - len(names)]
    return error(table=table, column=column, columns=", ".join([*names, *rest]))
