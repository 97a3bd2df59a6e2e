"""A property that belongs to a feature counts exactly where the protocol has the feature, whatever the table holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.configuration.column_mapping import mapping_mode
from tahoe.protocol.configuration.feature_upgrade import upgrade
from tahoe.protocol.configuration.features import FEATURES, feature_named, setting, supported_features
from tahoe.protocol.configuration.properties import COLUMN_MAPPING_MODE, PROPERTIES, FeatureProperty
from tahoe.protocol.log.actions import Protocol

NAMES = [name for feature in FEATURES for name in (feature.name, *feature.preview_names)]
READER_NAMES = [
    name for feature in FEATURES if feature.is_reader_feature for name in (feature.name, *feature.preview_names)
]
TEXTS = {
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "id",
    "delta.requireCheckpointProtectionBeforeVersion": "7",
}

versions = st.sampled_from(
    [(reader, writer) for reader in (1, 2) for writer in range(1, 7) if reader == 1 or writer >= 5]
)
legacy = versions.map(lambda pair: Protocol(reader_version=pair[0], writer_version=pair[1]))
lists = st.builds(
    lambda writers, readers: Protocol(
        reader_version=3, writer_version=7, reader_features=readers, writer_features=writers | readers
    ),
    st.frozensets(st.sampled_from(sorted(set(NAMES) - set(READER_NAMES)))),
    st.frozensets(st.sampled_from(READER_NAMES)),
)
writer_lists = st.builds(
    lambda names: Protocol(reader_version=1, writer_version=7, writer_features=names),
    st.frozensets(st.sampled_from(sorted(set(NAMES) - set(READER_NAMES)))),
)
protocols = st.one_of(legacy, lists, writer_lists)
of_features = st.sampled_from([p for p in PROPERTIES if isinstance(p, FeatureProperty)])


def text_of(known: FeatureProperty[object]) -> str:
    return TEXTS.get(known.name, "true")


@given(of_features, protocols)
def test_a_property_counts_where_its_feature_is_in_the_protocol(
    known: FeatureProperty[object], protocol: Protocol
) -> None:
    feature = feature_named(known.feature)
    assert feature is not None
    has_feature = not supported_features(protocol).isdisjoint((feature.name, *feature.preview_names))
    expected = known.read(text_of(known)) if has_feature else known.default
    assert expected != known.default or not has_feature
    assert setting(known, protocol, {known.name: text_of(known)}) == expected
    assert setting(known, protocol, {}) == known.default


@given(of_features, protocols)
def test_it_counts_once_the_protocol_is_upgraded_for_it(known: FeatureProperty[object], protocol: Protocol) -> None:
    assert setting(known, upgrade(protocol, [known.feature]), {known.name: text_of(known)}) == known.read(
        text_of(known)
    )


@given(of_features, st.frozensets(st.sampled_from(NAMES)))
def test_what_readers_must_know_counts_only_where_readers_are_told(
    known: FeatureProperty[object], names: frozenset[str]
) -> None:
    """A protocol that lists a reader's feature for writers alone: an old reader opens the table, and would misread
    it.
    """
    feature = feature_named(known.feature)
    assert feature is not None
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=names)
    if feature.is_reader_feature:
        assert setting(known, protocol, {known.name: text_of(known)}) == known.default


@given(protocols, st.sampled_from(["none", "name", "id", "NAME"]))
def test_column_mapping_asks_the_same_question(protocol: Protocol, mode: str) -> None:
    configuration = {COLUMN_MAPPING_MODE.name: mode}
    assert mapping_mode(protocol, configuration) == setting(COLUMN_MAPPING_MODE, protocol, configuration)
