"""Does a statement get its turn beside a writer that never rests? Another process updates single rows of the table
without Spark.

Each kind of statement has a condition that no statistics and no equality can decide, so that only a look at the rows of
each commit of the writer shows that the statement did not read them.
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

ROWS, FILES, TIMES = 20_000, 10, 20
UPDATE = "UPDATE delta.`{table}` SET n = n + 1 WHERE "
STATEMENTS = (
    UPDATE + "id % 1000 = 500",
    UPDATE + "cust + 1 = 501",
    UPDATE + "name LIKE '%7777'",
    UPDATE + "abs(id) = 500",
    UPDATE + "id IN (SELECT k FROM delta.`{other}`)",
    "MERGE INTO delta.`{table}` t USING delta.`{other}` s ON t.id + 0 = s.k WHEN MATCHED THEN UPDATE SET n = t.n + 1",
)


def run() -> list[Comparison]:
    spark, path = start_spark(), FOLDER / "beside-a-writer"
    return [_repeated(spark, path, statement) for statement in STATEMENTS]


def _repeated(spark: SparkSession, path: Path, text: str) -> Comparison:
    """One statement, TIMES times: how often it fails."""
    other = path.with_name(f"{path.name}-other")
    for folder in (path, other):
        shutil.rmtree(folder, ignore_errors=True)
    spark.range(500, ROWS, 1000).withColumnRenamed("id", "k").coalesce(1).write.format("delta").save(str(other))
    rows = spark.range(0, ROWS, 1, FILES).selectExpr("id", "id AS cust", "concat('n', id) AS name", "0L AS n")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(path))
    statement, what = text.format(table=path, other=other), text.format(table="t", other="other").replace("delta.", "")
    spark.sql(statement).collect()
    failed, seconds, before = 0, [], _version(path)
    with _writer(path):
        for _ in range(TIMES):
            start = time.monotonic()
            try:
                spark.sql(statement).collect()
            except PySparkException as error:
                failed += 1
                print(error, file=sys.stderr)
            seconds.append(time.monotonic() - start)
        commits = _version(path) - before - (TIMES - failed)
    print(f"{what}: {failed} of {TIMES} failed, {max(seconds):.1f} s at most", file=sys.stderr)
    return Comparison(
        question=f"{what}: statements that fail beside {commits / sum(seconds):.0f} commits per second",
        peer="statements",
        ours=[failed],
        theirs=[TIMES],
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
