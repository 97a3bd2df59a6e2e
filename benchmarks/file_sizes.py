"""What do optimised writes and auto compaction cost, and how many files do they leave?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.beside_reference import READ, Side, both, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, Comparison, lineitem, report

APPENDS = int(os.environ.get("APPENDS", "200"))
PARTITIONS = 100

# Rows of all partitions are in each of the eight tasks.
_ROWS = (
    f"spark.read.parquet(source).withColumn('part', F.pmod(F.hash('l_orderkey'), F.lit({PARTITIONS}))).repartition(8)"
)
_WRITE = f"{_ROWS}.write.format('delta').partitionBy('part')"
_COUNT_FILES = f"{READ}.select('_metadata.file_path').distinct().count()"


def run() -> list[Comparison]:
    folder = FOLDER / "file-sizes"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with both() as sides:
        found = [*_optimised_writes(sides, folder), *_appends(sides, folder)]
    shutil.rmtree(folder, ignore_errors=True)
    return found


# --- optimised writes


def _optimised_writes(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    def write(side: Side, option: str) -> float:
        path = folder / f"write-{side.name}"
        shutil.rmtree(path, ignore_errors=True)
        return side.ask(f"{_WRITE}.option('optimizeWrite', '{option}').save(path)", source=lineitem(), path=str(path))

    ours = sides[0]
    optimised, plain = [], []
    for number in range(ROUNDS + 1):
        times = {option: write(ours, option) for option in (("true", "false") if number % 2 else ("false", "true"))}
        if number:
            optimised.append(times["true"])
            plain.append(times["false"])
    beside = turns(sides, lambda side: write(side, "true"))
    files = [float(_files(folder / f"write-{side.name}")) for side in sides]
    what = f"Optimised writes: lineitem with {PARTITIONS} partitions, whose rows are in each of 8 tasks"
    return [
        compared("optimised write", [optimised, plain], 1.1, "the plain write", what),
        compared("optimised write", beside, 0.8, what=what),
        Comparison(
            question="files of an optimised write",
            peer="partitions",
            ours=files[:1],
            theirs=[float(PARTITIONS)],
            unit="files",
            goal=1.0,
        ),
    ]


def _files(path: Path) -> int:
    """How many data files are in the folder of a table without removed files."""
    return sum(1 for file in path.rglob("*.parquet") if "_delta_log" not in file.parts)


# --- auto compaction


def _appends(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    """One-row appends to a table of each side's own, which compacts itself."""
    for side in sides:
        side.ask("spark.conf.set('spark.databricks.delta.autoCompact.enabled', 'true')")
    one = "spark.range(1).write.format('delta').mode('append').save(path)"
    for side in sides:
        for _ in range(3):
            side.ask(one, path=str(folder / f"warm-{side.name}"))
    each = turns(sides, lambda side: side.ask(one, path=str(folder / f"appends-{side.name}")), APPENDS, warm_up=0)
    left = []
    for side in sides:
        side.ask(f"[[{_COUNT_FILES}]]", path=str(folder / f"appends-{side.name}"))
        left.append([float(side.rows[0][0])])
    what = f"{APPENDS} one-row appends, in turns, with spark.databricks.delta.autoCompact.enabled"
    return [
        compared(f"{APPENDS} appends with auto compaction", [[sum(times)] for times in each], 0.6, what=what),
        Comparison(
            question="files left by them",
            peer="the reference",
            ours=left[0],
            theirs=left[1],
            unit="files",
            goal=1.0,
            what=what,
        ),
    ]


if __name__ == "__main__":
    report(*run())
