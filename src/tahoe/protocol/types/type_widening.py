"""Which types a column may be widened to, and the type changes that a schema records.

Protocol: "Type Widening". Readers convert the values of older files to the column's current type; `tahoe.table` and
Spark do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tahoe.errors import InvalidActionError, UnsupportedDataTypeError, UnsupportedTypeChangeError
from tahoe.protocol.types.json_text import is_text
from tahoe.protocol.types.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    parse_type,
    walk_fields,
)

TYPE_CHANGES = "delta.typeChanges"

# The types that each type may become, directly or in several steps.
_WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long", "double"}),
    "short": frozenset({"integer", "long", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
    "date": frozenset({"timestamp_ntz"}),
}

# The precision of the decimal that an integer type widens to, as the protocol defines it.
_DECIMAL_DIGITS: Mapping[str, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def is_widening(from_type: DataType, to_type: DataType) -> bool:
    """Whether a column may be changed from one type to the other. A type is not wider than itself."""
    if from_type == VOID:
        return to_type != VOID
    if isinstance(to_type, Decimal):
        return _is_wider_decimal(from_type, to_type)
    if isinstance(from_type, Primitive) and isinstance(to_type, Primitive):
        return to_type.name in _WIDER.get(from_type.name, frozenset())
    return False


def widest(known: DataType, other: DataType) -> DataType:
    """The known type; where the other has a wider one for a column or field of the same name, with that."""
    match known, other:
        case Struct(), Struct():
            fields = ((field, other.find(field.name)) for field in known)
            return Struct(
                tuple(f if there is None else replace(f, type=widest(f.type, there.type)) for f, there in fields)
            )
        case Array(), Array():
            return replace(known, element=widest(known.element, other.element))
        case Map(), Map():
            return replace(known, key=widest(known.key, other.key), value=widest(known.value, other.value))
        case _:
            return other if known != VOID and is_widening(known, other) else known


def widenings(
    before: DataType, after: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType, DataType]]:
    """The columns and fields of both types, by name, that became wider: path, type before, type after."""
    match before, after:
        case Struct(), Struct():
            for now in after:
                known = before.find(now.name)
                if known is not None:
                    yield from widenings(known.type, now.type, (*path, now.name))
        case Array(), Array():
            yield from widenings(before.element, after.element, (*path, "element"))
        case Map(), Map():
            yield from widenings(before.key, after.key, (*path, "key"))
            yield from widenings(before.value, after.value, (*path, "value"))
        case _ if before != VOID and is_widening(before, after):
            yield path, before, after
        case _:
            pass


def _is_wider_decimal(from_type: DataType, to_type: Decimal) -> bool:
    """Precision must grow by at least as much as scale, so that no integer digit is lost."""
    if isinstance(from_type, Decimal):
        base, is_same = from_type, from_type == to_type
    elif isinstance(from_type, Primitive) and from_type.name in _DECIMAL_DIGITS:
        base, is_same = Decimal(_DECIMAL_DIGITS[from_type.name], 0), False
    else:
        return False
    added_digits, added_scale = to_type.precision - base.precision, to_type.scale - base.scale
    return added_digits >= added_scale >= 0 and not is_same


def check_type_changes(schema: Struct, *, table: str) -> None:
    """Refuse a schema that records a type change which the protocol does not allow: its files could be read
    incorrectly.

    Raises:
        UnsupportedTypeChangeError: the error gives the column and both types.
        InvalidActionError: the recorded type changes are malformed.
    """
    for path, field in walk_fields(schema):
        for change in changes_of(field, table=table):
            _check_change((*path, change["fieldPath"]) if change.get("fieldPath") else path, change, table)


def changes_of(field: Field, *, table: str = "the table") -> list[dict[str, str]]:
    """The type changes that a column's metadata records.

    Raises:
        InvalidActionError: the recorded type changes are malformed.
    """
    changes = field.metadata.get(TYPE_CHANGES) or []
    if not isinstance(changes, list) or not all(map(_is_change, changes)):
        detail = f"{TYPE_CHANGES} of column {field.name} is {changes!r}, not a list of type changes"
        raise InvalidActionError(table=table, action="metaData", detail=detail)
    return changes


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and all(is_text(value.get(key, "")) for key in ("fromType", "toType", "fieldPath"))


def _check_change(path: tuple[str, ...], change: Mapping[str, Any], table: str) -> None:
    before, after = str(change.get("fromType")), str(change.get("toType"))
    try:
        allowed = is_widening(parse_type(before), parse_type(after))
    except (UnsupportedDataTypeError, InvalidActionError):
        allowed = False
    if not allowed:
        raise UnsupportedTypeChangeError(table=table, column=".".join(path), from_type=before, to_type=after)


def with_type_changes(field: Field, before: DataType) -> Field:
    """The column with its change from another type recorded in its metadata. Nested struct fields record their own
    changes.
    """
    changes = list(_type_changes(before, field.type, ()))
    if not changes:
        return field
    return replace(field, metadata={**field.metadata, TYPE_CHANGES: [*changes_of(field), *changes]})


def _type_changes(before: DataType, after: DataType, path: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The entries that record a change of type, each with its path inside the column. Structs are left out, because
    their fields record their own.
    """
    match before, after:
        case Struct(), Struct():
            return
        case Array(), Array():
            yield from _type_changes(before.element, after.element, (*path, "element"))
        case Map(), Map():
            yield from _type_changes(before.key, after.key, (*path, "key"))
            yield from _type_changes(before.value, after.value, (*path, "value"))
        case _ if before not in (after, VOID):
            change = {"fromType": str(before), "toType": str(after)}
            yield {**change, "fieldPath": ".".join(path)} if path else change


def is_widening_for_iceberg(from_type: DataType, to_type: DataType) -> bool:
    """Whether Iceberg supports the change too. Protocol: "Writer Requirements for Type Widening"."""
    if isinstance(to_type, Decimal) and not (isinstance(from_type, Decimal) and from_type.scale == to_type.scale):
        return from_type == VOID
    if to_type == DOUBLE and from_type not in (FLOAT, VOID):
        return False
    return is_widening(from_type, to_type) and (from_type, to_type) != (DATE, TIMESTAMP_NTZ)


def recorded_changes(schema: Struct) -> Iterator[tuple[tuple[str, ...], DataType, DataType]]:
    """The type changes that a schema records: the field's path and both types."""
    for path, field in walk_fields(schema):
        for change in field.metadata.get(TYPE_CHANGES) or ():
            yield path, parse_type(str(change["fromType"])), parse_type(str(change["toType"]))
