"""What a table says of itself can be changed, and a table can be emptied, by commits without data."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import AppendOnlyTableError, InvalidOptionError, InvalidPropertyError
from tahoe.protocol.configuration.column_mapping import column_id, physical_name
from tahoe.protocol.log.actions import Protocol
from tahoe.table.transactions.alter import set_properties, truncate, unset_properties
from tests.table.builders import memory_env

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", None]})


@pytest.fixture
def table() -> tahoe.Table:
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(ROWS, partition_by=["p"])
    return table


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


def test_properties_are_set_and_unset(table):
    assert set_properties(table, {"DELTA.appendonly": "true", "owner": "me"}) == 1
    assert table.properties == {"delta.appendOnly": "true", "owner": "me"}
    assert unset_properties(table, ["Delta.AppendOnly"]) == 2
    assert table.properties == {"owner": "me"}
    assert ids(table) == [1, 2, 3]
    newest = table.history()[0]
    assert (newest["operation"], newest["operationParameters"]["ifExists"]) == ("UNSET TBLPROPERTIES", "false")


def test_what_is_so_already_makes_no_version(table):
    set_properties(table, {"owner": "me"})
    assert set_properties(table, {"owner": "me"}) == 1
    assert unset_properties(table, ["other"], if_exists=True) == 1
    assert table.version == 1


@pytest.mark.parametrize(
    ("properties", "error", "told"),
    [
        ({"delta.noSuch": "1"}, InvalidPropertyError, None),
        ({"delta.checkpointInterval": "often"}, InvalidPropertyError, None),
        ({"delta.columnMapping.maxColumnId": "9"}, InvalidPropertyError, None),
        ({"delta.columnMapping.mode": "id"}, InvalidPropertyError, None),
        ({"delta.enableIcebergCompatV2": "true"}, InvalidPropertyError, "columnMapping"),
    ],
)
def test_a_property_that_cannot_be_is_refused(table, properties, error, told):
    with pytest.raises(error, match=told):
        set_properties(table, properties)
    assert table.version == 0


def test_what_is_not_there_cannot_be_unset(table):
    with pytest.raises(InvalidPropertyError, match="is not set on the table"):
        unset_properties(table, ["owner"])


def test_a_property_brings_the_feature_that_it_needs(table):
    set_properties(table, {"delta.enableDeletionVectors": "true"})
    assert "deletionVectors" in table.protocol.writer_features
    set_properties(table, {"delta.feature.timestampNtz": "supported"})
    assert "timestampNtz" in table.protocol.reader_features
    assert not any(name.startswith("delta.feature") for name in table.properties)
    assert ids(table) == [1, 2, 3]


def test_columns_keep_the_names_that_their_files_have_when_mapping_begins(table):
    set_properties(
        table, {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
    )
    assert table.snapshot().column_mapping_mode == "name"
    assert [(physical_name(f), column_id(f)) for f in table.schema] == [("id", 1), ("p", 2)]
    table.append(pa.table({"id": [4], "p": ["c"], "new name": [1]}), merge_schema=True)
    assert ids(table) == [1, 2, 3, 4]
    assert column_id(table.schema.find("new name")) == 3
    with pytest.raises(InvalidPropertyError, match="written with mode name"):
        set_properties(table, {"delta.columnMapping.mode": "none"})
    with pytest.raises(InvalidPropertyError, match="written with mode name"):
        unset_properties(table, ["delta.columnMapping.mode"])


def test_a_comment_is_no_property(table):
    set_properties(table, {"comment": "flights"})
    assert (table.snapshot().metadata.description, table.properties) == ("flights", {})
    unset_properties(table, ["comment"])
    assert table.snapshot().metadata.description is None
    assert table.protocol == Protocol(reader_version=1, writer_version=2)


@pytest.mark.parametrize(("where", "left"), [(None, []), ("p = 'a'", [2, 3]), ("p is null", [1, 2])])
def test_truncating(table, where, left):
    truncate(table, where)
    assert ids(table) == left
    assert table.to_arrow().schema.names == ["id", "p"]
    assert table.history()[0]["operation"] == "TRUNCATE"
    assert table.snapshot(0).to_arrow().num_rows == 3


def test_only_whole_partitions_can_be_truncated(table):
    with pytest.raises(InvalidOptionError, match="partition columns"):
        truncate(table, "id = 1")


def test_an_append_only_table_is_not_truncated(table):
    set_properties(table, {"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyTableError):
        truncate(table)
