"""Scans: the files of a version that Spark's Parquet reader reads, with typed partition values from the log.

For Spark, a scan is a relation over a `delta.Files`, which calls `files_message` for its files when the query runs.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tahoe.errors import SessionNotEnabledError, TableReplacedError
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.predicate import TRUE, And, Predicate
from tahoe.protocol.types.schema import Struct
from tahoe.spark.jvm.executor_cache import cached_store
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import hadoop_url
from tahoe.spark.jvm.native_engine import session_of_whole_files
from tahoe.spark.jvm.plans import expressed
from tahoe.spark.jvm.table_cache import (
    Purpose,
    feed_of,
    held_snapshot,
    metadata_identity,
    scan_of,
    settings_of_scan,
    snapshot_of,
    table_of_key,
)
from tahoe.spark.jvm.types import visible_schema
from tahoe.spark.reading.data_files import MappedColumns, file_format, relation_format
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.metadata_columns import FILE_CONSTANTS, NUMBER, ROW_INDEX, Output, hidden_field
from tahoe.table.arrow.chunks import reordered_table
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.change_feed import PART_NAMES, FeedPart, FeedRange

# Larger messages go to the JVM in a file, because that is faster than py4j's socket.
MESSAGE_BYTES_MAX = 8 << 20

# The hidden partition column with the number of a row's file, among the planned files with deletion vectors; see
# `marked_files`.
FILE_NUMBER = "__tahoe_file"

# The hidden partition column that tells the files of a snapshot apart, see `file_ordinals`; null if its files should
# not be listed.
FILE_ORDINAL = "__tahoe_file_ordinal"

# The bits of a place for the number of the file; the others are those of the snapshot.
_NUMBER_BITS = 36
_SERIALS = 1 << (62 - _NUMBER_BITS)

# Why a native engine does not read files with deletion vectors.
INDEXED = "the row index is needed, to leave out deleted rows or to find rows again"

# A native engine generates no row index. Where each file is a partition of its own, and no condition reaches the
# reader, rows are counted instead: Spark's function has the number of the partition in the bits above these.
COUNTED_ROWS = f"monotonically_increasing_id() & {(1 << 33) - 1} as {ROW_INDEX}"

# Spark's reader splits larger files between tasks, and skips what a condition excludes.
COUNTED_BYTES_MAX = 32 << 20

# Spark's reader reads several small files in one task; so many tasks take no longer.
COUNTED_FILES_MAX = 32

Branch: TypeAlias = Literal["all", "marked", "unmarked"]


def relation_of(
    gateway: Gateway,
    snapshot: Snapshot,
    java_options: JavaObject,
    *,
    pinned: bool,
    positioned: bool = False,
    within: str | None = None,
    key: str | None = None,
) -> JavaObject:
    """The relation of a version.

    Args:
        pinned: whether the relation always reads this version; else each query reads the newest version at planning.
        positioned: whether `_metadata` also has the position of a row in the table; see `metadata_columns.POSITION`.
        within: limits the files, from `within_text`; None for all files.
        key: the table's key, from `key_of`; None if the table was opened without options.
    """
    schema = visible_schema(snapshot.schema)
    partitions = partition_schema(snapshot, schema).to_json()
    identity, size_bytes = metadata_identity(snapshot), snapshot.live.size_bytes
    form, data = relation_format(gateway, snapshot, positioned=positioned), schema.to_json()
    new_relation = gateway.java_class("delta.Relation").of
    files = (
        gateway.session,
        key or snapshot.url,
        identity,
        snapshot.version,
        pinned,
        None,
        within,
        partitions,
        size_bytes,
        "",
    )
    return new_relation(*files, data, form, java_options)


def partition_schema(snapshot: Snapshot, schema: Struct) -> Struct:
    fields = [schema.find(name) for name in snapshot.partition_columns]
    return Struct(tuple(f for f in fields if f is not None))


def has_vectors(scan: Scan) -> bool:
    """Whether a file of a scan has a deletion vector."""
    if "deletionVectors" not in (scan.snapshot.protocol.reader_features or ()):
        return False
    vectors = scan.column("deletion_vector")
    return bool(vectors.null_count < len(vectors))


def marked_files(files: pa.Table) -> pa.Table:
    """The files of a scan that have a deletion vector, in the order in which `FILE_NUMBER` numbers them.

    The order depends on the files alone: the plan and the execution number them alike, even if the version was loaded
    again in between.
    """
    marked = files.filter(pc.is_valid(files["deletion_vector"]))
    vectors = {name: pc.struct_field(marked["deletion_vector"], name) for name in ("pathOrInlineDv", "offset")}
    keys = pa.table({"url": marked["url"], **vectors})
    return reordered_table(marked, pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def unmarked_files(files: pa.Table) -> pa.Table:
    """The files of a scan that have no deletion vector."""
    return files.filter(pc.is_null(files["deletion_vector"]))


def are_worth_a_task(scan: Scan, branch: Branch) -> bool:
    """Whether a native engine reads the files of a scan with row indexes no slower than Spark's reader: each in a task,
    and as a whole.
    """
    sizes = scan.column("size_bytes")
    if branch != "all":
        vectors = scan.column("deletion_vector")
        sizes = sizes.filter(vectors.is_valid() if branch == "marked" else vectors.is_null())
    return len(sizes) <= COUNTED_FILES_MAX and (pc.max(sizes).as_py() or 0) <= COUNTED_BYTES_MAX


# Why what a native engine reads is not in the local cache.
PAST_THE_CACHE = "not through the local cache, because Comet reads object stores by itself"

# With more files, labels do not count partitions, because this would delay planning.
_COUNTED_FILES_MAX = 10_000


def label_of(name: str, scan: Scan, branch: Branch, *, is_feed: bool = False, is_native: bool = False) -> str:
    """The label of a scan in Spark's plans: `file:///data/t v3 [2 of 30 files, 1 of 4 partitions]`."""
    vectors = scan.column("deletion_vector")
    mask = None if branch == "all" else vectors.is_valid() if branch == "marked" else vectors.is_null()
    kept_files = scan.kept_files if mask is None else pc.sum(mask).as_py() or 0
    parts = [f"{kept_files:,} of {scan.total_files:,} files"]
    if not is_feed and scan.snapshot.partition_columns and scan.total_files <= _COUNTED_FILES_MAX:
        values = scan.partition if mask is None else scan.partition.filter(mask)
        parts.append(f"{_distinct(values)} of {_distinct(scan.full_scan.partition)} partitions")
    if branch == "marked":
        parts.append("with deletion vectors")
    if is_native and cached_store(scan.snapshot.log.env.store) is not None:
        parts.append(PAST_THE_CACHE)
    return f"{name} v{scan.snapshot.version} [{', '.join(parts)}]"


def _distinct(values: pa.ChunkedArray) -> int:
    columns = {str(position): column for position, column in enumerate(values.flatten())}
    return int(pa.table(columns).group_by(list(columns)).aggregate([]).num_rows)


@dataclass(frozen=True, slots=True)
class Selection:
    """The files of a version that a planned scan reads.

    The scan keeps the predicate of its planning, because at execution Spark asks for files with fewer filters: only
    filters on partition columns alone or on data columns alone. Without the predicate, these could select a file with a
    deletion vector that the plan ignores.

    Attributes:
        branch: all files, or only those with a deletion vector (`marked`) or without (`unmarked`).
        predicate: files without matching rows are skipped.
        within: limits the files, from `within_text`; None for all files.
        changes: the part of a change feed that is read instead of the table; or a whole feed that is not planned yet.
        purpose: what the rows are for; leaves out the files that are not needed for it.
        names: of the columns that have another name in the scan, which is the one in the files: pairs of that and the
            table's.
    """

    branch: Branch = "all"
    predicate: Predicate = TRUE
    within: str | None = None
    changes: FeedRange | FeedPart | None = None
    purpose: Purpose | None = None
    names: tuple[tuple[str, str], ...] = ()

    def encode(self) -> str:
        """The selection as text. Equal selections have equal texts, so that Spark can reuse scans."""
        if self == Selection():
            return ""
        encoded = io.BytesIO()
        pickler = pickle.Pickler(encoded, protocol=5)
        pickler.fast = True  # no memo, so the text does not depend on whether equal parts are the same object
        pickler.dump(self)
        return base64.b64encode(encoded.getvalue()).decode()

    @staticmethod
    def decode(text: str) -> Selection:
        if not text:
            return Selection()
        decoded = pickle.loads(base64.b64decode(text))
        assert isinstance(decoded, Selection)
        return decoded


@dataclass(frozen=True, slots=True)
class Reader:
    """Creates scans of one version for one query.

    Attributes:
        key: the table's key, from `key_of`.
        is_native: whether a native engine reads what it can of these scans.
        fallback: why it reads nothing of them, from `native.fallback`; empty in a session without one.
        mapped: the columns in the files that a native engine reads for the query, if these have other names or ids
            there.
    """

    gateway: Gateway
    key: str
    snapshot: Snapshot
    name: str
    identity: str
    partitions: str
    data: str
    predicate: Predicate
    within: str | None = None
    changes: FeedPart | None = None
    purpose: Purpose | None = None
    is_native: bool = False
    fallback: str = ""
    mapped: MappedColumns | None = None

    def selection(self, branch: Branch, mapped: MappedColumns | None = None) -> str:
        """The encoded selection of a branch."""
        return Selection(
            branch, self.predicate, self.within, self.changes, self.purpose, mapped.renamed if mapped else ()
        ).encode()

    @property
    def form(self) -> JavaObject | None:
        """The file format of a scan without row indexes; see `file_format`."""
        return file_format(self.gateway, self.snapshot, is_native=self.is_native, fallback=self.fallback)

    def rows(self, scan: Scan, branch: Branch, size_bytes: int, output: Output) -> DataFrame:
        """All rows of a part of the files, with the query's output columns."""
        rows = self.dataframe(
            scan, branch, size_bytes, output.scan_columns, partitions=output.partitions, data=output.data()
        )
        return rows if output.final_columns == output.scan_columns else expressed(rows, output.final_columns)

    def dataframe(
        self,
        scan: Scan,
        branch: Branch,
        size_bytes: int,
        columns: Sequence[str],
        *,
        partitions: Sequence[str],
        data: Sequence[str],
    ) -> DataFrame:
        """The rows of a part of the files.

        Args:
            columns: SQL expressions over the relation.
            partitions: hidden columns that are constant per file.
            data: hidden columns that are in the files, or that Spark's reader generates.
        """
        gateway, is_indexed = self.gateway, ROW_INDEX in data
        is_counted = self.is_native and is_indexed and are_worth_a_task(scan, branch)
        is_native = self.is_native and (is_counted or not is_indexed)
        mapped = self.mapped if is_native else None
        hidden = [name for name in data if not (is_counted and name == ROW_INDEX)]
        relation = gateway.java_class("delta.Relation").of(
            session_of_whole_files(gateway) if is_counted else gateway.session,
            *(self.key, self.identity, self.snapshot.version, True, self.selection(branch, mapped), None),
            *(
                _with_fields(self.partitions, partitions),
                size_bytes,
                label_of(self.name, scan, branch, is_feed=self.changes is not None, is_native=is_native),
            ),
            _with_fields(mapped.schema if mapped else self.data, hidden),
            file_format(
                gateway, self.snapshot, is_native=is_native, fallback=INDEXED if self.is_native else self.fallback
            ),
            gateway.scala_map(settings_of_scan(gateway, self.key)),
        )
        first = (
            [] if mapped is None else [*mapped.columns, *map(quoted, (*_names(self.partitions), *partitions, *hidden))]
        )
        if is_counted:
            first = [*(first or ["*"]), COUNTED_ROWS]
        rows = gateway.java_class("delta.Rows").scanned(gateway.session, relation, "\0".join(first), "\0".join(columns))
        return DataFrame(rows, gateway.spark)


def _names(schema: str) -> list[str]:
    """The names of the fields of a schema's JSON."""
    return [field["name"] for field in json.loads(schema)["fields"]]


def _with_fields(schema: str, names: Sequence[str]) -> str:
    """A schema's JSON with additional fields of type long."""
    if not names:
        return schema
    return json.dumps({"type": "struct", "fields": [*json.loads(schema)["fields"], *map(hidden_field, names)]})


# --- execution: the files of a scan


@dataclass(frozen=True, slots=True)
class FilesRequest:
    """A request of a `delta.Files`.

    Attributes:
        table: its key, from `key_of`.
        metadata: the `metadata_identity` of the version.
        version: None for the newest, whatever its metadata.
        selection: the encoded `Selection`; None if no rule of ours has planned the scan.
        columns: the partition columns to return.
    """

    table: str
    metadata: str
    version: int | None
    selection: str | None
    columns: tuple[str, ...]


def files_message(gateway: Gateway, request: FilesRequest, filters: str) -> bytes | str:
    """The files of a scan as an Arrow stream (see `message_of`): path, size, modification time, and the partition
    columns.
    """
    has_numbers = any(FILE_CONSTANTS.get(name) == NUMBER or name == FILE_ORDINAL for name in request.columns)
    listing = _listing(gateway, request, filters, has_numbers=has_numbers)
    columns = [_hadoop_urls(gateway, listing["url"]), listing["size_bytes"], listing["modification_time_ms"]]
    for name in request.columns:
        hidden = name if name in (FILE_NUMBER, FILE_ORDINAL) else FILE_CONSTANTS.get(name)
        columns.append(_member(listing["partition"], name) if hidden is None else listing[hidden])
    # Java reads the columns by position, because a partition column may have any name.
    return message_of(pa.table(columns, names=[str(place) for place in range(len(columns))]))


def _member(structs: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A field of structs. `pc.struct_field` would take a name that begins with a dot or a bracket for a path."""
    return structs.flatten()[structs.type.get_field_index(name)]


def file_ordinals(snapshot: Snapshot, numbers: pa.Array) -> pa.Array:
    """Numbers of files in a snapshot, as numbers that no file of another snapshot has: of one that is loaded again, for
    example, which may list its files in another order.
    """
    if not snapshot.live.is_listed:
        return pa.nulls(len(numbers), pa.int64())
    return pc.add(numbers, pa.scalar((snapshot.serial % _SERIALS) << _NUMBER_BITS, pa.int64()))


def _listing(gateway: Gateway, request: FilesRequest, filters: str, *, has_numbers: bool) -> pa.Table:
    if request.selection is not None:
        selection = Selection.decode(request.selection)
        predicate = predicate_of(filters, dict(selection.names))
        return _selected_files(source_of(gateway, request, selection), selection, predicate, has_numbers=has_numbers)
    scan = scan_of(_snapshot(gateway, request), predicate_of(filters))
    if has_vectors(scan):  # only the rule of an enabled session applies deletion vectors
        raise SessionNotEnabledError()
    return scan.files


def _snapshot(gateway: Gateway, request: FilesRequest) -> Snapshot:
    table = table_of_key(gateway.spark, request.table)
    return (
        table.snapshot() if request.version is None else _check_metadata(snapshot_of(table, request.version), request)
    )


def _check_metadata(snapshot: Snapshot, request: FilesRequest) -> Snapshot:
    """Refuse a version that was loaded again from another table, which has taken the place of the one that the query
    was planned with.
    """
    if metadata_identity(snapshot) != request.metadata:
        raise TableReplacedError(table=snapshot.url, version=snapshot.version)
    return snapshot


def source_of(gateway: Gateway, request: FilesRequest, selection: Selection) -> Snapshot:
    """The snapshot that lists the files of a planned scan."""
    match selection.changes:
        case None if selection.within is not None:
            return held_snapshot(selection.within)
        case None:
            return _snapshot(gateway, request)
        case FeedPart(versions, name):
            return _check_metadata(feed_of(table_of_key(gateway.spark, request.table), versions).part(name), request)
        case _:  # only the rule of an enabled session plans a feed
            raise SessionNotEnabledError()


def _selected_files(
    snapshot: Snapshot, selection: Selection, predicate: Predicate, *, has_numbers: bool = False
) -> pa.Table:
    """The planned files, without the files that the filters of the running query skip.

    Args:
        has_numbers: add the positions of the files in the snapshot. To know them, all files may have to be listed.
    """
    is_narrower = predicate not in (TRUE, selection.predicate)
    if is_narrower and selection.branch != "marked":
        return _selected_files(
            snapshot, replace(selection, predicate=And((selection.predicate, predicate))), TRUE, has_numbers=has_numbers
        )
    scan = scan_of(snapshot, selection.predicate, selection.within, selection.purpose)
    files = scan.files.append_column(NUMBER, scan.file_numbers) if has_numbers or is_narrower else scan.files
    if has_numbers:
        files = files.append_column(FILE_ORDINAL, file_ordinals(snapshot, scan.file_numbers))
    if selection.branch == "unmarked":
        return unmarked_files(files)
    if selection.branch == "all":
        return files
    files = marked_files(files)
    files = files.append_column(FILE_NUMBER, pa.array(np.arange(len(files))))
    return (
        files.filter(pc.is_in(files[NUMBER], value_set=scan_of(snapshot, predicate).file_numbers))
        if is_narrower
        else files
    )


def _hadoop_urls(gateway: Gateway, urls: pa.ChunkedArray) -> pa.ChunkedArray:
    """The urls with Hadoop's scheme for S3, because a log may refer to files outside of the table as `s3://`."""
    if not len(urls) or not pc.any(pc.starts_with(urls, "s3://")).as_py():
        return urls
    return pc.replace_substring_regex(urls, "^s3://", hadoop_url(gateway, "s3://"))


def message_of(table: pa.Table) -> bytes | str:
    """A table as an Arrow stream for the JVM. A large one is a temporary file, given by its path, which the JVM
    deletes.
    """
    if table.nbytes > MESSAGE_BYTES_MAX:
        with tempfile.NamedTemporaryFile(prefix="tahoe-files-", suffix=".arrow", delete=False) as out:
            _write_stream(table, out)
        return out.name
    sink = pa.BufferOutputStream()
    _write_stream(table, sink)
    message: bytes = sink.getvalue().to_pybytes()
    return message


def _write_stream(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


def input_files(gateway: Gateway, request: FilesRequest) -> list[str]:
    """The urls for `df.inputFiles()`: the files that a planned scan may read, or all files of the version if no rule
    has planned it.
    """
    urls: list[str] = _hadoop_urls(gateway, _input_urls(gateway, request)).to_pylist()
    return urls


def _input_urls(gateway: Gateway, request: FilesRequest) -> pa.ChunkedArray:
    if request.selection is None:
        return _snapshot(gateway, request).scan().urls
    selection = Selection.decode(request.selection)
    if isinstance(selection.changes, FeedRange):
        feed = feed_of(table_of_key(gateway.spark, request.table), selection.changes)
        return pa.chunked_array(
            [chunk for name in PART_NAMES for chunk in feed.part(name).scan().urls.chunks], pa.string()
        )
    return _selected_files(source_of(gateway, request, selection), selection, TRUE)["url"]
