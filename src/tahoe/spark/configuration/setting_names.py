"""The settings of a session that tahoe reads: names, types, defaults and meanings, and the only reader of their values.
Pure.

Those of `spark.databricks.delta.*` are the reference's, with its defaults. The modules that read a setting take it from
here, so that this is the list of all of them. Of Spark's own settings, tahoe reads those of the Parquet reader and
writer and a few others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tahoe.errors import InvalidOptionError
from tahoe.native_settings import FIELD_IDS
from tahoe.protocol.configuration.properties import AUTO_COMPACT, parse_size
from tahoe.protocol.types.partitions import parse_boolean
from tahoe.table.versions.change_feed import SCHEMA_MODES, SchemaMode

_REFERENCES = "spark.databricks.delta."
_OWN = "spark.tahoe."
STREAMING = f"{_REFERENCES}streaming."

Value = TypeVar("Value", covariant=True)


class Texts(Protocol):
    """What users have set, by name: a mapping, or the `conf` of a session."""

    def get(self, key: str, default: None, /) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[Value]):
    """What a setting takes.

    Attributes:
        parse: the value of a text; raises ValueError.
        takes: what it may be, for users.
    """

    parse: Callable[[str], Value]
    takes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[Value]):
    """A setting of a session.

    Attributes:
        meaning: Markdown, for the page of the settings.
        unset: the value if it is not set.
        default: `unset` as a user would write it, or what decides instead; empty if nothing does.
    """

    name: str
    meaning: str
    kind: Kind[Value]
    unset: Value
    default: str = ""

    def of(self, settings: Texts, *, table: str = "the session") -> Value:
        """The value that users have set, else `unset`.

        Args:
            table: for which it is read, for the error.

        Raises:
            InvalidOptionError: it has another kind.
        """
        text = settings.get(self.name, None)
        if text is None:
            return self.unset
        try:
            return self.kind.parse(text.strip())
        except ValueError:
            raise InvalidOptionError(
                option=self.name, value=text, table=table, detail=f"it must be {self.kind.takes}"
            ) from None


def _count_from(least: int) -> Kind[int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise ValueError(text)
        return int(text)

    return Kind(parse=parse, takes=f"an integer of at least {least}")


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(text)
    return share


def _megabytes(text: str) -> int:
    return parse_size(text + "m" if text.isdigit() else text)


def _schema_mode(text: str) -> SchemaMode:
    mode = next((mode for mode in SCHEMA_MODES if mode.lower() == text.lower()), None)
    if mode is None:
        raise ValueError(text)
    return mode


_TEXT = Kind(parse=str, takes="a text")
_FLAG = Kind(parse=parse_boolean, takes="true or false")
_SIZE = Kind(parse=parse_size, takes="a size in bytes, such as 134217728 or 128mb")
_SHARE = Kind(parse=_share, takes="a number from 0 to 1")
_MEGABYTES = Kind(parse=_megabytes, takes="a size in megabytes, such as 512, or with a unit: 1g")
_SCHEMA_MODE = Kind(parse=_schema_mode, takes=f"one of {', '.join(SCHEMA_MODES)}")
_COMPACTS = Kind(parse=lambda text: AUTO_COMPACT.parse(text) != "false", takes=AUTO_COMPACT.takes)


def _full(name: str) -> str:
    """A name without `spark.` is the reference's."""
    return name if name.startswith("spark.") else _REFERENCES + name


def _setting(name: str, kind: Kind[Value], default: str, meaning: str) -> Setting[Value]:
    return Setting(name=_full(name), kind=kind, default=default, unset=kind.parse(default), meaning=meaning)


def _optional(name: str, kind: Kind[Value], meaning: str, default: str = "") -> Setting[Value | None]:
    return Setting(name=_full(name), kind=kind, default=default, unset=None, meaning=meaning)


def _flag(name: str, default: str, meaning: str) -> Setting[bool]:
    return _setting(name, _FLAG, default, meaning)


def is_setting(name: str) -> bool:
    """Whether a setting is one of Delta's, known or not."""
    return name.startswith((_REFERENCES, _OWN))


# --- queries

ANSWERS_FROM_LOG = _flag(
    "optimizeMetadataQuery.enabled",
    "true",
    "[answer aggregates from the log](../explanation/files-left-out.md#answers-from-the-log); if false, joins and "
    "LIMIT read all files too",
)
LIMIT_PUSHDOWN = _flag(
    "stats.limitPushdown.enabled",
    "true",
    "[read few files for LIMIT](../explanation/files-left-out.md#limit-reads-few-files)",
)
PRUNE_JOINS = _flag(
    _OWN + "pruneJoins",
    "true",
    "[leave out files by the keys of a join](../explanation/files-left-out.md#joins-leave-files-out)",
)
FEED_CLIPS = _flag(
    "changeDataFeed.timestampOutOfRange.enabled",
    "false",
    "a change data feed that starts after the newest version is empty, instead of an error",
)
FEED_SCHEMA_MODE = _setting(
    "changeDataFeed.defaultSchemaModeForColumnMappingTable",
    _SCHEMA_MODE,
    "endVersion",
    "the columns of a change data feed of a table with column mapping: those of the feed's last version "
    "(`endVersion`), or of the newest (`latest`, `legacy`)",
)

CHECK_FORMAT = _flag(
    "formatCheck.enabled",
    "true",
    "refuse to [read a table's folder as Parquet](../reference/reading.md#a-tables-files-as-parquet); a setting of "
    "Databricks that the reference does not have: it reads the rows of all files",
)

# --- writes

DEFAULT_PROPERTIES = _optional(
    "properties.defaults.", _TEXT, "followed by the name of a property without `delta.`: its value for new tables"
)
AUTO_MERGE = _flag("schema.autoMerge.enabled", "false", "writes and MERGE add the columns that the table lacks")
USER_METADATA = _optional("commitInfo.userMetadata", _TEXT, "a text for the history of each commit of the session")
TXN_APP_ID = _optional("write.txnAppId", _TEXT, "the option `txnAppId` of each write, also of DELETE, UPDATE and MERGE")
TXN_VERSION = _optional("write.txnVersion", _TEXT, "the option `txnVersion` of each write")
RESET_TXN_VERSION = _flag(
    "write.txnVersion.autoReset.enabled", "false", "`write.txnVersion` is for one write, and is unset by it"
)
CHECK_REPLACE_WHERE = _flag(
    "replaceWhere.constraintCheck.enabled", "true", "rows that do not match `replaceWhere` are refused"
)
MERGE_REPARTITIONS = _flag(
    "merge.repartitionBeforeWrite.enabled",
    "true",
    "MERGE into a partitioned table shuffles its new rows, so that each partition gets few files",
)
CASTS_BY_ANSI = _flag(
    "updateAndMergeCastingFollowsAnsiEnabledFlag",
    "false",
    "UPDATE and MERGE cast by `spark.sql.ansi.enabled` instead of `spark.sql.storeAssignmentPolicy`",
)
CONFLICT_RETRIES = _optional(
    _OWN + "conflictRetries",
    _count_from(0),
    "how often a command is [run again after a conflict](../consistency.md#compactions); without it, "
    "`tahoe.conflictRetries` of the table",
)

# --- layout

COMPACT = _optional(
    "autoCompact.enabled",
    _COMPACTS,
    "auto compaction after writes: `true`, `false` or `auto`; without it, the property says",
)
COMPACT_MIN_FILES = _setting(
    "autoCompact.minNumFiles", _count_from(0), "50", "how many small files a partition has before it is compacted"
)
COMPACT_MAX_SIZE = _setting(
    "autoCompact.maxFileSize", _SIZE, "128m", "the size of the files that auto compaction makes"
)
COMPACT_MIN_SIZE = _optional(
    "autoCompact.minFileSize", _SIZE, "smaller files count as small", default="half of `maxFileSize`"
)
COMPACT_MODIFIED = _flag(
    "autoCompact.modifiedPartitionsOnly.enabled", "true", "only partitions to which the write added files are compacted"
)
COMPACT_PARTITIONS = _setting(
    "autoCompact.maxNumModifiedPartitions",
    _count_from(1),
    "128",
    "how many partitions are compacted at most; those with the most small files come first",
)
COMPACT_NOT_APPENDS = _flag(
    "autoCompact.nonBlindAppend.enabled", "false", "appends that read nothing of the table do not compact"
)
OPTIMIZE_WRITE = _optional("optimizeWrite.enabled", _FLAG, "optimised writes; without it, the property says")
OPTIMIZE_WRITE_SIZE = _setting(
    "optimizeWrite.binSize",
    _MEGABYTES,
    "512",
    "megabytes of shuffled rows that become one file, or a size such as `1g`",
)
OPTIMIZE_WRITE_BLOCKS = _setting(
    "optimizeWrite.numShuffleBlocks", _count_from(1), "50000000", "how many blocks a shuffle has at most"
)
OPTIMIZE_WRITE_PARTITIONS = _setting(
    "optimizeWrite.maxShufflePartitions", _count_from(1), "2000", "how many partitions a shuffle has at most"
)
CLUSTER_ON_WRITE = _optional(
    _OWN + "clusterOnWrite", _FLAG, "writes to clustered tables lay out their rows; without it, the property says"
)
CLUSTER_MIN_SIZE = _setting(_OWN + "clusterOnWrite.minSize", _SIZE, "64m", "smaller writes do not lay out their rows")
OPTIMIZE_MAX_SIZE = _optional(
    "optimize.maxFileSize",
    _SIZE,
    "the size of the files that OPTIMIZE makes",
    default="the property `delta.targetFileSize`, else 1g",
)
OPTIMIZE_MIN_SIZE = _optional(
    "optimize.minFileSize",
    _SIZE,
    "OPTIMIZE combines smaller files",
    default="the property `delta.targetFileSize`, else 1g",
)
OPTIMIZE_DELETED = _setting(
    "optimize.maxDeletedRowsRatio",
    _SHARE,
    "0.05",
    "OPTIMIZE rewrites files with a larger share of rows that deletion vectors mark",
)
OPTIMIZE_BATCH = _optional(
    "optimize.batchSize", _SIZE, "OPTIMIZE commits whenever it has rewritten files of this size; without it once"
)
CUBE_CLOSED = _setting(
    "optimize.clustering.mergeStrategy.minCubeSize.threshold",
    _SIZE,
    "100g",
    "cubes of a clustered table of this size are not laid out again",
)
ZORDER_CHECKS = _flag(
    "optimize.zorder.checkStatsCollection.enabled", "true", "ZORDER BY refuses columns without statistics"
)

# --- VACUUM, RESTORE, CONVERT TO DELTA

CHECK_RETENTION = _flag(
    "retentionDurationCheck.enabled", "true", "VACUUM refuses a retention that is shorter than the table's"
)
IGNORE_RETENTION = _flag(
    "vacuum.retentionWindowIgnore.enabled",
    "true",
    "VACUUM ignores a retention that is shorter than the table's, except 0",
)
VACUUM_LITE = _flag("vacuum.lite.enabled", "false", "VACUUM without FULL and LITE is LITE")
VACUUM_LOGGING = _optional(
    "vacuum.logging.enabled", _FLAG, "the history records VACUUM", default="by storage: not on S3"
)
CHECK_EXPIRED = _flag(
    "vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
    "true",
    "RESTORE and tags refuse versions whose files VACUUM may be deleting",
)
COLLECT_STATISTICS = _flag("stats.collect", "true", "CONVERT TO DELTA records statistics")
CONVERT_USES_SINK_LOG = _flag(
    "convert.useMetadataLog", "true", "CONVERT TO DELTA takes the files that the log of a stream in the folder lists"
)
CONVERT_USES_PARTITIONS = _flag(
    "convert.useCatalogPartitions", "true", "CONVERT TO DELTA takes partitions from the catalog"
)
CONVERT_USES_SCHEMA = _flag("convert.useCatalogSchema", "true", "CONVERT TO DELTA takes columns from the catalog")
CONVERT_CHECKS_METADATA = _flag(
    "convert.metadataCheck.enabled",
    "true",
    "CONVERT TO DELTA refuses a table of the catalog whose properties differ from those of the Delta table",
)
CONVERT_NULLS = _flag(
    "convert.partitionValues.ignoreCastFailure",
    "false",
    "partition values that do not fit their type become null, instead of an error",
)

# --- streams

EVENT_TIME_ORDER = _flag("withEventTimeOrder.enabled", "false", "the default of the option `withEventTimeOrder`")
TRACKING = _flag(
    "streaming.schemaTracking.enabled",
    "true",
    "streams may [track the schema](../howto/stream-schema-changes.md#track-the-schema)",
)
TRACKING_MERGES = _flag(
    "streaming.schemaTracking.mergeConsecutiveSchemaChanges.enabled",
    "true",
    "several changes of the schema in a row cost one restart",
)
TRACKING_CHECKS_PATH = _flag(
    "streaming.schemaTracking.metadataPathCheck.enabled",
    "true",
    "a log of schemas that belongs to another query is refused",
)
TRACKING_OUTSIDE = _flag(
    "streaming.allowSchemaLocationOutsideCheckpointLocation",
    "false",
    "the log of schemas may be outside of the query's checkpoint",
)
# `tahoe.protocol.streams.stream_schema` asks for these by their names, with and without the suffix.
_ACCEPTS = (
    "accepts {} in all streams that track their schema, if it is `always`; with the suffix `.ckpt_<hash>` in one "
    "query, also a version"
)
ACCEPTS_RENAMED = _optional("streaming.allowSourceColumnRename", _TEXT, _ACCEPTS.format("renamed columns"))
ACCEPTS_DROPPED = _optional("streaming.allowSourceColumnDrop", _TEXT, _ACCEPTS.format("dropped columns"))
ACCEPTS_MOVED = _optional(
    "streaming.allowSourceColumnRenameAndDrop", _TEXT, _ACCEPTS.format("renamed and dropped columns")
)
ACCEPTS_RETYPED = _optional("streaming.allowSourceColumnTypeChange", _TEXT, _ACCEPTS.format("wider types"))
_RISK = "a stream goes on at {}, at your own risk"
READS_MOVED = _flag(
    "streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled",
    "false",
    _RISK.format("renamed and dropped columns"),
)
READS_OTHER_PARTITIONS = _flag(
    "streaming.unsafeReadOnPartitionColumnChanges.enabled", "false", _RISK.format("other partition columns")
)
READS_NULLS = _flag(
    "streaming.unsafeReadOnNullabilityChange.enabled", "false", _RISK.format("columns that may now be null")
)
SKIPS_START = _flag(
    "streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled",
    "false",
    "a stream does not compare its schema with that of the version at which it starts, at your own risk",
)
WIDENS = _flag(
    "typeWidening.allowTypeChangeStreamingDeltaSource",
    "true",
    "after a wider type, a stream goes on with a new DataFrame",
)
TRACKS_WIDENING = _flag(
    "typeWidening.enableStreamingSchemaTracking", "false", "a wider type needs a tracked schema too"
)
IGNORES_TYPES = _flag(
    "typeWidening.bypassStreamingTypeChangeCheck",
    "false",
    "a tracked schema may change its types in any way, at your own risk",
)

# --- the local cache

CACHE_ENABLED = _optional(
    "spark.databricks.io.cache.enabled",
    _FLAG,
    "keep what the driver and the executors read from object stores in [the local cache](../howto/local-cache.md); "
    "without it, the folder says",
)
CACHE_FOLDER = _optional(
    _OWN + "cache.folder",
    _TEXT,
    "the folder of the local cache, on the driver and on each executor's machine",
    default="that of `tahoe.cache` or `TAHOE_CACHE`",
)
CACHE_SIZE = _setting("spark.databricks.io.cache.maxDiskUsage", _SIZE, "50g", "how much the local cache may occupy")
CACHE_METADATA_SIZE = _optional(
    "spark.databricks.io.cache.maxMetaDataCache",
    _SIZE,
    "is added to `maxDiskUsage`: logs and data files are in one cache",
)
CACHE_COMPRESSION = _flag(
    "spark.databricks.io.cache.compression.enabled",
    "false",
    "the local cache compresses what that makes smaller: the files of the log, but not Parquet",
)

# --- the session

SERVER_VERSION = _optional(
    _OWN + "version", _TEXT, "the version of tahoe in a Spark Connect server, which sets it; clients read it"
)

SETTINGS: tuple[Setting[Any], ...] = tuple(known for known in tuple(globals().values()) if isinstance(known, Setting))

# --- Spark's own, which the page of the settings only names

ANSI = _flag("spark.sql.ansi.enabled", "true", "casts refuse what does not fit")
IGNORES_MISSING = _flag("spark.sql.files.ignoreMissingFiles", "false", "a scan leaves out files that are not there")
IGNORES_CORRUPT = _flag("spark.sql.files.ignoreCorruptFiles", "false", "a scan leaves out files that cannot be read")
READS_FIELD_IDS = _flag(FIELD_IDS, "false", "a scan finds columns by their field ids")
PRUNES_BY_JOINS = _flag(
    "spark.sql.optimizer.dynamicPartitionPruning.enabled", "true", "Spark plans a query for the keys of a join"
)
