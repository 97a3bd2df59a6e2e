"""Column mapping: the logical names, physical names and ids of columns.

Protocol: "Column Mapping". Users see logical names; data files, partition values and statistics use physical names. In
mode none the two are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from tahoe.errors import InvalidActionError
from tahoe.protocol.configuration import properties
from tahoe.protocol.log.actions import Protocol
from tahoe.protocol.types.json_text import is_text
from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct, map_fields, walk_fields

Mode: TypeAlias = Literal["none", "name", "id"]

FEATURE = "columnMapping"
MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"

ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"

_READER_VERSION = 2  # the legacy reader version that implies column mapping
_READER_VERSION_FEATURES = 3


def mapping_mode(protocol: Protocol, configuration: Mapping[str, str]) -> Mode:
    """The effective mode: the property takes effect only if the protocol supports the feature."""
    listed = protocol.reader_version >= _READER_VERSION_FEATURES and FEATURE in (protocol.reader_features or ())
    if protocol.reader_version != _READER_VERSION and not listed:
        return "none"
    return declared_mode(configuration)


def declared_mode(configuration: Mapping[str, str]) -> Mode:
    """The mode in the property, whatever the protocol supports."""
    match configuration.get(MODE, "none").lower():
        case "name":
            return "name"
        case "id":
            return "id"
        case _:
            return "none"


def physical_name(field: Field) -> str:
    """The name in data files, partition values and statistics; the logical name if no physical name was assigned."""
    name = field.metadata.get(PHYSICAL_NAME)
    if name is None:
        return field.name
    if not is_text(name):
        detail = f"{PHYSICAL_NAME} of column {field.name} is {name!r}, not a string"
        raise InvalidActionError(table="the table", action="metaData", detail=detail)
    found: str = name
    return found


def stored_name(field: Field, mode: Mode | str) -> str:
    """The name in data files, partition values and statistics of a table in that mode. In mode none, physical names
    left over in the schema are ignored."""
    return field.name if mode == "none" else physical_name(field)


def column_id(field: Field) -> int | None:
    """The `field_id` in data files; None if no id was assigned."""
    value = field.metadata.get(ID)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        detail = f"{ID} of column {field.name} is {value!r}, not an integer"
        raise InvalidActionError(table="the table", action="metaData", detail=detail)
    return value


def physical_schema(schema: Struct, mode: Mode | str) -> Struct:
    """The schema of data files: with physical names at any depth, unless the mode is none. Metadata is kept."""
    return schema if mode == "none" else map_fields(schema, lambda f: replace(f, name=physical_name(f)))


def physical_path(schema: Struct, path: tuple[str, ...], mode: Mode | str) -> tuple[str, ...] | None:
    """The physical path of a column, given by its logical path through structs; None if there is no such column."""
    fields = schema.resolve(path)
    if fields is None:
        return None
    return tuple(stored_name(f, mode) for f in fields)


def followed_path(before: Struct, after: Struct, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path of a column under a later schema of its table, which may name it otherwise; None if it is gone.

    Columns are the same by their ids, or without ids by their names.
    """
    here: DataType = after
    names = []
    for field in before.resolve(path) or ():
        number = column_id(field)
        children = here if isinstance(here, Struct) else Struct(())
        child = (
            children.find(field.name) if number is None else next((f for f in children if column_id(f) == number), None)
        )
        if child is None:
            return None
        names.append(child.name)
        here = child.type
    return tuple(names) or None


def highest_id(configuration: Mapping[str, str], *, table: str) -> int:
    """The highest column id that a table has used.

    Raises:
        InvalidPropertyError: it is not a number.
    """
    return properties.MAX_COLUMN_ID.get(configuration, table=table)


def assign_mapping(
    schema: Struct, mode: Mode | str, new_name: Callable[[Field], str], start_id: int, *, numbers_nested: bool = False
) -> tuple[Struct, int]:
    """Assign ids and physical names to all fields, at any depth, that have none; existing ones are kept.

    Args:
        new_name: returns a physical name that the table has never used; for a table with data files, the column's name
            in them.
        start_id: the highest id that the table has ever assigned (`delta.columnMapping.maxColumnId`), 0 for a new
            table.
        numbers_nested: whether elements, keys and values get ids too.

    Returns:
        the schema, and the highest assigned id. In mode none, the schema unchanged.
    """
    if mode == "none":
        return schema, start_id
    highest = max([start_id, *mapped_ids(schema)])

    def assign(field: Field) -> Field:
        nonlocal highest
        missing: dict[str, int | str] = {}
        if column_id(field) is None:
            highest += 1
            missing[ID] = highest
        if PHYSICAL_NAME not in field.metadata:
            missing[PHYSICAL_NAME] = new_name(field)
        return replace(field, metadata={**field.metadata, **missing}) if missing else field

    assigned = map_fields(schema, assign)
    return _with_nested_ids(assigned, highest) if numbers_nested else (assigned, highest)


def _with_nested_ids(schema: Struct, highest: int) -> tuple[Struct, int]:
    """Number the elements, keys and values that have no id. Protocol: "Writer Requirements for IcebergCompatV2"."""

    def assign(field: Field) -> Field:
        nonlocal highest
        known, ids = nested_ids(field), dict[str, int]()
        for path in _nested_paths(field.type, physical_name(field)):
            highest += path not in known
            ids[path] = known.get(path, highest)
        rest = {key: value for key, value in field.metadata.items() if key != NESTED_IDS}
        return replace(field, metadata={**rest, **({NESTED_IDS: ids} if ids else {})})

    return map_fields(schema, assign), highest


def nested_ids(field: Field) -> Mapping[str, int]:
    """The ids of the elements, keys and values of a column, by their paths from its physical name on.

    Raises:
        InvalidActionError: they are not a map of integers.
    """
    found = field.metadata.get(NESTED_IDS) or {}
    if not isinstance(found, dict) or not all(isinstance(value, int) for value in found.values()):
        detail = f"{NESTED_IDS} of column {field.name} is {found!r}, not a map of integers"
        raise InvalidActionError(table="the table", action="metaData", detail=detail)
    return found


def without_nested_ids(schema: Struct) -> list[str]:
    """The elements, keys and values that have no id, by their paths.

    Raises:
        InvalidActionError: as `nested_ids`.
    """
    return [
        path
        for _, field in walk_fields(schema)
        for path in _nested_paths(field.type, physical_name(field))
        if path not in nested_ids(field)
    ]


def ordered_nested_ids(columns: Struct) -> Iterator[int]:
    """The ids of all elements, keys and values in the order of a schema, each before those inside it."""
    for column in columns:
        yield from _ordered(column.type, physical_name(column), nested_ids(column))


def _ordered(data_type: DataType, path: str, ids: Mapping[str, int]) -> Iterator[int]:
    if isinstance(data_type, Struct):
        yield from ordered_nested_ids(data_type)
    for name, inner in _parts(data_type).items():
        yield ids[f"{path}.{name}"]
        yield from _ordered(inner, f"{path}.{name}", ids)


def _parts(data_type: DataType) -> Mapping[str, DataType]:
    """What an array or a map has inside, by its name in Parquet files."""
    match data_type:
        case Array():
            return {"element": data_type.element}
        case Map():
            return {"key": data_type.key, "value": data_type.value}
        case _:
            return {}


def _nested_paths(data_type: DataType, path: str) -> Iterator[str]:
    """The paths of the elements, keys and values of a type, parents first, down to the next struct."""
    for name, inner in _parts(data_type).items():
        yield f"{path}.{name}"
        yield from _nested_paths(inner, f"{path}.{name}")


def with_columns_of(schema: Struct, before: Struct) -> Struct:
    """The schema that replaces another one of its table. A column of the same name and type, at any depth, is the same
    column: it keeps id and physical name, as with the reference, so that feeds and streams read on. Nullability does
    not matter, nor the case of names.
    """
    known = {tuple(name.lower() for name in path): field for path, field in walk_fields(before)}
    paths = (tuple(name.lower() for name in path) for path, _ in walk_fields(schema))

    def same(field: Field) -> Field:
        other = known.get(next(paths))
        if other is None or str(other.type).lower() != str(field.type).lower():
            return field
        kept = {key: other.metadata[key] for key in (ID, PHYSICAL_NAME, NESTED_IDS) if key in other.metadata}
        return replace(field, metadata={**kept, **field.metadata})

    return map_fields(schema, same)


def without_mapping(schema: Struct) -> Struct:
    """The schema without ids and physical names, for a new table whose schema comes from another table."""
    ours = (ID, PHYSICAL_NAME, NESTED_IDS)
    return map_fields(schema, lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k not in ours}))


def mapped_ids(schema: Struct) -> Iterator[int]:
    """All ids in a schema, those of elements, keys and values included."""
    for _, field in walk_fields(schema):
        if (own := column_id(field)) is not None:
            yield own
        yield from nested_ids(field).values()
