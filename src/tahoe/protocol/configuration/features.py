"""Table features and protocol versions: which features a table supports, and whether tahoe may read or write it.

Protocol: "Table Features", "Writer Version Requirements", "Reader Version Requirements". `FEATURES` lists every
feature; adding one means adding a record. All decisions are made from the two actions `protocol` and `metaData`.
`feature_upgrade` raises a protocol, `feature_drop` lowers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar

from tahoe._version import VERSION
from tahoe.errors import (
    AppendOnlyTableError,
    InvalidActionError,
    InvalidPropertyError,
    UnsupportedFileFormatError,
    UnsupportedProtocolVersionError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
)
from tahoe.protocol.configuration.change_feed import taken_names
from tahoe.protocol.configuration.feature_conflicts import ICEBERG_COMPATS, ROW_ID_COLUMNS, named_like_row_ids
from tahoe.protocol.configuration.properties import FeatureProperty
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.column_metadata import CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY, INVARIANTS
from tahoe.protocol.types.schema import (
    TIMESTAMP_NTZ,
    VARIANT,
    DataType,
    Struct,
    holds_geospatial,
    types_in,
    walk_fields,
)
from tahoe.protocol.types.type_widening import TYPE_CHANGES, check_type_changes

READER_VERSIONS = range(1, 4)
WRITER_VERSIONS = range(1, 8)
READER_VERSION_FEATURES = 3
WRITER_VERSION_FEATURES = 7

# The first version of Iceberg compatibility in which elements, keys and values have field ids.
_NESTED_IDS_SINCE = 2

_FORMAT = "parquet"  # of data files: `format.provider` of the metadata

Configuration: TypeAlias = Mapping[str, str]
Test: TypeAlias = Callable[[Struct, Configuration], bool]
T = TypeVar("T")


class Writes(Enum):
    """What tahoe does when a feature is active on a table."""

    ALL = "all writes are supported and follow the rule"
    APPENDS = "appends are allowed; writes that remove or change rows are refused, as the rule requires"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One table feature.

    Attributes:
        name: the name in `readerFeatures` and `writerFeatures`.
        active: whether the metadata activates the feature on a table that supports it.
        writes: which writes are allowed where the feature is active.
        rule: the rule, as worded in an error message.
        why: the reason for `writes`.
        is_reader_feature: whether it is a reader-writer feature.
        legacy_reader_version, legacy_writer_version: the first protocol versions without feature lists that imply the
            feature.
        requires: the features that it depends on.
        preview_names: names under which earlier releases listed the feature.
        properties: the table properties that are removed when the feature is dropped.
        conflict: what in a table's protocol and metadata breaks the rule, as worded in an error message; None if
            nothing does.
    """

    name: str
    active: Test
    writes: Writes
    rule: str
    why: str
    is_reader_feature: bool = False
    legacy_reader_version: int | None = None
    legacy_writer_version: int | None = None
    requires: tuple[str, ...] = ()
    preview_names: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    conflict: Callable[[Protocol, Metadata], str | None] = lambda _, __: None


# --- when the metadata activates a feature


def property_is_true(name: str) -> Test:
    """The test whether a table property is true."""
    return lambda _, configuration: configuration.get(name, "").strip().lower() == "true"


def _times_off(_: Protocol, metadata: Metadata) -> str | None:
    is_on = metadata.configuration.get("delta.enableInCommitTimestamps", "").strip().lower() == "true"
    return None if is_on else "it needs delta.enableInCommitTimestamps = true"


def _mapped_columns(_: Struct, configuration: Configuration) -> bool:
    return configuration.get("delta.columnMapping.mode", "none").lower() != "none"


def _constraints(_: Struct, configuration: Configuration) -> bool:
    return any(key.lower().startswith("delta.constraints.") for key in configuration)


def _column_key(prefix: str) -> Test:
    return lambda schema, _: any(key.startswith(prefix) for _, field in walk_fields(schema) for key in field.metadata)


def _column_type(data_type: DataType) -> Test:
    return lambda schema, _: data_type in types_in(schema)


def _row_ids_are_assigned(_: Struct, configuration: Configuration) -> bool:
    return configuration.get("delta.rowTrackingSuspended", "").strip().lower() != "true"


def _v2_checkpoints(_: Struct, configuration: Configuration) -> bool:
    return configuration.get("delta.checkpointPolicy", "classic").lower().startswith("v2")


def _protected_checkpoints(_: Struct, configuration: Configuration) -> bool:
    return configuration.get("delta.requireCheckpointProtectionBeforeVersion", "0").strip() not in ("", "0")


def _type_widening(schema: Struct, configuration: Configuration) -> bool:
    return property_is_true("delta.enableTypeWidening")(schema, configuration) or _column_key(TYPE_CHANGES)(
        schema, configuration
    )


def _always(_: Struct, __: Configuration) -> bool:
    return True


FEATURES: tuple[Feature, ...] = (
    Feature(
        name="appendOnly",
        legacy_writer_version=2,
        active=property_is_true("delta.appendOnly"),
        writes=Writes.APPENDS,
        rule="append-only tables",
        why=(
            "Commits must not remove or change rows; commits that only rearrange them (dataChange=false) may remove "
            "files."
        ),
    ),
    Feature(
        name="invariants",
        legacy_writer_version=2,
        active=_column_key(INVARIANTS),
        writes=Writes.ALL,
        rule="a column invariant",
        why="The SQL expression is evaluated for every new row.",
    ),
    Feature(
        name="checkConstraints",
        legacy_writer_version=3,
        active=_constraints,
        writes=Writes.ALL,
        rule="CHECK constraints",
        why="The SQL expressions are evaluated for every new row.",
    ),
    Feature(
        name="changeDataFeed",
        legacy_writer_version=4,
        active=property_is_true("delta.enableChangeDataFeed"),
        writes=Writes.ALL,
        rule="the change data feed",
        why=(
            "DML writes cdc files. Appends and overwrites need none: readers take adds as inserts and removes as "
            "deletes."
        ),
        conflict=taken_names,
    ),
    Feature(
        name="generatedColumns",
        legacy_writer_version=4,
        active=_column_key(GENERATION_EXPRESSION),
        writes=Writes.ALL,
        rule="generated columns",
        why="The value of every new row is computed from the SQL expression; a given value is compared with it.",
    ),
    Feature(
        name="columnMapping",
        is_reader_feature=True,
        legacy_reader_version=2,
        legacy_writer_version=5,
        active=_mapped_columns,
        writes=Writes.ALL,
        rule="column mapping",
        why="Data files, partition values and statistics use physical names, and new columns are assigned ids.",
    ),
    Feature(
        name="identityColumns",
        legacy_writer_version=6,
        active=_column_key(IDENTITY),
        writes=Writes.ALL,
        rule="identity columns",
        why=(
            "New values continue from the high-water mark, which the same commit updates; two commits that update it "
            "conflict."
        ),
    ),
    Feature(
        name="deletionVectors",
        is_reader_feature=True,
        active=property_is_true("delta.enableDeletionVectors"),
        writes=Writes.ALL,
        rule="deletion vectors",
        why="Writers may write vectors but need not. The tombstone of a removed file keeps its vector.",
        properties=("delta.enableDeletionVectors",),
    ),
    Feature(
        name="timestampNtz",
        is_reader_feature=True,
        active=_column_type(TIMESTAMP_NTZ),
        writes=Writes.ALL,
        rule="the type timestamp_ntz",
        why="It is written like any other type.",
    ),
    Feature(
        name="variantType",
        is_reader_feature=True,
        preview_names=("variantType-preview",),
        active=_column_type(VARIANT),
        writes=Writes.ALL,
        rule="the type variant",
        why="Values are structs of value and metadata, or shredded. A partition column cannot be a variant.",
    ),
    Feature(
        name="variantShredding",
        is_reader_feature=True,
        preview_names=("variantShredding-preview",),
        requires=("variantType",),
        active=property_is_true("delta.enableVariantShredding"),
        writes=Writes.ALL,
        rule="shredded variants",
        why="Spark shreds variants into the columns that it infers from a file's first rows.",
    ),
    Feature(
        name="geospatial",
        is_reader_feature=True,
        preview_names=("geospatial-dev",),
        active=lambda schema, _: holds_geospatial(schema),
        writes=Writes.ALL,
        rule="the types geometry and geography",
        why="Values are well-known binary, and bounds are those of the footers. They have no order and no defaults.",
    ),
    Feature(
        name="typeWidening",
        is_reader_feature=True,
        preview_names=("typeWidening-preview",),
        active=_type_widening,
        writes=Writes.ALL,
        rule="type widening",
        why="Type changes stay recorded in the schema. Schema evolution widens types and records the change.",
        properties=("delta.enableTypeWidening",),
    ),
    Feature(
        name="v2Checkpoint",
        is_reader_feature=True,
        active=_v2_checkpoints,
        writes=Writes.ALL,
        rule="V2 checkpoints",
        why="It constrains only checkpoints, which a commit need not write. Multi-part checkpoints are never written.",
        properties=("delta.checkpointPolicy",),
    ),
    Feature(
        name="vacuumProtocolCheck",
        is_reader_feature=True,
        active=_always,
        writes=Writes.ALL,
        rule="the protocol check before VACUUM",
        why="It constrains only VACUUM; every write checks the writer protocol.",
    ),
    Feature(
        name="domainMetadata",
        active=_always,
        writes=Writes.ALL,
        rule="metadata domains",
        why="A domain stays in the log until an action replaces it; other writes leave it alone.",
    ),
    Feature(
        name="clustering",
        requires=("domainMetadata",),
        active=_always,
        writes=Writes.ALL,
        rule="clustered tables",
        why="Writers need not cluster new files. Statistics of the clustering columns are always collected.",
    ),
    Feature(
        name="rowTracking",
        requires=("domainMetadata",),
        active=_row_ids_are_assigned,
        writes=Writes.ALL,
        rule="the assignment of row ids and row commit versions",
        why=(
            "If the feature is supported, enabled or not, every new file gets a base row id unless row tracking is "
            "suspended."
        ),
        properties=(
            "delta.enableRowTracking",
            "delta.rowTrackingSuspended",
            *ROW_ID_COLUMNS,
        ),
        conflict=named_like_row_ids,
    ),
    Feature(
        name="inCommitTimestamp",
        active=property_is_true("delta.enableInCommitTimestamps"),
        writes=Writes.ALL,
        rule="in-commit timestamps",
        why="Every commit gets a timestamp later than that of the previous commit; a retried commit gets a new one.",
        properties=(
            "delta.enableInCommitTimestamps",
            "delta.inCommitTimestampEnablementVersion",
            "delta.inCommitTimestampEnablementTimestamp",
        ),
    ),
    Feature(
        name="allowColumnDefaults",
        active=_column_key(CURRENT_DEFAULT),
        writes=Writes.ALL,
        rule="default values of columns",
        why="Rows without a value for such a column get the value of its SQL expression.",
    ),
    Feature(
        name="icebergCompatV1",
        requires=("columnMapping",),
        active=property_is_true("delta.enableIcebergCompatV1"),
        writes=Writes.ALL,
        rule="compatibility with Iceberg, version 1",
        why=(
            "Data files contain the partition columns, timestamps are INT64, and adds carry numRecords. Other "
            "violations are refused."
        ),
        conflict=ICEBERG_COMPATS[0].conflict,
    ),
    Feature(
        name="icebergCompatV2",
        requires=("columnMapping",),
        active=property_is_true("delta.enableIcebergCompatV2"),
        writes=Writes.ALL,
        rule="compatibility with Iceberg, version 2",
        why="As version 1; elements of arrays, and keys and values of maps, have field ids too.",
        conflict=ICEBERG_COMPATS[1].conflict,
    ),
    Feature(
        name="icebergCompatV3",
        requires=("columnMapping", "rowTracking"),
        active=property_is_true("delta.enableIcebergCompatV3"),
        writes=Writes.ALL,
        rule="compatibility with Iceberg, version 3",
        why="As version 2; row tracking is on, and the columns of row ids have the field ids of Iceberg's row lineage.",
        conflict=ICEBERG_COMPATS[2].conflict,
    ),
    Feature(
        name="materializePartitionColumns",
        active=_always,
        writes=Writes.ALL,
        rule="partition columns in data files",
        why="Data files contain the partition columns wherever the feature is supported.",
        properties=("delta.enableMaterializePartitionColumnsFeature",),
    ),
    Feature(
        name="checkpointProtection",
        active=_protected_checkpoints,
        writes=Writes.ALL,
        rule="checkpoint protection",
        why=(
            "Metadata cleanup keeps the checkpoints that hide a dropped feature from readers, or deletes all of them "
            "at once."
        ),
        properties=("delta.requireCheckpointProtectionBeforeVersion",),
    ),
    Feature(
        name="catalogManaged",
        is_reader_feature=True,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
        active=_always,
        writes=Writes.ALL,
        rule="catalog-managed commits",
        why="Only the catalog knows the newest commits, so the table is opened through its catalog.",
        conflict=_times_off,
    ),
)

FEATURES_BY_NAME: Mapping[str, Feature] = {name: f for f in FEATURES for name in (f.name, *f.preview_names)}


def feature_named(name: str) -> Feature | None:
    """The feature of that name or preview name."""
    return FEATURES_BY_NAME.get(name)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """The names of the features that a table supports, listed or implied by its versions. Protocol: "Supported
    Features".
    """
    implied = {f.name for f in FEATURES if _is_implied(f, protocol)}
    listed = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    return frozenset(implied | listed)


def _is_implied(feature: Feature, protocol: Protocol) -> bool:
    if protocol.writer_version >= WRITER_VERSION_FEATURES:
        return feature.legacy_reader_version is not None and protocol.reader_version == feature.legacy_reader_version
    if feature.legacy_writer_version is None or feature.legacy_writer_version > protocol.writer_version:
        return False
    return feature.legacy_reader_version is None or feature.legacy_reader_version <= protocol.reader_version


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether a table supports a feature, under its name or a preview name."""
    return is_among(supported_features(protocol), FEATURES_BY_NAME[feature])


def is_among(supported: frozenset[str], feature: Feature) -> bool:
    """Whether the feature is in a set of names, under its name or a preview name."""
    return not supported.isdisjoint((feature.name, *feature.preview_names))


def setting(
    property: FeatureProperty[T], protocol: Protocol, configuration: Configuration, *, table: str = "the table"
) -> T:
    """The effective value of a feature's property: the stored value if the protocol supports the feature, else the
    default.

    Other writers may leave such properties on a table without the feature. Acting on them would break the table for
    readers and writers that follow the protocol. For a reader feature, the value takes effect only if the protocol
    requires it of readers.

    Raises:
        InvalidPropertyError: the stored text is not a valid value.
    """
    text = configuration.get(property.name)
    if (
        text is None
        or not supports(protocol, property.feature)
        or not _is_required_of_readers(protocol, FEATURES_BY_NAME[property.feature])
    ):
        return property.default
    return property.read(text, table=table)


def _is_required_of_readers(protocol: Protocol, feature: Feature) -> bool:
    if not feature.is_reader_feature or protocol.reader_version == feature.legacy_reader_version:
        return True
    return protocol.reader_version >= READER_VERSION_FEATURES and is_among(
        protocol.reader_features or frozenset(), feature
    )


def check_readable(protocol: Protocol, metadata: Metadata, *, table: str) -> None:
    """Refuse a table that this version of tahoe would read incorrectly.

    Raises:
        UnsupportedProtocolVersionError: the reader version is unknown.
        UnsupportedReaderFeatureError: the table requires reader features that are unknown; the error lists them.
        UnsupportedFileFormatError: the data files are not Parquet.
        UnsupportedTypeChangeError: the schema records a type change that the protocol does not allow.
    """
    if protocol.reader_version not in READER_VERSIONS:
        raise _unknown_version(protocol, table)
    listed = protocol.reader_features or frozenset()
    unknown = sorted(name for name in listed if feature_named(name) is None)
    if unknown and protocol.reader_version >= READER_VERSION_FEATURES:
        raise UnsupportedReaderFeatureError(table=table, features=", ".join(unknown), tahoe_version=VERSION)
    if metadata.format.provider.lower() != _FORMAT:
        raise UnsupportedFileFormatError(table=table, provider=metadata.format.provider)
    check_type_changes(metadata.schema, table=table)


def check_writable(protocol: Protocol, metadata: Metadata, *, table: str, removes_data: bool = False) -> None:
    """Refuse a write that would break a rule of the table.

    Args:
        removes_data: whether the write removes rows; a write that only rearranges them (`dataChange` false) does not.

    Raises:
        DeltaProtocolError: as `check_readable`, because a writer must be able to read the table.
        UnsupportedProtocolVersionError, UnsupportedWriterFeatureError: the writer version, or a writer feature, is
            unknown.
        InvalidPropertyError: something in the table breaks the rule of an active feature.
        AppendOnlyTableError: the write would remove rows from an append-only table.
    """
    check_readable(protocol, metadata, table=table)
    check_known(protocol, table=table)
    for feature in active_features(protocol, metadata):
        if (detail := feature.conflict(protocol, metadata)) is not None:
            name = f"delta.enable{feature.name[0].upper()}{feature.name[1:]}"
            raise InvalidPropertyError(property=name, table=table, value="true", detail=detail)
        if feature.writes is Writes.APPENDS and removes_data:
            raise AppendOnlyTableError(table=table)


def check_known(protocol: Protocol, *, table: str) -> None:
    """Refuse a table whose log may contain what tahoe does not know, and would lose in a checkpoint or delete with old
    commits.

    Raises:
        UnsupportedProtocolVersionError, UnsupportedWriterFeatureError: the writer version, or a writer feature, is
            unknown.
        InvalidActionError: a list of features is missing, so that it is not known what the table needs.
    """
    if protocol.writer_version not in WRITER_VERSIONS:
        raise _unknown_version(protocol, table)
    for name, first in (("reader", READER_VERSION_FEATURES), ("writer", WRITER_VERSION_FEATURES)):
        if getattr(protocol, f"{name}_version") >= first and getattr(protocol, f"{name}_features") is None:
            detail = f"versions ({protocol.reader_version}, {protocol.writer_version}) need the list {name}Features"
            raise InvalidActionError(table=table, action="protocol", detail=detail)
    unknown = sorted(name for name in supported_features(protocol) if feature_named(name) is None)
    if unknown:
        raise UnsupportedWriterFeatureError(table=table, features=", ".join(unknown), tahoe_version=VERSION)


def keeps_partitions_in_files(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether data files must contain the partition columns. Protocol: "Materialize Partition Columns"."""
    is_asked = supports(protocol, "materializePartitionColumns")
    return is_asked or iceberg_compat(protocol, metadata.configuration) is not None


def iceberg_compat(protocol: Protocol, configuration: Configuration) -> int | None:
    """The version of Iceberg compatibility that is active on a table; None if none is."""
    active = (
        compat.number
        for compat in reversed(ICEBERG_COMPATS)
        if (feature := FEATURES_BY_NAME[f"icebergCompatV{compat.number}"]).active(Struct(), configuration)
        and supports(protocol, feature.name)
    )
    return next(active, None)


def numbers_nested(protocol: Protocol, configuration: Configuration) -> bool:
    """Whether elements, keys and values have field ids. Protocol: "Writer Requirements for IcebergCompatV2"."""
    return (iceberg_compat(protocol, configuration) or 0) >= _NESTED_IDS_SINCE


def shreds_variants(protocol: Protocol, configuration: Configuration) -> bool:
    """Whether writers may shred variants. Protocol: "Writer Requirements for Variant Shredding"."""
    feature = FEATURES_BY_NAME["variantShredding"]
    return is_among(supported_features(protocol), feature) and feature.active(Struct(), configuration)


def active_features(protocol: Protocol, metadata: Metadata) -> Iterator[Feature]:
    """The features that are supported and whose metadata requirements are met. Protocol: "Active Features"."""
    supported = supported_features(protocol)
    for feature in FEATURES:
        if is_among(supported, feature) and feature.active(metadata.schema, metadata.configuration):
            yield feature


def is_activated_by_metadata(feature: Feature) -> bool:
    """Whether the schema or a property activates the feature; the others are active wherever they are supported."""
    return feature.active is not _always and feature.active is not _row_ids_are_assigned


def _unknown_version(protocol: Protocol, table: str) -> UnsupportedProtocolVersionError:
    return UnsupportedProtocolVersionError(
        table=table, reader=protocol.reader_version, writer=protocol.writer_version, tahoe_version=VERSION
    )
