"""Which data may be stored in which column: the rules of ANSI store assignment, as Spark's INSERT has them.

Pure: it compares types and touches no Spark. Columns and fields are matched by name without regard to case, at every depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tahoe.errors import SchemaMismatchError
from tahoe.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
)

# Each holds, at least roughly, whatever those before it hold, so that a cast to the right of itself never fails.
_WIDENING: tuple[DataType, ...] = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE)
_TIMES = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Why a column cannot be stored: what is wrong, and what the user can do."""

    detail: str
    remedy: str


def check_assignable(given: Struct, wanted: Struct, *, table: str) -> None:
    """Refuse data that does not fit a table's columns.

    Raises:
        SchemaMismatchError: with every column that does not fit, both its types, and what would allow it.
    """
    found = list(mismatches(given, wanted))
    if found:
        raise SchemaMismatchError(table=table, detail="; ".join(m.detail for m in found), remedy=found[0].remedy)


def mismatches(given: Struct, wanted: Struct, prefix: tuple[str, ...] = ()) -> Iterator[Mismatch]:
    """What keeps a struct from being stored as another. Columns that are not wanted are not looked at."""
    for column in wanted:
        path = (*prefix, column.name)
        source = given.find(column.name)
        if source is not None:
            yield from _inside(source.type, column.type, path)
        elif not column.nullable:
            yield Mismatch(
                detail=f"column {'.'.join(path)} is NOT NULL, and the data does not have it", remedy="Give the column a value in the data."
            )


def _inside(given: DataType, wanted: DataType, path: tuple[str, ...]) -> Iterator[Mismatch]:
    match given, wanted:
        case Struct(), Struct():
            yield from mismatches(given, wanted, path)
        case Array(), Array():
            yield from _inside(given.element, wanted.element, (*path, "element"))
        case Map(), Map():
            yield from _inside(given.key, wanted.key, (*path, "key"))
            yield from _inside(given.value, wanted.value, (*path, "value"))
        case _ if not storable(given, wanted):
            yield Mismatch(
                detail=f"column {'.'.join(path)} is {wanted}, and the data has {given}",
                remedy="Cast the column in the data, or give the table the data's schema with mode overwrite and option "
                "overwriteSchema=true.",
            )


def storable(given: DataType, wanted: DataType) -> bool:
    """Whether values of one type that is no struct, array or map may be stored as another, with a cast that may fail for some."""
    if given in (wanted, VOID):
        return True
    if wanted == STRING:
        return isinstance(given, Primitive | Decimal)
    if is_numeric(given):
        return is_numeric(wanted)
    return given in _TIMES and wanted in _TIMES


def always_fits(given: DataType, wanted: DataType) -> bool:
    """Whether the cast from one type to another, that may be stored as it, succeeds for every value."""
    if wanted == STRING or given == VOID:
        return True
    return given in _WIDENING and wanted in _WIDENING and _WIDENING.index(given) <= _WIDENING.index(wanted)


def is_numeric(data_type: DataType) -> bool:
    return isinstance(data_type, Decimal) or data_type in _WIDENING


def conforms(given: Field, wanted: Field) -> bool:
    """Whether values can be stored as they are: the same types, names in the same order and spelling, and no null where none may be."""
    return given.name == wanted.name and (wanted.nullable or not given.nullable) and conforms_inside(given.type, wanted.type)


def conforms_inside(given: DataType, wanted: DataType) -> bool:
    match given, wanted:
        case Struct(), Struct():
            return len(given) == len(wanted) and all(conforms(g, w) for g, w in zip(given, wanted, strict=True))
        case Array(), Array():
            return (wanted.contains_null or not given.contains_null) and conforms_inside(given.element, wanted.element)
        case Map(), Map():
            nulls = wanted.value_contains_null or not given.value_contains_null
            return nulls and conforms_inside(given.key, wanted.key) and conforms_inside(given.value, wanted.value)
        case _:
            return given == wanted
