"""ALTER TABLE for columns: pure functions from the current table configuration to the next. None of them changes data
files.

Protocol: "Change Metadata", "Column Mapping", "Type Widening", "Default Columns". Columns are given by case-insensitive
paths: names of struct fields, and `element`, `key` and `value` of arrays and maps. The caller must check whether
expressions of the table reference a column, and whether existing rows satisfy NOT NULL.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tahoe.errors import (
    ColumnDefaultsNotEnabledError,
    ColumnNotFoundError,
    ColumnTypeChangeError,
    DefaultOfNewColumnError,
    DropColumnUnsupportedError,
    DropLastFieldError,
    DropPartitionColumnError,
    DuplicateMetadataColumnsError,
    DuplicateNewColumnsError,
    DuplicateReplacedColumnsError,
    IdentityColumnChangeError,
    IdentityReplaceColumnsError,
    NewColumnNotNullError,
    ParentNotStructError,
    RenameColumnUnsupportedError,
)
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE, text_type_refusal, type_refusal
from tahoe.protocol.changes.column_values import check_defaults, identity_columns
from tahoe.protocol.changes.table_configuration import SHOWS_OLD_VALUES, TableConfiguration
from tahoe.protocol.configuration.bloom_filters import encode_bloom_filters, moved
from tahoe.protocol.configuration.declared_keys import with_column_moved
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.configuration.properties import BLOOM_FILTERS, STATS_COLUMNS
from tahoe.protocol.statistics.listed_columns import with_listed
from tahoe.protocol.types.column_metadata import (
    COLLATIONS,
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    with_collations_inside,
    with_name,
)
from tahoe.protocol.types.names import check_column_name, dotted
from tahoe.protocol.types.schema import (
    Array,
    DataType,
    Field,
    Map,
    Struct,
    check_unique_names,
    encode_type,
    walk_fields,
)
from tahoe.protocol.types.type_widening import with_type_changes

Path: TypeAlias = tuple[str, ...]

COMMENT = "comment"

_NEEDS_DEFAULT = "existing rows would have to be rewritten with the default value"
_ENABLE_MAPPING = (
    "ALTER TABLE ... SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name') first, which upgrades the table and "
    "rewrites nothing."
)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a column in its struct: after another column, or first if `after` is None."""

    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to add. `parent` is the path of its struct; without a position the column is added last."""

    field: Field
    parent: Path = ()
    position: Position | None = None

    @property
    def path(self) -> Path:
        return (*self.parent, self.field.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """A change of a column; an attribute that is None does not change.

    Attributes:
        type, text_type, collations: the new type; for CHAR(n) and VARCHAR(n), a string and that text; all collations.
        comment: "" removes the comment.
        default: an SQL expression; "" drops the default.
    """

    path: Path
    type: DataType | None = None
    text_type: str | None = None
    collations: Mapping[str, str] | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    position: Position | None = None


# --- columns by their paths


def column_at(current: TableConfiguration, path: Path) -> tuple[Path, Field]:
    """A column and its path as spelled in the schema; array elements, map keys and map values count as fields of these
    names.

    Raises:
        ColumnNotFoundError: there is no such column; the error lists similar names.
    """
    spelled: list[str] = []
    here: DataType = current.schema
    found: Field | None = None
    for name in path:
        found = _child(here, name)
        if found is None:
            raise not_found(current, path)
        spelled.append(found.name)
        here = found.type
    if found is None:
        raise not_found(current, path)
    return tuple(spelled), found


def not_found(current: TableConfiguration, path: Path) -> ColumnNotFoundError:
    """The error for a column that does not exist, with similar names first."""
    names = [dotted(found) for found, _ in walk_fields(current.schema)]
    folded = {name.lower(): name for name in names}
    near = [folded[name] for name in difflib.get_close_matches(dotted(path).lower(), list(folded), n=3, cutoff=0.5)]
    shown = [*near, *(name for name in current.schema.names if name not in near)]
    return ColumnNotFoundError(table=current.table, column=dotted(path), columns=", ".join(shown[:20]))


def _child(data_type: DataType, name: str) -> Field | None:
    """The part of a type that a path names next: a field, or `element`, `key` or `value`; None if there is none."""
    match data_type:
        case Struct():
            return data_type.find(name)
        case Array() if name.lower() == "element":
            return Field(name="element", type=data_type.element, nullable=data_type.contains_null)
        case Map() if name.lower() == "key":
            return Field(name="key", type=data_type.key, nullable=False)
        case Map() if name.lower() == "value":
            return Field(name="value", type=data_type.value, nullable=data_type.value_contains_null)
        case _:
            return None


def _with_child(data_type: DataType, name: str, child: DataType) -> DataType:
    """The type with the type of one child, as in `_child`, replaced."""
    match data_type:
        case Struct(fields):
            return Struct(tuple(replace(f, type=child) if f.name == name else f for f in fields))
        case Array():
            return replace(data_type, element=child)
        case Map():
            return replace(data_type, key=child) if name == "key" else replace(data_type, value=child)
        case _:
            raise AssertionError(data_type)


def _changed_inside(data_type: DataType, spelled: Path, change: Callable[[DataType], DataType]) -> DataType:
    """The type with `change` applied to the type at a path, which is spelled as in the schema."""
    if not spelled:
        return change(data_type)
    child = _child(data_type, spelled[0])
    assert child is not None
    return _with_child(data_type, spelled[0], _changed_inside(child.type, spelled[1:], change))


def _with_fields(
    current: TableConfiguration, parent: Path, change: Callable[[tuple[Field, ...]], Iterable[Field]]
) -> Struct:
    """The schema with `change` applied to the fields of one of its structs."""

    def changed(data_type: DataType) -> DataType:
        assert isinstance(data_type, Struct)
        return Struct(tuple(change(data_type.fields)))

    schema = _changed_inside(current.schema, parent, changed)
    assert isinstance(schema, Struct)
    return schema


def _insert_field(
    current: TableConfiguration, fields: tuple[Field, ...], field: Field, position: Position | None, parent: Path
) -> tuple[Field, ...]:
    """The fields with a field added at its position."""
    if position is None:
        return (*fields, field)
    if position.after is None:
        return (field, *fields)
    neighbour = Struct(fields).find(position.after)
    if neighbour is None:
        raise not_found(current, (*parent, position.after))
    at = fields.index(neighbour) + 1
    return (*fields[:at], field, *fields[at:])


# --- adding


def add_columns(
    current: TableConfiguration, columns: Iterable[NewColumn], new_name: Callable[[], str]
) -> TableConfiguration:
    """Add columns, which are null in existing rows.

    Args:
        new_name: returns a physical name that the table has never used.

    Raises:
        NewColumnNotNullError, DefaultOfNewColumnError: existing rows would violate the new column's definition.
        DuplicateColumnsError, InvalidArgumentError: a column of that name exists; the name is empty.
        ParentNotStructError, ColumnNotFoundError: the parent or position does not exist.
    """
    for column in columns:
        current = _with_schema(current, _with_column(current, column), new_name)
    return current


def _with_column(current: TableConfiguration, column: NewColumn) -> Struct:
    """The schema with a new column, or with a new field of the struct that its path names."""
    parent = column_at(current, column.parent)[0] if column.parent else ()
    into = _type_at(current, parent)
    if not isinstance(into, Struct):
        detail = f"{dotted(parent)} is {into}, not a struct"
        raise _refusal(
            ParentNotStructError, current, column.path, detail, "Name a struct, or its .element, .key or .value."
        )
    _check_new(current, column, into)
    return _with_fields(
        current, parent, lambda fields: _insert_field(current, fields, column.field, column.position, parent)
    )


def _check_new(current: TableConfiguration, column: NewColumn, into: Struct) -> None:
    """Refuse a column that existing rows would contradict: one that is NOT NULL at any depth, or has a default. Its
    name must be new in the struct `into`.
    """
    check_column_name(column.field.name, table=current.table)
    inside = [
        f"{dotted(column.parent)}.{dotted(p)}".lstrip(".")
        for p, f in walk_fields(Struct((column.field,)))
        if not f.nullable
    ]
    if inside:
        detail = f"{inside[0]} is NOT NULL, but existing rows have no value for it"
        raise _refusal(
            NewColumnNotNullError, current, column.path, detail, "Add it without NOT NULL, fill it, then set NOT NULL."
        )
    if CURRENT_DEFAULT in column.field.metadata:
        remedy = "Add it without a default, then set one with ALTER COLUMN ... SET DEFAULT."
        raise _refusal(DefaultOfNewColumnError, current, column.path, _NEEDS_DEFAULT, remedy)
    if into.find(column.field.name) is not None:
        raise DuplicateNewColumnsError(table=current.table, columns=dotted(column.path))


# --- renaming and dropping


def rename_column(current: TableConfiguration, path: Path, name: str) -> TableConfiguration:
    """Rename a column, also in the partition columns and in the properties that name columns.

    Raises:
        RenameColumnUnsupportedError: column mapping is not enabled.
        ColumnNotFoundError, DuplicateColumnsError; InvalidArgumentError: the new name is empty.
    """
    check_column_name(name, table=current.table)
    spelled, field = column_at(current, path)
    parent = spelled[:-1]
    if current.column_mapping_mode == "none":
        detail = "without column mapping, existing data files contain its name"
        raise _refusal(RenameColumnUnsupportedError, current, spelled, detail, _ENABLE_MAPPING)
    if not isinstance(_type_at(current, parent), Struct):
        detail = "array elements, map keys and map values cannot be renamed"
        raise _refusal(ParentNotStructError, current, spelled, detail, "Rename a field of a struct.")
    neighbours = _type_at(current, parent)
    known = neighbours.find(name) if isinstance(neighbours, Struct) else None
    if known is not None and known.name != field.name:
        raise DuplicateMetadataColumnsError(table=current.table, columns=dotted((*parent, name)))
    new = replace(field, name=name, metadata=with_name(field.metadata, field.name, name))
    schema = _with_fields(current, parent, lambda fields: (new if f.name == field.name else f for f in fields))
    renamed = _moved_names(current, spelled, (*parent, name))
    partitions = renamed.metadata.partition_columns
    if not parent:
        partitions = tuple(name if column == field.name else column for column in partitions)
    return replace(
        renamed, metadata=renamed.metadata.replace(schema_string=schema.to_json(), partition_columns=partitions)
    )


def drop_columns(current: TableConfiguration, paths: Iterable[Path], *, if_exists: bool = False) -> TableConfiguration:
    """Drop columns. Their values stay in the data files but are no longer read.

    Raises:
        DropColumnUnsupportedError: column mapping is not enabled.
        DropPartitionColumnError, DropLastFieldError, ColumnNotFoundError.
    """
    for path in paths:
        try:
            spelled, field = column_at(current, path)
        except ColumnNotFoundError:
            if if_exists:
                continue
            raise
        if current.column_mapping_mode == "none":
            raise _refusal(DropColumnUnsupportedError, current, spelled, SHOWS_OLD_VALUES, _ENABLE_MAPPING)
        current = _without_column(current, spelled, field)
    return current


def _without_column(current: TableConfiguration, spelled: Path, field: Field) -> TableConfiguration:
    """The table without a column, also in the properties that list columns. A partition column stays, and so does the
    last column that data files store.
    """
    parent = spelled[:-1]
    if not parent and field.name in current.metadata.partition_columns:
        detail, remedy = "the table is partitioned by it", "Write the rows to a new table without it."
        raise _refusal(DropPartitionColumnError, current, spelled, detail, remedy)
    neighbours = _type_at(current, parent)
    if not isinstance(neighbours, Struct):
        raise _refusal(
            ParentNotStructError,
            current,
            spelled,
            "it is not a field of a struct",
            f"Drop {dotted(parent)} as a whole.",
        )
    remaining = [f for f in neighbours if f.name != field.name]
    if not remaining or (not parent and all(f.name in current.metadata.partition_columns for f in remaining)):
        detail, remedy = (
            "no column would be left to store in data files",
            "Keep at least one column, or drop the table or struct.",
        )
        raise _refusal(DropLastFieldError, current, spelled, detail, remedy)
    schema = _with_fields(current, parent, lambda _: remaining)
    with_moved_names = _moved_names(current, spelled, None)
    return replace(with_moved_names, metadata=with_moved_names.metadata.replace(schema_string=schema.to_json()))


def _moved_names(current: TableConfiguration, path: Path, to: Path | None) -> TableConfiguration:
    """Rename the column in the properties that name columns, or remove it there if `to` is None."""
    current = _moved_keys_and_filters(current, path, to)
    listed = STATS_COLUMNS.get(current.properties, table=current.table)
    if not listed:
        return current
    folded = tuple(name.lower() for name in path)
    kept = []
    for column in listed:
        is_inside = tuple(name.lower() for name in column[: len(path)]) == folded
        if not is_inside:
            kept.append(column)
        elif to is not None:
            kept.append((*to, *column[len(path) :]))
    return replace(
        current,
        metadata=current.metadata.replace(configuration=with_listed(current.properties, kept, table=current.table)),
    )


def _moved_keys_and_filters(current: TableConfiguration, path: Path, to: Path | None) -> TableConfiguration:
    """The keys and the definitions of Bloom filters with the column renamed, or without it if `to` is None."""
    configuration = with_column_moved(current.properties, path, to, table=current.table)
    after = moved(BLOOM_FILTERS.get(current.properties, table=current.table), path, to)
    configuration.pop(BLOOM_FILTERS.name, None)
    if after:
        configuration[BLOOM_FILTERS.name] = encode_bloom_filters(after)
    return replace(current, metadata=current.metadata.replace(configuration=configuration))


# --- changing


def change_column(current: TableConfiguration, change: ColumnChange, new_name: Callable[[], str]) -> TableConfiguration:
    """Change a column's type, comment, default, nullability or position.

    Args:
        new_name: returns a physical name that the table has never used.

    Raises:
        ColumnTypeChangeError, StructTypeChangeError, ArrayTypeChangeError, MapTypeChangeError: existing values cannot
            be read as the type. IdentityColumnChangeError, ColumnDefaultsNotEnabledError, ColumnNotFoundError.
    """
    spelled, field = column_at(current, change.path)
    parent, holder = spelled[:-1], _type_at(current, spelled[:-1])
    _check_rules(current, change, spelled, field)
    changed = _with_attributes(current, change, spelled, field)
    changed = _with_type(current, change, spelled, field, changed)
    if isinstance(holder, Struct):
        schema = _with_fields(
            current, parent, lambda fields: _replace_field(current, fields, field, changed, change.position, parent)
        )
    else:
        schema = _in_collection(current, change, spelled, changed)
    return _with_schema(current, schema, new_name)


def _in_collection(current: TableConfiguration, change: ColumnChange, spelled: Path, changed: Field) -> Struct:
    """Change the type of an element, key or value. The change is recorded in the metadata of the enclosing field."""
    if (
        change.comment is not None
        or change.default is not None
        or change.position is not None
        or change.nullable is False
    ):
        detail = (
            "array elements, map keys and map values have no comment, default or position, and their nullability is "
            "fixed"
        )
        raise _refusal(ColumnTypeChangeError, current, spelled, detail, "Change only its type.")
    schema = _changed_inside(current.schema, spelled, lambda _: changed.type)
    holder = next(length for length in range(len(spelled), 0, -1) if _is_field(current, spelled[:length]))

    def record(fields: tuple[Field, ...]) -> Iterable[Field]:
        before, at = column_at(current, spelled[:holder])[1], spelled[holder - 1 :]
        metadata = with_collations_inside(before.metadata, at, change.collations)
        return (with_type_changes(replace(f, metadata=metadata), before.type) if f.name == at[0] else f for f in fields)

    assert isinstance(schema, Struct)
    moved = replace(current, metadata=current.metadata.replace(schema_string=schema.to_json()))
    return _with_fields(moved, spelled[: holder - 1], record)


def _is_field(current: TableConfiguration, spelled: Path) -> bool:
    return isinstance(_type_at(current, spelled[:-1]), Struct)


def _replace_field(
    current: TableConfiguration,
    fields: tuple[Field, ...],
    field: Field,
    changed: Field,
    position: Position | None,
    parent: Path,
) -> tuple[Field, ...]:
    if position is None or (position.after is not None and position.after.lower() == field.name.lower()):
        return tuple(changed if f.name == field.name else f for f in fields)
    return _insert_field(current, tuple(f for f in fields if f.name != field.name), changed, position, parent)


def _check_rules(current: TableConfiguration, change: ColumnChange, spelled: Path, field: Field) -> None:
    """Refuse changes that identity columns, generated columns and defaults do not allow."""
    is_retyped = change.type is not None and (
        change.type != field.type or change.text_type != field.metadata.get(TEXT_TYPE)
    )
    touches_values = is_retyped or change.nullable is not None or change.default is not None
    is_identity = len(spelled) == 1 and spelled[0] in dict(identity_columns(current.schema, table=current.table))
    if is_identity and touches_values:
        detail = "it is an identity column, of which only the comment and the position can change"
        raise _refusal(
            IdentityColumnChangeError, current, spelled, detail, "Do not change its type, nullability or default."
        )
    if change.default is None:
        return
    if GENERATION_EXPRESSION in field.metadata or len(spelled) > 1:
        is_generated = GENERATION_EXPRESSION in field.metadata
        detail = (
            "a generated column cannot have a default" if is_generated else "only top-level columns can have defaults"
        )
        raise _refusal(ColumnTypeChangeError, current, spelled, detail, "Remove the default.")
    if change.default and "allowColumnDefaults" not in supported_features(current.protocol):
        raise ColumnDefaultsNotEnabledError(table=current.table, columns=dotted(spelled))
    check_defaults([field] if change.default else [], table=current.table)


def _with_attributes(current: TableConfiguration, change: ColumnChange, spelled: Path, field: Field) -> Field:
    """The column with another comment, default and nullability. A new default is not for rows that exist, which keep
    what they have.
    """
    metadata: dict[str, Any] = dict(field.metadata)
    if change.comment is not None:
        metadata[COMMENT] = change.comment
    if change.default is not None:
        metadata.pop(EXISTS_DEFAULT, None)
        metadata.pop(CURRENT_DEFAULT, None)
        if change.default:
            metadata[CURRENT_DEFAULT] = change.default
    if change.nullable is False and field.nullable and current.schema.resolve(spelled) is None:
        detail = "it is inside an array or a map, where writers cannot check NOT NULL"
        raise _refusal(ColumnTypeChangeError, current, spelled, detail, "Keep it nullable.")
    return replace(field, metadata=metadata, nullable=field.nullable if change.nullable is None else change.nullable)


def _with_type(current: TableConfiguration, change: ColumnChange, spelled: Path, field: Field, changed: Field) -> Field:
    if change.type is None:
        return changed
    refused = type_refusal(field, change.type, change.text_type, current.widens)
    if refused is not None:
        raise _refusal(refused.error, current, spelled, refused.detail, refused.remedy)
    metadata = {key: value for key, value in changed.metadata.items() if key not in (TEXT_TYPE, COLLATIONS)}
    given = {TEXT_TYPE: change.text_type, COLLATIONS: change.collations}
    metadata |= {key: value for key, value in given.items() if value is not None}
    retyped = replace(changed, type=change.type, metadata=metadata)
    return retyped if field.type == change.type else with_type_changes(retyped, field.type)


# --- replacing all


def replace_columns(current: TableConfiguration, columns: Struct, new_name: Callable[[], str]) -> TableConfiguration:
    """Replace all columns, which are matched by name, by these columns in this order and with these comments.

    Raises:
        IdentityReplaceColumnsError: the table has identity columns.
        ColumnTypeChangeError: columns would be both dropped and added, which could mean renamed.
        SchemaMismatchError: existing files could not be read with the new columns.
        ColumnDefaultsNotEnabledError: a column has a default, but the table does not support defaults.
    """
    identity = [name for name, _ in identity_columns(current.schema, table=current.table)]
    if identity:
        detail = f"REPLACE COLUMNS is not possible on a table with identity columns ({', '.join(identity)})"
        raise _refusal(IdentityReplaceColumnsError, current, (identity[0],), detail, "Change the columns one by one.")
    check_unique_names(columns, table=current.table, error=DuplicateReplacedColumnsError)
    dropped_names = [f.name for f in current.schema if columns.find(f.name) is None]
    new_names = [f.name for f in columns if current.schema.find(f.name) is None]
    if dropped_names and new_names:
        dropped, added = ", ".join(dropped_names), ", ".join(new_names)
        detail = f"{dropped} would be dropped and {added} added, which could also mean a rename"
        raise _refusal(
            ColumnTypeChangeError, current, (dropped_names[0],), detail, "Add, drop and rename columns one by one."
        )
    defaults = [f.name for f in columns if CURRENT_DEFAULT in f.metadata and f.name in new_names]
    if defaults:
        raise _refusal(DefaultOfNewColumnError, current, (defaults[0],), _NEEDS_DEFAULT, "Add it without a default.")
    given_defaults = [f.name for f in columns if CURRENT_DEFAULT in f.metadata]
    if given_defaults and "allowColumnDefaults" not in supported_features(current.protocol):
        raise ColumnDefaultsNotEnabledError(table=current.table, columns=", ".join(given_defaults))
    for column in current.schema:
        replacement = columns.find(column.name)
        text_type = None if replacement is None else replacement.metadata.get(TEXT_TYPE)
        refused = None if text_type is None else text_type_refusal(column.metadata.get(TEXT_TYPE), text_type)
        if refused is not None:
            raise _refusal(refused.error, current, (column.name,), refused.detail, refused.remedy)
    return current.with_schema(columns, new_name)


# --- shared steps


def _type_at(current: TableConfiguration, spelled: Path) -> DataType:
    return column_at(current, spelled)[1].type if spelled else current.schema


def _with_schema(current: TableConfiguration, schema: Struct, new_name: Callable[[], str]) -> TableConfiguration:
    """Set a checked schema: check that names are unique, assign ids to new columns, and raise the protocol."""
    check_unique_names(schema, table=current.table, error=DuplicateNewColumnsError)
    return current.with_columns(schema, new_name)


def _refusal(error: type[Any], current: TableConfiguration, path: Path, detail: str, remedy: str) -> Any:
    return error(table=current.table, column=dotted(path), detail=detail, remedy=remedy)


# --- operation parameters for the history


def history_column(parent: Path, field: Field) -> dict[str, Any]:
    """A column as it appears in the operation parameters of the history."""
    kind = field.metadata.get(TEXT_TYPE) or encode_type(field.type)
    return {
        "name": dotted((*parent, field.name)),
        "type": kind if isinstance(kind, str) else kind["type"],
        "nullable": field.nullable,
        "metadata": {name: value for name, value in field.metadata.items() if name != TEXT_TYPE},
    }
