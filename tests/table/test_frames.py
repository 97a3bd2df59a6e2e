"""Frames of other libraries are taken as they come, in every operation; one that cannot be taken is told by its
column.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import arro3.core
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import tahoe
from tahoe.errors import DuplicateColumnsError, InvalidArgumentError, UnsupportedDataTypeError
from tahoe.table.arrow import row_stream
from tests.table.builders import memory_env

NESTED: list[dict[str, Any]] = [
    {
        "id": 1,
        "texts": ["a", None],
        "bytes": [b"x"],
        "pairs": [{"t": "u", "n": 1}],
        "s": {"t": "v", "l": ["w"]},
        "c": "red",
    },
    {"id": 2, "texts": [], "bytes": None, "pairs": [None], "s": None, "c": None},
    {"id": 3, "texts": None, "bytes": [None], "pairs": [], "s": {"t": None, "l": None}, "c": "blue"},
]
FLAT: list[dict[str, Any]] = [
    {"id": 1, "n": 7, "t": "a", "b": True, "x": 1.5, "at": dt.datetime(2026, 1, 1), "c": "red"},
    {"id": 2, "n": None, "t": None, "b": None, "x": None, "at": None, "c": "blue"},
]


def polars(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows).with_columns(pl.col("c").cast(pl.Categorical))


def from_duckdb(rows: list[dict[str, Any]]) -> object:
    table = pa.Table.from_pylist(rows)
    return duckdb.connect().from_arrow(table).project("* replace (c::enum('red', 'blue') as c)")


def pandas_objects() -> pd.DataFrame:
    return pd.DataFrame(FLAT, dtype=object).astype({"id": "int64", "at": "datetime64[us]"})


NUMPY = {
    "id": "int64",
    "n": "Int64",
    "t": "string",
    "b": "boolean",
    "x": "Float64",
    "at": "datetime64[us]",
    "c": "category",
}
ARROW = {
    "id": "int64[pyarrow]",
    "n": "int64[pyarrow]",
    "t": "string[pyarrow]",
    "b": "bool[pyarrow]",
    "x": "double[pyarrow]",
    "at": "timestamp[us][pyarrow]",
    "c": pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())),
}

FRAMES: dict[str, tuple[list[dict[str, Any]], Callable[[], Any]]] = {
    "polars": (NESTED, lambda: polars(NESTED)),
    "polars, some rows of it": (NESTED[1:], lambda: polars([*NESTED, *NESTED])[1:3]),
    "polars, flat": (FLAT, lambda: polars(FLAT)),
    "duckdb": (NESTED, lambda: from_duckdb(NESTED)),
    "arro3": (NESTED, lambda: arro3.core.Table.from_arrow(pa.Table.from_pylist(NESTED))),
    "pandas, nullable": (FLAT, lambda: pd.DataFrame(FLAT).astype(NUMPY)),
    "pandas, of Arrow": (FLAT, lambda: pd.DataFrame(FLAT).astype(ARROW)),
    "pandas, objects": (FLAT, pandas_objects),
    "pandas, nested objects": (NESTED, lambda: pd.DataFrame(NESTED)),
    "a data set": (NESTED, lambda: ds.dataset(pa.Table.from_pylist(NESTED))),
    "a scanner": (NESTED, lambda: ds.dataset(pa.Table.from_pylist(NESTED)).scanner()),
    "a reader": (NESTED, lambda: pa.Table.from_pylist(NESTED).to_reader(max_chunksize=1)),
    "a reader of a frame": (NESTED, lambda: pa.RecordBatchReader.from_stream(polars(NESTED))),
    "what can be made Arrow": (
        NESTED,
        lambda: type("Query", (), {"to_arrow": lambda self: pa.Table.from_pylist(NESTED)})(),
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_taken_by_every_operation(name: str) -> None:
    expected, frame = FRAMES[name]
    table = tahoe.Table("/t", env=memory_env())

    def stored() -> list[dict[str, Any]]:
        return table.to_arrow(list(expected[0])).sort_by("id").to_pylist()

    table.append(frame(), properties={"delta.enableChangeDataFeed": "true"})
    assert stored() == expected
    table.append(frame())
    assert table.count() == 2 * len(expected)
    table.overwrite(frame())
    table.overwrite(frame(), "id > 0")
    assert table.merge(frame(), on="id").when_matched_update_all().execute().updated == len(expected)
    assert stored() == expected
    table.delete("id > 1")
    table.merge(frame(), on="id").when_not_matched_insert_all().execute()
    with table.transaction() as changes:
        changes.replace(frame(), "id > 0")
    assert stored() == expected


def test_a_dictionary_becomes_much_larger_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of categories is small, but its values may not fit into one array, or into memory."""
    monkeypatch.setattr(row_stream, "_PIECE_BYTES", 10_000)
    values = pa.array(["x" * 1000, "y" * 1000])
    column = pa.DictionaryArray.from_arrays(pa.array([place % 2 for place in range(100)], pa.int32()), values)
    pieces = list(
        row_stream.Rows.of(pa.table({"c": column, "l": pa.array([["a"]] * 100, pa.list_view(pa.string()))})).pieces()
    )
    assert sum(piece.num_rows for piece in pieces) == 100
    assert max(piece.nbytes for piece in pieces) <= 20_000
    assert pa.concat_tables(pieces)["c"].to_pylist() == column.to_pylist()


def test_pieces_of_rows_of_different_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "_PIECE_BYTES", 1000)
    rows = pa.table({"t": pa.array([*["a"] * 10_000, *["x" * 900] * 20], pa.large_string())})
    assert max(piece.nbytes for piece in row_stream.Rows.of(rows).pieces()) <= 3000


# --- what cannot be taken

TWICE = pa.table([pa.array([1]), pa.array([2])], names=["id", "id"])
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "numbers and texts": (
        lambda: pd.DataFrame({"id": [1, 2], "m": [1, "x"]}),
        r"column m of type object: .*'x'.*Cast column m",
    ),
    "lists of several types": (lambda: pd.DataFrame({"id": [1, 2], "m": [[1], ["x"]]}), "column m of type object"),
    "decimals and doubles": (
        lambda: pd.DataFrame({"id": [1, 2], "m": [Decimal(1), 1.5]}),
        "column m of type object: .*float",
    ),
    "a large integer": (lambda: pd.DataFrame({"id": [1], "m": [2**70]}), "column m of type object: .*too large"),
    "complex numbers": (lambda: pd.DataFrame({"id": [1], "m": [1j]}), "column m of type complex128"),
    "sparse values": (lambda: pd.DataFrame({"id": [1], "m": pd.arrays.SparseArray([1])}), "column m of type Sparse"),
    "integers of 128 bits": (
        lambda: pl.DataFrame({"id": [1], "m": pl.Series([1], dtype=pl.Int128)}),
        "column m of type Int128",
    ),
    "lists of them": (
        lambda: pl.DataFrame({"m": pl.Series([[1]], dtype=pl.List(pl.Int128))}),
        r"column m of type List\(Int128\)",
    ),
    "objects": (
        lambda: pl.DataFrame({"id": [1], "m": pl.Series([object()], dtype=pl.Object)}),
        "column m of type Object",
    ),
    "two columns of a name": (lambda: TWICE.to_pandas(), "it has 2 columns named id.*Rename or drop"),
    "a query": (lambda: pl.LazyFrame({"id": [1]}), r"a query that has not run.*query\.collect\(\)"),
    "a column of polars": (lambda: pl.Series("id", [1]), r"it is one column.*to_frame\(\)"),
    "a column of pandas": (lambda: pd.Series([1], name="id"), r"it is one column.*to_frame\(\)"),
    "rows of Spark": (
        lambda: type("DataFrame", (), {"toArrow": print, "collect": print})(),
        "it is rows of Spark.*rows.write.format",
    ),
}
CALLS: dict[str, Callable[[tahoe.Table, Any], object]] = {
    "append": lambda table, rows: table.append(rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "replaceWhere": lambda table, rows: table.overwrite(rows, "id > 0"),
    "merge": lambda table, rows: table.merge(rows, on="id").when_matched_update_all().execute(),
    "transaction": lambda table, rows: table.transaction().append(rows),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_frame_that_cannot_be_taken_is_told_by_its_column(name: str, call: str) -> None:
    frame, reason = REFUSED[name]
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"id": [1]}))
    with pytest.raises(InvalidArgumentError, match=reason) as raised:
        CALLS[call](table, frame())
    assert "pyarrow.Table.from_pylist" not in str(raised.value)
    assert table.version == 0


@pytest.mark.parametrize("call", CALLS)
def test_two_columns_of_one_name_are_told(call: str) -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"id": [1]}))
    for rows in (TWICE, TWICE.to_batches(), TWICE.rename_columns(["id", "ID"])):
        with pytest.raises(DuplicateColumnsError, match=r"duplicate columns: (id|ID)"):
            CALLS[call](table, rows)


def test_an_extension_type_whose_storage_does_not_tell_the_value_is_refused() -> None:
    table = tahoe.Table("/t", env=memory_env())
    for values in (
        pa.array(pd.Series(pd.period_range("2026-01", periods=2, freq="M"))),
        pa.ExtensionArray.from_storage(
            pa.opaque(pa.binary(16), "hugeint", "DuckDB"), pa.array([b"\0" * 16], pa.binary(16))
        ),
    ):
        with pytest.raises(UnsupportedDataTypeError, match=r"column m of .*: extension"):
            table.append(pa.table({"m": values}))


def test_a_tensor_is_a_list_of_its_numbers() -> None:
    table = tahoe.Table("/t", env=memory_env())
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int64(), (2,)), pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    )
    table.append(pa.table({"v": tensors}))
    assert table.to_arrow()["v"].to_pylist() == [[1, 2], None]
