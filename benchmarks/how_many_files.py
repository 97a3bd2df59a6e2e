"""How fast is a table by the number of its files? The same rows, ordered by their key, in 1 to 1,000 files: a sum over
all of them, one key, and a DELETE of one key, beside the number of files at which that is fastest.
"""

from __future__ import annotations

import shutil
import statistics
import time

from pyspark.sql import SparkSession

import tahoe
from benchmarks.measure import FOLDER, ROUNDS, Comparison, lineitem, report

FILES = (1, 10, 100, 1000)
KEY = 4711
QUESTIONS = ("sum of all rows", "rows of one key", "DELETE of one key")


def run() -> list[Comparison]:
    folder = FOLDER / "how-many-files"
    shutil.rmtree(folder, ignore_errors=True)
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    tahoe.enable(spark)
    rows = spark.read.parquet(lineitem())
    for files in FILES:
        ordered = rows.repartitionByRange(files, "l_orderkey").sortWithinPartitions("l_orderkey")
        ordered.write.format("delta").save(f"{folder}/{files}")
    times: dict[str, dict[int, list[float]]] = {question: {files: [] for files in FILES} for question in QUESTIONS}
    for number in range(ROUNDS + 1):
        for files in FILES if number % 2 else FILES[::-1]:
            for question in QUESTIONS:
                seconds = _asked(spark, question, f"{folder}/{files}", KEY + 32 * number)
                if number:
                    times[question][files].append(seconds)
    sizes = {files: tahoe.Table(f"{folder}/{files}").snapshot().live.totals.size_bytes / files for files in FILES}
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return [found for question in QUESTIONS for found in _compared(question, times[question], sizes)]


def _asked(spark: SparkSession, question: str, path: str, key: int) -> float:
    table = spark.read.format("delta").load(path)
    began = time.perf_counter()
    match question:
        case "sum of all rows":
            table.selectExpr("sum(l_quantity * l_extendedprice)", "max(l_shipmode)").collect()
        case "rows of one key":
            table.where(f"l_orderkey = {key}").collect()
        case _:
            spark.sql(f"DELETE FROM delta.`{path}` WHERE l_orderkey = {key}").collect()
    return time.perf_counter() - began


def _compared(question: str, times: dict[int, list[float]], sizes: dict[int, float]) -> list[Comparison]:
    best = min(FILES, key=lambda files: statistics.median(times[files]))
    return [
        Comparison(
            question=f"{question}, {files:,} files of {sizes[files] / 2**20:.2f} MiB",
            peer=f"{best:,} files",
            ours=times[files],
            theirs=times[best],
        )
        for files in FILES
    ]


if __name__ == "__main__":
    report(*run())
