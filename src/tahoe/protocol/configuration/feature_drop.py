"""Which features a table can drop, what still uses them, and the protocol without one.

Protocol: "Table Features". Dropping a feature never changes data: what uses the feature must be removed first.
"""

from __future__ import annotations

from tahoe._version import VERSION
from tahoe.errors import (
    DependentFeatureError,
    FeatureNotDroppableError,
    FeatureNotPresentError,
    PropertyNoFeatureError,
    UnknownFeatureError,
)
from tahoe.protocol.configuration.feature_upgrade import reader_version_for
from tahoe.protocol.configuration.features import (
    FEATURES_BY_NAME,
    READER_VERSION_FEATURES,
    READER_VERSIONS,
    WRITER_VERSION_FEATURES,
    Configuration,
    Feature,
    feature_named,
    is_activated_by_metadata,
    is_among,
    supported_features,
)
from tahoe.protocol.configuration.properties import find_property
from tahoe.protocol.log.actions import Protocol
from tahoe.protocol.types.schema import Struct

_NEVER_DROPPED = {
    "variantShredding": (
        "the log does not record which files contain shredded values",
        "Copy the rows to a new table without it.",
    ),
    "catalogManaged": (
        "the catalog has commits that the log does not contain",
        "release_table of the catalog publishes them, and gives the table back to its path.",
    ),
}


def droppable_feature(protocol: Protocol, name: str, *, table: str) -> Feature:
    """The feature of that name, if the table can drop it once nothing uses it.

    Args:
        name: the feature's name or preview name, in any case.

    Raises:
        UnknownFeatureError, PropertyNoFeatureError: there is no such feature.
        FeatureNotPresentError: the table does not support it.
        DependentFeatureError: another feature of the table requires it.
        FeatureNotDroppableError: whether the table still uses it cannot be determined.
    """
    feature = next((f for known, f in FEATURES_BY_NAME.items() if known.lower() == name.lower()), None)
    if feature is None and find_property(name) is not None:
        detail, remedy = "it is a table property, not a feature", "Unset it: ALTER TABLE ... UNSET TBLPROPERTIES."
        raise PropertyNoFeatureError(feature=name, table=table, detail=detail, remedy=remedy)
    if feature is None:
        detail, remedy = (
            f"tahoe {VERSION} does not know it",
            f"Known features are {', '.join(sorted(FEATURES_BY_NAME))}.",
        )
        raise UnknownFeatureError(feature=name, table=table, detail=detail, remedy=remedy)
    supported = supported_features(protocol)
    if not is_among(supported, feature):
        detail, remedy = (
            "the table does not support it",
            f"The table supports {', '.join(sorted(supported)) or 'none'}.",
        )
        raise FeatureNotPresentError(feature=feature.name, table=table, detail=detail, remedy=remedy)
    needs = [
        other.name
        for other in map(feature_named, sorted(supported))
        if other is not None and feature.name in other.requires
    ]
    if needs:
        detail, remedy = f"other features of the table depend on it: {', '.join(needs)}", "Drop them first."
        raise DependentFeatureError(feature=feature.name, table=table, detail=detail, remedy=remedy)
    if feature.name in _NEVER_DROPPED:
        detail, remedy = _NEVER_DROPPED[feature.name]
        raise FeatureNotDroppableError(feature=feature.name, table=table, detail=detail, remedy=remedy)
    return feature


def uses_of(feature: Feature, schema: Struct, configuration: Configuration) -> list[str]:
    """The columns and properties that use a feature; none for a feature that metadata does not activate."""
    if not is_activated_by_metadata(feature):
        return []
    columns = [field.name for field in schema if feature.active(Struct((field,)), {})]
    return columns + [key for key, value in configuration.items() if feature.active(Struct(()), {key: value})]


def protocol_without(protocol: Protocol, feature: Feature) -> Protocol:
    """The lowest protocol that supports the other features of this one, without feature lists if versions alone imply
    them.
    """
    remaining = supported_features(protocol) - {feature.name, *feature.preview_names}
    candidates = (
        Protocol(reader_version=r, writer_version=w) for w in range(1, WRITER_VERSION_FEATURES) for r in (1, 2)
    )
    without_lists = next((candidate for candidate in candidates if supported_features(candidate) == remaining), None)
    if without_lists is not None:
        return without_lists
    known_features = [other for other in map(feature_named, remaining) if other is not None]
    listed = (protocol.reader_features or frozenset()) & remaining
    for_readers = {
        name for name in remaining if (other := feature_named(name)) is not None and other.is_reader_feature
    } | listed
    reader = max([READER_VERSIONS.start, *(reader_version_for(other) for other in known_features)])
    if any(feature_named(name) is None for name in for_readers):
        reader = READER_VERSION_FEATURES
    return Protocol(
        reader_version=reader,
        writer_version=WRITER_VERSION_FEATURES,
        writer_features=remaining,
        reader_features=frozenset(for_readers) if reader >= READER_VERSION_FEATURES else None,
    )


def without_catalog(protocol: Protocol) -> Protocol:
    """The protocol of a copy of a table, whose commits no catalog decides."""
    feature = FEATURES_BY_NAME["catalogManaged"]
    return protocol_without(protocol, feature) if is_among(supported_features(protocol), feature) else protocol
