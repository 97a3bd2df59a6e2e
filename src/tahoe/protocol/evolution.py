"""How a schema grows when data brings new columns.

Protocol: "Consistency Between Table Metadata and Data Files". New columns are added behind the old ones, at every depth, and may be
null; a type never changes here, and nothing is dropped or renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tahoe.protocol.schema import VOID, Array, DataType, Field, Map, Struct, as_nullable


def merge_schemas(table: Struct, data: Struct) -> Struct:
    """The table's schema with the data's new columns added. Names are compared without regard to case; the table's spelling stays."""
    merged = [_merge_field(f, data.find(f.name)) for f in table]
    new = [_new_field(f) for f in data if table.find(f.name) is None]
    return Struct((*merged, *new))


def _merge_field(known: Field, given: Field | None) -> Field:
    return known if given is None else replace(known, type=merge_types(known.type, given.type))


def merge_types(known: DataType, given: DataType) -> DataType:
    """The known type with what the given one adds inside structs. A void column takes the given type."""
    match known, given:
        case Struct(), Struct():
            return merge_schemas(known, given)
        case Array(), Array():
            return replace(known, element=merge_types(known.element, given.element))
        case Map(), Map():
            return replace(known, key=merge_types(known.key, given.key), value=merge_types(known.value, given.value))
        case _:
            return as_nullable(given) if known == VOID else known


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
