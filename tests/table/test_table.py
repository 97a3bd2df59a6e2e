"""The user's Table, written and read without Spark."""

from __future__ import annotations

import datetime as dt
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import (
    CheckConstraintViolatedError,
    ColumnNotFoundError,
    DataFileMissingError,
    DuplicateColumnsError,
    InvalidColumnNameError,
    InvalidPredicateError,
    InvalidPropertyError,
    InvalidTimeTravelError,
    NotNullViolationError,
    PartitionMismatchError,
    PathIsFileError,
    PathIsNotEmptyError,
    SchemaMismatchError,
    TextTooLongError,
    UnsupportedDataTypeError,
    UnsupportedOperationError,
)
from tahoe.protocol.log.actions import Add, DomainMetadata, Protocol
from tahoe.protocol.types.predicate import Column, Comparison, Literal
from tahoe.protocol.types.schema import LONG, STRING, Array, Field, Map, Struct
from tahoe.storage import env_of
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import EVERY_TYPE, ROWS, UTC, memory_env, put_commit


@pytest.fixture
def table() -> tahoe.Table:
    return tahoe.Table("memory://given", env=memory_env())


def rows(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=repr)


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_every_type_is_read_as_it_was_written(table, mapping):
    table.append(EVERY_TYPE, properties={"delta.columnMapping.mode": mapping})
    assert repr(rows(table.to_arrow())) == repr(rows(EVERY_TYPE))
    assert table.snapshot().column_mapping_mode == mapping


def test_mapped_columns_have_physical_names_in_files_and_statistics(table):
    table.append(ROWS, partition_by=["p"], properties={"delta.columnMapping.mode": "name"})
    (field,) = [f for f in table.schema if f.name == "id"]
    physical = field.metadata["delta.columnMapping.physicalName"]
    assert physical.startswith("col-")
    assert all(physical in text for text in table.files(columns=["stats"]).column("stats").to_pylist())
    assert rows(table.to_arrow(filter="id >= 3")) == rows(ROWS.slice(2))


def test_files_are_listed_with_the_columns_that_are_asked_for(table):
    table.append(ROWS, partition_by=["p"])
    listed = table.files()
    assert "stats" not in listed.column_names  # large, and rarely wanted
    assert table.files(columns=["num_records", "path"]).equals(listed.select(["num_records", "path"]))
    assert table.files("p = 'a'", ["stats"]).equals(table.snapshot().scan("p = 'a'").listing(["stats"]))
    with pytest.raises(ColumnNotFoundError, match="base_row_id"):
        table.files(columns=["size"])


@pytest.mark.parametrize("column", ["s", "l", "i", "h", "b", "f", "d", "dec", "bool", "day", "ts", "ntz"])
def test_every_primitive_type_can_be_a_partition_column(table, column):
    table.append(EVERY_TYPE, partition_by=[column])
    assert repr(rows(table.to_arrow())) == repr(rows(EVERY_TYPE))
    assert table.snapshot().partition_columns == (column,)
    assert len(table.files()) == 3


def test_a_new_plain_table_has_the_lowest_protocol(table):
    table.append(ROWS)
    assert table.protocol == Protocol(reader_version=1, writer_version=2)


def test_versions_and_timestamps_travel_in_time(table):
    for _ in range(3):
        table.append(ROWS)
    assert [table.snapshot(v).to_arrow().num_rows for v in range(3)] == [4, 8, 12]
    stamps = [table.snapshot(v).timestamp_ms for v in range(3)]
    at_one = dt.datetime.fromtimestamp(stamps[1] / 1000, UTC)
    assert table.snapshot(timestamp=at_one).version == 1
    assert table.snapshot(timestamp=at_one.isoformat()).version == 1
    with pytest.raises(InvalidTimeTravelError, match="both a version and a timestamp"):
        table.snapshot(version=1, timestamp=at_one)


def test_columns_come_in_the_order_asked_for_and_are_found_whatever_their_case(table):
    table.append(ROWS)
    assert table.to_arrow(columns=["V", "id"]).column_names == ["v", "id"]
    with pytest.raises(ColumnNotFoundError, match=r"no column nosuch .* it has id, p, v"):
        table.to_arrow(columns=["nosuch"])


@pytest.mark.parametrize(
    ("filter", "ids"),
    [
        ("id > 2", [3, 4]),
        ("p = 'a'", [1, 3]),
        ("p IS NULL", [4]),
        ("p <> 'a'", [2]),
        ("v IS NULL OR id = 1", [1, 3]),
        ("NOT (v > 1)", [1]),
        ("id IN (1, 4) AND p = 'a'", [1]),
        ("p LIKE 'b%'", [2]),
        ("p <=> NULL", [4]),
        (Comparison("<", Column(("id",)), Literal(2)), [1]),
    ],
)
def test_filters_are_exact(table, filter, ids):
    table.append(ROWS, partition_by=["p"])
    found = table.to_arrow(columns=["id"], filter=filter)
    assert sorted(found.column("id").to_pylist()) == ids


def test_files_that_cannot_match_are_skipped(table):
    for start in range(0, 100, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    scan = table.scan("id = 42")
    assert (scan.kept_files, scan.total_files) == (1, 10)
    assert table.files("id = 42").column("num_records").to_pylist() == [10]
    assert table.scan("id = 1000").kept_files == 0


def test_a_filter_that_cannot_be_understood_is_refused(table):
    table.append(ROWS)
    with pytest.raises(InvalidPredicateError):
        table.to_arrow(filter="id +")
    with pytest.raises(ColumnNotFoundError):
        table.to_arrow(filter="nosuch = 1")


def test_new_columns_need_leave_and_then_come_last(table):
    table.append(ROWS)
    wider = ROWS.append_column("extra", pa.array([1, 2, 3, 4]))
    with pytest.raises(SchemaMismatchError, match=r"no column extra.*merge_schema=True"):
        table.append(wider)
    table.append(wider, merge_schema=True)
    assert table.schema.names == ("id", "p", "v", "extra")
    assert table.to_arrow().column("extra").null_count == 4


def test_narrower_numbers_are_taken_and_what_does_not_fit_is_refused(table):
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.append(pa.table({"ID": pa.array([2], pa.int16())}))
    with pytest.raises(SchemaMismatchError, match="column id is int64, but integer in the table"):
        table.append(pa.table({"id": [2**40]}))
    with pytest.raises(SchemaMismatchError, match="column id is integer, but string in the data"):
        table.append(pa.table({"id": ["x"]}))
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 2]


def test_not_null_is_enforced(table):
    schema = Struct((Field(name="id", type=LONG, nullable=False),))
    create_table(table, WriteRequest(mode="error", schema=schema, keep_nullability=True))
    with pytest.raises(NotNullViolationError, match="Column id"):
        table.append(pa.table({"id": pa.array([None], pa.int64())}))
    assert table.version == 0


STRUCTS = Struct(
    (
        Field(name="s", type=Struct((Field(name="Ab", type=LONG), Field(name="c", type=STRING)))),
        Field(name="l", type=Array(element=Struct((Field(name="Ab", type=LONG),)))),
        Field(name="m", type=Map(key=STRING, value=Struct((Field(name="Ab", type=LONG),)))),
    )
)


def test_nested_names_are_found_whatever_their_case_and_what_is_missing_is_null(table):
    # found by exact name only, the values would be lost without a word
    create_table(table, WriteRequest(mode="append", schema=STRUCTS))
    given = pa.table(
        {
            "S": [{"aB": 1}, None],
            "L": [[{"AB": 2}], None],
            "M": pa.array([[("k", {"ab": 3})], None], pa.map_(pa.string(), pa.struct([("ab", pa.int32())]))),
        }
    )
    table.append(given)
    assert table.to_arrow().to_pylist() == [
        {"s": {"Ab": 1, "c": None}, "l": [{"Ab": 2}], "m": [("k", {"Ab": 3})]},
        {"s": None, "l": None, "m": None},
    ]


def nested(kind, values):
    return pa.table({"c": pa.array(values, kind)})


INNER = pa.struct([("x", pa.int64())])


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        (
            Struct((Field(name="x", type=LONG, nullable=False),)),
            nested(INNER, [None, {"x": 1}]),
            nested(INNER, [{"x": None}]),
        ),
        (
            Array(element=LONG, contains_null=False),
            nested(pa.list_(pa.int64()), [None, [1], []]),
            nested(pa.list_(pa.int64()), [[None]]),
        ),
        (
            Map(key=STRING, value=LONG, value_contains_null=False),
            nested(pa.map_(pa.string(), pa.int64()), [None, [("k", 1)]]),
            nested(pa.map_(pa.string(), pa.int64()), [[("k", None)]]),
        ),
    ],
)
def test_not_null_is_enforced_inside_columns(table, column, good, bad):
    create_table(
        table,
        WriteRequest(
            mode="append",
            schema=Struct((Field(name="c", type=column), Field(name="d", type=LONG))),
            keep_nullability=True,
        ),
    )
    table.append(good)
    with pytest.raises(NotNullViolationError, match=r"c\."):
        table.append(bad)
    # what a slice leaves outside is nobody's value
    table.append(pa.concat_tables([good, bad]).combine_chunks().slice(0, good.num_rows))


def test_text_of_a_limited_length(table):
    """Spark pads char(n), cuts blanks off, and refuses the rest."""
    fields = [
        Field(name=n, type=STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": f"{k}(3)"})
        for n, k in (("c", "char"), ("v", "varchar"))
    ]
    create_table(table, WriteRequest(mode="append", schema=Struct(tuple(fields))))
    table.append(pa.table({"c": ["a", None], "v": ["b   ", None]}))
    assert table.to_arrow().to_pylist() == [{"c": "a  ", "v": "b  "}, {"c": None, "v": None}]
    with pytest.raises(TextTooLongError, match=r"varchar\(3\)"):
        table.append(pa.table({"c": ["a"], "v": ["long"]}))


CHAR_CONDITIONS = {
    "c = 'a'": 2,
    "'a  ' = c": 2,
    "c = 'a    '": 2,
    "c <=> 'a'": 2,
    "c IN ('a', 'zzzz')": 2,
    "c NOT IN ('a')": 1,
    "c <> 'a'": 1,
    "c BETWEEN 'a' AND 'b'": 2,
    "c > 'a'": 1,
    "c = 'abcd'": 0,
    "c LIKE 'a'": 1,
    "c LIKE 'a  '": 1,
    "v = 'a '": 0,
    "v = 'a'": 2,
}


@pytest.mark.parametrize("condition", CHAR_CONDITIONS)
def test_a_char_is_compared_with_a_padded_text(table, condition):
    """As in Spark, c = 'a' finds the stored 'a  '; and the 'a' of a writer that does not pad. VARCHAR and LIKE count
    every blank.
    """
    fields = [
        Field(name=n, type=STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": f"{k}(3)"})
        for n, k in (("c", "char"), ("v", "varchar"))
    ]
    create_table(table, WriteRequest(mode="append", schema=Struct(tuple(fields))))
    table.append(pa.table({"c": ["a", None, "b"], "v": ["a", None, "b"]}))
    foreign = io.BytesIO()
    pq.write_table(pa.table({"c": ["a"], "v": ["a"]}), foreign)
    table.env.store.put("foreign.parquet", foreign.getvalue())
    put_commit(
        table.env, 2, [Add(path="foreign.parquet", size_bytes=foreign.tell(), modification_time_ms=1, data_change=True)]
    )
    assert table.count(condition) == CHAR_CONDITIONS[condition]


def test_a_nan_is_not_hidden_by_bounds(table):
    """A NaN is the largest value of all, and Parquet's footers leave it out."""
    values = [1.0, float("nan"), 2.0]
    table.append(
        pa.table({"d": values, "f": pa.array(values, pa.float32()), "s": [{"x": v} for v in values], "i": [1, 2, 3]})
    )
    assert table.to_arrow(filter="d > 5").num_rows == 1
    assert table.to_arrow(filter="f > 5").num_rows == 1
    assert table.to_arrow(filter="s.x > 5").num_rows == 1
    assert table.files("i > 5").num_rows == 0
    (added,) = [a for a in table.log.read_version(0) if isinstance(a, Add)]
    assert set(json.loads(added.stats)["maxValues"]) == {"i"}  # other readers believe what they find


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pa.table({"a b": [1]}), InvalidColumnNameError),
        (pa.table([[1], [2]], names=["a", "A"]), DuplicateColumnsError),
        (pa.table({"t": pa.array([1], pa.time64("us"))}), UnsupportedDataTypeError),
        (pa.table({"i": pa.array([1], pa.duration("s"))}), UnsupportedDataTypeError),
        (pa.table({"n": pa.nulls(1)}), UnsupportedDataTypeError),
    ],
)
def test_what_a_table_cannot_hold_is_refused_before_anything_is_written(table, data, error):
    with pytest.raises(error):
        table.append(data)
    assert not table.exists()
    assert list(table.env.store.walk()) == []


def test_odd_column_names_are_fine_with_column_mapping(table):
    odd = pa.table({"a b": [1], "c=d": [2], "e,f": ["x y"]})
    table.append(odd, partition_by=["e,f"], properties={"delta.columnMapping.mode": "name"})
    assert table.to_arrow().to_pylist() == odd.to_pylist()


@pytest.mark.parametrize(
    "value", ["a/b", "x=y", "50%", "a b", "ü", "..", "#?", "a:b", 'q"', "{}", "\\", "\x01", "é" * 20]
)
def test_any_text_can_be_a_partition_value(table, value):
    data = pa.table({"p": [value], "v": [1]})
    table.append(data, partition_by=["p"])
    assert table.to_arrow().to_pylist() == data.to_pylist()
    assert table.scan(Comparison("=", Column(("p",)), Literal(value))).kept_files == 1


def test_partitioning_that_does_not_fit_is_refused(table):
    with pytest.raises(ColumnNotFoundError):
        table.append(ROWS, partition_by=["nosuch"])
    table.append(ROWS, partition_by=["p"])
    with pytest.raises(PartitionMismatchError, match="partitioned by p, but the write specifies id"):
        table.append(ROWS, partition_by=["id"])
    table.append(ROWS, partition_by=["P"])


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"delta.nosuch": "1"}, InvalidPropertyError),
        ({"delta.columnMapping.mode": "sideways"}, InvalidPropertyError),
        ({"delta.universalFormat.enabledFormats": "hudi"}, InvalidPropertyError),
        ({"delta.constraints.c": "id > 5"}, CheckConstraintViolatedError),
    ],
)
def test_properties_that_cannot_be_kept_are_refused_by_name(table, properties, error):
    with pytest.raises(error):
        table.append(ROWS, properties=properties)
    assert not table.exists()


def test_a_folder_with_other_files_is_not_taken_over(table):
    table.env.store.put("old.csv", b"x")
    with pytest.raises(PathIsNotEmptyError):
        table.append(ROWS)
    table.env.store.delete("old.csv")
    table.env.store.put("_SUCCESS", b"")
    assert table.append(ROWS) == 0


def test_a_write_that_can_be_tried_again_goes_on_beside_the_files_of_a_writer_that_was_killed(table):
    table.env.store.put("part-00000.parquet", b"x")
    assert table.append(ROWS, txn=("stream", 0)) == 0
    assert table.to_arrow() == ROWS


@pytest.mark.parametrize("storage", ["disk", "memory"])
def test_a_file_is_no_table_and_not_made_one(table, tmp_path, storage):
    if storage == "disk":
        (tmp_path / "rows.parquet").write_bytes(b"x")
        file = tahoe.Table(tmp_path / "rows.parquet")
    else:
        table.env.store.put("rows.parquet", b"x")
        file = tahoe.Table("", env=env_of(f"{table.url}/rows.parquet", table.env.store_at))
    with pytest.raises(PathIsFileError):
        file.snapshot()
    with pytest.raises(PathIsFileError):
        file.append(ROWS)
    with pytest.raises(PathIsFileError):
        file.append(ROWS, txn=("stream", 0))


def test_a_write_that_was_recorded_is_not_done_twice(table):
    assert table.append(ROWS, txn=("app", 1)) == 0
    assert table.append(ROWS, txn=("app", 1)) is None
    assert table.append(ROWS, txn=("app", 2)) == 1
    assert table.snapshot().txn_version("app") == 2


def test_history_says_who_did_what(table):
    table.append(ROWS, user_metadata="first")
    table.append(ROWS)
    newest, oldest = table.history()
    assert (newest["version"], oldest["version"]) == (1, 0)
    assert oldest["userMetadata"] == "first"
    assert newest["operation"] == "WRITE"
    assert newest["operationMetrics"]["numOutputRows"] == "4"
    assert len(table.history(limit=1)) == 1


def test_a_missing_data_file_is_named(table):
    table.append(ROWS)
    (path,) = table.files().column("path").to_pylist()
    table.env.store.delete(path)
    with pytest.raises(DataFileMissingError, match=f"{path} belongs to version 0"):
        table.to_arrow()


def test_nothing_but_counts_can_be_asked_for(table):
    table.append(ROWS)
    assert table.to_arrow(columns=[]).num_rows == 4


def test_clustering_columns_always_have_statistics(table):
    """Protocol: "Writer Requirements for Clustered Table"."""
    properties = {"delta.dataSkippingNumIndexedCols": "1", "delta.columnMapping.mode": "name"}
    table.append(ROWS, properties=properties)
    (field,) = [f for f in table.schema if f.name == "v"]
    physical = field.metadata["delta.columnMapping.physicalName"]
    features = frozenset({"columnMapping", "domainMetadata", "clustering"})
    clustering = DomainMetadata(
        domain="delta.clustering", configuration=json.dumps({"clusteringColumns": [[physical]]})
    )
    put_commit(table.env, 1, [Protocol(reader_version=2, writer_version=7, writer_features=features), clustering])
    assert table.snapshot().clustering_columns == (("v",),)
    table.append(ROWS)
    newest = next(a for a in table.log.read_version(2) if isinstance(a, Add))
    assert physical in json.loads(newest.stats)["minValues"]
    assert len(json.loads(newest.stats)["minValues"]) == 2


def test_days_of_the_julian_calendar_are_refused_not_shifted(tmp_path):
    """Spark 2 counted early days otherwise, and says so in the footer."""
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"day": pa.array([dt.date(1500, 1, 1)])}))
    assert table.to_arrow().to_pylist() == [{"day": dt.date(1500, 1, 1)}]
    (file,) = tmp_path.glob("*.parquet")
    pq.write_table(pq.read_table(file).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), file)
    with pytest.raises(UnsupportedOperationError, match="column day has dates before 1582-10-15"):
        table.to_arrow()
