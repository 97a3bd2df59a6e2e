"""Refuses Spark's own commands that a transaction over tables of a catalog cannot undo, before they run.

Harmless is what ends with the session (temporary views, functions and variables, settings) and what keeps no data of
its own (caches, added files and JARs).
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.spark.ddl.table_names import check_outside_of_block
from tahoe.spark.jvm.attached_catalogs import block_of
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.catalog_entries import catalog_in, is_of_our_catalog, subject_of

# By the simple class names of Spark's plans, and what an error calls them.
_NOT_UNDONE: Mapping[str, str] = {
    "AlterMetricViewCommand": "ALTER VIEW",
    "AlterTableRenameCommand": "ALTER TABLE ... RENAME",
    "AlterViewAsCommand": "ALTER VIEW",
    "AlterViewSchemaBindingCommand": "ALTER VIEW",
    "AnalyzeColumnCommand": "ANALYZE TABLE",
    "AnalyzeTableCommand": "ANALYZE TABLE",
    "AnalyzeTablesCommand": "ANALYZE TABLES",
    "Call": "CALL",
    "CommentOnNamespace": "COMMENT ON SCHEMA",
    "CommentOnTable": "COMMENT ON TABLE",
    "CreateFunctionCommand": "CREATE FUNCTION",
    "CreateMetricViewCommand": "CREATE VIEW",
    "CreateNamespace": "CREATE SCHEMA",
    "CreateSQLFunctionCommand": "CREATE FUNCTION",
    "CreateTableLikeCommand": "CREATE TABLE LIKE",
    "CreateTempViewUsing": "CREATE VIEW",
    "CreateViewCommand": "CREATE VIEW",
    "DropDatabaseCommand": "DROP SCHEMA",
    "DropFunctionCommand": "DROP FUNCTION",
    "DropNamespace": "DROP SCHEMA",
    "DropTable": "DROP TABLE",
    "DropTableCommand": "DROP TABLE or VIEW",
    "DropTempViewCommand": "DROP VIEW",
    "InsertIntoDataSourceCommand": "Writing",
    "InsertIntoHiveTable": "Writing",
    "SaveIntoDataSourceCommand": "Writing",
    "SetNamespaceCollationCommand": "ALTER SCHEMA",
    "SetNamespaceLocation": "ALTER SCHEMA",
    "SetNamespaceProperties": "ALTER SCHEMA",
    "UnsetNamespacePropertiesCommand": "ALTER SCHEMA",
}

# Plans on tables of any catalog. Ours decide for themselves: they are refused if a catalog of another class has it.
_OF_OTHER_CATALOGS: Mapping[str, str] = {
    "AddCheckConstraint": "ALTER TABLE",
    "AddColumns": "ALTER TABLE",
    "AlterColumns": "ALTER TABLE",
    "AlterTableClusterBy": "ALTER TABLE",
    "AlterTableCollation": "ALTER TABLE",
    "AlterViewAs": "ALTER VIEW",
    "CreateFunction": "CREATE FUNCTION",
    "CreateIndex": "CREATE INDEX",
    "CreateTable": "CREATE TABLE",
    "CreateTableAsSelect": "CREATE TABLE",
    "CreateTableLike": "CREATE TABLE LIKE",
    "CreateView": "CREATE VIEW",
    "DeleteFromTable": "DELETE",
    "DeleteFromTableWithFilters": "DELETE",
    "DropColumns": "ALTER TABLE",
    "DropConstraint": "ALTER TABLE",
    "DropFunction": "DROP FUNCTION",
    "DropIndex": "DROP INDEX",
    "DropView": "DROP VIEW",
    "MergeIntoTable": "MERGE",
    "RenameColumn": "ALTER TABLE",
    "RenameTable": "ALTER TABLE ... RENAME",
    "ReplaceColumns": "ALTER TABLE",
    "ReplaceData": "A change of rows",
    "ReplaceTable": "REPLACE TABLE",
    "ReplaceTableAsSelect": "REPLACE TABLE",
    "SetTableLocation": "ALTER TABLE",
    "SetTableProperties": "ALTER TABLE",
    "SetViewProperties": "ALTER VIEW",
    "TruncatePartition": "TRUNCATE TABLE",
    "TruncateTable": "TRUNCATE TABLE",
    "UnsetTableProperties": "ALTER TABLE",
    "UnsetViewProperties": "ALTER VIEW",
    "UpdateTable": "UPDATE",
    "WriteDelta": "A change of rows",
}

# The table of a source that throws rows away.
_NOOP = "noop-table"


def check_can_be_undone(gateway: Gateway, name: str, plan: JavaObject, operation: str | None) -> None:
    """Refuse a command in a transaction that does not undo it.

    Args:
        name: the simple name of its class.
        operation: what an error calls it, if it is known to change something outside; None for the lists of this
            module.

    Raises:
        OperationNotAllowedError: the session is in a transaction.
    """
    if block_of(gateway) is None:
        return
    if operation is None and name in _NOT_UNDONE and not _is_of_session(gateway, name, plan):
        operation = _NOT_UNDONE[name]
    if operation is None and name in _OF_OTHER_CATALOGS and not is_of_our_catalog(catalog_in(gateway, plan)):
        operation = _OF_OTHER_CATALOGS[name]
    if operation is not None:
        check_outside_of_block(gateway, operation, subject_of(gateway, plan) or "its target")


def check_write(gateway: Gateway, plan: JavaObject) -> None:
    """Refuse a plan that writes rows elsewhere than into a Delta table, in a transaction that does not undo it.

    Raises:
        OperationNotAllowedError: the session is in one.
    """
    if block_of(gateway) is not None and str(plan.table().name()) != _NOOP:
        check_outside_of_block(gateway, "Writing", str(plan.table().name()))


def _is_of_session(gateway: Gateway, name: str, plan: JavaObject) -> bool:
    """Whether a command is about a temporary view or function, which ends with its session."""
    match name:
        case "CreateViewCommand":
            return str(plan.viewType()) == "LocalTempView"
        case "CreateTempViewUsing":
            return not getattr(plan, "global")()
        case "DropTempViewCommand":
            shared = str(gateway.session.sessionState().catalog().globalTempDatabase())
            return shared.lower() not in [str(part).lower() for part in plan.ident().namespace()]
        case "AlterViewAsCommand":
            return bool(plan.name().database().isEmpty())
        case "AlterTableRenameCommand":
            return bool(plan.oldName().database().isEmpty())
        case "CreateFunctionCommand" | "CreateSQLFunctionCommand" | "DropFunctionCommand":
            return bool(plan.isTemp())
    return False
