"""One side of local_cache.py: a new process asks a table once, or looks up many rows, and prints how long it took.

python -m benchmarks.local_cache_worker QUESTION URL STORAGE_OPTIONS

The process has asked a table of one row the same before, so that importing libraries is not in its time.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

import tahoe

LOOKUPS = int(os.environ.get("LOOKUPS", "1000"))
LOOKUP_ROWS = 2_000_000


ONE_ROW = pa.table({"id": [1], "l_quantity": [1.0], "l_extendedprice": [1.0], "l_discount": [0.0]})


def columns(table: tahoe.Table) -> object:
    rows = table.to_arrow(columns=["l_quantity", "l_extendedprice", "l_discount"])
    return [rows.num_rows, str(pc.sum(rows["l_extendedprice"]).as_py())]


def opened(table: tahoe.Table) -> object:
    return len(table.snapshot().live.column("path"))


def lookups(table: tahoe.Table) -> object:
    draw = random.Random(1)
    return sum(table.count(f"id = {draw.randrange(LOOKUP_ROWS)}") for _ in range(LOOKUPS))


QUESTIONS: dict[str, Callable[[tahoe.Table], object]] = {"columns": columns, "opened": opened, "lookups": lookups}

if __name__ == "__main__":
    question, url, options = sys.argv[1:]
    import tahoe.storage.cloud

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # its checksum may still be written
        small = tahoe.Table(folder)
        small.append(ONE_ROW)
        QUESTIONS[question](small)
    began = time.perf_counter()
    answer = QUESTIONS[question](tahoe.Table(url, json.loads(options)))
    print(json.dumps({"seconds": time.perf_counter() - began, "answer": answer}))
