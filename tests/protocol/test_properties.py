"""Table properties: a misread one keeps files too short, or rows too long."""

from datetime import timedelta

import pytest

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.configuration.properties import (
    CHECKPOINT_INTERVAL,
    COLUMN_MAPPING_MODE,
    ENABLE_DELETION_VECTORS,
    LOG_RETENTION,
    PROPERTIES,
    STATS_COLUMNS,
    TXN_RETENTION,
    normalise,
    parse_column_list,
    parse_interval,
)


def test_names_are_unique_and_defaults_are_what_a_table_without_them_has():
    assert len({p.name.lower() for p in PROPERTIES}) == len(PROPERTIES)
    assert LOG_RETENTION.get({}) == timedelta(days=30)
    assert TXN_RETENTION.get({}) is None
    assert CHECKPOINT_INTERVAL.get({"delta.checkpointInterval": "2"}) == 2


def test_names_are_spelled_as_the_protocol_spells_them_and_user_keys_stay():
    given = {
        "DELTA.enabledeletionVECTORS": "TRUE",
        "Owner": "me",
        "delta.FEATURE.rowTracking": "supported",
        "delta.constraints.Ab": "a > 1",
        "tahoe.clusterOnwrite": "false",
    }
    assert normalise(given, table="t") == {
        "delta.enableDeletionVectors": "TRUE",
        "Owner": "me",
        "delta.feature.rowTracking": "supported",
        "delta.constraints.Ab": "a > 1",
        "tahoe.clusterOnWrite": "false",
    }
    assert ENABLE_DELETION_VECTORS.read(normalise(given, table="t")[ENABLE_DELETION_VECTORS.name]) is True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.noSuchThing", "1"),
        ("delta.feature.", "supported"),
        ("delta.columnMapping.maxColumnId", "4"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "often"),
        ("delta.enableDeletionVectors", "yes"),
        ("delta.columnMapping.mode", "names"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.parquet.format.version", "2.0"),
        ("delta.parquet.compression.codec", "zip"),
        ("delta.dataSkippingStatsColumns", "a,,b"),
        ("tahoe.clusterOnWrite", "maybe"),
        ("tahoe.clusterOnWrites", "true"),
    ],
)
def test_what_is_unknown_or_no_value_is_refused_by_name(key, value):
    with pytest.raises(InvalidPropertyError) as raised:
        normalise({key: value}, table="t")
    assert raised.value.parameters["property"] == key


def test_one_property_in_two_spellings_with_two_values_is_refused():
    with pytest.raises(InvalidPropertyError):
        normalise({"delta.appendOnly": "true", "delta.APPENDONLY": "false"}, table="t")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 30 days", timedelta(days=30)),
        ("7 days", timedelta(days=7)),
        ("INTERVAL 1 WEEK", timedelta(days=7)),
        ("interval '2' hours", timedelta(hours=2)),
        ("interval 1 day 12 hours 3 minutes", timedelta(days=1, hours=12, minutes=3)),
        ("interval 0 hours", timedelta(0)),
        ("1000 milliseconds 5 microseconds", timedelta(seconds=1, microseconds=5)),
    ],
)
def test_intervals_are_read_as_spark_reads_them(text, length):
    assert parse_interval(text) == length


@pytest.mark.parametrize(
    "text",
    ["", "interval", "30", "days", "interval 1 month", "1 year", "-1 days", "1 days and 2 hours", "1 day2 hours"],
)
def test_what_is_no_fixed_length_is_refused(text):
    with pytest.raises(ValueError, match=r"^"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", ()),
        ("a", (("a",),)),
        ("a, b.c ,`x.y`.`z``,`", (("a",), ("b", "c"), ("x.y", "z`,"))),
        ("a column, ä", (("a column",), ("ä",))),
    ],
)
def test_column_lists_are_split_outside_backticks(text, columns):
    assert parse_column_list(text) == columns


@pytest.mark.parametrize("text", ["a.", ",a", "a,", "`a", "a..b"])
def test_a_column_list_with_an_empty_name_is_refused(text):
    with pytest.raises(ValueError, match=r"^"):
        parse_column_list(text)


def test_a_value_that_another_writer_left_wrong_is_refused_where_it_is_used():
    with pytest.raises(InvalidPropertyError, match="'interval 30 days'"):
        LOG_RETENTION.get({"delta.logRetentionDuration": "soon"}, table="t")
    assert COLUMN_MAPPING_MODE.read("NAME") == "name"
    assert STATS_COLUMNS.get({"delta.dataSkippingStatsColumns": "a,b"}) == (("a",), ("b",))
