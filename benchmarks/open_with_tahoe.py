"""One side of open_million.py: tahoe opens a table and loads paths, sizes and the minimum values of one column."""

from __future__ import annotations

import json
import sys
import time

import pyarrow.compute as pc

from benchmarks.peak_memory import peak_megabytes
from tahoe.protocol.types.schema import LONG
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.table import Table

path, column = sys.argv[1:]
began = time.perf_counter()
live = Table(path).snapshot().live
paths, sizes = live.column("path"), live.column("size_bytes")
least = live.statistics(StatisticsRequest({(column,): LONG})).column(column_name("min", (column,)))
found = {"seconds": time.perf_counter() - began, "megabytes": peak_megabytes()}
print(json.dumps({**found, "answer": [len(paths), pc.sum(sizes).as_py(), pc.sum(least).as_py()]}))
