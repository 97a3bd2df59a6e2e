"""A user's program on a cluster whose executors share a local cache, and of which one is killed while it reads. It
prints what it has found as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

import tahoe
from tahoe.spark.jvm.executor_cache import metrics_of_tasks
from tests.spark.etag_storage import ROOT, install, use_cache

DELAY_MS = 30


def executors(spark: SparkSession) -> list[int]:
    """The processes of the application's executors."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
            found += [int(process.name)] * (spark.sparkContext.applicationId in command)
    return found


def main(master: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.cores.max", "2")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.hadoop.fs.etag.delay.ms", str(DELAY_MS))
        .getOrCreate()
    )
    tahoe.enable(spark)
    install(spark, on_executors=True)
    url = f"{ROOT}{folder}/t"
    spark.range(0, 400_000, 1, 8).selectExpr("id", "cast(rand(1) as string) as text").write.format("delta").save(url)

    def answer() -> list[str]:
        (row,) = spark.read.format("delta").load(url).selectExpr("sum(id)", "sum(hash(text))", "count(*)").collect()
        return [str(value) for value in row]

    answers = [answer()]
    found: dict[str, object] = {"executors": len(executors(spark))}
    cache = use_cache(spark, Path(folder, "cache"))
    assert cache is not None
    for name in ("first", "second"):
        answers.append(answer())
        found[name] = asdict(metrics_of_tasks(cache))
    found["damaged"] = cache.verify().damaged
    shutil.rmtree(cache.folder)
    answers.append(answer())
    found["refilled"] = cache.usage().blocks
    shutil.rmtree(cache.folder)
    victim = executors(spark)[0]
    threading.Thread(target=lambda: (time.sleep(0.5), os.kill(victim, signal.SIGKILL))).start()
    answers += [answer() for _ in range(3)]
    found["killed"] = victim not in executors(spark)
    found["damaged by the kill"] = cache.verify().damaged
    found["answers"] = len(set(map(tuple, answers)))
    print("FOUND " + json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
