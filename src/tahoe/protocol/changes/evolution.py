"""Schema evolution: how a table's schema changes when data has new columns or wider types.

Protocol: "Consistency Between Table Metadata and Data Files", "Type Widening". New columns are added after the existing
ones, at any depth, and are nullable. Types are widened if the table allows it, and the column records the change.
Nothing is dropped or renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from tahoe.errors import StructMismatchError
from tahoe.protocol.configuration.features import setting, supported_features
from tahoe.protocol.configuration.properties import ENABLE_TYPE_WIDENING
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import BYTE, INTEGER, SHORT, VOID, Array, DataType, Field, Map, Struct, as_nullable
from tahoe.protocol.types.type_widening import is_widening, is_widening_for_iceberg, with_type_changes

Widens: TypeAlias = Callable[[DataType, DataType], bool]
"""Whether a column may be widened from the first type to the second, different type."""


def widening_of(protocol: Protocol, metadata: Metadata, *, table: str) -> Widens | None:
    """Which types a table's columns may be widened to; None if type widening is not enabled.

    Raises:
        InvalidPropertyError: `delta.enableTypeWidening` is neither true nor false.
    """
    if not setting(ENABLE_TYPE_WIDENING, protocol, metadata.configuration, table=table):
        return None
    is_for_iceberg = any(name.startswith("icebergCompat") for name in supported_features(protocol))
    return is_widening_for_iceberg if is_for_iceberg else is_widening


def _never(_: DataType, __: DataType) -> bool:
    return False


def merge_schemas(
    table: Struct, data: Struct, widens: Widens | None = None, fixed: Set[str] = frozenset(), *, records: bool = True
) -> Struct:
    """The table's schema with the data's new columns added. Names are compared case-insensitively; the table's spelling
    is kept.

    Args:
        widens: which types are widened to the data's types; none if it is None.
        fixed: the lower-cased names of the table's columns whose types never change.
        records: whether columns record their wider types.
    """
    merged = [_merge_field(f, data.find(f.name), None if f.name.lower() in fixed else widens, records) for f in table]
    new = [_new_field(f) for f in data if table.find(f.name) is None]
    return Struct((*merged, *new))


def _merge_field(known: Field, given: Field | None, widens: Widens | None, records: bool) -> Field:
    if given is None:
        return known
    merged = replace(known, type=merge_types(known.type, given.type, widens, records=records))
    return with_type_changes(merged, known.type) if records else merged


def merge_types(known: DataType, given: DataType, widens: Widens | None = None, *, records: bool = True) -> DataType:
    """The known type with the given type's new struct fields. Void becomes the given type, and so does a type that may
    be widened.
    """
    inside = partial(merge_types, widens=widens, records=records)
    match known, given:
        case Struct(), Struct():
            return merge_schemas(known, given, widens, records=records)
        case Array(), Array():
            return replace(known, element=inside(known.element, given.element))
        case Map(), Map():
            return replace(known, key=inside(known.key, given.key), value=inside(known.value, given.value))
        case _ if known == VOID:
            return as_nullable(given)
        case _:
            return given if known != given and (widens or _never)(known, given) else known


def merge_source_columns(data: Struct, paths: Iterable[Sequence[str]]) -> Struct:
    """The part of the data's schema that is assigned to, at any depth. It restricts schema evolution to the assigned
    columns and fields.

    Args:
        paths: the assigned columns and fields. Names are compared case-insensitively.
    """
    return Struct(tuple(_source_columns(data, [tuple(part.lower() for part in path) for path in paths])))


def _source_columns(data: Struct, paths: Sequence[tuple[str, ...]]) -> Iterator[Field]:
    for given in data:
        below = [path[1:] for path in paths if path[0] == given.name.lower()]
        if () in below:
            yield given
        elif below and isinstance(given.type, Struct):
            yield replace(given, type=Struct(tuple(_source_columns(given.type, below))))


Changed: TypeAlias = tuple[tuple[str, ...], DataType, DataType]
"""The path of a column or field, and two types of it, neither of them nested."""


def mismatches(table: Struct, data: Struct) -> Iterator[Changed]:
    """The columns whose values cannot be stored without a cast that changes how they are stored: path, table type, data
    type.
    """
    for path, known, given in retyped_columns(table, data):
        if VOID not in (known, given) and not is_stored_alike(given, known):
            yield path, known, given


def retyped_columns(before: Struct, after: Struct) -> Iterator[Changed]:
    """The columns and fields of both schemas, by name, whose types differ."""
    for known in before:
        now = after.find(known.name)
        if now is not None:
            yield from _retyped_parts(known.type, now.type, (known.name,))


def _retyped_parts(before: DataType, after: DataType, path: tuple[str, ...]) -> Iterator[Changed]:
    """The smallest parts of a column whose types differ: no struct, array or map is named for what it contains."""
    match before, after:
        case Struct(), Struct():
            yield from (((*path, *inner), known, now) for inner, known, now in retyped_columns(before, after))
        case Array(), Array():
            yield from _retyped_parts(before.element, after.element, (*path, "element"))
        case Map(), Map():
            yield from _retyped_parts(before.key, after.key, (*path, "key"))
            yield from _retyped_parts(before.value, after.value, (*path, "value"))
        case _ if before != after:
            yield path, before, after
        case _:
            pass


# Types that Parquet stores alike. Each has all values of those before it.
_STORED_ALIKE = (BYTE, SHORT, INTEGER)


def is_stored_alike(narrow: DataType, wide: DataType) -> bool:
    """Whether files of the first type are files of the second, wider type: such a column is widened without the
    feature, as it was before the feature existed.
    """
    return narrow in _STORED_ALIKE and wide in _STORED_ALIKE[_STORED_ALIKE.index(narrow) + 1 :]


def _new_field(given: Field) -> Field:
    return replace(given, type=as_nullable(given.type), nullable=True)


def new_columns(table: Struct, data: Struct, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """The data's columns that the table does not have, at any depth, with their paths."""
    for given in data:
        known = table.find(given.name)
        path = (*prefix, given.name)
        if known is None:
            yield path, given
        else:
            yield from _new_inside(known.type, given.type, path)


def _new_inside(known: DataType, given: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    match known, given:
        case Struct(), Struct():
            yield from new_columns(known, given, path)
        case Array(), Array():
            yield from _new_inside(known.element, given.element, (*path, "element"))
        case Map(), Map():
            yield from _new_inside(known.key, given.key, (*path, "key"))
            yield from _new_inside(known.value, given.value, (*path, "value"))


def check_fields(given: DataType, wanted: DataType, path: tuple[str, ...], *, may_lack: bool, table: str) -> None:
    """Refuse a value for a column, or for a field of a struct, if its structs do not have the same fields. Missing ones
    would silently become null, and others would be lost.

    Args:
        may_lack: whether fields may be missing, because the command evolves the schema.

    Raises:
        StructMismatchError: the error names the first such field.
    """
    unlike = next(unlike_fields(given, wanted, path, may_lack=may_lack), None)
    if unlike is not None:
        detail = f"column {'.'.join(path)} is {wanted}, but the value for it is {given}: {unlike}"
        remedy = (
            "Provide a value for each field, or use MERGE with schema evolution: withSchemaEvolution(), or "
            "merge_schema=True."
        )
        raise StructMismatchError(table=table, detail=detail, remedy=remedy)


def unlike_fields(
    given: DataType, wanted: DataType, path: tuple[str, ...] = (), *, may_lack: bool = False
) -> Iterator[str]:
    """Describe the struct fields, at any depth, that only one of two types has; with `may_lack`, only those of the
    given type.

    Void fields of the wanted type have no values: they may be missing, and a value for them would be lost.
    """
    match given, wanted:
        case Struct(), Struct():
            for field in wanted:
                source = given.find(field.name)
                if source is not None:
                    yield from unlike_fields(source.type, field.type, (*path, field.name), may_lack=may_lack)
                elif not may_lack and field.type != VOID:
                    yield f"{'.'.join((*path, field.name))} is missing"
            yield from (
                f"the table has no {'.'.join((*path, field.name))}"
                for field in given
                if wanted.find(field.name) is None
            )
        case Array(), Array():
            yield from unlike_fields(given.element, wanted.element, (*path, "element"), may_lack=may_lack)
        case Map(), Map():
            yield from unlike_fields(given.key, wanted.key, (*path, "key"), may_lack=may_lack)
            yield from unlike_fields(given.value, wanted.value, (*path, "value"), may_lack=may_lack)
        case _ if wanted == VOID != given and not may_lack:
            yield f"{'.'.join(path)} has type void, whose values are not stored"
