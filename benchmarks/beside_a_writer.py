"""Does a statement get its turn beside a writer that never rests? Another process updates single rows of the table without Spark.

Each kind of statement has a condition that no statistics and no equality can decide, so that only a look at the rows of each commit of
the writer shows that the statement did not read them.
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tahoe
from benchmarks.measure import FOLDER, Comparison, report, start_spark

ROWS, FILES, STATEMENTS = 20_000, 10, 20
CONDITIONS = ("id % 1000 = 500", "cust + 1 = 501", "name LIKE '%7777'", "abs(id) = 500")


def run() -> list[Comparison]:
    spark, path = start_spark(), FOLDER / "beside-a-writer"
    return [_statements(spark, path, condition) for condition in CONDITIONS]


def _statements(spark: SparkSession, path: Path, condition: str) -> Comparison:
    """STATEMENTS updates by one condition: how many fail, of how many."""
    shutil.rmtree(path, ignore_errors=True)
    rows = spark.range(0, ROWS, 1, FILES).selectExpr("id", "id AS cust", "concat('n', id) AS name", "0L AS n")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(path))
    statement = f"UPDATE delta.`{path}` SET n = n + 1 WHERE {condition}"
    spark.sql(statement).collect()
    failed, seconds, before = 0, [], _version(path)
    with _writer(path):
        for _ in range(STATEMENTS):
            start = time.monotonic()
            try:
                spark.sql(statement).collect()
            except PySparkException as error:
                failed += 1
                print(error, file=sys.stderr)
            seconds.append(time.monotonic() - start)
        commits = _version(path) - before - (STATEMENTS - failed)
    print(f"{condition}: {failed} of {STATEMENTS} failed, {max(seconds):.1f} s at most", file=sys.stderr)
    return Comparison(
        question=f"UPDATE WHERE {condition}: statements that fail beside {commits / sum(seconds):.0f} commits per second",
        peer="statements",
        ours=[failed],
        theirs=[STATEMENTS],
        unit="",
        goal=0.0,
    )


def _version(path: Path) -> int:
    return tahoe.Table(path).version


@contextmanager
def _writer(path: Path) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_update_single_rows, args=(path, stop))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join()


def _update_single_rows(path: Path, stop: Event) -> None:
    table, key = tahoe.Table(path), 0
    while not stop.is_set():
        key = (key + 7) % 450  # none of the rows that the statements change, and some of their files
        table.update({"n": "n + 1"}, f"id = {key}")


if __name__ == "__main__":
    report(*run())
