"""A program of DuckDB with its extension for Unity Catalog: `unity_duckdb.py URL TOKEN STATEMENT...`. Prints the rows of
each statement as JSON in a line, or what DuckDB says against it. Runs in `.venv-unity`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import duckdb


def main() -> None:
    url, token, *statements = sys.argv[1:]
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("httpfs", "delta", "unity_catalog"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        (extension,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CREATE SECRET (TYPE UC, TOKEN '{token}', ENDPOINT '{url}', AWS_REGION 'us-east-1')")
    connection.execute("ATTACH 'lake' AS lake (TYPE UC_CATALOG, DEFAULT_SCHEMA 'shop')")
    for statement in statements:
        try:
            print(json.dumps(connection.execute(statement).fetchall()), flush=True)
        except duckdb.Error as error:
            print(json.dumps(str(error)), flush=True)


main()
