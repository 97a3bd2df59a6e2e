"""How long does a query of one partition take, of tables with ever more partitions of one file each? Figure 4 of the
paper.

A table's log is a checkpoint of ours. Only the files that are asked for exist. The first query opens the table; later
ones ask for other partitions.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tahoe
from benchmarks.logs import metadata_action
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report, start_spark

SIZES = [int(size) for size in os.environ.get("SIZES", "1000,10000,100000").split(",")]
LATER = 2 * ROUNDS


def asked(size: int) -> list[int]:
    """The partitions that queries ask for, all over the table."""
    return [(n * 7919 + 13) % size for n in range(LATER + 1)]


def make_table(folder: Path, size: int) -> None:
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"value": [1.5]}), folder / "one.parquet")
    size_bytes = (folder / "one.parquet").stat().st_size
    stats = json.dumps(
        {"numRecords": 1, "minValues": {"value": 1.5}, "maxValues": {"value": 1.5}, "nullCount": {"value": 0}}
    )
    with (folder / "_delta_log" / f"{0:020}.json").open("w") as out:
        out.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        out.write(json.dumps({"metaData": metadata_action({"part": "integer", "value": "double"}, ["part"])}) + "\n")
        for number in range(size):
            add = {
                "path": f"part={number}/f.parquet",
                "partitionValues": {"part": str(number)},
                "size": size_bytes,
                "stats": stats,
            }
            out.write(json.dumps({"add": {**add, "modificationTime": 0, "dataChange": True}}) + "\n")
    for number in asked(size):
        (folder / f"part={number}").mkdir(exist_ok=True)
        shutil.copy(folder / "one.parquet", folder / f"part={number}" / "f.parquet")
    tahoe.Table(str(folder)).create_checkpoint()


def query_times(spark: SparkSession, folder: Path, size: int) -> list[float]:
    times = []
    for number in asked(size):
        began = time.perf_counter()
        found = spark.read.format("delta").load(str(folder)).where(f"part = {number}").collect()
        times.append(time.perf_counter() - began)
        assert [row["value"] for row in found] == [1.5]
    return times


def run() -> list[Comparison]:
    spark = start_spark()
    times: dict[int, list[float]] = {}
    for size in [SIZES[0], *SIZES]:  # once more, because the first queries of a session are slow
        folder = FOLDER / f"partitions-{size}-{LATER}"
        if not (folder / "_delta_log" / "_last_checkpoint").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make_table(folder, size)
        times[size] = query_times(spark, folder, size)
    first, *larger = SIZES
    found = []
    for before, size in zip([first, *larger], larger, strict=False):
        peer = f"{before:,} partitions"
        later = {n: times[n][1:] for n in (before, size)}
        found += [
            Comparison(
                question=f"one of {size:,} partitions, first", peer=peer, ours=times[size][:1], theirs=times[before][:1]
            ),
            Comparison(
                question=f"one of {size:,} partitions, later",
                peer=peer,
                ours=later[size],
                theirs=later[before],
                goal=1.2,
            ),
        ]
    print({size: round(statistics.median(taken[1:]), 3) for size, taken in times.items()})
    return found


if __name__ == "__main__":
    report(*run())
