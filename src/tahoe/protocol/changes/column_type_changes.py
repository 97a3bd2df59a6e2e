"""Whether a column may change to another type without rewriting its data files.

Protocol: "Type Widening". A void column may get any type, CHAR and VARCHAR may get longer, and other types may be
widened where type widening is enabled. The types of structs, arrays and maps change only through their fields,
elements, keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tahoe.errors import (
    ArrayTypeChangeError,
    ColumnChangeError,
    ColumnTypeChangeError,
    MapTypeChangeError,
    StructTypeChangeError,
)
from tahoe.protocol.changes.evolution import Widens
from tahoe.protocol.types.schema import VOID, Array, DataType, Field, Map, Struct
from tahoe.protocol.types.type_widening import is_widening

# The key in a column's metadata under which Spark stores CHAR(n) or VARCHAR(n); the type of the column itself is
# string.
TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRefusal:
    """Why a column's type cannot change, and what to do instead, as worded in an error of the given class."""

    error: type[ColumnChangeError]
    detail: str
    remedy: str


_NESTED: Mapping[type[Any], tuple[type[ColumnChangeError], str]] = {
    Struct: (StructTypeChangeError, "Add, drop, rename or change its fields."),
    Array: (ArrayTypeChangeError, "Change its .element."),
    Map: (MapTypeChangeError, "Change its .key or its .value."),
}


def type_refusal(field: Field, to: DataType, text_type: str | None, widens: Widens | None) -> TypeRefusal | None:
    """Why a column cannot change to a type; None if it can.

    Args:
        text_type: CHAR(n) or VARCHAR(n), if the new type has a length.
        widens: which types may be widened; None if type widening is not enabled.
    """
    if field.type == to:
        return text_type_refusal(field.metadata.get(TEXT_TYPE), text_type)
    change = f"it is {field.type} and would become {to}"
    if type(field.type) in _NESTED:
        error, remedy = _NESTED[type(field.type)]
        return TypeRefusal(error=error, detail=change, remedy=remedy)
    if field.type == VOID or (widens is not None and widens(field.type, to)):
        return None
    if widens is None and is_widening(field.type, to):
        detail, remedy = (
            "type widening is not enabled",
            "ALTER TABLE ... SET TBLPROPERTIES (delta.enableTypeWidening = true) first.",
        )
    else:
        detail, remedy = (
            "the existing files could not be read with that type",
            "Rewrite the table with overwriteSchema.",
        )
    return TypeRefusal(error=ColumnTypeChangeError, detail=f"{change}: {detail}", remedy=remedy)


def text_type_refusal(before: str | None, after: str | None) -> TypeRefusal | None:
    """Why a string column cannot get this length: a length may grow or be removed; a string without one cannot get
    one.
    """
    if before == after or after is None:
        return None
    if before is not None and after.startswith("varchar") and _length(after) >= _length(before):
        return None
    detail = f"it is {before or 'string'} and would become {after}, but existing values may be longer"
    return TypeRefusal(
        error=ColumnTypeChangeError, detail=detail, remedy="Give a length that is not shorter, or use string."
    )


def blank_padded(field: Field, text: str) -> str | None:
    """A text padded with blanks, as Spark compares it with a CHAR(n) column; None for other columns, and if it is
    longer.
    """
    declared, bare = str(field.metadata.get(TEXT_TYPE, "")), text.rstrip(" ")
    length = _length(declared) if declared.startswith("char") else -1
    return bare.ljust(length) if len(bare) <= length else None


def _length(text_type: str) -> int:
    digits = text_type.partition("(")[2].rstrip(") ")
    return int(digits) if digits.isdigit() else 0
