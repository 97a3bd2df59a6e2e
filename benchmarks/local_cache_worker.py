"""One side of local_cache.py: a new process asks a table once, or looks up many rows, and prints how long it took.

python -m benchmarks.local_cache_worker QUESTION URL STORAGE_OPTIONS
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable

import pyarrow.compute as pc

import tahoe

LOOKUPS = int(os.environ.get("LOOKUPS", "1000"))
LOOKUP_ROWS = 2_000_000


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

    began = time.perf_counter()
    answer = QUESTIONS[question](tahoe.Table(url, json.loads(options)))
    print(json.dumps({"seconds": time.perf_counter() - began, "answer": answer}))
