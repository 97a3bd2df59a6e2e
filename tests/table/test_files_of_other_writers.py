"""Data files that other writers made: read, measured and rewritten as Spark reads them, or refused."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import InvalidDataFileError
from tahoe.protocol.actions import Add, Metadata
from tahoe.table.arrow.types import delta_schema
from tahoe.table.maintenance.optimize import OptimizeRequest, optimize
from tahoe.table.verify.check import check_table
from tests.table.builders import PROTOCOL, memory_env, put_commit


def made(
    schema: pa.Schema, *files: pa.Table, partitions: Sequence[Mapping[str, str]] = (), partition_by: Sequence[str] = ()
) -> tahoe.Table:
    """A table of these files, without statistics."""
    env, text = memory_env(), delta_schema(schema, table="t").to_json()
    metadata = Metadata(id="t", schema_string=text, partition_columns=tuple(partition_by))
    adds = []
    for number, rows in enumerate(files):
        out = io.BytesIO()
        pq.write_table(rows, out)
        env.store.put(f"{number}.parquet", out.getvalue())
        values = partitions[number] if partitions else {}
        adds.append(Add(path=f"{number}.parquet", size_bytes=out.tell(), modification_time_ms=number, partition_values=values))
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
