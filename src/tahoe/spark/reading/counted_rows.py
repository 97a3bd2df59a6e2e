"""Row indexes from a native engine, which generates none: it counts the rows of each task, whose files and their order are known.

Spark packs the files of a scan into tasks by their sizes, the largest first. The listing of a scan has them in this order, and with each
file the number of rows that its task reads before it. No condition may reach the reader. A scan that leaves out files after the listing, by
the keys of a join, has a task for each file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.reading.metadata_columns import ROW_INDEX
from tahoe.table.arrow.chunks import reordered_table

# The hidden partition column with the number of rows that a file's task reads before the file, and above that the number of the file: Spark
# puts files with equal partition values together, and so would change their order.
START = "__tahoe_start"

# The count of rows has the number of the task above these bits.
_COUNT_BITS = 33
_COUNT = (1 << _COUNT_BITS) - 1

COUNTED_ROWS = f"(monotonically_increasing_id() & {_COUNT}) - ({START} & {_COUNT}) as {ROW_INDEX}"
"""The row index, as SQL over a scan whose files are `in_tasks`."""

# Spark's reader splits larger files between tasks, and skips what a condition excludes. It is the size of Spark's splits.
FILE_BYTES_MAX = 128 << 20

# Smaller tasks take no less time.
TASK_BYTES_MIN = 1 << 20

# With these settings Spark leaves out files while it reads.
_SKIPPING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")


def task_bytes(gateway: Gateway, sizes: pa.ChunkedArray, counts: pa.ChunkedArray) -> int | None:
    """How many bytes of files a task reads, if rows are to be counted; None if Spark's reader is faster, or rows cannot be counted.

    Args:
        sizes: of the files, in bytes.
        counts: of their rows; null if statistics do not tell.
    """
    if not len(sizes) or counts.null_count or pc.max(sizes).as_py() > FILE_BYTES_MAX:
        return None
    settings = gateway.settings()
    if any(settings.get(name, "false").lower() == "true" for name in _SKIPPING):
        return None
    share = int(pc.sum(sizes).as_py()) // (2 * gateway.spark.sparkContext.defaultParallelism)
    wanted = max(int(pc.max(sizes).as_py()), min(share, FILE_BYTES_MAX), TASK_BYTES_MIN)
    return 1 << (wanted - 1).bit_length()  # a session is kept for each of these: one to two tasks for each core


def in_tasks(files: pa.Table, bytes_max: int) -> pa.Table:
    """The files of a scan in the order in which tasks read them, with `START`. Spark packs them in the same way.

    Args:
        files: with the columns `size_bytes` and `num_records`.
        bytes_max: from `task_bytes`.
    """
    ordered = reordered_table(files, pc.sort_indices(files["size_bytes"], sort_keys=[("", "descending")]))
    limit = min(bytes_max, pc.sum(files["size_bytes"]).as_py() or 0)
    starts, filled, before = [], 0, 0
    for number, (size, count) in enumerate(zip(ordered["size_bytes"].to_pylist(), ordered["num_records"].to_pylist(), strict=True)):
        if filled + size > limit:
            filled = before = 0
        starts.append(number << _COUNT_BITS | before)
        filled, before = filled + size, before + count
    return ordered.append_column(START, pa.array(starts, pa.int64()))


def of_single_files(starts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of `START` where each file is a task of its own."""
    return pc.bit_wise_and(starts, ~_COUNT)
