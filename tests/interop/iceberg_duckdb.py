"""A program of DuckDB with its extension for Iceberg: `iceberg_duckdb.py STATEMENT...`. Writes the names of columns and the
rows of each statement, pickled. Runs in `.venv-iceberg`.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import duckdb


def main() -> None:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        (extension,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    found = []
    for statement in sys.argv[1:]:
        asked = connection.execute(statement)
        found.append(([column[0] for column in asked.description], asked.fetchall()))
    sys.stdout.buffer.write(pickle.dumps(found))


main()
