"""A table of a million files, and the processes that open it or list it, tahoe's and delta-rs'."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.logs import write_checkpointed_table
from benchmarks.measure import FOLDER, ROUNDS

FILES = int(os.environ.get("FILES", "1000000"))
COLUMN = "l_orderkey"


def the_table() -> Path:
    table = FOLDER / f"files-{FILES}"
    if not (table / "done").exists():
        shutil.rmtree(table, ignore_errors=True)
        write_checkpointed_table(table, FILES)
        (table / "done").touch()
    return table


def figures(sides: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, float]]]:
    """What each side's process has printed in each round, in turns, after one to warm up. All must give the same
    answer.

    Args:
        sides: by name, the module of `benchmarks` that the process runs, and its arguments behind the table and the
            column.
    """
    table, answers = the_table(), set()
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(ROUNDS + 1):
        for side, (module, *what) in list(sides.items())[:: 1 if number % 2 else -1]:
            command = [sys.executable, "-m", f"benchmarks.{module}", str(table), COLUMN, *what]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            answers.add(tuple(found.pop("answer")))
            if number > 0:
                runs[side].append(found)
    assert len(answers) == 1, f"all sides must answer alike: {answers}"
    return runs
