"""How fast is VACUUM? 100,000 data files that a DELETE removed a month ago are deleted; then there is nothing to do;
then LITE.

Each side has a Spark session of the same version, in its own process, and a fresh copy of the table each time.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.beside_reference import Side, both, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

FILES = int(os.environ.get("DEAD_FILES", "100000"))
LONG_AGO_S = int(time.time()) - 30 * 24 * 3600

VACUUM = "spark.sql(f'VACUUM delta.`{path}`').collect()"
LITE = "spark.sql(f'VACUUM delta.`{path}` LITE').collect()"
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def run() -> list[Comparison]:
    folder = FOLDER / "vacuum"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found: dict[str, list[list[float]]] = {}
    with both() as sides:
        for statement, name in ((VACUUM, "VACUUM"), (LITE, "VACUUM LITE")):
            again: dict[str, list[float]] = {side.name: [] for side in sides}
            found[name] = turns(
                sides, lambda side, s=statement, a=again: _vacuumed(side, s, folder, a), rounds=min(ROUNDS, 2)
            )  # type: ignore[misc]
            if statement == VACUUM:
                found["VACUUM again, with nothing to do"] = [times[1:] for times in again.values()]
    shutil.rmtree(folder, ignore_errors=True)
    what = f"A table of one file, and {FILES:,} files that were removed 30 days ago, on a local disk"
    return [compared(f"{name}, {FILES:,} dead files", times, 0.1, what=what) for name, times in found.items()]


def _vacuumed(side: Side, statement: str, folder: Path, again: dict[str, list[float]]) -> float:
    path = folder / side.name
    shutil.rmtree(path, ignore_errors=True)
    write_table(path)
    seconds = side.ask(statement, path=str(path))
    left = sum(1 for file in path.iterdir() if file.suffix == ".parquet")
    assert left == 1, f"{side.name} has left {left} files"
    again[side.name].append(side.ask(statement, path=str(path)))
    return seconds


def write_table(path: Path) -> None:
    """A table whose first version has all files, whose second has removed all but one. The files are empty."""
    (path / "_delta_log").mkdir(parents=True)
    names = [
        f"part-{number:05}-0f5bb0b4-5d5c-4f8e-9c4e-{number:012}-c000.snappy.parquet" for number in range(FILES + 1)
    ]
    for name in names:
        (path / name).touch()
        os.utime(path / name, (LONG_AGO_S, LONG_AGO_S))
    for version, actions in enumerate((_created(names), _deleted(names[1:]))):
        file = path / "_delta_log" / f"{version:020}.json"
        file.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(file, (LONG_AGO_S + version, LONG_AGO_S + version))


def _created(names: list[str]) -> Iterator[dict[str, Any]]:
    yield {"commitInfo": {"timestamp": LONG_AGO_S * 1000, "operation": "WRITE"}}
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    metadata = {
        "id": "dead-files",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
    }
    yield {"metaData": {**metadata, "configuration": {}, "createdTime": LONG_AGO_S * 1000}}
    for name in names:
        add = {
            "path": name,
            "partitionValues": {},
            "size": 1000,
            "modificationTime": LONG_AGO_S * 1000,
            "dataChange": True,
        }
        yield {"add": add}


def _deleted(names: list[str]) -> Iterator[dict[str, Any]]:
    yield {"commitInfo": {"timestamp": LONG_AGO_S * 1000 + 1000, "operation": "DELETE"}}
    for name in names:
        yield {
            "remove": {"path": name, "deletionTimestamp": LONG_AGO_S * 1000 + 1000, "dataChange": True, "size": 1000}
        }


if __name__ == "__main__":
    report(*run())
