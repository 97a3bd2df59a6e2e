"""Converts DELETE, UPDATE and MERGE from SQL and `mergeInto` to the records that `delete_update` and `merge` run.

Spark has resolved names, types, subqueries and parameters of the statement. Its expressions are used directly, not as text. They refer to
the target's columns by expression id, and the rows that a command reads get the same ids (`delta.Target`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.dml.delete_update import Delete, Update, delete, update
from tahoe.spark.dml.merge import merge
from tahoe.spark.dml.merge_command import Clause, Kind, Merge
from tahoe.spark.dml.row_changes import Target
from tahoe.spark.dml.set_clauses import Assignment
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.table_cache import open_table

COUNT = ("num_affected_rows",)
COUNTS_OF_MERGE = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")

_KINDS: Mapping[str, Kind] = {"UpdateAction": "update", "InsertAction": "insert", "DeleteAction": "delete"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A kind of DML statement.

    Attributes:
        word: its first word.
        target: the field of Spark's plan that contains the table.
        counts: the columns of its result.
        run: runs it and returns the counts.
    """

    word: str
    target: str
    counts: tuple[str, ...]
    run: Callable[[Gateway, JavaObject, Target], tuple[int, ...]]

    def target_of(self, gateway: Gateway, plan: JavaObject) -> JavaObject | None:
        """The `delta.Target` of a plan of this kind; None if the target is not a Delta table."""
        return gateway.java_class("delta.Target").of(getattr(plan, self.target)())


def instead_of(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The command to run instead of a resolved statement; None if its target is not a Delta table. Nothing runs yet.

    Raises:
        UnsupportedOperationError: the target is a view that does more than select and rename columns of a Delta table.
    """
    statement = STATEMENTS[name]
    if statement.target_of(gateway, plan) is None:
        table = getattr(plan, statement.target)()
        if gateway.java_class("delta.Target").isOfOurs(table):
            raise UnsupportedOperationError(
                operation=statement.word,
                table=str(table.alias()) if kind_of(table) == "SubqueryAlias" else str(table.nodeName()),
                detail="it is a view that does more than select and rename columns of the current version of a table",
                remedy="Use the table itself, and put the view's filter into the condition.",
            )
        return None
    return gateway.java_class("delta.Command").of(f"Delta {statement.word}", plan, gateway.list(statement.counts))


def run(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject:
    """Run a statement that `instead_of` has replaced. Returns a Scala `Seq` with one row, which has the counts.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, if a value is invalid or the table does not allow the statement.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    statement = STATEMENTS[name]
    seen = statement.target_of(gateway, plan)
    assert seen is not None, "a plan does not change"
    target = Target(spark=gateway.spark, table=open_table(gateway.spark, seen.url()), seen=seen)
    counts = statement.run(gateway, plan, target)
    return gateway.java_class("delta.Command").answer(gateway.list(counts))


def answered(spark: SparkSession, names: Sequence[str], counts: Sequence[int]) -> DataFrame:
    """The result of a `DeltaTable` method: a DataFrame with one row of counts."""
    gateway = Gateway(spark)
    return gateway.dataframe(gateway.java_class("delta.Command").answered(gateway.session, gateway.list(names), gateway.list(counts)))


# --- DELETE, UPDATE, MERGE


def _delete(gateway: Gateway, plan: JavaObject, target: Target) -> tuple[int, ...]:
    return (delete(Delete(target=target, condition=_condition(gateway, plan.condition()))),)


def _update(gateway: Gateway, plan: JavaObject, target: Target) -> tuple[int, ...]:
    condition = _optional(gateway, plan.condition())
    return (update(Update(target=target, assignments=_assigned(gateway, plan.assignments(), target), condition=condition)),)


def _merge(gateway: Gateway, plan: JavaObject, target: Target) -> tuple[int, ...]:
    def clauses(actions: JavaObject) -> tuple[Clause, ...]:
        return tuple(_clause(gateway, action, target) for action in gateway.items(actions.iterator()))

    merged = merge(
        Merge(
            target=target,
            source=gateway.dataframe_of_plan(plan.sourceTable()),
            condition=_column(gateway, plan.mergeCondition(), is_of_several=True),
            matched=clauses(plan.matchedActions()),
            not_matched=clauses(plan.notMatchedActions()),
            not_matched_by_source=clauses(plan.notMatchedBySourceActions()),
            evolves=plan.withSchemaEvolution(),
        )
    )
    return (merged.affected, merged.updated, merged.deleted, merged.inserted)


def _clause(gateway: Gateway, action: JavaObject, target: Target) -> Clause:
    kind = _KINDS[kind_of(action)]
    condition = _optional(gateway, action.condition(), is_of_several=True)
    if kind == "delete":
        return Clause(kind=kind, condition=condition)
    assignments = action.assignments()
    return Clause(
        kind=kind, condition=condition, assignments=None if _is_star(assignments, target) else _assigned(gateway, assignments, target)
    )


STATEMENTS: Mapping[str, Statement] = {
    "DeleteFromTable": Statement("DELETE", "table", COUNT, _delete),
    "UpdateTable": Statement("UPDATE", "table", COUNT, _update),
    "MergeIntoTable": Statement("MERGE", "targetTable", COUNTS_OF_MERGE, _merge),
}
"""The DML statements, by the simple class names of Spark's plans."""


# --- expressions


def _column(gateway: Gateway, expression: JavaObject, *, is_of_several: bool) -> Column:
    return gateway.column_of(gateway.java_class("delta.Target").column(expression, is_of_several))


def _condition(gateway: Gateway, expression: JavaObject, *, is_of_several: bool = False) -> Column | None:
    """A condition as a Column; None for the literal true, as in a statement without WHERE."""
    return None if str(expression) == "true" else _column(gateway, expression, is_of_several=is_of_several)


def _optional(gateway: Gateway, found: JavaObject, *, is_of_several: bool = False) -> Column | None:
    return _condition(gateway, found.get(), is_of_several=is_of_several) if found.isDefined() else None


def _paths(assignments: JavaObject, target: Target) -> list[str | None]:
    assert target.seen is not None
    return list(target.seen.paths(assignments))


def _is_star(assignments: JavaObject, target: Target) -> bool:
    return _paths(assignments, target) == [None]


def _assigned(gateway: Gateway, assignments: JavaObject, target: Target) -> tuple[Assignment, ...]:
    """The assignments, with the paths of the table's columns.

    Raises:
        UnsupportedOperationError: a value is assigned to a part of a column that has no path, such as an array element.
    """
    paths = [tuple(path.split("\0")) for path in _paths(assignments, target) if path is not None]
    values = gateway.java_class("delta.Target").values(assignments)
    for first, *rest in paths:
        if not first:
            raise UnsupportedOperationError(
                operation=f"Assigning to {rest[0]}",
                table=target.table.url,
                detail="only columns and fields of structs can be assigned",
                remedy="Assign the whole column, and change its elements with transform() or map functions.",
            )
    return tuple(
        Assignment(column=".".join(path), path=path, value=gateway.column_of(value)) for path, value in zip(paths, values, strict=True)
    )
