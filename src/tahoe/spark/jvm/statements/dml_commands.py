"""Reads DELETE, UPDATE and MERGE into records, as Spark has resolved them: with names, types, subqueries and
parameters.

Expressions become Columns, which refer to the target's columns by expression id (`delta.Target`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import Column, DataFrame

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """The Delta table that a statement changes. `seen` is the `delta.Target` that the statement's expressions refer
    to.
    """

    url: str
    seen: JavaObject


@dataclass(frozen=True, slots=True)
class DerivedTarget:
    """A view or query over a Delta table that does more than select and rename its columns."""

    name: str


TargetOf: TypeAlias = DeltaTarget | DerivedTarget | None
"""What a statement changes; None if it is not made of a Delta table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAssignment:
    """Spark's `Assignment`.

    Attributes:
        path: the column or struct field, from the column's name on; empty if `key` is not one, such as an array
            element.
        key: the SQL text of what is assigned to; only if `path` is empty.
    """

    path: tuple[str, ...]
    value: Column
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFromTable:
    """`condition` is None if all rows are deleted; so it is in the other records."""

    target: DeltaTarget
    condition: Column | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTable:
    target: DeltaTarget
    assignments: tuple[ResolvedAssignment, ...]
    condition: Column | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeAction:
    """What one clause of a MERGE does.

    Attributes:
        kind: the simple class name: UpdateAction, InsertAction or DeleteAction.
        is_star: UPDATE SET * or INSERT *, which has no assignments.
    """

    kind: str
    condition: Column | None
    assignments: tuple[ResolvedAssignment, ...] = ()
    is_star: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeIntoTable:
    """`evolves`: WITH SCHEMA EVOLUTION."""

    target: DeltaTarget
    source: DataFrame
    condition: Column
    matched: tuple[MergeAction, ...]
    not_matched: tuple[MergeAction, ...]
    not_matched_by_source: tuple[MergeAction, ...]
    evolves: bool


DmlCommand: TypeAlias = DeleteFromTable | UpdateTable | MergeIntoTable


def target_of(gateway: Gateway, kind: str, plan: JavaObject) -> TargetOf:
    """What a statement changes.

    Args:
        kind: the simple name of the plan's class.
    """
    table = plan.targetTable() if kind == "MergeIntoTable" else plan.table()
    targets = gateway.java_class("delta.Target")
    seen = targets.of(table)
    if seen is not None:
        return DeltaTarget(str(seen.url()), seen)
    if not targets.isOfOurs(table):
        return None
    return DerivedTarget(str(table.alias()) if kind_of(table) == "SubqueryAlias" else str(table.nodeName()))


def dml_command(gateway: Gateway, kind: str, plan: JavaObject) -> DmlCommand:
    """The record for a statement whose target is a Delta table."""
    target = target_of(gateway, kind, plan)
    assert isinstance(target, DeltaTarget), "a plan does not change"
    return _READ[kind](gateway, plan, target)


def _delete(gateway: Gateway, plan: JavaObject, target: DeltaTarget) -> DeleteFromTable:
    return DeleteFromTable(target=target, condition=_condition(gateway, plan.condition()))


def _update(gateway: Gateway, plan: JavaObject, target: DeltaTarget) -> UpdateTable:
    assignments = plan.assignments()
    return UpdateTable(
        target=target,
        assignments=_assignments(gateway, assignments, _paths(gateway, assignments, target)),
        condition=_optional(gateway, plan.condition()),
    )


def _merge(gateway: Gateway, plan: JavaObject, target: DeltaTarget) -> MergeIntoTable:
    """The MERGE of a plan that Spark has resolved, with its clauses in their order."""

    def actions(given: JavaObject) -> tuple[MergeAction, ...]:
        return tuple(_action(gateway, action, target) for action in gateway.items(given.iterator()))

    return MergeIntoTable(
        target=target,
        source=gateway.dataframe_of_plan(plan.sourceTable()),
        condition=_column(gateway, plan.mergeCondition(), is_of_several=True),
        matched=actions(plan.matchedActions()),
        not_matched=actions(plan.notMatchedActions()),
        not_matched_by_source=actions(plan.notMatchedBySourceActions()),
        evolves=bool(plan.withSchemaEvolution()),
    )


def _action(gateway: Gateway, action: JavaObject, target: DeltaTarget) -> MergeAction:
    kind, condition = kind_of(action), _optional(gateway, action.condition(), is_of_several=True)
    if kind == "DeleteAction":
        return MergeAction(kind=kind, condition=condition)
    assignments = action.assignments()
    paths = _paths(gateway, assignments, target)
    if paths == [None]:
        return MergeAction(kind=kind, condition=condition, is_star=True)
    return MergeAction(kind=kind, condition=condition, assignments=_assignments(gateway, assignments, paths))


_READ: Mapping[str, Callable[[Gateway, JavaObject, DeltaTarget], DmlCommand]] = {
    "DeleteFromTable": _delete,
    "UpdateTable": _update,
    "MergeIntoTable": _merge,
}


# --- expressions


def _column(gateway: Gateway, expression: JavaObject, *, is_of_several: bool) -> Column:
    return gateway.column_of(gateway.java_class("delta.Target").column(expression, is_of_several))


def _condition(gateway: Gateway, expression: JavaObject, *, is_of_several: bool = False) -> Column | None:
    """A condition as a Column; None for the literal true, as in a statement without WHERE."""
    return None if str(expression) == "true" else _column(gateway, expression, is_of_several=is_of_several)


def _optional(gateway: Gateway, found: JavaObject, *, is_of_several: bool = False) -> Column | None:
    return _condition(gateway, found.get(), is_of_several=is_of_several) if found.isDefined() else None


def _paths(gateway: Gateway, assignments: JavaObject, target: DeltaTarget) -> list[str | None]:
    """The paths as `delta.Target` joins them; None for a star."""
    return list(gateway.items(target.seen.paths(assignments).iterator()))


def _assignments(gateway: Gateway, assignments: JavaObject, paths: list[str | None]) -> tuple[ResolvedAssignment, ...]:
    values = gateway.items(gateway.java_class("delta.Target").values(assignments).iterator())
    return tuple(
        _assignment(path.split("\0"), gateway.column_of(value))
        for path, value in zip(paths, values, strict=True)
        if path is not None
    )


def _assignment(names: list[str], value: Column) -> ResolvedAssignment:
    first, *rest = names
    return (
        ResolvedAssignment(path=tuple(names), value=value)
        if first
        else ResolvedAssignment(path=(), value=value, key=rest[0])
    )
