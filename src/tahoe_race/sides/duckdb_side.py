"""DuckDB reads Delta tables with its extension, and appends to them."""

from __future__ import annotations

from typing import Any

import duckdb
from data_side import extension
from side import serve

_connection: duckdb.DuckDBPyConnection


def ready() -> str:
    global _connection
    _connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    _connection.execute(f"LOAD '{extension('delta')}'")
    return f"DuckDB {duckdb.__version__}"


def tables(paths: dict[str, str]) -> None:
    for name, path in paths.items():
        _connection.execute(f"ATTACH OR REPLACE '{path}' AS of_{name} (TYPE delta, PIN_SNAPSHOT)")
        _connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM of_{name}")


def query(text: str) -> list[Any]:
    return _connection.execute(text).fetchall()


def append(source: str, path: str, times: int) -> None:
    for _ in range(times):
        _connection.execute(f"ATTACH OR REPLACE '{path}' AS appended (TYPE delta)")
        _connection.execute(f"INSERT INTO appended SELECT * FROM read_parquet('{source}/*.parquet')")


def look(path: str, sums: list[str]) -> list[Any]:
    columns = ", ".join(["count(*)", *(f"sum({column})" for column in sums)])
    return _connection.execute(f"SELECT {columns} FROM delta_scan('{path}')").fetchall()


if __name__ == "__main__":
    serve({d.__name__: d for d in (tables, query, append, look)}, ready)
