"""How long does it take to open a table of a million files, and how much memory, beside delta-rs?

Each side runs in a process of its own, and ends with all paths and sizes and one column's least values in hand. tahoe is asked for the
statistics of that column; delta-rs has one call, `get_add_actions`, which gives those of all six columns. Imports are not counted in
the time; they are in the memory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from benchmarks.logs import write_checkpointed_table
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

FILES = int(os.environ.get("FILES", "1000000"))
COLUMN = "l_orderkey"
SIDES = ("tahoe", "delta_rs")


def run() -> list[Comparison]:
    table = FOLDER / f"files-{FILES}"
    if not (table / "done").exists():
        shutil.rmtree(table, ignore_errors=True)
        write_checkpointed_table(table, FILES)
        (table / "done").touch()
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    megabytes: dict[str, list[float]] = {side: [] for side in SIDES}
    answers = set()
    for number in range(ROUNDS + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            command = [sys.executable, "-m", f"benchmarks.open_with_{side}", str(table), COLUMN]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            answers.add(tuple(found["answer"]))
            if number > 0:
                seconds[side].append(found["seconds"])
                megabytes[side].append(found["megabytes"])
    assert len(answers) == 1, f"both sides must answer alike: {answers}"
    question = f"open {FILES:,} files from a checkpoint"
    what = "tahoe opens with Table(path).snapshot(), two columns and one column's statistics; delta-rs with get_add_actions(flatten=True)"
    return [
        Comparison(question=question, peer="delta-rs", ours=seconds["tahoe"], theirs=seconds["delta_rs"], goal=0.5, what=what),
        Comparison(
            question=f"{question}: memory", peer="delta-rs", ours=megabytes["tahoe"], theirs=megabytes["delta_rs"], unit="MB", goal=1.0
        ),
    ]


if __name__ == "__main__":
    report(*run())
