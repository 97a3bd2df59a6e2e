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


def test_what_partition_by_said() -> None:
    assert parse({"__partition_columns": '["a","b c"]'}).partition_by == ("a", "b c")
    assert parse({"__partition_columns": "[]"}).partition_by == ()


def test_a_flag_is_true_or_false() -> None:
    # "yes" taken as false would silently refuse what the user allowed
    with pytest.raises(InvalidOptionError, match="mergeSchema cannot be yes"):
        parse({"mergeSchema": "yes"})


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


@pytest.mark.parametrize(
    "options",
    [
        {"txnAppId": "a"},
        {"txnVersion": "1"},
        {"txnAppId": "a", "txnVersion": "one"},
        {"txnAppId": "a", "txnVersion": "-1"},
    ],
)
def test_an_identity_has_both_its_parts(options: dict[str, str]) -> None:
    # half an identity would write twice what was meant to be written once
    with pytest.raises(InvalidOptionError):
        parse(options)


def test_an_identity_from_options_or_from_the_session() -> None:
    assert parse({"txnAppId": "a", "txnVersion": "7"}).txn == ("a", 7)
    settings = {"spark.databricks.delta.write.txnAppId": "s", "spark.databricks.delta.write.txnVersion": "3"}
    assert parse({}, settings).txn == ("s", 3)
    assert parse({"txnAppId": "a", "txnVersion": "7"}, settings).txn == ("a", 7)


def test_dynamic_partitions_by_option_or_session() -> None:
    setting = {"spark.sql.sources.partitionOverwriteMode": "DYNAMIC"}
    assert parse({"partitionOverwriteMode": "dynamic"}).dynamic_partitions
    assert parse({}, setting).dynamic_partitions
    assert not parse({"partitionOverwriteMode": "static"}, setting).dynamic_partitions
    with pytest.raises(InvalidOptionError):
        parse({"partitionOverwriteMode": "both"})


def test_the_sessions_dynamic_partitions_give_way_to_what_an_option_replaces() -> None:
    setting = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    assert not parse({"replaceWhere": "p = 1"}, setting).dynamic_partitions
    assert not parse({"overwriteSchema": "true"}, setting).dynamic_partitions


def test_clustering_columns_are_paths() -> None:
    assert parse({"__clustering_columns": '["a", "s.x", "`b.c`"]'}).cluster_by == (("a",), ("s", "x"), ("b.c",))
    assert parse({}).cluster_by is None


def test_what_rows_of_the_data_replace() -> None:
    assert parse({"replaceUsing": "id,  Name,id"}).replace_using == ("id", "Name")
    asked = parse(
        {"REPLACEON": "t.id = s.id", "targetAlias": "t"}, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    )
    assert (asked.replace_on, asked.target_alias, asked.dynamic_partitions) == ("t.id = s.id", "t", False)


@pytest.mark.parametrize(
    "options",
    [{"replaceUsing": "id, "}, {"replaceUsing": "id", "replaceOn": "true"}, {"replaceOn": "1", "replaceWhere": "1"}],
)
def test_options_that_say_two_things_or_nothing_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match="replace"):
        parse(options)


def test_the_check_of_replace_where_can_be_switched_off() -> None:
    assert parse({}).replace_where_is_checked
    assert not parse(
        {}, {"spark.databricks.delta.replaceWhere.constraintCheck.enabled": "False"}
    ).replace_where_is_checked
