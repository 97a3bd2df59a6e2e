"""Threads that change single rows of one table, with or without a compaction beside them. Runs on both sides of a
comparison.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from pyspark.sql import SparkSession


def change_rows(spark: SparkSession, path: str, threads: int, seconds: float, is_compacted: bool) -> list[int]:
    """Let each thread change rows of its own by DELETE, UPDATE and MERGE in turn, until the time is over.

    Returns:
        the number of commands that were done, of those that failed, and of compactions that committed.
    """
    counts: Counter[str] = Counter()
    until = time.monotonic() + seconds

    def write(thread: int) -> None:
        for number in range(1_000_000):
            if time.monotonic() > until:
                return
            counts[_tried(spark, _statement(path, thread + threads * number, number))] += 1

    def compact() -> None:
        while time.monotonic() < until:
            counts[f"compaction {_tried(spark, f'OPTIMIZE delta.`{path}`')}"] += 1

    work = [threading.Thread(target=write, args=(thread,)) for thread in range(threads)]
    work += [threading.Thread(target=compact)] if is_compacted else []
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    return [counts["done"], counts["failed"], counts["compaction done"]]


def _statement(path: str, key: int, number: int) -> str:
    match number % 3:
        case 0:
            return f"DELETE FROM delta.`{path}` WHERE id = {key}"
        case 1:
            return f"UPDATE delta.`{path}` SET n = n + 1 WHERE id = {key}"
        case _:
            source = f"(SELECT {key}L AS id)"
            return (
                f"MERGE INTO delta.`{path}` t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1"
            )


def _tried(spark: SparkSession, statement: str) -> str:
    try:
        spark.sql(statement).collect()
    except Exception as error:
        if not any(name in str(error) for name in ("CONCURRENT", "Concurrent")):
            raise
        return "failed"
    return "done"
