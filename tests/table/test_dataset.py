"""A table as a `pyarrow.dataset.Dataset`: other libraries get the rows of any table, and files that a query does not
need are not read.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import tahoe
from tahoe.errors import ColumnNotFoundError, DeltaDataError, InvalidPredicateError, UnsupportedOperationError
from tahoe.table.arrow.conditions import FieldRef, FunctionCall, Scalar, columns_in, tree_of
from tests.table.builders import memory_env

VECTORS = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
DAYS = [dt.date(2026, 1, day) for day in (1, 2, 3)]


@pytest.fixture
def table(tmp_path: Path) -> tahoe.Table:
    """Three files with ten rows each, of a day each, with renamed columns, of which one row each is deleted by a
    vector.
    """
    table = tahoe.Table(tmp_path / "t")
    for place, day in enumerate(DAYS):
        table.append(_rows(place, day), partition_by=None if place else ["day"], properties=None if place else VECTORS)
    table.delete("i % 10 = 4")
    with table.transaction() as changes:
        changes.rename_column(("i",), "number")
    return table


def _rows(place: int, day: dt.date) -> pa.Table:
    numbers = list(range(10 * place, 10 * place + 10))
    return pa.table(
        {
            "i": pa.array(numbers, pa.int32()),
            "d": [float(n) for n in numbers],
            "s": [f"s{n:02}" for n in numbers],
            "dec": pa.array([Decimal(n) for n in numbers], pa.decimal128(10, 2)),
            "ts": pa.array(
                [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=n) for n in numbers],
                pa.timestamp("us", "UTC"),
            ),
            "n": pa.array([None] * 10 if place == 1 else numbers, pa.int64()),
            "st": [{"x": n} for n in numbers],
            "day": [day] * 10,
        }
    )


def _first(file: int) -> list[int]:
    return [n for n in range(10 * file, 10 * file + 10) if n % 10 != 4]


LIVE = _first(0) + _first(1) + _first(2)


def without_files(table: tahoe.Table, *numbers: int) -> tahoe.Table:
    """The table after some of its data files were deleted from the disk: whoever reads one of them fails."""
    kept = table.files(columns=["path", "partition_values"]).to_pylist()
    for file in kept:
        if DAYS.index(file["partition_values"]["day"]) in numbers:
            table.env.store.delete(file["path"])
    return table


IN_DUCKDB = {
    "number >= 20": [2],
    "number > 11 and number < 14": [1],
    "number in (3, 21)": [0, 2],
    "d <= 5.5": [0],
    "s = 's05' or s = 's06'": [0],
    "dec < 3": [0],
    "ts >= timestamptz '2026-01-01 20:00:00+00'": [2],
    "n is null": [1],
    "st.x = 12": [1],
    "day = date '2026-01-02'": [1],
    "day is not null and number = 29": [2],
    "number in (1, 12) and d > 5": [0, 1],  # DuckDB keeps d > 5 for itself, because NaN is greater
}


@pytest.mark.parametrize(("condition", "files"), IN_DUCKDB.items())
def test_duckdb_leaves_files_out(table: tahoe.Table, condition: str, files: list[int]) -> None:
    """A query reads files that cannot have its rows, or loses rows."""
    with duckdb.connect() as connection:
        connection.register("everything", table.to_arrow())
        expected = connection.sql(f"select number from everything where {condition}").fetchall()
        connection.register("t", without_files(table, *({0, 1, 2} - set(files))).to_pyarrow_dataset())
        assert sorted(connection.sql(f"select number from t where {condition}").fetchall()) == sorted(expected)
        assert expected


IN_POLARS: list[tuple[Callable[[], pl.Expr], list[int]]] = [
    (lambda: pl.col("number") >= 20, [2]),
    (lambda: pl.col("number").is_between(11, 14), [1]),
    (lambda: pl.col("number").is_in([3, 21]), [0, 2]),
    (lambda: pl.col("d") < 5.5, [0]),
    (lambda: (pl.col("s") == "s05") | (pl.col("s") == "s06"), [0]),
    (lambda: pl.col("ts") >= dt.datetime(2026, 1, 1, 20, tzinfo=dt.UTC), [2]),
    (lambda: pl.col("n").is_null(), [1]),
    (lambda: pl.col("day") == dt.date(2026, 1, 2), [1]),
]


@pytest.mark.parametrize(("condition", "files"), IN_POLARS)
def test_polars_leaves_files_out(table: tahoe.Table, condition: Callable[[], pl.Expr], files: list[int]) -> None:
    expected = table.to_polars().filter(condition())["number"]
    t = without_files(table, *({0, 1, 2} - set(files))).to_pyarrow_dataset()
    found = pl.scan_pyarrow_dataset(t).filter(condition()).select("number").collect()["number"]
    assert sorted(found) == sorted(expected)
    assert len(expected)


def test_the_rows_are_those_of_the_table(table: tahoe.Table) -> None:
    t = table.to_pyarrow_dataset()
    assert t.schema == table.to_arrow().schema
    assert t.to_table() == table.to_arrow()
    assert sorted(duckdb.sql("select number from t").fetchall()) == [(n,) for n in LIVE]
    assert duckdb.sql("select count(*), sum(d) from t").fetchall() == [(27, float(sum(LIVE)))]
    assert sorted(pl.scan_pyarrow_dataset(t).collect()["number"]) == LIVE
    assert pl.scan_pyarrow_dataset(t).head(5).collect().height == 5
    assert pa.Table.from_batches(t.to_batches(["s"]), pa.schema([("s", pa.string())])).num_rows == 27


def test_what_pyarrow_asks(table: tahoe.Table) -> None:
    """A method of the base class that is left as it is ends the process: it looks for a data set in C++."""
    t = table.to_pyarrow_dataset()
    over = pc.field("number") >= 20
    assert (t.count_rows(), t.count_rows(over), t.count_rows(filter="day = date'2026-01-01'")) == (27, 9, 9)
    assert t.to_table(["number"], over)["number"].to_pylist() == _first(2)
    assert t.to_table({"twice": pc.field("number") * 2}, over)["twice"].to_pylist() == [2 * n for n in _first(2)]
    assert t.scanner(["number"], filter=over).to_table() == t.to_table(["number"], over)
    assert t.scanner({"x": pc.field("st", "x")}, over).count_rows() == 9
    assert t.scanner([], over).count_rows() == 9
    assert [batch.num_rows for batch in t.to_batches(["number"], over, batch_size=4)] == [4, 4, 1]
    assert (t.head(5).num_rows, t.head(3, {"y": pc.field("d")}, over)["y"].to_pylist()) == (5, [20.0, 21.0, 22.0])
    assert t.take([0, 2], ["number"])["number"].to_pylist() == t.to_table()["number"].take([0, 2]).to_pylist()
    assert t.filter(over).filter([("number", "<", 22)]).to_table(["number"])["number"].to_pylist() == [20, 21]
    assert t.sort_by([("number", "descending")]).head(1)["number"].to_pylist() == [29]
    assert t.partition_expression.equals(pc.scalar(True))
    assert repr(t) == f"TableDataset({table.url!r}, version=4)"


def test_joins_of_pyarrow(tmp_path: Path) -> None:
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table({"k": [1, 2, 3], "at": [10, 20, 30]}))
    t, other = table.to_pyarrow_dataset(), ds.dataset(pa.table({"k": [2], "at": [21], "v": ["x"]}))
    assert t.join(other, "k", right_suffix="_2", join_type="inner").to_table()["v"].to_pylist() == ["x"]
    assert t.join_asof(other, on="at", by="k", tolerance=5).to_table()["v"].to_pylist() == [None, "x", None]


def test_a_partition_by_a_boolean(tmp_path: Path) -> None:
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table({"n": [1, 2], "current": [True, False]}), partition_by=["current"])
    table.env.store.delete(table.files("not current")["path"][0].as_py())
    frame = pl.scan_pyarrow_dataset(table.to_pyarrow_dataset()).filter(pl.col("current"))
    assert frame.collect()["n"].to_list() == [1]


def test_a_data_set_is_a_source_of_rows(table: tahoe.Table, tmp_path: Path) -> None:
    other = tahoe.Table(tmp_path / "other")
    other.append(table.to_pyarrow_dataset())
    ds.write_dataset(table.to_pyarrow_dataset(), tmp_path / "parquet", format="parquet")
    assert other.count() == 27
    assert ds.dataset(tmp_path / "parquet").count_rows() == 27


def test_a_data_set_is_of_one_version(table: tahoe.Table) -> None:
    before, now = table.to_pyarrow_dataset(version=2), table.to_pyarrow_dataset()
    table.append(pa.table({"number": pa.array([1000], pa.int32()), "day": DAYS[:1]}))
    assert (before.count_rows(), now.count_rows(), table.to_pyarrow_dataset().count_rows()) == (30, 27, 28)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda t: t.to_table(["none"]), ColumnNotFoundError),
        (lambda t: t.scanner(filter=pc.field("none") > 1), InvalidPredicateError),
        (lambda t: t.get_fragments(), UnsupportedOperationError),
        (lambda t: t.replace_schema(t.schema), UnsupportedOperationError),
        (lambda t: pickle.dumps(t), UnsupportedOperationError),
    ],
)
def test_what_is_refused(table: tahoe.Table, call: Callable[[Any], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(table.to_pyarrow_dataset())


@pytest.mark.parametrize(
    "read",
    [
        lambda t: ds.Scanner.from_dataset(t).to_table(),
        lambda t: ds.dataset(pa.table({"number": [1]})).join(t.filter("number > 1"), "number"),
    ],
)
def test_functions_that_pass_by_its_methods_fail(read: Callable[[Any], object]) -> None:
    """They end the process, or read files without their deletion vectors."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"number": [1, 2]}))
    with pytest.raises(FileNotFoundError, match="this data set is read by its own methods"):
        read(table.to_pyarrow_dataset())


def test_an_error_in_a_file_reaches_who_reads(table: tahoe.Table) -> None:
    t = without_files(table, 1).to_pyarrow_dataset()
    with pytest.raises(DeltaDataError):
        t.scanner(["number"]).to_table()


def test_what_a_condition_consists_of() -> None:
    """Files are left out by another condition than the one that was given."""
    odd = "a'\nliteral: '0"
    condition = (pc.field(odd) > 5) & pc.field("s", "x").isin(["y"])
    found = tree_of(condition)
    assert isinstance(found, FunctionCall)
    first, second = found.arguments
    assert (found.function, first) == ("and_kleene", FunctionCall("greater", (FieldRef((odd,)), Scalar(5))))
    assert isinstance(second, FunctionCall)
    assert (second.function, second.arguments, second.options["value_set"]) == (
        "is_in",
        (FieldRef(("s", "x")),),
        ["y"],
    )
    assert columns_in(condition, ["a", "x", odd, "s"]) == [odd, "s"]


def test_what_cannot_be_looked_into() -> None:
    by_number, long = pc.field(0) > 1, pc.field("a") > 0
    for n in range(200):
        long = long | (pc.field("a") == n)
    assert tree_of(by_number) is None
    assert tree_of(long) is None
    assert columns_in(long, ["a", "b"]) == ["a"]
