"""Converts the `TableChange`s of `ALTER TABLE`, which Spark passes to its catalogs, into records.

Names are as Spark has resolved them in the table. A type is a schema with one column, from `declared_column`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType

from tahoe.protocol.changes.column_changes import Path, Position
from tahoe.protocol.configuration.declared_keys import Key
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.catalog_entries import declared_column
from tahoe.spark.jvm.statements.constraints import key_of


@dataclass(frozen=True, slots=True)
class SetProperty:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveProperty:
    name: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """`declared` is a schema with only this column."""

    path: Path
    declared: StructType
    comment: str | None
    default: str | None
    position: Position | None


@dataclass(frozen=True, slots=True)
class DeleteColumn:
    path: Path
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    path: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """`declared` is a schema with one column of the new type."""

    path: Path
    declared: StructType


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    path: Path
    comment: str


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    path: Path
    position: Position | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefaultValue:
    """`default` is empty if the default is dropped."""

    path: Path
    default: str


@dataclass(frozen=True, slots=True)
class ClusterBy:
    columns: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """`condition` is that of CHECK, and `key` a key that is not enforced; both are None for other constraints. `ddl` is
    the SQL text.
    """

    name: str
    condition: str | None
    ddl: str
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class DropConstraint:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class OtherChange:
    """A change that Delta tables do not support."""

    kind: str


UpdateColumn: TypeAlias = (
    UpdateColumnType | UpdateColumnNullability | UpdateColumnComment | UpdateColumnPosition | UpdateColumnDefaultValue
)
TableChange: TypeAlias = (
    SetProperty
    | RemoveProperty
    | AddColumn
    | DeleteColumn
    | RenameColumn
    | UpdateColumn
    | ClusterBy
    | AddConstraint
    | DropConstraint
    | OtherChange
)


def table_change(gateway: Gateway, change: JavaObject) -> TableChange:
    """The record for one of Spark's `TableChange`s."""
    read = _READ.get(kind_of(change))
    return OtherChange(kind_of(change)) if read is None else read(gateway, change)


def _path(change: JavaObject) -> Path:
    return tuple(str(name) for name in change.fieldNames())


def _position(given: JavaObject | None) -> Position | None:
    if given is None:
        return None
    return Position(str(given.column())) if kind_of(given) == "After" else Position()


def _text(given: object) -> str | None:
    return None if given is None else str(given)


def _add_column(gateway: Gateway, change: JavaObject) -> AddColumn:
    path, default = _path(change), change.defaultValue()
    return AddColumn(
        path=path,
        declared=declared_column(gateway, path[-1], change.dataType(), nullable=bool(change.isNullable())),
        comment=_text(change.comment()),
        default=None if default is None else _text(default.getSql()),
        position=_position(change.position()),
    )


def _update_type(gateway: Gateway, change: JavaObject) -> UpdateColumnType:
    path = _path(change)
    return UpdateColumnType(path, declared_column(gateway, path[-1], change.newDataType(), nullable=True))


def declared_constraint(gateway: Gateway, constraint: JavaObject) -> AddConstraint:
    """The record for one of Spark's `Constraint`s, of ALTER TABLE or of CREATE TABLE."""
    condition = str(constraint.predicateSql()) if kind_of(constraint) == "Check" else None
    return AddConstraint(str(constraint.name()), condition, str(constraint.toDDL()), key_of(gateway, constraint))


_READ: Mapping[str, Callable[[Gateway, JavaObject], TableChange]] = {
    "SetProperty": lambda _, change: SetProperty(str(change.property()), str(change.value())),
    "RemoveProperty": lambda _, change: RemoveProperty(str(change.property())),
    "AddColumn": _add_column,
    "DeleteColumn": lambda _, change: DeleteColumn(_path(change), bool(change.ifExists())),
    "RenameColumn": lambda _, change: RenameColumn(_path(change), str(change.newName())),
    "UpdateColumnType": _update_type,
    "UpdateColumnNullability": lambda _, change: UpdateColumnNullability(_path(change), bool(change.nullable())),
    "UpdateColumnComment": lambda _, change: UpdateColumnComment(_path(change), str(change.newComment() or "")),
    "UpdateColumnPosition": lambda _, change: UpdateColumnPosition(_path(change), _position(change.position())),
    "UpdateColumnDefaultValue": lambda _, change: UpdateColumnDefaultValue(
        _path(change), str(change.newDefaultValue() or "")
    ),
    "ClusterBy": lambda _, change: ClusterBy(
        tuple(tuple(map(str, column.fieldNames())) for column in change.clusteringColumns())
    ),
    "AddConstraint": lambda gateway, change: declared_constraint(gateway, change.constraint()),
    "DropConstraint": lambda _, change: DropConstraint(str(change.name()), bool(change.ifExists())),
}
