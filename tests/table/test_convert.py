"""CONVERT TO DELTA without Spark: which files and columns the table has, and what is refused before anything is
changed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import (
    ConversionColumnMappingError,
    ConversionWithoutStatisticsError,
    DeltaConcurrentModificationException,
    DeltaError,
    DuplicateColumnsError,
    EmptyFolderError,
    FilesChangedError,
    FileSchemaMismatchError,
    InvalidColumnNameError,
    InvalidDataFileError,
    PartitionCastFailedError,
    UnexpectedPartitionCountError,
    UnreadableFooterError,
    UnsupportedDataTypeError,
    UnsupportedOperationError,
)
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, TIMESTAMP, Field, Struct
from tahoe.storage.env import Env
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation
from tahoe.table.adoption.convert import ConvertRequest, convert
from tahoe.table.adoption.convert_footers import examined_in_threads
from tahoe.table.adoption.convert_sources import CatalogPartition
from tahoe.table.verify.check import check_table
from tests.table.between import Interleavings
from tests.table.builders import memory_env

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "c"]})
DAY = pa.schema([("day", pa.date32())])


def folder(files: Mapping[str, pa.Table | bytes], env: Env | None = None) -> tahoe.Table:
    env = env or memory_env()
    for key, content in files.items():
        env.store.put(key, content if isinstance(content, bytes) else parquet(content))
    return tahoe.Table(env.store.url, env=env)


def parquet(rows: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out, **options)
    return out.getvalue()


def partitions(*columns: str) -> Struct:
    return Struct(tuple(Field(name=name, type=STRING) for name in columns))


def keys(table: tahoe.Table) -> set[str]:
    return {add.path for add in table.snapshot().live.adds()}


def test_a_folder_becomes_a_table_of_its_rows_in_one_commit() -> None:
    table = folder({"part-0.parquet": ROWS, "deep/er/part-1": ROWS, "_SUCCESS": b"", ".part-0.parquet.crc": b"x"})
    before = dict.fromkeys(info.key for info in table.env.store.walk())
    report = table.convert(user_metadata="mine")
    assert (report.version, report.files) == (0, 2)
    assert report.size_bytes == 2 * len(parquet(ROWS))
    assert table.to_arrow().sort_by("id").equals(pa.concat_tables([ROWS, ROWS]).sort_by("id"))
    assert {info.key for info in table.env.store.walk() if not info.key.startswith("_delta_log/")} == set(before)
    assert list(check_table(table.log)) == []
    (entry,) = table.history()
    assert entry["operation"] == "CONVERT"
    assert entry["operationParameters"] == {
        "numFiles": "2",
        "partitionedBy": "[]",
        "collectStats": "true",
        "sourceFormat": "parquet",
    }
    assert (entry["operationMetrics"], entry["isBlindAppend"], entry["userMetadata"]) == (
        {"numConvertedFiles": "2"},
        False,
        "mine",
    )


def test_a_delta_table_stays_as_it_is() -> None:
    table = folder({"f": ROWS})
    table.convert()
    assert table.convert().version is None
    assert table.version == 0


def test_readers_find_a_checkpoint() -> None:
    table = folder({"f": ROWS})
    table.convert()
    assert any(info.key.endswith(".checkpoint.parquet") for info in table.env.store.walk("_delta_log"))


def test_partition_columns_come_from_the_folders() -> None:
    names = ["day=2026-01-01/f.parquet", "day=2026-1-2/sub/f.parquet", "day=__HIVE_DEFAULT_PARTITION__/f.parquet"]
    table = folder(dict.fromkeys(names, ROWS))
    table.convert(DAY)
    assert table.snapshot().partition_columns == ("day",)
    found = {add.path: add.partition_values["day"] for add in table.snapshot().live.adds()}
    assert found == dict(zip(names, ["2026-01-01", "2026-01-02", None], strict=True))
    assert table.to_arrow(filter="day = '2026-01-02'").num_rows == 3
    assert table.to_arrow(filter="day IS NULL").num_rows == 3


def test_names_are_escaped_in_the_log_and_found_again() -> None:
    key = "p=a%2Fb%25/x y%20z+ü.parquet"
    table = folder({key: ROWS})
    table.convert(pa.schema([("p", pa.string())]))
    assert table.to_arrow()["p"].to_pylist() == ["a/b%"] * 3
    assert list(check_table(table.log)) == []


def test_a_partition_column_wins_over_a_data_column() -> None:
    table = folder({"id=x/f": ROWS})
    table.convert(pa.schema([("id", pa.string())]))
    assert table.schema.names == ("id", "name")
    assert table.to_arrow()["id"].to_pylist() == ["x"] * 3


def test_schemas_are_merged_and_null_where_a_file_lacks_a_column() -> None:
    small = pa.table(
        {"ID": pa.array([7], pa.int64()), "n": pa.array([7], pa.int16())},
        schema=pa.schema([pa.field("ID", pa.int64(), False), ("n", pa.int16())]),
    )
    wide = pa.table({"id": pa.array([8], pa.int64()), "n": pa.array([70000], pa.int32()), "more": [1.5]})
    table = folder({"a": small, "b": wide})
    table.convert()
    assert [(f.name, f.type, f.nullable) for f in table.schema][:2] == [("ID", LONG, True), ("n", INTEGER, True)]
    assert table.to_arrow().sort_by("ID").to_pylist() == [
        {"ID": 7, "n": 7, "more": None},
        {"ID": 8, "n": 70000, "more": 1.5},
    ]
    assert table.to_arrow(filter="n = 7")["ID"].to_pylist() == [7]
    of_a, of_b = (json.loads(add.stats or "") for add in sorted(table.snapshot().live.adds(), key=lambda add: add.path))
    assert (of_a["minValues"], of_a["nullCount"]) == ({"ID": 7, "n": 7}, {"ID": 0, "n": 0, "more": 1})
    assert of_b["minValues"] == {"n": 70000}  # its id has another spelling, and its writer leaves NaN out of bounds


def test_statistics_are_left_out_if_that_is_asked_for_and_can_be_added() -> None:
    table = folder({"f": ROWS})
    table.convert(statistics=False)
    assert [add.stats for add in table.snapshot().live.adds()] == [None]
    assert table.history()[0]["operationParameters"]["collectStats"] == "false"
    assert table.compute_statistics().files_updated == 1


def test_a_null_column_has_a_type_from_another_file() -> None:
    table = folder({"a": pa.table({"x": pa.nulls(2)}), "b": pa.table({"x": ["t"]})})
    table.convert()
    assert table.schema.find("x") == Field(name="x", type=STRING)
    assert table.to_arrow(filter="x IS NULL").num_rows == 2


def test_the_schema_that_spark_keeps_in_a_footer_counts() -> None:
    spark = {
        "type": "struct",
        "fields": [{"name": "id", "type": "timestamp", "nullable": False, "metadata": {"comment": "c", "other": 1}}],
    }
    rows = pa.table({"id": pa.array([0], pa.timestamp("us", "UTC"))}).replace_schema_metadata(
        {"org.apache.spark.sql.parquet.row.metadata": json.dumps(spark)}
    )
    table = folder({"f": rows})
    table.convert()
    assert table.schema.fields == (Field(name="id", type=TIMESTAMP, metadata={"comment": "c"}),)


def test_timestamps_of_12_bytes_are_timestamps_with_a_zone() -> None:
    rows = pa.table({"s": pa.array([{"t": 0}], pa.struct({"t": pa.timestamp("us")}))})
    table = folder({"f": parquet(rows, use_deprecated_int96_timestamps=True, store_schema=False)})
    table.convert()
    assert table.schema.find("s") == Field(name="s", type=Struct((Field(name="t", type=TIMESTAMP),)))


# --- what a stream and a catalog say


def sink_entry(env: Env, key: str, action: str = "add") -> str:
    return json.dumps({"path": f"{env.store.url}/{key.replace(' ', '%20')}", "size": 1, "action": action})


def test_only_files_in_the_log_of_a_stream_belong_to_its_result() -> None:
    env = memory_env()
    log = {
        "_spark_metadata/0": "v1\n" + sink_entry(env, "gone"),
        "_spark_metadata/1.compact": "v1\n" + sink_entry(env, "a b") + "\n" + sink_entry(env, "old"),
        "_spark_metadata/2": "v1\n" + sink_entry(env, "c") + "\n" + sink_entry(env, "old", "delete"),
    }
    table = folder(
        {**dict.fromkeys(["a b", "c", "old", "failed"], ROWS), **{key: text.encode() for key, text in log.items()}}, env
    )
    table.convert()
    assert keys(table) == {"a%20b", "c"}


def test_a_hole_in_the_log_of_a_stream_is_an_error() -> None:
    env = memory_env()
    log = {f"_spark_metadata/{number}": ("v1\n" + sink_entry(env, "a")).encode() for number in (0, 2)}
    with pytest.raises(InvalidDataFileError, match="_spark_metadata/1"):
        folder({"a": ROWS, **log}, env).convert()
    env = memory_env()
    with pytest.raises(InvalidDataFileError, match="not in the folder"):
        folder({"_spark_metadata/0": ("v1\n" + sink_entry(env, "a")).encode()}, env).convert()


def test_a_catalog_says_which_folders_are_partitions() -> None:
    table = folder({"day=1/f": ROWS, "day=2/f": ROWS, "odd/f": ROWS, "odd/deep/f": ROWS})
    known = [
        CatalogPartition(url=f"{table.url}/{name}", partition=(("day", day),))
        for name, day in (("day=1", "1"), ("odd", "9"))
    ]
    schema = Struct((Field(name="id", type=LONG, nullable=False), Field(name="day", type=INTEGER)))
    convert(
        table,
        ConvertRequest(schema=schema, partition_schema=Struct(schema.fields[1:]), partitions=known, catalog_table="t"),
    )
    assert {add.path: dict(add.partition_values) for add in table.snapshot().live.adds()} == {
        "day=1/f": {"day": "1"},
        "odd/f": {"day": "9"},
    }
    assert table.schema.fields[0].nullable
    assert table.history()[0]["operationParameters"]["catalogTable"] == "t"
    assert set(table.to_arrow(filter="day = 9")["id"].to_pylist()) == {1, 2, 3}


def test_a_catalogs_schema_without_statistics_needs_no_footer() -> None:
    table = folder({"f": b"not a Parquet file"})
    convert(table, ConvertRequest(schema=Struct((Field(name="id", type=LONG),)), statistics=False))
    assert keys(table) == {"f"}


def test_a_partition_elsewhere_is_refused() -> None:
    table = folder({"f": ROWS})
    with pytest.raises(UnsupportedOperationError, match="in another folder"):
        convert(table, ConvertRequest(partitions=[CatalogPartition(url="memory://elsewhere", partition=())]))


# --- what is refused

NANOSECONDS = pa.table({"t": pa.array([0], pa.timestamp("ns"))})


@pytest.mark.parametrize(
    ("files", "columns", "error", "text"),
    [
        ({}, (), EmptyFolderError, "no data file"),
        ({"_SUCCESS": b"", "_x/f": ROWS}, (), EmptyFolderError, "no data file"),
        ({"a": ROWS, "b.txt": b"hello world"}, (), UnreadableFooterError, "b.txt"),
        ({"a": ROWS, "b": b""}, (), UnreadableFooterError, " b "),
        ({"a": ROWS, "b": pa.table({"id": ["x"]})}, (), FileSchemaMismatchError, "id is string, but it is long"),
        ({"a": NANOSECONDS}, (), UnsupportedDataTypeError, "/a: timestamp in nanoseconds"),
        ({"a": pa.table({"x": pa.array([1], pa.duration("us"))})}, (), UnsupportedDataTypeError, "/a: duration"),
        ({"a": pa.table({"x y": [1]})}, (), InvalidColumnNameError, "x y"),
        ({"a": pa.table({"x": [1], "X": [2]})}, (), DuplicateColumnsError, "X"),
        ({"p=1/a": ROWS}, (), UnexpectedPartitionCountError, "PARTITIONED BY"),
        ({"p=1/a": ROWS, "b": ROWS}, ("p",), UnexpectedPartitionCountError, "folders of b"),
        (
            {"a": ROWS, "t/_delta_log/00000000000000000000.json": b"{}"},
            (),
            UnsupportedOperationError,
            "t is a table of the format Delta",
        ),
        ({"a": ROWS, ".hoodie/hoodie.properties": b""}, (), UnsupportedOperationError, "Hudi"),
        (
            {"data/a": ROWS, "metadata/v1.metadata.json": b"{}"},
            (),
            UnsupportedOperationError,
            "--source-format iceberg",
        ),
        (
            {"a": ROWS, "t/metadata/0-x.metadata.json": b"{}"},
            (),
            UnsupportedOperationError,
            "t is a table of the format",
        ),
    ],
)
def test_what_cannot_be_a_table_is_refused_before_anything_is_changed(
    files: dict[str, Any], columns: tuple[str, ...], error: type[DeltaError], text: str
) -> None:
    table = folder(files)
    with pytest.raises(error) as caught:
        table.convert(partitions(*columns))
    assert text in str(caught.value)
    assert not table.exists()
    assert {info.key for info in table.env.store.walk()} == set(files)


def test_values_that_do_not_fit_name_the_file() -> None:
    with pytest.raises(PartitionCastFailedError, match="day=tomorrow/f"):
        folder({"day=tomorrow/f": ROWS}).convert(DAY)


@pytest.mark.parametrize("inside", ["name=a", "folder", "a/b", "name=a/_b"])
def test_a_folder_inside_a_delta_table_is_refused(inside: str) -> None:
    """Two tables would own its files, and a VACUUM of one would delete those of the other."""
    env = memory_env()
    base = tahoe.Table(env.store.url, env=env)
    base.append(ROWS, partition_by=["name"])
    is_hidden = inside == "name=a/_b"  # never a part of the table
    places = {env.store.url: env.store}
    part = replace(
        env, store=env.store_at(f"{env.store.url}/{inside}"), store_at=lambda url: places.get(url) or env.store_at(url)
    )
    part.store.put("f", parquet(ROWS))
    if is_hidden:
        assert tahoe.Table(part.store.url, env=part).convert().version == 0
    else:
        with pytest.raises(UnsupportedOperationError, match="it is inside the Delta table"):
            tahoe.Table(part.store.url, env=part).convert()


def test_files_that_are_no_parquet_may_be_left_out_if_that_is_asked_for() -> None:
    table = folder({"a": ROWS, "b": b"hello world"})
    report = convert(table, ConvertRequest(skips_unreadable=True))
    assert (keys(table), set(report.skipped)) == ({"a"}, {"b"})
    with pytest.raises(EmptyFolderError):
        convert(folder({"b": b"hello world"}), ConvertRequest(skips_unreadable=True))


def test_features_that_files_cannot_have_are_refused() -> None:
    with pytest.raises(ConversionColumnMappingError):
        convert(folder({"a": ROWS}), ConvertRequest(default_properties={"delta.columnMapping.mode": "name"}))
    with pytest.raises(ConversionWithoutStatisticsError):
        convert(
            folder({"a": ROWS}),
            ConvertRequest(default_properties={"delta.enableRowTracking": "true"}, statistics=False),
        )


def test_rows_have_ids_where_the_table_wants_them() -> None:
    table = folder({"a": ROWS, "b": ROWS})
    convert(table, ConvertRequest(default_properties={"delta.enableRowTracking": "true"}))
    assert sorted(add.base_row_id or 0 for add in table.snapshot().live.adds()) == [0, 3]


# --- other programs


def test_files_that_are_added_meanwhile_belong_to_the_table() -> None:
    table, late = folder({"a": ROWS}), iter(["b", "c"])

    def examiner(question: Any, wanted: Any) -> Any:
        for key in list(late):
            table.env.store.put(key, parquet(ROWS))
        return examined_in_threads(question, wanted)

    convert(table, ConvertRequest(), examiner=examiner)
    assert keys(table) == {"a", "b", "c"}


def test_a_program_that_never_stops_writing_is_an_error() -> None:
    table, numbers = folder({"a": ROWS}), iter(range(1000))

    def examiner(question: Any, wanted: Any) -> Any:
        table.env.store.put(f"f{next(numbers)}", parquet(ROWS))
        return examined_in_threads(question, wanted)

    with pytest.raises(FilesChangedError, match="another program"):
        convert(table, ConvertRequest(), examiner=examiner)
    assert not table.exists()


@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_a_file_that_changes_while_it_is_examined_is_no_broken_file(change: str) -> None:
    table, broken = folder({"a": ROWS, "b": b"half of a file"}), [parquet(ROWS) if change == "replaced" else b""]

    def examiner(question: Any, wanted: Any) -> Any:
        found = list(examined_in_threads(question, wanted))
        while broken:
            data = broken.pop()
            table.env.store.put("b", data) if data else table.env.store.delete("b")
        return found

    convert(table, ConvertRequest(), examiner=examiner)
    assert keys(table) == ({"a", "b"} if change == "replaced" else {"a"})


def test_of_two_conversions_at_once_one_wins() -> None:
    table = folder({"a": ROWS})
    other = tahoe.Table(table.url, env=table.env)

    def examiner(question: Any, wanted: Any) -> Any:
        if not other.exists():
            other.convert()
        return examined_in_threads(question, wanted)

    assert convert(table, ConvertRequest(), examiner=examiner).version is None
    assert (table.version, keys(table)) == (0, {"a"})


@pytest.mark.parametrize("inside", [[], ["a"]], ids=["empty folder", "files"])
def test_a_conversion_at_any_moment_of_a_write_that_makes_the_table_loses_no_file(inside: list[str]) -> None:
    """The conversion may take the files of the write before it is committed. The loser must not delete them."""

    def run(table: tahoe.Table, env: Env) -> None:
        with suppress(DeltaConcurrentModificationException):
            tahoe.Table(table.url, env=env).overwrite(ROWS)

    def act(table: tahoe.Table) -> None:
        with suppress(EmptyFolderError):
            tahoe.Table(table.url, env=table.env).convert()

    for table in Interleavings(lambda: folder(dict.fromkeys(inside, ROWS)), lambda table: table.env).of(run, act):
        assert tahoe.Table(table.url, env=table.env).to_arrow().num_rows in (len(ROWS), len(ROWS) * 2)


@pytest.mark.parametrize("effect", [Effect.RAISE_BEFORE, Effect.RAISE_AFTER])
@pytest.mark.parametrize("operation", list(Operation), ids=lambda operation: operation.name)
def test_a_failing_storage_leaves_no_table_or_the_whole_one(operation: Operation, effect: Effect) -> None:
    for nth in range(1, 5):
        plan = FaultPlan()
        env = memory_env(faults=plan)
        table = folder({"p=1/a": ROWS, "p=2/b": ROWS}, env)
        plan.add(Fault(effect=effect, operation=operation, nth=nth, times=100))
        with suppress(DeltaError, OSError):
            table.convert(partitions("p"))
        survivor = tahoe.Table(env.store.url, env=replace(env, store=MemoryStore(env.store.url)))
        survivor.convert(partitions("p"))
        assert (survivor.version, keys(survivor)) == (0, {"p=1/a", "p=2/b"})
        assert survivor.to_arrow().num_rows == 6
