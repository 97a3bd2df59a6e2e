"""Makes the tables of TPC-H and TPC-DS as Parquet, and writes their queries, with DuckDB's generators."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import duckdb


def extension(name: str) -> Path:
    """The file of an extension that pip has installed."""
    folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
    return next(folder.rglob("*.duckdb_extension"))


def main(benchmark: str, scale: str, folder: str) -> None:
    call, queries = {"tpch": ("dbgen", "tpch_queries"), "tpcds": ("dsdgen", "tpcds_queries")}[benchmark]
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    connection.execute(f"LOAD '{extension(benchmark)}'")
    connection.execute(f"CALL {call}(sf = {scale})")
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        into = Path(folder) / "parquet" / table
        into.mkdir(parents=True, exist_ok=True)
        connection.execute(f"COPY {table} TO '{into / 'part-0.parquet'}' (FORMAT parquet, COMPRESSION snappy)")
    texts = connection.execute(f"SELECT query_nr, query FROM {queries}() ORDER BY query_nr").fetchall()
    (Path(folder) / "queries.json").write_text(json.dumps({str(number): text.rstrip("; \n") for number, text in texts}))


def changes(lineitem: str, folder: str, steps: list[int]) -> None:
    """What is merged, appended and streamed into lineitem: one of `step` orders with another quantity, and a tenth as
    many new rows; one row; and twenty files of a thousand rows.
    """
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW lineitem AS FROM read_parquet('{lineitem}/*.parquet')")
    new = "(l_orderkey + 1000000000)::BIGINT AS l_orderkey"
    parts = {
        f"merge-{step}/rows": f"""
        SELECT * REPLACE ((l_quantity + 1)::DECIMAL(15, 2) AS l_quantity) FROM lineitem WHERE l_orderkey % {step} = 3
        UNION ALL SELECT * REPLACE ({new}) FROM lineitem WHERE l_orderkey % {step * 10} = 5"""
        for step in steps
    }
    parts["one/row"] = f"SELECT * REPLACE ({new}) FROM lineitem ORDER BY l_orderkey, l_linenumber LIMIT 1"
    for number in range(20):
        parts[f"parts/{number:02d}"] = f"SELECT * FROM lineitem LIMIT 1000 OFFSET {number * 1000}"
    for name, rows in parts.items():
        file = Path(folder) / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        connection.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet)")


if __name__ == "__main__":
    if sys.argv[1] == "changes":
        changes(sys.argv[2], sys.argv[3], [int(step) for step in sys.argv[4:]])
    else:
        main(*sys.argv[1:])
