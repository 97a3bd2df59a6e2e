"""One process of ten_million.py: writes a checkpoint, or plans point queries. Its peak memory is its own."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from benchmarks.logs import CLUSTERED_BY, ORDERS_PER_FILE, put_new_file
from benchmarks.peak_memory import peak_megabytes
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.table import Table

LATER = 7


def write(path: str, order: str) -> dict[str, float]:
    """The checkpoint of the newest version, in the files' order or in the one in which the log has them; and that of
    the next version.
    """
    order_of = (
        patch("tahoe.table.commit.checkpoint_writer.order_of", lambda *_: None)
        if order == "unordered"
        else nullcontext()
    )
    with order_of:
        write_checkpoint(Table(path).snapshot())
        first, megabytes = time.process_time(), peak_megabytes()
        put_new_file(Path(path), 12)
        write_checkpoint(Table(path).snapshot())
    return {"processor_seconds": first, "again": time.process_time() - first, "megabytes": megabytes}


def query(path: str, files: str) -> dict[str, float]:
    """Plan queries for one value each. The first one opens the table."""
    table, times = Table(path), []
    for number in range(LATER + 1):
        wanted = (number * 7_919_111 % int(files)) * ORDERS_PER_FILE + 5
        began = time.perf_counter()
        scan = table.snapshot().scan(f"{CLUSTERED_BY} = {wanted}")
        found = scan.files
        times.append(time.perf_counter() - began)
        assert len(found) == 1, f"{len(found)} files have order {wanted}"
    return {"first": times[0], "later": sorted(times[1:])[LATER // 2], "total": scan.total_files}


if __name__ == "__main__":
    job, *arguments = sys.argv[1:]
    found = {"write": write, "query": query}[job](*arguments)
    print(json.dumps({"processor_seconds": time.process_time(), "megabytes": peak_megabytes(), **found}))
