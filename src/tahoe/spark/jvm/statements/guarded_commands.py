"""Reads those of Spark's own commands that could damage a Delta table into records: the table and the folder that a
command is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.catalog_entries import (
    defined_table,
    folder,
    is_delta,
    session_catalog,
    table_identifier_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCommand:
    """A command of Spark's.

    Attributes:
        kind: the simple name of its class.
        table: the name of the table that it is about; None if it is about no table that exists, or only about a folder.
        is_delta: whether the table is a Delta table, or is going to be one.
        folder: the folder that it writes files into, or that is to be the table's; None for a folder that the catalog
            chooses.
        mode: the mode of a `saveAsTable`.
    """

    kind: str
    table: str | None = None
    is_delta: bool = False
    folder: str | None = None
    mode: str | None = None


def guarded_command(gateway: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    """The record for a command.

    Args:
        kind: the simple name of its class.
    """
    return _READ.get(kind, _on_table)(gateway, kind, plan)


def _on_table(gateway: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    """A statement on a table: a V1 command names it, and a V2 plan has the table of its catalog."""
    identifier = table_identifier_in(gateway, plan)
    if identifier is not None:
        return _command_on_name(gateway, kind, identifier)
    table = defined_table(gateway, plan)
    return (
        GuardedCommand(kind=kind)
        if table is None
        else GuardedCommand(kind=kind, table=str(table.name()), is_delta=True)
    )


def _command_on_name(gateway: Gateway, kind: str, identifier: JavaObject, mode: str | None = None) -> GuardedCommand:
    catalog = session_catalog(gateway)
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return GuardedCommand(kind=kind, mode=mode)
    is_ours = is_delta(catalog.getTableMetadata(identifier))
    return GuardedCommand(kind=kind, table=str(identifier.unquotedString()), is_delta=is_ours, mode=mode)


def _saved_table(gateway: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    return _command_on_name(gateway, kind, plan.tableDesc().identifier(), str(plan.mode().name()))


def _files(_: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    return GuardedCommand(kind=kind, folder=str(plan.outputPath().toString()))


def _directory(gateway: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    return GuardedCommand(kind=kind, folder=_location(gateway, plan.storage()))


def _new_table(gateway: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    return GuardedCommand(kind=kind, is_delta=is_delta(plan.table()), folder=_location(gateway, plan.table().storage()))


def _new_location(gateway: Gateway, kind: str, plan: JavaObject) -> GuardedCommand:
    location, name = str(folder(gateway, plan.location()).toString()), plan.tableName()
    is_ours = is_delta(session_catalog(gateway).getTableMetadata(name))
    return GuardedCommand(kind=kind, table=str(name.unquotedString()), is_delta=is_ours, folder=location)


def _location(gateway: Gateway, storage: JavaObject) -> str | None:
    uri = storage.locationUri()
    return str(folder(gateway, uri.get()).toString()) if uri.isDefined() else None


_READ: Mapping[str, Callable[[Gateway, str, JavaObject], GuardedCommand]] = {
    "SaveAsV1TableCommand": _saved_table,
    "InsertIntoHadoopFsRelationCommand": _files,
    "InsertIntoDataSourceDirCommand": _directory,
    "InsertIntoHiveDirCommand": _directory,
    "CreateDataSourceTableCommand": _new_table,
    "CreateDataSourceTableAsSelectCommand": _new_table,
    "CreateTableCommand": _new_table,
    "AlterTableSetLocationCommand": _new_location,
}
