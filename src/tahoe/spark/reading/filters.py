"""Converts Spark's filters into predicates of the protocol.

Spark serialises an expression as JSON: its nodes in the order parent, children, each with its number of children. A
node that is not supported becomes `Unknown`, which may be true for any row, so that it never causes a file to be
skipped. Constants have the format of `delta.Literals`: timestamps as microseconds, bytes as hexadecimal digits. This
module does not use the JVM.

A value inside a variant is a call of `variant_get` or a cast. Where the scan takes values out of variants, it is a
field of a struct whose metadata has the path.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from tahoe.errors import DeltaError
from tahoe.protocol.types.column_metadata import collations_of
from tahoe.protocol.types.predicate import (
    TRUE,
    VALUE,
    And,
    Column,
    Comparison,
    Constant,
    In,
    InVariant,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Unknown,
)
from tahoe.protocol.types.schema import parse_type

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class _Reference:
    """A column or a struct field, and its type as JSON."""

    path: tuple[str, ...]
    type: Any


@dataclass(frozen=True, slots=True)
class _Inside:
    """A value inside a variant, in the objects with these keys, and the type that it is cast to, as JSON."""

    variant: tuple[str, ...]
    keys: tuple[str, ...]
    type: Any


@dataclass(frozen=True, slots=True)
class _Constant:
    """A constant as text. The type of the column that it is compared with decides how the text is parsed."""

    text: str | None
    type: Any


# Spark's JSON has the collation of an attribute in the name of its type, as `string collate UNICODE`, and that of a
# field of a struct in its metadata. A comparison by a collation is not a predicate.
_COLLATED = "string collate"

_Term: TypeAlias = "_Reference | _Inside | _Constant | Predicate"

# In the metadata of a field that Spark's scan takes out of a variant.
_FIELD_OF_VARIANT = "__VARIANT_METADATA_KEY"


def predicate_of(filters: str, names: Mapping[str, str] | None = None) -> Predicate:
    """The conjunction of the filters in a JSON array.

    Args:
        names: the table's names of columns that have another one in the filters.
    """
    parts = tuple(
        _parse([_with_table_name(node, names) for node in nodes] if names else nodes) for nodes in json.loads(filters)
    )
    return TRUE if not parts else parts[0] if len(parts) == 1 else And(parts)


def column_of(nodes: list[Mapping[str, Any]], names: Mapping[str, str] | None = None) -> tuple[str, ...] | None:
    """The column or struct field that an expression in JSON is; None for any other expression. `names`: see
    `predicate_of`.
    """
    term = _read([_with_table_name(node, names) for node in nodes] if names else nodes)
    return term.path if isinstance(term, _Reference) else None


def _with_table_name(node: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """A node that refers to a column by the table's name."""
    return (
        {**node, "name": names[node["name"]]}
        if node["class"].endswith(".AttributeReference") and node["name"] in names
        else node
    )


def is_value(nodes: list[Mapping[str, Any]]) -> bool:
    """Whether an expression in JSON is a constant other than null."""
    term = _read(nodes)
    return isinstance(term, _Constant) and term.text is not None


def _parse(nodes: list[Mapping[str, Any]]) -> Predicate:
    return _as_predicate(_read(nodes))


def _read(nodes: list[Mapping[str, Any]]) -> _Term:
    """The term of one expression. Nodes are read from the end, with their children on a stack, so depth is not
    limited.
    """
    stack: list[_Term] = []
    for node in reversed(nodes):
        children = [stack.pop() for _ in range(node["num-children"])]
        stack.append(_term(node, children))
    return stack.pop() if len(stack) == 1 else Unknown("expression")


def _term(node: Mapping[str, Any], children: list[_Term]) -> _Term:
    name = node["class"].rpartition(".")[2]
    build = _BUILDERS.get(name)
    return (build(node, children) if build else None) or Unknown(name)


def _as_predicate(term: _Term) -> Predicate:
    """A term as a condition."""
    match term:
        case _Reference(path, "boolean"):
            return Comparison("=", Column(path), Literal(True))
        case _Constant(text, "boolean"):
            return Constant(None if text is None else text == "true")
        case _Reference() | _Inside() | _Constant():
            return Constant(None) if isinstance(term, _Constant) and term.text is None else Unknown("value")
        case _:
            return term


# --- nodes


def _attribute(node: Mapping[str, Any], _: list[_Term]) -> _Term:
    return _Reference((node["name"],), node["dataType"])


def _field(node: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    parent = children[0]
    if (
        not isinstance(parent, _Reference)
        or not isinstance(parent.type, Mapping)
        or parent.type.get("type") != "struct"
    ):
        return None
    field = parent.type["fields"][node["ordinal"]]
    if _FIELD_OF_VARIANT in field.get("metadata", {}):
        is_plain = len(field["metadata"]) == 1  # strings of another collation have metadata of their own
        return _inside(parent, field["metadata"][_FIELD_OF_VARIANT].get("path"), field["type"]) if is_plain else None
    return _Reference((*parent.path, field["name"]), _COLLATED if collations_of(field["metadata"]) else field["type"])


# Parts of a path in the syntax of Spark. Indexes of arrays have no statistics.
_KEY = re.compile(r"""\.([^.\[]+)|\['([^']*)'\]|\["([^"]*)"\]""")


def _inside(variant: _Reference | _Inside, path: Any, data_type: Any) -> _Inside | None:
    """A value at a path inside a variant; None if the path is no constant, or leads through an array."""
    if not isinstance(path, str) or not path.startswith("$"):
        return None
    keys, at = [], 1
    while at < len(path):
        if (part := _KEY.match(path, at)) is None:
            return None
        keys.append(next(key for key in part.groups() if key is not None))
        at = part.end()
    if isinstance(variant, _Reference):
        return _Inside(variant.path, tuple(keys), data_type)
    return _Inside(variant.variant, (*variant.keys, *keys), data_type)


def _variant_get(node: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    match children:
        case [_Reference(type="variant") | _Inside(type="variant") as variant, _Constant(path)]:
            return _inside(variant, path, node["targetType"])
    return None


def _cast(node: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    """A cast of a variant; casts of columns are unknown."""
    match children:
        case [_Reference(path, "variant")]:
            return _Inside(path, (), node["dataType"])
        case [_Inside(type="variant") as inside]:
            return replace(inside, type=node["dataType"])
    return None


def _literal(node: Mapping[str, Any], _: list[_Term]) -> _Term:
    return _Constant(node["value"], node["dataType"])


def _and(_: Mapping[str, Any], children: list[_Term]) -> _Term:
    return And(tuple(inner for child in children for inner in _parts(_as_predicate(child), And)))


def _or(_: Mapping[str, Any], children: list[_Term]) -> _Term:
    return Or(tuple(inner for child in children for inner in _parts(_as_predicate(child), Or)))


def _parts(predicate: Predicate, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, kind) else (predicate,)


def _not(_: Mapping[str, Any], children: list[_Term]) -> _Term:
    return Not(_as_predicate(children[0]))


def _is_null(_: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    return IsNull(Column(children[0].path)) if isinstance(children[0], _Reference) else None


def _is_not_null(node: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    inner = _is_null(node, children)
    return Not(inner) if isinstance(inner, IsNull) else None


def _comparison(operator: Operator, turned: Operator) -> Callable[[Mapping[str, Any], list[_Term]], _Term | None]:
    def build(_: Mapping[str, Any], children: list[_Term]) -> _Term | None:
        match children:
            case [_Reference() | _Inside() as column, _Constant() as constant]:
                return _comparison_term(operator, column, constant)
            case [_Constant() as constant, _Reference() | _Inside() as column]:
                return _comparison_term(turned, column, constant)
        return None

    return build


def _comparison_term(operator: Operator, column: _Reference | _Inside, constant: _Constant) -> _Term | None:
    value = _value(constant.text, column.type)
    return None if value is _UNREADABLE else _on(column, Comparison(operator, _compared(column), Literal(value)))


def _compared(column: _Reference | _Inside) -> Column:
    return Column(column.path) if isinstance(column, _Reference) else VALUE


def _on(column: _Reference | _Inside, condition: Comparison | In | StartsWith) -> Predicate:
    """A condition on a column, or on a value inside a variant."""
    if isinstance(column, _Reference):
        return condition
    text = ".".join((*column.variant, *column.keys))
    try:
        data_type = parse_type(json.dumps(column.type))
    except DeltaError:  # a type that no column of a table has
        return Unknown(text)
    return InVariant(text, Column(column.variant), column.keys, data_type, condition)


def _in(_: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    column, *rest = children
    members = [child for child in rest if isinstance(child, _Constant)]
    if not isinstance(column, _Reference | _Inside) or len(members) != len(rest):
        return None
    values = tuple(_value(member.text, column.type) for member in members)
    return None if _UNREADABLE in values else _on(column, In(_compared(column), values))


def _starts_with(_: Mapping[str, Any], children: list[_Term]) -> _Term | None:
    match children:
        case [_Reference(type="string") | _Inside(type="string") as column, _Constant(str() as prefix)]:
            return _on(column, StartsWith(_compared(column), prefix))
    return None


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any], list[_Term]], _Term | None]] = {
    "AttributeReference": _attribute,
    "GetStructField": _field,
    "VariantGet": _variant_get,
    "Cast": _cast,
    "Literal": _literal,
    "And": _and,
    "Or": _or,
    "Not": _not,
    "IsNull": _is_null,
    "IsNotNull": _is_not_null,
    "EqualTo": _comparison("=", "="),
    "EqualNullSafe": _comparison("<=>", "<=>"),
    "LessThan": _comparison("<", ">"),
    "LessThanOrEqual": _comparison("<=", ">="),
    "GreaterThan": _comparison(">", "<"),
    "GreaterThanOrEqual": _comparison(">=", "<="),
    "In": _in,
    "StartsWith": _starts_with,
}


# --- constants

_UNREADABLE = object()


def _value(text: str | None, data_type: Any) -> Any:
    """A constant as a Python value of the column's type, or `_UNREADABLE`."""
    if text is None:
        return None
    kind = "decimal" if isinstance(data_type, str) and data_type.startswith("decimal") else data_type
    read = _READERS.get(kind) if isinstance(kind, str) else None
    try:
        return _UNREADABLE if read is None else read(text)
    except (ValueError, OverflowError, InvalidOperation, struct.error):  # for example a date after the year 9999
        return _UNREADABLE


def _float(text: str) -> float:
    """A 32-bit float as the 64-bit float of the same value, which is comparable with the column's statistics."""
    value: float = struct.unpack("f", struct.pack("f", float(text)))[0]
    return value


def _timestamp_ntz(text: str) -> datetime:
    return _EPOCH + timedelta(microseconds=int(text))


_READERS: Mapping[str, Callable[[str], Any]] = {
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "float": _float,
    "double": float,
    "decimal": Decimal,
    "string": str,
    "boolean": lambda text: text == "true",
    "binary": bytes.fromhex,
    "date": date.fromisoformat,
    "timestamp": lambda text: _timestamp_ntz(text).replace(tzinfo=UTC),
    "timestamp_ntz": _timestamp_ntz,
}
