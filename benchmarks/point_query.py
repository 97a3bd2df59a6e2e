"""How much do statistics speed up a query for one row in 10,000 files?

Both tables have the same data files. The log of one has no statistics.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.logs import metadata_action
from benchmarks.measure import FOLDER, Comparison, compare, report, start_spark

FILES = int(os.environ.get("FILES", "10000"))
ROWS_PER_FILE = 500


def make_tables(folder: Path) -> None:
    """`with_statistics` and `without_statistics`, over the same files."""
    chance = random.Random(1)
    first, second = (folder / name for name in ("with_statistics", "without_statistics"))
    for table in (first, second):
        (table / "_delta_log").mkdir(parents=True)
    header = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata_action({"id": "long", "value": "double", "text": "string"}, [])},
    ]
    logs: dict[Path, list[dict[str, object]]] = {first: list(header), second: list(header)}
    for number in range(FILES):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        name = f"part-{number:05}.parquet"
        values = [chance.random() for _ in ids]
        pq.write_table(pa.table({"id": list(ids), "value": values, "text": [f"row {i}" for i in ids]}), first / name)
        (second / name).hardlink_to(first / name)
        bounds = {"minValues": {"id": ids[0], "value": min(values)}, "maxValues": {"id": ids[-1], "value": max(values)}}
        add = {
            "path": name,
            "partitionValues": {},
            "size": (first / name).stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
        }
        stats = json.dumps({"numRecords": ROWS_PER_FILE, **bounds, "nullCount": {"id": 0, "value": 0, "text": 0}})
        logs[first].append({"add": {**add, "stats": stats}})
        logs[second].append({"add": add})
    for table, actions in logs.items():
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (table / "_delta_log" / f"{0:020}.json").write_text(text)


def run() -> list[Comparison]:
    folder = FOLDER / f"point-{FILES}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        make_tables(folder)
        (folder / "done").touch()
    spark = start_spark()
    turns = {name: count(1) for name in ("with_statistics", "without_statistics")}

    def find(name: str) -> None:
        wanted = next(turns[name]) * 7919 % (FILES * ROWS_PER_FILE)
        rows = spark.read.format("delta").load(str(folder / name)).where(f"id = {wanted}").collect()
        assert [row["id"] for row in rows] == [wanted]

    return [
        compare(
            f"one row of {FILES:,} files",
            peer="the same without statistics",
            ours=lambda: find("with_statistics"),
            theirs=lambda: find("without_statistics"),
            goal=0.1,
        )
    ]


if __name__ == "__main__":
    report(*run())
