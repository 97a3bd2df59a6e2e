"""The settings of a session that tahoe reads: names, defaults and meanings. Pure.

Those of `spark.databricks.delta.*` are the reference's, with its defaults. The modules that read a setting take its name from here, so that
this is the list of all of them. Of Spark's own settings, tahoe reads those of the Parquet reader and writer and a few others.
"""

from __future__ import annotations

from dataclasses import dataclass

from tahoe.table.maintenance.clustering import CHECK_SETTING
from tahoe.table.reading.stream_schema import READS_MOVED_COLUMNS

_REFERENCES = "spark.databricks.delta."
_OWN = "spark.tahoe."


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a session.

    Attributes:
        meaning: Markdown, for the page of the settings.
        default: as a user would write it; empty if there is none.
    """

    name: str
    meaning: str
    default: str = ""


def _delta(name: str, default: str, meaning: str) -> Setting:
    return Setting(name=_REFERENCES + name, default=default, meaning=meaning)


def _own(name: str, default: str, meaning: str) -> Setting:
    return Setting(name=_OWN + name, default=default, meaning=meaning)


def is_setting(name: str) -> bool:
    """Whether a setting is one of Delta's, known or not."""
    return name.startswith((_REFERENCES, _OWN))


# --- queries

ANSWERS_FROM_LOG = _delta(
    "optimizeMetadataQuery.enabled",
    "true",
    "[answer aggregates from the log](../explanation/files-left-out.md#answers-from-the-log); if false, joins and LIMIT read all files too",
)
LIMIT_PUSHDOWN = _delta(
    "stats.limitPushdown.enabled", "true", "[read few files for LIMIT](../explanation/files-left-out.md#limit-reads-few-files)"
)
PRUNE_JOINS = _own("pruneJoins", "true", "[leave out files by the keys of a join](../explanation/files-left-out.md#joins-leave-files-out)")
FEED_CLIPS = _delta(
    "changeDataFeed.timestampOutOfRange.enabled",
    "false",
    "a change data feed that starts after the newest version is empty, instead of an error",
)
FEED_SCHEMA_MODE = _delta(
    "changeDataFeed.defaultSchemaModeForColumnMappingTable",
    "endVersion",
    "the columns of a change data feed of a table with column mapping: those of the feed's last version (`endVersion`), or of the newest "
    "(`latest`, `legacy`)",
)

CHECK_FORMAT = _delta(
    "formatCheck.enabled",
    "true",
    "refuse to [read a table's folder as Parquet](../reference/reading.md#a-tables-files-as-parquet); a setting of Databricks that the "
    "reference does not have: it reads the rows of all files",
)

# --- writes

DEFAULT_PROPERTIES = _delta("properties.defaults.", "", "followed by the name of a property without `delta.`: its value for new tables")
AUTO_MERGE = _delta("schema.autoMerge.enabled", "false", "writes and MERGE add the columns that the table lacks")
USER_METADATA = _delta("commitInfo.userMetadata", "", "a text for the history of each commit")
TXN_APP_ID = _delta("write.txnAppId", "", "the option `txnAppId` of each write, also of DELETE, UPDATE and MERGE")
TXN_VERSION = _delta("write.txnVersion", "", "the option `txnVersion` of each write")
RESET_TXN_VERSION = _delta("write.txnVersion.autoReset.enabled", "false", "`write.txnVersion` is for one write, and is unset by it")
CHECK_REPLACE_WHERE = _delta("replaceWhere.constraintCheck.enabled", "true", "rows that do not match `replaceWhere` are refused")
MERGE_REPARTITIONS = _delta(
    "merge.repartitionBeforeWrite.enabled",
    "true",
    "MERGE into a partitioned table shuffles its new rows, so that each partition gets few files",
)
CASTS_BY_ANSI = _delta(
    "updateAndMergeCastingFollowsAnsiEnabledFlag",
    "false",
    "UPDATE and MERGE cast by `spark.sql.ansi.enabled` instead of `spark.sql.storeAssignmentPolicy`",
)
CONFLICT_RETRIES = _own(
    "conflictRetries",
    "",
    "how often a command is [run again after a conflict](../consistency.md#compactions); without it, `tahoe.conflictRetries` of the table",
)

# --- layout

COMPACT = _delta("autoCompact.enabled", "", "auto compaction after writes: `true`, `false` or `auto`; without it, the property says")
COMPACT_MIN_FILES = _delta("autoCompact.minNumFiles", "50", "how many small files a partition has before it is compacted")
COMPACT_MAX_SIZE = _delta("autoCompact.maxFileSize", "128m", "the size of the files that auto compaction makes")
COMPACT_MIN_SIZE = _delta("autoCompact.minFileSize", "half of `maxFileSize`", "smaller files count as small")
COMPACT_MODIFIED = _delta(
    "autoCompact.modifiedPartitionsOnly.enabled", "true", "only partitions to which the write added files are compacted"
)
COMPACT_PARTITIONS = _delta(
    "autoCompact.maxNumModifiedPartitions", "128", "how many partitions are compacted at most; those with the most small files come first"
)
COMPACT_NOT_APPENDS = _delta("autoCompact.nonBlindAppend.enabled", "false", "appends that read nothing of the table do not compact")
OPTIMIZE_WRITE = _delta("optimizeWrite.enabled", "", "optimised writes; without it, the property says")
OPTIMIZE_WRITE_SIZE = _delta("optimizeWrite.binSize", "512", "megabytes of shuffled rows that become one file, or a size such as `1g`")
OPTIMIZE_WRITE_BLOCKS = _delta("optimizeWrite.numShuffleBlocks", "50000000", "how many blocks a shuffle has at most")
OPTIMIZE_WRITE_PARTITIONS = _delta("optimizeWrite.maxShufflePartitions", "2000", "how many partitions a shuffle has at most")
CLUSTER_ON_WRITE = _own("clusterOnWrite", "", "writes to clustered tables lay out their rows; without it, the property says")
CLUSTER_MIN_SIZE = _own("clusterOnWrite.minSize", "64m", "smaller writes do not lay out their rows")
OPTIMIZE_MAX_SIZE = _delta(
    "optimize.maxFileSize", "the property `delta.targetFileSize`, else 1g", "the size of the files that OPTIMIZE makes"
)
OPTIMIZE_MIN_SIZE = _delta("optimize.minFileSize", "the property `delta.targetFileSize`, else 1g", "OPTIMIZE combines smaller files")
OPTIMIZE_DELETED = _delta(
    "optimize.maxDeletedRowsRatio", "0.05", "OPTIMIZE rewrites files with a larger share of rows that deletion vectors mark"
)
OPTIMIZE_BATCH = _delta("optimize.batchSize", "", "OPTIMIZE commits whenever it has rewritten files of this size; without it once")
CUBE_CLOSED = _delta(
    "optimize.clustering.mergeStrategy.minCubeSize.threshold", "100g", "cubes of a clustered table of this size are not laid out again"
)
ZORDER_CHECKS = Setting(name=CHECK_SETTING, default="true", meaning="ZORDER BY refuses columns without statistics")

# --- VACUUM, RESTORE, CONVERT TO DELTA

CHECK_RETENTION = _delta("retentionDurationCheck.enabled", "true", "VACUUM refuses a retention that is shorter than the table's")
IGNORE_RETENTION = _delta(
    "vacuum.retentionWindowIgnore.enabled", "true", "VACUUM ignores a retention that is shorter than the table's, except 0"
)
VACUUM_LITE = _delta("vacuum.lite.enabled", "false", "VACUUM without FULL and LITE is LITE")
VACUUM_LOGGING = _delta("vacuum.logging.enabled", "by storage: not on S3", "the history records VACUUM")
CHECK_EXPIRED = _delta(
    "vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
    "true",
    "RESTORE and tags refuse versions whose files VACUUM may be deleting",
)
COLLECT_STATISTICS = _delta("stats.collect", "true", "CONVERT TO DELTA records statistics")
CONVERT_USES_SINK_LOG = _delta(
    "convert.useMetadataLog", "true", "CONVERT TO DELTA takes the files that the log of a stream in the folder lists"
)
CONVERT_USES_PARTITIONS = _delta("convert.useCatalogPartitions", "true", "CONVERT TO DELTA takes partitions from the catalog")
CONVERT_USES_SCHEMA = _delta("convert.useCatalogSchema", "true", "CONVERT TO DELTA takes columns from the catalog")
CONVERT_CHECKS_METADATA = _delta(
    "convert.metadataCheck.enabled",
    "true",
    "CONVERT TO DELTA refuses a table of the catalog whose properties differ from those of the Delta table",
)
CONVERT_NULLS = _delta(
    "convert.partitionValues.ignoreCastFailure", "false", "partition values that do not fit their type become null, instead of an error"
)

# --- streams

EVENT_TIME_ORDER = _delta("withEventTimeOrder.enabled", "false", "the default of the option `withEventTimeOrder`")
TRACKING = _delta(
    "streaming.schemaTracking.enabled", "true", "streams may [track the schema](../howto/stream-schema-changes.md#track-the-schema)"
)
TRACKING_MERGES = _delta(
    "streaming.schemaTracking.mergeConsecutiveSchemaChanges.enabled", "true", "several changes of the schema in a row cost one restart"
)
TRACKING_CHECKS_PATH = _delta(
    "streaming.schemaTracking.metadataPathCheck.enabled", "true", "a log of schemas that belongs to another query is refused"
)
TRACKING_OUTSIDE = _delta(
    "streaming.allowSchemaLocationOutsideCheckpointLocation", "false", "the log of schemas may be outside of the query's checkpoint"
)
# `tahoe.protocol.schema_acknowledgement` asks for these by their names, with and without the suffix.
_ACCEPTS = (
    "accepts {} in all streams that track their schema, if it is `always`; with the suffix `.ckpt_<hash>` in one query, also a version"
)
ACCEPTS_RENAMED = _delta("streaming.allowSourceColumnRename", "", _ACCEPTS.format("renamed columns"))
ACCEPTS_DROPPED = _delta("streaming.allowSourceColumnDrop", "", _ACCEPTS.format("dropped columns"))
ACCEPTS_MOVED = _delta("streaming.allowSourceColumnRenameAndDrop", "", _ACCEPTS.format("renamed and dropped columns"))
ACCEPTS_RETYPED = _delta("streaming.allowSourceColumnTypeChange", "", _ACCEPTS.format("wider types"))
_RISK = "a stream goes on at {}, at your own risk"
READS_MOVED = Setting(name=READS_MOVED_COLUMNS, default="false", meaning=_RISK.format("renamed and dropped columns"))
READS_OTHER_PARTITIONS = _delta("streaming.unsafeReadOnPartitionColumnChanges.enabled", "false", _RISK.format("other partition columns"))
READS_NULLS = _delta("streaming.unsafeReadOnNullabilityChange.enabled", "false", _RISK.format("columns that may now be null"))
SKIPS_START = _delta(
    "streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled",
    "false",
    "a stream does not compare its schema with that of the version at which it starts, at your own risk",
)
WIDENS = _delta("typeWidening.allowTypeChangeStreamingDeltaSource", "true", "after a wider type, a stream goes on with a new DataFrame")
TRACKS_WIDENING = _delta("typeWidening.enableStreamingSchemaTracking", "false", "a wider type needs a tracked schema too")
IGNORES_TYPES = _delta(
    "typeWidening.bypassStreamingTypeChangeCheck", "false", "a tracked schema may change its types in any way, at your own risk"
)

# --- the session

SERVER_VERSION = _own("version", "", "the version of tahoe in a Spark Connect server, which sets it; clients read it")

SETTINGS = tuple(known for known in tuple(globals().values()) if isinstance(known, Setting))
