"""`DeltaMergeBuilder`, and what the commands on rows are given: the reference's arguments and checks, as records of ours."""

# ruff: noqa: N802  the reference's names

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import DeltaError
from tahoe.spark.dml.merge import merge
from tahoe.spark.dml.merge_command import Clause, Kind, Merge
from tahoe.spark.dml.resolved_plans import COUNTS_OF_MERGE, answered
from tahoe.spark.dml.row_changes import Target
from tahoe.spark.dml.set_clauses import Assignment, assignment
from tahoe.spark.jvm.cancellation import cancellable
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import dataset, java_column

T = TypeVar("T")


class DeltaMergeBuilder:
    """A MERGE in the making. `DeltaTable.merge` begins one; each method gives a new one with one more clause, and `execute` runs it.

    Of each group of clauses (matched, not matched, not matched by source) the first whose condition holds is taken, and only the last
    may have none.
    """

    def __init__(self, command: Merge) -> None:
        self._command = command

    def whenMatchedUpdate(
        self,
        condition: str | Column | None = None,
        set: dict[str, str | Column] | None = None,
    ) -> DeltaMergeBuilder:
        """Give a row of the target that a row of the source matches other values, made of both.

        Args:
            set: values by the names of the target's columns; texts are SQL.
        """
        return self._matched(self._clause("update", condition, self._values(set, "'set' in whenMatchedUpdate")))

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Give it those of the source's columns of the same names."""
        return self._matched(self._clause("update", condition))

    def whenMatchedDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete it."""
        return self._matched(self._clause("delete", condition))

    def whenNotMatchedInsert(
        self, condition: str | Column | None = None, values: dict[str, str | Column] | None = None
    ) -> DeltaMergeBuilder:
        """Add a row for one of the source that no row of the target matches.

        Args:
            values: by the names of the target's columns, made of the source's; columns that are not named get their default, or null.
        """
        return self._not_matched(self._clause("insert", condition, self._values(values, "'values' in whenNotMatchedInsert")))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Add a row with the source's columns of the same names."""
        return self._not_matched(self._clause("insert", condition))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: str | Column | None = None,
        set: dict[str, str | Column] | None = None,
    ) -> DeltaMergeBuilder:
        """Give a row of the target that no row of the source matches other values, made of its own."""
        return self._left_alone(self._clause("update", condition, self._values(set, "'set' in whenNotMatchedBySourceUpdate")))

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete it."""
        return self._left_alone(self._clause("delete", condition))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let the table take in columns of the source that clauses assign."""
        return DeltaMergeBuilder(replace(self._command, evolves=True))

    def execute(self) -> DataFrame:
        """Run it.

        Returns:
            one row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`, `num_inserted_rows`.

        Raises:
            AnalysisException: before any work, where a condition, a value or the table does not allow it.
            MultipleSourceRowsError: several rows of the source would change one row of the target.
            DeltaConcurrentModificationException: another writer was first, and it matters.
        """
        found = run_for_user(self._command.target.spark, lambda: merge(self._command))
        counts = (found.affected, found.updated, found.deleted, found.inserted)
        return answered(self._command.target.spark, COUNTS_OF_MERGE, counts)

    def _matched(self, clause: Clause) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(replace(self._command, matched=(*self._command.matched, clause)))

    def _not_matched(self, clause: Clause) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(replace(self._command, not_matched=(*self._command.not_matched, clause)))

    def _left_alone(self, clause: Clause) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(replace(self._command, not_matched_by_source=(*self._command.not_matched_by_source, clause)))

    def _clause(self, kind: Kind, condition: Any, assignments: tuple[Assignment, ...] | None = None) -> Clause:
        return Clause(kind=kind, condition=self._condition(condition), assignments=assignments)

    def _values(self, given: Any, name: str) -> tuple[Assignment, ...]:
        return assignments_of(self._command.target, given, name, self._command.source)

    def _condition(self, given: Any) -> Column | None:
        return None if given is None else own_columns(self._command.target, condition_of(given), self._command.source)


def run_for_user(spark: SparkSession, command: Callable[[], T]) -> T:
    """What a command gives that may be cancelled; its errors as users of Spark expect them."""
    return raising_for_user(cancellable(Gateway(spark))(command))


def raising_for_user(command: Callable[[], T]) -> T:
    """What a call gives; its errors as users of Spark expect them."""
    try:
        return command()
    except DeltaError as error:
        raise for_user(error) from error.__cause__


def condition_of(given: Any) -> Column:
    """A condition that is a Column or SQL.

    Raises:
        TypeError: it is neither.
    """
    if type(given) is str:
        return F.expr(given)
    if not isinstance(given, Column):
        raise TypeError(f"'condition' must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(given)}")
    return given


def own_columns(target: Target, column: Column, source: DataFrame | None = None) -> Column:
    """A condition or a value of a user's, in which columns of the table's DataFrames go by their names.

    Args:
        source: of a MERGE. A column that it has as well, because it was made from the table, stays what it is.
    """
    if not target.frames:
        return column
    gateway = Gateway(target.spark)
    named = gateway.java_class("delta.Columns").byName(
        java_column(column),
        gateway.list(dataset(frame) for frame in target.frames),
        None if source is None else dataset(source),
        gateway.list([] if target.alias is None else [target.alias]),
    )
    return gateway.column_of(named)


def assignments_of(target: Target, given: Any, name: str, source: DataFrame | None = None) -> tuple[Assignment, ...]:
    """A dictionary of values by columns.

    Args:
        name: what the dictionary is called in errors.
        source: of a MERGE.

    Raises:
        ValueError: None.
        TypeError: anything else, or a key or a value that can be none.
    """
    if given is None:
        raise ValueError(f"{name} cannot be None")
    if type(given) is not dict:
        raise TypeError(f"{name} must be a dict, found to be {type(given)}")
    for column, value in given.items():
        if type(column) is not str:
            raise TypeError(f"Keys of dict in {name} must contain only strings with column names, found '{column}' of type '{type(column)}")
        if type(value) is not str and not isinstance(value, Column):
            wanted = "Spark SQL Columns or strings (expressions in SQL syntax) as values"
            raise TypeError(f"Values of dict in {name} must contain only {wanted}, found '{value}' of type '{type(value)}'")
    gateway = Gateway(target.spark)
    values = {column: F.expr(value) if type(value) is str else own_columns(target, value, source) for column, value in given.items()}
    return tuple(assignment(gateway, column, value) for column, value in values.items())
