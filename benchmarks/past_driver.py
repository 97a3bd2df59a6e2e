"""How much memory and time does a driver need for a table of twenty million files?

The log is generated: a V2 checkpoint with sidecars of 50,000 files, and commits behind it. Each question is asked by a
process of its own, whose peak memory counts. Rates of processor time tell more than those of a clock if other programs
run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import FOLDER, Comparison, report
from benchmarks.past_driver_logs import write_table

FILES = int(os.environ.get("FILES", "20000000"))
EVERY_JOB = "point,point_in_spark,scan_in_spark,checkpoint,dry_vacuum,bins,few_bins,cubes,optimize"
JOBS = tuple(filter(None, os.environ.get("JOBS", EVERY_JOB).split(",")))
MEMORY_MB = 4096.0
WHAT = f"A table of {FILES:,} files that are not there: ours is the peak memory of the driver, theirs is the limit"


def run() -> list[Comparison]:
    return [_compared(job, _asked(job, _source(is_clustered=job == "cubes"))) for job in JOBS]


def _source(*, is_clustered: bool) -> Path:
    source = FOLDER / f"past-driver-{FILES}{'-clustered' if is_clustered else ''}"
    if not (source / "done").exists():
        shutil.rmtree(source, ignore_errors=True)
        write_table(source, FILES, is_clustered=is_clustered)
        (source / "done").touch()
    return source


def _asked(job: str, source: Path) -> dict[str, float]:
    """What a process answers on a copy of the table, whose log it may extend."""
    table = FOLDER / f"past-driver-{job}"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(source / "_delta_log", table / "_delta_log", copy_function=os.link)
    command = [sys.executable, "-m", "benchmarks.past_driver_worker", job, str(table), str(FILES)]
    answer: dict[str, float] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    )
    shutil.rmtree(table)
    print(job, answer, flush=True)
    return answer


def _compared(job: str, answer: dict[str, float]) -> Comparison:
    figures = ", ".join(f"{name} {figure:,.2f}" for name, figure in answer.items())
    return Comparison(
        question=f"{FILES:,} files, {job.replace('_', ' ')}: memory",
        peer="the limit",
        ours=[answer.get("of_all", answer["megabytes"])],
        theirs=[MEMORY_MB],
        unit="MB",
        goal=1.0,
        what=f"{WHAT}. {figures}",
    )


if __name__ == "__main__":
    report(*run())
