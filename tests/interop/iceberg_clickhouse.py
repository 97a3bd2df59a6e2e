"""A program of ClickHouse as a library: `iceberg_clickhouse.py STATEMENT...`. Writes the rows of each statement as dicts, and how many
rows it read for them, pickled. Runs in `.venv-iceberg`, in the folder `/`: it reads nothing outside of its folder.
"""

from __future__ import annotations

import json
import pickle
import sys

import chdb

SETTINGS = "output_format_arrow_string_as_string = 0, session_timezone = 'UTC'"


def main() -> None:
    connection = chdb.connect(":memory:")
    found = []
    for statement in sys.argv[1:]:
        joined = "," if "SETTINGS" in statement else " SETTINGS"
        rows = connection.query(f"{statement}{joined} {SETTINGS}", "ArrowTable").to_pylist()
        read = json.loads(str(connection.query(f"{statement}{joined} {SETTINGS}", "JSONCompact")))["statistics"]
        found.append((rows, read["rows_read"], read["bytes_read"]))
    sys.stdout.buffer.write(pickle.dumps(found))


main()
