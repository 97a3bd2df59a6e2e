"""The protocol that a table needs for its schema and properties, and how a protocol is raised to it.

Protocol: "Table Features", "Protocol Evolution". A protocol is only ever raised here; `feature_drop` lowers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tahoe._version import VERSION
from tahoe.errors import InvalidPropertyError, UnknownFeaturePropertyError
from tahoe.protocol.configuration.features import (
    FEATURES,
    FEATURES_BY_NAME,
    READER_VERSION_FEATURES,
    READER_VERSIONS,
    WRITER_VERSION_FEATURES,
    WRITER_VERSIONS,
    Configuration,
    Feature,
    feature_named,
    is_activated_by_metadata,
    is_among,
    property_is_true,
    supported_features,
)
from tahoe.protocol.log.actions import Protocol
from tahoe.protocol.types.schema import Struct

NEW_TABLE = Protocol(reader_version=1, writer_version=2)

FEATURE_PREFIX = "delta.feature."
MIN_READER_VERSION = "delta.minReaderVersion"
MIN_WRITER_VERSION = "delta.minWriterVersion"
_ACTIVE_VALUES = ("supported", "enabled")

# As in the reference, column defaults do not enable their feature: the user must name it.
_NEVER_ENABLED_BY_METADATA = frozenset({"allowColumnDefaults"})

# The features that a schema or a property requires. Two that are active wherever they are supported are enabled by a
# property.
_NEEDED_BY_METADATA = tuple(
    f for f in FEATURES if is_activated_by_metadata(f) and f.name not in _NEVER_ENABLED_BY_METADATA
) + tuple(
    replace(FEATURES_BY_NAME[name], active=property_is_true(property_name))
    for name, property_name in (
        ("rowTracking", "delta.enableRowTracking"),
        ("materializePartitionColumns", "delta.enableMaterializePartitionColumnsFeature"),
    )
)


# Properties that set the protocol and are not stored in the table's configuration.
_PROTOCOL_PROPERTIES = (FEATURE_PREFIX, MIN_READER_VERSION, MIN_WRITER_VERSION, "delta.ignoreProtocolDefaults")


def properties_for(features: Iterable[str]) -> dict[str, str]:
    """The properties that add features to a protocol."""
    return {FEATURE_PREFIX + name: "supported" for name in sorted(features)}


def split_features(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The properties that the table stores, and those that set its protocol."""
    asked = {k: v for k, v in properties.items() if k.startswith(_PROTOCOL_PROPERTIES)}
    return {k: v for k, v in properties.items() if k not in asked}, asked


def protocol_for_new_table(schema: Struct, configuration: Configuration, *, table: str = "the table") -> Protocol:
    """The lowest protocol for a new table: (1, 2), unless the schema or a property requires more.

    Args:
        configuration: the table properties, including those that set the protocol: `delta.feature.<name>`,
            `delta.minReaderVersion` and `delta.minWriterVersion`.

    Raises:
        InvalidPropertyError: an unknown version or feature.
    """
    start = NEW_TABLE
    if MIN_READER_VERSION in configuration or MIN_WRITER_VERSION in configuration:
        start = _asked_for(configuration, NEW_TABLE, table)
    return upgrade(start, needed_features(schema, configuration, table=table))


def upgrade_for(
    protocol: Protocol,
    schema: Struct,
    configuration: Configuration,
    *,
    known: tuple[Struct, Configuration] = (Struct(), {}),
    table: str = "the table",
) -> Protocol:
    """The protocol raised to what a schema and properties require; unchanged if it supports them already.

    Args:
        known: a schema and properties that the table has, and that ask for nothing. Other writers may have left
            properties whose features the protocol does not support: they say nothing.

    Raises:
        InvalidPropertyError: an unknown version or feature.
    """
    versions = _asked_for(configuration, protocol, table)
    raised = _to_versions(
        protocol,
        max(versions.reader_version, protocol.reader_version),
        max(versions.writer_version, protocol.writer_version),
    )
    properties, features = split_features(configuration)
    implied = needed_features(schema, properties, table=table) - needed_features(*known, table=table)
    return upgrade(raised, implied | needed_features(Struct(), features, table=table))


def needed_features(schema: Struct, configuration: Configuration, *, table: str = "the table") -> frozenset[str]:
    """The names of the features that a schema and properties require, including those named by `delta.feature.<name>`.

    Raises:
        InvalidPropertyError: an unknown feature, or a value other than `supported`.
    """
    needed = {f.name for f in _NEEDED_BY_METADATA if f.active(schema, configuration)}
    return frozenset(
        needed | {_named_in_property(key, value, table) for key, value in configuration.items() if _is_feature_key(key)}
    )


def _is_feature_key(key: str) -> bool:
    return key.lower().startswith(FEATURE_PREFIX)


def _named_in_property(key: str, value: str, table: str) -> str:
    asked = key[len(FEATURE_PREFIX) :].lower()
    name = next((name for name in FEATURES_BY_NAME if name.lower() == asked), None)
    if name is None:
        raise UnknownFeaturePropertyError(
            property=key, table=table, tahoe_version=VERSION, known=", ".join(sorted(FEATURES_BY_NAME))
        )
    if value.strip().lower() not in _ACTIVE_VALUES:
        raise InvalidPropertyError(property=key, table=table, value=value, detail="the value must be 'supported'")
    return name


def _asked_for(configuration: Configuration, default: Protocol, table: str) -> Protocol:
    """The versions that properties request, as a protocol without features."""
    reader = _version(configuration, MIN_READER_VERSION, READER_VERSIONS, default.reader_version, table)
    lowest_writer = WRITER_VERSION_FEATURES if reader >= READER_VERSION_FEATURES else default.writer_version
    writer = _version(configuration, MIN_WRITER_VERSION, WRITER_VERSIONS, lowest_writer, table)
    if reader >= READER_VERSION_FEATURES and writer < WRITER_VERSION_FEATURES:
        detail = f"reader version {reader} requires writer version {WRITER_VERSION_FEATURES}"
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
        detail = f"it must be an integer from {known.start} to {known.stop - 1}"
        raise InvalidPropertyError(property=key, table=table, value=value, detail=detail)
    return int(value)


def upgrade(protocol: Protocol, needed: Iterable[str]) -> Protocol:
    """The lowest protocol that supports this protocol's features, the needed features, and the features that those
    depend on.

    When a table moves to feature lists, the lists include every feature that its previous versions implied.
    """
    missing = _with_requirements(needed, supported_features(protocol))
    if not missing:
        return protocol
    features = [FEATURES_BY_NAME[name] for name in missing]
    reader = max([protocol.reader_version, *(reader_version_for(f) for f in features)])
    raised = _to_versions(protocol, reader, WRITER_VERSION_FEATURES)
    named_for_readers = {name for name in missing if FEATURES_BY_NAME[name].is_reader_feature}
    return raised.replace(
        writer_features=(raised.writer_features or frozenset()) | missing,
        reader_features=None if raised.reader_features is None else raised.reader_features | named_for_readers,
    )


def _with_requirements(needed: Iterable[str], supported: frozenset[str]) -> frozenset[str]:
    """The needed features and their dependencies that are not supported yet. A preview name counts as support."""
    missing: set[str] = set()
    queue = list(needed)
    while queue:
        name = queue.pop()
        feature = FEATURES_BY_NAME[name]
        if name in missing or is_among(supported, feature):
            continue
        missing.add(name)
        queue.extend(feature.requires)
    return frozenset(missing)


def reader_version_for(feature: Feature) -> int:
    """The lowest reader version of a table that supports the feature."""
    if not feature.is_reader_feature:
        return READER_VERSIONS.start
    return feature.legacy_reader_version or READER_VERSION_FEATURES


def _to_versions(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The same features under higher versions, written as lists if the versions have lists."""
    supported = supported_features(protocol)
    if reader >= READER_VERSION_FEATURES:
        writer = WRITER_VERSION_FEATURES
    listed_for_readers = frozenset(
        name for name in supported if (f := feature_named(name)) is not None and f.is_reader_feature
    )
    return Protocol(
        reader_version=reader,
        writer_version=writer,
        writer_features=supported if writer >= WRITER_VERSION_FEATURES else None,
        reader_features=(protocol.reader_features or frozenset()) | listed_for_readers
        if reader >= READER_VERSION_FEATURES
        else None,
    )
