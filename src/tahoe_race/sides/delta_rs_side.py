"""delta-rs: rows through Arrow, queries through its own QueryBuilder."""

from __future__ import annotations

from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from side import serve

_views: dict[str, str] = {}


def ready() -> str:
    return f"deltalake {deltalake.__version__}"


def tables(paths: dict[str, str]) -> None:
    _views.update(paths)


def _rows(batches: Any) -> list[Any]:
    table = pa.table(batches.read_all() if hasattr(batches, "read_all") else batches)
    return [list(row.values()) for row in table.to_pylist()]


def query(text: str) -> list[Any]:
    builder = QueryBuilder()
    for name, path in _views.items():
        builder.register(name, DeltaTable(path))
    return _rows(builder.execute(text))


def load(source: str, path: str) -> None:
    write_deltalake(path, ds.dataset(source).scanner().to_reader(), mode="overwrite")


def append(source: str, path: str, times: int) -> None:
    for _ in range(times):
        write_deltalake(path, pq.read_table(source), mode="append")


def delete(path: str, where: str) -> None:
    DeltaTable(path).delete(where)


def update(path: str, where: str, column: str, value: str) -> None:
    DeltaTable(path).update(predicate=where, updates={column: value})


def merge(path: str, source: str, on: list[str]) -> None:
    condition = " AND ".join(f"t.{column} = s.{column}" for column in on)
    merger = DeltaTable(path).merge(pq.read_table(source), condition, source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def optimize(path: str) -> None:
    DeltaTable(path).optimize.compact()


def vacuum(path: str) -> None:
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)


def look(path: str, sums: list[str]) -> list[Any]:
    columns = ", ".join(["count(*)", *(f"sum({column})" for column in sums)])
    return _rows(QueryBuilder().register("t", DeltaTable(path)).execute(f"SELECT {columns} FROM t"))


if __name__ == "__main__":
    serve({d.__name__: d for d in (tables, query, load, append, delete, update, merge, optimize, vacuum, look)}, ready)
