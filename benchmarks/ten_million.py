"""How fast is a point query on ten million files, and what does the checkpoint cost that makes it so?

The table is clustered by the column that is asked for. Its log begins with a checkpoint of another writer, which lists
the files in no order. tahoe then writes its own, and for comparison the same checkpoint without the order. Queries are
planned without Spark: what is measured is the list of files. Each side runs in its own process. The next checkpoint is
made of the first one and of one more commit. Times of processors tell more than those of a clock if other programs run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from benchmarks.logs import put_new_file, write_clustered_table
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

FILES = int(os.environ.get("FILES", "10000000"))
SIDES = ("ordered", "unordered")
Found: TypeAlias = dict[str, list[dict[str, float]]]
WHAT = (
    "Ten million files: ours is a checkpoint in the order of the clustering column, theirs the same one in the order "
    "of the log"
)


def run() -> list[Comparison]:
    source = FOLDER / f"clustered-{FILES}"
    if not (source / "done").exists():
        shutil.rmtree(source, ignore_errors=True)
        write_clustered_table(source, FILES)
        (source / "done").touch()
    written: Found = {side: [] for side in SIDES}
    for number in range(min(ROUNDS, 3)):
        for side in SIDES if number % 2 else reversed(SIDES):
            table = _fresh(source, side)
            written[side].append(_ask("write", table, side))
    asked = {side: [_ask("query", FOLDER / f"{side}-{FILES}", FILES) for _ in range(min(ROUNDS, 3))] for side in SIDES}

    def compared(
        question: str, found: dict[str, list[dict[str, float]]], key: str, unit: str = "s", goal: float | None = None
    ) -> Comparison:
        ours, theirs = ([one[key] for one in found[side]] for side in SIDES)
        return Comparison(
            question=question, peer="without the order", ours=ours, theirs=theirs, unit=unit, goal=goal, what=WHAT
        )

    size = f"{FILES:,} files"
    return [
        compared(f"checkpoint of {size}: processor time", written, "processor_seconds", goal=1.3),
        compared(f"the next checkpoint of {size}: processor time", written, "again", goal=1.3),
        compared(f"checkpoint of {size}: memory", written, "megabytes", "MB"),
        compared(f"point query on {size}: first", asked, "first"),
        compared(f"point query on {size}: later", asked, "later"),
        compared(f"point query on {size}: memory", asked, "megabytes", "MB"),
    ]


def _fresh(source: Path, side: str) -> Path:
    """The table with a commit behind the checkpoint, whose version has no checkpoint yet."""
    table = FOLDER / f"{side}-{FILES}"
    shutil.rmtree(table, ignore_errors=True)
    (table / "_delta_log").mkdir(parents=True)
    for file in (source / "_delta_log").iterdir():
        (table / "_delta_log" / file.name).hardlink_to(file)
    put_new_file(table, 11)
    return table


def _ask(job: str, table: Path, argument: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.ten_million_worker", job, str(table), str(argument)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


if __name__ == "__main__":
    report(*run())
