"""Data files that other writers made: read, measured and rewritten as Spark reads them, or refused."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import InvalidDataFileError, UnsupportedOperationError
from tahoe.protocol.log.actions import Add, Metadata
from tahoe.protocol.types.schema import BYTE, DOUBLE, Array, Field, Struct, encode_type
from tahoe.table.arrow.types import delta_schema
from tahoe.table.layout.clustering import OrderRequest
from tahoe.table.layout.optimize import OptimizeRequest, optimize
from tahoe.table.verify.check import check_table
from tests.table.builders import PROTOCOL, memory_env, put_commit


def made(
    schema: pa.Schema,
    *files: pa.Table,
    partitions: Sequence[Mapping[str, str | None]] = (),
    partition_by: Sequence[str] = (),
) -> tahoe.Table:
    """A table of these files, without statistics. Timestamps without a zone are stored as INT96, as Spark 2 did."""
    env, text = memory_env(), delta_schema(schema, table="t").to_json()
    metadata = Metadata(id="t", schema_string=text, partition_columns=tuple(partition_by))
    adds = []
    for number, rows in enumerate(files):
        out = io.BytesIO()
        int96 = any(pa.types.is_timestamp(field.type) and field.type.tz is None for field in rows.schema)
        pq.write_table(rows, out, use_deprecated_int96_timestamps=int96)
        env.store.put(f"{number}.parquet", out.getvalue())
        values = partitions[number] if partitions else {}
        adds.append(
            Add(path=f"{number}.parquet", size_bytes=out.tell(), modification_time_ms=number, partition_values=values)
        )
    put_commit(env, 0, [PROTOCOL, metadata, *adds])
    return tahoe.Table("memory://t", env=env)


# --- names in another case

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct({"a": pa.int64()})),
        ("l", pa.list_(pa.struct({"a": pa.int64()}))),
        ("m", pa.map_(pa.string(), pa.struct({"a": pa.int64()}))),
    ]
)
ROWS = [{"id": 1, "s": {"a": 2}, "l": [{"a": 3}], "m": [("k", {"a": 4})]}, {"id": 5, "s": {"a": 6}, "l": [], "m": None}]
IN_CAPITALS = pa.table(
    {
        "ID": pa.array([1, 5], pa.int64()),
        "S": pa.array([{"A": 2}, {"A": 6}]),
        "L": pa.array([[{"A": 3}], []]),
        "M": pa.array([[("k", {"A": 4})], None], pa.map_(pa.string(), pa.struct({"A": pa.int64()}))),
    }
)


def test_columns_match_in_any_case() -> None:
    table = made(NESTED, IN_CAPITALS)
    assert table.to_arrow().to_pylist() == ROWS
    assert table.to_arrow(filter="s.a = 6").to_pylist() == ROWS[1:]


def test_a_column_in_the_same_case_comes_first() -> None:
    table = made(pa.schema([("id", pa.int64())]), pa.table({"ID": [1], "id": [2]}))
    assert table.to_arrow().to_pylist() == [{"id": 2}]


def test_several_columns_that_differ_only_in_case_are_refused() -> None:
    table = made(pa.schema([("id", pa.int64())]), pa.table({"ID": [1], "Id": [2]}))
    with pytest.raises(InvalidDataFileError, match="several of its columns match id, because case is ignored: ID, Id"):
        table.to_arrow()
    with pytest.raises(InvalidDataFileError, match="several of its columns match id"):
        table.compute_statistics()


def test_several_fields_that_differ_only_in_case_are_refused() -> None:
    both = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["Aa", "aA"])
    table = made(pa.schema([("s", pa.struct({"aa": pa.int64()}))]), pa.table({"s": both}))
    with pytest.raises(InvalidDataFileError, match="several of its columns match aa, because case is ignored: Aa, aA"):
        table.to_arrow()


def test_statistics_are_those_of_a_column_in_another_case() -> None:
    table = made(NESTED, IN_CAPITALS)
    table.compute_statistics()
    assert table.to_arrow(filter="id = 5").to_pylist() == ROWS[1:]
    assert table.to_arrow(filter="s.a = 2").to_pylist() == ROWS[:1]
    assert '"nullCount":{"id":0,"s":{"a":0}}' in next(table.snapshot().live.adds()).stats
    assert not list(check_table(table.log))


def test_a_rewritten_file_has_the_rows_of_a_column_in_another_case() -> None:
    table = made(NESTED, IN_CAPITALS, IN_CAPITALS.slice(1))
    optimize(table, OptimizeRequest())
    assert table.files().num_rows == 1
    assert table.to_arrow().to_pylist() == [*ROWS, ROWS[1]]


# --- the Julian calendar

VERSION, LEGACY, LEGACY_INT96 = (f"org.apache.spark.{key}" for key in ("version", "legacyDateTime", "legacyINT96"))
DAY = pa.array([dt.date(1500, 1, 1)])
LAST_JULIAN, FIRST_GREGORIAN = pa.array([dt.date(1582, 10, 14)]), pa.array([dt.date(1582, 10, 15)])
LATE_TIME = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
EARLY_TIME = LATE_TIME - dt.timedelta(microseconds=1)


def times(moment: dt.datetime) -> pa.Array:
    return pa.array([moment], pa.timestamp("us", "UTC"))


def int96(moment: dt.datetime) -> pa.Array:
    return pa.array([moment.replace(tzinfo=None)], pa.timestamp("us"))


def with_footer(values: pa.Array, footer: Mapping[str, str]) -> tahoe.Table:
    declared = pa.timestamp("us", "UTC") if pa.types.is_timestamp(values.type) else values.type
    return made(pa.schema([("x", declared)]), pa.table({"x": values}).replace_schema_metadata(footer))


JULIAN = [
    (DAY, {VERSION: "2.4.8"}),
    (DAY, {VERSION: "3.5.0", LEGACY: ""}),
    (LAST_JULIAN, {VERSION: "2.4.8"}),
    (times(EARLY_TIME), {VERSION: "2.4.8"}),
    (times(EARLY_TIME), {VERSION: "3.5.0", LEGACY: ""}),
    (int96(EARLY_TIME), {VERSION: "3.0.2"}),
    (int96(EARLY_TIME), {VERSION: "3.5.0", LEGACY_INT96: ""}),
    (pa.StructArray.from_arrays([DAY], ["d"]), {VERSION: "2.4.8"}),
    (pa.array([[], [DAY[0].as_py()]], pa.list_(pa.date32())), {VERSION: "2.4.8"}),
    (pa.array([[("k", DAY[0].as_py())]], pa.map_(pa.string(), pa.date32())), {VERSION: "2.4.8"}),
    (pa.array([[(DAY[0].as_py(), "v")]], pa.map_(pa.date32(), pa.string())), {VERSION: "2.4.8"}),
    (
        pa.array([[{"l": [DAY[0].as_py()]}]], pa.list_(pa.struct({"l": pa.list_(pa.date32())}))),
        {VERSION: "3.5.0", LEGACY: ""},
    ),
]


@pytest.mark.parametrize(("values", "footer"), JULIAN)
def test_values_in_the_julian_calendar_are_refused(values: pa.Array, footer: Mapping[str, str]) -> None:
    table = with_footer(values, footer)
    with pytest.raises(
        UnsupportedOperationError, match=r"its column x\S* has dates before 1582-10-15, or timestamps before 1900-01-01"
    ):
        table.to_arrow()


GREGORIAN = [
    (DAY, {VERSION: "3.0.0"}),
    (DAY, {VERSION: "3.5.0", LEGACY_INT96: ""}),
    (DAY, {}),
    (FIRST_GREGORIAN, {VERSION: "2.4.8"}),
    (times(LATE_TIME), {VERSION: "2.4.8"}),
    (times(EARLY_TIME), {VERSION: "3.0.2"}),
    (times(EARLY_TIME), {VERSION: "3.5.0", LEGACY_INT96: ""}),
    (int96(EARLY_TIME), {VERSION: "3.1.0"}),
    (int96(LATE_TIME), {VERSION: "2.4.8"}),
    (pa.StructArray.from_arrays([FIRST_GREGORIAN], ["d"]), {VERSION: "2.4.8"}),
]


@pytest.mark.parametrize(("values", "footer"), GREGORIAN)
def test_values_in_the_gregorian_calendar_are_read(values: pa.Array, footer: Mapping[str, str]) -> None:
    found = with_footer(values, footer).to_arrow().column("x")
    assert found.to_pylist() == values.cast(found.type).to_pylist()


@pytest.mark.parametrize("values", [DAY, times(EARLY_TIME), pa.StructArray.from_arrays([DAY], ["d"])])
def test_julian_bounds_of_a_footer_are_no_statistics(values: pa.Array) -> None:
    table = with_footer(values, {VERSION: "2.4.8"})
    optimize(table, OptimizeRequest())  # it computes absent statistics from footers
    stats = next(table.snapshot().live.adds()).stats
    assert '"numRecords":1' in stats
    assert "15" not in stats
    assert "18" not in stats
    assert list(table.compute_statistics().unread) == ["0.parquet"]


# --- timestamps without a time zone, as partition values

ZONES = ["UTC", "America/New_York", "Asia/Tokyo"]
SPELLINGS = [
    "2020-01-01 00:00:00",
    "2020-01-01 00:00:00",
    "2020-01-01 00:00",
    "2020-01-01T05:00:00Z",
    "2020-01-01 05:00:00+00:00",
    "",
    None,
]


@pytest.mark.parametrize(
    "order",
    [OrderRequest(), OrderRequest(zorder_by=(("id",),), checks_statistics=False)],
    ids=["compacted", "z-ordered"],
)
def test_a_partition_value_without_a_time_zone_keeps_its_text(order: OrderRequest) -> None:
    """In New York all spellings are one moment, but not elsewhere."""
    files = [pa.table({"id": [number]}) for number in range(len(SPELLINGS))]
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = made(schema, *files, partitions=[{"at": text} for text in SPELLINGS], partition_by=["at"])
    readers = [tahoe.Table(table.url, env=table.env, time_zone=zone) for zone in ZONES]
    before = [sorted(reader.to_arrow().to_pylist(), key=lambda row: row["id"]) for reader in readers]
    assert before[0] != before[1]

    optimize(readers[1], OptimizeRequest(order=order))

    assert [sorted(reader.to_arrow().to_pylist(), key=lambda row: row["id"]) for reader in readers] == before
    found = sorted(str(add.partition_values["at"]) for add in readers[1].snapshot().live.adds())
    assert found == ["2020-01-01 00:00", "2020-01-01 00:00:00", "2020-01-01T05:00:00Z", "None"]


# --- user-defined types

VECTOR = {
    "type": "udt",
    "class": "org.apache.spark.ml.linalg.VectorUDT",
    "pyClass": "pyspark.ml.linalg.VectorUDT",
    "sqlType": Struct(
        (Field(name="type", type=BYTE, nullable=False), Field(name="values", type=Array(element=DOUBLE)))
    ),
}


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_user_defined_type_of_spark_is_read_as_its_sql_type(is_inside: bool) -> None:
    """The reference stores the type in the schema, and its values as those of the SQL type."""
    kind = {**VECTOR, "sqlType": encode_type(VECTOR["sqlType"])}
    declared = {"type": "array", "elementType": kind, "containsNull": True} if is_inside else kind
    columns = [{"name": "id", "type": "long"}, {"name": "v", "type": declared}]
    stored = pa.struct([("type", pa.int8()), ("values", pa.list_(pa.float64()))])
    value = {"type": 1, "values": [1.0, 2.0]}
    rows = pa.table(
        {"id": [1], "v": pa.array([[value] if is_inside else value], pa.list_(stored) if is_inside else stored)}
    )
    out = io.BytesIO()
    pq.write_table(rows, out)
    env = memory_env()
    env.store.put("0.parquet", out.getvalue())
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0,"v":0}}'
    metadata = Metadata(id="t", schema_string=json.dumps({"type": "struct", "fields": columns}))
    put_commit(
        env, 0, [PROTOCOL, metadata, Add(path="0.parquet", size_bytes=out.tell(), modification_time_ms=0, stats=stats)]
    )
    table = tahoe.Table("memory://t", env=env)
    assert table.to_arrow().to_pylist() == rows.to_pylist()
    assert table.scan("id = 2").kept_files == 0
    table.append(rows)
    assert table.to_arrow().to_pylist() == rows.to_pylist() * 2
    assert '"udt"' in table.snapshot().metadata.schema_string
