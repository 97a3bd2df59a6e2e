"""Options and session settings ask for what the reference understands by them."""

from __future__ import annotations

import pytest

from tahoe.errors import InvalidOptionError
from tahoe.spark.writing.write_options import WriteOptions, parse_options


def parse(options: dict[str, str] | None = None, settings: dict[str, str] | None = None) -> WriteOptions:
    return parse_options(options or {}, settings or {}, table="t")


def test_nothing_asked_for() -> None:
    assert parse({"path": "/t", "someUnknownOption": "1"}) == WriteOptions()


def test_names_are_compared_without_regard_to_case() -> None:
    found = parse(
        {
            "MERGEschema": "TRUE",
            "OverwriteSchema": "true",
            "replacewhere": "p = 1",
            "userMETADATA": "m",
            "dataChange": "false",
        }
    )
    assert found == WriteOptions(
        merge_schema=True, overwrite_schema=True, replace_where="p = 1", user_metadata="m", data_change=False
    )


def test_the_option_goes_before_the_session() -> None:
    merge = "spark.databricks.delta.schema.autoMerge.enabled"
    note = "spark.databricks.delta.commitInfo.userMetadata"
    assert parse({}, {merge: "true", note: "session"}) == WriteOptions(merge_schema=True, user_metadata="session")
    found = parse({"mergeSchema": "false", "userMetadata": "mine"}, {merge: "true", note: "session"})
    assert found == WriteOptions(merge_schema=False, user_metadata="mine")


ASSIGNS = "spark.sql.storeAssignmentPolicy"
FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"


@pytest.mark.parametrize(
    ("settings", "assigns", "updates"),
    [
        ({}, "ANSI", "ANSI"),
        ({"spark.sql.ansi.enabled": "false"}, "ANSI", "ANSI"),
        ({ASSIGNS: "strict"}, "STRICT", "STRICT"),
        ({ASSIGNS: "LEGACY", FOLLOWS_ANSI: "false"}, "LEGACY", "LEGACY"),
        ({ASSIGNS: "STRICT", FOLLOWS_ANSI: "true"}, "STRICT", "ANSI"),
        ({FOLLOWS_ANSI: "true", "spark.sql.ansi.enabled": "false"}, "ANSI", "LEGACY"),
    ],
)
def test_what_becomes_of_values_of_other_types(settings: dict[str, str], assigns: str, updates: str) -> None:
    found = parse({}, settings)
    assert (found.assigns, found.updates) == (assigns, updates)


def test_delta_options_are_properties_and_session_defaults_are_for_new_tables() -> None:
    found = parse(
        {"delta.appendOnly": "true", "DELTA.enableX": "1"},
        {"spark.databricks.delta.properties.defaults.checkpointInterval": "5", "spark.x": "y"},
    )
    assert found.properties == {"delta.appendOnly": "true", "DELTA.enableX": "1"}
    assert found.default_properties == {"delta.checkpointInterval": "5"}


def test_the_writers_own_options_pass_through() -> None:
    found = parse(
        {"Compression": "zstd", "maxRecordsPerFile": "10", "parquet.block.size": "1024", "fs.s3a.access.key": "k"}
    )
    assert found.writer == {"compression": "zstd", "maxRecordsPerFile": "10"}
    assert found.hadoop == {"parquet.block.size": "1024", "fs.s3a.access.key": "k"}


IDENTITY = {"spark.databricks.delta.write.txnAppId": "s", "spark.databricks.delta.write.txnVersion": "3"}
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "DYNAMIC"}
UNCHECKED = {"spark.databricks.delta.replaceWhere.constraintCheck.enabled": "False"}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("options", "settings", "attribute", "value"),
    [
        ({"__partition_columns": '["a","b c"]'}, {}, "partition_by", ("a", "b c")),
        ({"__partition_columns": "[]"}, {}, "partition_by", ()),
        ({"__clustering_columns": '["a", "s.x", "`b.c`"]'}, {}, "cluster_by", (("a",), ("s", "x"), ("b.c",))),
        ({}, {}, "cluster_by", None),
        ({"txnAppId": "a", "txnVersion": "7"}, {}, "txn", ("a", 7)),
        ({}, IDENTITY, "txn", ("s", 3)),
        ({"txnAppId": "a", "txnVersion": "7"}, IDENTITY, "txn", ("a", 7)),
        ({"partitionOverwriteMode": "dynamic"}, {}, "dynamic_partitions", True),
        ({}, DYNAMIC, "dynamic_partitions", True),
        ({"partitionOverwriteMode": "static"}, DYNAMIC, "dynamic_partitions", False),
        # the session's way gives way to what an option replaces
        ({"replaceWhere": "p = 1"}, DYNAMIC, "dynamic_partitions", False),
        ({"overwriteSchema": "true"}, DYNAMIC, "dynamic_partitions", False),
        ({}, {}, "replace_where_is_checked", True),
        ({}, UNCHECKED, "replace_where_is_checked", False),
    ],
)
def test_what_options_and_the_session_ask_for(
    options: dict[str, str], settings: dict[str, str], attribute: str, value: object
) -> None:
    assert getattr(parse(options, settings), attribute) == value


def test_what_rows_of_the_data_replace() -> None:
    assert parse({"replaceUsing": "id,  Name,id"}).replace_using == ("id", "Name")
    asked = parse(
        {"REPLACEON": "t.id = s.id", "targetAlias": "t"}, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    )
    assert (asked.replace_on, asked.target_alias, asked.dynamic_partitions) == ("t.id = s.id", "t", False)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("options", "told"),
    [
        # taken as false, it would silently refuse what the user allowed
        ({"mergeSchema": "yes"}, "mergeSchema cannot be yes"),
        # half an identity would write twice what was meant to be written once
        ({"txnAppId": "a"}, None),
        ({"txnVersion": "1"}, None),
        ({"txnAppId": "a", "txnVersion": "one"}, None),
        ({"txnAppId": "a", "txnVersion": "-1"}, None),
        ({"partitionOverwriteMode": "both"}, None),
        ({"replaceUsing": "id, "}, "replace"),
        ({"replaceUsing": "id", "replaceOn": "true"}, "replace"),
        ({"replaceOn": "1", "replaceWhere": "1"}, "replace"),
    ],
    ids=str,
)
def test_options_that_say_two_things_or_nothing_are_refused(options: dict[str, str], told: str | None) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        parse(options)
