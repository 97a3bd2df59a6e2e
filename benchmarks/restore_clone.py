"""How fast are RESTORE and CLONE? RESTORE brings back 1,000 and 100,000 files that a DELETE removed; a shallow clone
names 100,000 files.

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

FILES = int(os.environ.get("ADOPTED_FILES", "100000"))
FEW = min(1000, FILES)
SHORTLY_AGO_S = int(time.time()) - 3600

RESTORE = "spark.sql(f'RESTORE TABLE delta.`{path}` TO VERSION AS OF 0').collect()"
CLONE = "spark.sql(f'CREATE TABLE delta.`{path}-clone` SHALLOW CLONE delta.`{path}` VERSION AS OF 0').collect()"
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
STATS = '{"numRecords":10,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'


def run() -> list[Comparison]:
    folder = FOLDER / "restore-clone"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    what = "A version whose files a DELETE removed an hour ago, on a local disk"
    found = []
    with both() as sides:
        for name, statement, files, goal in (
            (f"RESTORE over {FEW:,} files", RESTORE, FEW, 0.15),
            (f"RESTORE over {FILES:,} files", RESTORE, FILES, 0.15),
            (f"Shallow clone of {FILES:,} files", CLONE, FILES, 0.3),
        ):
            times = turns(sides, lambda side, s=statement, n=files: _timed(side, s, folder, n), rounds=min(ROUNDS, 2))  # type: ignore[misc]
            found.append(compared(name, times, goal, what=what))
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _timed(side: Side, statement: str, folder: Path, files: int) -> float:
    path = folder / side.name
    clone = folder / f"{side.name}-clone"
    for left in (path, clone):
        shutil.rmtree(left, ignore_errors=True)
    write_table(path, files)
    seconds = side.ask(statement, path=str(path))
    made = clone if clone.exists() else path
    commit = max((made / "_delta_log").glob("*.json"))
    adds = sum(line.startswith('{"add"') for line in commit.read_text().splitlines())
    assert adds == files, f"{side.name} has added {adds} of {files} files"
    return seconds


def write_table(path: Path, files: int) -> None:
    """A table whose first version has the files, and whose second has one other file. The files are empty."""
    (path / "_delta_log").mkdir(parents=True)
    names = [
        f"part-{number:05}-0f5bb0b4-5d5c-4f8e-9c4e-{number:012}-c000.snappy.parquet" for number in range(files + 1)
    ]
    for name in names:
        (path / name).touch()
    for version, actions in enumerate((_created(names[1:]), _replaced(names[1:], names[0]))):
        file = path / "_delta_log" / f"{version:020}.json"
        file.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(file, (SHORTLY_AGO_S + version, SHORTLY_AGO_S + version))


def _add(name: str, number: int) -> dict[str, Any]:
    stats = STATS % (10 * number, 10 * number + 9)
    common = {
        "path": name,
        "partitionValues": {},
        "size": 1000,
        "modificationTime": SHORTLY_AGO_S * 1000,
        "dataChange": True,
    }
    return {"add": {**common, "stats": stats}}


def _created(names: list[str]) -> Iterator[dict[str, Any]]:
    yield {"commitInfo": {"timestamp": SHORTLY_AGO_S * 1000, "operation": "WRITE"}}
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    metadata = {
        "id": "removed-files",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
    }
    yield {"metaData": {**metadata, "configuration": {}, "createdTime": SHORTLY_AGO_S * 1000}}
    yield from (_add(name, number) for number, name in enumerate(names))


def _replaced(names: list[str], other: str) -> Iterator[dict[str, Any]]:
    yield {"commitInfo": {"timestamp": SHORTLY_AGO_S * 1000 + 1000, "operation": "DELETE"}}
    yield _add(other, 0)
    for name in names:
        yield {
            "remove": {"path": name, "deletionTimestamp": SHORTLY_AGO_S * 1000 + 1000, "dataChange": True, "size": 1000}
        }


if __name__ == "__main__":
    report(*run())
