"""One side of open_million.py and list_files.py: delta-rs opens a table and loads paths, sizes and the minimum values
of one column.

With a third argument, `nested`, the statistics are structs with a field for each column, which is what users get who
ask for nothing else.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.peak_memory import peak_megabytes

path, column, *what = sys.argv[1:]
is_flat = what != ["nested"]
began = time.perf_counter()
table = DeltaTable(path)
opened = {"opened_seconds": time.perf_counter() - began, "opened_megabytes": peak_megabytes()}
files = table.get_add_actions(flatten=is_flat)
paths, sizes, least = (
    pa.chunked_array(files[name]) for name in ("path", "size_bytes", f"min.{column}" if is_flat else "min")
)
least = least if is_flat else pc.struct_field(least, column)
found = {"seconds": time.perf_counter() - began, "megabytes": peak_megabytes()}
print(json.dumps({**found, **opened, "answer": [len(paths), pc.sum(sizes).as_py(), pc.sum(least).as_py()]}))
