"""Converts DELETE, UPDATE and MERGE from SQL and `mergeInto` to the records that `delete_update` and `merge` run.

Spark has resolved names, types, subqueries and parameters of the statement. Its expressions are used directly, not as
text. They refer to the target's columns by expression id, and the rows that a command reads get the same ids
(`delta.Target`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.dml.delete_update import Delete, Update, delete, update
from tahoe.spark.dml.merge import merge
from tahoe.spark.dml.merge_command import Clause, Kind, Merge
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.dml.set_clauses import Assignment
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.dml_commands import (
    DeleteFromTable,
    DerivedTarget,
    DmlCommand,
    MergeAction,
    MergeIntoTable,
    ResolvedAssignment,
    TargetOf,
    UpdateTable,
    dml_command,
    target_of,
)
from tahoe.spark.jvm.table_cache import open_table

COUNT = ("num_affected_rows",)
COUNTS_OF_MERGE = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")

_KINDS: Mapping[str, Kind] = {"UpdateAction": "update", "InsertAction": "insert", "DeleteAction": "delete"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A kind of DML statement: its first word, and the columns of its result."""

    word: str
    counts: tuple[str, ...]


STATEMENTS: Mapping[str, Statement] = {
    "DeleteFromTable": Statement("DELETE", COUNT),
    "UpdateTable": Statement("UPDATE", COUNT),
    "MergeIntoTable": Statement("MERGE", COUNTS_OF_MERGE),
}
"""The DML statements, by the simple class names of Spark's plans."""


def instead_of(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The command to run instead of a resolved statement; None if its target is not a Delta table. Nothing runs yet.

    Raises:
        UnsupportedOperationError: as `changes_table`.
    """
    statement = STATEMENTS[name]
    if not changes_table(statement, target_of(gateway, name, plan)):
        return None
    return gateway.java_class("delta.Command").of(f"Delta {statement.word}", plan, gateway.list(statement.counts))


def changes_table(statement: Statement, target: TargetOf) -> bool:
    """Whether a statement changes a Delta table.

    Raises:
        UnsupportedOperationError: the target is a view that does more than select and rename columns of a Delta table.
    """
    if isinstance(target, DerivedTarget):
        raise UnsupportedOperationError(
            operation=statement.word,
            table=target.name,
            detail="it is a view that does more than select and rename columns of the current version of a table",
            remedy="Use the table itself, and put the view's filter into the condition.",
        )
    return target is not None


def run_row_change(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject:
    """Run a statement that `instead_of` has replaced. Returns a Scala `Seq` with one row, which has the counts.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, if a value is invalid or the table does not allow the
            statement.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    read = dml_command(gateway, name, plan)
    target = DmlTarget(spark=gateway.spark, table=open_table(gateway.spark, read.target.url), seen=read.target.seen)
    counts = _counts(command_of(read, target))
    return gateway.java_class("delta.Command").answer(gateway.list(counts))


def counts_frame(spark: SparkSession, names: Sequence[str], counts: Sequence[int]) -> DataFrame:
    """The result of a `DeltaTable` method: a DataFrame with one row of counts."""
    gateway = Gateway(spark)
    return gateway.dataframe(
        gateway.java_class("delta.Command").answered(gateway.session, gateway.list(names), gateway.list(counts))
    )


# --- DELETE, UPDATE, MERGE

Command: TypeAlias = Delete | Update | Merge


def _counts(command: Command) -> tuple[int, ...]:
    """Run a command. Returns the values of the columns of its result."""
    match command:
        case Delete():
            return (delete(command),)
        case Update():
            return (update(command),)
        case Merge():
            merged = merge(command)
            return (merged.affected, merged.updated, merged.deleted, merged.inserted)


def command_of(read: DmlCommand, target: DmlTarget) -> Command:
    """The command of a statement.

    Raises:
        UnsupportedOperationError: a value is assigned to a part of a column that has no path, such as an array element.
    """
    url = target.table.url
    match read:
        case DeleteFromTable():
            return Delete(target=target, condition=read.condition)
        case UpdateTable():
            return Update(target=target, assignments=_assignments(read.assignments, url), condition=read.condition)
        case MergeIntoTable():
            return Merge(
                target=target,
                source=read.source,
                condition=read.condition,
                matched=_clauses(read.matched, url),
                not_matched=_clauses(read.not_matched, url),
                not_matched_by_source=_clauses(read.not_matched_by_source, url),
                evolves=read.evolves,
            )


def _clauses(actions: Sequence[MergeAction], table: str) -> tuple[Clause, ...]:
    return tuple(_clause(action, table) for action in actions)


def _clause(action: MergeAction, table: str) -> Clause:
    kind = _KINDS[action.kind]
    by_name = kind == "delete" or action.is_star
    return Clause(
        kind=kind, condition=action.condition, assignments=None if by_name else _assignments(action.assignments, table)
    )


def _assignments(assignments: Sequence[ResolvedAssignment], table: str) -> tuple[Assignment, ...]:
    """The assignments of a resolved statement. An assignment without a path is to an element of an array or a map,
    which cannot be assigned.
    """
    for assignment in assignments:
        if not assignment.path:
            raise UnsupportedOperationError(
                operation=f"Assigning to {assignment.key}",
                table=table,
                detail="only columns and fields of structs can be assigned",
                remedy="Assign the whole column, and change its elements with transform() or map functions.",
            )
    return tuple(
        Assignment(column=".".join(assignment.path), path=assignment.path, value=assignment.value)
        for assignment in assignments
    )
