"""How fast are CONVERT TO DELTA and symlink manifests? Of 10,000 small files in 100 partitions; and after a commit that
touches one.

Each side has a Spark session of the same version, in its own process, and a copy of the folder of its own.
"""

from __future__ import annotations

import os
import shutil
import statistics
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.beside_reference import Side, both, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

FILES = int(os.environ.get("CONVERT_FILES", "10000"))
PARTITIONS = 100
ROWS = 100

CONVERT = "spark.sql(f'CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (p INT)').collect()"
COUNT = "spark.read.format('delta').load(path).where('c0 >= 50').selectExpr('count(*) AS n').collect()"
GENERATE = "spark.sql(f'GENERATE symlink_format_manifest FOR TABLE delta.`{path}`').collect()"
SWITCH_ON = (
    "spark.sql(f\"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.compatibility.symlinkFormatManifest.enabled' = "
    "'true')\").collect()"
)
SWITCH_OFF = SWITCH_ON.replace("'true'", "'false'")
APPEND = (
    f"spark.range({ROWS}).selectExpr('id AS c0', '7 AS p').coalesce(1).write.format('delta').mode('append').save(path)"
)

_MANIFESTS = "_symlink_format_manifest"


def run() -> list[Comparison]:
    folder = FOLDER / "convert"
    shutil.rmtree(folder, ignore_errors=True)
    with both() as sides:
        for side in sides:
            write_folder(folder / side.name)
        converted = turns(sides, lambda side: _converted(side, folder / side.name), rounds=min(ROUNDS, 3))
        for side in sides:
            side.ask(COUNT, path=str(folder / side.name))
            assert side.rows == [[str(FILES * (ROWS - 50))]], f"{side.name} counts {side.rows} rows"
        full = turns(sides, lambda side: _generated(side, folder / side.name), rounds=min(ROUNDS, 3))
        alone, kept = _appended(sides, folder)
    shutil.rmtree(folder, ignore_errors=True)
    table = f"{FILES:,} Parquet files of {ROWS} rows and 8 columns in {PARTITIONS} partitions, on a local disk"
    hook = max(0.0, statistics.median(kept[0]) - statistics.median(alone[0]))
    return [
        compared(f"CONVERT TO DELTA of {FILES:,} files", converted, 0.5, what=table),
        compared(f"GENERATE for {FILES:,} files in {PARTITIONS} partitions", full, 0.5, what=table),
        compared("append to one partition that keeps manifests current", kept, 0.5, what=table),
        compared(
            "the part of that append that the manifests take, beside GENERATE",
            [[hook], full[0]],
            0.1,
            "tahoe's own GENERATE",
            what=table,
        ),
    ]


def write_folder(path: Path) -> None:
    """The files, which are copies of one: what is measured reads only footers."""
    columns = {f"c{number}": pa.array(range(ROWS), pa.int64()) for number in range(7)}
    rows = pa.table({**columns, "s": [f"text {number}" for number in range(ROWS)]})
    for number in range(FILES):
        place = path / f"p={number % PARTITIONS}"
        place.mkdir(parents=True, exist_ok=True)
        if number == 0:
            pq.write_table(rows, path / "one", store_schema=False)
        shutil.copyfile(
            path / "one", place / f"part-{number:05}-0f5bb0b4-5d5c-4f8e-9c4e-{number:012}-c000.snappy.parquet"
        )
    (path / "one").unlink()


def _converted(side: Side, path: Path) -> float:
    shutil.rmtree(path / "_delta_log", ignore_errors=True)
    return side.ask(CONVERT, path=str(path))


def _generated(side: Side, path: Path) -> float:
    shutil.rmtree(path / _MANIFESTS, ignore_errors=True)
    seconds = side.ask(GENERATE, path=str(path))
    found = sum(len(file.read_text().splitlines()) for file in (path / _MANIFESTS).rglob("manifest"))
    assert found == FILES, f"the manifests of {side.name} list {found} files"
    return seconds


def _appended(sides: tuple[Side, Side], folder: Path) -> tuple[list[list[float]], list[list[float]]]:
    """The times of appends to one partition: without manifests, and with those that are kept current."""
    found = []
    for switch in (SWITCH_OFF, SWITCH_ON):
        for side in sides:
            side.ask(switch, path=str(folder / side.name))
        found.append(turns(sides, lambda side: side.ask(APPEND, path=str(folder / side.name)), rounds=ROUNDS))
    return found[0], found[1]


if __name__ == "__main__":
    report(*run())
