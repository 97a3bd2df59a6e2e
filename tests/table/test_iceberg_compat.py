"""Iceberg compatibility, versions 2 and 3: what tables need, what files contain, and what is refused."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import ColumnTypeChangeError, InvalidOptionError, InvalidPropertyError, UnsupportedOperationError
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.log.actions import Add
from tahoe.protocol.types.schema import LONG, STRING, TIMESTAMP_NTZ, Field, Geospatial, Struct
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import REORG, OptimizeRequest, optimize
from tahoe.table.transactions.alter import set_properties, unset_properties
from tahoe.table.verify.check import check_version
from tests.table.builders import memory_env

V2 = {"delta.enableIcebergCompatV2": "true"}
V3 = {"delta.enableIcebergCompatV3": "true"}
UNIFORM = {**V2, "delta.universalFormat.enabledFormats": "iceberg"}
NESTED = pa.table(
    {
        "id": [1, 2],
        "p": ["a", None],
        "l": [[1], [2, 3]],
        "m": pa.array([[("k", [{"a": 1}])], []], pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int64())])))),
        "s": [{"z": [[1.5]]}, None],
        "at": pa.array([datetime(2026, 1, 1)] * 2, pa.timestamp("us", "UTC")),
    }
)


def new() -> tahoe.Table:
    return tahoe.Table("memory://given", env=memory_env())


def live(table: tahoe.Table) -> list[Add]:
    return list(table.snapshot().live.adds())


def field_ids(table: tahoe.Table, add: Add) -> list[int]:
    """The ids in a file, of columns and of what is inside them. -1 is none."""
    schema = pq.ParquetFile(table.env.store.open(add.path)).schema_arrow

    def ids(field: pa.Field):
        yield int((field.metadata or {}).get(b"PARQUET:field_id", -1))
        kind = field.type
        inner = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else map(kind.field, range(kind.num_fields))
        for child in inner:
            yield from ids(child)

    return [number for column in schema for number in ids(column)]


@pytest.mark.parametrize("properties", [V2, {**V2, "delta.columnMapping.mode": "id"}, V3])
def test_files_have_ids_partition_columns_and_counts(properties):
    table = new()
    table.append(NESTED, partition_by=["p"], properties=properties)
    assert table.properties["delta.columnMapping.mode"] == properties.get("delta.columnMapping.mode", "name")
    table.append(NESTED)
    table.delete("id = 1")
    table.optimize()
    with table.transaction() as changes:
        changes.add_columns([pa.field("more", pa.list_(pa.int64()))])
    table.append(NESTED.append_column("more", pa.array([[1], None])))
    for add in live(table):
        numbers = field_ids(table, add)
        assert -1 not in numbers
        assert len(set(numbers)) == len(numbers)
        assert add.stats is not None
        assert "numRecords" in add.stats
    assert list(check_version(table.snapshot())) == []
    (last,) = (f for f in table.schema if f.name == "more")
    assert list(last.metadata["delta.columnMapping.nested.ids"]) == [
        f"{last.metadata['delta.columnMapping.physicalName']}.element"
    ]
    assert max(last.metadata["delta.columnMapping.nested.ids"].values()) == int(
        table.properties["delta.columnMapping.maxColumnId"]
    )


def test_nested_ids_stay_and_are_named_by_the_protocol():
    table = new()
    table.append(NESTED, properties=V2)
    before = {f.name: f.metadata for f in table.schema}
    name = before["m"]["delta.columnMapping.physicalName"]
    assert set(before["m"]["delta.columnMapping.nested.ids"]) == {
        f"{name}.key",
        f"{name}.value",
        f"{name}.value.element",
    }
    with table.transaction() as changes:
        changes.rename_column("m", "other")
    table.overwrite(NESTED.rename_columns(["id", "p", "l", "other", "s", "at"]))
    assert {f.name: f.metadata for f in table.schema}["other"] == before["m"]


def test_row_ids_have_the_ids_of_icebergs_row_lineage():
    table = new()
    table.append(pa.table({"id": list(range(10))}), properties=V3)
    table.delete("id = 1")
    (add,) = live(table)
    columns = pq.ParquetFile(table.env.store.open(add.path)).schema_arrow
    found = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in columns}
    assert found[table.properties["delta.rowTracking.materializedRowIdColumnName"]] == 2_147_483_540
    assert found[table.properties["delta.rowTracking.materializedRowCommitVersionColumnName"]] == 2_147_483_539


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({**V2, "delta.columnMapping.mode": "none"}, "columnMapping"),
        ({**V2, "delta.enableDeletionVectors": "true"}, "enableDeletionVectors = false"),
        ({**V2, "delta.enableIcebergCompatV1": "true"}, "only one version"),
        ({**V3, **V2}, "only one version"),
        ({**V3, "delta.enableRowTracking": "false"}, "enableRowTracking"),
        ({"delta.universalFormat.enabledFormats": "iceberg"}, "enableIcebergCompatV2"),
        ({**V2, "delta.universalFormat.enabledFormats": "hudi"}, "Hudi"),
    ],
)
def test_what_does_not_go_together_is_refused(properties, problem):
    table = new()
    with pytest.raises(InvalidPropertyError, match=problem):
        table.append(pa.table({"id": [1]}), properties=properties)
    assert not table.exists()


@pytest.mark.parametrize(
    ("default", "is_literal"),
    [
        *(
            (text, True)
            for text in ("'x'", r"'it\'s'", "'it''s'", r'"a\"b"', "r'a\\'", "'two' 'parts'", "'two\nlines'")
        ),
        *((text, True) for text in ("null", "X'AB'", "DATE '2026-01-31'", "timestamp_ntz'2026-01-31 12:00:00'")),
        *((text, False) for text in ("upper('x')", "'a' || 'b'", r"'a\' || 'b'", "current_date()", "'a", "'a'b'")),
    ],
)
def test_defaults_are_literals_in_version_3(default, is_literal):
    column = Field(name="v", type=STRING, metadata={"CURRENT_DEFAULT": default})
    schema = Struct((Field(name="id", type=LONG), column))
    properties = {**V3, "delta.feature.allowColumnDefaults": "supported"}
    if is_literal:
        assert new().create(schema, properties=properties) == 0
    else:
        with pytest.raises(InvalidPropertyError, match="must be a literal, unlike that of v"):
            new().create(schema, properties=properties)


def test_version_3_has_geometries():
    schema = Struct((Field(name="id", type=LONG), Field(name="g", type=Geospatial("geometry"))))
    assert new().create(schema, properties=V3) == 0
    with pytest.raises(InvalidPropertyError, match="geometry or geography: g"):
        new().create(schema, properties=V2)


@pytest.mark.parametrize("properties", [V2, V3])
def test_types_that_iceberg_lacks_are_refused_by_their_column(properties):
    table = new()
    with pytest.raises(InvalidPropertyError, match=r"void.*nothing"):
        table.append(pa.table({"id": [1], "nothing": pa.nulls(1)}), properties=properties)
    table.append(pa.table({"id": [1]}), properties=properties)
    with pytest.raises(InvalidPropertyError, match=r"void.*nothing"):
        table.append(pa.table({"id": [1], "nothing": pa.nulls(1)}), merge_schema=True)


def test_it_begins_where_files_allow_it():
    table = new()
    table.append(NESTED)
    with pytest.raises(InvalidPropertyError, match="columnMapping"):
        set_properties(table, V2)
    set_properties(table, {**V2, "delta.columnMapping.mode": "name"})  # no file has ids: Iceberg reads them by names
    table.append(NESTED)
    set_properties(table, UNIFORM)
    assert "icebergCompatV2" in table.protocol.writer_features
    assert sorted({-1 in field_ids(table, add) for add in live(table)}) == [False, True]


def test_deletion_vectors_are_removed_first():
    table = new()
    table.append(pa.table({"id": list(range(100))}), properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 1")
    assert table.snapshot().has_deletion_vectors
    asked = {**V2, "delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "false"}
    with pytest.raises(UnsupportedOperationError, match="PURGE"):
        set_properties(table, asked)
    settings = CompactionSettings(min_file_bytes=0, max_deleted_share=0.0)
    optimize(table, OptimizeRequest(settings=settings, operation=REORG))
    set_properties(table, asked)
    table.delete("id = 2")
    assert not any(add.deletion_vector for add in live(table))


def test_rows_are_counted_first():
    table = new()
    table.append(pa.table({"id": [1]}), properties={"delta.columnMapping.mode": "name"})
    (add,) = live(table)
    with table.transaction() as changes:
        changes._draft.adds.append(add.replace(stats=None, data_change=False))
    with pytest.raises(UnsupportedOperationError, match="ANALYZE"):
        set_properties(table, V2)
    table.compute_statistics()
    set_properties(table, V2)


def test_files_without_ids_for_elements_do_not_go_with_icebergs_metadata():
    table = new()
    table.append(NESTED, properties={"delta.columnMapping.mode": "name"})
    set_properties(table, V2)
    with pytest.raises(UnsupportedOperationError, match="UPGRADE UNIFORM"):
        set_properties(table, UNIFORM)


def test_the_partitioning_stays():
    table = new()
    table.append(NESTED, partition_by=["p"], properties=V2)
    with pytest.raises(InvalidOptionError, match="Iceberg"):
        table.overwrite(NESTED, partition_by=["id"], overwrite_schema=True)


def test_types_become_wider_only_as_in_iceberg():
    table = new()
    rows = pa.table({"n": pa.array([1], pa.int32()), "d": pa.array([None], pa.date32())})
    table.append(rows, properties={**V2, "delta.enableTypeWidening": "true"})
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("n",), type=LONG)])
    with pytest.raises(ColumnTypeChangeError), table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("d",), type=TIMESTAMP_NTZ)])
    assert table.to_arrow()["n"].to_pylist() == [1]


@pytest.mark.parametrize("undo", ["unset", "false"])
def test_without_compatibility_icebergs_metadata_ends(undo):
    table = new()
    table.append(pa.table({"id": [1]}), properties=UNIFORM)
    if undo == "unset":
        unset_properties(table, list(V2))
    else:
        set_properties(table, dict.fromkeys(V2, "false"))
    assert "delta.universalFormat.enabledFormats" not in table.properties
