"""One system of figure4.py in its own process and Python environment: SYSTEM URL JARS SETTINGS. It reads the names of
steps from stdin, and prints the answer, the seconds and the peak memory of each.

It also runs where tahoe is not installed, so it imports tahoe only on tahoe's side.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from benchmarks.peak_memory import peak_megabytes_of_all, processor_seconds_of_all

PARTITIONS_CHANGED = 1000
ROWS_APPENDED = 33
LOOKUPS = 5

Answer: TypeAlias = "int | None"
Timed: TypeAlias = "tuple[float, Answer]"


class Session:
    """A Spark session of one system, and what it does with the table.

    Args:
        system: `tahoe`, `reference` or `parquet`.
        url: of the table.
        partitions: how many it has.
        settings: of the session.
    """

    def __init__(self, system: str, url: str, partitions: int, settings: Mapping[str, str]) -> None:
        self._system, self._url, self._partitions = system, url, partitions
        self._format = "parquet" if system == "parquet" else "delta"
        builder = SparkSession.builder.appName(f"figure 4, {system}")
        for name, value in settings.items():
            builder = builder.config(name, value)
        if system == "reference":
            builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
                "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
            )
        self._spark = builder.getOrCreate()
        if system == "tahoe":
            import_module("tahoe").enable(self._spark)
        self._spark.range(10).where("id > 3").selectExpr("sum(id)").collect()
        self._frame: DataFrame | None = None

    @property
    def frame(self) -> DataFrame:
        """The table as it was opened, which each query of it reads again."""
        assert self._frame is not None, "the first step opens the table"
        return self._frame

    def open(self) -> Timed:
        """Open the table and ask for the sum of one partition."""
        began = time.perf_counter()
        self._frame = self._spark.read.format(self._format).load(self._url)
        answer = self._sum_of(13)
        return time.perf_counter() - began, answer

    def one(self) -> Timed:
        """The sums of other single partitions: the median time, and the last answer."""
        times, answer = [], None
        for number in range(LOOKUPS + 1):
            began = time.perf_counter()
            answer = self._sum_of((number * 7919 + 17) % self._partitions)
            times.append(time.perf_counter() - began)
        return statistics.median(times[1:]), answer

    def _sum_of(self, partition: int) -> Answer:
        return _only(self.frame.where(f"p = {partition}").selectExpr("sum(value)"))

    def plan(self) -> Timed:
        """Plan a scan of all files, until Spark has cut them into tasks."""
        return _timed(lambda: self.frame.select("value")._jdf.queryExecution().executedPlan().execute() and None)

    def show(self) -> Timed:
        """List the partitions. Only tahoe has a statement for it that knows a table by its path."""
        if self._system == "tahoe":
            return _timed(lambda: self._spark.sql(f"SHOW PARTITIONS delta.`{self._url}`").count())
        return _timed(lambda: self.frame.select("p").distinct().count())

    def sum(self) -> Timed:
        return _timed(lambda: _only(self.frame.selectExpr("sum(value)")))

    def delete(self) -> Timed:
        """Delete 1,000 partitions, for which no file is read."""
        statement = f"DELETE FROM delta.`{self._url}` WHERE p < {PARTITIONS_CHANGED}"
        return _timed(lambda: self._spark.sql(statement).collect() and None)

    def append(self) -> Timed:
        """Append 33 rows to each of 1,000 partitions, one file each."""
        rows = self._spark.range(PARTITIONS_CHANGED * ROWS_APPENDED)
        rows = rows.selectExpr(f"cast(id % {PARTITIONS_CHANGED} AS int) AS p", "id AS value").repartition("p")
        writer = rows.write.format(self._format).mode("append").partitionBy("p")
        return _timed(lambda: writer.save(self._url))

    def stop(self) -> None:
        self._spark.stop()


def _only(frame: DataFrame) -> Answer:
    return frame.collect()[0][0]  # type: ignore[no-any-return]


def _timed(ask: Callable[[], Answer]) -> Timed:
    began = time.perf_counter()
    answer = ask()
    return time.perf_counter() - began, answer


def main() -> None:
    system, url, partitions, settings = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Spark prints must not be taken for an answer
    session = Session(system, url, int(partitions), json.loads(settings))
    print(json.dumps({"ready": True}), file=out, flush=True)
    for step in map(str.strip, sys.stdin):
        before = processor_seconds_of_all()
        try:
            seconds, answer = getattr(session, step)()
            told = {
                "seconds": seconds,
                "processor_seconds": (processor_seconds_of_all() - before) / (LOOKUPS + 1 if step == "one" else 1),
                "answer": answer,
                "megabytes": peak_megabytes_of_all(),
            }
        except Exception as error:  # a system may fail: too little memory, for one
            told = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(told), file=out, flush=True)
    session.stop()


if __name__ == "__main__":
    main()
