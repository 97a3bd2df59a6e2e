"""The user's handle on a table, without Spark.

table = tahoe.Table("/data/flights")
table.version, table.schema, table.to_arrow(columns=["carrier"], filter="month = 1")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tahoe.table.arguments import FLAG, LONG, NAMES, ROWS, TEXT, TEXTS, TXN, ArrowStream, takes
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import clean_log, compact_log
from tahoe.table.reading.table_reader import TableReader
from tahoe.table.writing.arrow_writer import given_schema, write_arrow
from tahoe.table.writing.feature_drop import drop_feature
from tahoe.table.writing.transaction_builder import TransactionBuilder
from tahoe.table.writing.write_request import WriteRequest


class Table(TableReader):
    """A Delta table at a location. Nothing is read until it is asked for, and every question sees the newest version.

    Args:
        location: a path or url: `/data/t`, `file:///data/t`, `s3://bucket/t`, `abfss://container@account.dfs.core.windows.net/t`, ...
        storage_options: credentials and settings for object stores.
        time_zone: of timestamps that are written without one: in filters and constraints, and among partition values of early writers.
        env: the outside world, for tests and other hosts; made from location and options if None.
    """

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

        Args:
            operation: what the history calls it; by what is done if None.
            txn: application id and version; where that version or a later one is recorded, nothing is committed.
            user_metadata: for the table's history.
            engine: the program that hosts tahoe, for the history.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no table.
        """
        return TransactionBuilder(self, operation=operation, txn=txn, user_metadata=user_metadata, engine=engine)

    @takes(data=ROWS, partition_by=NAMES, properties=TEXTS, merge_schema=FLAG, txn=TXN, user_metadata=TEXT)
    def append(
        self,
        data: pa.Table | ArrowStream,
        *,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
    ) -> int | None:
        """Add rows in one commit; the Delta table is made if it is not there, with NOT NULL where an Arrow schema has it.

        Args:
            data: an Arrow table, or a frame of pandas, polars or another library that hands out Arrow data. It fits in memory: Spark
                writes the rest. Of a pandas frame, an index that has a name is a column. A RecordBatchReader hands out its rows once: for
                another attempt, make it anew.
            partition_by: names of columns; must be those of the table where it is there.
            properties: of a new table.
            merge_schema: add columns that the table does not have.
            txn: application id and version; where that version or a later one is recorded, nothing is committed.
            user_metadata: for the table's history.

        Returns:
            the version made; None where `txn` says that this was done before.
        """
        rows: pa.Table = data  # by now
        request = WriteRequest(
            mode="append",
            schema=given_schema(rows, table=self.url),
            partition_by=None if partition_by is None else tuple(partition_by),
            properties=properties or {},
            merge_schema=merge_schema,
            keep_nullability=True,
            txn=txn,
            user_metadata=user_metadata,
        )
        return write_arrow(self, rows, request)

    @takes(feature=TEXT, truncate_history=FLAG)
    def drop_feature(self, feature: str, *, truncate_history: bool = False) -> None:
        """Take a table feature from the protocol, with what the table has of it, so that those who do not know it can go on with the table.
        Deletion vectors, mapped columns and widened types stand in files, which `DeltaTable.dropFeatureSupport` writes again.

        Args:
            truncate_history: cut off the versions that use it, once they are as old as
                `delta.dropFeatureTruncateHistory.retentionDuration` says.

        Raises:
            FeatureDropError: it does not exist, or not here; or something of the table needs it.
            FeatureDropWaitsError: it is used no more, and the history cannot be cut off yet.
        """
        drop_feature(self, feature, truncate_history=truncate_history)

    # --- the log's upkeep

    def create_checkpoint(self) -> int:
        """Write a checkpoint of the newest version, as every `delta.checkpointInterval`-th commit does of itself. Returns the version."""
        snapshot = self.snapshot()
        write_checkpoint(snapshot)
        return snapshot.version

    @takes(starting_version=LONG, ending_version=LONG)
    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Write one file with what a range of commits adds up to, which readers take in their place.

        Raises:
            InvalidOptionError: that is no range.
            MissingVersionError: the log has not all of these commits.
        """
        compact_log(self.log, starting_version, ending_version)

    def cleanup_metadata(self) -> int:
        """Delete the commits and checkpoints that `delta.logRetentionDuration` lets go, as checkpoints do of themselves.

        Returns:
            how many files were deleted.
        """
        return len(clean_log(self.snapshot()))
