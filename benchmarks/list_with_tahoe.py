"""One side of list_files.py: tahoe lists the files of a table, and with `statistics` also the statistics of all
columns.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time

import pyarrow.compute as pc

from benchmarks.peak_memory import peak_megabytes
from tahoe.table.table import Table

if importlib.util.find_spec("pandas"):
    import pandas  # noqa: F401  Arrow imports it when it first needs to know what a value is; imports count in the memory, not in the time

path, column, what = sys.argv[1:]
began = time.perf_counter()
table = Table(path)
files = table.files()
statistics = table.inspect.statistics() if what == "statistics" else None
found = {"seconds": time.perf_counter() - began, "megabytes": peak_megabytes()}
least = table.inspect.statistics() if statistics is None else statistics
answer = [
    files.num_rows,
    pc.sum(files["size_bytes"]).as_py(),
    pc.sum(pc.struct_field(least["min_values"], column)).as_py(),
]
print(json.dumps({**found, "answer": answer}))
