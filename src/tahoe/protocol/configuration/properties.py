"""Table properties: names, defaults and valid values.

Protocol: "Table Properties", and the properties that other sections define; otherwise the reference's names and
defaults. Values are stored as strings in `metaData.configuration`. `PlainProperty.get` returns the typed value. A
`FeatureProperty` takes effect only if the protocol supports its feature, so its value is read only through
`tahoe.protocol.configuration.features.setting`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from tahoe.errors import InternalPropertyError, InvalidPropertyError, UnknownPropertyError
from tahoe.protocol.configuration.bloom_filters import BloomFilter, parse_bloom_filters
from tahoe.protocol.configuration.kept_marks import KeptMarks, parse_kept_marks
from tahoe.protocol.types.names import parse_column_list
from tahoe.protocol.types.partitions import parse_boolean

T = TypeVar("T")

PREFIX = "delta."
# Of the properties that only tahoe has.
_OWN_PREFIX = "tahoe."
# These are followed by a name that the user chose, or that `tahoe.protocol.configuration.feature_upgrade` checks.
OPEN_PREFIXES = ("delta.constraints.", "delta.feature.", "tahoe.keys.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Property(Generic[T]):
    """A table property.

    Attributes:
        default: the value for tables that do not set the property.
        parse: converts text to the value; raises ValueError for invalid text.
        takes: the valid values, as worded in an error message.
        meaning: Markdown, for the page of the properties.
        is_internal: whether only writers may set it, not users.
    """

    name: str
    default: T
    parse: Callable[[str], T]
    takes: str
    meaning: str
    is_internal: bool = False

    def read(self, text: str, *, table: str = "the table") -> T:
        """The typed value of a text.

        Raises:
            InvalidPropertyError: the text is not a valid value.
        """
        try:
            return self.parse(text.strip())
        except (ValueError, ArithmeticError) as error:
            raise InvalidPropertyError(
                property=self.name, table=table, value=text, detail=f"it must be {self.takes}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainProperty(Property[T]):
    """A property that takes effect on every table."""

    def get(self, configuration: Mapping[str, str], *, table: str = "the table") -> T:
        """The value for a table.

        Raises:
            InvalidPropertyError: the table has an invalid value.
        """
        text = configuration.get(self.name)
        return self.default if text is None else self.read(text, table=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureProperty(Property[T]):
    """A property that belongs to a table feature.

    Attributes:
        feature: the feature's name. If a table's protocol does not support it, the stored value is ignored and the
            default applies.
    """

    feature: str


# --- parsing


_UNIT_MICROS: Mapping[str, int] = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_INTERVAL_PART = re.compile(
    r"\s*'?(\d+)'?\s*(week|day|hour|minute|second|millisecond|microsecond)s?(?:\s+|$)", re.IGNORECASE
)


def parse_interval(text: str) -> timedelta:
    """A duration: `interval 30 days`, `7 days`, `1 day 12 hours`. Months and years have no fixed length and are
    refused.

    Raises:
        ValueError: not a valid duration.
    """
    rest = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE)
    if not rest.strip():
        raise ValueError(text)
    total, position = 0, 0
    while position < len(rest):
        part = _INTERVAL_PART.match(rest, position)
        if part is None:
            raise ValueError(text)
        total += int(part[1]) * _UNIT_MICROS[part[2].lower()]
        position = part.end()
    return timedelta(microseconds=total)


def _number(low: int, high: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError(text)
        return value

    return parse


_SIZE_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


def parse_size(text: str) -> int:
    """Bytes from text such as `134217728`, `128m` or `1 GB`, with binary units.

    Raises:
        ValueError: the text is not a size, or the size is 0.
    """
    found = re.fullmatch(r"\s*([0-9]{1,18})\s*([bkmgtp]?)b?\s*", text, re.IGNORECASE | re.ASCII)
    if found is None or int(found[1]) == 0:
        raise ValueError(text)
    return int(found[1]) << _SIZE_UNITS[found[2].lower()]


def _one_of(*choices: str) -> Callable[[str], str]:
    by_folded = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        if text.lower() not in by_folded:
            raise ValueError(text)
        return by_folded[text.lower()]

    return parse


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    if any(name != "iceberg" for name in names):
        raise ValueError(text)
    return names


def _format_version(text: str) -> str:
    if not re.fullmatch(r"1\.0\.0|2\.\d+\.\d+", text):
        raise ValueError(text)
    return text


# --- the properties


def _switch(name: str, meaning: str, default: bool = False) -> PlainProperty[bool]:
    return PlainProperty(name=name, default=default, parse=parse_boolean, takes="true or false", meaning=meaning)


def _feature_switch(name: str, feature: str, meaning: str) -> FeatureProperty[bool]:
    return FeatureProperty(
        name=name, feature=feature, default=False, parse=parse_boolean, takes="true or false", meaning=meaning
    )


def _length(name: str, default: timedelta, meaning: str) -> PlainProperty[timedelta]:
    takes = (
        "an interval in weeks, days, hours or less, such as 'interval 30 days'; months and years have no fixed length"
    )
    return PlainProperty(name=name, default=default, parse=parse_interval, takes=takes, meaning=meaning)


def _text(name: str, meaning: str, *, is_internal: bool = False) -> PlainProperty[str | None]:
    return PlainProperty(name=name, default=None, parse=str, takes="a string", is_internal=is_internal, meaning=meaning)


APPEND_ONLY = _feature_switch("delta.appendOnly", "appendOnly", "rows can be added, but not changed or deleted")
CHECKPOINT_INTERVAL = PlainProperty(
    name="delta.checkpointInterval",
    meaning="every how many commits a checkpoint is written",
    default=10,
    parse=_number(1),
    takes="an integer of at least 1",
)
CHECKPOINT_POLICY = FeatureProperty(
    name="delta.checkpointPolicy",
    meaning="the kind of checkpoints",
    feature="v2Checkpoint",
    default="classic",
    parse=_one_of("classic", "v2"),
    takes="classic or v2",
)
CHECKPOINT_RETENTION = _length(
    "delta.checkpointRetentionDuration",
    timedelta(days=2),
    "without effect: log cleanup keeps what the versions within `delta.logRetentionDuration` need",
)
WRITE_STATS_AS_JSON = _switch("delta.checkpoint.writeStatsAsJson", "checkpoints have statistics as JSON", True)
# True as in the reference's code. The protocol's text says that the default is false, but typed statistics are legal in
# any checkpoint.
WRITE_STATS_AS_STRUCT = _switch(
    "delta.checkpoint.writeStatsAsStruct",
    "checkpoints have statistics as typed columns, which are faster to read",
    True,
)
COLUMN_MAPPING_MODE = FeatureProperty(
    name="delta.columnMapping.mode",
    meaning="columns can be renamed and dropped: files name them by another name or by an id",
    feature="columnMapping",
    default="none",
    parse=_one_of("none", "name", "id"),
    takes="none, name or id",
)
MAX_COLUMN_ID = PlainProperty(
    name="delta.columnMapping.maxColumnId",
    meaning="the last id that a column got; it stays when column mapping ends",
    default=0,
    parse=_number(0),
    takes="a non-negative integer",
    is_internal=True,
)
NUM_INDEXED_COLUMNS = PlainProperty(
    name="delta.dataSkippingNumIndexedCols",
    meaning="the first how many columns have statistics",
    default=32,
    parse=_number(-1),
    takes="a number of columns, or -1 for all",
)
STATS_COLUMNS: PlainProperty[tuple[tuple[str, ...], ...] | None] = PlainProperty(
    name="delta.dataSkippingStatsColumns",
    meaning="the columns that have statistics, instead of the first ones",
    default=None,
    parse=parse_column_list,
    takes="a comma-separated list of columns; names with a dot or a comma are quoted with backticks",
)
STRING_PREFIX_LENGTH = PlainProperty(
    name="delta.dataSkippingStringPrefixLength",
    meaning="how many characters of a string the statistics have",
    default=32,
    parse=_number(1),
    takes="a number of characters, at least 1",
)
DELETED_FILE_RETENTION = _length(
    "delta.deletedFileRetentionDuration", timedelta(days=7), "how long VACUUM keeps files that the table no longer has"
)
LOG_RETENTION = _length(
    "delta.logRetentionDuration", timedelta(days=30), "how long log files are kept, and with them older versions"
)
DROP_FEATURE_RETENTION = _length(
    "delta.dropFeatureTruncateHistory.retentionDuration",
    timedelta(hours=24),
    "how old the history must be that DROP FEATURE … TRUNCATE HISTORY removes",
)
TXN_RETENTION: PlainProperty[timedelta | None] = PlainProperty(
    name="delta.setTransactionRetentionDuration",
    meaning="checkpoints forget an application or a stream that has written nothing for so long",
    default=None,
    parse=parse_interval,
    takes="an interval, such as 'interval 30 days'",
)
ENABLE_CHANGE_DATA_FEED = _feature_switch(
    "delta.enableChangeDataFeed", "changeDataFeed", "commits record the rows that they change, for the change data feed"
)
ENABLE_DELETION_VECTORS = _feature_switch(
    "delta.enableDeletionVectors",
    "deletionVectors",
    "DELETE, UPDATE and MERGE mark rows as deleted, instead of rewriting their files",
)
ENABLE_EXPIRED_LOG_CLEANUP = _switch(
    "delta.enableExpiredLogCleanup", "log files past `delta.logRetentionDuration` are deleted after a checkpoint", True
)
ENABLE_IN_COMMIT_TIMESTAMPS = _feature_switch(
    "delta.enableInCommitTimestamps",
    "inCommitTimestamp",
    "commits contain their time, so that a copy of the table keeps it",
)
# The version and time at which in-commit timestamps were enabled, on tables with earlier commits.
IN_COMMIT_TIMESTAMPS_FROM_VERSION: PlainProperty[int | None] = PlainProperty(
    name="delta.inCommitTimestampEnablementVersion",
    meaning="the first version whose commit contains its time",
    default=None,
    parse=_number(0),
    takes="a version",
    is_internal=True,
)
IN_COMMIT_TIMESTAMPS_FROM_TIME: PlainProperty[int | None] = PlainProperty(
    name="delta.inCommitTimestampEnablementTimestamp",
    meaning="the time of that version",
    default=None,
    parse=_number(0),
    takes="milliseconds",
    is_internal=True,
)
ENABLEMENT = (IN_COMMIT_TIMESTAMPS_FROM_VERSION.name, IN_COMMIT_TIMESTAMPS_FROM_TIME.name)
ENABLE_ROW_TRACKING = _feature_switch("delta.enableRowTracking", "rowTracking", "rows have ids that they keep")
ROW_TRACKING_SUSPENDED = _feature_switch(
    "delta.rowTrackingSuspended", "rowTracking", "rows get no ids for the time being"
)
ENABLE_TYPE_WIDENING = _feature_switch(
    "delta.enableTypeWidening", "typeWidening", "types of columns can become wider without rewriting files"
)
ENABLED_FORMATS: PlainProperty[tuple[str, ...]] = PlainProperty(
    name="delta.universalFormat.enabledFormats",
    meaning="the table has Iceberg's metadata too, so that [Iceberg's readers](../howto/iceberg.md) read it",
    default=(),
    parse=_formats,
    takes="iceberg; tahoe writes no metadata of Hudi",
)
ISOLATION_LEVEL = PlainProperty(
    name="delta.isolationLevel",
    meaning="[which appends may pass a concurrent write](../consistency.md#guarantees)",
    default="Serializable",
    parse=_one_of("Serializable", "WriteSerializable"),
    takes="Serializable or WriteSerializable",
)
PARQUET_COMPRESSION = PlainProperty(
    name="delta.parquet.compression.codec",
    meaning="the codec of the Parquet files",
    default="zstd",
    parse=_one_of("uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd"),
    takes="uncompressed, none, snappy, gzip, lz4, lz4_raw or zstd",
)
PARQUET_FORMAT_VERSION = PlainProperty(
    name="delta.parquet.format.version",
    meaning="the version of the Parquet format of the data files",
    default="1.0.0",
    parse=_format_version,
    takes="1.0.0 or 2.MINOR.PATCH",
)
TARGET_FILE_SIZE: PlainProperty[int | None] = PlainProperty(
    name="delta.targetFileSize",
    meaning="the size of the files that OPTIMIZE and clustering make; without it, 1 GiB and 128 MiB",
    default=None,
    parse=parse_size,
    takes="a size in bytes, such as 134217728 or 128mb",
)
AUTO_COMPACT = PlainProperty(
    name="delta.autoOptimize.autoCompact",
    meaning="[auto compaction](../reference/layout.md#auto-compaction) after writes",
    default="false",
    parse=_one_of("true", "false", "auto", "legacy"),
    takes="true, false or auto",
)
AUTO_OPTIMIZE = _switch(
    "delta.autoOptimize", "an older name for both properties of `delta.autoOptimize.*`"
)  # deprecated: stands for the properties of both features
OPTIMIZE_WRITE: PlainProperty[bool | None] = PlainProperty(
    name="delta.autoOptimize.optimizeWrite",
    meaning="[optimised writes](../reference/layout.md#optimised-writes)",
    default=None,
    parse=parse_boolean,
    takes="true or false",
)
BLOOM_FILTERS: PlainProperty[tuple[BloomFilter, ...]] = PlainProperty(
    name="tahoe.bloomFilters",
    meaning="the columns whose files get [Bloom filters](../reference/layout.md#bloom-filters)",
    default=(),
    parse=parse_bloom_filters,
    takes=(
        "a comma-separated list of columns, each with or without options, such as id (fpp = 0.01, numItems = 1000000)"
    ),
)
CLUSTER_ON_WRITE = _switch("tahoe.clusterOnWrite", "large writes to a clustered table lay out their rows", True)
CONFLICT_RETRIES = PlainProperty(
    name="tahoe.conflictRetries",
    meaning="how often a command is [run again after a conflict](../consistency.md#compactions)",
    default=3,
    parse=_number(0),
    takes="a non-negative integer",
)
KEPT_MARKS = PlainProperty(
    name="tahoe.keptMarks",
    meaning="the last values of what is gone, so that [no number is assigned twice](../consistency.md#numbers)",
    default=KeptMarks(),
    parse=parse_kept_marks,
    takes="a JSON object",
    is_internal=True,
)
# What the names of properties begin with by which the catalog that manages a table knows it.
OF_MANAGERS = ("io.unitycatalog.", "ucTableId")
# And further ones that a table has of a catalog or a commit coordinator.
OF_CATALOGS = (*OF_MANAGERS, "delta.coordinatedCommits.", "delta.feature.catalog")

SYMLINK_MANIFESTS = _switch(
    "delta.compatibility.symlinkFormatManifest.enabled", "each commit writes [manifests](../reference/manifests.md)"
)
RANDOMIZE_FILE_PREFIXES = _switch(
    "delta.randomizeFilePrefixes",
    "without effect in tahoe; other writers put data files into folders with random names",
)
RANDOM_PREFIX_LENGTH = PlainProperty(
    name="delta.randomPrefixLength",
    meaning="without effect in tahoe; the length of these names",
    default=2,
    parse=_number(1),
    takes="a number of characters, at least 1",
)
PROTECTED_CHECKPOINTS_BEFORE = FeatureProperty(
    name="delta.requireCheckpointProtectionBeforeVersion",
    meaning="log files of older versions are only deleted together with a checkpoint",
    feature="checkpointProtection",
    default=0,
    parse=_number(0),
    takes="a version",
    is_internal=True,
)

PROPERTIES: tuple[Property[Any], ...] = (
    *(known for known in tuple(globals().values()) if isinstance(known, Property)),
    # Properties without effect here, some of which other writers use. They are listed so that names and values are
    # checked.
    PlainProperty(
        name="delta.minReaderVersion",
        meaning="the reader version of a new table; raises that of an existing one",
        default=None,
        parse=_number(1, 3),
        takes="1, 2 or 3",
    ),
    PlainProperty(
        name="delta.minWriterVersion",
        meaning="the writer version of a new table; raises that of an existing one",
        default=None,
        parse=_number(1, 7),
        takes="an integer from 1 to 7",
    ),
    _switch("delta.ignoreProtocolDefaults", "a new table ignores the session's default versions and features"),
    _length("delta.sampleRetentionDuration", timedelta(days=7), "without effect"),
    _switch("delta.enableFullRetentionRollback", "without effect", True),
    _feature_switch(
        "delta.enableVariantShredding",
        "variantShredding",
        "Spark stores the fields of variants as columns of their own, and tahoe reads such files in Spark",
    ),
    _text(
        "delta.rowTracking.materializedRowIdColumnName",
        "the column of data files that has row ids of rows that moved",
        is_internal=True,
    ),
    _text(
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "the column of data files that has the versions of rows that moved",
        is_internal=True,
    ),
    _switch("delta.universalFormat.iceberg.atomicConversion.supported", "without effect"),
    _feature_switch(
        "delta.enableIcebergCompatV1", "icebergCompatV1", "files have what Iceberg's readers need, version 1"
    ),
    _feature_switch(
        "delta.enableIcebergCompatV2",
        "icebergCompatV2",
        "the same, version 2: also arrays and maps",
    ),
    _feature_switch(
        "delta.enableIcebergCompatV3",
        "icebergCompatV3",
        "the same, version 3: also variants, deletion vectors and row tracking",
    ),
    _switch("delta.castIcebergTimeType", "without effect"),
    _switch("delta.ignoreIcebergBucketPartition", "without effect"),
    _feature_switch(
        "delta.enableMaterializePartitionColumnsFeature",
        "materializePartitionColumns",
        "data files have the partition columns too",
    ),
    _switch("delta.writePartitionColumnsToParquet", "without effect"),
)

_BY_FOLDED_NAME: Mapping[str, Property[Any]] = {
    **{p.name.lower(): p for p in PROPERTIES},
    "delta.enablechangedatacapture": ENABLE_CHANGE_DATA_FEED,  # its name before the first release
}


def find_property(name: str) -> Property[Any] | None:
    """The property of that name, found case-insensitively; None if there is none."""
    return _BY_FOLDED_NAME.get(name.lower())


def settable(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table that a user can set on another one: without those that writers maintain, and without
    unknown ones of Delta, among them CHECK constraints.
    """
    return {name: value for name, value in properties.items() if _is_settable(name)}


def _is_settable(name: str) -> bool:
    found = find_property(name)
    return not name.lower().startswith((PREFIX, _OWN_PREFIX)) if found is None else not found.is_internal


def normalise(properties: Mapping[str, str], *, table: str) -> dict[str, str]:
    """The user's properties as the table stores them: `delta.*` and `tahoe.*` names in their defined spelling, and
    values checked.

    Names without these prefixes are the user's own and are not changed.

    Raises:
        UnknownPropertyError: an unknown `delta.*` or `tahoe.*` name.
        InternalPropertyError: a property that only writers set.
        InvalidPropertyError: an invalid value.
    """
    normal: dict[str, str] = {}
    for key, value in properties.items():
        name = _checked_name(key, value, table)
        if normal.setdefault(name, value) != value:
            raise InvalidPropertyError(
                property=name, table=table, value=value, detail=f"it is also set to {normal[name]}"
            )
    return normal


def _checked_name(key: str, value: str, table: str) -> str:
    """The name of a property in its defined spelling, after the checks that `normalise` promises for the name and its
    value. Names under `OPEN_PREFIXES` and the user's own have no values to check.
    """
    folded = key.lower()
    if not folded.startswith((PREFIX, _OWN_PREFIX)):
        return key
    for prefix in OPEN_PREFIXES:
        if folded.startswith(prefix) and len(key) > len(prefix):
            return prefix + key[len(prefix) :]
    found = find_property(key)
    if found is None:
        owner = "Delta" if folded.startswith(PREFIX) else "tahoe"
        near = difflib.get_close_matches(folded, list(_BY_FOLDED_NAME), n=1, cutoff=0.8)
        error = UnknownPropertyError(property=key, table=table, owner=owner)
        raise error.restate(f"Use the name {_BY_FOLDED_NAME[near[0]].name}.") if near else error
    if found.is_internal:
        raise InternalPropertyError(property=found.name, table=table)
    found.read(value, table=table)  # raises an error if the value is invalid
    return found.name
