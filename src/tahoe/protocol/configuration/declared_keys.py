"""The keys that a table declares: PRIMARY KEY, UNIQUE and FOREIGN KEY. No writer enforces them.

    tahoe.keys.pk = {"kind":"PRIMARY KEY","columns":["id"],"rely":true}

The protocol knows no keys. Each is a table property of its own, because a property asks for no table feature, every
writer keeps it, and CLONE, RESTORE and REPLACE treat it as they treat CHECK constraints. A metadata domain would need
the feature `domainMetadata`, without which some writers could no longer write the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from tahoe.errors import ConstraintExistsError, InvalidArgumentError, InvalidKeyError, InvalidPropertyError
from tahoe.protocol.configuration.column_mapping import followed_path
from tahoe.protocol.types.json_text import dump_json
from tahoe.protocol.types.names import quoted, sql_path
from tahoe.protocol.types.schema import Struct, is_comparable

PREFIX = "tahoe.keys."
CHECK_PREFIX = "delta.constraints."

PRIMARY, UNIQUE, FOREIGN = "PRIMARY KEY", "UNIQUE", "FOREIGN KEY"
KINDS = (PRIMARY, UNIQUE, FOREIGN)

# The first part of the name of a table that is given by its location, as in delta.`/path`.
BY_LOCATION = "delta"

Configuration: TypeAlias = Mapping[str, str]
Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A declared key.

    Attributes:
        columns: top-level columns, by logical names.
        rely: whether the user promises that the rows satisfy it.
        references: of a foreign key, the parts of the other table's name: of the catalog, or `delta` and a location.
        referenced_columns: columns of that table; none for its primary key.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    rely: bool = False
    references: tuple[str, ...] = ()
    referenced_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.kind} ({', '.join(map(quoted, self.columns))})"
        if self.kind == FOREIGN:
            text += f" REFERENCES {sql_path(self.references)}"
            if self.referenced_columns:
                text += f" ({', '.join(map(quoted, self.referenced_columns))})"
        return text

    @property
    def ddl(self) -> str:
        """The constraint as CREATE TABLE takes it."""
        return f"CONSTRAINT {quoted(self.name)} {self} NOT ENFORCED {'RELY' if self.rely else 'NORELY'}"

    @property
    def location(self) -> str | None:
        """Where the referenced table is; None if it is named in a catalog, or the key is not foreign."""
        is_given = len(self.references) == 2 and self.references[0].lower() == BY_LOCATION
        return self.references[1] if is_given else None


class _Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A key as its property has it."""

    kind: str
    columns: tuple[str, ...]
    rely: bool = False
    references: tuple[str, ...] = ()
    referenced_columns: tuple[str, ...] = ()


def encode_key(key: Key) -> str:
    """The value of a key's property."""
    stored = _Stored(
        kind=key.kind,
        columns=key.columns,
        rely=key.rely,
        references=key.references,
        referenced_columns=key.referenced_columns,
    )
    return dump_json(msgspec.to_builtins(stored))


def parse_key(name: str, text: str) -> Key:
    """The inverse of `encode_key`. What a later version of tahoe adds is left out.

    Raises:
        ValueError: it is not such a text.
    """
    stored = msgspec.json.decode(text, type=_Stored)
    if stored.kind not in KINDS or not stored.columns or (stored.kind == FOREIGN) != bool(stored.references):
        raise ValueError(text)
    return Key(
        name=name,
        kind=stored.kind,
        columns=stored.columns,
        rely=stored.rely,
        references=stored.references,
        referenced_columns=stored.referenced_columns,
    )


def is_key(name: str) -> bool:
    """Whether a property declares a key."""
    return name.lower().startswith(PREFIX) and len(name) > len(PREFIX)


def keys_of(configuration: Configuration, *, table: str) -> tuple[Key, ...]:
    """The keys of a table: primary, unique and foreign ones, each by name.

    Raises:
        InvalidPropertyError: a property of a key is not what tahoe writes; UNSET TBLPROPERTIES removes it.
    """
    found = (_key_of(name, text, table) for name, text in configuration.items() if is_key(name))
    return tuple(sorted(found, key=lambda key: (KINDS.index(key.kind), key.name.lower(), key.name)))


def _key_of(name: str, text: str, table: str) -> Key:
    try:
        return parse_key(name[len(PREFIX) :], text)
    except ValueError as error:
        detail = 'it must be a key, such as {"kind":"PRIMARY KEY","columns":["id"]}'
        raise InvalidPropertyError(property=name, table=table, value=text, detail=detail) from error


def checked_key(key: Key, schema: Struct, *, table: str) -> Key:
    """A key with its columns as the schema spells them.

    Raises:
        InvalidKeyError: a column does not exist, is nested or named twice; or the key is not foreign and refers to a
            table, or is and does not.
    """
    fault = _fault(key, schema)
    if fault is not None:
        detail, remedy = fault
        raise InvalidKeyError(table=table, key=f"{key.name} {key}", detail=detail, remedy=remedy)
    spelled = (schema.find(name) for name in key.columns)
    return replace(key, columns=tuple(column.name for column in spelled if column is not None))


def _fault(key: Key, schema: Struct) -> tuple[str, str] | None:
    """Why a key cannot be declared, and what to do; None if it can."""
    if key.kind not in KINDS or (key.kind == FOREIGN) != bool(key.references):
        return (
            f"it is of kind {key.kind!r}",
            f"Use {PRIMARY} or {UNIQUE}, or {FOREIGN} with a table that it references.",
        )
    if not key.columns:
        return "it has no columns", "Name at least one column."
    for name in key.columns:
        fault = _column_fault(name, schema)
        if fault is not None:
            return fault
    for names in (key.columns, key.referenced_columns):
        if len({name.lower() for name in names}) < len(names):
            return "it names a column twice", "Name each column once."
    if key.referenced_columns and len(key.referenced_columns) != len(key.columns):
        columns, others = len(key.columns), len(key.referenced_columns)
        return f"it has {columns} columns and references {others}", "Reference one column for each column of the key."
    return None


def _column_fault(name: str, schema: Struct) -> tuple[str, str] | None:
    column = schema.find(name)
    if column is not None:
        if not is_comparable(column.type):
            return f"column {name} is of type {column.type}", "Use columns of simple types."
        return None
    if "." in name and schema.find(name.partition(".")[0]) is not None:
        return f"{name} is a field inside a column", "Use top-level columns."
    return f"there is no column {name} (the table has {', '.join(schema.names)})", "Check the spelling."


def with_key(configuration: Configuration, key: Key) -> dict[str, str]:
    """The properties with a key."""
    return {**configuration, PREFIX + key.name: encode_key(key)}


# --- changes of columns


def with_column_moved(configuration: Configuration, path: Path, to: Path | None, *, table: str) -> dict[str, str]:
    """The properties after a column was renamed, or dropped if `to` is None: with it go its keys. Only top-level
    columns have keys.
    """
    if len(path) > 1:
        return dict(configuration)
    name = None if to is None else to[0]
    return _moved(configuration, lambda column: name if column.lower() == path[0].lower() else column, table=table)


def followed_keys(configuration: Configuration, before: Struct, after: Struct, *, table: str) -> dict[str, str]:
    """The properties with the names that columns have under a new schema, without keys of columns that are gone."""

    def name_of(column: str) -> str | None:
        path = followed_path(before, after, (column,))
        return None if path is None else path[0]

    return _moved(configuration, name_of, table=table)


def _moved(configuration: Configuration, name_of: Callable[[str], str | None], *, table: str) -> dict[str, str]:
    """The properties with the columns of keys renamed, also those that a key of the table itself refers to; a key of
    which a column has no name goes."""
    changed = dict(configuration)
    properties = {name[len(PREFIX) :]: name for name in configuration if is_key(name)}
    for key in keys_of(configuration, table=table):
        others = key.referenced_columns if key.location == table else ()
        names = [name_of(column) for column in (*key.columns, *others)]
        known = tuple(name for name in names if name is not None)
        columns, referenced = known[: len(key.columns)], known[len(key.columns) :] or key.referenced_columns
        if len(known) < len(names):
            del changed[properties[key.name]]
        elif (columns, referenced) != (key.columns, key.referenced_columns):
            changed[properties[key.name]] = encode_key(replace(key, columns=columns, referenced_columns=referenced))
    return changed


def keys_for(configuration: Configuration, schema: Struct, before: Configuration, *, table: str) -> dict[str, str]:
    """The properties for a schema that replaces another one, or that of a new table. Keys that the table has already go
    if the schema does not have their columns; new ones are checked.

    Args:
        before: the properties that the table has.

    Raises:
        InvalidKeyError: a new key does not fit the schema, or is a second primary key.
        ConstraintExistsError: another constraint has its name.
    """
    changed = {name: text for name, text in configuration.items() if not is_key(name)}
    for key in keys_of(configuration, table=table):
        is_new = before.get(PREFIX + key.name) != configuration.get(PREFIX + key.name)
        if not is_new and _fault(key, schema) is not None:
            continue
        checked = checked_key(key, schema, table=table)
        check_new_key(checked, changed, table=table)
        changed = with_key(changed, checked)
    return changed


def check_new_key(key: Key, configuration: Configuration, *, table: str) -> None:
    """Refuse a name that another constraint of the table has, and a second primary key.

    Raises:
        ConstraintExistsError, InvalidKeyError
    """
    known = constraint_text(configuration, key.name)
    if known is not None:
        raise ConstraintExistsError(table=table, constraint=key.name, expression=known)
    others = keys_of(configuration, table=table) if key.kind == PRIMARY else ()
    primary = next((other for other in others if other.kind == PRIMARY), None)
    if primary is not None:
        detail, remedy = f"the table has the primary key {primary.name} already", "Drop that one first."
        raise InvalidKeyError(table=table, key=f"{key.name} {key}", detail=detail, remedy=remedy)


# --- constraints of any kind


def check_constraint_name(name: str, *, table: str) -> None:
    """
    Raises:
        InvalidArgumentError: the name is empty, so that no statement could use it.
    """
    if not name:
        remedy = "Give the constraint a name of at least one character."
        raise InvalidArgumentError(
            argument="name", table=table, found="empty", expected="the name of a constraint", remedy=remedy
        )


def constraint_names(configuration: Configuration) -> list[str]:
    """The names of the CHECK constraints and keys."""
    prefixes = (CHECK_PREFIX, PREFIX)
    return [key[len(prefix) :] for prefix in prefixes for key in configuration if key.lower().startswith(prefix)]


def constraint_property(configuration: Configuration, name: str) -> str | None:
    """The property of a key or a CHECK constraint, found case-insensitively by the name of the constraint."""
    wanted = {(prefix + name).lower() for prefix in (CHECK_PREFIX, PREFIX)}
    return next((key for key in configuration if key.lower() in wanted), None)


def constraint_text(configuration: Configuration, name: str) -> str | None:
    """The expression of a CHECK constraint, or a key as SQL, found case-insensitively; None if there is none of that
    name.
    """
    found = constraint_property(configuration, name)
    if found is None:
        return None
    text = configuration[found]
    try:
        return str(parse_key(name, text)) if is_key(found) else text
    except ValueError:
        return text
