"""The user's handle on a table, without Spark.

table = tahoe.Table("/data/flights")
table.version, table.schema, table.to_arrow(columns=["carrier"], filter="month = 1")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from tahoe.errors import InvalidTimeTravelError, NotADeltaTableError, TableNotFoundError
from tahoe.protocol.actions import Protocol
from tahoe.protocol.predicate import Predicate
from tahoe.protocol.schema import Struct
from tahoe.protocol.time_zones import zone_of
from tahoe.storage import system_env
from tahoe.storage.env import Env
from tahoe.table.arguments import (
    COUNT,
    FILTER,
    FLAG,
    LOCATION,
    LONG,
    NAMES,
    OUTSIDE,
    ROWS,
    TEXT,
    TEXTS,
    TIMESTAMP,
    TXN,
    VERSION,
    ZONE,
    ArrowStream,
    takes,
)
from tahoe.table.arrow_writer import given_schema, write_arrow
from tahoe.table.change_feed import AskedRange, plan_feed
from tahoe.table.changes import Changes
from tahoe.table.checkpoint_writer import write_checkpoint
from tahoe.table.feature_drop import drop_feature
from tahoe.table.history import history, parse_timestamp, version_at
from tahoe.table.log import Log
from tahoe.table.scan import Scan
from tahoe.table.snapshot import Snapshot, is_current, load_snapshot, refresh
from tahoe.table.upkeep import clean_log, compact_log
from tahoe.table.writing import WriteRequest


class Table:
    """A Delta table at a location. Nothing is read until it is asked for, and every question sees the newest version.

    Args:
        location: a path or url: `/data/t`, `file:///data/t`, `s3://bucket/t`, `abfss://container@account.dfs.core.windows.net/t`, ...
        storage_options: credentials and settings for object stores.
        time_zone: of timestamps that are written without one: in filters and constraints, and among partition values of early writers.
        env: the outside world, for tests and other hosts; made from location and options if None.
    """

    @takes(location=LOCATION, storage_options=TEXTS, time_zone=ZONE, env=OUTSIDE)
    def __init__(
        self,
        location: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        time_zone: str = "UTC",
        env: Env | None = None,
    ) -> None:
        self.env = env or system_env(location, storage_options)
        self.log = Log(self.env, zone_of(time_zone))
        self._newest: Snapshot | None = None

    @property
    def url(self) -> str:
        """Where the table is: an absolute, unescaped url."""
        return self.env.store.url

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

    def exists(self) -> bool:
        """Whether there is a Delta table here."""
        return self.log.exists()

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def snapshot(self, version: int | None = None, timestamp: str | date | None = None) -> Snapshot:
        """The table at a version, at the newest version not after a timestamp, or at the newest.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no table.
            VersionNotFoundError, TimestampOutOfRangeError: with the range there is.
            InvalidTimeTravelError: both were given, or a timestamp that is none.
            DeltaLogError, DeltaProtocolError: the log cannot be understood.
        """
        if version is not None and timestamp is not None:
            raise InvalidTimeTravelError(table=self.url, detail="both a version and a timestamp were given")
        if timestamp is not None:
            moment_ms = parse_timestamp(timestamp, table=self.url)
            version = version_at(self._refreshed(), moment_ms)
        if version is None:
            return self._refreshed()
        known = self._newest
        return known if known is not None and known.version == version and is_current(known) else load_snapshot(self.log, version)

    def _refreshed(self) -> Snapshot:
        known, self._newest = self._newest, None  # where there is no table any more, nothing of it is kept
        newest = load_snapshot(self.log) if known is None else refresh(known)
        self._newest = newest
        return newest

    def snapshot_if_exists(self) -> Snapshot | None:
        """The newest snapshot, or None where there is no table."""
        try:
            return self.snapshot()
        except (TableNotFoundError, NotADeltaTableError):
            return None

    # --- the newest snapshot's facts

    @property
    def version(self) -> int:
        return self.snapshot().version

    @property
    def schema(self) -> Struct:
        return self.snapshot().schema

    @property
    def protocol(self) -> Protocol:
        return self.snapshot().protocol

    @property
    def properties(self) -> Mapping[str, str]:
        return self.snapshot().properties

    @takes(filter=FILTER)
    def scan(self, filter: str | Predicate | None = None) -> Scan:
        """See `Snapshot.scan`."""
        return self.snapshot().scan(filter)

    @takes(filter=FILTER)
    def files(self, filter: str | Predicate | None = None) -> pa.Table:
        """See `Snapshot.files`."""
        return self.snapshot().files(filter)

    @takes(columns=NAMES, filter=FILTER)
    def to_arrow(self, columns: Sequence[str] | None = None, filter: str | Predicate | None = None) -> pa.Table:
        """See `Snapshot.to_arrow`."""
        return self.snapshot().to_arrow(columns, filter)

    @takes(limit=COUNT)
    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits, newest first: `version`, `timestamp`, and what the writer recorded of itself, under its own names."""
        commits = history(self.snapshot(), limit)
        return [{**c.info.fields, "version": c.version, "timestamp": datetime.fromtimestamp(c.timestamp_ms / 1000, UTC)} for c in commits]

    @takes(start_version=VERSION, end_version=VERSION, start_timestamp=TIMESTAMP, end_timestamp=TIMESTAMP, columns=NAMES, filter=FILTER)
    def changes(
        self,
        *,
        start_version: int | None = None,
        end_version: int | None = None,
        start_timestamp: str | date | None = None,
        end_timestamp: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,
    ) -> pa.Table:
        """The rows that were inserted, updated and deleted in a range of versions, where `delta.enableChangeDataFeed` was on in all of it.

        An updated row comes twice, as it was and as it is. The schema is the newest, or with column mapping that of the range's end.

        Args:
            start_version, start_timestamp: the first version, or a time: the first version that was committed then or later. One is needed.
            end_version, end_timestamp: the last version, or a time: the last version that was committed then or before. The newest if None.
            columns: names, in the wanted order; all columns of the table, then `_change_type` (`insert`, `update_preimage`,
                `update_postimage` or `delete`), `_commit_version` and `_commit_timestamp`, if None.
            filter: SQL text or a predicate, over these columns.

        Raises:
            DeltaAnalysisError, DeltaDataError: see `tahoe.table.change_feed.plan_feed` and `ChangeFeed.to_arrow`.
        """
        asked = AskedRange(
            start_version=start_version, end_version=end_version, start_timestamp=start_timestamp, end_timestamp=end_timestamp
        )
        return plan_feed(self.snapshot(), asked).to_arrow(columns, filter)

    # --- changing it

    @takes(operation=TEXT, txn=TXN, user_metadata=TEXT, engine=TEXT)
    def transaction(
        self,
        *,
        operation: str | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        engine: str | None = None,
    ) -> Changes:
        """Several changes in one commit, made at the end of a `with` block; see `Changes`.

        Args:
            operation: what the history calls it; by what is done if None.
            txn: application id and version; where that version or a later one is recorded, nothing is committed.
            user_metadata: for the table's history.
            engine: the program that hosts tahoe, for the history.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no table.
        """
        return Changes(self, operation=operation, txn=txn, user_metadata=user_metadata, engine=engine)

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
