"""Refuses Spark's own statements that would damage a Delta table, only seem to change it, or read it wrongly, before
they run.

To Spark, a table's folder is a folder of Parquet files, and the catalog's entry is the table. Statements that write
files there, or that change only the entry, bypass the log, and a query of the files also reads rows that were deleted
or replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tahoe.errors import IncompatibleFormatError, UnsupportedOperationError
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.protocol.types.names import quoted
from tahoe.spark.configuration import setting_names
from tahoe.spark.ddl.transaction_guard import check_can_be_undone
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.catalog_entries import nearest_with
from tahoe.spark.jvm.statements.guarded_commands import GuardedCommand, guarded_command
from tahoe.spark.jvm.table_cache import open_table


@dataclass(frozen=True, slots=True)
class _Refusal:
    operation: str
    detail: str
    remedy: str

    def of(self, table: str | None) -> UnsupportedOperationError:
        return UnsupportedOperationError(operation=self.operation, table=table, detail=self.detail, remedy=self.remedy)


_ENTRY_ONLY = "Spark would change only the catalog's entry, not the table"
_FILES = "Spark would write its own files into the table's folder"

_LOAD = _Refusal("LOAD DATA", _FILES, "Read the files with spark.read and append them.")
_REPAIR = _Refusal("MSCK REPAIR TABLE", _ENTRY_ONLY, "The log lists all partitions, so no repair is needed.")
_ADD_PARTITION = _Refusal("ADD PARTITION", _ENTRY_ONLY, "Insert rows: their partition is added with them.")
_DROP_PARTITION = _Refusal(
    "DROP PARTITION", _ENTRY_ONLY, "Delete the rows, or overwrite the partition with replaceWhere."
)
_RENAME_PARTITION = _Refusal("RENAME PARTITION", _ENTRY_ONLY, "Change the partition columns of the rows with UPDATE.")
_RECOVER = _Refusal("RECOVER PARTITIONS", _ENTRY_ONLY, _REPAIR.remedy)
_SERDE = _Refusal("SET SERDE", _ENTRY_ONLY, "Leave it out: Delta tables have no SerDe.")

_STATEMENT = "Run the statement with spark.sql, on the table's name or on delta.`path`."

# By the simple class names of Spark's plans. Commands that are not listed do no harm: DROP TABLE, DESCRIBE, ...
_REFUSALS: Mapping[str, _Refusal] = {
    # Legacy (V1) commands, which address a table by its name in the session catalog. For most of these statements our
    # catalogs make Spark plan other commands, so that only a program that builds these plans itself is refused here.
    "LoadDataCommand": _LOAD,
    "RepairTableCommand": _REPAIR,
    "AlterTableAddPartitionCommand": _ADD_PARTITION,
    "AlterTableDropPartitionCommand": _DROP_PARTITION,
    "AlterTableRenamePartitionCommand": _RENAME_PARTITION,
    "AlterTableAddColumnsCommand": _Refusal("ADD COLUMNS", _ENTRY_ONLY, _STATEMENT),
    "AlterTableChangeColumnCommand": _Refusal("CHANGE COLUMN", _ENTRY_ONLY, _STATEMENT),
    "AlterTableReplaceColumnsCommand": _Refusal("REPLACE COLUMNS", _ENTRY_ONLY, _STATEMENT),
    "AlterTableSetPropertiesCommand": _Refusal("SET TBLPROPERTIES", _ENTRY_ONLY, _STATEMENT),
    "AlterTableUnsetPropertiesCommand": _Refusal("UNSET TBLPROPERTIES", _ENTRY_ONLY, _STATEMENT),
    "TruncateTableCommand": _Refusal("TRUNCATE TABLE", "Spark would delete the table's files and its log", _STATEMENT),
    "AlterTableSerDePropertiesCommand": _SERDE,
    "AnalyzePartitionCommand": _Refusal(
        "ANALYZE TABLE", _ENTRY_ONLY, "Leave it out: the log contains statistics of each file."
    ),
    "SaveAsV1TableCommand": _Refusal(
        "saveAsTable with another format",
        "Spark would delete the table's files and its log",
        'Add format("delta"), or drop the table first.',
    ),
    # Plans on the tables that our catalogs return. Spark would refuse most of them too, but its messages are about its
    # own interfaces.
    "LoadData": _LOAD,
    "RepairTable": _REPAIR,
    "RecoverPartitions": _RECOVER,
    "AddPartitions": _ADD_PARTITION,
    "DropPartitions": _DROP_PARTITION,
    "RenamePartitions": _RENAME_PARTITION,
    "SetTableSerDeProperties": _SERDE,
}

# What is done to a name, where a path is given.
_OF_NAMES: Mapping[str, _Refusal] = {
    "drop": _Refusal(
        "DROP TABLE",
        "it is a path, not a name, so there is no entry of a catalog to drop",
        "Delete the folder to delete the table with its history, or its rows with DELETE FROM.",
    ),
    "rename": _Refusal(
        "ALTER TABLE ... RENAME",
        "it is a path, not a name",
        "Move the folder, or give the table a name with CREATE TABLE name USING delta LOCATION 'path'.",
    ),
}

_SET_LOCATION = "AlterTableSetLocationCommand"

# CREATE TEMPORARY VIEW ... USING, which reads files.
_VIEW = "CreateTempViewUsing"

# Commands that write files into a folder, or make it the folder of a table, and what an error calls them.
_INTO_FOLDERS: Mapping[str, str] = {
    "InsertIntoHadoopFsRelationCommand": "Writing files",
    "InsertIntoDataSourceDirCommand": "INSERT OVERWRITE DIRECTORY",
    "InsertIntoHiveDirCommand": "INSERT OVERWRITE DIRECTORY",
    "CreateDataSourceTableCommand": "Writing",
    "CreateDataSourceTableAsSelectCommand": "Writing",
    "CreateTableCommand": "Writing",
    _SET_LOCATION: "Writing",
}

_TO_FOLDERS = 'Write with format("delta"), or write to another folder.'


def check_allowed(gateway: Gateway, name: str, plan: JavaObject) -> None:
    """Refuse a command that would damage a Delta table.

    Args:
        name: the simple name of the command's class.

    Raises:
        UnsupportedOperationError, IncompatibleFormatError: with what to do instead.
    """
    if name == _VIEW and str(plan.provider()).lower() == "parquet":
        path = gateway.dict(plan.options()).get("path")
        if path is not None and (table := nearest_with(gateway, path, LOG_FOLDER)) is not None:
            check_read(gateway.settings(), path, table)
    operation = _REFUSALS[name].operation if name in _REFUSALS else _INTO_FOLDERS.get(name)
    check_can_be_undone(gateway, name, plan, operation)
    if name in _REFUSALS or name in _INTO_FOLDERS:
        check_command(
            guarded_command(gateway, name, plan),
            is_table=lambda location: open_table(gateway.spark, location).exists(),
            table_around=lambda folder: nearest_with(gateway, folder, LOG_FOLDER),
        )


def refuse_path(kind: str, path: str) -> None:
    """Refuse a statement that changes a name, because it names the path of a table.

    Args:
        kind: drop or rename.

    Raises:
        UnsupportedOperationError: always.
    """
    raise _OF_NAMES[kind].of(f"delta.{quoted(path)}")


def check_read(settings: Mapping[str, str], path: str, table: str) -> None:
    """Refuse to read a table's folder as a folder of Parquet files, unless the session allows it.

    Args:
        path: as the reader names it: the folder, a partition, or a pattern of its files.

    Raises:
        IncompatibleFormatError: it is not allowed.
    """
    if setting_names.CHECK_FORMAT.of(settings, table=table):
        raise IncompatibleFormatError(path=path, table=table, setting=setting_names.CHECK_FORMAT.name)


def check_command(
    command: GuardedCommand, *, is_table: Callable[[str], bool], table_around: Callable[[str], str | None]
) -> None:
    """Refuse a command that would damage a Delta table, as `check_allowed`.

    Args:
        is_table: whether there is a Delta table at a location.
        table_around: the Delta table's folder that a folder is, or is inside; None if there is none.
    """
    refusal = _REFUSALS.get(command.kind)
    if refusal is not None:
        if command.is_delta and command.mode in (
            None,
            "Overwrite",
        ):  # Spark drops the table before it looks at the folder
            raise refusal.of(command.table)
    elif command.is_delta:
        _check_location(command, is_table)
    elif command.folder is not None:
        _check_folder(command.kind, command.folder, table_around(command.folder))


def _check_location(command: GuardedCommand, is_table: Callable[[str], bool]) -> None:
    """The new location of a Delta table must have a Delta table."""
    if command.kind == _SET_LOCATION and command.folder is not None and not is_table(command.folder):
        detail = f"there is not a Delta table at {command.folder}"
        remedy = "Give the location of a Delta table."
        raise UnsupportedOperationError(operation="SET LOCATION", table=command.table, detail=detail, remedy=remedy)


def _check_folder(kind: str, folder: str, table: str | None) -> None:
    """Refuse a folder that is, or is inside, the folder of a Delta table."""
    if table is not None:
        detail = "the folder belongs to a Delta table, whose log would not contain the files that Spark writes"
        raise UnsupportedOperationError(
            operation=f"{_INTO_FOLDERS[kind]} to {folder}", table=table, detail=detail, remedy=_TO_FOLDERS
        )
