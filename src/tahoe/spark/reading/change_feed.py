"""The change data feed as a Spark source: `spark.read.format("delta").option("readChangeFeed", "true")`, by path and by
name.

When a DataFrame is created, its range is resolved and its files are listed. An open end is the newest version at that
time. So the schema, which may be the end version's, fits the rows, and every action on the DataFrame sees the same
changes. As commits never change, a feed is listed once, and each query skips files in it.

Spark analyses a `delta.Changes`, which only names the feed. The rule that plans all our tables calls `plan_change_feed`
for its rows, which are a union of at most three scans for any number of versions. `tahoe.table.versions.change_feed`
defines the three parts. Each is scanned as a table with additional partition columns, so that predicates on versions,
times and kinds of change skip files like predicates on partitions.

Protocol: "Reader Requirements for AddCDCFile".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tahoe.events.listeners import now
from tahoe.protocol.types.predicate import Predicate
from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.flags import parse_flag
from tahoe.spark.jvm.attached_catalogs import block_of
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import dataset
from tahoe.spark.jvm.statements.time_travel import MomentOf, TimeTravelTarget, session_moment, target_of_options
from tahoe.spark.jvm.table_cache import (
    feed_of,
    key_of,
    metadata_identity,
    open_table,
    remember,
    remember_feed,
    scan_of,
    table_finder,
    table_of_key,
)
from tahoe.spark.jvm.types import visible_schema
from tahoe.spark.reading.computed_changes import computed_changes
from tahoe.spark.reading.deletion_vectors import marked_rows, unmarked_rows
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.metadata_columns import Output, output_of
from tahoe.spark.reading.scan import Reader, Selection, has_vectors, partition_schema
from tahoe.table.reading.scan import told_plan
from tahoe.table.versions.change_feed import (
    PART_NAMES,
    AskedRange,
    ChangeFeed,
    FeedKind,
    FeedPart,
    FeedRange,
    PartName,
    plan_feed,
)

ENABLED_OPTIONS = ("readChangeFeed", "readChangeData")
COMPUTED_OPTION = "computeChanges"
START_VERSION, START_TIMESTAMP = "startingVersion", "startingTimestamp"
END_VERSION, END_TIMESTAMP = "endingVersion", "endingTimestamp"

# Settings of the reference, and their defaults there.


def is_asked_for(options: Mapping[str, str], table: str) -> bool:
    """Whether a reader's options, by lower-cased names, ask for the change data feed.

    Raises:
        InvalidOptionError: an option is neither true nor false.
    """
    flags = [parse_flag(options.get(name.lower(), "false"), name, table=table) for name in ENABLED_OPTIONS]
    return any(flags)


def asked_range(options: Mapping[str, str], moment_of: MomentOf, table: str) -> AskedRange:
    """The range of versions or timestamps in a reader's options, by lower-cased names.

    Raises:
        InvalidOptionError, InvalidTimeTravelError: a version or a timestamp is invalid.
    """
    versions = {name: options.get(name.lower()) for name in (START_VERSION, END_VERSION)}
    for name, text in versions.items():
        if text is not None and not re.fullmatch(r"\s*[+-]?\d+\s*", text):
            raise InvalidOptionError(
                option=name, value=text, table=table, detail="it must be a version, a non-negative integer"
            )
    start, end = (None if text is None else int(text) for text in versions.values())
    times = (options.get(name.lower()) for name in (START_TIMESTAMP, END_TIMESTAMP))
    from_time, to_time = (None if text is None else moment_of(text, table) for text in times)
    kind = feed_kind(options.get(COMPUTED_OPTION.lower(), "false"), table)
    return AskedRange(start_version=start, end_version=end, start_timestamp=from_time, end_timestamp=to_time, kind=kind)


def feed_kind(text: str, table: str) -> FeedKind:
    """The kind of feed that the option `computeChanges` asks for.

    Raises:
        InvalidOptionError: it is something else.
    """
    kinds: dict[str, FeedKind] = {"false": "recorded", "true": "computed", "unpaired": "unpaired", "net": "net"}
    kind = kinds.get(text.strip().lower())
    if kind is None:
        detail = "it must be true, false, net or unpaired"
        raise InvalidOptionError(option=COMPUTED_OPTION, value=text, table=table, detail=detail)
    return kind


def check_not_pinned(target: TimeTravelTarget) -> None:
    """Refuse to combine the change data feed with time travel."""
    if target.is_pinned:
        detail = "the feed has the changes of a range of versions, not of a single version"
        remedy = "Leave out versionAsOf and timestampAsOf, and end the range with endingVersion or endingTimestamp."
        raise UnsupportedOperationError(
            operation="Time travel with readChangeFeed", table=target.location, detail=detail, remedy=remedy
        )


# --- analysis


def relation(gateway: Gateway, path: str, options: Mapping[str, str], java_options: JavaObject) -> JavaObject:
    """The relation of a change data feed.

    Args:
        java_options: the options as Spark passed them, which the relation must keep.

    Raises:
        DeltaAnalysisError: see `plan_feed`; or the options also ask for time travel.
    """
    moment_of = session_moment(gateway)
    target = target_of_options(moment_of, table_finder(gateway.spark, options), path, options)
    check_not_pinned(target)
    versions = asked_range({name.lower(): value for name, value in options.items()}, moment_of, path)
    newest = remember(open_table(gateway.spark, target.location, options).snapshot())
    mode = setting_names.FEED_SCHEMA_MODE.of(gateway.spark.conf, table=newest.url)
    feed = remember_feed(plan_feed(newest, versions, mode=mode, clip=clips(gateway)))
    changes = gateway.java_class("delta.Changes")(
        key_of(feed.url, options, block_of(gateway)),
        feed.range.end,
        Selection(changes=feed.range).encode(),
        feed.size_bytes,
    )
    return gateway.java_class("delta.Relation").ofChanges(
        gateway.session, changes, visible_schema(feed.schema).to_json(), java_options
    )


def clips(gateway: Gateway) -> bool:
    """Whether a start after the newest version gives an empty feed instead of an error."""
    return setting_names.FEED_CLIPS.of(gateway.spark.conf)


# --- planning


def plan_change_feed(
    gateway: Gateway, table: str, versions: str, name: str, data: str, output: str, filters: str
) -> JavaObject:
    """Plan how one query reads a feed: a `delta.Planned` with rows.

    Args:
        table: its key, from `key_of`.
        versions: the selection that `relation` has encoded.
        name: the table's name in a catalog, or empty.
        data, output, filters: in JSON, the schema after column pruning, the columns that the query uses, and conditions
            that hold for every row it uses; see `planning.plan_scan`.
    """
    begun, feed_range = now(), Selection.decode(versions).changes
    assert isinstance(feed_range, FeedRange)
    feed = feed_of(table_of_key(gateway.spark, table), feed_range)
    remember(feed.snapshot)  # so that the error for a missing file can name the table
    reader = _FeedReader(gateway, table, feed, name or feed.url, data, begun)
    if feed_range.kind == "recorded":
        rows = reader.rows(output_of(output, None), predicate_of(filters))
    else:
        rows = computed_changes(reader.rows, feed, output, filters)
    return gateway.java_class("delta.Planned")(feed_range.end, "", "", 0, "", None, dataset(rows), False, None)


@dataclass(frozen=True, slots=True)
class _FeedReader:
    """Reads the rows of a feed for one query.

    Attributes:
        begun: when its planning began, by `tahoe.events.listeners.now`.
    """

    gateway: Gateway
    key: str
    feed: ChangeFeed
    name: str
    data: str
    begun: float

    def rows(self, output: Output, predicate: Predicate) -> DataFrame:
        """The union of the parts' scans. Parts without files after skipping are left out, but at least one part is
        kept.
        """
        scans = {name: scan_of(self.feed.part(name), predicate) for name in PART_NAMES}
        names: list[PartName] = [name for name in PART_NAMES if scans[name].kept_files] or ["whole"]
        first, *others = (self._part_rows(name, output, predicate) for name in names)
        rows = reduce(lambda union, rows: union.unionAll(rows), others, first)
        told_plan(self.feed.range.end, list(scans.values()), self.begun, engine="spark", purpose="changes")
        return rows

    def _part_rows(self, part: PartName, output: Output, predicate: Predicate) -> DataFrame:
        """The rows of one part of a feed. In the part `remarked`, the deletion vectors mark the rows that changed, so
        that only marked rows are read.
        """
        snapshot = self.feed.part(part)
        scan = scan_of(snapshot, predicate)
        reader = Reader(
            gateway=self.gateway,
            key=self.key,
            snapshot=snapshot,
            name=f"{self.name} changes from v{self.feed.range.start} to",
            identity=metadata_identity(snapshot),
            partitions=partition_schema(snapshot, visible_schema(snapshot.schema)).to_json(),
            data=self.data,
            predicate=predicate,
            changes=FeedPart(self.feed.range, part),
        )
        if not has_vectors(scan):
            return reader.rows(scan, "all", scan.size_bytes, output)
        return marked_rows(reader, scan, output) if part == "remarked" else unmarked_rows(reader, scan, output)
