"""Refuses Spark's own statements that would damage a Delta table or only seem to change it, before they run.

To Spark, a table's folder is a folder of Parquet files, and the catalog's entry is the table. Statements that write files there, or that
change only the entry, bypass the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tahoe._version import VERSION
from tahoe.errors import StreamNotYetSupportedError, UnsupportedOperationError
from tahoe.spark.ddl.catalog import defined_table, is_delta
from tahoe.spark.jvm.catalog_entries import child, folder, session_catalog, table_identifier_in
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.table_cache import open_table

_LOG_FOLDER = "_delta_log"


@dataclass(frozen=True, slots=True)
class _Refusal:
    operation: str
    detail: str
    remedy: str


_ENTRY_ONLY = "Spark would change only the catalog's entry, not the table"
_FILES = "Spark would write its own files into the table's folder"

_LOAD = _Refusal("LOAD DATA", _FILES, "Read the files with spark.read and append them.")
_REPAIR = _Refusal("MSCK REPAIR TABLE", _ENTRY_ONLY, "The log lists all partitions, so no repair is needed.")
_ADD_PARTITION = _Refusal("ADD PARTITION", _ENTRY_ONLY, "Insert rows: their partition is added with them.")
_DROP_PARTITION = _Refusal("DROP PARTITION", _ENTRY_ONLY, "Delete the rows, or overwrite the partition with replaceWhere.")
_RENAME_PARTITION = _Refusal("RENAME PARTITION", _ENTRY_ONLY, "Change the partition columns of the rows with UPDATE.")
_SERDE = _Refusal("SET SERDE", _ENTRY_ONLY, "Leave it out: Delta tables have no SerDe.")

_STATEMENT = "Run the statement with spark.sql, on the table's name or on delta.`path`."

# Spark's legacy (V1) commands, which address a table by its name in the session catalog. Commands that are not listed do no harm: DROP
# TABLE, DESCRIBE, ... For most of the listed statements our catalogs make Spark plan other commands, so that only a program that builds
# these plans itself is refused here.
_ON_NAMES: Mapping[str, _Refusal] = {
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
    "AlterTableClusterByCommand": _Refusal("CLUSTER BY", _ENTRY_ONLY, _STATEMENT),
    "TruncateTableCommand": _Refusal("TRUNCATE TABLE", "Spark would delete the table's files and its log", _STATEMENT),
    "AlterTableSerDePropertiesCommand": _SERDE,
    "AnalyzePartitionCommand": _Refusal("ANALYZE TABLE", _ENTRY_ONLY, "Leave it out: the log contains statistics of each file."),
}

# Plans on the tables that our catalogs return. Spark would refuse most of them too, but its messages are about its own interfaces.
_ON_TABLES: Mapping[str, _Refusal] = {
    "LoadData": _LOAD,
    "RepairTable": _REPAIR,
    "AddPartitions": _ADD_PARTITION,
    "DropPartitions": _DROP_PARTITION,
    "RenamePartitions": _RENAME_PARTITION,
    "SetTableSerDeProperties": _SERDE,
}

_ANOTHER_FORMAT = _Refusal(
    "saveAsTable with another format", "Spark would delete the table's files and its log", 'Add format("delta"), or drop the table first.'
)

_TO_FOLDERS = 'Write with format("delta"), or write to another folder.'


def check(gateway: Gateway, name: str, plan: JavaObject) -> None:
    """Refuse a command that would damage a Delta table.

    Args:
        name: the simple name of the command's class.

    Raises:
        UnsupportedOperationError: with what to do instead.
    """
    refusal = _ON_NAMES.get(name)
    if refusal is not None:
        _check_named(gateway, refusal, plan)
        return
    refusal = _ON_TABLES.get(name)
    table = defined_table(gateway, plan) if refusal is not None else None
    if refusal is not None and table is not None:
        raise UnsupportedOperationError(operation=refusal.operation, table=table.name(), detail=refusal.detail, remedy=refusal.remedy)
    if name == "SaveAsV1TableCommand" and plan.mode().name() == "Overwrite":  # Spark drops the table before it looks at the folder
        _check_is_no_delta_table(gateway, _ANOTHER_FORMAT, plan.tableDesc().identifier())
    find = _FOLDERS.get(name)
    written = find(gateway, plan) if find is not None else None
    if written is not None:
        _check_folder(gateway, written, name)


def _check_named(gateway: Gateway, refusal: _Refusal, plan: JavaObject) -> None:
    identifier = table_identifier_in(gateway, plan)
    if identifier is not None:
        _check_is_no_delta_table(gateway, refusal, identifier)


def _check_is_no_delta_table(gateway: Gateway, refusal: _Refusal, identifier: JavaObject) -> None:
    catalog = session_catalog(gateway)
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return
    table = catalog.getTableMetadata(identifier)
    if is_delta(table):
        raise UnsupportedOperationError(
            operation=refusal.operation, table=identifier.unquotedString(), detail=refusal.detail, remedy=refusal.remedy
        )


# --- streams

_WITHOUT_STREAMS: Mapping[str, str] = {
    "read": "Read the new rows at intervals, with readChangeFeed and startingVersion or with table_changes.",
    "write": 'Use foreachBatch: write each batch with rows.write.format("delta").mode("append") and the options txnAppId (a name for the '
    "stream) and txnVersion (the number of the batch), so that no batch is written twice.",
}


def refuse_stream(operation: str, table: str | None) -> None:
    """Refuse to read or write a table as a stream.

    Args:
        table: its path or name, if there is one.

    Raises:
        StreamNotYetSupportedError: with what to do instead.
    """
    raise StreamNotYetSupportedError(
        tahoe_version=VERSION, operation=operation, table=table or "a Delta table", remedy=_WITHOUT_STREAMS[operation]
    )


# --- folders


def _output_path(_: Gateway, plan: JavaObject) -> JavaObject | None:
    return plan.outputPath()


def _directory(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    return _path_of(gateway, plan.storage().locationUri())


def _new_table(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The folder of a non-Delta table that a command creates; None for a managed table, whose folder Spark requires to be empty."""
    return None if is_delta(plan.table()) else _path_of(gateway, plan.table().storage().locationUri())


def _new_location(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The new location of a non-Delta table. The new location of a Delta table must have a Delta table."""
    location = folder(gateway, plan.location())
    name = plan.tableName()
    if not is_delta(session_catalog(gateway).getTableMetadata(name)):
        return location
    if not open_table(gateway.spark, location.toString()).exists():
        detail = f"there is no Delta table at {location}"
        remedy = "Give the location of a Delta table."
        raise UnsupportedOperationError(operation="SET LOCATION", table=name.unquotedString(), detail=detail, remedy=remedy)
    return None


def _path_of(gateway: Gateway, uri: JavaObject) -> JavaObject | None:
    return folder(gateway, uri.get()) if uri.isDefined() else None


_FOLDERS: Mapping[str, Callable[[Gateway, JavaObject], JavaObject | None]] = {
    "InsertIntoHadoopFsRelationCommand": _output_path,
    "InsertIntoDataSourceDirCommand": _directory,
    "InsertIntoHiveDirCommand": _directory,
    "CreateDataSourceTableCommand": _new_table,
    "CreateDataSourceTableAsSelectCommand": _new_table,
    "CreateTableCommand": _new_table,
    "AlterTableSetLocationCommand": _new_location,
}


def _check_folder(gateway: Gateway, written: JavaObject, name: str) -> None:
    """Refuse a folder that is, or is inside, the folder of a Delta table."""
    system = written.getFileSystem(gateway.session.sessionState().newHadoopConf())
    here = system.makeQualified(written)
    while here is not None:
        log = child(gateway, here, _LOG_FOLDER)
        if system.exists(log):
            detail = "the folder belongs to a Delta table, whose log would not contain the files that Spark writes"
            raise UnsupportedOperationError(
                operation=f"{_OPERATIONS.get(name, 'Writing')} to {written}", table=here.toString(), detail=detail, remedy=_TO_FOLDERS
            )
        here = here.getParent()


_OPERATIONS: Mapping[str, str] = {
    "InsertIntoHadoopFsRelationCommand": "Writing files",
    "InsertIntoDataSourceDirCommand": "INSERT OVERWRITE DIRECTORY",
    "InsertIntoHiveDirCommand": "INSERT OVERWRITE DIRECTORY",
}
