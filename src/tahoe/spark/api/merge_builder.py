"""`DeltaMergeBuilder`: a MERGE as a chain of calls."""

# ruff: noqa: N802  the reference's names

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame

from tahoe.spark.api.dml_arguments import assignments_of, condition_column, own_columns
from tahoe.spark.dml.merge import merge
from tahoe.spark.dml.merge_command import Clause, Kind, Merge
from tahoe.spark.dml.resolved_plans import COUNTS_OF_MERGE, counts_frame
from tahoe.spark.dml.set_clauses import Assignment
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.calls import of_objects


@of_objects("table.merge(source, condition)")
class DeltaMergeBuilder:
    """A builder of a MERGE, from `DeltaTable.merge`. Each method returns a new builder with one more clause; `execute`
    runs the MERGE.

    In each group of clauses (matched, not matched, not matched by source), the first clause whose condition holds
    applies. Only the last clause of a group may omit its condition.
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
        return self._with_matched(self._clause("update", condition, self._values(set, "'set' in whenMatchedUpdate")))

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Update matched rows of the target with the source's columns of the same names."""
        return self._with_matched(self._clause("update", condition))

    def whenMatchedDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete matched rows of the target."""
        return self._with_matched(self._clause("delete", condition))

    def whenNotMatchedInsert(
        self, condition: str | Column | None = None, values: Mapping[str, str | Column] | None = None
    ) -> DeltaMergeBuilder:
        """Insert a row for each row of the source that no row of the target matches.

        Args:
            values: by the names of the target's columns, computed from the source's columns. Other columns get their
                default, or null.
        """
        return self._with_not_matched(
            self._clause("insert", condition, self._values(values, "'values' in whenNotMatchedInsert"))
        )

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Insert unmatched rows of the source, with the source's columns of the same names."""
        return self._with_not_matched(self._clause("insert", condition))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,
    ) -> DeltaMergeBuilder:
        """Update rows of the target that no row of the source matches. Values may use columns of the target."""
        return self._with_not_matched_by_source(
            self._clause("update", condition, self._values(set, "'set' in whenNotMatchedBySourceUpdate"))
        )

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete rows of the target that no row of the source matches."""
        return self._with_not_matched_by_source(self._clause("delete", condition))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Evolve the schema: add columns of the source that clauses assign to the table."""
        return DeltaMergeBuilder(replace(self._command, evolves=True))

    def execute(self) -> DataFrame:
        """Run the MERGE.

        Returns:
            one row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`, `num_inserted_rows`.

        Raises:
            AnalysisException: before any work, if a condition or a value is invalid or the table does not allow the
                MERGE.
            MultipleSourceRowsError: several rows of the source would change one row of the target.
            DeltaConcurrentModificationException: a concurrent commit conflicts.
        """
        merge_counts = run_for_user(self._command.target.spark, lambda: merge(self._command))
        counts = (merge_counts.affected, merge_counts.updated, merge_counts.deleted, merge_counts.inserted)
        return counts_frame(self._command.target.spark, COUNTS_OF_MERGE, counts)

    def _with_matched(self, clause: Clause) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(replace(self._command, matched=(*self._command.matched, clause)))

    def _with_not_matched(self, clause: Clause) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(replace(self._command, not_matched=(*self._command.not_matched, clause)))

    def _with_not_matched_by_source(self, clause: Clause) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(
            replace(self._command, not_matched_by_source=(*self._command.not_matched_by_source, clause))
        )

    def _clause(self, kind: Kind, condition: Any, assignments: tuple[Assignment, ...] | None = None) -> Clause:
        return Clause(kind=kind, condition=self._condition(condition), assignments=assignments)

    def _values(self, given: Any, name: str) -> tuple[Assignment, ...]:
        return assignments_of(self._command.target, given, name, self._command.source)

    def _condition(self, given: Any) -> Column | None:
        return (
            None if given is None else own_columns(self._command.target, condition_column(given), self._command.source)
        )
