"""The methods of `Table` that make a table and change its rows: CREATE, append, overwrite, DELETE, UPDATE, MERGE and
transactions.

Each is one commit. What changes rows of the newest version is run again if another writer's commit conflicts with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import pyarrow as pa

from tahoe.errors import InvalidOptionError
from tahoe.protocol.configuration.properties import CONFLICT_RETRIES
from tahoe.protocol.types.schema import Struct
from tahoe.table.arguments import (
    FILTER,
    FLAG,
    KEYS,
    NAMES,
    PARTITIONS,
    ROWS,
    SCHEMA,
    SET,
    STREAM,
    TEXT,
    TEXTS,
    TXN,
    takes,
)
from tahoe.table.arrow.given_rows import Data
from tahoe.table.arrow.types import delta_schema
from tahoe.table.calls import of_objects
from tahoe.table.commit.rerun import run_again
from tahoe.table.layout.auto_compaction import auto_compacted
from tahoe.table.maintenance.lifecycle import TableLifecycle
from tahoe.table.reading.filters import Filter, predicate_of
from tahoe.table.transactions.row_edits import must_satisfy
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.writing.arrow_writer import Must, StagedRows, schema_of_rows, write_arrow
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.merge import MergeRequest
from tahoe.table.writing.merge_builder import MergeBuilder
from tahoe.table.writing.planning import create_table, plan_existing
from tahoe.table.writing.row_changes import ChangedRows
from tahoe.table.writing.write_request import WriteRequest

Result = TypeVar("Result")


@of_objects("table.transaction()")
class _Transaction(TransactionBuilder):
    """A transaction that auto compaction follows."""

    def commit(self) -> int | None:
        with auto_compacted(self.table):
            return super().commit()


class TableRows(TableLifecycle):
    """A table that can be made, and whose rows can be changed."""

    @takes(operation=TEXT, txn=TXN, user_metadata=TEXT, engine=TEXT)
    def transaction(
        self,
        *,
        operation: str | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        engine: str | None = None,
    ) -> TransactionBuilder:
        """Several changes in one commit, made at the end of a `with` block; see `TransactionBuilder`.

        >>> with table.transaction() as changes:
        ...     deleted = changes.delete("id = 1")
        ...     added = changes.append(rows)
        >>> changes.version
        2

        Args:
            operation: the operation's name in the history; chosen from the changes if None.
            txn: application id and version; if that version or a later one is recorded, nothing is committed.
            user_metadata: for the table's history.
            engine: the program that hosts tahoe, for the history.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no table.
        """
        return _Transaction(self, operation=operation, txn=txn, user_metadata=user_metadata, engine=engine)

    @takes(data=STREAM, partition_by=NAMES, properties=TEXTS, merge_schema=FLAG, txn=TXN, user_metadata=TEXT)
    def append(
        self,
        data: Data,
        *,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
    ) -> int | None:
        """Add rows in one commit. A missing table is created, with NOT NULL columns as in the Arrow schema.

        >>> table.append(pa.table({"id": [4], "shop": ["B"], "price": [40]}))
        2

        Args:
            data: an Arrow table or batch, a frame of pandas, Polars, DuckDB or another library that exports Arrow data,
                or a stream: a RecordBatchReader, or an iterable of batches. Rows are written as they come, so that
                memory is bounded. Named index levels of a pandas frame become columns. A stream can be read only once:
                create a new one for another attempt.
            partition_by: names of columns; for an existing table they must be its partition columns.
            properties: of a new table.
            merge_schema: add columns that the table does not have.
            txn: application id and version; if that version or a later one is recorded, nothing is committed.
            user_metadata: for the table's history.

        Returns:
            the version that was committed; None if `txn` is already recorded.
        """
        rows: Any = data  # `takes` has made it `Rows`
        request = WriteRequest(
            mode="append",
            schema=schema_of_rows(rows, table=self.url),
            partition_by=None if partition_by is None else tuple(partition_by),
            properties=properties or {},
            merge_schema=merge_schema,
            keep_nullability=True,
            txn=txn,
            user_metadata=user_metadata,
        )
        with auto_compacted(self):
            return write_arrow(self, rows, request)

    @takes(schema=SCHEMA, partition_by=NAMES, properties=TEXTS, comment=TEXT, if_not_exists=FLAG)
    def create(
        self,
        schema: pa.Schema | Struct,
        *,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> int | None:
        """Make a table without rows.

        >>> tahoe.Table("/data/new").create(pa.schema([("id", pa.int64())]), properties={"delta.appendOnly": "true"})
        0

        Args:
            schema: its columns; NOT NULL columns of an Arrow schema stay so.
            partition_by: names of columns.
            properties: table properties, such as `delta.enableDeletionVectors`.
            if_not_exists: do nothing if there is a table.

        Returns:
            the version that was committed; None if there was a table.

        Raises:
            TableExistsError: there is a table, and `if_not_exists` is false.
            DeltaAnalysisError: the schema, a property or a partition column is invalid.
        """
        columns = schema if isinstance(schema, Struct) else delta_schema(schema, table=self.url)
        request = WriteRequest(
            mode="ignore" if if_not_exists else "error",
            schema=columns,
            partition_by=None if partition_by is None else tuple(partition_by),
            properties=properties or {},
            comment=comment,
            keep_nullability=True,
            operation="CREATE TABLE",
        )
        return create_table(self, request)

    @takes(data=STREAM, filter=FILTER, partitions=PARTITIONS, partition_by=NAMES, properties=TEXTS, merge_schema=FLAG)
    @takes(overwrite_schema=FLAG, txn=TXN, user_metadata=TEXT)
    def overwrite(
        self,
        data: Data,
        filter: Filter | None = None,
        *,
        partitions: Literal["all", "dynamic"] = "all",
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        overwrite_schema: bool = False,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
    ) -> int | None:
        """Replace the rows of the table, or some of them, in one commit. A missing table is created. The rest is as for
        `append`.

        >>> table.overwrite(rows, filter="shop = 'B'")
        2

        Args:
            filter: replace only the rows for which it is true. All new rows must satisfy it. It cannot be combined with
                `partitions="dynamic"` or `overwrite_schema`.
            partitions: `dynamic` replaces only the partitions that the new rows have.
            overwrite_schema: replace the schema, too, and with `partition_by` the partitioning.

        Raises:
            ReplaceWhereMismatchError: a new row does not satisfy the filter.
            AppendOnlyTableError: the table is append-only.
        """
        rows: Any = data  # `takes` has made it `Rows`
        request = WriteRequest(
            mode="overwrite",
            schema=schema_of_rows(rows, table=self.url),
            partition_by=None if partition_by is None else tuple(partition_by),
            properties=properties or {},
            merge_schema=merge_schema,
            overwrite_schema=overwrite_schema,
            dynamic_partitions=partitions == "dynamic",
            keep_nullability=True,
            txn=txn,
            user_metadata=user_metadata,
        )
        if filter is not None:
            return self._replace(rows, filter, request)
        with auto_compacted(self):
            return write_arrow(self, rows, request)

    def _replace(self, rows: Any, filter: Filter, request: WriteRequest) -> int | None:
        """Replace the rows for which a filter is true, as a request says; a missing table is created."""
        refused = {
            "partitions": ("dynamic", request.dynamic_partitions),
            "overwrite_schema": (True, request.overwrite_schema),
        }
        for option, (value, is_set) in refused.items():
            if is_set:
                raise InvalidOptionError(
                    option=option, value=value, table=self.url, detail="it cannot be combined with a filter"
                )
        snapshot = self.snapshot_if_exists()
        if snapshot is None:
            predicate = predicate_of(filter, request.schema, zone=self.log.zone, table=self.url)
            return write_arrow(self, rows, request, Must(predicate, str(filter)))
        plan_existing(
            self, replace(request, mode="append", casts=Casts.KEPT), snapshot
        )  # refuses what does not fit the table

        def run(_: int) -> int | None:
            with staged.attempt(), self.transaction(txn=request.txn, user_metadata=request.user_metadata) as changes:
                changes._replace(staged, request.schema, filter, merge_schema=request.merge_schema)
            return changes.version

        with StagedRows(rows, must_satisfy(filter, snapshot)) as staged:
            return self._run_again(run)

    @takes(filter=FILTER, user_metadata=TEXT)
    def delete(self, filter: Filter | None = None, *, user_metadata: str | None = None) -> ChangedRows:
        """Delete the rows for which a filter is true; all rows if None. See `TransactionBuilder.delete`.

        >>> table.delete("price > 25").deleted
        1

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the filter cannot be evaluated without Spark.
            AppendOnlyTableError: the table is append-only.
        """
        return self._change(lambda changes: ChangedRows(deleted=changes.delete(filter)), user_metadata)

    @takes(set=SET, filter=FILTER, user_metadata=TEXT)
    def update(
        self, set: Mapping[str, Any], filter: Filter | None = None, *, user_metadata: str | None = None
    ) -> ChangedRows:
        """Change the rows for which a filter is true; all rows if None. See `TransactionBuilder.update`.

        >>> table.update({"price": "price * 2", "shop": "'C'"}, "id = 1").updated
        1
        """
        return self._change(lambda changes: ChangedRows(updated=changes.update(set, filter)), user_metadata)

    @takes(source=ROWS, on=KEYS, source_alias=TEXT, target_alias=TEXT, merge_schema=FLAG, user_metadata=TEXT)
    def merge(
        self,
        source: Data,
        on: str | Sequence[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        merge_schema: bool = False,
        user_metadata: str | None = None,
    ) -> MergeBuilder:
        """Update, delete and insert rows according to the rows of a source. It runs when `execute` is called.

        >>> table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute().inserted
        1

        Args:
            source: as for `append`; it is held in memory.
            on: columns that must be equal, or an SQL condition: `"target.id = source.id AND source.day > target.day"`.
            source_alias, target_alias: how conditions and values name the two sides.
            merge_schema: add columns of the source that clauses for all columns insert or update.
        """
        rows: Any = source  # `takes` has converted it
        request = MergeRequest(
            table=self.url,
            source=rows,
            on=on,
            source_alias=source_alias,
            target_alias=target_alias,
            merge_schema=merge_schema,
        )
        return MergeBuilder(
            request, lambda asked: self._change(lambda changes: changes._run_merge(asked), user_metadata)
        )

    def _change(self, change: Callable[[TransactionBuilder], ChangedRows], user_metadata: str | None) -> ChangedRows:
        """Run a change of rows as a transaction of its own; again, if other writers' commits conflict."""

        def run(_: int) -> ChangedRows:
            with self.transaction(user_metadata=user_metadata) as changes:
                found = change(changes)
            return replace(found, version=changes.version)

        return self._run_again(run)

    def _run_again(self, command: Callable[[int], Result]) -> Result:
        """Run a command, which takes how often it was run before; again after a conflict, if the table allows."""
        return run_again(
            self.env,
            command,
            read_retries_max=lambda: CONFLICT_RETRIES.get(self.snapshot().properties, table=self.url),
            read_newest_version=lambda: self.snapshot().version,
        )
