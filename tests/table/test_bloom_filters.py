"""Bloom filters in files that are written without Spark, their definitions through changes of the table, and REORG."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import BloomFilterColumnError, InvalidPropertyError, NoBloomFilterError
from tahoe.protocol.configuration.bloom_filters import BloomFilter
from tahoe.table.layout.optimize import FILTERS, REORG, OptimizeRequest, optimize
from tahoe.table.transactions.alter import create_bloom_filters, drop_bloom_filters, set_properties
from tahoe.table.verify.bloom_filters import xxh64
from tahoe.table.verify.files import Depth, check_files
from tahoe.table.verify.findings import Kind
from tahoe.table.writing.arrow_writer import schema_of_rows, write_arrow
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

PROPERTY = "tahoe.bloomFilters"
MAPPED = {"delta.columnMapping.mode": "name"}


def rows(start: int = 0, count: int = 100) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "s": [{"x": f"n{n}", "y": n} for n in range(start, start + count)],
            "v": pa.array([1.5] * count),
        }
    )


def made(**properties: str) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(rows(), properties=properties)
    return table


def filtered(table: tahoe.Table) -> list[set[str]]:
    """The columns of each file, by their names in the files, of which every row group has a filter."""
    found = []
    for path in sorted(table.files()["path"].to_pylist()):
        footer = pq.ParquetFile(table.env.store.open(path)).metadata
        groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
        chunks = [
            {g.column(n).path_in_schema for n in range(g.num_columns) if g.column(n).bloom_filter_offset is not None}
            for g in groups
        ]
        found.append(set.intersection(*chunks))
    return found


def test_files_written_from_then_on_have_filters() -> None:
    table = made()
    create_bloom_filters(table, [BloomFilter(path=("ID",)), BloomFilter(path=("s", "x"), fpp=0.001, num_items=10)])
    assert table.snapshot().properties[PROPERTY] == "id, s.x (fpp = 0.001, numItems = 10)"
    table.append(rows(100))
    table.append(rows(200))
    assert sorted(filtered(table), key=len) == [set(), {"id", "s.x"}, {"id", "s.x"}]
    optimize(table, OptimizeRequest())
    assert filtered(table) == [{"id", "s.x"}]


def test_reorg_adds_filters_to_the_files_that_lack_them_once() -> None:
    table = made(**MAPPED)
    table.append(rows(100))
    create_bloom_filters(table, [BloomFilter(path=("id",))])
    table.append(rows(200))
    before = sorted(table.to_arrow()["id"].to_pylist())
    request = OptimizeRequest(operation=REORG, purpose=FILTERS)
    report = optimize(table, request)
    assert (len(report.removed_bytes), len(report.added_bytes)) == (2, 2)
    assert all(len(columns) == 1 for columns in filtered(table))
    assert sorted(table.to_arrow()["id"].to_pylist()) == before
    assert optimize(table, request).version is None


def test_definitions_follow_renamed_and_dropped_columns() -> None:
    table = made(**MAPPED, **{PROPERTY: "id (fpp = 0.1), S.X"})
    assert table.snapshot().properties[PROPERTY] == "id (fpp = 0.1), s.x"
    with table.transaction() as changes:
        changes.rename_column(("id",), "key")
    assert table.snapshot().properties[PROPERTY] == "key (fpp = 0.1), s.x"
    table.append(rows(100).rename_columns(["key", "s", "v"]))
    assert len(filtered(table)[0] | filtered(table)[1]) == 2
    with table.transaction() as changes:
        changes.drop_columns([("s",)])
    assert table.snapshot().properties[PROPERTY] == "key (fpp = 0.1)"
    with table.transaction() as changes:
        changes.drop_columns([("key",)])
    assert PROPERTY not in table.snapshot().properties


def test_definitions_of_columns_that_an_overwrite_removes_are_gone() -> None:
    table = made(**{PROPERTY: "id, s.x"})
    data = pa.table({"id": ["a", "b"]})
    write_arrow(
        table, data, WriteRequest(mode="overwrite", schema=schema_of_rows(data, table="t"), overwrite_schema=True)
    )
    assert table.snapshot().properties[PROPERTY] == "id"
    assert filtered(table) == [{"id"}]


def test_wrong_definitions_are_refused_before_anything_is_done() -> None:
    with pytest.raises(BloomFilterColumnError, match="double"):
        made(**{PROPERTY: "v"})
    table = made()
    for ask in (
        lambda: create_bloom_filters(table, [BloomFilter(path=("id",)), BloomFilter(path=("nope",))]),
        lambda: set_properties(table, {PROPERTY: "s"}),
    ):
        with pytest.raises(BloomFilterColumnError):
            ask()
    with pytest.raises(InvalidPropertyError, match="fpp"):
        set_properties(table, {PROPERTY: "id (fpp = 7)"})
    with pytest.raises(NoBloomFilterError):
        drop_bloom_filters(table)
    assert table.version == 0


def test_dropped_definitions_are_gone() -> None:
    table = made(**{PROPERTY: "id, s.x"})
    with pytest.raises(NoBloomFilterError, match=r"v; it has them on id, s\.x"):
        drop_bloom_filters(table, [("id",), ("v",)])
    drop_bloom_filters(table, [("ID",)])
    assert table.snapshot().properties[PROPERTY] == "s.x"
    drop_bloom_filters(table)
    assert PROPERTY not in table.snapshot().properties


def test_a_definition_does_not_conflict_with_a_write() -> None:
    table = made()
    plan = tahoe.Table("memory://t", env=table.env)
    with plan.transaction() as changes:
        changes.append(rows(100))
        create_bloom_filters(table, [BloomFilter(path=("id",))])
    assert plan.snapshot().properties[PROPERTY] == "id"
    assert len(plan.to_arrow()) == 200


# --- check


VALUES = pa.table(
    {
        "byte": pa.array([1, -128, None], pa.int8()),
        "int": pa.array([1, -(2**31), None], pa.int32()),
        "long": pa.array([2**63 - 1, 0, None], pa.int64()),
        "day": pa.array([0, 20_000, None], pa.int32()).cast(pa.date32()),
        "at": pa.array([0, 1_700_000_000_000_001, None], pa.timestamp("us", "UTC")),
        "local": pa.array([0, -1, None], pa.timestamp("us")),
        "raw": pa.array([b"", b"\x00\xff" * 40, None]),
        "text": ["é" * 33, "a", None],
        "s": [{"x": "y"}, {"x": None}, None],
    }
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash_of_a_text(text: bytes, value: int) -> None:
    assert xxh64(np.frombuffer(text, np.uint8).reshape(1, -1)).tolist() == [value]


def with_filters() -> tuple[tahoe.Table, str, pq.FileMetaData]:
    names = ", ".join("s.x" if name == "s" else name for name in VALUES.schema.names)
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(VALUES, properties={PROPERTY: names})
    path = table.files()["path"][0].as_py()
    return table, path, pq.ParquetFile(table.env.store.open(path)).metadata


def broken(table: tahoe.Table, depth: Depth) -> list[str]:
    return [found.detail for found in check_files(table.snapshot(), depth) if found.kind is Kind.BROKEN_BLOOM_FILTER]


def test_check_finds_nothing_wrong_with_filters_as_they_are_written() -> None:
    table, _, footer = with_filters()
    assert all(footer.row_group(0).column(n).bloom_filter_offset for n in range(footer.num_columns))
    assert broken(table, Depth.ROWS) == []


def test_check_names_a_filter_that_hides_values_or_cannot_be_read() -> None:
    """A reader that trusts a damaged filter finds no row."""
    table, path, footer = with_filters()
    data = table.env.store.get(path)
    for number in range(footer.num_columns):
        chunk = footer.row_group(0).column(number)
        start, end = chunk.bloom_filter_offset, chunk.bloom_filter_offset + chunk.bloom_filter_length
        head = data.index(b"\x1c\x1c\x00\x00\x00", start) + 5
        table.env.store.put(path, data[:head] + bytes(end - head) + data[end:])
        count = 1 if chunk.path_in_schema == "s.x" else 2
        assert broken(table, Depth.CONTENTS) == []
        detail = (
            f"the Bloom filter of column {chunk.path_in_schema} in row group 0 lacks {count} of the column's values"
        )
        assert [text.partition(", so")[0] for text in broken(table, Depth.ROWS)] == [detail]
        table.env.store.put(path, data[:start] + b"\xff" + data[start + 1 :])
        assert broken(table, Depth.CONTENTS) == [
            f"the Bloom filter of column {chunk.path_in_schema} in row group 0 has no valid header"
        ]
        table.env.store.put(path, data[: start + 1] + bytes([data[start + 1] ^ 2]) + data[start + 2 :])
        assert "which is not its size" in broken(table, Depth.CONTENTS)[0]
