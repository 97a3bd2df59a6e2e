"""Does a call through Spark cost no more than four times as much on a table that is four times as large, in one
dimension alone?

As `growth.py`, with its tables and its variables `DIMENSIONS`, `CALLS` and `SMALLER`. The two sides are CPU seconds of
Spark's JVM and of this process, the least of some runs, each on a copy of the table that the session has never met.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.growth import Shape, chosen, compared, copy_of
from benchmarks.measure import FOLDER, Comparison, report, start_spark
from tahoe.storage.background import finish_background

ROUNDS = int(os.environ.get("ROUNDS", "2"))

# The smaller of the two sizes in each dimension.
DIMENSIONS: Mapping[str, int] = {"versions": 500, "files": 500, "partitions": 500, "columns": 250}

# How long the first batch of a stream may take.
_BATCH_S = 120

Call = Callable[[SparkSession, str, Shape], object]


def _sql(text: str) -> Call:
    return lambda spark, path, shape: spark.sql(text.format(t=f"delta.`{path}`", half=shape.versions // 2)).collect()


def _loaded(spark: SparkSession, path: str) -> Any:
    return spark.read.format("delta").load(path)


def _append(spark: SparkSession, path: str, _: Shape) -> None:
    _loaded(spark, path).where("id = 1").write.format("delta").mode("append").save(path)


def _stream_start(spark: SparkSession, path: str, _: Shape) -> None:
    """The first batch, of four files."""
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 4).load(path)
    query = stream.writeStream.format("noop").trigger(processingTime="1 hour").start()
    try:
        give_up = time.monotonic() + _BATCH_S
        while not query.recentProgress and query.isActive and time.monotonic() < give_up:
            time.sleep(0.02)
        assert query.recentProgress, query.exception() or "no batch"
    finally:
        query.stop()


_MERGE = "MERGE INTO {t} AS t USING (SELECT * FROM {t} WHERE id = 1) AS s ON t.id = s.id"

CALLS: Mapping[str, Call] = {
    "open and count": lambda spark, path, _: _loaded(spark, path).count(),
    "rows": lambda spark, path, _: _loaded(spark, path).where("id = 1").collect(),
    "history": _sql("DESCRIBE HISTORY {t}"),
    "detail": _sql("DESCRIBE DETAIL {t}"),
    "vacuum dry": _sql("VACUUM {t} DRY RUN"),
    "stream start": _stream_start,
    "append": _append,
    "delete": _sql("DELETE FROM {t} WHERE id = 1"),
    "update": _sql("UPDATE {t} SET id = 7 WHERE id = 1"),
    "merge": _sql(_MERGE + " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
    "optimize": _sql("OPTIMIZE {t}"),
    "restore": _sql("RESTORE TABLE {t} TO VERSION AS OF {half}"),
    "clone": lambda spark, path, _: spark.sql(
        f"CREATE TABLE delta.`{path}-clone` SHALLOW CLONE delta.`{path}`"
    ).collect(),
}


def cpu_seconds(jvm: int) -> float:
    """What Spark's JVM and this process have used. Linux only."""
    fields = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


def run() -> list[Comparison]:
    spark, copies = start_spark(), count()
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def measured(name: str, table: Path, shape: Shape) -> list[float]:
        found = []
        for _ in range(ROUNDS):
            folder = copy_of(table, next(copies))
            began = cpu_seconds(jvm)
            CALLS[name](spark, str(folder), shape)
            finish_background()
            found.append(cpu_seconds(jvm) - began)
            for made in table.parent.glob(f"{folder.name}*"):
                shutil.rmtree(made)
        return found

    return compared(FOLDER / "growth-spark", DIMENSIONS, chosen(CALLS, "CALLS"), measured)


if __name__ == "__main__":
    report(*run())
