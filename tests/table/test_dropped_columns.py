"""REORG ... APPLY (PURGE) rewrites files that contain dropped columns: at the top, and in structs, lists and maps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.protocol.changes.column_changes import NewColumn
from tahoe.protocol.types.schema import STRING, Field
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import REORG, OptimizeReport, OptimizeRequest, optimize
from tests.table.builders import memory_env

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "v": ["a", "b"],
        "s": [{"x": 1, "y": 2}, {"x": 3, "y": None}],
        "l": [[{"x": 1, "y": 2}], []],
        "m": pa.array(
            [[("k", {"x": 1, "y": 2})], None], pa.map_(pa.string(), pa.struct({"x": pa.int64(), "y": pa.int64()}))
        ),
    }
)


def made(mode: str = "name", **properties: str) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(ROWS, properties={"delta.columnMapping.mode": mode, **properties})
    table.append(ROWS)
    return table


def purge(table: tahoe.Table, deleted_share: float = 0.0) -> OptimizeReport:
    settings = CompactionSettings(min_file_bytes=0, max_deleted_share=deleted_share)
    return optimize(table, OptimizeRequest(settings=settings, operation=REORG))


def columns(table: tahoe.Table) -> list[str]:
    """The leaf columns of all live files, by physical names."""
    stores = [table.env.store.open(path) for path in table.files()["path"].to_pylist()]
    return sorted({column.path for store in stores for column in pq.ParquetFile(store).schema})


def rows(table: tahoe.Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("column", ["v", "s", "s.y", "l.element.y", "m.value.y"])
def test_files_with_a_dropped_column_are_rewritten_once(mode: str, column: str) -> None:
    table = made(mode)
    with table.transaction() as changes:
        changes.drop_columns([tuple(column.split("."))])
    before, had = rows(table), columns(table)
    report = purge(table)
    assert len(report.removed_bytes) == 2
    assert rows(table) == before
    gone = {"s": 2}.get(column, 1)
    assert len(columns(table)) == len(had) - gone
    assert purge(table).version is None


def test_new_and_renamed_columns_are_no_reason() -> None:
    table = made(**{"delta.enableRowTracking": "true"})
    with table.transaction() as changes:
        changes.rename_column(("v",), "w")
    table.append(ROWS.rename_columns(["id", "w", "s", "l", "m"]))
    table.optimize()  # writes row ids into the file
    assert purge(table).version is None
    with table.transaction() as changes:
        changes.drop_columns([("w",)])
        changes.add_columns([NewColumn(field=Field(name="v", type=STRING))])
    assert purge(table).version is not None
    assert purge(table).version is None


def test_a_share_of_deleted_rows_asks_for_vectors_alone() -> None:
    table = made()
    with table.transaction() as changes:
        changes.drop_columns([("v",)])
    assert purge(table, deleted_share=0.5).version is None
