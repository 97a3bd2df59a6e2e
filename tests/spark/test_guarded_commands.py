"""Which of Spark's commands the guard refuses: by records of what a command is about, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.ddl.guard import check_command
from tahoe.spark.jvm.statements.guarded_commands import GuardedCommand

FOLDER = "file:/tables/t"


def check(command: GuardedCommand) -> None:
    """On a storage with one Delta table."""
    check_command(
        command,
        is_table=lambda location: location == FOLDER,
        table_around=lambda folder: FOLDER if f"{folder}/".startswith(f"{FOLDER}/") else None,
    )


def refused(command: GuardedCommand) -> UnsupportedOperationError:
    with pytest.raises(UnsupportedOperationError) as raised:
        check(command)
    return raised.value


ON_TABLES = {
    "LoadDataCommand": "LOAD DATA",
    "RepairTableCommand": "MSCK REPAIR TABLE",
    "AlterTableAddPartitionCommand": "ADD PARTITION",
    "AlterTableDropPartitionCommand": "DROP PARTITION",
    "AlterTableRenamePartitionCommand": "RENAME PARTITION",
    "AlterTableAddColumnsCommand": "ADD COLUMNS",
    "AlterTableChangeColumnCommand": "CHANGE COLUMN",
    "AlterTableReplaceColumnsCommand": "REPLACE COLUMNS",
    "AlterTableSetPropertiesCommand": "SET TBLPROPERTIES",
    "AlterTableUnsetPropertiesCommand": "UNSET TBLPROPERTIES",
    "TruncateTableCommand": "TRUNCATE TABLE",
    "AlterTableSerDePropertiesCommand": "SET SERDE",
    "AnalyzePartitionCommand": "ANALYZE TABLE",
    "LoadData": "LOAD DATA",
    "RepairTable": "MSCK REPAIR TABLE",
    "RecoverPartitions": "RECOVER PARTITIONS",
    "AddPartitions": "ADD PARTITION",
    "DropPartitions": "DROP PARTITION",
    "RenamePartitions": "RENAME PARTITION",
    "SetTableSerDeProperties": "SET SERDE",
}


@pytest.mark.parametrize("kind", ON_TABLES)
def test_statements_that_pass_by_the_log_are_refused_on_delta_tables_alone(kind: str) -> None:
    error = refused(GuardedCommand(kind=kind, table="db.t", is_delta=True))
    assert (error.parameters["operation"], error.parameters["table"]) == (ON_TABLES[kind], "db.t")
    check(GuardedCommand(kind=kind, table="db.t", is_delta=False))
    check(GuardedCommand(kind=kind))


def test_only_an_overwrite_takes_a_tables_name_for_another_format() -> None:
    command = GuardedCommand(kind="SaveAsV1TableCommand", table="t", is_delta=True, mode="Overwrite")
    assert refused(command).parameters["operation"] == "saveAsTable with another format"
    for mode in ("Append", "ErrorIfExists", "Ignore"):
        check(replace(command, mode=mode))
    check(replace(command, is_delta=False))


INTO_FOLDERS = {
    "InsertIntoHadoopFsRelationCommand": "Writing files",
    "InsertIntoDataSourceDirCommand": "INSERT OVERWRITE DIRECTORY",
    "InsertIntoHiveDirCommand": "INSERT OVERWRITE DIRECTORY",
    "CreateDataSourceTableCommand": "Writing",
    "CreateDataSourceTableAsSelectCommand": "Writing",
    "CreateTableCommand": "Writing",
    "AlterTableSetLocationCommand": "Writing",
}


@pytest.mark.parametrize("kind", INTO_FOLDERS)
@pytest.mark.parametrize("folder", [FOLDER, f"{FOLDER}/p=0"])
def test_files_of_others_stay_out_of_a_tables_folder(kind: str, folder: str) -> None:
    error = refused(GuardedCommand(kind=kind, folder=folder))
    assert (error.parameters["operation"], error.parameters["table"]) == (f"{INTO_FOLDERS[kind]} to {folder}", FOLDER)
    check(GuardedCommand(kind=kind, folder=f"{FOLDER}_beside"))
    check(GuardedCommand(kind=kind))


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("CreateDataSourceTableCommand", None),
        ("CreateDataSourceTableAsSelectCommand", None),
        ("CreateTableCommand", None),
        ("DropTableCommand", "db.t"),
    ],
)
def test_a_delta_table_may_be_created_in_its_folder_and_dropped(kind: str, table: str | None) -> None:
    check(GuardedCommand(kind=kind, table=table, is_delta=True, folder=FOLDER))


def test_a_delta_table_moves_only_to_a_delta_table() -> None:
    command = GuardedCommand(kind="AlterTableSetLocationCommand", table="db.t", is_delta=True, folder=FOLDER)
    check(command)
    error = refused(replace(command, folder=f"{FOLDER}/p=0"))
    assert (error.parameters["operation"], error.parameters["table"]) == ("SET LOCATION", "db.t")
