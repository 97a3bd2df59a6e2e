"""The names of the options that readers and writers of Delta tables take, and a warning about options that have no effect. Pure.

Spark passes every option to the source, and ignores none and refuses none itself: a misspelt name would go unnoticed.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from enum import Enum


class Place(Enum):
    """Where a user gives options. The values are what messages call it."""

    READ = "spark.read"
    READ_STREAM = "spark.readStream"
    READ_STREAM_OF_FEED = "spark.readStream with readChangeFeed"
    WRITE = "df.write"
    WRITE_STREAM = "df.writeStream"


_STARTS = ("startingVersion", "startingTimestamp")
_FEED = ("readChangeFeed", "readChangeData")
_TIME_TRAVEL = ("versionAsOf", "timestampAsOf")  # streams refuse them
_CHANGES = ("ignoreDeletes", "ignoreChanges", "ignoreFileDeletion", "skipChangeCommits")
_STREAM = (
    *("maxFilesPerTrigger", "maxBytesPerTrigger", "excludeRegex", "failOnDataLoss", "withEventTimeOrder"),
    *("schemaTrackingLocation", "schemaLocation", "streamingSourceTrackingId"),
    *("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange"),
)
_PARQUETS = ("ignoreMissingFiles", "ignoreCorruptFiles", "datetimeRebaseMode", "int96RebaseMode")  # of Spark's reader of data files
_READ_STREAM_OF_FEED = ("path", *_PARQUETS, *_FEED, *_STARTS, *_TIME_TRAVEL, *_STREAM)
_WRITE_EITHER = ("path", "mergeSchema", "overwriteSchema", "optimizeWrite", "userMetadata", "compression", "maxRecordsPerFile")
_REPLACE = ("replaceWhere", "replaceUsing", "replaceOn", "targetAlias", "partitionOverwriteMode")
_OF_ONE_WRITE = (*_REPLACE, "txnAppId", "txnVersion", "dataChange")  # sinks refuse them

_NAMES: Mapping[Place, tuple[str, ...]] = {
    Place.READ: ("path", *_PARQUETS, *_TIME_TRAVEL, *_FEED, *_STARTS, "endingVersion", "endingTimestamp"),
    Place.READ_STREAM: (*_READ_STREAM_OF_FEED, *_CHANGES),
    Place.READ_STREAM_OF_FEED: _READ_STREAM_OF_FEED,
    Place.WRITE: (*_WRITE_EITHER, *_OF_ONE_WRITE, "clusterOnWrite"),
    Place.WRITE_STREAM: (*_WRITE_EITHER, *_OF_ONE_WRITE, "checkpointLocation", "queryName"),
}

# Options for the storage, for Parquet and for the table's properties, Spark's own, and what catalogs store with a table.
_PREFIXES = ("fs.", "dfs.", "parquet.", "delta.", "spark.", "option.", "asyncprogress", "__")
_SPARKS = frozenset({"serialization.format", "provider", "mode"})


def warn_of_unknown(given: Iterable[str], place: Place, *, table: str) -> None:
    """Warn about each option that has no effect in a place, once per text: Spark asks for a reader and a writer several times.

    Args:
        given: names, in any case.
    """
    for message in unknown_options(given, place, table=table):
        warnings.warn(message, stacklevel=2)


def unknown_options(given: Iterable[str], place: Place, *, table: str) -> list[str]:
    """A message for each option that has no effect in a place."""
    known = {name.lower() for name in _NAMES[place]} | _SPARKS
    wrong = (name for name in given if name.lower() not in known and not name.lower().startswith(_PREFIXES))
    return [f"{table}: the option {name} has no effect on {place.value}{_hint(name, place)}" for name in wrong]


def _hint(name: str, place: Place) -> str:
    elsewhere = [other.value for other, names in _NAMES.items() if name.lower() in map(str.lower, names)]
    if elsewhere:
        return f"; it is an option of {' and '.join(elsewhere)}"
    spelled = {known.lower(): known for known in _NAMES[place]}
    near = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.7)
    return f"; did you mean {spelled[near[0]]}?" if near else "; Delta tables have no option of this name"
