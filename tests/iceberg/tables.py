"""Tables with Iceberg's metadata, one for each kind, and what Iceberg's readers are compared with."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from pyroaring import BitMap64

import tahoe
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.log.actions import Add
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.protocol.types.schema import LONG, VARIANT, Array, Field, Geospatial, Struct
from tahoe.protocol.types.schema import Decimal as DecimalType
from tahoe.storage.background import finish_background
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import OptimizeRequest, optimize
from tahoe.table.layout.upgrade_uniform import upgrade_uniform
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.reading.physical_rows import PhysicalRows
from tahoe.table.transactions.alter import set_properties
from tests.table.geometries import WellKnownBinary, point

FORMATS = {"delta.universalFormat.enabledFormats": "iceberg"}
UNIFORM = {"delta.enableIcebergCompatV2": "true", **FORMATS}

# With Iceberg's format version 3.
UNIFORM_V3 = {"delta.enableIcebergCompatV3": "true", "delta.enableRowTracking": "true", **FORMATS}
MARKED_V3 = {**UNIFORM_V3, "delta.enableDeletionVectors": "true"}

_DAY, _MOMENT = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 23, 59, 59, 999_999)


def rows(start: int, count: int = 4) -> pa.Table:
    """Rows with a column of each type, with nulls in each."""
    numbers = list(range(start, start + count))

    def column(of: Callable[[int], object], kind: pa.DataType) -> pa.Array:
        return pa.array([None if n % 4 == 3 else of(n) for n in numbers], kind)

    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "tiny": column(lambda n: n % 100, pa.int8()),
            "small": column(lambda n: -n, pa.int16()),
            "whole": column(lambda n: n * 1000, pa.int32()),
            "half": column(lambda n: n / 2, pa.float32()),
            "real": column(lambda n: [-0.0, 0.0, float("inf"), 0][n % 4], pa.float64()),
            "flag": column(lambda n: n % 2 == 0, pa.bool_()),
            "money": column(lambda n: Decimal(n) / 100, pa.decimal128(12, 2)),
            "large": column(lambda n: Decimal(10) ** 30 + n, pa.decimal128(38, 0)),
            "text": column(lambda n: f"{'é' * 40} {n}", pa.string()),
            "data": column(lambda n: bytes([n % 256]), pa.binary()),
            "day": column(lambda n: _DAY + dt.timedelta(days=n), pa.date32()),
            "moment": column(lambda n: _MOMENT.replace(tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
            "local": column(lambda n: _MOMENT, pa.timestamp("us")),
        }
    )


def nested(start: int) -> pa.Table:
    return pa.table(
        {
            "id": [start, start + 1],
            "numbers": [[start, None], []],
            "lists": [[[1.5], []], None],
            "names": pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int64())),
            "point": [{"x": 1, "more": {"y": "z"}}, None],
            "points": [[{"x": 1}, {"x": None}], []],  # PyIceberg reads a list of structs that is null as an empty one
        }
    )


def plain(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = tahoe.Table(path)
    table.append(rows(0), properties=properties)
    table.append(rows(10))
    return table


def changed(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = plain(path, properties)
    table.delete("id = 1")
    table.update({"text": "'other'"}, "id > 10")
    table.merge(rows(12, 4), on="id").when_matched_delete("target.id = 12").when_not_matched_insert_all().execute()
    table.overwrite(rows(30))
    table.restore(2)
    table.compute_statistics()
    return table


def compacted(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = plain(path, properties)
    optimize(table, OptimizeRequest(settings=CompactionSettings()))
    table.append(rows(20))
    return table


def nested_types(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = tahoe.Table(path)
    table.append(nested(0), properties=properties)
    table.append(nested(10))
    table.delete("id = 10")
    return table


def partitioned(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = tahoe.Table(path)
    columns = ["tiny", "half", "flag", "money", "text", "day", "moment", "local"]
    table.append(rows(0), partition_by=columns, properties=properties)
    table.append(rows(4))
    table.delete("id = 5")
    table.overwrite(rows(0, 2), partitions="dynamic")
    return table


def odd_names(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = tahoe.Table(f"{path}/with a blank, é and 100%25")
    data = pa.table({"a b": [1, 2, 3], "c.d": ["x/y", "50%", "ü=?#"]})
    table.append(data, partition_by=["c.d"], properties=properties)
    return table


def evolved(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = tahoe.Table(path)
    start = pa.table(
        {
            "id": [1, 2],
            "n": pa.array([1, 2], pa.int32()),
            "m": pa.array([Decimal("1.5")] * 2, pa.decimal128(5, 2)),
            "gone": [1, 2],
        }
    )
    table.append(start, partition_by=["id"], properties={**properties, "delta.enableTypeWidening": "true"})
    with table.transaction() as changes:
        changes.rename_column("id", "key")
        changes.drop_columns(["gone"])
        changes.add_columns([pa.field("gone", pa.string()), pa.field("id", pa.list_(pa.int64()))])
        changes.alter_columns(
            [ColumnChange(path=("n",), type=LONG), ColumnChange(path=("m",), type=DecimalType(precision=9, scale=2))]
        )
    table.append(
        pa.table(
            {
                "key": [3],
                "n": [1 << 40],
                "m": pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
                "gone": ["x"],
                "id": [[1]],
            }
        )
    )
    return table


def mapped_later(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    """Files without ids, whose columns are found by names, beside others."""
    table = tahoe.Table(path)
    table.append(nested(0), properties={"custom": "kept"})
    set_properties(table, {**properties, "delta.columnMapping.mode": "name"})
    with table.transaction() as changes:
        changes.rename_column("numbers", "figures")
    table.append(nested(10).rename_columns(["id", "figures", *nested(0).column_names[2:]]))
    return table


def partitioned_later(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    """Files without the partition columns, whose values are in the metadata alone, beside others."""
    table = tahoe.Table(path)
    data = pa.table({"id": [1, 2, 3], "p": ["a", "b", None], "day": [_DAY, None, None]})
    table.append(data, partition_by=["p", "day"], properties={"delta.columnMapping.mode": "name"})
    set_properties(table, properties)
    table.append(data)
    return table


def partitioned_by_numbers(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    """Decimals of all digits, and doubles, in manifests that are written again."""
    table = tahoe.Table(path)
    numbers = [Decimal(10) ** 37 + 1, Decimal(-10) ** 30, None]
    data = pa.table({"id": [1, 2, 3], "large": pa.array(numbers, pa.decimal128(38, 0)), "real": [0.1, 1e300, None]})
    table.append(data, partition_by=["large", "real"], properties=properties)
    table.delete("id = 3")
    return table


def not_convertible_meanwhile(path: str) -> tahoe.Table:
    """Versions with deletion vectors and a column of type void, which did not ask for Iceberg's metadata."""
    table = plain(path)
    finish_background()
    set_properties(table, {"delta.enableIcebergCompatV2": "false", "delta.enableDeletionVectors": "true"})
    table.delete("id = 1")
    with table.transaction() as changes:
        changes.add_columns([pa.field("nothing", pa.null())])
    set_properties(table, {"delta.enableDeletionVectors": "false"})
    table.optimize(max_deleted_share=0)
    with table.transaction() as changes:
        changes.drop_columns(["nothing"])
    set_properties(table, UNIFORM)
    return table


def version_1(path: str) -> tahoe.Table:
    table = tahoe.Table(path)
    compat = {"delta.enableIcebergCompatV1": "true", "delta.universalFormat.enabledFormats": "iceberg"}
    table.append(rows(0), partition_by=["text"], properties=compat)
    return table


def replaced(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = plain(path, properties)
    table.overwrite(nested(0), overwrite_schema=True)
    return table


def partitioned_by_replacement(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    """An unpartitioned table becomes a partitioned one, and the partition column gets another type."""
    table = plain(path, properties)
    table.overwrite(pa.table({"id": [1, 2], "p": [1, None]}), partition_by=["p"], overwrite_schema=True)
    table.append(pa.table({"id": [3], "p": [1]}))
    table.overwrite(pa.table({"id": [1, 2], "p": ["a", None]}), partition_by=["p"], overwrite_schema=True)
    table.delete("p = 'a'")
    return table


def empty(path: str, properties: Mapping[str, str] = UNIFORM) -> tahoe.Table:
    table = tahoe.Table(path)
    table.create(rows(0).schema, properties=properties)
    return table


def many(start: int, count: int = 400) -> pa.Table:
    """So many rows that a deletion vector is better than writing the file again."""
    numbers = range(start, start + count)
    return pa.table({"id": numbers, "p": [n // 100 % 2 for n in numbers], "text": [f"{n * 7919:x}" for n in numbers]})


def marked(path: str, properties: Mapping[str, str] = MARKED_V3) -> tahoe.Table:
    """Deletion vectors that are added, replaced, and go with their files, by each statement."""
    table = tahoe.Table(path)
    table.append(many(0), properties=properties)
    table.append(many(1000))
    table.delete("id % 100 = 7")
    table.delete("id < 20")
    table.update({"text": "'other'"}, "id between 30 and 35")
    source = pa.table({"id": [50, 1050, 5000], "p": [9, 9, 9], "text": ["m"] * 3})
    merge = table.merge(source, on="id").when_matched_update({"text": "source.text"})
    merge.when_not_matched_insert_all().execute()
    table.delete("id < 400")
    return table


def marked_and_restored(path: str) -> tahoe.Table:
    """Rows that come back although readers have vectors which delete them: in the same file, and in one of before."""
    table = marked(path)
    for version in (3, 2, 4, 1, 6):
        table.restore(version)
    return table


def marked_and_compacted(path: str) -> tahoe.Table:
    table = marked(path)
    optimize(table, OptimizeRequest(settings=CompactionSettings(min_file_bytes=0, max_deleted_share=0.0)))
    table.delete("id = 1100")
    table.restore(5)
    return table


def marked_partitions(path: str) -> tahoe.Table:
    table = tahoe.Table(path)
    table.append(many(0), partition_by=["p"], properties=MARKED_V3)
    table.append(many(1000))
    table.delete("id % 50 = 3")
    table.delete("p = 1 and id < 900")
    return table


def marked_before(path: str) -> tahoe.Table:
    """Vectors that are there when the metadata begins, one inline and one in a file."""
    table = tahoe.Table(path)
    table.append(many(0, 20_000), properties={"delta.enableDeletionVectors": "true"})
    table.append(many(30_000))
    table.delete("id % 7 = 3")
    upgrade_uniform(table, 3, lambda request: optimize(table, request))
    table.delete("id = 0")
    return table


_BY_VERSION = (
    plain,
    changed,
    compacted,
    nested_types,
    partitioned,
    odd_names,
    evolved,
    mapped_later,
    partitioned_later,
    partitioned_by_numbers,
    replaced,
    partitioned_by_replacement,
    empty,
)


def variants(path: str) -> tahoe.Table:
    """A table with a variant and an array of variants, and a deletion vector. PyIceberg cannot read it."""
    table, binary = tahoe.Table(path), [pa.field(name, pa.binary()) for name in ("metadata", "value")]
    columns = (
        Field(name="id", type=LONG),
        Field(name="v", type=VARIANT),
        Field(name="vs", type=Array(element=VARIANT, contains_null=True)),
    )
    table.create(Struct(columns), properties=MARKED_V3)
    one = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x07"}  # {"a": 7}
    kind = pa.struct(binary)
    names = {column.name: column.metadata for column in table.schema}
    fields = [
        pa.field(
            names[name]["delta.columnMapping.physicalName"],
            of,
            metadata={"PARQUET:field_id": str(names[name]["delta.columnMapping.id"])},
        )
        for name, of in (
            ("id", pa.int64()),
            ("v", kind),
            ("vs", pa.list_(pa.field("element", kind, metadata={"PARQUET:field_id": str(element_id(names["vs"]))}))),
        )
    ]
    rows = [pa.array([0, 1, 2]), pa.array([one, None, one], kind), pa.array([[one], [], None], fields[2].type)]
    pq.write_table(pa.Table.from_arrays(rows, schema=pa.schema(fields)), f"{path}/variants.parquet")
    size, stats = os.path.getsize(f"{path}/variants.parquet"), '{"numRecords":3}'
    add = Add(path="variants.parquet", partition_values={}, size_bytes=size, modification_time_ms=0, stats=stats)
    with table.transaction() as changes:
        changes._draft.adds.append(add)
    table.delete("id = 2")
    return table


def element_id(metadata: Mapping[str, object]) -> int:
    (number,) = metadata["delta.columnMapping.nested.ids"].values()
    return number


def geometries(path: str) -> tahoe.Table:
    """A table with a point and a null, and other columns of geometries and geographies. PyIceberg cannot read it."""
    table = tahoe.Table(path)
    columns = (
        Field(name="id", type=LONG),
        Field(name="at", type=Geospatial("geometry")),
        Field(name="m", type=Geospatial("geometry", "EPSG:3857")),
        Field(name="areas", type=Array(element=Geospatial("geography", algorithm="SPHERICAL"))),
    )
    table.create(Struct(columns), properties=UNIFORM_V3)
    kinds = {"id": pa.int64(), "at": WellKnownBinary("{}")}
    of = {column.name: column.metadata for column in table.schema}
    names = {name: of[name]["delta.columnMapping.physicalName"] for name in kinds}
    numbers = {name: {"PARQUET:field_id": str(of[name]["delta.columnMapping.id"])} for name in kinds}
    schema = pa.schema([pa.field(names[name], kind, metadata=numbers[name]) for name, kind in kinds.items()])
    points = pa.ExtensionArray.from_storage(kinds["at"], pa.array([point(1, 2), None], pa.binary()))
    file = f"{path}/points.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1, 2]), points], schema=schema), file)
    low, high = {names["id"]: 1, names["at"]: "POINT(1.0 2.0)"}, {names["id"]: 2, names["at"]: "POINT(1.0 2.0)"}
    counts = {names["id"]: 0, names["at"]: 1}
    stats = json.dumps({"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": counts})
    size = os.path.getsize(file)
    with table.transaction() as changes:
        changes._draft.adds.append(
            Add(path="points.parquet", partition_values={}, size_bytes=size, modification_time_ms=0, stats=stats)
        )
    return table


# Tables with deletion vectors.
MARKED: Mapping[str, Callable[[str], tahoe.Table]] = {
    **{
        make.__name__: make
        for make in (marked, marked_and_restored, marked_and_compacted, marked_partitions, marked_before)
    },
    "marked_changed": partial(changed, properties=MARKED_V3),
}

TABLES: Mapping[str, Callable[[str], tahoe.Table]] = {
    **{make.__name__: make for make in (*_BY_VERSION, not_convertible_meanwhile, version_1)},
    **{f"{make.__name__}_v3": partial(make, properties=UNIFORM_V3) for make in _BY_VERSION},
    **MARKED,
}


def iceberg(table: tahoe.Table) -> StaticTable:
    """The newest metadata of a table, read by PyIceberg."""
    finish_background()
    folder = f"{table.url.removeprefix('file://')}/metadata"
    with open(f"{folder}/version-hint.text") as hint:
        return StaticTable.from_metadata(f"{folder}/v{hint.read()}.metadata.json")


def same(found: pa.Table, wanted: pa.Table) -> bool:
    """Whether two tables have the same columns and rows, in any order."""

    def listed(table: pa.Table) -> list[str]:
        return sorted(repr([row[name] for name in wanted.column_names]) for row in table.to_pylist())

    return set(found.column_names) == set(wanted.column_names) and listed(found) == listed(wanted)


LINEAGE = ("_row_id", "_last_updated_sequence_number")


def with_lineage(snapshot: tahoe.Snapshot) -> pa.Table:
    """The rows of a version with what row tracking tells of each, under Iceberg's names."""
    found, schema = [], snapshot.to_arrow().schema
    for add in snapshot.live.adds():
        alive = BitMap64(range(num_records_of(add.stats))) - deleted_rows(snapshot.log, add)
        found += [rows for _, rows in PhysicalRows().at(snapshot, add, alive, with_row_ids=True)]
    names = [*schema.names, *LINEAGE]
    empty = schema.append(pa.field(LINEAGE[0], pa.int64())).append(pa.field(LINEAGE[1], pa.int64())).empty_table()
    return pa.concat_tables([rows.rename_columns(names) for rows in found]) if found else empty
