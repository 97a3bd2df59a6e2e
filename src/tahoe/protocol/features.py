"""Protocol versions and table features: what tahoe reads, what it writes, and what a table must declare.

Protocol: "Table Features", "Writer Version Requirements", "Reader Version Requirements". The table `FEATURES` says it all: adding a
feature is adding a record. Knows nothing of files: it decides from the two actions `protocol` and `metaData`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias, TypeVar

from tahoe._version import VERSION
from tahoe.errors import (
    AppendOnlyTableError,
    DependentFeatureError,
    FeatureNotDroppableError,
    FeatureNotPresentError,
    InvalidPropertyError,
    PropertyNoFeatureError,
    UnknownFeatureError,
    UnknownFeaturePropertyError,
    UnsupportedFileFormatError,
    UnsupportedProtocolVersionError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
    WriteNotImplementedError,
)
from tahoe.protocol.actions import Metadata, Protocol
from tahoe.protocol.column_mapping import mapping_mode
from tahoe.protocol.properties import SYMLINK_MANIFESTS, FeatureProperty, find_property
from tahoe.protocol.schema import TIMESTAMP_NTZ, VARIANT, VOID, Array, DataType, Map, Struct, types_in, walk_fields
from tahoe.protocol.type_widening import TYPE_CHANGES, check_type_changes, is_widening_for_iceberg, recorded_changes

READER_VERSIONS = range(1, 4)
WRITER_VERSIONS = range(1, 8)
READER_VERSION_FEATURES = 3
WRITER_VERSION_FEATURES = 7

NEW_TABLE = Protocol(reader_version=1, writer_version=2)

_FORMAT = "parquet"  # of data files: `format.provider` of the metadata

FEATURE_PREFIX = "delta.feature."
MIN_READER_VERSION = "delta.minReaderVersion"
MIN_WRITER_VERSION = "delta.minWriterVersion"
_ACTIVE_VALUES = ("supported", "enabled")

Configuration: TypeAlias = Mapping[str, str]
Test: TypeAlias = Callable[[Struct, Configuration], bool]
T = TypeVar("T")


class Writes(Enum):
    """What tahoe does when a feature is active on a table."""

    ALL = "every write follows the rule"
    APPENDS = "appends are written; what would remove or change rows is refused, as the rule demands"
    NONE = "the rule is not enforced yet, so that nothing is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One table feature.

    Attributes:
        name: as it is listed in `readerFeatures` and `writerFeatures`.
        active: whether the metadata asks for the rule, on a table that supports the feature.
        writes: what happens to a write where it is active.
        rule: the rule, in the words of an error message.
        why: why `writes` is right.
        is_reader_feature: readers must know it as well.
        legacy_reader_version, legacy_writer_version: the first version without lists that implies it.
        requires: features that must be listed with it.
        preview_names: other names of the same rules.
        is_read: whether tables that list it can be read.
        properties: what goes from the table's properties with the feature.
        conflict: what of a table's protocol and metadata the rule forbids, in the words of an error message; None where all is well.
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
    is_read: bool = True
    properties: tuple[str, ...] = ()
    conflict: Callable[[Protocol, Metadata], str | None] = lambda _, __: None


# --- tests on the metadata


def _property(name: str) -> Test:
    return lambda _, configuration: configuration.get(name, "").strip().lower() == "true"


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
    return _property("delta.enableTypeWidening")(schema, configuration) or _column_key(TYPE_CHANGES)(schema, configuration)


def _always(_: Struct, __: Configuration) -> bool:
    return True


def _against_iceberg_v1(protocol: Protocol, metadata: Metadata) -> str | None:
    """Protocol: "Writer Requirements for IcebergCompatV1"."""
    if mapping_mode(protocol, metadata.configuration) == "none":
        return "it needs delta.columnMapping.mode name or id"
    if "deletionVectors" in supported_features(protocol):
        return "the table supports deletion vectors, which Iceberg cannot read"
    changed = [path for path, before, after in recorded_changes(metadata.schema) if not is_widening_for_iceberg(before, after)]
    if changed:
        return f"the type of {', '.join(changed)} was widened as Iceberg cannot widen it"
    columns = [".".join(path) for path, field in walk_fields(metadata.schema) if isinstance(field.type, Array | Map) or field.type == VOID]
    return f"columns of the types array, map and void cannot be read by it: {', '.join(columns)}" if columns else None


# --- the table

FEATURES: tuple[Feature, ...] = (
    Feature(
        name="appendOnly",
        legacy_writer_version=2,
        active=_property("delta.appendOnly"),
        writes=Writes.APPENDS,
        rule="append-only tables",
        why="Commits must not remove or change data; those that only rearrange it (dataChange=false) may.",
    ),
    Feature(
        name="invariants",
        legacy_writer_version=2,
        active=_column_key("delta.invariants"),
        writes=Writes.ALL,
        rule="the invariant of a column",
        why="Every new row is tested by its SQL expression.",
    ),
    Feature(
        name="checkConstraints",
        legacy_writer_version=3,
        active=_constraints,
        writes=Writes.ALL,
        rule="CHECK constraints",
        why="Every new row is tested by their SQL expressions.",
    ),
    Feature(
        name="changeDataFeed",
        legacy_writer_version=4,
        active=_property("delta.enableChangeDataFeed"),
        writes=Writes.ALL,
        rule="the change data feed",
        why="Where a version has no cdc files, its adds are inserts and its removes deletes. That is what appends and overwrites are.",
    ),
    Feature(
        name="generatedColumns",
        legacy_writer_version=4,
        active=_column_key("delta.generationExpression"),
        writes=Writes.ALL,
        rule="generated columns",
        why="Every new row gets the value of an SQL expression, or is tested for it where it brings one.",
    ),
    Feature(
        name="columnMapping",
        is_reader_feature=True,
        legacy_reader_version=2,
        legacy_writer_version=5,
        active=_mapped_columns,
        writes=Writes.ALL,
        rule="column mapping",
        why="Data files, partition values and statistics are written with physical names, and columns get ids.",
        properties=("delta.columnMapping.maxColumnId",),
    ),
    Feature(
        name="identityColumns",
        legacy_writer_version=6,
        active=_column_key("delta.identity."),
        writes=Writes.ALL,
        rule="identity columns",
        why="Values are minted beyond the high-water mark, which moves in the same commit; two that move it conflict.",
    ),
    Feature(
        name="deletionVectors",
        is_reader_feature=True,
        active=_property("delta.enableDeletionVectors"),
        writes=Writes.ALL,
        rule="deletion vectors",
        why="Vectors may be written, and need not be. Files that are removed keep theirs in the tombstone.",
        properties=("delta.enableDeletionVectors",),
    ),
    Feature(
        name="timestampNtz",
        is_reader_feature=True,
        active=_column_type(TIMESTAMP_NTZ),
        writes=Writes.ALL,
        rule="the type timestamp_ntz",
        why="A type like others.",
    ),
    Feature(
        name="variantType",
        is_reader_feature=True,
        preview_names=("variantType-preview",),
        active=_column_type(VARIANT),
        writes=Writes.ALL,
        rule="the type variant",
        why="Written unshredded, as a struct of value and metadata; partition columns cannot have it.",
    ),
    Feature(
        name="variantShredding",
        is_reader_feature=True,
        preview_names=("variantShredding-preview",),
        requires=("variantType",),
        active=_property("delta.enableVariantShredding"),
        writes=Writes.ALL,
        rule="shredded variants",
        why="Writers may shred and need not.",
    ),
    Feature(
        name="typeWidening",
        is_reader_feature=True,
        preview_names=("typeWidening-preview",),
        active=_type_widening,
        writes=Writes.ALL,
        rule="type widening",
        why="The recorded changes stay in the schema; a write that may change the schema widens types, and records that.",
        properties=("delta.enableTypeWidening",),
    ),
    Feature(
        name="v2Checkpoint",
        is_reader_feature=True,
        active=_v2_checkpoints,
        writes=Writes.ALL,
        rule="V2 checkpoints",
        why="It concerns checkpoints only, which a commit need not write; multi-part ones are never written.",
        properties=("delta.checkpointPolicy",),
    ),
    Feature(
        name="vacuumProtocolCheck",
        is_reader_feature=True,
        active=_always,
        writes=Writes.ALL,
        rule="the protocol check before VACUUM",
        why="It concerns VACUUM only; every write checks the writer's protocol.",
    ),
    Feature(
        name="domainMetadata",
        active=_always,
        writes=Writes.ALL,
        rule="metadata domains",
        why="Domains stay in the log until an action replaces them, and no write touches one.",
    ),
    Feature(
        name="clustering",
        requires=("domainMetadata",),
        active=_always,
        writes=Writes.ALL,
        rule="clustered tables",
        why="A file need not be clustered when it is written; statistics of the clustering columns are always collected.",
    ),
    Feature(
        name="rowTracking",
        requires=("domainMetadata",),
        active=_row_ids_are_assigned,
        writes=Writes.ALL,
        rule="the assignment of row ids and row commit versions",
        why="Where the feature is supported, enabled or not, every new file gets a base row id, unless that is suspended.",
        properties=(
            "delta.enableRowTracking",
            "delta.rowTrackingSuspended",
            "delta.rowTracking.materializedRowIdColumnName",
            "delta.rowTracking.materializedRowCommitVersionColumnName",
        ),
    ),
    Feature(
        name="inCommitTimestamp",
        active=_property("delta.enableInCommitTimestamps"),
        writes=Writes.ALL,
        rule="in-commit timestamps",
        why="Every commit gets a timestamp later than the one before, when it is put and again when it goes behind another.",
        properties=(
            "delta.enableInCommitTimestamps",
            "delta.inCommitTimestampEnablementVersion",
            "delta.inCommitTimestampEnablementTimestamp",
        ),
    ),
    Feature(
        name="allowColumnDefaults",
        active=_column_key("CURRENT_DEFAULT"),
        writes=Writes.ALL,
        rule="default values of columns",
        why="Rows without a value for such a column get that of an SQL expression.",
    ),
    Feature(
        name="icebergCompatV1",
        requires=("columnMapping",),
        active=_property("delta.enableIcebergCompatV1"),
        writes=Writes.ALL,
        rule="compatibility with Iceberg, version 1",
        why="Partition columns are written into the data files, timestamps have 64 bits, files tell their rows; the rest is refused.",
        conflict=_against_iceberg_v1,
    ),
    Feature(
        name="icebergCompatV2",
        requires=("columnMapping",),
        active=_property("delta.enableIcebergCompatV2"),
        writes=Writes.NONE,
        rule="compatibility with Iceberg, version 2",
        why="Partition columns must be in the data files, elements need ids, and some types are not allowed.",
    ),
    Feature(
        name="icebergCompatV3",
        requires=("columnMapping", "rowTracking"),
        active=_property("delta.enableIcebergCompatV3"),
        writes=Writes.NONE,
        rule="compatibility with Iceberg, version 3",
        why="Partition columns must be in the data files, elements need ids, and rows are tracked.",
    ),
    Feature(
        name="materializePartitionColumns",
        active=_always,
        writes=Writes.ALL,
        rule="partition columns in data files",
        why="Where the feature is supported, data files hold the partition columns.",
        properties=("delta.enableMaterializePartitionColumnsFeature",),
    ),
    Feature(
        name="checkpointProtection",
        active=_protected_checkpoints,
        writes=Writes.ALL,
        rule="the protection of old checkpoints",
        why="Cleanup of the log keeps checkpoints that hide a dropped feature from readers, or removes all of them at once.",
        properties=("delta.requireCheckpointProtectionBeforeVersion",),
    ),
    Feature(
        name="catalogManaged",
        is_reader_feature=True,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
        active=_always,
        writes=Writes.NONE,
        rule="commits that a catalog ratifies",
        why="The newest commits are known to the catalog alone, so that the log in the storage may be behind.",
        is_read=False,
    ),
)

_BY_NAME: Mapping[str, Feature] = {name: f for f in FEATURES for name in (f.name, *f.preview_names)}


def feature_named(name: str) -> Feature | None:
    """The feature, by its name or a preview name of it."""
    return _BY_NAME.get(name)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """The names of the features that a table supports: those listed, and those that its versions imply. Protocol: "Supported Features"."""
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
    """Whether a table supports a feature, by its name or a preview name of it."""
    return _is_among(supported_features(protocol), _BY_NAME[feature])


def _is_among(supported: frozenset[str], feature: Feature) -> bool:
    return not supported.isdisjoint((feature.name, *feature.preview_names))


def setting(property: FeatureProperty[T], protocol: Protocol, configuration: Configuration, *, table: str = "the table") -> T:
    """The value that counts of a property that belongs to a feature: the table's, where its protocol has the feature, else the default.

    Writers of other makes leave properties without the feature; whoever acted on them would break the table for all who go by the
    protocol. What readers must know counts only where the protocol tells readers.

    Raises:
        InvalidPropertyError: the table holds a text that is no value.
    """
    text = configuration.get(property.name)
    if text is None or not supports(protocol, property.feature) or not _is_told_to_readers(protocol, _BY_NAME[property.feature]):
        return property.default
    return property.read(text, table=table)


def _is_told_to_readers(protocol: Protocol, feature: Feature) -> bool:
    if not feature.is_reader_feature or protocol.reader_version == feature.legacy_reader_version:
        return True
    return protocol.reader_version >= READER_VERSION_FEATURES and _is_among(protocol.reader_features or frozenset(), feature)


# --- may this table be read, may it be written


def check_readable(protocol: Protocol, metadata: Metadata, *, table: str) -> None:
    """Refuse a table that this version of tahoe would read wrongly.

    Raises:
        UnsupportedProtocolVersionError: the reader version is not known.
        UnsupportedReaderFeatureError: names the reader features that are not known.
        UnsupportedFileFormatError: the data files are not Parquet.
        UnsupportedTypeChangeError: the schema records a type change that the protocol does not have.
    """
    if protocol.reader_version not in READER_VERSIONS:
        raise _unknown_version(protocol, table)
    listed = protocol.reader_features or frozenset()
    unknown = sorted(name for name in listed if (f := feature_named(name)) is None or not f.is_read)
    if unknown and protocol.reader_version >= READER_VERSION_FEATURES:
        raise UnsupportedReaderFeatureError(table=table, features=", ".join(unknown), tahoe_version=VERSION)
    if metadata.format.provider.lower() != _FORMAT:
        raise UnsupportedFileFormatError(table=table, provider=metadata.format.provider)
    check_type_changes(metadata.schema, table=table)


def check_writable(protocol: Protocol, metadata: Metadata, *, table: str, removes_data: bool = False) -> None:
    """Refuse a write that would break a rule of the table.

    Args:
        removes_data: the write takes rows out of the table; one that only rearranges them (`dataChange` false) does not.

    Raises:
        DeltaProtocolError: as `check_readable`, since a writer reads first.
        UnsupportedProtocolVersionError, UnsupportedWriterFeatureError: a version, or named features, that are not known.
        WriteNotImplementedError: a rule is active that is not enforced yet; names the feature.
        AppendOnlyTableError: rows would be removed from an append-only table.
    """
    check_readable(protocol, metadata, table=table)
    if protocol.writer_version not in WRITER_VERSIONS:
        raise _unknown_version(protocol, table)
    supported = supported_features(protocol)
    unknown = sorted(name for name in supported if feature_named(name) is None)
    if unknown:
        raise UnsupportedWriterFeatureError(table=table, features=", ".join(unknown), tahoe_version=VERSION)
    if SYMLINK_MANIFESTS.get(metadata.configuration):
        rule = "manifests for other engines are written with each commit"
        raise WriteNotImplementedError(table=table, rule=rule, feature=SYMLINK_MANIFESTS.name, tahoe_version=VERSION)
    for feature in active_features(protocol, metadata):
        if feature.writes is Writes.NONE:
            raise WriteNotImplementedError(table=table, rule=feature.rule, feature=feature.name, tahoe_version=VERSION)
        if (detail := feature.conflict(protocol, metadata)) is not None:
            name = f"delta.enable{feature.name[0].upper()}{feature.name[1:]}"
            raise InvalidPropertyError(property=name, table=table, value="true", detail=detail)
        if feature.writes is Writes.APPENDS and removes_data:
            raise AppendOnlyTableError(table=table)


def keeps_partitions_in_files(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether data files must hold the partition columns. Protocol: "Materialize Partition Columns"."""
    names = {feature.name for feature in active_features(protocol, metadata)}
    return not names.isdisjoint(("materializePartitionColumns", "icebergCompatV1"))


def active_features(protocol: Protocol, metadata: Metadata) -> Iterator[Feature]:
    """The features that are supported and whose metadata requirements are met. Protocol: "Active Features"."""
    supported = supported_features(protocol)
    for feature in FEATURES:
        if _is_among(supported, feature) and feature.active(metadata.schema, metadata.configuration):
            yield feature


def _unknown_version(protocol: Protocol, table: str) -> UnsupportedProtocolVersionError:
    return UnsupportedProtocolVersionError(
        table=table, reader=protocol.reader_version, writer=protocol.writer_version, tahoe_version=VERSION
    )


# --- what a table must declare

# Features that are on wherever they are supported say nothing about what a schema or a property needs. Defaults need
# their feature to be asked for by name, as in the reference.
_NOT_BY_METADATA = frozenset({"allowColumnDefaults"})
_NEEDED_BY_METADATA = tuple(
    f for f in FEATURES if f.active is not _always and f.active is not _row_ids_are_assigned and f.name not in _NOT_BY_METADATA
) + tuple(
    replace(f, active=_property(name))
    for f, name in (
        (_BY_NAME["rowTracking"], "delta.enableRowTracking"),
        (_BY_NAME["materializePartitionColumns"], "delta.enableMaterializePartitionColumnsFeature"),
    )
)


# Properties that ask for a protocol, and are not stored as properties.
_PROTOCOL_PROPERTIES = (FEATURE_PREFIX, MIN_READER_VERSION, MIN_WRITER_VERSION, "delta.ignoreProtocolDefaults")


def split_features(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Properties that the table stores, and those that ask for a protocol."""
    asked = {k: v for k, v in properties.items() if k.startswith(_PROTOCOL_PROPERTIES)}
    return {k: v for k, v in properties.items() if k not in asked}, asked


def protocol_for_new_table(schema: Struct, configuration: Configuration, *, table: str = "the table") -> Protocol:
    """(1, 2), unless the schema or a property needs more.

    Args:
        configuration: the table properties, with those that ask for a protocol: `delta.feature.<name>`, `delta.minReaderVersion` and
            `delta.minWriterVersion`.

    Raises:
        InvalidPropertyError: a version or a feature that does not exist.
    """
    start = NEW_TABLE
    if MIN_READER_VERSION in configuration or MIN_WRITER_VERSION in configuration:
        start = _asked_for(configuration, NEW_TABLE, table)
    return upgrade(start, needed_features(schema, configuration, table=table))


def upgrade_for(protocol: Protocol, schema: Struct, configuration: Configuration, *, table: str = "the table") -> Protocol:
    """The protocol of a table once it has this schema and these properties; the same if it has all they need.

    Raises:
        InvalidPropertyError: a version or a feature that does not exist.
    """
    asked = _asked_for(configuration, protocol, table)
    grown = _to_versions(protocol, max(asked.reader_version, protocol.reader_version), max(asked.writer_version, protocol.writer_version))
    return upgrade(grown, needed_features(schema, configuration, table=table))


def needed_features(schema: Struct, configuration: Configuration, *, table: str = "the table") -> frozenset[str]:
    """The names of features that a schema and properties need, and those that `delta.feature.<name>` asks for.

    Raises:
        InvalidPropertyError: a feature that does not exist, or a value other than `supported`.
    """
    needed = {f.name for f in _NEEDED_BY_METADATA if f.active(schema, configuration)}
    return frozenset(needed | {_named_in_property(key, value, table) for key, value in configuration.items() if _is_feature_key(key)})


def _is_feature_key(key: str) -> bool:
    return key.lower().startswith(FEATURE_PREFIX)


def _named_in_property(key: str, value: str, table: str) -> str:
    asked = key[len(FEATURE_PREFIX) :].lower()
    name = next((name for name in _BY_NAME if name.lower() == asked), None)
    if name is None:
        raise UnknownFeaturePropertyError(property=key, table=table, tahoe_version=VERSION, known=", ".join(sorted(_BY_NAME)))
    if value.strip().lower() not in _ACTIVE_VALUES:
        raise InvalidPropertyError(property=key, table=table, value=value, detail="a feature can only be set to supported")
    return name


def _asked_for(configuration: Configuration, default: Protocol, table: str) -> Protocol:
    """The versions that properties ask for, as a protocol without features."""
    reader = _version(configuration, MIN_READER_VERSION, READER_VERSIONS, default.reader_version, table)
    lowest_writer = WRITER_VERSION_FEATURES if reader >= READER_VERSION_FEATURES else default.writer_version
    writer = _version(configuration, MIN_WRITER_VERSION, WRITER_VERSIONS, lowest_writer, table)
    if reader >= READER_VERSION_FEATURES and writer < WRITER_VERSION_FEATURES:
        detail = f"reader version {reader} needs writer version {WRITER_VERSION_FEATURES}"
        raise InvalidPropertyError(property=MIN_WRITER_VERSION, table=table, value=writer, detail=detail)
    return Protocol(
        reader_version=reader,
        writer_version=writer,
        reader_features=frozenset() if reader >= READER_VERSION_FEATURES else None,
        writer_features=frozenset() if writer >= WRITER_VERSION_FEATURES else None,
    )


def _version(configuration: Configuration, key: str, known: range, default: int, table: str) -> int:
    value = configuration.get(key)
    if value is None:
        return default
    if not value.strip().isdigit() or int(value) not in known:
        detail = f"versions are {known.start} to {known.stop - 1}"
        raise InvalidPropertyError(property=key, table=table, value=value, detail=detail)
    return int(value)


def upgrade(protocol: Protocol, needed: Iterable[str]) -> Protocol:
    """The lowest protocol that supports what this one does, and the features needed with all that they require.

    A table that goes over to lists of features lists every one that its old versions implied.
    """
    missing = _with_requirements(needed, supported_features(protocol))
    if not missing:
        return protocol
    features = [_BY_NAME[name] for name in missing]
    reader = max([protocol.reader_version, *(_reader_version_for(f) for f in features)])
    grown = _to_versions(protocol, reader, WRITER_VERSION_FEATURES)
    named_for_readers = {name for name in missing if _BY_NAME[name].is_reader_feature}
    return replace(
        grown,
        writer_features=(grown.writer_features or frozenset()) | missing,
        reader_features=None if grown.reader_features is None else grown.reader_features | named_for_readers,
    )


def _with_requirements(needed: Iterable[str], supported: frozenset[str]) -> frozenset[str]:
    """What is not there yet. A feature that is there under a preview name is there."""
    missing: set[str] = set()
    queue = list(needed)
    while queue:
        name = queue.pop()
        feature = _BY_NAME[name]
        if name in missing or _is_among(supported, feature):
            continue
        missing.add(name)
        queue.extend(feature.requires)
    return frozenset(missing)


def _reader_version_for(feature: Feature) -> int:
    if not feature.is_reader_feature:
        return READER_VERSIONS.start
    return feature.legacy_reader_version or READER_VERSION_FEATURES


def _to_versions(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The same features under higher versions, as lists where these have lists."""
    supported = supported_features(protocol)
    if reader >= READER_VERSION_FEATURES:
        writer = WRITER_VERSION_FEATURES
    listed_for_readers = frozenset(name for name in supported if (f := feature_named(name)) is not None and f.is_reader_feature)
    return Protocol(
        reader_version=reader,
        writer_version=writer,
        writer_features=supported if writer >= WRITER_VERSION_FEATURES else None,
        reader_features=(protocol.reader_features or frozenset()) | listed_for_readers if reader >= READER_VERSION_FEATURES else None,
    )


# --- features that a table gives up


def droppable_feature(protocol: Protocol, name: str, *, table: str) -> Feature:
    """A feature that may leave a table once nothing of it is left there.

    Args:
        name: in whatever case; a preview name is one too.

    Raises:
        UnknownFeatureError, PropertyNoFeatureError: there is no such feature.
        FeatureNotPresentError: the table does not support it.
        DependentFeatureError: another feature of the table requires it.
        FeatureNotDroppableError: nobody can tell what the table has of it.
    """
    feature = next((f for known, f in _BY_NAME.items() if known.lower() == name.lower()), None)
    if feature is None and find_property(name) is not None:
        detail, remedy = "it is a property of tables", "Unset it: ALTER TABLE ... UNSET TBLPROPERTIES."
        raise PropertyNoFeatureError(feature=name, table=table, detail=detail, remedy=remedy)
    if feature is None:
        detail, remedy = f"tahoe {VERSION} knows no such feature", f"It knows {', '.join(sorted(_BY_NAME))}."
        raise UnknownFeatureError(feature=name, table=table, detail=detail, remedy=remedy)
    supported = supported_features(protocol)
    if not _is_among(supported, feature):
        detail, remedy = "the table does not support it", f"It supports {', '.join(sorted(supported)) or 'none'}."
        raise FeatureNotPresentError(feature=feature.name, table=table, detail=detail, remedy=remedy)
    needs = [other.name for other in map(feature_named, sorted(supported)) if other is not None and feature.name in other.requires]
    if needs:
        detail, remedy = f"other features of the table require it: {', '.join(needs)}", "Drop them first."
        raise DependentFeatureError(feature=feature.name, table=table, detail=detail, remedy=remedy)
    if feature.name in _NEVER_DROPPED:
        remedy = "Copy the rows to a new table without it."
        raise FeatureNotDroppableError(feature=feature.name, table=table, detail=_NEVER_DROPPED[feature.name], remedy=remedy)
    return feature


_NEVER_DROPPED = {
    "variantShredding": "the log does not tell which files hold shredded values",
    "catalogManaged": "a catalog knows commits that the log does not have",
}


def uses_of(feature: Feature, schema: Struct, configuration: Configuration) -> list[str]:
    """The columns and the properties that need a feature; what no metadata asks for is used by none."""
    if feature.active in (_always, _row_ids_are_assigned):
        return []
    columns = [field.name for field in schema if feature.active(Struct((field,)), {})]
    return columns + [key for key, value in configuration.items() if feature.active(Struct(()), {key: value})]


def without_feature(protocol: Protocol, feature: Feature) -> Protocol:
    """The lowest protocol that supports what this one does but for one feature: by versions alone, where these say the same."""
    rest = supported_features(protocol) - {feature.name, *feature.preview_names}
    by_versions = (Protocol(reader_version=r, writer_version=w) for w in range(1, WRITER_VERSION_FEATURES) for r in (1, 2))
    found = next((candidate for candidate in by_versions if supported_features(candidate) == rest), None)
    if found is not None:
        return found
    known = [other for other in map(feature_named, rest) if other is not None]
    listed = (protocol.reader_features or frozenset()) & rest
    for_readers = {name for name in rest if (other := feature_named(name)) is not None and other.is_reader_feature} | listed
    reader = max([READER_VERSIONS.start, *(_reader_version_for(other) for other in known)])
    if any(feature_named(name) is None for name in for_readers):
        reader = READER_VERSION_FEATURES
    return Protocol(
        reader_version=reader,
        writer_version=WRITER_VERSION_FEATURES,
        writer_features=rest,
        reader_features=frozenset(for_readers) if reader >= READER_VERSION_FEATURES else None,
    )
