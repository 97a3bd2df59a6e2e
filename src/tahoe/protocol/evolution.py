"""How a schema grows when data brings new columns, or wider types.

Protocol: "Consistency Between Table Metadata and Data Files", "Type Widening". New columns are added behind the old ones, at every depth,
and may be null; a type is widened where the table allows it, which its column records. Nothing is dropped or renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from tahoe.protocol.actions import Metadata, Protocol
from tahoe.protocol.features import setting, supported_features
from tahoe.protocol.properties import ENABLE_TYPE_WIDENING
from tahoe.protocol.schema import VOID, Array, DataType, Field, Map, Struct, as_nullable
from tahoe.protocol.type_widening import is_lossy, is_widening, is_widening_for_iceberg, with_type_changes

Widens: TypeAlias = Callable[[DataType, DataType], bool]
"""Whether a column of the first type may become one of the second, which is another."""


def widening_of(protocol: Protocol, metadata: Metadata, *, table: str) -> Widens | None:
    """How the types of a table's columns may be widened; None where they may not.

    Raises:
        InvalidPropertyError: `delta.enableTypeWidening` is neither true nor false.
    """
    if not setting(ENABLE_TYPE_WIDENING, protocol, metadata.configuration, table=table):
        return None
    is_for_iceberg = any(name.startswith("icebergCompat") for name in supported_features(protocol))
    return is_widening_for_iceberg if is_for_iceberg else is_widening


def _never(_: DataType, __: DataType) -> bool:
    return False


def merge_schemas(table: Struct, data: Struct, widens: Widens | None = None, fixed: Set[str] = frozenset()) -> Struct:
    """The table's schema with the data's new columns added. Names are compared without regard to case; the table's spelling stays.

    Args:
        widens: the types that become the data's; none do where it is None.
        fixed: the lower-cased names of columns of the table whose types stay in any case.
    """
    merged = [_merge_field(f, data.find(f.name), None if f.name.lower() in fixed else widens) for f in table]
    new = [_new_field(f) for f in data if table.find(f.name) is None]
    return Struct((*merged, *new))


def _merge_field(known: Field, given: Field | None, widens: Widens | None) -> Field:
    if given is None:
        return known
    return with_type_changes(replace(known, type=merge_types(known.type, given.type, widens)), known.type)


def merge_types(known: DataType, given: DataType, widens: Widens | None = None) -> DataType:
    """The known type with what the given one adds inside structs. A void column takes the given type, as does one that may be widened."""
    match known, given:
        case Struct(), Struct():
            return merge_schemas(known, given, widens)
        case Array(), Array():
            return replace(known, element=merge_types(known.element, given.element, widens))
        case Map(), Map():
            return replace(known, key=merge_types(known.key, given.key, widens), value=merge_types(known.value, given.value, widens))
        case _ if known == VOID:
            return as_nullable(given)
        case _:
            return given if known != given and (widens or _never)(known, given) else known


def taken_in(table: Struct, data: Struct, paths: Iterable[Sequence[str]], widens: Widens | None = None) -> Struct:
    """What of the data's columns, and of the fields of its structs, a table is to take in where only some are assigned to: those that are,
    with types that the table's can become.

    Args:
        paths: what is assigned to, at every depth. Names are compared without regard to case.
    """
    return Struct(tuple(_taken_in(table, data, [tuple(part.lower() for part in path) for path in paths], widens)))


def _taken_in(table: Struct, data: Struct, paths: Sequence[tuple[str, ...]], widens: Widens | None) -> Iterator[Field]:
    for given in data:
        known = table.find(given.name)
        below = [path[1:] for path in paths if path[0] == given.name.lower()]
        if () in below:
            yield given if known is None else replace(given, type=merge_types(known.type, given.type, widens))
        elif below and isinstance(given.type, Struct):
            inside = known.type if known is not None and isinstance(known.type, Struct) else Struct(())
            yield replace(given, type=Struct(tuple(_taken_in(inside, given.type, below, widens))))


def losses(table: Struct, data: Struct) -> Iterator[tuple[tuple[str, ...], DataType, DataType]]:
    """The columns whose values the table's type would cut short without a word: path, known and given type. The given type is wider."""
    for known in table:
        given = data.find(known.name)
        if given is not None:
            yield from _losses_inside(known.type, given.type, (known.name,))


def _losses_inside(known: DataType, given: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DataType, DataType]]:
    match known, given:
        case Struct(), Struct():
            yield from (((*path, *inner), before, after) for inner, before, after in losses(known, given))
        case Array(), Array():
            yield from _losses_inside(known.element, given.element, (*path, "element"))
        case Map(), Map():
            yield from _losses_inside(known.key, given.key, (*path, "key"))
            yield from _losses_inside(known.value, given.value, (*path, "value"))
        case _ if known != VOID and is_widening(known, given) and is_lossy(given, known):
            yield path, known, given
        case _:
            pass


def _new_field(given: Field) -> Field:
    return replace(given, type=as_nullable(given.type), nullable=True)


def new_columns(table: Struct, data: Struct, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """The columns of the data that the table does not have, at every depth, with their paths."""
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
