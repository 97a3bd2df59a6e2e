"""Delta tables in a Spark Connect session, which has no JVM: a Python data source (Spark's public API).

`format("delta")` supports reads, the change data feed, time travel and writes. Spark pushes filters down, which skip
files. Rows pass through Python, and SQL cannot name the tables. Spark passes only part of a write to a Python data
source; `connect_commands` passes the rest as options. The server's Python must have tahoe installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql.datasource as ds
from pyspark.sql.types import StructType

from tahoe._version import VERSION
from tahoe.errors import InvalidOptionError, OperationNotYetSupportedError, UnsupportedOperationError
from tahoe.protocol.types import predicate as p
from tahoe.spark.jvm.statements.time_travel import (
    TimeTravelTarget,
    check_names_no_version,
    iso_moment,
    target_of_options,
)
from tahoe.spark.jvm.types import delta_schema, spark_schema
from tahoe.spark.reading.change_feed import asked_range, check_not_pinned, is_asked_for
from tahoe.spark.writing.write_options import MODE, SETTINGS, WriteOptions, parse_options
from tahoe.storage.background import finish_background
from tahoe.table.arrow.chunks import taken_table
from tahoe.table.commit.continuity import gone
from tahoe.table.layout.auto_compaction import auto_compacted
from tahoe.table.log.file_parts import COLUMNS, MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.rows import read_rows
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.versions.change_feed import PART_NAMES, ChangeFeed, plan_feed
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.arrow_writer import commit_files, delete_files, write_files
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_request import Mode, WriteRequest, WrittenFile

# A read task gets files of at most this many bytes together; a write task starts a new file after this many rows.
TASK_BYTES = 128 << 20
FILE_ROWS = 1 << 20

SLOWER = (
    "This is a Spark Connect session: Delta tables are read and written through Python, several times slower than "
    "in a session with its "
    'own JVM, and only with format("delta") and a path. Table names in SQL and DeltaTable are not available. Run '
    "DESCRIBE HISTORY and "
    "DESCRIBE DETAIL with tahoe.sql(spark, text)."
)


def register(spark: Any) -> None:
    """Register the source `delta` in a Spark Connect session."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(type("DeltaSource", (DeltaSource,), {"zone": zone}))


class DeltaSource(ds.DataSource):
    """The data source that the Connect server instantiates for each read and write."""

    zone = "UTC"

    @classmethod
    def name(cls) -> str:
        return "delta"

    def _path(self) -> str:
        path = self.options.get("path")
        if not path:
            raise InvalidOptionError(
                option="path", value="missing", table="the table", detail="a Delta table requires one path"
            )
        return str(path)

    def _target(self) -> TimeTravelTarget:
        return target_of_options(iso_moment(self.zone), self._exists, self._path(), dict(self.options))

    def _exists(self, location: str) -> bool:
        return self._table(location).exists()

    def _table(self, location: str) -> Table:
        credentials = {name: value for name, value in self.options.items() if name.startswith("fs.")}
        return Table(location, credentials, time_zone=self.zone)

    def _feed(self, target: TimeTravelTarget) -> ChangeFeed | None:
        """The change data feed that the options ask for; None if they ask for the table's rows."""
        by_name = {name.lower(): value for name, value in dict(self.options).items()}
        if not is_asked_for(by_name, target.location):
            return None
        check_not_pinned(target)
        return plan_feed(
            self._table(target.location).snapshot(), asked_range(by_name, iso_moment(self.zone), target.location)
        )

    def schema(self) -> StructType:
        target = self._target()
        feed = self._feed(target)
        return spark_schema(target.snapshot(self._table(target.location)).schema if feed is None else feed.schema)

    def reader(self, schema: StructType) -> ds.DataSourceReader:  # noqa: ARG002  PySpark's signature
        target = self._target()
        table = self._table(target.location)
        feed = self._feed(target)
        if feed is not None:
            return _Reader({part: feed.part(part) for part in PART_NAMES})
        return _Reader({"rows": target.snapshot(table)})

    def writer(self, schema: StructType, overwrite: bool) -> ds.DataSourceWriter:
        check_names_no_version(self._exists, self._path())
        table = self._table(self._path())
        options = parse_options(dict(self.options), json.loads(self.options.get(SETTINGS, "{}")), table=table.url)
        _check_options(options, table.url)
        names = self.options.get("partitionBy")
        if options.partition_by is None and names is not None:
            options = replace(options, partition_by=tuple(name.strip() for name in names.split(",") if name.strip()))
        mode: Mode = "overwrite" if overwrite else _MODES[self.options.get(MODE, "append")]
        return _Writer(table, _request(table, schema, options, mode))

    def streamReader(self, schema: StructType) -> ds.DataSourceStreamReader:  # noqa: ARG002, N802  PySpark's signature
        raise OperationNotYetSupportedError(
            operation="readStream", table=self._target().location, tahoe_version=VERSION
        )


# --- reading

# The columns of the live files that reading rows needs.
_SENT = (
    "path",
    "size_bytes",
    "modification_time_ms",
    "partition_values",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
)


@dataclass
class _Files(ds.InputPartition):
    """Some files of one table of a reader, as columns."""

    part: str
    files: pa.Table


class _Reader(ds.DataSourceReader):
    """Reads a table, or a change data feed as the tables that are its parts.

    Spark plans in one process and reads in others. Each task gets its files with everything that reading needs, and
    loads nothing from the log: another process may list the files of a version in another order, or find another table
    at the path.
    """

    def __init__(self, tables: Mapping[str, Snapshot]) -> None:
        self._tables = tables
        self._predicate: p.Predicate = p.TRUE

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to the tasks: the tables without their files."""
        return {
            **self.__dict__,
            "_tables": {part: _with_files(table, LiveFiles(())) for part, table in self._tables.items()},
        }

    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:  # noqa: N802  PySpark's name
        """Use the filters to skip files. All filters are returned, so Spark also applies them to the rows."""
        self._predicate = p.And(tuple(_predicate(f) for f in filters)) if filters else p.TRUE
        return filters

    def partitions(self) -> Sequence[ds.InputPartition]:
        return [_Files(part, files) for part, table in self._tables.items() for files in self._groups(table)]

    def _groups(self, table: Snapshot) -> Iterator[pa.Table]:
        """The files that may match, in one group per task; at least one group, which may be empty."""
        scan = table.scan(None if self._predicate == p.TRUE else self._predicate)
        files = pa.table({name: scan.column(name) for name in _SENT})
        start, size = 0, 0
        for number, size_bytes in enumerate(files["size_bytes"].to_pylist()):
            if number > start and size + size_bytes > TASK_BYTES:
                yield _row_range(files, start, number)
                start, size = number, 0
            size += size_bytes
        yield _row_range(files, start, len(files))

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Files)
        files = {name: partition.files[name] for name in _SENT}
        missing = {
            name: pa.nulls(len(partition.files), column.type) for name, column in COLUMNS.items() if name not in files
        }
        table = _with_files(self._tables[partition.part], LiveFiles([MemoryPart(pa.table({**files, **missing}))]))
        for number in range(len(table.live)):
            one = Scan(table, None, pa.array([number]))
            yield from read_rows(one, marked=partition.part == "remarked").to_batches()


def _with_files(table: Snapshot, files: LiveFiles) -> Snapshot:
    """A table as reading rows needs it, with other files."""
    return replace(table, live=files, txns={}, domains={})


def _row_range(files: pa.Table, start: int, end: int) -> pa.Table:
    """A copy, because a slice would be sent with all rows of the table."""
    return taken_table(files, pa.array(np.arange(start, end)))


def _predicate(given: ds.Filter) -> p.Predicate:
    """A filter of Spark's as a predicate; `Unknown` for filters that cannot skip files."""
    match given:
        case ds.Not(child):
            return p.Not(_predicate(child))
        case ds.IsNull(column):
            return p.IsNull(p.Column(tuple(column)))
        case ds.IsNotNull(column):
            return p.Not(p.IsNull(p.Column(tuple(column))))
        case ds.In(column, values):
            return p.In(p.Column(tuple(column)), tuple(values))
        case ds.StringStartsWith(column, prefix):
            return p.StartsWith(p.Column(tuple(column)), prefix)
        case (
            ds.EqualTo(column, value)
            | ds.EqualNullSafe(column, value)
            | ds.LessThan(column, value)
            | ds.LessThanOrEqual(column, value)
            | ds.GreaterThan(column, value)
            | ds.GreaterThanOrEqual(column, value)
        ):
            return p.Comparison(_OPERATORS[type(given)], p.Column(tuple(column)), p.Literal(value))
        case _:
            return p.Unknown(type(given).__name__)


_OPERATORS: Mapping[type[Any], p.Operator] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "<=>",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
}


# --- writing

_MODES: Mapping[str, Mode] = {"append": "append", "error": "error", "ignore": "ignore"}


def _check_options(options: WriteOptions, table: str) -> None:
    """Refuse options that need Spark's engine. Ignoring them would replace other rows than the user wants."""
    for name, value in (("replaceUsing", options.replace_using), ("replaceOn", options.replace_on)):
        if value is not None:
            raise UnsupportedOperationError(
                operation=f"The option {name}",
                table=table,
                detail=(
                    "a Spark Connect session writes through Python, which cannot match rows of the table with rows of "
                    "the data"
                ),
                remedy="Use replaceWhere on partition columns to select the rows to replace.",
            )


def _request(table: Table, schema: StructType, options: WriteOptions, mode: Mode) -> WriteRequest:
    return replace(
        options.request(mode, delta_schema(schema, table=table.url)), casts=Casts.NONE, engine="Apache-Spark-Connect"
    )


@dataclass
class _Written(ds.WriterCommitMessage):
    files: list[WrittenFile]
    rows: int


@dataclass(frozen=True)
class _Base:
    """The version that a write was planned on, for another process."""

    version: int
    table_id: str

    def snapshot(self, table: TableReader) -> Snapshot:
        """Load the version.

        Raises:
            MetadataChangedException: the path has another table by now.
        """
        found = table.snapshot(self.version)
        if found.metadata.id != self.table_id:
            raise gone(table.log, self.version)
        return found


class _Writer(ds.DataSourceArrowWriter):
    """Plans the write once, in the server. Tasks write files, and the server commits them."""

    def __init__(self, table: Table, request: WriteRequest) -> None:
        plan = plan_write(table, request)
        snapshot = None if plan is None else plan.snapshot
        self._base = None if snapshot is None else _Base(snapshot.version, snapshot.metadata.id)
        # the plan is sent to the tasks without the snapshot
        self._plan = None if plan is None else replace(plan, snapshot=None, table=_bare(table))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ds.WriterCommitMessage:
        files: list[WrittenFile] = []
        rows = 0
        if self._plan is not None:
            for data in _tables(iterator):
                files.extend(write_files(self._plan, data))
                rows += data.num_rows
        return _Written(files, rows)

    def commit(self, messages: list[ds.WriterCommitMessage | None]) -> None:
        if self._plan is None:
            return
        table = self._plan.table
        snapshot = None if self._base is None else self._base.snapshot(table)
        with auto_compacted(table):
            commit_files(
                replace(self._plan, snapshot=snapshot),
                _files(messages),
                sum(m.rows for m in messages if isinstance(m, _Written)),
            )
        finish_background()  # the worker's process may be gone right after this

    def abort(self, messages: list[ds.WriterCommitMessage | None]) -> None:
        if self._plan is not None:
            delete_files(self._plan, _files(messages))


def _bare(table: Table) -> Table:
    return Table(table.url, time_zone=str(table.log.zone), env=table.env)


def _files(messages: Sequence[ds.WriterCommitMessage | None]) -> list[WrittenFile]:
    return [file for message in messages if isinstance(message, _Written) for file in message.files]


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combines batches into tables of about `FILE_ROWS` rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= FILE_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting and any(b.num_rows for b in waiting):
        yield pa.Table.from_batches(waiting)
