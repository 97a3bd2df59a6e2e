"""Changes to single columns of a table: pure functions from one current to the next, none of which touches a data file.

Protocol: "Change Metadata", "Column Mapping", "Type Widening", "Default Columns". A column is named by its path, without regard to case:
names of struct fields, and `element`, `key` and `value` of arrays and maps. Whether an expression of the table names a column, and whether
its rows allow NOT NULL, is for the caller to find out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
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
    DuplicateColumnsError,
    IdentityColumnChangeError,
    IdentityReplaceColumnsError,
    NewColumnNotNullError,
    ParentNotStructError,
    RenameColumnUnsupportedError,
)
from tahoe.protocol.column_mapping import MAX_COLUMN_ID, assign_mapping
from tahoe.protocol.column_type_changes import TEXT_TYPE, text_type_refusal, type_refusal
from tahoe.protocol.column_values import CURRENT_DEFAULT, EXISTS_DEFAULT, GENERATION_EXPRESSION, identity_columns
from tahoe.protocol.feature_upgrade import upgrade_for
from tahoe.protocol.features import supported_features
from tahoe.protocol.properties import STATS_COLUMNS
from tahoe.protocol.schema import Array, DataType, Field, Map, Struct, check_unique_names, encode_type, walk_fields
from tahoe.protocol.table_configuration import TableConfiguration
from tahoe.protocol.type_widening import with_type_changes

Path: TypeAlias = tuple[str, ...]

COMMENT = "comment"

_ENABLE_MAPPING = "Set the table property 'delta.columnMapping.mode' = 'name' first, which upgrades the table and rewrites nothing."


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column stands among its neighbours: behind one of them, or first of all where `after` is None."""

    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to be added. `parent` is the path of the struct that gets it; without a position it comes last."""

    field: Field
    parent: Path = ()
    position: Position | None = None

    @property
    def path(self) -> Path:
        return (*self.parent, self.field.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """What is to be different about a column; None leaves things as they are.

    Attributes:
        type: another type, with the metadata that says a text's length, if it has one.
        comment: "" for none.
        default: an SQL expression; "" for no default.
    """

    path: Path
    type: DataType | None = None
    text_type: str | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    position: Position | None = None


# --- columns by their paths


def column_at(current: TableConfiguration, path: Path) -> tuple[Path, Field]:
    """A column and its path as the schema spells it; elements, keys and values are fields under these names.

    Raises:
        ColumnNotFoundError: the path leads nowhere, with the nearest names.
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
    """The error for a path that leads nowhere: its nearest names first."""
    names = [dotted(found) for found, _ in walk_fields(current.schema)]
    folded = {name.lower(): name for name in names}
    near = [folded[name] for name in difflib.get_close_matches(dotted(path).lower(), list(folded), n=3, cutoff=0.5)]
    shown = [*near, *(name for name in current.schema.names if name not in near)]
    return ColumnNotFoundError(table=current.table, column=dotted(path), columns=", ".join(shown[:20]))


def dotted(path: Path) -> str:
    """A path as it is told: names with other characters than letters, digits and _ are in backticks."""
    return ".".join(name if name.replace("_", "a").isalnum() else "`" + name.replace("`", "``") + "`" for name in path)


def sql_path(path: Path) -> str:
    """A path as a condition has it, whatever the names are: without backticks `true` would be a constant."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def _child(data_type: DataType, name: str) -> Field | None:
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
    """The type with another type of what `_child` finds."""
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
    """The type with what stands at a path, spelled as the schema does, changed."""
    if not spelled:
        return change(data_type)
    child = _child(data_type, spelled[0])
    assert child is not None
    return _with_child(data_type, spelled[0], _changed_inside(child.type, spelled[1:], change))


def _with_fields(current: TableConfiguration, parent: Path, change: Callable[[tuple[Field, ...]], Iterable[Field]]) -> Struct:
    """The schema with the fields of one of its structs changed."""

    def changed(data_type: DataType) -> DataType:
        assert isinstance(data_type, Struct)
        return Struct(tuple(change(data_type.fields)))

    schema = _changed_inside(current.schema, parent, changed)
    assert isinstance(schema, Struct)
    return schema


def _placed(
    current: TableConfiguration, fields: tuple[Field, ...], field: Field, position: Position | None, parent: Path
) -> tuple[Field, ...]:
    """The fields with one more at its place."""
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


def add_columns(current: TableConfiguration, columns: Iterable[NewColumn], new_name: Callable[[], str]) -> TableConfiguration:
    """With columns added, in which the rows that are there have nulls.

    Args:
        new_name: makes a physical name that no column of the table ever had.

    Raises:
        NewColumnNotNullError, DefaultOfNewColumnError: the rows that are there would break what is asked.
        DuplicateColumnsError: there is one of that name.
        ParentNotStructError, ColumnNotFoundError: the place is none.
    """
    for column in columns:
        current = _with_schema(current, _added(current, column), new_name)
    return current


def _added(current: TableConfiguration, column: NewColumn) -> Struct:
    parent = column_at(current, column.parent)[0] if column.parent else ()
    into = _type_at(current, parent)
    if not isinstance(into, Struct):
        detail = f"{dotted(parent)} is {into}, which has no fields"
        raise _refusal(ParentNotStructError, current, column.path, detail, "Name a struct, or the .element, .key or .value that is one.")
    _check_new(current, column, into)
    return _with_fields(current, parent, lambda fields: _placed(current, fields, column.field, column.position, parent))


def _check_new(current: TableConfiguration, column: NewColumn, into: Struct) -> None:
    inside = [f"{dotted(column.parent)}.{dotted(p)}".lstrip(".") for p, f in walk_fields(Struct((column.field,))) if not f.nullable]
    if inside:
        detail = f"{inside[0]} is NOT NULL, and the rows that are there have no value in it"
        raise _refusal(NewColumnNotNullError, current, column.path, detail, "Add it without NOT NULL, fill it, and set NOT NULL then.")
    if CURRENT_DEFAULT in column.field.metadata:
        detail = "the rows that are there would have to get its default value"
        remedy = "Add it without a default, and set the default with ALTER COLUMN ... SET DEFAULT then."
        raise _refusal(DefaultOfNewColumnError, current, column.path, detail, remedy)
    known = into.find(column.field.name)
    if known is not None:
        raise DuplicateColumnsError(table=current.table, columns=dotted(column.path))


# --- renaming and dropping


def rename_column(current: TableConfiguration, path: Path, name: str) -> TableConfiguration:
    """With a column under another name; what the table says of its old name follows.

    Raises:
        RenameColumnUnsupportedError: names are those of the files.
        ColumnNotFoundError, DuplicateColumnsError.
    """
    spelled, field = column_at(current, path)
    parent = spelled[:-1]
    if current.column_mapping_mode == "none":
        raise _refusal(
            RenameColumnUnsupportedError, current, spelled, "its data files have it under its name, which cannot change", _ENABLE_MAPPING
        )
    if not isinstance(_type_at(current, parent), Struct):
        raise _refusal(ParentNotStructError, current, spelled, "it is no field of a struct, and has no other name", "Leave it.")
    neighbours = _type_at(current, parent)
    known = neighbours.find(name) if isinstance(neighbours, Struct) else None
    if known is not None and known.name != field.name:
        raise DuplicateColumnsError(table=current.table, columns=dotted((*parent, name)))
    schema = _with_fields(current, parent, lambda fields: (replace(f, name=name) if f.name == field.name else f for f in fields))
    renamed = _moved_names(current, spelled, (*parent, name))
    partitions = renamed.metadata.partition_columns
    if not parent:
        partitions = tuple(name if column == field.name else column for column in partitions)
    return replace(renamed, metadata=replace(renamed.metadata, schema_string=schema.to_json(), partition_columns=partitions))


def drop_columns(current: TableConfiguration, paths: Iterable[Path], *, if_exists: bool = False) -> TableConfiguration:
    """Without some columns, whose values stay in the data files and are read no more.

    Raises:
        DropColumnUnsupportedError: a later column of that name would show the old values.
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
            detail = "without column mapping a later column of that name would show its values"
            raise _refusal(DropColumnUnsupportedError, current, spelled, detail, _ENABLE_MAPPING)
        current = _dropped(current, spelled, field)
    return current


def _dropped(current: TableConfiguration, spelled: Path, field: Field) -> TableConfiguration:
    parent = spelled[:-1]
    if not parent and field.name in current.metadata.partition_columns:
        raise _refusal(
            DropPartitionColumnError, current, spelled, "the table is partitioned by it", "Write the rows to a table without it."
        )
    neighbours = _type_at(current, parent)
    if not isinstance(neighbours, Struct):
        raise _refusal(ParentNotStructError, current, spelled, "it is no field of a struct", f"Drop {dotted(parent)} as a whole.")
    rest = [f for f in neighbours if f.name != field.name]
    if not rest or (not parent and all(f.name in current.metadata.partition_columns for f in rest)):
        raise _refusal(DropLastFieldError, current, spelled, "nothing would be left that data files hold", "Keep one, or drop the whole.")
    schema = _with_fields(current, parent, lambda _: rest)
    left = _moved_names(current, spelled, None)
    return replace(left, metadata=replace(left.metadata, schema_string=schema.to_json()))


def _moved_names(current: TableConfiguration, path: Path, to: Path | None) -> TableConfiguration:
    """With the column's other name in the property that lists columns with statistics, or without it."""
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
    if tuple(kept) == listed:
        return current
    configuration = {**current.properties, STATS_COLUMNS.name: ",".join(dotted(column) for column in kept)}
    return replace(current, metadata=replace(current.metadata, configuration=configuration))


# --- changing


def change_column(current: TableConfiguration, change: ColumnChange, new_name: Callable[[], str]) -> TableConfiguration:
    """With another type, comment, default, nullability or place of a column.

    Args:
        new_name: as of `add_columns`.

    Raises:
        ColumnTypeChangeError, StructTypeChangeError, ArrayTypeChangeError, MapTypeChangeError: its values cannot be read as the type.
        IdentityColumnChangeError, ColumnDefaultsNotEnabledError, ColumnNotFoundError.
    """
    spelled, field = column_at(current, change.path)
    parent, holder = spelled[:-1], _type_at(current, spelled[:-1])
    _check_rules(current, change, spelled, field)
    changed = _described(current, change, spelled, field)
    changed = _retyped(current, change, spelled, field, changed)
    if isinstance(holder, Struct):
        schema = _with_fields(current, parent, lambda fields: _replaced(current, fields, field, changed, change.position, parent))
    else:
        schema = _in_collection(current, change, spelled, changed)
    return _with_schema(current, schema, new_name)


def _in_collection(current: TableConfiguration, change: ColumnChange, spelled: Path, changed: Field) -> Struct:
    """An element, a key or a value has a type and nothing else. What changed is recorded with the field that holds it."""
    if change.comment is not None or change.default is not None or change.position is not None or change.nullable is False:
        detail = "an element, a key or a value has no comment, no default and no place, and its nulls stay as they are"
        raise _refusal(ColumnTypeChangeError, current, spelled, detail, "Change its type alone.")
    schema = _changed_inside(current.schema, spelled, lambda _: changed.type)
    holder = next(length for length in range(len(spelled), 0, -1) if _is_field(current, spelled[:length]))

    def record(fields: tuple[Field, ...]) -> Iterable[Field]:
        before = column_at(current, spelled[:holder])[1]
        return (with_type_changes(f, before.type) if f.name == spelled[holder - 1] else f for f in fields)

    assert isinstance(schema, Struct)
    moved = replace(current, metadata=replace(current.metadata, schema_string=schema.to_json()))
    return _with_fields(moved, spelled[: holder - 1], record)


def _is_field(current: TableConfiguration, spelled: Path) -> bool:
    return isinstance(_type_at(current, spelled[:-1]), Struct)


def _replaced(
    current: TableConfiguration, fields: tuple[Field, ...], field: Field, changed: Field, position: Position | None, parent: Path
) -> tuple[Field, ...]:
    if position is None or (position.after is not None and position.after.lower() == field.name.lower()):
        return tuple(changed if f.name == field.name else f for f in fields)
    return _placed(current, tuple(f for f in fields if f.name != field.name), changed, position, parent)


def _check_rules(current: TableConfiguration, change: ColumnChange, spelled: Path, field: Field) -> None:
    """Refuse what the rule by which a column's values are made does not allow."""
    is_retyped = change.type is not None and (change.type != field.type or change.text_type != field.metadata.get(TEXT_TYPE))
    touches_values = is_retyped or change.nullable is not None or change.default is not None
    is_identity = len(spelled) == 1 and spelled[0] in dict(identity_columns(current.schema, table=current.table))
    if is_identity and touches_values:
        detail = "it is an identity column, which has a comment and a place that may change"
        raise _refusal(IdentityColumnChangeError, current, spelled, detail, "Leave its type, nulls and values as they are.")
    if change.default is None:
        return
    if GENERATION_EXPRESSION in field.metadata or len(spelled) > 1:
        detail = "it is generated" if GENERATION_EXPRESSION in field.metadata else "only columns of the table itself have defaults"
        raise _refusal(ColumnTypeChangeError, current, spelled, detail, "Leave the default out.")
    if change.default and "allowColumnDefaults" not in supported_features(current.protocol):
        raise ColumnDefaultsNotEnabledError(table=current.table, columns=dotted(spelled))


def _described(current: TableConfiguration, change: ColumnChange, spelled: Path, field: Field) -> Field:
    metadata: dict[str, Any] = dict(field.metadata)
    if change.comment is not None:
        metadata[COMMENT] = change.comment
    if change.default is not None:
        metadata.pop(EXISTS_DEFAULT, None)
        metadata.pop(CURRENT_DEFAULT, None)
        if change.default:
            metadata[CURRENT_DEFAULT] = change.default
    if change.nullable is False and field.nullable and current.schema.resolve(spelled) is None:
        detail = "it is inside an array or a map, where no writer would check it"
        raise _refusal(ColumnTypeChangeError, current, spelled, detail, "Leave it nullable.")
    return replace(field, metadata=metadata, nullable=field.nullable if change.nullable is None else change.nullable)


def _retyped(current: TableConfiguration, change: ColumnChange, spelled: Path, field: Field, changed: Field) -> Field:
    if change.type is None:
        return changed
    refused = type_refusal(field, change.type, change.text_type, current.widens)
    if refused is not None:
        raise _refusal(refused.error, current, spelled, refused.detail, refused.remedy)
    metadata = {key: value for key, value in changed.metadata.items() if key != TEXT_TYPE}
    if change.text_type is not None:
        metadata[TEXT_TYPE] = change.text_type
    retyped = replace(changed, type=change.type, metadata=metadata)
    return retyped if field.type == change.type else with_type_changes(retyped, field.type)


# --- replacing all


def replace_columns(current: TableConfiguration, columns: Struct, new_name: Callable[[], str]) -> TableConfiguration:
    """With these columns in place of all: known by their names, in the order given, with the comments given.

    Raises:
        IdentityReplaceColumnsError: the table has identity columns.
        SchemaMismatchError: the files that are there could not be read with them, or nobody could tell a rename from a new column.
        ColumnDefaultsNotEnabledError: a column gets a default, and the table does not support them.
    """
    identity = [name for name, _ in identity_columns(current.schema, table=current.table)]
    if identity:
        detail = f"the table has the identity column {', '.join(identity)}"
        raise _refusal(IdentityReplaceColumnsError, current, (identity[0],), detail, "Change columns one by one.")
    lost = [f.name for f in current.schema if columns.find(f.name) is None]
    new = [f.name for f in columns if current.schema.find(f.name) is None]
    if lost and new:
        detail = f"{', '.join(lost)} would go and {', '.join(new)} come, and whether that is another name cannot be told"
        raise _refusal(ColumnTypeChangeError, current, (lost[0],), detail, "Add, drop and rename columns one by one.")
    defaults = [f.name for f in columns if CURRENT_DEFAULT in f.metadata and f.name in new]
    if defaults:
        detail = "the rows that are there would have to get its default value"
        raise _refusal(DefaultOfNewColumnError, current, (defaults[0],), detail, "Add it without a default.")
    given_defaults = [f.name for f in columns if CURRENT_DEFAULT in f.metadata]
    if given_defaults and "allowColumnDefaults" not in supported_features(current.protocol):
        raise ColumnDefaultsNotEnabledError(table=current.table, columns=", ".join(given_defaults))
    for known in current.schema:
        given = columns.find(known.name)
        text_type = None if given is None else given.metadata.get(TEXT_TYPE)
        refused = None if text_type is None else text_type_refusal(known.metadata.get(TEXT_TYPE), text_type)
        if refused is not None:
            raise _refusal(refused.error, current, (known.name,), refused.detail, refused.remedy)
    return current.with_schema(columns, new_name)


# --- the rest of it


def _type_at(current: TableConfiguration, spelled: Path) -> DataType:
    return column_at(current, spelled)[1].type if spelled else current.schema


def _with_schema(current: TableConfiguration, schema: Struct, new_name: Callable[[], str]) -> TableConfiguration:
    """With a schema that needs no more checks than of its names: new columns get ids, and the protocol what types ask of it."""
    check_unique_names(schema, table=current.table)
    mode, configuration = current.column_mapping_mode, dict(current.properties)
    if mode != "none":
        schema, highest = assign_mapping(schema, mode, lambda _: f"col-{new_name()}", int(configuration.get(MAX_COLUMN_ID, 0)))
        configuration[MAX_COLUMN_ID] = str(highest)
    protocol = upgrade_for(current.protocol, schema, configuration, table=current.table)
    metadata = replace(current.metadata, schema_string=schema.to_json(), configuration=configuration)
    return replace(current, protocol=protocol, metadata=metadata)


def _refusal(error: type[Any], current: TableConfiguration, path: Path, detail: str, remedy: str) -> Any:
    return error(table=current.table, column=dotted(path), detail=detail, remedy=remedy)


# --- as the history tells it


def told(parent: Path, field: Field) -> dict[str, Any]:
    """A column as the history has it."""
    kind = field.metadata.get(TEXT_TYPE) or encode_type(field.type)
    return {
        "name": dotted((*parent, field.name)),
        "type": kind if isinstance(kind, str) else kind["type"],
        "nullable": field.nullable,
        "metadata": {name: value for name, value in field.metadata.items() if name != TEXT_TYPE},
    }
