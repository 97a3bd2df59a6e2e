"""One process that works on a table: python -m tests.processes.worker ROLE URL OPTIONS NUMBER COUNT

ROLE is `append`, one row a commit, or `delete`, one row a commit by a condition on a column, through deletion vectors.
It says each commit that it was told to have made, as a line of its own on its output: version and id.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from tests.processes.workers import opened


def main(role: str, url: str, options: str, number: int, count: int) -> None:
    table = opened((url, json.loads(options)))
    for turn in range(count):
        row = number * count + turn
        if role == "append":
            version = table.append(pa.table({"id": [1_000_000 + row]}), user_metadata=str(row))
        else:
            with table.transaction(user_metadata=str(row)) as changes:
                assert changes.delete(f"id = {row}") == 1
            version = changes.version
        print(version, row, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]))
