"""`Table.merge`: the clauses of a MERGE, one call each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tahoe.table.arguments import SET, TEXT, takes
from tahoe.table.calls import of_objects
from tahoe.table.other_names import MERGE_BUILDER
from tahoe.table.writing.merge import Clause, MergeRequest
from tahoe.table.writing.row_changes import ChangedRows


@of_objects('table.merge(rows, on="id")', names=MERGE_BUILDER)
class MergeBuilder:
    """A MERGE in preparation, made by `Table.merge`; `execute` runs it.

        table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

    Of each group, the first clause whose condition is true applies to a row. Conditions and values are SQL, in which
    `target` and `source` qualify columns; a value that is not a text is taken as it is.
    """

    def __init__(self, request: MergeRequest, run: Callable[[MergeRequest], ChangedRows]) -> None:
        self._request, self._run = request, run

    @property
    def url(self) -> str:
        """The table's location."""
        return self._request.table

    def __repr__(self) -> str:
        return f"MergeBuilder({', '.join([repr(self.url), f'on {self._request.condition}', *self._request.outline])})"

    @takes(set=SET, condition=TEXT)
    def when_matched_update(self, set: Mapping[str, Any], condition: str | None = None) -> MergeBuilder:
        """Update rows that match a row of the source: `{"price": "source.price", "checked": True}`."""
        return self._with("matched", Clause(kind="update", condition=condition, set=set))

    @takes(condition=TEXT)
    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Update all columns that the source has, by their names."""
        return self._with("matched", Clause(kind="update", condition=condition))

    @takes(condition=TEXT)
    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows that match a row of the source."""
        return self._with("matched", Clause(kind="delete", condition=condition))

    @takes(values=SET, condition=TEXT)
    def when_not_matched_insert(self, values: Mapping[str, Any], condition: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row: the values by column. Conditions and values may name the source
        alone.
        """
        return self._with("not_matched", Clause(kind="insert", condition=condition, set=values))

    @takes(condition=TEXT)
    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row, with all columns by their names."""
        return self._with("not_matched", Clause(kind="insert", condition=condition))

    @takes(set=SET, condition=TEXT)
    def when_not_matched_by_source_update(self, set: Mapping[str, Any], condition: str | None = None) -> MergeBuilder:
        """Update rows that match no row of the source. Conditions and values may name the target alone."""
        return self._with("not_matched_by_source", Clause(kind="update", condition=condition, set=set))

    @takes(condition=TEXT)
    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows that match no row of the source."""
        return self._with("not_matched_by_source", Clause(kind="delete", condition=condition))

    def execute(self) -> ChangedRows:
        """Run the MERGE in one version, or as a part of the transaction that it was begun in.

        Raises:
            InvalidMergeError, InvalidPredicateError, ColumnNotFoundError: before any work, if the clauses do not fit.
            MultipleSourceRowsError: several rows of the source would change one row of the table.
            DeltaConcurrentModificationException: other writers' commits conflict, again and again.
        """
        return self._run(self._request)

    def _with(self, group: str, clause: Clause) -> MergeBuilder:
        clauses: Any = {group: (*getattr(self._request, group), clause)}
        return MergeBuilder(replace(self._request, **clauses), self._run)
