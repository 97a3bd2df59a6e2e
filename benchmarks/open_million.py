"""How much time and memory does it take to open a table of a million files, compared with delta-rs?

Each side runs in its own process, and ends with all paths, all sizes and the minimum values of one column in memory. tahoe is asked for
the statistics of that column. delta-rs has one call, `get_add_actions`, which returns the statistics of all six columns; so the time to
open the table without any of these is shown as well. Imports count in the memory, but not in the time.
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
WHAT = (
    "Opening a million files: tahoe does Table(path).snapshot() and takes path, size and one column's statistics; "
    "delta-rs does DeltaTable(path), then get_add_actions(flatten=True)"
)


def run() -> list[Comparison]:
    table = FOLDER / f"files-{FILES}"
    if not (table / "done").exists():
        shutil.rmtree(table, ignore_errors=True)
        write_checkpointed_table(table, FILES)
        (table / "done").touch()
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    answers = set()
    for number in range(ROUNDS + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            command = [sys.executable, "-m", f"benchmarks.open_with_{side}", str(table), COLUMN]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            answers.add(tuple(found.pop("answer")))
            if number > 0:
                runs[side].append(found)
    assert len(answers) == 1, f"both sides must answer alike: {answers}"

    def compared(what: str, key: str, peer: str, their_key: str, unit: str, goal: float | None) -> Comparison:
        ours, theirs = [run[key] for run in runs["tahoe"]], [run[their_key] for run in runs["delta_rs"]]
        return Comparison(question=f"open {FILES:,} files: {what}", peer=peer, ours=ours, theirs=theirs, unit=unit, goal=goal, what=WHAT)

    loaded, opened = "delta-rs, the same loaded", "delta-rs, only opened"
    return [
        compared("time", "seconds", loaded, "seconds", "s", 0.5),
        compared("memory", "megabytes", loaded, "megabytes", "MB", 1.0),
        compared("time", "seconds", opened, "opened_seconds", "s", None),
        compared("memory", "megabytes", opened, "opened_megabytes", "MB", None),
    ]


if __name__ == "__main__":
    report(*run())
