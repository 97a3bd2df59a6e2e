"""Scans: which files of a version Spark's own Parquet reader is given, with typed partition values from the log.

A scan is told to Spark as a relation over a `delta.Files`, which comes back here for its files when the query runs.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tahoe.errors import SessionNotEnabledError
from tahoe.protocol.predicate import TRUE, Predicate
from tahoe.protocol.schema import Struct
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import hadoop_url
from tahoe.spark.jvm.table_cache import feed_of, given_with, held_snapshot, metadata_identity, opened, scan_of, snapshot_of
from tahoe.spark.jvm.types import visible_schema
from tahoe.spark.reading.data_files import file_format, relation_format
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.metadata_columns import FILE_CONSTANTS, Output, hidden_field
from tahoe.table.arrow.chunks import one_array
from tahoe.table.reading.change_feed import PART_NAMES, FeedPart, FeedRange
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot

# More than this goes to the JVM in a file: over the socket it would take longer than reading it there.
MESSAGE_BYTES_MAX = 8 << 20

# The hidden partition column that tells a row's file: its number among those with vectors that the query was planned with.
FILE_NUMBER = "__tahoe_file"

Branch: TypeAlias = Literal["all", "marked", "unmarked"]


def relation_of(
    gateway: Gateway,
    snapshot: Snapshot,
    given: JavaObject,
    *,
    pinned: bool,
    positioned: bool = False,
    within: str | None = None,
    key: str | None = None,
) -> JavaObject:
    """The relation of a version. Where it is not pinned, its files are those of the newest version when a query is planned.

    Args:
        positioned: its `_metadata` tells the position of a row in the table as well; see `output.POSITION`.
        within: the only files that count, from `within_text`.
        key: the table's, from `key_of`; None where nothing was given with it.
    """
    schema = visible_schema(snapshot.schema)
    partitions = partition_schema(snapshot, schema).to_json()
    identity, size_bytes = metadata_identity(snapshot), snapshot.live.size_bytes
    form, data = relation_format(gateway, snapshot, positioned=positioned), schema.to_json()
    make = gateway.java_class("delta.Relation").of
    files = (gateway.session, key or snapshot.url, identity, snapshot.version, pinned, None, within, partitions, size_bytes, "")
    return make(*files, data, form, given)


def partition_schema(snapshot: Snapshot, schema: Struct) -> Struct:
    fields = [schema.find(name) for name in snapshot.partition_columns]
    return Struct(tuple(f for f in fields if f is not None))


def has_vectors(scan: Scan) -> bool:
    """Whether a deletion vector marks rows in the files of a scan."""
    if "deletionVectors" not in (scan.snapshot.protocol.reader_features or ()):
        return False
    vectors = scan.column("deletion_vector")
    return bool(vectors.null_count < len(vectors))


# To count the partitions of more files than this would delay the plan.
_COUNTED_FILES_MAX = 10_000


def label_of(name: str, scan: Scan, branch: Branch, *, is_feed: bool = False) -> str:
    """What plans call the scan of a part of the files: `file:///data/t v3 [2 of 30 files, 1 of 4 partitions]`."""
    vectors = scan.column("deletion_vector")
    mask = None if branch == "all" else vectors.is_valid() if branch == "marked" else vectors.is_null()
    kept = scan.kept_files if mask is None else pc.sum(mask).as_py() or 0
    parts = [f"{kept:,} of {scan.total_files:,} files"]
    if not is_feed and scan.snapshot.partition_columns and scan.total_files <= _COUNTED_FILES_MAX:
        values = scan.partition if mask is None else scan.partition.filter(mask)
        parts.append(f"{_distinct(values)} of {_distinct(scan.everything.partition)} partitions")
    if branch == "marked":
        parts.append("with deletion vectors")
    return f"{name} v{scan.snapshot.version} [{', '.join(parts)}]"


def _distinct(values: pa.ChunkedArray) -> int:
    columns = {str(position): column for position, column in enumerate(values.flatten())}
    return int(pa.table(columns).group_by(list(columns)).aggregate([]).num_rows)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files of a version a planned scan reads. The predicate leaves out files that no row of the query is in.

    It stays with the scan, as Spark asks for the files with fewer filters than the plan was made with: those that partition values alone
    or data columns alone decide. A file that only they let in may have a deletion vector that nobody looks at.

    Attributes:
        changes: a part of a change feed, whose files these are in place of the table's; or all of a feed, which is not planned yet.
    """

    branch: Branch = "all"
    predicate: Predicate = TRUE
    within: str | None = None
    changes: FeedRange | FeedPart | None = None

    def encode(self) -> str:
        """Text that is equal for equal selections, so that Spark reuses what it reads by them."""
        if self == Selection():
            return ""
        encoded = io.BytesIO()
        pickler = pickle.Pickler(encoded, protocol=5)
        pickler.fast = True  # equal objects and one object that is named twice are the same text then
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
    """Makes scans of one version for one query. `key` is the table's, from `key_of`."""

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

    def rows(self, scan: Scan, branch: Branch, size_bytes: int, output: Output) -> DataFrame:
        """All rows of a part of the version's files, as a query asks for them."""
        rows = self.dataframe(scan, branch, size_bytes, output.scanned, partitions=output.partitions, data=output.data())
        return rows.selectExpr(*output.named)

    def dataframe(
        self, scan: Scan, branch: Branch, size_bytes: int, columns: Sequence[str], *, partitions: Sequence[str], data: Sequence[str]
    ) -> DataFrame:
        """A part of the version's files.

        Args:
            columns: of the relation, as expressions in SQL.
            partitions, data: hidden columns of the relation: constants of its files, and columns in them or that Spark's reader makes up.
        """
        gateway, snapshot = self.gateway, self.snapshot
        selection = Selection(branch, self.predicate, self.within, self.changes).encode()
        label, form = label_of(self.name, scan, branch, is_feed=self.changes is not None), file_format(gateway, snapshot)
        relation = gateway.java_class("delta.Relation").of(
            *(gateway.session, self.key, self.identity, snapshot.version, True, selection, None),
            *(_with_fields(self.partitions, partitions), size_bytes, label, _with_fields(self.data, data), form),
            gateway.scala_map(given_with(self.key)),
        )
        return DataFrame(gateway.java_class("delta.Rows").scanned(relation, "\0".join(columns)), gateway.spark)


def _with_fields(schema: str, names: Sequence[str]) -> str:
    """A schema's JSON with more fields, of type long."""
    if not names:
        return schema
    return json.dumps({"type": "struct", "fields": [*json.loads(schema)["fields"], *map(hidden_field, names)]})


# --- execution: the files of a scan


@dataclass(frozen=True, slots=True)
class Asked:
    """What a `delta.Files` asks for: a table's key, a version (None for the newest), which files of it, and the partition columns.

    The selection is None where no rule has planned the scan.
    """

    table: str
    version: int | None
    selection: str | None
    columns: tuple[str, ...]


def files_message(gateway: Gateway, asked: Asked, filters: str) -> bytes | str:
    """The files of a scan as an Arrow stream: path, size, modification time, and the partition columns.

    What is too long for a message is left in a temporary file, whose path is the answer; the JVM removes it.
    """
    listing = _listing(gateway, asked, predicate_of(filters))
    columns = [_hadoop_urls(gateway, listing["url"]), listing["size_bytes"], listing["modification_time_ms"]]
    for name in asked.columns:
        hidden = FILE_NUMBER if name == FILE_NUMBER else FILE_CONSTANTS.get(name)
        columns.append(pc.struct_field(listing["partition"], name) if hidden is None else listing[hidden])
    # Java goes by their places, and a partition column may have any name.
    return _message(pa.table(columns, names=[str(place) for place in range(len(columns))]))


def _listing(gateway: Gateway, asked: Asked, predicate: Predicate) -> pa.Table:
    if asked.selection is not None:
        selection = Selection.decode(asked.selection)
        return _selected(_source(gateway, asked, selection), selection, predicate)
    scan = scan_of(_snapshot(gateway, asked.table, asked.version), predicate)
    if has_vectors(scan):  # only the rule of an enabled session leaves out the rows that they mark
        raise SessionNotEnabledError()
    return scan.files


def _snapshot(gateway: Gateway, key: str, version: int | None) -> Snapshot:
    table = opened(gateway.spark, key)
    return table.snapshot() if version is None else snapshot_of(table, version)


def _source(gateway: Gateway, asked: Asked, selection: Selection) -> Snapshot:
    """Where the files of a planned scan are listed."""
    match selection.changes:
        case None if selection.within is not None:
            return held_snapshot(selection.within)
        case None:
            return _snapshot(gateway, asked.table, asked.version)
        case FeedPart(versions, name):
            return feed_of(opened(gateway.spark, asked.table), versions).part(name)
        case _:  # only the rule of an enabled session plans a feed
            raise SessionNotEnabledError()


def _selected(snapshot: Snapshot, selection: Selection, predicate: Predicate) -> pa.Table:
    """The files that were planned, without those that the filters of the query that runs leave out."""
    planned = scan_of(snapshot, selection.predicate, selection.within).files
    if selection.branch != "all":
        marked = pc.is_valid(planned["deletion_vector"])
        planned = planned.filter(marked if selection.branch == "marked" else pc.invert(marked))
        planned = planned.append_column(FILE_NUMBER, pa.array(np.arange(len(planned))))
    if predicate in (TRUE, selection.predicate):
        return planned
    found = scan_of(snapshot, predicate).files
    return planned.filter(pc.is_in(planned["number"], value_set=one_array(found["number"])))


def _hadoop_urls(gateway: Gateway, urls: pa.ChunkedArray) -> pa.ChunkedArray:
    """S3 by the scheme that Hadoop knows it by: a log may name files outside of the table by another."""
    if not len(urls) or not pc.any(pc.starts_with(urls, "s3://")).as_py():
        return urls
    return pc.replace_substring_regex(urls, "^s3://", hadoop_url(gateway, "s3://"))


def _message(table: pa.Table) -> bytes | str:
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


def input_files(gateway: Gateway, asked: Asked) -> list[str]:
    """What `df.inputFiles()` lists: the files that a planned scan may read; all of the version where no rule has planned it."""
    urls: list[str] = _hadoop_urls(gateway, _input_urls(gateway, asked)).to_pylist()
    return urls


def _input_urls(gateway: Gateway, asked: Asked) -> pa.ChunkedArray:
    if asked.selection is None:
        return _snapshot(gateway, asked.table, asked.version).scan().urls
    selection = Selection.decode(asked.selection)
    if isinstance(selection.changes, FeedRange):
        feed = feed_of(opened(gateway.spark, asked.table), selection.changes)
        return pa.chunked_array([chunk for name in PART_NAMES for chunk in feed.part(name).scan().urls.chunks], pa.string())
    return _selected(_source(gateway, asked, selection), selection, TRUE)["url"]
