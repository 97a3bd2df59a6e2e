"""What a write makes of the table's metadata and domains, and what an overwrite replaces."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import (
    ClusteringStatisticsError,
    InvalidOptionError,
    InvalidPropertyError,
    MetadataChangedException,
    NotNullViolationError,
    TableNotFoundError,
    UnsupportedDataTypeError,
    UnsupportedFileFormatError,
)
from tahoe.protocol.configuration.column_mapping import column_id, physical_name
from tahoe.protocol.log.actions import Action, Add, DomainMetadata, Format, Metadata, Protocol
from tahoe.protocol.types.schema import DOUBLE, LONG, STRING, VOID, Array, Field, Map, Struct
from tahoe.table.arrow.types import delta_schema
from tahoe.table.verify.check import check_version
from tahoe.table.writing.arrow_writer import write_arrow
from tahoe.table.writing.planning import create_table, plan_write
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import METADATA, PROTOCOL, memory_env, put_commit

ROWS = pa.table({"id": [1, 2], "v": [1.0, 2.0]})
NAN = float("nan")


@pytest.fixture
def table() -> tahoe.Table:
    return tahoe.Table("memory://given", env=memory_env())


def write(table: tahoe.Table, data: pa.Table, mode: str = "overwrite", **asked: object) -> int | None:
    return write_arrow(table, data, WriteRequest(mode=mode, schema=delta_schema(data.schema, table=table.url), **asked))


def actions(table: tahoe.Table, kind: type[Action]) -> list[Action]:
    return [a for a in table.log.read_version(table.version) if isinstance(a, kind)]


def test_a_new_column_does_not_switch_a_mapping_on_that_the_protocol_does_not_support(table):
    # old columns would get physical names that no file has, and read as nulls
    schema = delta_schema(ROWS.schema, table="t")
    metadata = Metadata(id="m", schema_string=schema.to_json(), configuration={"delta.columnMapping.mode": "name"})
    put_commit(table.env, 0, [Protocol(reader_version=1, writer_version=2), metadata])
    table.append(ROWS)
    table.append(pa.table({"id": [3], "w": [1]}), merge_schema=True)
    assert table.protocol == Protocol(reader_version=1, writer_version=2)
    assert all(physical_name(f) == f.name for f in table.schema)
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 2, 3]


def test_a_column_id_is_never_given_twice(table):
    mapped = {"delta.columnMapping.mode": "name"}
    write(table, ROWS, "append", properties=mapped)
    schema = Struct((Field(name="x", type=LONG), Field(name="y", type=LONG)))
    create_table(table, WriteRequest(mode="append", schema=schema, properties=mapped), replace_existing=True)
    assert [column_id(f) for f in table.schema] == [3, 4]
    create_table(table, WriteRequest(mode="append", schema=schema), replace_existing=True)
    create_table(table, WriteRequest(mode="append", schema=schema, properties=mapped), replace_existing=True)
    assert [column_id(f) for f in table.schema] == [5, 6]


def test_a_partition_of_nan_is_replaced_as_every_other(table):
    parts = pa.table({"p": [NAN, 1.0, 0.0], "id": [1, 2, 3]})
    write(table, parts, partition_by=("p",))
    write(table, pa.table({"p": [NAN, -0.0], "id": [4, 5]}), dynamic_partitions=True)
    assert sorted(table.to_arrow().column("id").to_pylist()) == [2, 4, 5]


# --- what files can hold, and how

VOIDS = (
    Array(element=VOID),
    Map(key=STRING, value=Array(element=VOID)),
    Struct((Field(name="x", type=VOID),)),
    Struct((Field(name="x", type=LONG), Field(name="y", type=Array(element=Struct((Field(name="z", type=VOID),)))))),
)


@pytest.mark.parametrize("kind", VOIDS, ids=str)
def test_no_file_is_written_for_a_column_that_it_cannot_hold(table, kind):
    """Protocol: "Void Type". The table can still be read, and made writable by another type."""
    schema = Struct((Field(name="id", type=LONG), Field(name="a", type=kind)))
    put_commit(table.env, 0, [PROTOCOL, Metadata(id="m", schema_string=schema.to_json())])
    keys = {info.key for info in table.env.store.walk()}
    for write_rows in (table.append, lambda rows: table.transaction().append(rows)):
        with pytest.raises(UnsupportedDataTypeError, match="column a"):
            write_rows(pa.table({"id": [1]}))
    assert {info.key for info in table.env.store.walk()} == keys
    assert table.to_arrow().num_rows == 0


def test_a_table_of_nothing_but_void_takes_no_rows(table):
    schema = Struct((Field(name="a", type=VOID),))
    put_commit(table.env, 0, [PROTOCOL, Metadata(id="m", schema_string=schema.to_json())])
    with pytest.raises(UnsupportedDataTypeError, match="void, the type of every column"):
        table.append(pa.table({"a": pa.nulls(1)}))


def test_a_table_whose_files_are_not_parquet_is_neither_read_nor_written(table):
    metadata = METADATA.replace(format=Format(provider="csv"))
    put_commit(table.env, 0, [PROTOCOL, metadata])
    for use in (table.to_arrow, lambda: table.append(pa.table({"id": [1]})), table.history):
        with pytest.raises(UnsupportedFileFormatError, match="csv"):
            use()
    put_commit(table.env, 1, [METADATA.replace(format=Format(provider="PARQUET"))])
    table.append(pa.table({"id": [1]}))
    assert table.to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("codec", "found", "name"),
    [
        (None, "ZSTD", ".zstd.parquet"),
        ("SNAPPY", "SNAPPY", ".snappy.parquet"),
        ("gzip", "GZIP", ".gzip.parquet"),
        ("none", "UNCOMPRESSED", "c000.parquet"),
        ("uncompressed", "UNCOMPRESSED", "c000.parquet"),
        ("lz4_raw", "LZ4", ".lz4.parquet"),
    ],
)
def test_files_are_compressed_as_the_table_says(table, codec, found, name):
    table.append(ROWS, properties={} if codec is None else {"delta.parquet.compression.codec": codec})
    (path,) = table.files().column("path").to_pylist()
    assert path.endswith(name)
    footer = pq.read_metadata(pa.BufferReader(table.env.store.get(path)))
    assert {footer.row_group(0).column(i).compression for i in range(footer.num_columns)} == {found}
    assert table.to_arrow().num_rows == 2


def test_not_null_of_an_arrow_schema_is_that_of_the_table_it_makes(table):
    inner = pa.struct([pa.field("y", pa.int64(), nullable=False)])
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.float64()),
        pa.field("s", inner, nullable=False),
    ]
    table.append(pa.table([[1], [1.0], [{"y": 1}]], schema=pa.schema(fields)))
    assert [f.nullable for f in table.schema] == [False, True, False]
    assert not table.schema.find("s").type.find("y").nullable
    with pytest.raises(NotNullViolationError, match="id"):
        table.append(pa.table({"id": pa.array([None], pa.int64()), "s": pa.array([{"y": 1}], inner)}))


# --- clustering


def cluster(table: tahoe.Table, *columns: str) -> None:
    """Make a table clustered, as another writer would."""
    snapshot = table.snapshot()
    stored = [[physical_name(table.schema.find(name))] for name in columns]
    features = frozenset({"columnMapping", "domainMetadata", "clustering", "appendOnly", "invariants"})
    domain = DomainMetadata(domain="delta.clustering", configuration=json.dumps({"clusteringColumns": stored}))
    put_commit(
        table.env,
        snapshot.version + 1,
        [Protocol(reader_version=2, writer_version=7, writer_features=features), domain],
    )


@pytest.fixture(params=["none", "name"])
def clustered(request, table) -> tahoe.Table:
    table.append(ROWS, properties={"delta.columnMapping.mode": request.param})
    cluster(table, "v")
    return table


def test_appends_and_overwrites_leave_a_table_clustered(clustered):
    write(clustered, ROWS)
    write(clustered, pa.table({"id": [3], "w": [1]}), "append", merge_schema=True)
    assert clustered.snapshot().clustering_columns == (("v",),)


def test_columns_that_are_replaced_by_others_of_the_same_name_still_cluster(clustered):
    write(clustered, pa.table({"v": [1], "new": ["a"]}), overwrite_schema=True)
    assert clustered.snapshot().clustering_columns == (("v",),)
    (added,) = actions(clustered, Add)
    assert physical_name(clustered.schema.find("v")) in json.loads(added.stats)["minValues"]


def test_a_table_that_lost_its_clustering_columns_is_clustered_no_more(clustered):
    # the domain would name columns that the table does not have, and other writers would refuse it
    write(clustered, pa.table({"id": [1]}), overwrite_schema=True)
    assert [d.removed for d in actions(clustered, DomainMetadata)] == [True]
    assert clustered.snapshot().clustering_columns == ()


@pytest.mark.parametrize("is_conflict", [True, False])
def test_an_append_behind_a_new_clustering_has_statistics_of_its_columns(table, is_conflict):
    kept = {"delta.feature.clustering": "supported", "delta.dataSkippingStatsColumns": "id" if is_conflict else "id,v"}
    table.append(ROWS, properties=kept)
    changes = table.transaction()
    changes.append(ROWS)
    with tahoe.Table(table.url, env=table.env).transaction() as other:
        other.set_properties({"delta.dataSkippingStatsColumns": "id,v", "owner": "me"})
        other.cluster_by([("v",)])
    if is_conflict:
        with pytest.raises(MetadataChangedException, match="clustered the table by v"):
            changes.commit()
        table.append(ROWS)
    else:
        changes.commit()
    newest = [json.loads(add.stats) for add in actions(table, Add)]
    assert [stats["nullCount"]["v"] for stats in newest] == [0]


@pytest.mark.parametrize("is_clustered_first", [True, False])
def test_rows_and_clustering_in_one_transaction(table, is_clustered_first):
    table.append(ROWS, properties={"delta.dataSkippingStatsColumns": "id,v" if is_clustered_first else "id"})
    changes = table.transaction()
    if is_clustered_first:
        changes.cluster_by([("v",)])
        changes.set_properties({"delta.dataSkippingStatsColumns": "id"})
    changes.append(ROWS)
    if not is_clustered_first:
        changes.set_properties({"delta.dataSkippingStatsColumns": "id,v"})
        with pytest.raises(ClusteringStatisticsError, match="already added files"):
            changes.cluster_by([("v",)])
    changes.commit()
    (add,) = actions(table, Add)
    assert ("v" in json.loads(add.stats)["nullCount"]) == is_clustered_first


def test_a_table_is_partitioned_or_clustered(clustered):
    write(clustered, ROWS, overwrite_schema=True, partition_by=("v",))
    assert clustered.snapshot().clustering_columns == ()


def test_a_table_made_anew_is_not_clustered_as_the_old_one(clustered):
    create_table(
        clustered, WriteRequest(mode="append", schema=Struct((Field(name="v", type=DOUBLE),))), replace_existing=True
    )
    assert clustered.snapshot().clustering_columns == ()


# --- a table that was dropped


def test_a_table_that_is_gone_is_not_remembered(table):
    table.append(ROWS)
    table.append(ROWS)
    for info in list(table.env.store.walk()):
        table.env.store.delete(info.key)
    assert not table.exists()
    with pytest.raises(TableNotFoundError):
        table.snapshot()
    table.append(pa.table({"other": [1]}))
    assert table.snapshot(0).schema.names == ("other",)
    assert table.version == 0


def test_a_version_of_a_table_that_took_the_place_of_another_is_its_own(table):
    table.append(ROWS)
    for info in list(table.env.store.walk()):
        table.env.store.delete(info.key)
    tahoe.Table("memory://given", env=table.env).append(pa.table({"other": [1]}))
    assert table.snapshot(0).schema.names == ("other",)


ICEBERG = {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"}


@pytest.mark.parametrize("properties", [{"delta.feature.materializePartitionColumns": "supported"}, ICEBERG])
def test_files_hold_the_partition_columns_where_the_table_says_so(properties):
    table = tahoe.Table("memory://given", env=memory_env())
    rows = pa.table({"id": [1, 2, 3], "p": ["a", None, "a"]})
    table.append(rows, partition_by=["p"], properties=properties)
    stored = table.schema.find("p").metadata.get("delta.columnMapping.physicalName", "p")
    for add in table.snapshot().live.adds():
        values = pq.read_table(table.env.store.open(add.path)).column(stored).to_pylist()
        assert set(values) == {add.partition_values[stored]}
    assert table.to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    assert list(check_version(table.snapshot())) == []


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({**ICEBERG, "delta.columnMapping.mode": "none"}, "columnMapping"),
        ({**ICEBERG, "delta.enableDeletionVectors": "true"}, "deletion vectors"),
    ],
)
def test_what_iceberg_cannot_read_is_refused(properties, problem):
    table = tahoe.Table("memory://given", env=memory_env())
    with pytest.raises(InvalidPropertyError, match=problem):
        table.append(pa.table({"id": [1]}), properties=properties)
    with pytest.raises(InvalidPropertyError, match="array, map, void, geometry or geography"):
        table.append(pa.table({"id": [1], "l": [[1]]}), properties=ICEBERG)
    assert not table.exists()


@pytest.mark.parametrize("asked", [{"mode": "append"}, {"dynamic_partitions": True}, {"overwrite_schema": True}])
def test_rows_that_replace_others_say_all_of_what_goes(table, asked):
    # else an append would delete rows, or an overwrite others than those that are meant
    table.append(ROWS)
    schema = delta_schema(ROWS.schema, table=table.url)
    request = {"mode": "overwrite", "schema": schema, "matching": "(id)", "finds_rows": True}
    plan = plan_write(table, WriteRequest(**request))
    assert plan is not None
    assert plan.replaces_rows
    with pytest.raises(InvalidOptionError):
        plan_write(table, WriteRequest(**{**request, **asked}))


def test_a_column_that_the_data_omits_is_null(table: tahoe.Table) -> None:
    """docs/reference/writing.md says so."""
    table.append(ROWS)
    table.append(pa.table({"v": [3.0]}))
    assert table.to_arrow(filter="v = 3")["id"].to_pylist() == [None]
