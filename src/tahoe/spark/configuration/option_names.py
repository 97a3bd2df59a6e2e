"""The options that readers and writers of Delta tables take, and a warning about options that have no effect. Pure.

Spark passes every option to the source, and ignores none and refuses none itself: a misspelt name would go unnoticed.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FrameType


class OptionContext(Enum):
    """Where a user gives options. The values are what messages call it."""

    READ = "spark.read"
    READ_STREAM = "spark.readStream"
    READ_STREAM_OF_FEED = "spark.readStream with readChangeFeed"
    WRITE = "df.write"
    WRITE_STREAM = "df.writeStream"


_STREAMS = (OptionContext.READ_STREAM, OptionContext.READ_STREAM_OF_FEED)
_READERS = (OptionContext.READ, *_STREAMS)
_WRITERS = (OptionContext.WRITE, OptionContext.WRITE_STREAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of readers or writers.

    Attributes:
        meaning: Markdown, for the page of the options.
        default: as a user would write it; empty if there is none.
        refused: where the option is known, and always an error.
        same_as: the name that is preferred, if this is another one for the same.
    """

    name: str
    places: tuple[OptionContext, ...]
    meaning: str
    default: str = ""
    refused: tuple[OptionContext, ...] = ()
    same_as: str = ""


def _time_travel(name: str, meaning: str) -> Option:
    return Option(name=name, places=(OptionContext.READ,), meaning=meaning, refused=_STREAMS)


def _stream_option(name: str, meaning: str, default: str = "") -> Option:
    return Option(name=name, places=_STREAMS, meaning=meaning, default=default)


def _changes_option(name: str, meaning: str, same_as: str = "") -> Option:
    """What a stream of rows does at a commit that deletes or changes rows; a stream of a change data feed reads such
    commits.
    """
    return Option(name=name, places=(OptionContext.READ_STREAM,), meaning=meaning, default="false", same_as=same_as)


def _parquet_option(name: str, meaning: str, setting: str) -> Option:
    """An option of Spark's reader of data files."""
    return Option(name=name, places=_READERS, meaning=meaning, default=f"`spark.sql.{setting}`")


def _acknowledging(name: str, change: str) -> Option:
    return _stream_option(
        name, f"accepts, in a stream that tracks its schema, {change}: `always`, or the version of one change"
    )


def _write_option(name: str, meaning: str, default: str = "") -> Option:
    return Option(
        name=name,
        places=(OptionContext.WRITE,),
        meaning=meaning,
        default=default,
        refused=(OptionContext.WRITE_STREAM,),
    )


_FEED_MEANING = "read the change data feed instead of rows"
_LOCATION_MEANING = (
    "where the stream keeps the log of its schemas: its checkpoint, or a folder below it; not with `failOnDataLoss` = "
    "`false`"
)

OPTIONS: tuple[Option, ...] = (
    Option(
        name="path",
        places=(*_READERS, *_WRITERS),
        meaning="the folder of the table; `load(path)` and `save(path)` set it",
    ),
    _time_travel("versionAsOf", "the version to read, or the name of a tag"),
    _time_travel("timestampAsOf", "read the version that was the newest at this time"),
    Option(name="readChangeFeed", places=_READERS, meaning=_FEED_MEANING, default="false"),
    Option(name="readChangeData", places=_READERS, meaning=_FEED_MEANING, default="false", same_as="readChangeFeed"),
    Option(
        name="computeChanges",
        places=(OptionContext.READ,),
        meaning=(
            "with `readChangeFeed`: [compute the changes](../reference/reading.md#changes-that-were-not-recorded) from "
            "the data files, where the change data feed is not enabled"
        ),
        default="false",
        refused=_STREAMS,
    ),
    Option(
        name="startingVersion",
        places=_READERS,
        meaning=(
            "the first version of a change data feed; of a stream, which then leaves out the rows from before. "
            "A stream also takes `latest`, the version after the newest. The checkpoint of a stream that has "
            "made progress takes precedence"
        ),
    ),
    Option(
        name="startingTimestamp",
        places=_READERS,
        meaning="the same as a time: begin with the first commit at or after it",
    ),
    Option(
        name="endingVersion",
        places=(OptionContext.READ,),
        meaning="the last version of a change data feed",
        default="the newest",
    ),
    Option(name="endingTimestamp", places=(OptionContext.READ,), meaning="the same as a time"),
    _stream_option("maxFilesPerTrigger", "how many files a batch reads at most", "1000 if neither limit is given"),
    _stream_option("maxBytesPerTrigger", "a size such as `1g`: the file that reaches it is the last of its batch"),
    _stream_option("excludeRegex", "files whose paths match are not read"),
    _stream_option("failOnDataLoss", "`false`: go on if the log no longer has the next commit", "true"),
    _stream_option(
        "withEventTimeOrder",
        "read the rows that the table has when the query begins [in the order of event "
        "time](../reference/streams.md#order-of-event-time)",
        "the setting of this name",
    ),
    _changes_option("ignoreDeletes", "pass over commits that only remove whole files"),
    _changes_option("skipChangeCommits", "pass over all commits that delete or change rows"),
    _changes_option(
        "ignoreChanges", "read every file that such a commit adds. Rows that it did not change are read again"
    ),
    _changes_option("ignoreFileDeletion", "an older name of the same", same_as="ignoreChanges"),
    _stream_option("schemaTrackingLocation", _LOCATION_MEANING),
    Option(name="schemaLocation", places=_STREAMS, meaning=_LOCATION_MEANING, same_as="schemaTrackingLocation"),
    _stream_option(
        "streamingSourceTrackingId",
        "a name that distinguishes streams of the same table in one query that tracks schemas",
    ),
    _acknowledging("allowSourceColumnRename", "renamed columns"),
    _acknowledging("allowSourceColumnDrop", "dropped columns"),
    _acknowledging("allowSourceColumnTypeChange", "wider types"),
    _parquet_option("ignoreMissingFiles", "pass over data files that do not exist", "files.ignoreMissingFiles"),
    _parquet_option("ignoreCorruptFiles", "pass over data files that cannot be read", "files.ignoreCorruptFiles"),
    _parquet_option(
        "datetimeRebaseMode",
        "how dates and times before 1900 are read, as in Spark",
        "parquet.datetimeRebaseModeInRead",
    ),
    _parquet_option("int96RebaseMode", "the same for timestamps of 12 bytes (INT96)", "parquet.int96RebaseModeInRead"),
    Option(
        name="mergeSchema",
        places=_WRITERS,
        meaning=(
            "add the columns that the table lacks, at every depth, and widen types where `delta.enableTypeWidening` "
            "is true"
        ),
        default="`spark.databricks.delta.schema.autoMerge.enabled`",
    ),
    Option(
        name="overwriteSchema",
        places=_WRITERS,
        meaning="replace the schema and the partitioning, in an overwrite of the whole table",
        default="false",
    ),
    _write_option("replaceWhere", "overwrite only the rows that match this condition; the new rows must match it"),
    _write_option(
        "replaceUsing",
        "columns, separated by commas: overwrite the rows that have the same values in them as a new row",
    ),
    _write_option(
        "replaceOn",
        "a condition over new rows and rows of the table: overwrite those for which it holds with a new row",
    ),
    _write_option("targetAlias", "the name of the table in `replaceOn`"),
    _write_option(
        "partitionOverwriteMode",
        "`dynamic`: overwrite only the partitions that new rows have; `static`: all of them",
        "`spark.sql.sources.partitionOverwriteMode`",
    ),
    _write_option("txnAppId", "the id of an application that numbers its writes; requires `txnVersion`"),
    _write_option(
        "txnVersion", "the number of the write. If the table has it or a later one for the id, nothing is written"
    ),
    _write_option(
        "dataChange",
        "`false`: the write only arranges rows anew, so that streams and change data feeds pass over it",
        "true",
    ),
    Option(
        name="userMetadata",
        places=_WRITERS,
        meaning="a text for the history",
        default="`spark.databricks.delta.commitInfo.userMetadata`",
    ),
    Option(
        name="optimizeWrite",
        places=_WRITERS,
        meaning="[redistribute the rows](../reference/layout.md#optimised-writes), so that few large files are written",
        default="the setting, else the property",
    ),
    Option(
        name="clusterOnWrite",
        places=(OptionContext.WRITE,),
        meaning="[lay out the rows](../reference/layout.md#clustering-on-write) that are written to a clustered table",
        default="the setting, else the property",
    ),
    Option(
        name="maxRecordsPerFile",
        places=_WRITERS,
        meaning="how many rows a file has at most",
        default="`spark.sql.files.maxRecordsPerFile`",
    ),
    Option(
        name="compression",
        places=_WRITERS,
        meaning="the codec of the Parquet files",
        default="`delta.parquet.compression.codec`, else Spark's setting",
    ),
    Option(
        name="checkpointLocation",
        places=(OptionContext.WRITE_STREAM,),
        meaning="the folder of the query's checkpoint; each query needs its own",
    ),
    Option(name="queryName", places=(OptionContext.WRITE_STREAM,), meaning="the name of the query"),
)

_NAMES: Mapping[OptionContext, tuple[str, ...]] = {
    place: tuple(option.name for option in OPTIONS if place in option.places + option.refused)
    for place in OptionContext
}

# Options for the storage, for Parquet and for the table's properties, Spark's own, and what catalogs store with a
# table.
_PREFIXES = ("fs.", "dfs.", "parquet.", "delta.", "spark.", "option.", "asyncprogress", "__")
_SPARKS = frozenset({"serialization.format", "provider", "mode"})


def warn_of_unknown(given: Iterable[str], place: OptionContext, *, table: str) -> None:
    """Warn about each option that has no effect in a place, once per text: Spark asks for a reader and a writer several
    times.

    Args:
        given: names, in any case.
    """
    for message in unknown_options(given, place, table=table):
        warn(message)


def warn(message: str) -> None:
    """Warn in the user's line."""
    warnings.warn(message, stacklevel=_level_of_caller())


# The modules between a user's line and a warning.
_BETWEEN = ("tahoe", "pyspark", "py4j", "contextlib", "functools")


def _level_of_caller() -> int:
    """The `stacklevel` with which a warning of the calling function points to the user's line.

    Spark asks for options while it serves a call of PySpark's. Questions are answered in the thread of that call, if it
    is one of Python's.
    """
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    return 2 if frame is None else level


def unknown_options(given: Iterable[str], place: OptionContext, *, table: str) -> list[str]:
    """A message for each option that has no effect in a place."""
    known = {name.lower() for name in _NAMES[place]} | _SPARKS
    wrong = (name for name in given if name.lower() not in known and not name.lower().startswith(_PREFIXES))
    return [f"{table}: the option {name} has no effect on {place.value}{_hint(name, place)}" for name in wrong]


def _hint(name: str, place: OptionContext) -> str:
    elsewhere = [other.value for other, names in _NAMES.items() if name.lower() in map(str.lower, names)]
    if elsewhere:
        return f"; it is an option of {' and '.join(elsewhere)}"
    spelled = {known.lower(): known for known in _NAMES[place]}
    near = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.7)
    return f"; did you mean {spelled[near[0]]}?" if near else "; Delta tables have no option of this name"
