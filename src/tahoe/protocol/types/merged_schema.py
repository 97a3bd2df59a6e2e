"""The schema of files that were written independently of each other: all their columns, in the types that can hold all
values.

Protocol: "Consistency Between Table Metadata and Data Files". In contrast to `evolution`, neither schema is that of a
table, and a difference of types that is not allowed is an error.
"""

from __future__ import annotations

from dataclasses import replace

from tahoe.protocol.types.schema import BYTE, INTEGER, SHORT, VOID, Array, DataType, Map, Struct

# Parquet stores all of them as 32-bit integers, so a file with a narrow type can be read as any wider one.
_IN_32_BITS = (BYTE, SHORT, INTEGER)


class Unmergeable(Exception):
    """Two schemas have different types for a column; the text says which."""


def merged(known: Struct, given: Struct, path: tuple[str, ...] = ()) -> Struct:
    """The columns of both schemas. Names are compared case-insensitively; the first spelling is kept.

    Raises:
        Unmergeable: a column has types that no type can hold.
    """
    fields = []
    for field in known:
        other = given.find(field.name)
        kind = field.type if other is None else _merged_type(field.type, other.type, (*path, field.name))
        fields.append(replace(field, type=kind))
    return Struct((*fields, *(field for field in given if known.find(field.name) is None)))


def _merged_type(known: DataType, given: DataType, path: tuple[str, ...]) -> DataType:
    """The type that holds the values of both: of structs all fields, of integers that Parquet stores alike the wider
    one.
    """
    match known, given:
        case _ if known == given or given == VOID:
            return known
        case _ if known == VOID:
            return given
        case Struct(), Struct():
            return merged(known, given, path)
        case Array(), Array():
            return replace(known, element=_merged_type(known.element, given.element, (*path, "element")))
        case Map(), Map():
            key = _merged_type(known.key, given.key, (*path, "key"))
            return replace(known, key=key, value=_merged_type(known.value, given.value, (*path, "value")))
        case _ if known in _IN_32_BITS and given in _IN_32_BITS:
            return max(known, given, key=_IN_32_BITS.index)
        case _:
            raise Unmergeable(f"{'.'.join(path)} is {given}, but it is {known} in other files")


def with_partition_columns(data: Struct, partition: Struct) -> Struct:
    """The schema of files in partition folders. Like Spark, a partition column takes the place of a data column of its
    name.
    """
    kept = [
        next((column for column in partition if column.name.lower() == field.name.lower()), field) for field in data
    ]
    return Struct((*kept, *(column for column in partition if data.find(column.name) is None)))
