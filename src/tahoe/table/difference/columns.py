"""How the columns of two versions differ, and in which columns their rows are compared. Pure.

A column is the same in both versions if it has the same name in data files: without column mapping its name, with
column mapping its physical name, which a rename keeps.

Protocol: "Column Mapping", "Type Widening".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tahoe.protocol.changes.table_configuration import COMMENT
from tahoe.protocol.configuration.change_feed import Fit, first_unlike
from tahoe.protocol.configuration.column_mapping import stored_name
from tahoe.protocol.types.names import dotted
from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct
from tahoe.protocol.types.type_widening import widest

ChangeKind = Literal["added", "dropped", "renamed", "type", "nullability", "comment"]

# What rows of the earlier version may lack in the columns in which they are compared.
_FIT = Fit(widens=True, lacks=True, nulls=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """One difference of a column, or of a field of a struct.

    Attributes:
        column: its path, by the names of the later version; of a dropped one, by those of the earlier version.
        before, after: as text; None where the column does not exist, or has no comment.
    """

    column: str
    kind: ChangeKind
    before: str | None
    after: str | None


def column_differences(before: Struct, after: Struct, modes: tuple[str, str]) -> list[ColumnDifference]:
    """The differences of two schemas, in the order of the later one, dropped columns last.

    Args:
        modes: the column mapping modes of both.
    """
    return list(_structs(before, after, modes, ()))


def _structs(
    before: Struct, after: Struct, modes: tuple[str, str], path: tuple[str, ...]
) -> Iterator[ColumnDifference]:
    known = fields_by_stored_name(before, modes[0])
    for now in after:
        was = known.pop(stored_name(now, modes[1]).lower(), None)
        here = (*path, now.name)
        if was is None:
            yield ColumnDifference(column=dotted(here), kind="added", before=None, after=_described(now))
        else:
            yield from _field(was, now, modes, here)
    for was in known.values():
        yield ColumnDifference(column=dotted((*path, was.name)), kind="dropped", before=_described(was), after=None)


def _field(was: Field, now: Field, modes: tuple[str, str], path: tuple[str, ...]) -> Iterator[ColumnDifference]:
    column = dotted(path)
    if was.name != now.name:
        yield ColumnDifference(column=column, kind="renamed", before=was.name, after=now.name)
    yield from _types(was.type, now.type, modes, path)
    if was.nullable != now.nullable:
        yield ColumnDifference(column=column, kind="nullability", before=_nulls(was), after=_nulls(now))
    old, new = was.metadata.get(COMMENT), now.metadata.get(COMMENT)
    if old != new:
        yield ColumnDifference(
            column=column,
            kind="comment",
            before=None if old is None else str(old),
            after=None if new is None else str(new),
        )


def _types(was: DataType, now: DataType, modes: tuple[str, str], path: tuple[str, ...]) -> Iterator[ColumnDifference]:
    match was, now:
        case Struct(), Struct():
            yield from _structs(was, now, modes, path)
        case Array(), Array():
            yield from _types(was.element, now.element, modes, (*path, "element"))
        case Map(), Map():
            yield from _types(was.key, now.key, modes, (*path, "key"))
            yield from _types(was.value, now.value, modes, (*path, "value"))
        case _ if was != now:
            yield ColumnDifference(column=dotted(path), kind="type", before=str(was), after=str(now))
        case _:
            pass


def _described(field: Field) -> str:
    return f"{field.type}{'' if field.nullable else ' NOT NULL'}"


def _nulls(field: Field) -> str:
    return "NULL" if field.nullable else "NOT NULL"


def fields_by_stored_name(schema: Struct, mode: str) -> dict[str, Field]:
    return {stored_name(field, mode).lower(): field for field in schema}


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns in which rows of both versions are compared: those of the later one, with the wider type where one
    version has it.

    Attributes:
        columns: their names and types.
        before, after: by these names, the fields that are read from the files of each version. A column that the
            earlier version lacks, or has with a type that does not fit, is missing in `before`: it is null in its rows.
    """

    columns: Struct
    before: Mapping[str, Field]
    after: Mapping[str, Field]


def compared_columns(before: Struct, after: Struct, modes: tuple[str, str], *, replaced: bool) -> ComparedColumns:
    """
    Args:
        replaced: whether the versions share no file. Then columns of the same name are compared, whatever their names
            in data files.
    """
    earlier = fields_by_stored_name(before, modes[0])
    one_is_mapped = not replaced and (modes[0] == "none") != (modes[1] == "none")
    columns, old, new = [], {}, {}
    for now in after:
        was, kind = earlier.get(stored_name(now, modes[1]).lower()), None
        if was is not None:
            kind = _same(was.type, now.type) if one_is_mapped and modes[1] == "none" else _common(was.type, now.type)
        elif replaced:
            was = before.find(now.name)
            kind = None if was is None else _same(was.type, now.type)
        column = now if kind is None else replace(now, type=kind)
        columns.append(column)
        new[now.name] = column
        if was is None or kind is None:
            continue
        old[now.name] = replace(was, type=kind)
        if one_is_mapped:  # files are read by the physical names, which one of the versions tells
            mapped = now if modes[1] != "none" else was
            old[now.name] = new[now.name] = replace(mapped, type=kind)
    return ComparedColumns(Struct(tuple(columns)), old, new)


def _common(was: DataType, now: DataType) -> DataType | None:
    """The later type, with wider types where the earlier one has them; None if values of both do not fit into it."""
    kind = widest(now, was)
    fits = first_unlike(was, kind, (), _FIT) is None and first_unlike(now, kind, (), _FIT) is None
    return kind if fits else None


def _same(was: DataType, now: DataType) -> DataType | None:
    """The earlier type, with wider types where the later one has them; None if they have other fields."""
    kind = widest(was, now)
    return kind if str(kind) == str(widest(now, was)) else None
