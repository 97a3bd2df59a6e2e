"""Statistics from footers are what the rows say, and silent where a footer cannot know."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.schema import Struct, parse_schema
from tahoe.storage import open_store
from tahoe.table.arrow.types import delta_schema
from tahoe.table.writing.footers import FileStatistics, read_statistics

NAN = float("nan")


def statistics(
    folder: Path, data: pa.Table, *, rows_per_group: int = 1000, properties: dict[str, str] | None = None, **more: Any
) -> Any:
    """The decoded statistics of a file that holds the data."""
    return json.loads(one(folder, data, rows_per_group=rows_per_group, properties=properties, **more).json)


def one(
    folder: Path,
    data: pa.Table,
    *,
    rows_per_group: int = 1000,
    properties: dict[str, str] | None = None,
    schema: Struct | None = None,
    mode: str = "none",
    partition_columns: tuple[str, ...] = (),
    **options: Any,
) -> FileStatistics:
    pq.write_table(data, folder / "f.parquet", row_group_size=rows_per_group, store_schema=False, **options)
    metadata = Metadata(
        id="m",
        schema_string=(schema or delta_schema(data.schema, table="t")).to_json(),
        partition_columns=partition_columns,
        configuration=properties or {},
    )
    return read_statistics(open_store(folder), ["f.parquet"], metadata, mode)["f.parquet"]


_TIMES = [1_000_001, 2_999_999]
_LIST = pa.array([[{"a": 7, "b": 8}]], pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())])))
_MAP = pa.array([[("k", 9)]], pa.map_(pa.string(), pa.int64()))
# Of each column the lowest value, the highest and the number of nulls.
BOUNDS = {
    # the bounds of the first row group alone would skip files that hold matching rows
    "those of all row groups": ({"a": [5, None, 3, 9, None, 1]}, {"a": (1, 9, 2)}),
    "a row group of nulls does not hide the others'": (
        {"a": pa.array([None, None, 3, 9], pa.int32())},
        {"a": (3, 9, 2)},
    ),
    "nulls have none": ({"a": pa.array([None, None], pa.string())}, {"a": (None, None, 2)}),
    "dates": ({"d": pa.array([0, 1], pa.date32())}, {"d": ("1970-01-01", "1970-01-02", 0)}),
    # micros since 1970; the protocol's text has milliseconds, cut down, which readers know
    "times": (
        {"t": pa.array(_TIMES, pa.timestamp("us", "UTC")), "n": pa.array(_TIMES, pa.timestamp("us"))},
        {
            "t": ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.999Z", 0),
            "n": ("1970-01-01T00:00:01.000", "1970-01-01T00:00:02.999", 0),
        },
    ),
    "text that is not UTF-8 has none": (
        {"s": pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())},
        {"s": (None, None, 0)},
    ),
    "booleans and binaries have none": (
        {"b": [True, None], "x": [b"a", b"b"]},
        {"b": (None, None, 1), "x": (None, None, 0)},
    ),
    "structs are nested, and a null struct counts for its fields": (
        {"s": [{"a": 1, "t": {"b": "x"}}, None, {"a": None, "t": None}]},
        {"s": {"a": (1, 1, 2), "t": {"b": ("x", "x", 2)}}},
    ),
    "nothing of what is inside arrays and maps": (
        {"before": [1], "list": _LIST, "map": _MAP, "after": [2]},
        {"before": (1, 1, 0), "after": (2, 2, 0)},
    ),
    "a name with a dot is not a path": (
        {"a.b": [7], "a": [{"b": 1}]},
        {"a.b": (7, 7, 0), "a": {"b": (1, 1, 0)}},
    ),
}


def nth(told: dict[str, Any], position: int) -> dict[str, Any]:
    """One of the three of each column that has it."""
    each = {name: nth(of, position) if isinstance(of, dict) else of[position] for name, of in told.items()}
    return {name: value for name, value in each.items() if value is not None}


@pytest.mark.parametrize("rows_per_group", [2, 1000])
@pytest.mark.parametrize(("columns", "told"), BOUNDS.values(), ids=BOUNDS)
def test_counts_and_bounds(tmp_path: Path, columns: Any, told: dict[str, Any], rows_per_group: int) -> None:
    data = pa.table(columns)
    found = statistics(tmp_path, data, rows_per_group=rows_per_group, use_dictionary=False)
    bounds = {name: nth(told, position) for position, name in enumerate(("minValues", "maxValues", "nullCount"))}
    assert found == {"numRecords": data.num_rows} | {name: of for name, of in bounds.items() if of}


# Of each column the lowest value, the highest and the number of nulls.
def test_no_rows(tmp_path: Path) -> None:
    found = one(tmp_path, pa.table({"a": pa.array([], pa.int64())}))
    assert found.num_records == 0
    assert json.loads(found.json)["numRecords"] == 0


def test_a_nan_is_never_a_bound(tmp_path: Path) -> None:
    # JSON has no NaN; what Spark's footers say of such a column is tested where Spark writes them
    for values in ([1.0, NAN], [NAN, 1.0], [NAN]):
        found = one(
            tmp_path, pa.table({"f": values, "g": pa.array([1.5] * len(values), pa.float32())}), rows_per_group=1
        )
        assert "nan" not in found.json.lower()
        assert json.loads(found.json)["minValues"]["g"] == 1.5


def test_decimals_in_each_of_their_physical_forms(tmp_path: Path) -> None:
    columns = {
        "int32": pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(5, 2)),
        "int64": pa.array([Decimal("-12345678901.5"), Decimal("0.0")], pa.decimal128(15, 1)),
        "bytes": pa.array([Decimal("-1e30"), Decimal("12345678901234567890.123")], pa.decimal128(38, 3)),
    }
    pq_file = one(tmp_path, pa.table(columns), store_decimal_as_integer=True)
    physical = [pq.read_metadata(tmp_path / "f.parquet").schema.column(i).physical_type for i in range(3)]
    assert physical == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    found = json.loads(pq_file.json, parse_float=Decimal)
    assert found["minValues"] == {
        "int32": Decimal("-1.50"),
        "int64": Decimal("-12345678901.5"),
        "bytes": Decimal("-1e30"),
    }
    assert found["maxValues"] == {
        "int32": Decimal("2.25"),
        "int64": Decimal("0.0"),
        "bytes": Decimal("12345678901234567890.123"),
    }


def test_dates_that_python_does_not_have(tmp_path: Path) -> None:
    # Spark writes years from -290307 to 294247; an exception here would fail the write after the work was done
    columns = {
        "d": pa.array([-800_000, 3_000_000], pa.date32()),
        "t": pa.array([-(10**17), 3 * 10**17], pa.timestamp("us", "UTC")),
    }
    found = statistics(tmp_path, pa.table(columns))
    assert found["minValues"]["d"].startswith("-0221-")
    assert found["maxValues"]["d"].startswith("+10183-")
    assert found["maxValues"]["t"].startswith("+11476-")


def test_long_text_is_cut_so_that_the_bounds_still_hold_it(tmp_path: Path) -> None:
    text = "x" * 100
    found = statistics(tmp_path, pa.table({"s": [text]}))
    low, high = found["minValues"]["s"], found["maxValues"]["s"]
    assert low <= text <= high
    assert (len(low), len(high)) == (32, 33)
    wider = statistics(tmp_path, pa.table({"s": [text]}), properties={"delta.dataSkippingStringPrefixLength": "50"})
    assert len(wider["minValues"]["s"]) == 50


def test_the_first_32_leaves_have_statistics_unless_the_table_says_otherwise(tmp_path: Path) -> None:
    data = pa.table({f"c{i}": [i] for i in range(40)})
    assert len(statistics(tmp_path, data)["nullCount"]) == 32
    assert len(statistics(tmp_path, data, properties={"delta.dataSkippingNumIndexedCols": "-1"})["nullCount"]) == 40
    assert statistics(tmp_path, data, properties={"delta.dataSkippingNumIndexedCols": "0"}) == {"numRecords": 1}
    assert statistics(tmp_path, data, properties={"delta.dataSkippingStatsColumns": "c39,c2"})["minValues"] == {
        "c2": 2,
        "c39": 39,
    }


def test_partition_columns_are_not_in_the_file_and_do_not_count(tmp_path: Path) -> None:
    schema = delta_schema(pa.schema([("p", pa.string()), ("a", pa.int64())]), table="t")
    properties = {"delta.dataSkippingNumIndexedCols": "1"}
    found = statistics(tmp_path, pa.table({"a": [1]}), schema=schema, partition_columns=("p",), properties=properties)
    assert found["minValues"] == {"a": 1}


def test_mapped_columns_go_by_their_physical_names(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    inner = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-2"}
    text = {
        "type": "struct",
        "fields": [
            {
                "name": "s",
                "nullable": True,
                "metadata": mapped,
                "type": {
                    "type": "struct",
                    "fields": [{"name": "a b", "type": "long", "nullable": True, "metadata": inner}],
                },
            }
        ],
    }
    schema = parse_schema(json.dumps(text))
    found = statistics(tmp_path, pa.table({"col-1": [{"col-2": 4}]}), schema=schema, mode="name")
    assert found["minValues"] == {"col-1": {"col-2": 4}}


def test_many_files_keep_their_own_statistics(tmp_path: Path) -> None:
    # they are read by several threads
    keys = [f"{i}.parquet" for i in range(50)]
    for i, key in enumerate(keys):
        pq.write_table(pa.table({"a": [i]}), tmp_path / key)
    metadata = Metadata(id="m", schema_string=delta_schema(pa.schema([("a", pa.int64())]), table="t").to_json())
    found = read_statistics(open_store(tmp_path), keys, metadata, "none")
    assert [json.loads(found[key].json)["minValues"]["a"] for key in keys] == list(range(50))
    assert read_statistics(open_store(tmp_path), [], metadata, "none") == {}
