"""Files of other writers: what their footers do not tell, and types that Arrow keeps beside those of Parquet."""

from __future__ import annotations

import io
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.protocol.statistics.stats import parse_statistics
from tahoe.protocol.types.schema import LONG
from tahoe.protocol.types.schema import Decimal as DeltaDecimal
from tahoe.table.verify.check import check_table
from tests.table.builders import memory_env


def written_by(writer: str, rows: pa.Table) -> bytes:
    """A file of Arrow, whose footer names another writer. Its bounds are those of the numbers: they leave out NaN."""
    out = io.BytesIO()
    pq.write_table(rows, out)
    name = str(pq.read_metadata(io.BytesIO(out.getvalue())).created_by).encode()
    return out.getvalue().replace(name, writer.encode().ljust(len(name)))


def converted(content: bytes) -> tahoe.Table:
    env = memory_env()
    env.store.put("part-0.parquet", content)
    table = tahoe.Table(env.store.url, env=env)
    table.convert()
    return table


@pytest.mark.parametrize(
    "writer", ["parquet-mr version 1.8.1", "parquet-mr version 1.9.0", "parquet-mr", "parquet-rs version 57"]
)
def test_nan_that_a_footer_leaves_out_is_found(writer: str) -> None:
    """NaN is greater than every number: bounds without it would exclude the file."""
    table = converted(
        written_by(writer, pa.table({"x": [1.0, math.nan, 2.0], "f": pa.array([1, math.nan, 2], pa.float32())}))
    )
    assert table.to_arrow(filter="x > 5").num_rows == table.to_arrow(filter="f > 5").num_rows == 1
    found = parse_statistics(next(iter(table.snapshot().live.adds())).stats, table.schema)
    assert found is not None
    assert found.max_values == {}
    table.optimize()
    table.compute_statistics()
    assert table.to_arrow(filter="x > 5").num_rows == 1


@pytest.mark.parametrize("writer", ["parquet-mr version 1.10.1", "parquet-mr version 1.16.0", "parquet-mr version 2.0"])
def test_bounds_of_a_writer_that_orders_nan_are_taken(writer: str) -> None:
    table = converted(written_by(writer, pa.table({"x": [1.0, 2.0]})))
    found = parse_statistics(next(iter(table.snapshot().live.adds())).stats, table.schema)
    assert found is not None
    assert found.max_values == {("x",): 2.0}


def test_lists_of_a_fixed_size_are_read_as_arrays() -> None:
    rows = pa.table({"v": pa.array([[1, 2], None, [3, None]], pa.list_(pa.uint8(), 2)), "id": [1, 2, 3]})
    table = converted(written_by("parquet-cpp", rows))
    assert table.to_arrow()["v"].to_pylist() == rows["v"].to_pylist()
    table.optimize()
    assert table.to_arrow(filter="id > 1")["v"].to_pylist() == [None, [3, None]]
    assert list(check_table(table.log)) == []


def test_longs_without_a_sign_are_decimals_as_in_spark() -> None:
    rows = pa.table({"u": pa.array([2**64 - 1, None, 0], pa.uint64()), "id": [1, 2, 3]})
    table = converted(written_by("parquet-cpp", rows))
    expected = [Decimal(2**64 - 1), None, Decimal(0)]
    assert [field.type for field in table.schema] == [DeltaDecimal(20, 0), LONG]
    assert table.to_arrow()["u"].to_pylist() == expected
    assert table.to_arrow(filter="u > 18446744073709551614").num_rows == 1
    table.compute_statistics()
    table.append(pa.table({"u": [Decimal(1)], "id": [4]}))
    table.optimize()
    assert table.to_arrow(filter="id < 4")["u"].to_pylist() == expected
    assert list(check_table(table.log)) == []
