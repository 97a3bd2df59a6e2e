"""A driver with a stream from one table into another: `python long_stream.py FOLDER SECONDS`. It prints a sample of its
memory every few seconds as a line of JSON: the heap that the JVM needs after a collection, and the memory of Python, in
MB.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import tahoe

SAMPLES = 40

# What Spark keeps of finished jobs and batches for its UI, up to these limits, is not a leak. In a short run it would
# look like one.
FEW = {
    **{f"spark.ui.retained{what}": "10" for what in ("Jobs", "Stages", "Tasks")},
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.ui.retainedQueries": "1",
}


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    builder = builder.config("spark.driver.memory", "1g").config("spark.log.level", "ERROR").config(map=FEW)
    spark = tahoe.enable(builder.getOrCreate())
    rows = spark.readStream.format("delta").option("ignoreDeletes", "true").load(str(folder / "source"))
    query = (
        rows.writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "sink"))
    )
    begin = time.monotonic()
    for sample in range(SAMPLES + 1):
        time.sleep(max(begin + seconds * sample / SAMPLES - time.monotonic(), 0))
        error = query.exception()
        if error is not None:
            raise error
        print(
            "SAMPLE " + json.dumps({"second": time.monotonic() - begin, "heap": heap_of(spark), "python": resident()}),
            flush=True,
        )
    query.processAllAvailable()
    print("BATCHES " + str(query.lastProgress["batchId"]), flush=True)
    query.stop()


def heap_of(spark: SparkSession) -> float:
    """What is left in the heap after a collection, in MB. Objects of Python's that are gone release theirs in the JVM
    first.
    """
    gc.collect()
    jvm = spark._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def resident() -> float:
    """The memory of this process, in MB."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
