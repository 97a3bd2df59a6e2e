"""`DeltaMergeBuilder`, and the conversion of the arguments of DML methods to records, with the reference's checks."""

# ruff: noqa: N802  the reference's names

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import DeltaError
from tahoe.spark.dml.merge import merge
from tahoe.spark.dml.merge_command import Clause, Kind, Merge
from tahoe.spark.dml.resolved_plans import COUNTS_OF_MERGE, answered
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.dml.set_clauses import Assignment, assignment
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import dataset, java_column
from tahoe.spark.layout.auto_compaction import writing_command
from tahoe.table.calls import of_objects

T = TypeVar("T")


@of_objects("table.merge(source, condition)")
class DeltaMergeBuilder:
    """A builder of a MERGE, from `DeltaTable.merge`. Each method returns a new builder with one more clause; `execute` runs the MERGE.

    In each group of clauses (matched, not matched, not matched by source), the first clause whose condition holds applies. Only the last
    clause of a group may omit its condition.
    """

    def __init__(self, command: Merge) -> None:
        self._command = command

    def __repr__(self) -> str:
        return f"DeltaMergeBuilder({', '.join([repr(self._command.target.table.url), *self._command.outline])})"

    def whenMatchedUpdate(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,
    ) -> DeltaMergeBuilder:
        """Update matched rows of the target. Values may use columns of both sides.

        Args:
            set: values by the names of the target's columns; strings are SQL.
        """
        return self._matched(self._clause("update", condition, self._values(set, "'set' in whenMatchedUpdate")))

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Update matched rows of the target with the source's columns of the same names."""
        return self._matched(self._clause("update", condition))

    def whenMatchedDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete matched rows of the target."""
        return self._matched(self._clause("delete", condition))

    def whenNotMatchedInsert(
        self, condition: str | Column | None = None, values: Mapping[str, str | Column] | None = None
    ) -> DeltaMergeBuilder:
        """Insert a row for each row of the source that no row of the target matches.

        Args:
            values: by the names of the target's columns, computed from the source's columns. Other columns get their default, or null.
        """
        return self._not_matched(self._clause("insert", condition, self._values(values, "'values' in whenNotMatchedInsert")))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Insert unmatched rows of the source, with the source's columns of the same names."""
        return self._not_matched(self._clause("insert", condition))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,
    ) -> DeltaMergeBuilder:
        """Update rows of the target that no row of the source matches. Values may use columns of the target."""
        return self._left_alone(self._clause("update", condition, self._values(set, "'set' in whenNotMatchedBySourceUpdate")))

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete rows of the target that no row of the source matches."""
        return self._left_alone(self._clause("delete", condition))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Evolve the schema: add columns of the source that clauses assign to the table."""
        return DeltaMergeBuilder(replace(self._command, evolves=True))

    def execute(self) -> DataFrame:
        """Run the MERGE.

        Returns:
            one row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`, `num_inserted_rows`.

        Raises:
            AnalysisException: before any work, if a condition or a value is invalid or the table does not allow the MERGE.
            MultipleSourceRowsError: several rows of the source would change one row of the target.
            DeltaConcurrentModificationException: a concurrent commit conflicts.
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
    """Run a command that may be cancelled. Raises errors as users of Spark expect them."""
    return raising_for_user(writing_command(Gateway(spark))(command))


def raising_for_user(command: Callable[[], T]) -> T:
    """Run a call. Raises errors as users of Spark expect them."""
    try:
        return command()
    except DeltaError as error:
        raise for_user(error) from error.__cause__


def condition_of(given: Any) -> Column:
    """Convert a condition, which is a Column or SQL, to a Column.

    Raises:
        TypeError: the condition is neither.
    """
    if type(given) is str:
        return F.expr(given)
    if not isinstance(given, Column):
        raise TypeError(f"'condition' must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(given)}")
    return given


def own_columns(target: DmlTarget, column: Column, source: DataFrame | None = None) -> Column:
    """Replace the columns of the table's DataFrames in a user's condition or value by names, so that they resolve in the command.

    Args:
        source: the source of a MERGE. A column that the source has too, because it was derived from the table, is not replaced.
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


def assignments_of(target: DmlTarget, given: Any, name: str, source: DataFrame | None = None) -> tuple[Assignment, ...]:
    """Convert a dictionary of values by column to assignments.

    Args:
        name: the dictionary's name in errors.
        source: the source of a MERGE.

    Raises:
        ValueError: the dictionary is None.
        TypeError: it is not a mapping, or a key or a value has the wrong type.
    """
    if given is None:
        raise ValueError(f"{name} cannot be None")
    if not isinstance(given, Mapping):
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
