"""One process of past_driver.py: one question about a table of very many files. Its peak memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from benchmarks.past_driver_logs import COMMITS, FIRST_DAY, ORDERS_PER_FILE, SMALL_BYTES, VERSION, listed, put_change
from benchmarks.peak_memory import peak_megabytes, peak_megabytes_of_all, resident_bytes
from tahoe.storage.env import Store, Tree
from tahoe.table.cleanup.vacuum import VacuumRequest, vacuum
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.layout.clustering import Order, OrderRequest, plan_cubes
from tahoe.table.layout.compaction import CompactionSettings, plan_bins
from tahoe.table.log.delta_log import Log
from tahoe.table.table import Table
from tahoe.table.versions.table_reader import TableReader

LATER = 5
APPENDS = 40


def point(path: str, files: int) -> dict[str, float]:
    """Plan queries for one value each. The first one opens the table."""
    table, times = Table(path), []
    for number in range(LATER + 1):
        began = time.process_time()
        scan = table.snapshot().scan(f"order_key = {(number * 6_700_417 % files) * ORDERS_PER_FILE + 5}")
        kept = scan.files.num_rows
        times.append(time.process_time() - began)
        assert kept == 1, f"{kept} files have the order"
    return {"first": times[0], "later": sorted(times[1:])[LATER // 2]}


def point_in_spark(path: str, files: int) -> dict[str, float]:
    """The same query, planned by Spark; its file does not exist, so it is not read."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - counts in the memory of this question alone

    import tahoe  # noqa: PLC0415

    spark = tahoe.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    began = time.perf_counter()
    where = f"order_key = {files // 3 * ORDERS_PER_FILE + 5}"
    kept = len(spark.read.format("delta").load(path).where(where).inputFiles())
    answer = {"first": time.perf_counter() - began, "files": kept, "of_all": peak_megabytes_of_all()}
    spark.stop()
    return answer


def scan_in_spark(path: str, files: int) -> dict[str, float]:
    """Plan a scan of all files, up to the partitions of its job: bytes of each file that stay, and the peaks."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - counts in the memory of this question alone

    import tahoe  # noqa: PLC0415

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "8g")
    spark = tahoe.configure(builder).getOrCreate()
    java = spark.sparkContext._jvm.java.lang  # type: ignore[union-attr]

    def heap() -> int:
        java.System.gc()
        return int(java.Runtime.getRuntime().totalMemory() - java.Runtime.getRuntime().freeMemory())

    read = spark.read.format("delta").load(path)
    before, resident = heap(), resident_bytes()
    plan = read._jdf.queryExecution().executedPlan()
    tasks = plan.execute().getNumPartitions()
    after = {"tasks": tasks, "java": (heap() - before) / files, "python": (resident_bytes() - resident) / files}
    answer = {**after, "of_all": peak_megabytes_of_all()}
    spark.stop()
    return answer


def checkpoint(path: str, files: int) -> dict[str, float]:
    """The checkpoint of a version behind another one, and the next one after one more commit."""
    write_checkpoint(Table(path).snapshot())
    first = time.process_time()
    put_change(Path(path), VERSION + COMMITS + 1, files)
    write_checkpoint(Table(path).snapshot())
    return {"again": time.process_time() - first}


def whole_checkpoint(path: str, files: int) -> dict[str, float]:
    """The same checkpoint, if it keeps no sidecar of the one before."""
    del files
    write_checkpoint(Table(path).snapshot(), with_tombstones=False)
    return {}


class _Listed:
    """A store in whose folder are the files that the log names, and some others."""

    def __init__(self, inner: Store, files: int) -> None:
        self._inner, self._files = inner, files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def branches(self) -> Iterator[Tree]:
        for keys, modified_ms in listed(self._files):
            tree = Tree(keys=keys.to_pylist())
            tree.sizes_bytes.extend([400_000] * len(keys))
            tree.modified_ms.extend([modified_ms] * len(keys))
            yield tree


def dry_vacuum(path: str, files: int) -> dict[str, float]:
    env = Table(path).env
    store = cast("Store", _Listed(env.store, files))
    report = vacuum(TableReader.knowing(Log(replace(env, store=store)), None), VacuumRequest(dry_run=True))
    return {"dead": len(report.files)}


def bins(path: str, files: int) -> dict[str, float]:
    """The files that OPTIMIZE would rewrite."""
    del files
    return {"bins": len(plan_bins(Table(path).snapshot().full_scan, CompactionSettings()))}


def few_bins(path: str, files: int) -> dict[str, float]:
    """The same, if one file in a hundred is small."""
    del files
    settings = CompactionSettings(min_file_bytes=SMALL_BYTES)
    found = plan_bins(Table(path).snapshot().full_scan, settings)
    return {"bins": len(found), "files": sum(len(one_bin.numbers) for one_bin in found)}


def cubes(path: str, files: int) -> dict[str, float]:
    """The files that OPTIMIZE of a clustered table would lay out: those of the commits, which are in no cube."""
    del files
    order = Order(columns=(("order_key",),), is_clustered=True, request=OrderRequest())
    found = plan_cubes(Table(path).snapshot().full_scan, order, CompactionSettings(), repeat("cube"))
    return {"cubes": len(found), "files": sum(len(one_bin.numbers) for one_bin in found)}


def append(path: str, files: int) -> dict[str, float]:
    """Some small files that are there."""
    del files
    table, day = Table(path), pa.array([FIRST_DAY.item()] * 10)
    for number in range(APPENDS):
        numbers = pa.array(range(number * 10, number * 10 + 10))
        amounts, comments = numbers.cast(pa.float64()), numbers.cast(pa.string())
        table.append(pa.table({"order_key": numbers, "amount": amounts, "comment": comments, "day": day}))
    return {}


def optimize(path: str, files: int) -> dict[str, float]:
    """OPTIMIZE, if only the files of some appends are small."""
    subprocess.run([sys.executable, "-m", "benchmarks.past_driver_worker", "append", path, str(files)], check=True)
    began = time.process_time()
    report = Table(path).optimize(min_file_bytes=SMALL_BYTES // 2)
    return {"took": time.process_time() - began, "rewritten": len(report.removed_bytes)}


JOBS: dict[str, Callable[[str, int], dict[str, float]]] = {
    job.__name__: job
    for job in (
        point,
        point_in_spark,
        scan_in_spark,
        checkpoint,
        whole_checkpoint,
        dry_vacuum,
        bins,
        few_bins,
        cubes,
        append,
        optimize,
    )
}

if __name__ == "__main__":
    name, table, count = sys.argv[1:]
    began = time.perf_counter()
    found = JOBS[name](table, int(count))
    times = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time()}
    print(json.dumps({**times, "megabytes": peak_megabytes(), **found}))
