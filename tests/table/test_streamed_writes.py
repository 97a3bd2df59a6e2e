"""Rows come in as streams of any library, and are written as they come: no row is lost, and nothing is left of a write
that fails.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import DeltaError, InvalidArgumentError, NotNullViolationError, StorageRefusedError
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.table.arrow import row_stream
from tahoe.table.verify.check import check_version
from tahoe.table.writing import open_files
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

ROWS = pa.table({"n": [1, 2, 3], "s": ["a", None, "c"]})


def duckdb_relation() -> object:
    return duckdb.sql("select * from (values (1::bigint, 'a'), (2, null), (3, 'c')) t(n, s)")


SOURCES = {
    "table": lambda: ROWS,
    "record batch": lambda: ROWS.to_batches()[0],
    "reader": lambda: ROWS.to_reader(),
    "list of batches": lambda: ROWS.to_batches(max_chunksize=1),
    "generator": lambda: iter(ROWS.to_batches(max_chunksize=1)),
    "pandas": lambda: pd.DataFrame({"n": [1, 2, 3], "s": ["a", None, "c"]}),
    "polars": lambda: pl.DataFrame(ROWS),
    "duckdb": duckdb_relation,
    "data set": lambda: ds.dataset(ROWS),
    "struct array": lambda: pa.StructArray.from_arrays(ROWS.to_batches()[0].columns, ROWS.schema.names),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_source(source: str) -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(SOURCES[source]())
    assert table.to_arrow().sort_by("n").to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_of_every_kind(kind: pa.DataType) -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"s": pa.array(["a", None, "x" * 100_000]).cast(kind)}))
    assert table.to_arrow()["s"].to_pylist() == ["a", None, "x" * 100_000]


def batches(count: int, partitions: int = 3) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        numbers = list(range(i * 10, i * 10 + 10))
        doubles = pa.array([float("nan") if n == 55 else n for n in numbers], pa.float64())
        yield pa.record_batch({"n": numbers, "p": [n % partitions for n in numbers], "d": doubles})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces, files and memory so small that every limit is reached."""
    monkeypatch.setattr(row_stream, "_PIECE_BYTES", 400)
    monkeypatch.setattr(open_files, "_FILE_BYTES", 4000)
    monkeypatch.setattr(open_files, "_MEMORY_BYTES", 500)
    monkeypatch.setattr(open_files, "_OPEN_FILES_MAX", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("partition_by", [None, ["p"]])
def test_a_long_stream_becomes_several_files(partition_by: list[str] | None) -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(batches(40), partition_by=partition_by)
    assert sorted(table.to_arrow()["n"].to_pylist()) == list(range(400))
    assert table.files().num_rows > 2
    assert list(check_version(table.snapshot())) == []
    assert table.count("d > 300") == 100  # NaN is above all numbers: its file must not be skipped
    info = table.history()[0]["operationMetrics"]
    assert info["numOutputRows"] == "400"


@pytest.mark.usefixtures("small")
def test_identity_values_go_on_from_piece_to_piece() -> None:
    table = tahoe.Table("/t", env=memory_env())
    identity = {"delta.identity.start": 5, "delta.identity.step": 2, "delta.identity.allowExplicitInsert": False}
    schema = Struct((Field(name="i", type=LONG, metadata=identity), Field(name="n", type=LONG)))
    create_table(table, WriteRequest(mode="error", schema=schema, keep_nullability=True))
    table.append(batch.select(["n"]) for batch in batches(10))
    table.append(pa.table({"n": [1]}))
    assert sorted(table.to_arrow()["i"].to_pylist()) == list(range(5, 5 + 2 * 101, 2))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("failure", ["the source", "a row", "another schema", "no batch"])
def test_nothing_is_left_of_a_stream_that_fails(failure: str, tmp_path: Path) -> None:
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table(ROWS.columns[:1], schema=pa.schema([pa.field("n", pa.int64(), nullable=False)])))
    before = sorted(path.name for path in tmp_path.rglob("*.parquet"))

    def broken() -> Iterator[pa.RecordBatch]:
        for i in range(30):
            yield pa.record_batch({"n": pa.array(list(range(i, i + 50)))})
        if failure == "the source":
            raise KeyError("of the user")
        yield pa.record_batch({"n": pa.array([None], pa.int64())} if failure == "a row" else {"m": [1]})

    expected = {"the source": KeyError, "a row": NotNullViolationError}.get(failure, InvalidArgumentError)
    with pytest.raises(expected):
        table.append(iter(()) if failure == "no batch" else broken())
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == before
    assert table.version == 0
    with pytest.raises(expected), table.transaction() as changes:
        changes.append(iter(()) if failure == "no batch" else broken())
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == before


def test_a_stream_is_no_list_of_rows() -> None:
    for data in ([{"n": 1}], iter([1]), ["a"], 5):
        with pytest.raises(InvalidArgumentError, match="from_pylist"):
            tahoe.Table("/t", env=memory_env()).append(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [["n", "n"], ["n", "N"]])
def test_a_name_that_is_there_twice_is_refused(names: list[str]) -> None:
    table = tahoe.Table("/t", env=memory_env())
    with pytest.raises(DeltaError, match=r"[nN]"):
        table.append(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names))
    assert not table.exists()


def test_row_groups_hold_many_small_batches(tmp_path: Path) -> None:
    """A row group for each batch makes files that are slow to read."""
    table = tahoe.Table(tmp_path / "t")
    table.append(batches(50))
    (path,) = tmp_path.rglob("*.parquet")
    assert pq.read_metadata(path).num_row_groups == 1


def test_values_that_do_not_repeat_have_no_dictionary(tmp_path: Path) -> None:
    """A dictionary of all values takes time and bytes; values that repeat without one take many times the bytes."""
    rows = 40_000
    data = {
        "unique": pa.array(range(rows)),
        "texts": pa.array([f"t{n}" for n in range(rows)]),
        "decimals": pa.array([Decimal(n) for n in range(rows)], pa.decimal128(20, 2)),
        "runs": pa.array([n // 50 for n in range(rows)]),
        "few": pa.array([f"s{n % 7}" for n in range(rows)]),
        "narrow": pa.array(range(rows), pa.int32()),
        "nulls": pa.nulls(rows, pa.string()),
        "s": pa.array([{"x": n} for n in range(rows)]),
    }
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table(data))
    footer = pq.read_metadata(tmp_path / "t" / table.files()["path"][0].as_py()).row_group(0)
    columns = [footer.column(n) for n in range(footer.num_columns)]
    assert {column.path_in_schema for column in columns if not column.has_dictionary_page} == {
        "unique",
        "texts",
        "decimals",
    }
    assert table.to_arrow() == pa.table(data)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of temporary files is full."""
    if not os.path.exists("/dev/full"):
        pytest.skip("only Linux has /dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda *_, **__: open("/dev/full", "r+b"))  # noqa: SIM115
    monkeypatch.setattr(open_files, "_MEMORY_BYTES", 2000)
    monkeypatch.setattr(open_files, "_OPEN_FILES_MAX", 1)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_of_temporary_files_is_named_and_nothing_is_left_of_the_write() -> None:
    table = tahoe.Table("/t", env=memory_env())

    def rows() -> Iterator[pa.RecordBatch]:
        for partition, size in (("a", 10), ("b", 10), ("b", 100_000)):
            yield pa.record_batch({"p": [partition] * 10, "s": [os.urandom(size // 10) for _ in range(10)]})

    with pytest.raises(StorageRefusedError, match=f"{tempfile.gettempdir()}.*write a temporary file.*No space left"):
        table.append(rows(), partition_by=["p"])
    assert list(table.env.store.walk()) == []


@pytest.mark.usefixtures("full_disk")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that cannot be closed either
@pytest.mark.parametrize("z_order_by", [[], ["n"]])
def test_a_full_disk_of_temporary_files_is_named_by_optimize(z_order_by: list[str]) -> None:
    table = tahoe.Table("/t", env=memory_env())
    for start in (0, 1000):
        table.append(pa.table({"n": range(start, start + 1000)}))
    before = {info.key for info in table.env.store.walk()}
    with pytest.raises(StorageRefusedError, match="write a temporary file"):
        table.optimize(z_order_by=z_order_by)
    assert {info.key for info in table.env.store.walk()} == before
    assert table.count() == 2000
