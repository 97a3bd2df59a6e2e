"""What DELETE, UPDATE and MERGE become: by records of the statements that Spark has resolved, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.dml.delete_update import Delete, Update
from tahoe.spark.dml.merge_command import Clause, Merge
from tahoe.spark.dml.resolved_plans import STATEMENTS, changes_table, command_of
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.dml.set_clauses import Assignment
from tahoe.spark.jvm.statements.dml_commands import (
    DeleteFromTable,
    DeltaTarget,
    DerivedTarget,
    MergeAction,
    MergeIntoTable,
    ResolvedAssignment,
    UpdateTable,
)

SEEN = DeltaTarget("file:/t", seen=object())
TARGET = DmlTarget(spark=object(), table=SimpleNamespace(url=SEEN.url), seen=SEEN.seen)  # type: ignore[arg-type]  # only handed on

# Columns and DataFrames, which are only handed on.
CONDITION: Any = object()
OTHER: Any = object()
VALUE: Any = object()
SOURCE: Any = object()

GIVEN = (ResolvedAssignment(path=("a",), value=VALUE), ResolvedAssignment(path=("s", "x.y"), value=OTHER))
MEANT = (Assignment(column="a", path=("a",), value=VALUE), Assignment(column="s.x.y", path=("s", "x.y"), value=OTHER))
ELEMENT = ResolvedAssignment(path=(), key="items[0]", value=VALUE)


def merged(
    *matched: MergeAction, not_matched: tuple[MergeAction, ...] = (), by_source: tuple[MergeAction, ...] = ()
) -> Merge:
    read = MergeIntoTable(
        target=SEEN,
        source=SOURCE,
        condition=CONDITION,
        matched=matched,
        not_matched=not_matched,
        not_matched_by_source=by_source,
        evolves=True,
    )
    command = command_of(read, TARGET)
    assert isinstance(command, Merge)
    return command


def parts(clauses: tuple[Clause, ...]) -> list[tuple[object, ...]]:
    """Clauses by value: they themselves are equal only to themselves."""
    return [(clause.kind, clause.condition, clause.assignments) for clause in clauses]


@pytest.mark.parametrize("condition", [None, CONDITION], ids=["all rows", "some rows"])
def test_delete_and_update_have_the_statements_condition(condition: Any) -> None:
    assert command_of(DeleteFromTable(target=SEEN, condition=condition), TARGET) == Delete(
        target=TARGET, condition=condition
    )
    updated = command_of(UpdateTable(target=SEEN, assignments=GIVEN, condition=condition), TARGET)
    assert updated == Update(target=TARGET, assignments=MEANT, condition=condition)


def test_a_merge_keeps_its_groups_and_the_order_of_their_clauses() -> None:
    command = merged(
        MergeAction(kind="UpdateAction", condition=OTHER, assignments=GIVEN),
        MergeAction(kind="DeleteAction", condition=None),
        not_matched=(MergeAction(kind="InsertAction", condition=None, assignments=GIVEN[:1]),),
        by_source=(MergeAction(kind="DeleteAction", condition=OTHER),),
    )
    assert (command.target, command.source, command.condition, command.evolves) == (TARGET, SOURCE, CONDITION, True)
    assert parts(command.matched) == [("update", OTHER, MEANT), ("delete", None, None)]
    assert parts(command.not_matched) == [("insert", None, MEANT[:1])]
    assert parts(command.not_matched_by_source) == [("delete", OTHER, None)]


def test_a_star_takes_the_sources_columns_by_name() -> None:
    star = merged(
        MergeAction(kind="UpdateAction", condition=None, is_star=True),
        not_matched=(MergeAction(kind="InsertAction", condition=OTHER, is_star=True),),
    )
    assert (parts(star.matched), parts(star.not_matched)) == ([("update", None, None)], [("insert", OTHER, None)])


def test_what_is_not_a_column_or_a_field_cannot_be_assigned() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"items\[0\].*file:/t"):
        command_of(UpdateTable(target=SEEN, assignments=(*GIVEN, ELEMENT), condition=None), TARGET)
    with pytest.raises(UnsupportedOperationError, match=r"items\[0\]"):
        merged(MergeAction(kind="UpdateAction", condition=None, assignments=(ELEMENT,)))


@pytest.mark.parametrize("kind", STATEMENTS)
def test_only_a_table_itself_is_changed(kind: str) -> None:
    statement = STATEMENTS[kind]
    assert changes_table(statement, SEEN)
    assert not changes_table(statement, None)
    with pytest.raises(UnsupportedOperationError) as raised:
        changes_table(statement, DerivedTarget("a_view"))
    assert (raised.value.parameters["operation"], raised.value.parameters["table"]) == (statement.word, "a_view")
