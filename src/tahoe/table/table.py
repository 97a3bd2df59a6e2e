"""`Table`, the user's handle on a table without Spark.

table = tahoe.Table("/data/flights")
table.version, table.schema, table.to_arrow(columns=["carrier"], filter="month = 1")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from tahoe.errors import InvalidArgumentError
from tahoe.protocol.types.names import parse_column_list
from tahoe.table.arguments import (
    CALL,
    COUNT,
    FLAG,
    HOURS,
    NAMES,
    ROWS,
    SHARE,
    TEXT,
    VECTORS,
    takes,
)
from tahoe.table.arrow.given_rows import ArrowStream
from tahoe.table.calls import OtherNames, of_objects
from tahoe.table.cleanup.vacuum import VacuumReport, VacuumRequest, vacuum
from tahoe.table.inspected_table import InspectedTable
from tahoe.table.inspection.inspector import Inspector
from tahoe.table.layout.clustering import OrderRequest
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import OptimizeReport, OptimizeRequest, optimize
from tahoe.table.layout.statistics import AnalyzeReport, AnalyzeRequest, compute_statistics
from tahoe.table.layout.vector_removal import remove_vectors
from tahoe.table.maintenance.erase import EraseReport, EraseRequest, erase
from tahoe.table.other_names import TABLE
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.transactions.feature_drop import drop_feature
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.verify.file_repairs import UnreadableVectors
from tahoe.table.verify.repair import RepairReport, RepairRequest, repair


@of_objects(
    'Table("/data/t")',
    names=TABLE,
    beside={
        "with table.transaction() as changes: changes": TransactionBuilder,
        "table.snapshot()": Snapshot,
        "table.inspect": Inspector,
    },
)
class Table(InspectedTable, metaclass=OtherNames):
    """A Delta table at a location. Nothing is read before the first call, and every call sees the newest version.

    Args:
        location: a path or url: `/data/t`, `file:///data/t`, `s3://bucket/t`,
            `abfss://container@account.dfs.core.windows.net/t`, ...
        storage_options: credentials and settings for object stores.
        time_zone: of timestamps without a time zone, in filters, constraints, new values, and partition values of early
            writers.
        env: the outside world, for tests and other hosts; made from location and options if None.
    """

    @takes(feature=TEXT, truncate_history=FLAG)
    def drop_feature(self, feature: str, *, truncate_history: bool = False) -> None:
        """Remove a table feature from the protocol, and its traces from the table, so that clients without the feature
        can use the table.

        Files with deletion vectors are rewritten. Column mapping and type widening need Spark to rewrite files:
        `DeltaTable.dropFeatureSupport`.

        >>> table.drop_feature("v2Checkpoint")

        Args:
            truncate_history: delete the versions that use the feature, once they are older than
                `delta.dropFeatureTruncateHistory.retentionDuration`.

        Raises:
            FeatureDropError: the feature is unknown or not supported by the table, or the table still needs it.
            FeatureDropWaitsError: the feature is no longer used, but the history cannot be truncated yet.
        """
        drop_feature(
            self, feature, truncate_history=truncate_history, clear=lambda dropped: remove_vectors(self, dropped)
        )

    # --- maintenance of the files

    @takes(
        filter=TEXT,
        z_order_by=NAMES,
        full=FLAG,
        max_file_bytes=COUNT,
        min_file_bytes=COUNT,
        max_deleted_share=SHARE,
        dry_run=FLAG,
        user_metadata=TEXT,
        progress=CALL,
    )
    def optimize(
        self,
        filter: str | None = None,
        *,
        z_order_by: Sequence[str] = (),
        full: bool = False,
        max_file_bytes: int | None = None,
        min_file_bytes: int | None = None,
        max_deleted_share: float = 0.05,
        dry_run: bool = False,
        user_metadata: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> OptimizeReport:
        """Combine small files into larger ones, and rewrite files with many deleted rows. The rows stay the same, in
        their order.

        With `z_order_by`, and on a clustered table, rows are ordered so that queries skip files and parts of files by
        each of the columns. A second run changes only what was added since the first. Rows pass through a temporary
        file, so that memory is bounded. If another writer changes a file that is being rewritten, the files rewritten
        together with it are left as they are.

        >>> table.optimize(z_order_by=["shop"], dry_run=True).files_considered
        1

        Args:
            filter: SQL text over any columns; only files that may contain matching rows are rewritten.
            z_order_by: columns, or fields of structs as `column.field`; names with a dot are quoted with backticks.
            full: lay out all rows of a clustered table, also those that were laid out before.
            max_file_bytes: the size of the new files, approximately; `delta.targetFileSize` or else 1 GiB by default.
            min_file_bytes: smaller files are rewritten together; `max_file_bytes` by default.
            max_deleted_share: a file with a larger share of deleted rows is rewritten in any case.
            dry_run: change nothing, and report what would be done.
            user_metadata: for the table's history.
            progress: called with the number of files that were rewritten, and the number of all that are to be
                rewritten.

        Raises:
            DeltaAnalysisError: the filter, `z_order_by` or `full` do not fit the table; see
                `tahoe.table.layout.clustering.order_of`.
            DeltaConcurrentModificationException: other writers changed all parts of the table that were to be
                rewritten.
            UnsupportedOperationError: only Spark can read a file, for example one with shredded variants.
        """
        sizes = CompactionSettings.of_table(
            self.snapshot().properties, table=self.url, max_file_bytes=max_file_bytes, min_file_bytes=min_file_bytes
        )
        settings = replace(sizes, max_deleted_share=max_deleted_share)
        predicates, order = (
            () if filter is None else (filter,),
            OrderRequest(zorder_by=self._paths(z_order_by), is_full=full),
        )
        request = OptimizeRequest(
            filter=filter, settings=settings, predicates=predicates, user_metadata=user_metadata, order=order
        )
        return optimize(self, request, dry_run=dry_run, progress=progress)

    def _paths(self, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The paths of columns that the user names as in SQL."""
        try:
            return tuple(path for column in columns for path in parse_column_list(column))
        except ValueError as error:
            expected = "names of columns such as day, address.city or `a.b`"
            found = f"{error.args[0]!r}"
            raise InvalidArgumentError(
                argument="z_order_by",
                table=self.url,
                found=found,
                expected=expected,
                remedy="Quote names with other characters.",
            ) from None

    @takes(
        retention_hours=HOURS,
        lite=FLAG,
        dry_run=FLAG,
        inventory=ROWS,
        retention_check=FLAG,
        log_history=FLAG,
        progress=CALL,
    )
    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        lite: bool = False,
        dry_run: bool = False,
        inventory: pa.Table | ArrowStream | None = None,
        retention_check: bool = True,
        log_history: bool | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> VacuumReport:
        """Delete the files that no version within the retention and none with a tag needs, and the folders that this
        leaves empty.

        >>> table.vacuum(dry_run=True).files
        ()

        Args:
            retention_hours: how long a file is kept after the last version that needs it;
                `delta.deletedFileRetentionDuration` if None.
            lite: find the files in the log since the last VACUUM, instead of listing the folder. Files of failed writes
                stay.
            dry_run: report what would be deleted, and delete nothing.
            inventory: what is in the folder, instead of listing it: `path`, `length`, `isDir` and `modificationTime` in
                milliseconds.
            retention_check: refuse a retention that is shorter than the table's.
            log_history: record VACUUM START and VACUUM END in the history; None: not on S3, unless the retention is
                short.
            progress: called with the number of files that were dealt with, and the number of all.

        Returns:
            what was deleted, what could not be deleted, and what tags hold back.

        Raises:
            VacuumRetentionNegativeError, VacuumRetentionTooShortError: the retention is too short.
            CannotVacuumLiteError: the log has lost commits that removed files.
            InvalidInventoryError: the inventory has other columns.
            VacuumPartitionError: this is a partition of a table.
            TagLostError: the version of a tag can no longer be read, so it is unknown what it needs. Nothing was
                deleted.
        """
        request = VacuumRequest(
            retention_hours=retention_hours,
            lite=lite,
            dry_run=dry_run,
            inventory=inventory,
            retention_check=retention_check,
            log_history=log_history,
            progress=progress,
        )
        return vacuum(self, request)

    @takes(filter=TEXT, search=NAMES, retention_check=FLAG, dry_run=FLAG, progress=CALL)
    def erase(
        self,
        filter: str,
        *,
        search: Sequence[str] = (),
        retention_check: bool = True,
        dry_run: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> EraseReport:
        """Erase rows from every file and every version, and prove it: DELETE, REORG, VACUUM, log cleanup, and a search
        of every byte.

        Only the newest version is left: time travel ends, change feeds and streams cannot go back, and shallow clones
        of this table lose files. Writers at work are safe; queries and writers that read an earlier version may fail.
        Run it again after an interruption.

        >>> table.erase("shop = 'B'", dry_run=True).rows
        1

        Args:
            filter: SQL text; the rows for which it is true are erased.
            search: texts to search for at the end, besides those of the erased rows that no other row has.
            retention_check: keep files that no commit names and that are younger than the table's retention: a writer
                may commit them.
            dry_run: change nothing, and report what would be erased.
            progress: called with a sentence before each step.

        Returns:
            what was done; `is_proven`, and the traces that the search found.

        Raises:
            ErasureHeldByTagsError: tags hold versions. Nothing was changed.
            InvalidPredicateError, ColumnNotFoundError: the filter cannot be evaluated without Spark.
            AppendOnlyTableError: the table is append-only.
            UnsupportedOperationError: only Spark can rewrite a file, for example one with shredded variants.
        """
        request = EraseRequest(
            filter=filter, search=search, retention_check=retention_check, dry_run=dry_run, progress=progress
        )
        return erase(self, request)

    @takes(filter=TEXT, user_metadata=TEXT)
    def compute_statistics(self, filter: str | None = None, *, user_metadata: str | None = None) -> AnalyzeReport:
        """Compute the statistics that are missing, or that deletion vectors have made wide. No data file is written.

        Statistics are missing if a writer left them out, or if the table's properties name other columns since then.
        Footers are read, and rows where footers are not enough. Other writers are not disturbed.

        >>> table.compute_statistics("shop = 'A'").files_examined
        0

        Args:
            filter: SQL text over any columns; only files that may contain matching rows are considered.
            user_metadata: for the table's history.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the filter does not fit the schema.
            MetadataChangedException: another writer changed which columns have statistics.
            DeltaDataError: a file is not what the log says.
        """
        return compute_statistics(self, AnalyzeRequest(filter=filter, user_metadata=user_metadata))

    @takes(dry_run=FLAG, metadata_only=FLAG, verify_all_files=FLAG, verify_statistics=FLAG)
    @takes(unreadable_vectors=VECTORS, announce=CALL, user_metadata=TEXT)
    def repair(
        self,
        *,
        dry_run: bool = False,
        metadata_only: bool = False,
        verify_all_files: bool = False,
        verify_statistics: bool = False,
        unreadable_vectors: UnreadableVectors = "report",
        announce: Callable[[RepairReport], None] | None = None,
        user_metadata: str | None = None,
    ) -> RepairReport:
        """Repair what `tahoe check` finds, as far as that is safe: remove files that are gone, and delete wrong files
        of the log.

        A file is removed only if the storage says that it does not exist. Two entries of a file with different deleted
        rows are left.

        >>> table.repair(dry_run=True).repairs
        ()

        Args:
            dry_run: change nothing, and report what would be done.
            metadata_only: repair only the log, and look at no data file.
            verify_all_files: also read every footer and every deletion vector, and compute wrong statistics again.
            verify_statistics: the same, and compare all statistics with the rows; files whose footers confirm them are
                not read.
            unreadable_vectors: what is done about files whose deletion vector is missing or damaged: `report`;
                `restore_rows` keeps the file, so that its deleted rows are in the table again; `remove_files` removes
                the file with all its rows.
            announce: called with the report before anything is changed.
            user_metadata: for the table's history.

        Returns:
            what was repaired, and what was left for which reason.

        Raises:
            RepairUncertainError: the storage does not tell whether a file exists. The error says what was changed
                before.
            AppendOnlyTableError: files are gone, but the table does not allow to remove rows.
        """
        request = RepairRequest(
            dry_run=dry_run,
            metadata_only=metadata_only,
            verify_all_files=verify_all_files,
            verify_statistics=verify_statistics,
            unreadable_vectors=unreadable_vectors,
            announce=announce,
            user_metadata=user_metadata,
        )
        return repair(self, request)
