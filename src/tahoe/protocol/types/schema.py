"""The schema language: types, fields, and their JSON form.

Protocol: "Schema Serialization Format". The outer rings convert these types from and to those of Arrow and Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from tahoe.errors import (
    DuplicateColumnsError,
    DuplicateExistingColumnsError,
    DuplicateMetadataColumnsError,
    InvalidActionError,
    MixedReferenceSystemsError,
    UnsupportedDataTypeError,
)
from tahoe.protocol.types.json_text import is_text, load_json

DECIMAL_PRECISION_MAX = 38

PRIMITIVE_NAMES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "void",
    }
)

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_CHAR = re.compile(r"(?:var)?char\(\s*\d+\s*\)")

# A geospatial type, as `geography(OGC:CRS84, SPHERICAL)`; the coordinate reference system in it.
_GEOSPATIAL = re.compile(r"(geometry|geography)(?:\(([^()]+)\))?")
_CRS = re.compile(r"\w+:-?\w+")
_DEFAULT_CRS = "OGC:CRS84"
_DEFAULT_ALGORITHM = "SPHERICAL"
_ALGORITHMS = frozenset({_DEFAULT_ALGORITHM, "VINCENTY", "THOMAS", "ANDOYER", "KARNEY"})

# Spark's name for values of several coordinate reference systems in one column, which no table has.
_MIXED_CRS = "SRID:ANY"


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type whose JSON form is a plain name, including variant."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """A signed decimal number with `precision` digits, `scale` of them after the decimal point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Geospatial:
    """Geometries or geographies, which data files contain as well-known binary (WKB).

    Attributes:
        crs: the coordinate reference system of all values.
        algorithm: how the edges of geographies are interpolated, in capital letters; empty for geometries.
    """

    kind: Literal["geometry", "geography"]
    crs: str = _DEFAULT_CRS
    algorithm: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({self.crs}{', ' if self.algorithm else ''}{self.algorithm})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column, or a field of a struct. `metadata` contains JSON values under the keys of the protocol's "Column
    Metadata".
    """

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


def _by_folded_name(fields: Iterable[Field]) -> dict[str, list[Field]]:
    found: dict[str, list[Field]] = {}
    for child in fields:
        found.setdefault(child.name.lower(), []).append(child)
    return found


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...] = ()
    _by_name: dict[str, list[Field]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{f.name}:{f.type}" for f in self.fields) + ">"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field | None:
        """The field of that name: an exact match, or else a case-insensitive one, because names are unique
        case-insensitively.
        """
        if not self._by_name:  # made by the first search, because a caller may look for every column
            self._by_name.update(_by_folded_name(self.fields))
        candidates = self._by_name.get(name.lower(), ())
        return next((f for f in candidates if f.name == name), candidates[0] if candidates else None)

    def resolve(self, path: tuple[str, ...]) -> tuple[Field, ...] | None:
        """The fields along a path through structs; None if one of them does not exist."""
        found: list[Field] = []
        here: DataType = self
        for name in path:
            child = here.find(name) if isinstance(here, Struct) else None
            if child is None:
                return None
            found.append(child)
            here = child.type
        return tuple(found)

    def leaves(self, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
        """Every field that is not a struct, with its path, in the schema's order. Arrays and maps are leaves."""
        for child in self.fields:
            path = (*prefix, child.name)
            if isinstance(child.type, Struct):
                yield from child.type.leaves(path)
            else:
                yield path, child

    def to_json(self) -> str:
        """The text for `metaData.schemaString`."""
        return json.dumps(encode_type(self), separators=(",", ":"), ensure_ascii=False)


DataType: TypeAlias = "Primitive | Decimal | Geospatial | Array | Map | Struct"

STRING = Primitive("string")
LONG = Primitive("long")
INTEGER = Primitive("integer")
SHORT = Primitive("short")
BYTE = Primitive("byte")
FLOAT = Primitive("float")
DOUBLE = Primitive("double")
BOOLEAN = Primitive("boolean")
BINARY = Primitive("binary")
DATE = Primitive("date")
TIMESTAMP = Primitive("timestamp")
TIMESTAMP_NTZ = Primitive("timestamp_ntz")
VARIANT = Primitive("variant")
VOID = Primitive("void")


def parse_schema(text: str, *, table: str = "the table") -> Struct:
    """Parse a `schemaString`.

    Raises:
        UnsupportedDataTypeError: a column has a type that Delta does not support, such as an interval; the error names
            the column.
        InvalidActionError: the text is not a schema.
    """
    decoded = _decode_text(text, table)
    if not isinstance(decoded, Struct):
        raise UnsupportedDataTypeError(table=table, column="<root>", type=str(decoded))
    return decoded


def parse_type(text: str, *, table: str = "the table") -> DataType:
    """Parse a type from its JSON text, or from the plain name of a primitive type."""
    return _decode_text(text, table) if text[:1] in '{"' else _decode(text, ("",), table)


def _decode_text(text: str, table: str) -> DataType:
    try:
        return _decode(load_json(text), ("",), table)
    except ValueError as error:
        raise InvalidActionError(table=table, action="metaData", detail=f"its schema is invalid: {error}") from error


def _decode(value: Any, path: tuple[str, ...], table: str) -> DataType:
    """A type from its JSON. Missing nullability means that nulls are possible."""
    if isinstance(value, str):
        return _decode_name(value, path, table)
    match _member(value, "type", path):
        case "struct":
            return Struct(_decode_fields(_member(value, "fields", path), path, table))
        case "array":
            element = _decode(_member(value, "elementType", path), (*path, "element"), table)
            return Array(element=element, contains_null=value.get("containsNull", True) is not False)
        case "map":
            return Map(
                key=_decode(_member(value, "keyType", path), (*path, "key"), table),
                value=_decode(_member(value, "valueType", path), (*path, "value"), table),
                value_contains_null=value.get("valueContainsNull", True) is not False,
            )
        case "udt":  # a user-defined type of Spark, as other writers store it; data files have its SQL type
            return _decode(_member(value, "sqlType", path), path, table)
        case other:
            raise UnsupportedDataTypeError(table=table, column=".".join(path[1:]) or "<root>", type=other)


def _member(value: Any, name: str, path: tuple[str, ...]) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"{'.'.join(path[1:]) or 'it'} has no {name}")
    return value[name]


def _decode_fields(values: Any, path: tuple[str, ...], table: str) -> tuple[Field, ...]:
    if not isinstance(values, list):
        raise ValueError(f"the fields of {'.'.join(path[1:]) or 'it'} are not a list")  # noqa: TRY004 - the log is invalid, not a call
    return tuple(_decode_field(value, path, table) for value in values)


def _decode_field(value: Any, path: tuple[str, ...], table: str) -> Field:
    """A field of a struct. Without `nullable` it may be null, and without `metadata` it has none: some writers leave
    them out.
    """
    name, metadata = _member(value, "name", path), value.get("metadata") or {}
    if not is_text(name) or not isinstance(metadata, dict):
        raise ValueError(
            f"a field of {'.'.join(path[1:]) or 'it'} has a name that is not a string, or metadata that is not a map"
        )
    return Field(
        name=name,
        type=_decode(_member(value, "type", (*path, name)), (*path, name), table),
        nullable=value.get("nullable", True) is not False,
        metadata=metadata,
    )


def _decode_name(name: str, path: tuple[str, ...], table: str) -> DataType:
    """The type that a name stands for, with the spellings of Spark and of old writers."""
    if name in PRIMITIVE_NAMES:
        return Primitive(name)
    if name == "decimal":
        return Decimal(10, 0)
    if decimal := _DECIMAL.fullmatch(name):
        precision, scale = int(decimal[1]), int(decimal[2])
        if 0 <= scale <= precision and 0 < precision <= DECIMAL_PRECISION_MAX:
            return Decimal(precision, scale)
    if _CHAR.fullmatch(name):  # written by old writers; the values are strings
        return STRING
    if name == "null":
        return VOID
    column = ".".join(path[1:]) or "<root>"
    if geospatial := _decode_geospatial(name):
        if geospatial.crs.upper() == _MIXED_CRS:
            raise MixedReferenceSystemsError(table=table, column=column, type=name)
        return geospatial
    raise UnsupportedDataTypeError(table=table, column=column, type=name)


def _decode_geospatial(name: str) -> Geospatial | None:
    """A type by its name, with the defaults of Delta Kernel. None if it is not such a name."""
    found = _GEOSPATIAL.fullmatch(name)
    parts = [part.strip() for part in found[2].split(",")] if found and found[2] else []
    if found is None or len(parts) > 2:
        return None
    is_crs = bool(parts) and _CRS.fullmatch(parts[0]) is not None
    crs, algorithms = (parts[0], parts[1:]) if is_crs else (_DEFAULT_CRS, parts)
    if found[1] == "geometry":
        return None if algorithms else Geospatial("geometry", crs)
    algorithm = algorithms[0].upper() if algorithms else _DEFAULT_ALGORITHM
    return Geospatial("geography", crs, algorithm) if len(algorithms) < 2 and algorithm in _ALGORITHMS else None


def encode_type(data_type: DataType) -> Any:
    """The JSON value of a type."""
    match data_type:
        case Struct(fields):
            return {"type": "struct", "fields": [_encode_field(f) for f in fields]}
        case Array():
            return {
                "type": "array",
                "elementType": encode_type(data_type.element),
                "containsNull": data_type.contains_null,
            }
        case Map():
            return {
                "type": "map",
                "keyType": encode_type(data_type.key),
                "valueType": encode_type(data_type.value),
                "valueContainsNull": data_type.value_contains_null,
            }
        case _:
            return str(data_type)


def _encode_field(child: Field) -> dict[str, Any]:
    return {
        "name": child.name,
        "type": encode_type(child.type),
        "nullable": child.nullable,
        "metadata": dict(child.metadata),
    }


def check_unique_names(
    schema: Struct, *, table: str, error: type[DuplicateColumnsError] = DuplicateMetadataColumnsError
) -> None:
    """Protocol: "All column names must be unique regardless of casing", at every level.

    Args:
        error: tells where the schema is from.

    Raises:
        DuplicateColumnsError: the error gives the paths of the duplicates.
    """
    duplicates = sorted(".".join(path) for path in _duplicates(schema, str.lower))
    if duplicates:
        raise error(table=table, columns=", ".join(duplicates))


def check_readable_names(schema: Struct, *, table: str) -> None:
    """Refuse a schema in which a name is ambiguous. Names that differ only in case can be read.

    Raises:
        DuplicateColumnsError: the error gives the paths of the duplicates.
    """
    duplicates = sorted(".".join(path) for path in _duplicates(schema, str))
    if duplicates:
        raise DuplicateExistingColumnsError(table=table, columns=", ".join(duplicates))


def _duplicates(schema: Struct, spelled: Callable[[str], str]) -> Iterator[tuple[str, ...]]:
    seen: set[tuple[str, ...]] = set()
    for path, _ in walk_fields(schema):
        key = tuple(map(spelled, path))
        if key in seen:
            yield path
        seen.add(key)


def walk_fields(data_type: DataType, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Every struct field at any depth with its field path, parents first. Protocol: "Field Path"."""
    match data_type:
        case Struct(fields):
            for child in fields:
                path = (*prefix, child.name)
                yield path, child
                yield from walk_fields(child.type, path)
        case Array():
            yield from walk_fields(data_type.element, (*prefix, "element"))
        case Map():
            yield from walk_fields(data_type.key, (*prefix, "key"))
            yield from walk_fields(data_type.value, (*prefix, "value"))


def map_fields(struct: Struct, change: Callable[[Field], Field]) -> Struct:
    """The struct with `change` applied to every field at any depth, parents before their children."""
    changed = (change(f) for f in struct)
    return Struct(tuple(replace(f, type=_map_type(f.type, change)) for f in changed))


def _map_type(data_type: DataType, change: Callable[[Field], Field]) -> DataType:
    match data_type:
        case Struct():
            return map_fields(data_type, change)
        case Array():
            return replace(data_type, element=_map_type(data_type.element, change))
        case Map():
            return replace(data_type, key=_map_type(data_type.key, change), value=_map_type(data_type.value, change))
        case _:
            return data_type


def is_comparable(data_type: DataType) -> bool:
    """Whether values of a type can be compared, so that they may be keys and partition values."""
    return not isinstance(data_type, Struct | Array | Map | Geospatial) and data_type not in (VARIANT, VOID)


def types_in(data_type: DataType) -> Iterator[DataType]:
    """The type itself and every type inside it."""
    yield data_type
    match data_type:
        case Struct(fields):
            for child in fields:
                yield from types_in(child.type)
        case Array():
            yield from types_in(data_type.element)
        case Map():
            yield from types_in(data_type.key)
            yield from types_in(data_type.value)


def holds_geospatial(data_type: DataType) -> bool:
    """Whether a type is geospatial, or has such a part."""
    return any(isinstance(kind, Geospatial) for kind in types_in(data_type))


def as_nullable(data_type: DataType) -> DataType:
    """The same type with every field, element and value nullable, as in data files."""
    match data_type:
        case Struct(fields):
            return Struct(tuple(replace(f, type=as_nullable(f.type), nullable=True) for f in fields))
        case Array():
            return Array(element=as_nullable(data_type.element))
        case Map():
            return Map(key=as_nullable(data_type.key), value=as_nullable(data_type.value))
        case _:
            return data_type
