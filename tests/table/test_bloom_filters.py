"""Bloom filters in files that are written without Spark, their definitions through changes of the table, and REORG."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import BloomFilterColumnError, InvalidPropertyError, NoBloomFilterError
from tahoe.protocol.bloom_filters import BloomFilter
from tahoe.table.maintenance.optimize import FILTERS, REORG, OptimizeRequest, optimize
from tahoe.table.writing.alter import create_bloom_filters, drop_bloom_filters, set_properties
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
        chunks = [{g.column(n).path_in_schema for n in range(g.num_columns) if g.column(n).bloom_filter_offset is not None} for g in groups]
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
    write_arrow(table, data, WriteRequest(mode="overwrite", schema=schema_of_rows(data, table="t"), overwrite_schema=True))
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
