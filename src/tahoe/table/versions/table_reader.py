"""Reads a table: its location, its log, and the newest known snapshot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tahoe.errors import InvalidTimeTravelError, NotADeltaTableError, TableNotFoundError
from tahoe.protocol.log.actions import Protocol
from tahoe.protocol.types.moments import moment_of
from tahoe.protocol.types.schema import Struct
from tahoe.protocol.types.time_zones import zone_of
from tahoe.storage import system_env
from tahoe.storage.env import Env
from tahoe.table.arguments import (
    COUNT,
    FILTER,
    FLAG,
    LOCATION,
    NAMES,
    OPTIONS,
    OUTSIDE,
    TIMESTAMP,
    VERSION,
    ZONE,
    takes,
)
from tahoe.table.log.delta_log import Log
from tahoe.table.log.kept_commits import KeptCommits
from tahoe.table.reading.filters import Filter
from tahoe.table.reading.notebook import ShownRows, html_or_reason
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot, is_current, load_snapshot, refresh
from tahoe.table.versions.history import history, parse_timestamp, snapshot_by_file_times, version_at
from tahoe.table.versions.tags import snapshot_asked

if TYPE_CHECKING:  # optional packages
    import pandas as pd
    import polars as pl

    from tahoe.table.reading.dataset import TableDataset


class TableReader:
    """Read access to a Delta table at a location. Nothing is read before the first call, and every call sees the newest
    version.

    Args:
        location: a path or url: `/data/t`, `file:///data/t`, `s3://bucket/t`,
            `abfss://container@account.dfs.core.windows.net/t`, ...
        storage_options: credentials and settings for object stores.
        time_zone: of timestamps without a time zone, in filters, constraints, and partition values of early writers.
        env: the outside world, for tests and other hosts; made from location and options if None.
    """

    @takes(location=LOCATION, storage_options=OPTIONS, time_zone=ZONE, env=OUTSIDE)
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

    @classmethod
    def knowing(cls, log: Log, snapshot: Snapshot | None) -> TableReader:
        """A reader of a log that knows one of its versions, so that the newest one is made from it."""
        reader = TableReader(log.url, env=log.env)
        reader.log, reader._newest = log, snapshot
        return reader

    def keeping_commits(self) -> TableReader:
        """A reader of the same table for one command, which reads the same commits for several versions."""
        return TableReader.knowing(replace(self.log, kept=KeptCommits()), self._newest)

    @property
    def url(self) -> str:
        """The table's location as an absolute, unescaped url."""
        return self.env.store.url

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

    def _repr_html_(self, name: str | None = None) -> str:
        """In a notebook: location, name, version, rows, files, size, columns and the last commits; or why the table
        cannot be read.
        """
        return html_or_reason(self.url, lambda: self.snapshot()._repr_html_(name))

    def exists(self) -> bool:
        """Whether there is a Delta table here.

        >>> tahoe.Table("/data/nothing").exists()
        False
        """
        return self.log.exists()

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def snapshot(self, version: int | str | None = None, timestamp: str | date | None = None) -> Snapshot:
        """The table at a version, at the newest version not after a timestamp, or at the newest version.

        >>> table.snapshot(0).count()
        0

        Args:
            version: a version, or the name of a tag.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no table.
            VersionNotFoundError, TimestampOutOfRangeError: outside the range of versions, which the error names.
            TagNotFoundError: the table has no such tag.
            TagLostError: the version of the tag can no longer be read.
            InvalidTimeTravelError: both a version and a timestamp were given, or the timestamp is invalid.
            DeltaLogError, DeltaProtocolError: the log cannot be read.
        """
        if version is not None and timestamp is not None:
            raise InvalidTimeTravelError(table=self.url, detail="both a version and a timestamp were given")
        if timestamp is not None:
            moment_ms = parse_timestamp(timestamp, table=self.url)
            if self._newest is None and (found := snapshot_by_file_times(self.log, moment_ms)):
                return found
            version = version_at(self._load_newest(), moment_ms)
        if version is None:
            return self._load_newest()
        if isinstance(version, str):
            return snapshot_asked(self._load_newest(), version)
        known = self._newest
        return (
            known
            if known is not None and known.version == version and is_current(known)
            else load_snapshot(self.log, version)
        )

    def _load_newest(self) -> Snapshot:
        known, self._newest = self._newest, None  # if the table no longer exists, forget its snapshot
        self._newest = load_snapshot(self.log) if known is None else refresh(known)
        return self._newest

    def forget(self) -> None:
        """Load the next snapshot from the log alone."""
        self._newest = None

    def snapshot_if_exists(self) -> Snapshot | None:
        """The newest snapshot, or None if there is no table."""
        try:
            return self.snapshot()
        except (TableNotFoundError, NotADeltaTableError):
            return None

    # --- facts of the newest snapshot

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.snapshot().version

    @property
    def schema(self) -> Struct:
        """The schema of the newest version."""
        return self.snapshot().schema

    @property
    def protocol(self) -> Protocol:
        """The protocol of the newest version, with its features."""
        return self.snapshot().protocol

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties of the newest version that are set."""
        return self.snapshot().properties

    @takes(filter=FILTER)
    def scan(self, filter: Filter | None = None) -> Scan:
        """See `Snapshot.scan`.

        >>> table.scan("shop = 'B'").kept_files
        1
        """
        return self.snapshot().scan(filter)

    @takes(filter=FILTER, columns=NAMES)
    def files(self, filter: Filter | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """See `Snapshot.files`.

        >>> table.files("id = 1", columns=["path", "size_bytes"]).num_rows
        1
        """
        return self.snapshot().files(filter, columns)

    # --- rows of the newest version, or of another one

    @takes(columns=NAMES, filter=FILTER)
    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        version: int | str | None = None,
        timestamp: str | date | None = None,
    ) -> pa.Table:
        """See `Snapshot.to_arrow`; of the version that `snapshot` gives for `version` or `timestamp`.

        >>> table.to_arrow(["id"], "price >= 20")["id"].to_pylist()
        [2, 3]
        """
        return self.snapshot(version, timestamp).to_arrow(columns, filter)

    @takes(columns=NAMES, filter=FILTER, limit=COUNT)
    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        limit: int | None = None,
        version: int | str | None = None,
        timestamp: str | date | None = None,
    ) -> pa.RecordBatchReader:
        """See `Snapshot.to_batches`.

        >>> sum(batch.num_rows for batch in table.to_batches(["id"]))
        3
        """
        return self.snapshot(version, timestamp).to_batches(columns, filter, limit=limit)

    @takes(columns=NAMES, filter=FILTER)
    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        version: int | str | None = None,
        timestamp: str | date | None = None,
    ) -> pd.DataFrame:
        """See `Snapshot.to_pandas`.

        >>> int(table.to_pandas(["price"])["price"].sum())
        60
        """
        return self.snapshot(version, timestamp).to_pandas(columns, filter)

    @takes(columns=NAMES, filter=FILTER)
    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        version: int | str | None = None,
        timestamp: str | date | None = None,
    ) -> pl.DataFrame:
        """See `Snapshot.to_polars`.

        >>> table.to_polars(["price"], version=1)["price"].sum()
        60
        """
        return self.snapshot(version, timestamp).to_polars(columns, filter)

    @takes(filter=FILTER)
    def count(
        self, filter: Filter | None = None, *, version: int | str | None = None, timestamp: str | date | None = None
    ) -> int:
        """See `Snapshot.count`.

        >>> table.count("shop = 'A'")
        2
        """
        return self.snapshot(version, timestamp).count(filter)

    @takes(rows=COUNT, columns=NAMES, filter=FILTER)
    def head(
        self,
        rows: int = 5,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        version: int | str | None = None,
        timestamp: str | date | None = None,
    ) -> pa.Table:
        """See `Snapshot.head`.

        >>> table.head(1).to_pylist()
        [{'id': 1, 'shop': 'A', 'price': 10}]
        """
        return self.snapshot(version, timestamp).head(rows, columns, filter)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def to_pyarrow_dataset(
        self, *, version: int | str | None = None, timestamp: str | date | None = None
    ) -> TableDataset:
        """A version as a `pyarrow.dataset.Dataset`, to which DuckDB and Polars hand down columns and conditions of
        their queries.

        >>> import polars
        >>> polars.scan_pyarrow_dataset(table.to_pyarrow_dataset()).filter(polars.col("price") > 10).collect().height
        2
        """
        return self.snapshot(version, timestamp).to_pyarrow_dataset()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for any library that takes Arrow data: `polars.DataFrame(table)`, `duckdb.sql("from table")`."""
        return self.snapshot().__arrow_c_stream__(requested_schema)

    @takes(limit=COUNT)
    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits, newest first: `version`, `timestamp`, and the fields of `commitInfo` under their own names. A
        notebook shows them as a table.

        >>> [commit["operation"] for commit in table.history()]
        ['WRITE', 'CREATE TABLE']
        """
        commits = history(self.snapshot(), limit)
        own = ((c.info.fields, {"version": c.version, "timestamp": moment_of(c.timestamp_ms)}) for c in commits)
        return ShownRows({**first, **fields, **first} for fields, first in own)

    @takes(
        start_version=VERSION,
        end_version=VERSION,
        start_timestamp=TIMESTAMP,
        end_timestamp=TIMESTAMP,
        columns=NAMES,
        filter=FILTER,
        computed=FLAG,
    )
    def changes(
        self,
        *,
        start_version: int | str | None = None,
        end_version: int | str | None = None,
        start_timestamp: str | date | None = None,
        end_timestamp: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        computed: bool = False,
    ) -> pa.Table:
        """The rows that were inserted, updated and deleted in a range of versions.

        `delta.enableChangeDataFeed` must be enabled in all of them, unless the changes are `computed`. An updated row
        appears twice, before and after the update. The schema is the newest, or with column mapping that of the range's
        end.

        >>> table.changes(start_version=1, columns=["id", "_change_type"]).to_pylist()[0]
        {'id': 1, '_change_type': 'insert'}

        Args:
            start_version, start_timestamp: the first version, or a time: the first version committed at or after it.
                One of the two is required. A version may be the name of a tag.
            end_version, end_timestamp: the last version, or a time: the last version committed at or before it. The
                newest if None.
            columns: names, in the wanted order; all columns of the table, then `_change_type` (`insert`,
                `update_preimage`, `update_postimage` or `delete`), `_commit_version` and `_commit_timestamp`, if None.
            filter: as in `Snapshot.scan`, over these columns.
            computed: find the changes in the data files that commits removed and added, which takes longer. With
                `delta.enableRowTracking` all follow from the ids of rows; without it, inserts and deletes of commits
                that replaced no files.

        Raises:
            DeltaAnalysisError, DeltaDataError: see `tahoe.table.versions.change_feed.plan_feed` and
                `ChangeFeed.to_arrow`.
        """
        from tahoe.table.versions.change_feed import AskedRange, plan_feed  # noqa: PLC0415 - few readers read a feed

        asked = AskedRange(
            start_version=start_version,
            end_version=end_version,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            kind="computed" if computed else "recorded",
        )
        return plan_feed(self.snapshot(), asked).to_arrow(columns, filter)


def newest_known(table: TableReader) -> Snapshot | None:
    """The version of a table that was read last; None before the first read."""
    return table._newest


def go_on_from(table: TableReader, snapshot: Snapshot) -> None:
    """Make a table's next snapshot from one that was read elsewhere, if the log still continues it."""
    table._newest = replace(snapshot, log=table.log)
