"""A Delta table as the source of a streaming query: the answers to a `delta.StreamSource`.

`tahoe.table.streams.stream` decides where batches end and which files they read. A batch is a relation over these
files, marked as a part of a stream, which the optimizer's rule plans like any other read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame

from tahoe.errors import (
    InvalidOptionError,
    InvalidTimeTravelError,
    StreamTimeTravelError,
    UnsupportedOperationError,
    VersionNotFoundError,
)
from tahoe.events.kinds import StreamBatch
from tahoe.events.listeners import emit, now
from tahoe.protocol.streams.stream_offset import BASE, StreamOffset, parse_offset
from tahoe.protocol.types.schema import Struct
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import qualified_url
from tahoe.spark.jvm.plans import dataset, frame_of
from tahoe.spark.jvm.statements.streaming_plans import plan_of, sources_of
from tahoe.spark.jvm.statements.time_travel import session_moment, target_of_options
from tahoe.spark.jvm.table_cache import hold, key_of, open_table, release, table_finder, within_text
from tahoe.spark.jvm.types import visible_schema
from tahoe.spark.reading.change_feed import clips
from tahoe.spark.reading.scan import relation_of
from tahoe.spark.streams.event_time_order import event_time, is_wanted
from tahoe.spark.streams.options import LATEST, SourceOptions, parse_source_options
from tahoe.spark.streams.schema import as_analysed, as_tracked, encode_analysed, log_at_start, rules_of
from tahoe.spark.writing.store_assignment import predicate_column
from tahoe.storage.env import Store
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.streams.feed_stream import FeedStream
from tahoe.table.streams.stream import AdmissionLimit, Portion, Stream, StreamStart, TableStream
from tahoe.table.streams.stream_schema import SchemaTracker, with_tracked
from tahoe.table.versions.change_feed import feed_schema
from tahoe.table.versions.feed_columns import check_recorded
from tahoe.table.versions.history import parse_timestamp, timeline, version_at, version_from

_NO_LIMIT = -1

_FEED_METADATA = "The column _metadata in a stream of the change data feed"

# In the folder of a source in a checkpoint, for startingVersion = latest.
_START_FILE = "tahoe-starting-version"


def schema(gateway: Gateway, options: Mapping[str, str]) -> str:
    """The version and the schema of `spark.readStream.format("delta").options(...).load(path)`; see
    `streams.schema.encode_analysed`.

    Raises:
        TableNotFoundError, NotADeltaTableError: there is no table.
        InvalidOptionError, StreamOptionsConflictError, StreamTimeTravelError: an option is invalid, or is not one of
            streams.
        InvalidTimeTravelError: startingTimestamp is not a timestamp.
        ChangesNotRecordedError: the options ask for the change data feed, which the newest version does not record.
    """
    snapshot = _snapshot(gateway, options)
    source_options = parse_source_options(options, table=snapshot.url)
    _start_ms(gateway, source_options, table=snapshot.url)  # refuses what is no timestamp
    if source_options.feed:
        asked_versions = snapshot.version, snapshot.version
        check_recorded(snapshot.protocol, snapshot.properties, snapshot.version, asked_versions, table=snapshot.url)
    return encode_analysed(snapshot, _columns(as_tracked(gateway, snapshot, source_options), feed=source_options.feed))


def metadata_relation(
    gateway: Gateway, options: Mapping[str, str], given: JavaObject, *, is_alone: bool
) -> JavaObject | None:
    """The relation of the table of a stream, whose `_metadata` is that of the stream's batches; None if the stream has
    no such column.

    Args:
        given: the options as Spark passed them.
        is_alone: whether the query reads nothing else: then the column that it names can only be that of the stream.

    Raises:
        UnsupportedOperationError: the stream reads the change data feed, alone.
        DeltaError: see `schema`.
    """
    snapshot = _snapshot(gateway, options)
    is_feed = parse_source_options(options, table=snapshot.url).feed
    if is_feed and is_alone:
        detail = "its rows come from files of several kinds, which are not those of the table"
        remedy = "Select the columns of the table and of the feed, or read the table without readChangeFeed."
        raise UnsupportedOperationError(operation=_FEED_METADATA, table=snapshot.url, detail=detail, remedy=remedy)
    return None if is_feed else relation_of(gateway, snapshot, given, pinned=False, key=key_of(snapshot.url, options))


def _columns(snapshot: Snapshot, *, feed: bool) -> Struct:
    return visible_schema(feed_schema(snapshot) if feed else snapshot.schema)


def _snapshot(gateway: Gateway, options: Mapping[str, str]) -> Snapshot:
    path = next((value for name, value in options.items() if name.lower() == "path"), None)
    if not path:
        raise InvalidOptionError(
            option="path", value="missing", table="the reader", detail="reading a Delta table requires one path"
        )
    target = target_of_options(session_moment(gateway), table_finder(gateway.spark, options), path, options)
    if target.is_pinned:
        raise StreamTimeTravelError(table=target.location)
    return open_table(gateway.spark, path, options).snapshot()


def check_source(gateway: Gateway, plan: JavaObject) -> None:
    """Refuse the start of a query.

    Args:
        plan: the logical plan that starts the query, a `WriteToStreamStatement`.

    Raises:
        UnsupportedOperationError: see `event_time`.
    """
    for options in sources_of(gateway, plan):
        source_options = parse_source_options(options, table=options["path"])
        if is_wanted(gateway, source_options, table=options["path"]):
            # Refuses a watermark that does not follow a column.
            event_time(gateway, as_tracked(gateway, _snapshot(gateway, options), source_options), plan, options)


@dataclass(frozen=True, slots=True)
class Query:
    """The query of a source.

    Attributes:
        checkpoint: the folder of the source in the query's checkpoint.
        analysed: what `schema` has answered for the query's DataFrame; None if it is not known.
        id: the query's id.
    """

    checkpoint: str
    analysed: str | None
    id: str


def open_source(gateway: Gateway, options: Mapping[str, str], given: JavaObject, query: Query) -> JavaObject:
    """The `delta.StreamSource` of a query.

    Args:
        given: the options as Spark passed them, which relations must keep.
    """
    checkpoint = query.checkpoint
    newest = _snapshot(gateway, options)
    source_options = parse_source_options(options, table=newest.url)
    columns_of, rules = partial(_columns, feed=source_options.feed), rules_of(gateway.settings(), table=newest.url)
    log = log_at_start(gateway, newest, source_options, checkpoint, rules)
    tracked = None if log is None or log.current is None else with_tracked(newest, log.current)
    snapshot = as_analysed(tracked or newest, query.analysed, columns_of, is_fixed=tracked is not None)
    start = StreamStart(
        find_version=_first_version(gateway, newest.without_files(), source_options, checkpoint),
        is_given=source_options.has_start,
        exclude=source_options.exclude,
        tolerance=source_options.tolerance,
        rules=rules,
        tracker=None if log is None or rules.reads_moved_columns else SchemaTracker(log, snapshot, newest, checkpoint),
    )
    if is_wanted(gateway, source_options, table=newest.url):
        start = replace(start, event_time=event_time(gateway, snapshot, plan_of(gateway, query.id), options))
    number = str(next(_numbers))
    stream = (FeedStream if source_options.feed else TableStream)(snapshot, start, newest)
    _sources[number] = _Source(
        gateway=gateway, key=key_of(newest.url, options), given=given, stream=stream, query=query.id
    )
    limits = (_NO_LIMIT if limit is None else limit for limit in (source_options.max_files, source_options.max_bytes))
    columns = gateway.struct_of_json(columns_of(snapshot).to_json())
    return gateway.java_class("delta.StreamSource")(number, columns, f"DeltaSource[{newest.url}]", *limits)


def _first_version(
    gateway: Gateway, snapshot: Snapshot, source_options: SourceOptions, checkpoint: str
) -> Callable[[], int | None]:
    """A function that resolves the first version. It is called only if the query has not finished its first batch.

    Raises:
        VersionNotFoundError, TimestampOutOfRangeError, InvalidTimeTravelError: there is no such version or time.
    """
    is_clipped = clips(gateway)
    moment_ms = _start_ms(gateway, source_options, table=snapshot.url)

    def first_version() -> int | None:
        if moment_ms is not None:
            version = version_from(snapshot, moment_ms)
            if version > snapshot.version and not is_clipped:
                version_at(snapshot, moment_ms)  # raises an error with the range of commit times
                raise InvalidTimeTravelError(
                    table=snapshot.url, detail=f"{source_options.start_timestamp} is after the newest commit"
                )
            return version
        if source_options.start is None or isinstance(source_options.start, int):
            _check_exists(source_options.start, snapshot, clips=is_clipped)
            return source_options.start
        assert source_options.start == LATEST
        return _start_in_checkpoint(snapshot.log.env.store_at(qualified_url(gateway, checkpoint)), snapshot.version + 1)

    return first_version


def _start_ms(gateway: Gateway, source_options: SourceOptions, *, table: str) -> int | None:
    """The time at which a stream starts; None if the user has given none.

    Raises:
        InvalidTimeTravelError: it is not a timestamp.
    """
    timestamp = source_options.start_timestamp
    return None if timestamp is None else parse_timestamp(session_moment(gateway)(timestamp, table), table=table)


def _start_in_checkpoint(store: Store, version: int) -> int:
    """The version at which the query has begun, kept in its checkpoint: a first batch that is run again must not begin
    later.
    """
    with suppress(FileNotFoundError):
        return int(store.get(_START_FILE))
    store.put_if_absent(_START_FILE, str(version).encode())
    return int(store.get(_START_FILE))  # another driver of the query may have been faster


def _check_exists(version: int | None, snapshot: Snapshot, *, clips: bool) -> None:
    """Refuse a first version whose commit the log does not have; with `clips` not one after the newest version."""
    if version is None or (clips and version > snapshot.version):
        return
    commits = timeline(snapshot).commits
    earliest, latest = (commits[0].version, commits[-1].version) if commits else ("none", "none")
    if not commits or not commits[0].version <= version <= commits[-1].version:
        raise VersionNotFoundError(table=snapshot.url, version=version, earliest=earliest, latest=latest)


# --- running queries


@dataclass(kw_only=True)
class _Source:
    """The source of a running query.

    Attributes:
        query: the query's id.
        ends_now: whether the query reads up to the newest version of its start (the trigger AvailableNow).
        last: that end, once it is known.
        held: the names of the snapshots of the last two batches.
    """

    gateway: Gateway
    key: str
    given: JavaObject
    stream: Stream[Any]
    query: str
    ends_now: bool = False
    last: StreamOffset | None = None
    held: list[list[str]] = field(default_factory=list)

    def offset(self, text: str | None) -> StreamOffset | None:
        return None if text is None else parse_offset(text, self.stream.table_id, table=self.stream.snapshot.url)

    def end(self, after: StreamOffset | None, limit: AdmissionLimit) -> StreamOffset | None:
        if after is None:
            return self.stream.first_end(limit, self.last)
        return self.stream.next_end(after, limit, self.last)

    def frame(self, portion: Portion, names: list[str]) -> DataFrame:
        names.append(name := hold(portion.snapshot, marked=portion.marked, version_of=self.stream.version_of))
        within = within_text(name, None if portion.numbers is None else portion.numbers.tolist())
        relation = relation_of(self.gateway, portion.snapshot, self.given, pinned=True, within=within, key=self.key)
        frame = frame_of(self.gateway.java_class("delta.Rows").streamed(relation), self.gateway.spark)
        return (
            frame
            if portion.rows is None
            else frame.where(predicate_column(portion.rows.predicate(), portion.snapshot.schema))
        )

    def told(self, portions: Sequence[Portion], last: StreamOffset, begun: float) -> StreamBatch:
        """The event of a batch that ends at an offset."""
        scans = [
            scan if portion.numbers is None else scan.within(portion.numbers.tolist())
            for portion in portions
            for scan in (portion.snapshot.full_scan,)
        ]
        is_before = last.index == BASE and not last.is_initial  # nothing of the version itself is read
        return StreamBatch(
            table=self.stream.snapshot.url,
            duration_seconds=now() - begun,
            side="source",
            version=last.version - is_before,
            query=self.query or None,
            files_read=sum(scan.kept_files for scan in scans),
            bytes_read=sum(scan.size_bytes for scan in scans),
        )

    def release(self, kept: int) -> None:
        """Release the snapshots of all but the last batches."""
        while len(self.held) > kept:
            for name in self.held.pop(0):
                release(name)


_sources: dict[str, _Source] = {}
_numbers = itertools.count(1)


def until_now(number: str) -> None:
    """The query is to read what exists when it begins, and then end."""
    _sources[number].ends_now = True


def end(number: str, start: str | None, files: int, size: int) -> str | None:
    """The end of the batch after an offset, as JSON; None if there is nothing to read yet.

    Args:
        files, size: the limits of the batch in files and bytes; -1 for none.
    """
    source = _sources[number]
    after = source.offset(start)
    if source.ends_now and source.last is None:
        source.last = source.end(after, AdmissionLimit())
    offset = source.end(after, AdmissionLimit(*(None if limit == _NO_LIMIT else limit for limit in (files, size))))
    return None if offset is None else offset.to_json()


def committed(number: str, end: str) -> None:
    """Everything up to an offset is processed.

    Raises:
        StreamSchemaEvolvedError: the stream is at a change of its tracked schema.
    """
    source = _sources[number]
    offset = source.offset(end)
    assert offset is not None
    source.stream.commits.forget(offset.version)
    source.stream.schema.committed(offset)


def batch(number: str, start: str | None, stop: str) -> JavaObject:
    """The rows between two offsets, as a streaming `Dataset`."""
    begun, source = now(), _sources[number]
    first, last = source.offset(start), source.offset(stop)
    assert last is not None
    portions = [] if first == last else source.stream.portions(first, last)
    if first is not None and not first.is_initial:
        source.stream.forget_initial()
    names: list[str] = []
    source.held.append(names)
    frames = [source.frame(portion, names) for portion in portions or [source.stream.nothing(last)]]
    source.release(2)
    emit(StreamBatch, lambda: source.told(portions, last, begun))
    return dataset(reduce(lambda union, frame: union.unionAll(frame), frames))


def newest(number: str) -> str:
    """The offset of everything that was seen in the log, as JSON."""
    stream = _sources[number].stream
    return StreamOffset(table_id=stream.table_id, version=stream.commits.newest + 1).to_json()


def metrics(number: str, consumed: str | None) -> JavaObject:
    """What is left to read after an offset: a Java map of texts."""
    source = _sources[number]
    files, size = source.stream.outstanding(source.offset(consumed))
    figures = {"numFilesOutstanding": files, "numBytesOutstanding": size, "latestVersion": source.stream.commits.newest}
    return source.gateway.text_map({name: str(value) for name, value in figures.items()})


def stopped(number: str) -> None:
    """The query has ended."""
    source = _sources.pop(number, None)
    if source is not None:
        source.release(0)
