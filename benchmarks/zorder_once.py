"""One side of zorder.py: orders the rows of a Delta table without Spark, in a process of its own.

`python -m benchmarks.zorder_once tahoe|delta-rs PATH COLUMNS BYTES`

Prints the seconds and the peak memory in MB.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

from benchmarks.peak_memory import peak_megabytes


def main() -> None:
    side, path, columns, size = sys.argv[1:]
    module = import_module("tahoe" if side == "tahoe" else "deltalake")
    began = time.perf_counter()
    if side == "tahoe":
        module.Table(path).optimize(z_order_by=columns.split(","), max_file_bytes=int(size))
    else:
        module.DeltaTable(path).optimize.z_order(columns.split(","), target_size=int(size))
    print(time.perf_counter() - began, peak_megabytes())


if __name__ == "__main__":
    main()
