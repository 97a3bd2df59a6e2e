"""Changes rows of one version of a table: what DELETE, UPDATE and MERGE share.

A command finds the positions of the rows that it deletes or replaces, writes new rows, and commits both in one version.
If `delta.enableDeletionVectors` is set, deletion vectors mark the deleted rows. Otherwise the files are rewritten
without them.

Protocol: "Writer Requirements for Deletion Vectors", "Change Data Files", "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import MetadataChangedException
from tahoe.protocol.changes.column_values import ColumnValues
from tahoe.protocol.changes.conflict import Reads
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE
from tahoe.protocol.configuration.features import check_writable, setting
from tahoe.protocol.configuration.properties import ENABLE_CHANGE_DATA_FEED, ENABLE_DELETION_VECTORS
from tahoe.protocol.configuration.row_tracking import METADATA, ROW_COMMIT_VERSION, ROW_ID
from tahoe.protocol.log.actions import Add, Cdc
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.schema import LONG, VOID, Field, Struct, types_in
from tahoe.spark.dml.job_steps import JobSteps
from tahoe.spark.dml.row_checks import check_rows
from tahoe.spark.jvm.attached_catalogs import at_end_of_block
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject, engine_of
from tahoe.spark.jvm.plans import dataset, forget_rows, frame_of, projected
from tahoe.spark.jvm.table_cache import hold, recache, release
from tahoe.spark.reading.positions import Positions, position, positioned_rows, with_flags
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.data_writer import Written, rows_for_files, translating_failures, write_changes, write_rows
from tahoe.spark.writing.store_assignment import Refusals, assign, without_void
from tahoe.spark.writing.write_inputs import write_options
from tahoe.spark.writing.write_options import WriteOptions
from tahoe.table.commit.draft import OperationInfo
from tahoe.table.commit.row_deletions import RowDeletion, counted
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.planning import plan_existing
from tahoe.table.writing.write_plan import WritePlan, with_minted
from tahoe.table.writing.write_request import WriteRequest

# Columns that a command adds to the table's own while it runs.
ROW_POSITION = "__tahoe_position"
KEPT_ROW_ID = "__tahoe_row_id"
KEPT_ROW_VERSION = "__tahoe_row_commit_version"
IS_FOUND = "__tahoe_is_found"

# The file number of a `Touched` file that is removed as a whole.
_WHOLE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DmlTarget:
    """The table of a command, and how the command's expressions refer to it.

    Attributes:
        alias: the name that may qualify columns.
        qualifier: the catalog and database that may precede the alias.
        frames: DataFrames of the table; conditions and values may use their columns.
        seen: for a statement that Spark has resolved: the `delta.Target` that its expressions refer to.
        retries: how often the command was run before, because of a conflict.
    """

    spark: SparkSession
    table: TableReader
    alias: str | None = None
    qualifier: tuple[str, ...] = ()
    frames: tuple[DataFrame, ...] = ()
    seen: JavaObject | None = None
    retries: int = 0

    @property
    def name(self) -> tuple[str, ...]:
        """The parts that may qualify a column. Leading parts may be omitted."""
        return () if self.alias is None else (*self.qualifier, self.alias)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """A file with rows to delete. `is_whole`: no row of the file remains."""

    number: int
    deletion: RowDeletion
    is_whole: bool


class RowChange:
    """A DML command at work on the newest version of its table. If the command fails, the files that it has written are
    deleted.

    Attributes:
        snapshot: the version that the command reads.
        plan: the write plan, which has the table configuration after the command.
        deletes_by_vector: whether deletion vectors mark deleted rows; otherwise files are rewritten.
        has_feed: whether the table's change data feed is enabled.
        evolves: whether the command evolves the schema.
        num_written: how many rows were written.
    """

    def __init__(
        self,
        target: DmlTarget,
        *,
        command: str | None = None,
        removes_data: bool = True,
        data_change: bool = True,
        evolve: Callable[[Snapshot, bool], Struct] = lambda snapshot, _: snapshot.schema,
        plan: WritePlan | None = None,
        options: WriteOptions | None = None,
    ) -> None:
        """Begin the command.

        Args:
            command: its name; the operation of the plan if None.
            removes_data: whether the command may delete rows; append-only tables refuse it.
            data_change: whether the command changes the table's rows; False if it only rearranges them.
            evolve: `evolve(snapshot, auto_merge)`: the schema to evolve to. `auto_merge`: the session's automatic
                schema evolution is on.
            plan, options: of a write that is already planned, on an existing table.
        """
        self.target, self.spark = target, target.spark
        self.began = time.monotonic()
        self.options = write_options(target.spark, {}, target.table) if options is None else options
        if not data_change:  # a command that rearranges rows decides itself where they go
            self.options = self.options.redistributing(False)
        planned_snapshot = None if plan is None else plan.snapshot
        self.snapshot: Snapshot = target.table.snapshot() if planned_snapshot is None else planned_snapshot
        snapshot = self.snapshot
        check_writable(snapshot.protocol, snapshot.metadata, table=target.table.url, removes_data=removes_data)
        schema = evolve(snapshot, self.options.merge_schema)
        self.evolves = schema is not snapshot.schema
        request = WriteRequest(
            mode="append", schema=schema, merge_schema=self.evolves, casts=Casts.IMPLICIT, data_change=data_change
        )
        self.plan: WritePlan = plan_existing(target.table, request, snapshot) if plan is None else plan
        self.deletes_by_vector = setting(
            ENABLE_DELETION_VECTORS, snapshot.protocol, snapshot.properties, table=target.table.url
        )
        self.has_feed = setting(ENABLE_CHANGE_DATA_FEED, snapshot.protocol, snapshot.properties, table=target.table.url)
        # a write that is already planned inserts rows; other commands update rows of the table
        policy = self.options.updates if plan is None else self.options.assigns
        self.refusals = Refusals(target.table.url, policy, are_assigned=plan is None)
        self.num_written = 0
        self._draft = replace(self.plan.draft(), reads=None, txn=self.options.txn)
        self._touched: list[Touched] = []
        self._materialised: list[DataFrame] = []
        self._read: list[DataFrame] = []
        self._steps = JobSteps(self.spark, command or self.plan.request.operation)
        self._held = hold(self.snapshot)

    def __enter__(self) -> RowChange:
        self._steps.begin("find rows")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._steps.end()
        _forget(self.target.spark, self._materialised)
        if error is None:
            at_end_of_block(Gateway(self.spark), self._release)
        else:
            self._release()
            self._draft.discard()
        if isinstance(error, JVM_ERRORS):
            with self.translating_failures():
                raise error

    @property
    def schema(self) -> Struct:
        """The table's schema before the command."""
        return self.snapshot.schema

    @property
    def parallelism(self) -> int:
        """The session's default parallelism."""
        return int(self.spark.sparkContext.defaultParallelism)

    @property
    def is_recorded(self) -> bool:
        """Whether a command with the session's `txnAppId` and `txnVersion` is already committed."""
        return self._draft.is_recorded

    @property
    def values(self) -> ColumnValues:
        """The table's generated, default and identity columns."""
        return self.plan.column_values

    # --- reading

    def rows(self, within: Sequence[int] | None = None) -> DataFrame:
        """The table's rows, with their positions and row tracking columns, under the target's alias.

        Args:
            within: the numbers of the files to read; all files by default.
        """
        rows = positioned_rows(self.spark, self.snapshot, self._held, within)
        stored = rows.metadataColumn(METADATA)  # the table may have a column of that name
        frame = rows.select(
            "*", position(stored).alias(ROW_POSITION), *self._tracking_columns(stored), *self._metadata(stored)
        )
        if self.target.seen is not None:
            frame = self._as_seen(frame)
        return (
            frame
            if self.target.alias is None
            else Gateway(self.spark).aliased(frame, self.target.alias, self.target.qualifier)
        )

    def _as_seen(self, frame: DataFrame) -> DataFrame:
        """The rows with the columns that a resolved statement's expressions refer to."""
        rows = self.target.seen.rows(dataset(frame))  # type: ignore[union-attr]
        if rows is None:
            winner = f"version {self.snapshot.version}"
            detail = "the table no longer has the columns with which the statement was analysed"
            raise MetadataChangedException(table=self.snapshot.url, winner=winner, detail=detail)
        return frame_of(rows, self.spark)

    def _metadata(self, stored: Column) -> list[Column]:
        """The `_metadata` fields that a resolved statement reads."""
        fields = (
            [] if self.target.seen is None else list(Gateway(self.spark).items(self.target.seen.metadata().iterator()))
        )
        return [F.struct(*[stored.getField(name) for name in fields]).alias(METADATA)] if fields else []

    def _tracking_columns(self, stored: Column) -> list[Column]:
        if not self.snapshot.tracks_rows:
            return []
        return [stored.getField(ROW_ID).alias(KEPT_ROW_ID), stored.getField(ROW_COMMIT_VERSION).alias(KEPT_ROW_VERSION)]

    @property
    def kept_names(self) -> tuple[str, ...]:
        """The row tracking columns of `rows`."""
        return (KEPT_ROW_ID, KEPT_ROW_VERSION) if self.snapshot.tracks_rows else ()

    def kept_by_update(self) -> list[Column]:
        """Row tracking columns of an updated row: it keeps its row id, and its row commit version becomes the new
        version.
        """
        if not self.snapshot.tracks_rows:
            return []
        return [F.col(KEPT_ROW_ID), F.lit(None).cast("long").alias(KEPT_ROW_VERSION)]

    def new_row(self) -> list[Column]:
        """Row tracking columns of a new row: nulls."""
        if not self.snapshot.tracks_rows:
            return []
        nothing = F.lit(None).cast("long")
        return [nothing.alias(KEPT_ROW_ID), nothing.alias(KEPT_ROW_VERSION)]

    # --- changing

    def touch(self, positions: Positions) -> list[Touched]:
        """Delete the rows at some positions. Returns their files."""
        numbers = sorted(positions.by_file)
        files = Scan(self.snapshot, None, pa.array(numbers, pa.uint64())).adds()
        deletions = [
            RowDeletion(file=file, rows=positions.by_file[number]) for number, file in zip(numbers, files, strict=True)
        ]
        deleted = [_deleted_count(each) for each in deletions]
        counted_deletions = counted(self.snapshot.log, deletions, deleted, self.snapshot.version)
        touched = [
            Touched(number=number, deletion=each, is_whole=each.total is not None and many >= each.total)
            for number, each, many in zip(numbers, counted_deletions, deleted, strict=True)
        ]
        self._touched += touched
        self._draft.delete_rows(t.deletion for t in touched)
        return touched

    def remove(self, files: Sequence[Add]) -> None:
        """Remove whole files."""
        self._touched += [
            Touched(number=_WHOLE, deletion=RowDeletion(file=file, rows=BitMap64()), is_whole=True) for file in files
        ]
        self._draft.remove(files)

    def check(self, rows: DataFrame, *, are_new: bool = False) -> None:
        """Refuse rows whose columns do not fit the table; see `check_rows`."""
        check_rows(self.plan, rows, self.refusals.policy, are_new=are_new, may_lack=self.evolves)

    def stored(
        self, rows: DataFrame, *, given: Mapping[str, Column | None] | None = None, beside: Sequence[str] = ()
    ) -> Completed:
        """The rows as the table will store them. Each row is checked when it is written.

        Args:
            given: the columns that the rows supply, by lower-cased name, each with the condition for the rows that do
                (None: all); without it all rows are new. See `rows_for_files`.
            beside: additional columns to keep.
        """
        keep = [name for name in (*self.kept_names, *beside) if name in rows.columns]
        with self.translating_failures():
            return rows_for_files(self.plan, rows, self.refusals, given=given, keep=keep)

    def translating_failures(self) -> AbstractContextManager[None]:
        """Translate Spark's failures while rows are computed into tahoe's errors."""
        return translating_failures(self.plan, self.refusals)

    def materialise(self, rows: DataFrame, *, now: bool = False, is_read: bool = False) -> DataFrame:
        """Materialise rows for the duration of the command. If an executor that holds some of the rows is lost, the
        command fails, because computing them again might give different rows.

        Args:
            now: compute the rows immediately; otherwise on first use.
            is_read: whether the check for conflicts needs them, which a transaction repeats at its end.
        """
        materialised = rows.localCheckpoint(eager=now)
        (self._read if is_read else self._materialised).append(materialised)
        return materialised

    def _release(self) -> None:
        """Release what the check for conflicts needs."""
        release(self._held)
        _forget(self.target.spark, self._read)

    def write(self, completed: Completed, *, step: str = "write rows") -> Written:
        """Write rows as new files of the table. Updated and copied rows have the row tracking columns; new rows may
        omit them.
        """
        self._steps.begin(step)
        tracking, hidden, renamed = self.snapshot.row_tracking, list[Field](), completed.frame
        if tracking is not None and KEPT_ROW_ID in renamed.columns:
            names = {KEPT_ROW_ID: tracking.row_id_column, KEPT_ROW_VERSION: tracking.row_commit_version_column}
            for column, stored_name in names.items():
                renamed = (
                    renamed.drop(column) if stored_name is None else renamed.withColumnRenamed(column, stored_name)
                )
                hidden += [] if stored_name is None else [Field(name=stored_name, type=LONG)]
        written = write_rows(self.plan, self.options, replace(completed, frame=renamed), self.refusals, hidden)
        self._draft.on_discard(written.discard)
        self._draft.metadata = with_minted(self._draft.metadata, written.files)
        self._draft.adds += [self.plan.add(file) for file in written.files]
        self.num_written += written.num_records
        return written

    def with_found_flag(self, rows: DataFrame, positions: Positions) -> DataFrame:
        """The rows with a boolean column `IS_FOUND`: whether the row is at one of the positions."""
        return with_flags(rows, positions, ROW_POSITION, IS_FOUND)

    def write_others(self, positions: Positions, touched: Sequence[Touched]) -> int:
        """Copy the rows of touched files that are not at the positions. Returns how many rows were copied."""
        if not touched:
            return 0
        rows = self.with_found_flag(self.rows([t.number for t in touched]), positions).where(~F.col(IS_FOUND))
        return self.write_again(rows)

    def write_again(self, rows: DataFrame) -> int:
        """Write rows of the table unchanged. Returns how many rows were written."""
        names = [*without_void(self.schema).names, *self.kept_names]
        stored = self.as_they_are(projected(rows, names))
        return self.write(Completed(frame=stored), step="copy rows").num_records

    def as_they_are(self, rows: DataFrame) -> DataFrame:
        """Existing rows with the columns and types of the table after the command. Column rules and constraints are not
        applied to them.
        """
        columns = Struct(tuple(replace(field, nullable=True, metadata={}) for field in without_void(self.plan.schema)))
        return assign(rows, columns, self.refusals, keep=[name for name in self.kept_names if name in rows.columns])

    def write_changes(self, rows: DataFrame) -> None:
        """Write change data files: the table's columns, and `_change_type`."""
        self._steps.begin("write the change data feed")
        columns = projected(rows, (*without_void(self.plan.schema).names, CHANGE_TYPE))
        written = write_changes(self.plan, self.options, columns, self.refusals)
        self._draft.on_discard(written.discard)
        self._draft.change_files += [
            Cdc(path=encode_path(file.key), partition_values=file.partition_values, size_bytes=file.size_bytes)
            for file in written.files
        ]

    # --- the end

    def commit(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int],
        reads: Reads | None,
        *,
        is_exact: bool = False,
    ) -> int | None:
        """Commit everything in one version. An empty change commits nothing.

        Returns:
            the version; the version that was read if the change is empty; None if another writer has meanwhile
            committed the same command (the same `txn`), so that this one has changed nothing.

        Args:
            reads: the rows that were read.
            is_exact: whether every row that was read is deleted.

        Raises:
            DeltaConcurrentModificationException: a concurrent commit conflicts.
        """
        draft = self._draft
        if draft.is_empty:
            return self.snapshot.version
        draft.reads, draft.is_exact = reads, is_exact
        retried = {"numConflictRetries": self.target.retries} if self.target.retries else {}
        info = OperationInfo(
            operation=operation,
            parameters=parameters,
            metrics={**metrics, **retried, "executionTimeMs": round((time.monotonic() - self.began) * 1000)},
            user_metadata=self.options.user_metadata,
            engine=engine_of(self.spark),
        )
        version = draft.commit(info)
        if version is not None:
            recache(Gateway(self.spark), self.snapshot.url)
        return version

    # --- for the history

    @property
    def removed_files(self) -> list[Add]:
        """The files that this command removes."""
        return [t.deletion.file for t in self._touched if t.is_whole or not self.deletes_by_vector]

    @property
    def added_files(self) -> Sequence[Add]:
        return self._draft.adds

    @property
    def change_files(self) -> Sequence[Cdc]:
        return self._draft.change_files

    def vector_metrics(self, prefix: str) -> dict[str, int]:
        """How many deletion vectors are added and removed, as the reference counts: a replaced vector counts as
        both.
        """
        return _vector_metrics(self._touched if self.deletes_by_vector else (), prefix)


def _forget(spark: SparkSession, frames: list[DataFrame]) -> None:
    with suppress(*JVM_ERRORS):
        forget_rows(spark, frames)
    frames.clear()


def _deleted_count(deletion: RowDeletion) -> int:
    """How many rows of the file are deleted then."""
    vector = deletion.file.deletion_vector
    return len(deletion.rows) + (vector.cardinality if vector else 0)


def _vector_metrics(touched: Sequence[Touched], prefix: str) -> dict[str, int]:
    had = [t for t in touched if t.deletion.file.deletion_vector is not None]
    return {
        f"{prefix}DeletionVectorsAdded": sum(not t.is_whole for t in touched),
        f"{prefix}DeletionVectorsRemoved": len(had),
        f"{prefix}DeletionVectorsUpdated": sum(not t.is_whole for t in had),
    }


def stored_columns(schema: Struct) -> list[str]:
    """The columns of a schema as data files have them, as SQL with names: without void columns, and without void fields
    of structs.
    """
    return [_stored_column(quoted(field.name), field) for field in schema if field.type != VOID]


def _stored_column(value: str, field: Field) -> str:
    if isinstance(field.type, Struct) and VOID in types_in(field.type):
        fields = [_stored_column(f"{value}.{quoted(part.name)}", part) for part in field.type if part.type != VOID]
        value = f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(fields)}) END"
    return f"{value} AS {quoted(field.name)}"


def given_by_update(change: RowChange, assigned: Iterable[tuple[str, ...]]) -> dict[str, Column | None]:
    """The columns, in lower case, that updated rows supply: all but generated columns without an assignment, which are
    computed anew.
    """
    assigned_names = {path[0].lower() for path in assigned}
    supplied_names = (
        name
        for name in change.plan.schema.names
        if name not in change.values.generated or name.lower() in assigned_names
    )
    return dict.fromkeys(map(str.lower, supplied_names))
