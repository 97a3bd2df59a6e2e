"""Protocol versions and features: a table read or written against its rules is a damaged table."""

import pytest

from tahoe._version import VERSION
from tahoe.errors import (
    AppendOnlyTableError,
    InvalidPropertyError,
    UnsupportedProtocolVersionError,
    UnsupportedReaderFeatureError,
    UnsupportedTypeChangeError,
    UnsupportedWriterFeatureError,
)
from tahoe.protocol.configuration.column_mapping import ID, PHYSICAL_NAME
from tahoe.protocol.configuration.feature_upgrade import protocol_for_new_table, upgrade, upgrade_for
from tahoe.protocol.configuration.features import FEATURES, check_readable, check_writable, supported_features
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, TIMESTAMP_NTZ, VARIANT, Array, Field, Struct

PLAIN = Struct((Field(name="a", type=INTEGER),))


def legacy(reader, writer):
    return Protocol(reader_version=reader, writer_version=writer)


def listed(*names, reader=()):
    return Protocol(
        reader_version=3,
        writer_version=7,
        reader_features=frozenset(reader),
        writer_features=frozenset({*names, *reader}),
    )


def metadata(schema=PLAIN, **configuration):
    properties = {f"delta.{key.replace('__', '.')}": value for key, value in configuration.items()}
    return Metadata(id="i", schema_string=schema.to_json(), configuration=properties)


def column(**extra):
    return Struct(
        (Field(name="a", type=INTEGER, metadata={key.replace("__", "."): value for key, value in extra.items()}),)
    )


INVARIANT = column(delta__invariants='{"expression":{"expression":"a > 3"}}')
GENERATED = column(delta__generationExpression="b + 1")
IDENTITY = column(delta__identity__start=1)
DEFAULT = column(CURRENT_DEFAULT="7")


# --- reading


@pytest.mark.parametrize(
    "protocol",
    [
        legacy(1, 2),
        legacy(2, 5),
        legacy(1, 99),  # a writer version that is not known is no reason not to read
        listed("somethingNew", "rowTracking", "collations"),
        listed(
            reader=[
                "deletionVectors",
                "columnMapping",
                "timestampNtz",
                "v2Checkpoint",
                "vacuumProtocolCheck",
                "variantType",
            ]
        ),
        listed(
            reader=[
                "typeWidening-preview",
                "variantType-preview",
                "typeWidening",
                "variantShredding",
                "variantShredding-preview",
            ]
        ),
    ],
)
def test_what_is_known_can_be_read(protocol):
    check_readable(protocol, metadata(), table="t")


@pytest.mark.parametrize("version", [0, 4, 99])
def test_an_unknown_reader_version_is_refused_with_both_versions(version):
    with pytest.raises(UnsupportedProtocolVersionError) as raised:
        check_readable(legacy(version, 7), metadata(), table="t")
    assert raised.value.parameters == {"table": "t", "reader": version, "writer": 7, "tahoe_version": VERSION}


@pytest.mark.parametrize("name", ["somethingNew", "catalogmanaged", "deletionvectors"])
def test_an_unknown_reader_feature_is_refused_by_name(name):
    with pytest.raises(UnsupportedReaderFeatureError, match=name) as raised:
        check_readable(listed(reader=["deletionVectors", name]), metadata(), table="t")
    assert raised.value.parameters["features"] == name


def test_a_type_change_that_is_not_allowed_refuses_the_read():
    changed = column(delta__typeChanges=[{"fromType": "string", "toType": "integer"}])
    with pytest.raises(UnsupportedTypeChangeError):
        check_readable(listed(reader=["typeWidening"]), metadata(changed), table="t")


# --- writing


@pytest.mark.parametrize(
    ("protocol", "table"),
    [
        (legacy(1, 2), metadata()),
        (legacy(1, 6), metadata(enableChangeDataFeed="true")),
        (legacy(2, 5), metadata(columnMapping__mode="name")),
        (legacy(1, 1), metadata(INVARIANT)),  # the version is too old for the rule
        (legacy(1, 2), metadata(GENERATED)),
        (legacy(1, 2), metadata(constraints__c="a > 1")),
        (
            listed("checkConstraints", "invariants", "generatedColumns", "identityColumns", "allowColumnDefaults"),
            metadata(),
        ),
        (listed(), metadata(INVARIANT)),
        (listed("inCommitTimestamp", "icebergCompatV1", "icebergCompatV2", "checkpointProtection"), metadata()),
        (listed("inCommitTimestamp"), metadata(enableInCommitTimestamps="TRUE")),
        (listed("checkpointProtection"), metadata(requireCheckpointProtectionBeforeVersion="5")),
        (listed("rowTracking", "domainMetadata"), metadata(rowTrackingSuspended="true")),
        (listed("clustering", "domainMetadata"), metadata()),
        (
            listed(reader=["deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]),
            metadata(enableDeletionVectors="true"),
        ),
        (legacy(1, 2), metadata(INVARIANT)),
        (legacy(1, 3), metadata(constraints__c="a > 1")),
        (legacy(1, 4), metadata(GENERATED)),
        (legacy(1, 6), metadata(IDENTITY)),
        (listed("allowColumnDefaults"), metadata(DEFAULT)),
        (listed("rowTracking", "domainMetadata"), metadata()),
        (listed(reader=["timestampNtz", "variantType-preview"]), metadata(Struct((Field(name="v", type=VARIANT),)))),
    ],
)
def test_what_asks_for_no_rule_that_is_missing_can_be_written(protocol, table):
    check_writable(protocol, table, table="t")
    check_writable(protocol, table, table="t", removes_data=True)


@pytest.mark.parametrize("protocol", [legacy(1, 2), listed("appendOnly")])
def test_an_append_only_table_takes_appends_and_nothing_else(protocol):
    table = metadata(appendOnly="true")
    check_writable(protocol, table, table="t")
    with pytest.raises(AppendOnlyTableError):
        check_writable(protocol, table, table="t", removes_data=True)
    check_writable(listed(), table, table="t", removes_data=True)  # the property alone does nothing


def test_unknown_writer_features_and_versions_refuse_the_write_only():
    protocol = listed("collations", "domainMetadata")
    check_readable(protocol, metadata(), table="t")
    with pytest.raises(UnsupportedWriterFeatureError, match="collations"):
        check_writable(protocol, metadata(), table="t")
    with pytest.raises(UnsupportedProtocolVersionError):
        check_writable(legacy(1, 8), metadata(), table="t")


ROW_ID, ROW_VERSION = (f"rowTracking.materialized{kind}ColumnName" for kind in ("RowId", "RowCommitVersion"))


@pytest.mark.parametrize("name", ["_ROW-ids", "_row-versions"])
def test_a_column_may_not_be_named_like_those_that_keep_row_ids(name):
    """Its values were taken for row ids."""
    kept = {ROW_ID: "_row-ids", ROW_VERSION: "_row-versions"}
    schema = Struct((Field(name=name, type=LONG),))
    with pytest.raises(InvalidPropertyError, match=f"in columns named {name}"):
        check_writable(listed("rowTracking", "domainMetadata"), metadata(schema, **kept), table="t")
    check_writable(listed("domainMetadata"), metadata(schema, **kept), table="t")

    mapped = Struct((Field(name="free", type=LONG, metadata={PHYSICAL_NAME: name, ID: 1}),))
    protocol = listed("rowTracking", "domainMetadata", "columnMapping", reader=["columnMapping"])
    with pytest.raises(InvalidPropertyError, match="in columns named free"):
        check_writable(protocol, metadata(mapped, **kept, **{"columnMapping.mode": "name"}), table="t")


def test_a_writer_reads_first():
    with pytest.raises(UnsupportedReaderFeatureError):
        check_writable(listed(reader=["somethingNew"]), metadata(), table="t")


# --- what a table declares


@pytest.mark.parametrize(
    ("protocol", "names"),
    [
        (legacy(1, 1), set()),
        (legacy(1, 2), {"appendOnly", "invariants"}),
        (legacy(1, 4), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (legacy(1, 5), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (
            legacy(2, 5),
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
        ),
        (
            legacy(2, 6),
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "columnMapping",
                "identityColumns",
            },
        ),
        (Protocol(reader_version=2, writer_version=7, writer_features=frozenset({"x"})), {"x", "columnMapping"}),
        (listed("a", reader=["b"]), {"a", "b"}),
    ],
)
def test_versions_imply_features(protocol, names):
    assert supported_features(protocol) == names


NTZ = Struct((Field(name="t", type=Array(element=TIMESTAMP_NTZ)),))


@pytest.mark.parametrize(
    ("schema", "configuration", "reader", "writer"),
    [
        (PLAIN, {}, None, None),
        (PLAIN, {"owner": "me", "delta.appendOnly": "true"}, None, None),
        (PLAIN, {"delta.enableChangeDataFeed": "true"}, None, {"changeDataFeed"}),
        (PLAIN, {"delta.constraints.c": "a > 1"}, None, {"checkConstraints"}),
        (PLAIN, {"delta.enableDeletionVectors": "true"}, {"deletionVectors"}, {"deletionVectors"}),
        (NTZ, {}, {"timestampNtz"}, {"timestampNtz"}),
        (Struct((Field(name="v", type=VARIANT),)), {}, {"variantType"}, {"variantType"}),
        (PLAIN, {"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}, {"v2Checkpoint"}),
        (PLAIN, {"delta.enableTypeWidening": "true"}, {"typeWidening"}, {"typeWidening"}),
        (PLAIN, {"delta.enableRowTracking": "true"}, None, {"rowTracking", "domainMetadata"}),
        (GENERATED, {}, None, {"generatedColumns"}),
        (IDENTITY, {}, None, {"identityColumns"}),
        (DEFAULT, {"delta.feature.allowColumnDefaults": "supported"}, None, {"allowColumnDefaults"}),
        (PLAIN, {"delta.feature.CLUSTERING": "supported"}, None, {"clustering", "domainMetadata"}),
        (
            PLAIN,
            {"delta.feature.variantShredding": "supported"},
            {"variantShredding", "variantType"},
            {"variantShredding", "variantType"},
        ),
        (PLAIN, {"delta.feature.typeWidening-preview": "enabled"}, {"typeWidening-preview"}, {"typeWidening-preview"}),
        (
            NTZ,
            {"delta.columnMapping.mode": "name"},
            {"timestampNtz", "columnMapping"},
            {"timestampNtz", "columnMapping"},
        ),
    ],
)
def test_a_new_table_declares_what_it_needs_and_no_more(schema, configuration, reader, writer):
    found = protocol_for_new_table(schema, configuration)
    if writer is None:
        assert found == legacy(1, 2)
    else:
        assert found == Protocol(
            reader_version=1 if reader is None else 3,
            writer_version=7,
            reader_features=None if reader is None else frozenset(reader),
            writer_features=frozenset({"appendOnly", "invariants", *writer}),
        )


def test_column_mapping_alone_needs_no_reader_features():
    # More readers know reader version 2 than lists of features.
    found = protocol_for_new_table(PLAIN, {"delta.columnMapping.mode": "id"})
    assert found == Protocol(
        reader_version=2, writer_version=7, writer_features=frozenset({"appendOnly", "invariants", "columnMapping"})
    )


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (
            {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5", "delta.columnMapping.mode": "name"},
            legacy(2, 5),
        ),
        ({"delta.minWriterVersion": "4", "delta.enableChangeDataFeed": "true"}, legacy(1, 4)),
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "1"}, legacy(1, 1)),
        ({"delta.minReaderVersion": "3"}, listed()),
        (
            {"delta.minReaderVersion": "3", "delta.minWriterVersion": "7", "delta.enableDeletionVectors": "true"},
            listed(reader=["deletionVectors"]),
        ),
    ],
)
def test_versions_that_are_asked_for_are_given(configuration, expected):
    assert protocol_for_new_table(PLAIN, configuration) == expected


@pytest.mark.parametrize(
    "configuration",
    [
        {"delta.minReaderVersion": "4"},
        {"delta.minWriterVersion": "x"},
        {"delta.minReaderVersion": "3", "delta.minWriterVersion": "5"},
        {"delta.feature.somethingNew": "supported"},
        {"delta.feature.deletionVectors": "true"},
    ],
)
def test_versions_and_features_that_do_not_exist_are_refused(configuration):
    with pytest.raises(InvalidPropertyError):
        protocol_for_new_table(PLAIN, configuration)


def test_an_upgrade_lists_every_feature_that_the_old_versions_implied():
    found = upgrade_for(legacy(2, 5), PLAIN, {"delta.enableDeletionVectors": "true"})
    assert found.reader_features == {"columnMapping", "deletionVectors"}
    implied = {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"}
    assert found.writer_features == {*implied, "deletionVectors"}


def test_an_upgrade_takes_nothing_away_and_is_done_once():
    start = listed("unheardOf", reader=["deletionVectors"])
    grown = upgrade(start, ["rowTracking"])
    assert grown == start.replace(
        writer_features=frozenset({"unheardOf", "deletionVectors", "rowTracking", "domainMetadata"})
    )
    assert upgrade(grown, ["rowTracking", "deletionVectors"]) is grown


def test_a_table_with_a_preview_name_needs_no_other():
    preview = listed(reader=["typeWidening-preview"])
    assert upgrade_for(preview, PLAIN, {"delta.enableTypeWidening": "true"}) == preview


def test_a_table_that_has_all_it_needs_keeps_its_protocol():
    for protocol in (legacy(1, 2), legacy(2, 5), listed("x", reader=["y"])):
        assert upgrade_for(protocol, PLAIN, {}) == protocol


def test_versions_of_a_table_are_raised_and_never_lowered():
    assert upgrade_for(legacy(2, 5), PLAIN, {"delta.minReaderVersion": "1", "delta.minWriterVersion": "6"}) == legacy(
        2, 6
    )
    assert upgrade_for(legacy(1, 2), PLAIN, {"delta.minReaderVersion": "3"}).writer_features == {
        "appendOnly",
        "invariants",
    }


# --- the table itself


def test_the_records_are_consistent():
    names = [name for f in FEATURES for name in (f.name, *f.preview_names)]
    assert len(set(names)) == len(names)
    by_name = {f.name: f for f in FEATURES}
    for feature in FEATURES:
        assert feature.rule, feature.name
        assert feature.why.endswith("."), feature.name
        assert all(name in by_name for name in feature.requires)
        assert feature.legacy_reader_version is None or feature.is_reader_feature


def test_every_feature_of_the_protocols_appendix_is_there():
    appendix = (
        "appendOnly invariants checkConstraints generatedColumns allowColumnDefaults changeDataFeed columnMapping "
        "identityColumns deletionVectors rowTracking timestampNtz domainMetadata v2Checkpoint catalogManaged "
        "icebergCompatV1 icebergCompatV2 clustering vacuumProtocolCheck inCommitTimestamp"
    )
    for_readers = [
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "catalogManaged",
        "vacuumProtocolCheck",
    ]
    by_name = {f.name: f for f in FEATURES}
    assert [name for name in appendix.split() if by_name[name].is_reader_feature] == sorted(
        for_readers, key=appendix.split().index
    )


def test_a_column_named_like_a_rule_is_no_rule():
    named = Struct((Field(name="delta.invariants", type=STRING),))
    check_writable(legacy(1, 6), metadata(named), table="t")
