"""UPDATE and MERGE in a transaction, without Spark.

Rows are found file by file, so that only the rows of one file, and the source of a MERGE, are in memory. Protocol:
"Change Data Files".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tahoe.errors import InvalidPredicateError
from tahoe.protocol.changes.column_values import check_assigned
from tahoe.protocol.configuration.properties import ENABLE_CHANGE_DATA_FEED
from tahoe.protocol.log.actions import Cdc
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.predicate import has_unknown
from tahoe.table.arguments import FILTER, FLAG, KEYS, ROWS, SET, TEXT, takes
from tahoe.table.arrow.given_rows import Data
from tahoe.table.reading.filters import Filter
from tahoe.table.transactions.row_edits import RowEdits
from tahoe.table.writing.arrow_values import NewRows, given_by_update
from tahoe.table.writing.arrow_writer import delete_files
from tahoe.table.writing.assignments import Scope, parse_assignments, with_assigned
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.merge import MergeRequest, Merging
from tahoe.table.writing.merge_builder import MergeBuilder
from tahoe.table.writing.row_changes import ChangedRows, RowChanges
from tahoe.table.writing.write_plan import with_minted


class RowUpdates(RowEdits):
    """A transaction that can update and merge rows."""

    @takes(set=SET, where=FILTER)
    def update(self, set: Mapping[str, Any], where: Filter | None = None) -> int:
        """Change the rows for which a condition is true; all rows if None.

        Rows that the transaction appends, or has updated before, are not among them.

        Args:
            set: new values by column, or by `column.field`. A text is SQL over the row's old values; other Python
                values are taken as they are.

        Returns:
            the number of updated rows, including rows whose values did not change.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the condition or a value cannot be computed without Spark.
            ExpressionFailedError: a value cannot be computed for a row.
            DeltaAnalysisError: a new value does not fit the table, or violates a constraint.
            AppendOnlyTableError: the table is append-only.
        """
        self._check_removes_data()
        read, current = self._read(where), self._current
        if has_unknown(read.predicate):
            raise InvalidPredicateError(
                table=self.url, predicate=str(read.predicate), detail="a part of it cannot be evaluated"
            )
        scope = Scope(schema=current.schema, zone=self.table.log.zone, table=self.url)
        assignments = parse_assignments(set, current.schema, scope)
        plan = self._plan(current.schema)
        check_assigned(plan.column_values, {path[0].lower() for path in assignments}, table=self.url)
        rules = NewRows(
            plan,
            supplied := given_by_update(plan.column_values, plan.schema, {path[0] for path in assignments}),
            updates=True,
        )
        with self._changing(plan) as changes:
            for add in read.snapshot.scan(read.predicate).adds():
                positions_found = self._rows.matching(read.snapshot, add, read.predicate) & self._left(add)
                for positions, before in self._rows.at(current, add, positions_found, with_row_ids=current.tracks_rows):
                    own = before.select(current.schema.names)
                    changes.update(
                        add, positions, before, with_assigned(own, assignments, own, scope).select(supplied), rules
                    )
            self._take(changes)
        self._reads.append(read)
        self._did("UPDATE", {"predicate": [] if where is None else [str(read)]}, numUpdatedRows=changes.updated)
        return changes.updated

    @takes(source=ROWS, on=KEYS, source_alias=TEXT, target_alias=TEXT, merge_schema=FLAG)
    def merge(
        self,
        source: Data,
        on: str | Sequence[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        merge_schema: bool = False,
    ) -> MergeBuilder:
        """A MERGE as a part of the transaction; see `Table.merge`."""
        rows: Any = source  # `takes` has converted it
        request = MergeRequest(
            table=self.url,
            source=rows,
            on=on,
            source_alias=source_alias,
            target_alias=target_alias,
            merge_schema=merge_schema,
        )
        return MergeBuilder(request, self._run_merge)

    def _run_merge(self, request: MergeRequest) -> ChangedRows:
        """Run a MERGE that `merge` has made."""
        self._check_open() if request.only_inserts else self._check_removes_data()
        before = self._configuration
        try:
            return self._apply_merge(request)
        except BaseException:  # the transaction may go on, without the columns that the MERGE would have added
            self._configuration = before
            raise

    def _apply_merge(self, request: MergeRequest) -> ChangedRows:
        """Evolve the schema, then change the rows. The order matters: the clauses are resolved in the columns that the
        MERGE adds.
        """
        if request.merge_schema and request.takes_all:
            evolved = self._plan(request.schema, merge_schema=True, casts=Casts.IMPLICIT)
            self._draft.protocol, self._draft.metadata = evolved.protocol, evolved.metadata
        merging = Merging(request, self._current, self._plan(self._current.schema), self._rows, self._left)
        with self._changing(merging.plan, minted=merging.minted, updates=merging.updates) as changes:
            merging.run(changes)
            self._take(changes)
        self._reads.append(merging.read)
        self._draft.is_exact = False  # it also reads rows that no clause changes: these are why rows were not inserted
        found = ChangedRows(inserted=changes.inserted, updated=changes.updated, deleted=changes.removed)
        self._did(
            "MERGE",
            request.parameters,
            numSourceRows=request.source.num_rows,
            numTargetRowsInserted=found.inserted,
            numTargetRowsUpdated=found.updated,
            numTargetRowsDeleted=found.deleted,
        )
        return found

    def _changing(self, plan: Any, *, minted: Any = (), updates: bool = True) -> RowChanges:
        records = updates and self._is_on(ENABLE_CHANGE_DATA_FEED)
        return RowChanges(plan, self._current.row_tracking, records=records, minted=minted)

    def _take(self, changes: RowChanges) -> None:
        """Put the changes into the draft. From now on it deletes their files if it is not committed."""
        files, recorded = changes.close()
        plan, draft = changes.plan, self._draft
        adds = self._wrote(plan, files)
        draft.on_discard(lambda: delete_files(plan, recorded))
        draft.adds += adds
        draft.metadata = with_minted(draft.metadata, files)
        draft.change_files += [
            Cdc(path=encode_path(f.key), partition_values=f.partition_values, size_bytes=f.size_bytes) for f in recorded
        ]
        deleted = {self._canonical(path): found for path, found in changes.deleted.items()}
        self._delete(deleted)
        if changes.records:
            self._recorded_adds.update(add.path for add in adds)
            for key, (_, rows) in deleted.items():
                self._recorded_rows[key] = self._recorded_rows.get(key, rows) | rows
