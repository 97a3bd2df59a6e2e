"""How fast are commits, opening a long log, and checkpoints, compared with delta-rs? Without Spark.

Each side runs in its own processes, on its own tables. The time of tahoe includes its work after a commit (version
checksums and checkpoints) and the wait for it when the program exits.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.logs import add_commit, write_checkpointed_table, write_commits
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

SIDES = ("tahoe", "delta-rs")
PEER = "delta-rs"
APPENDS = 100
PROCESSES = 8
COMMITS = 10_000
FILES = 1_000_000


def run() -> list[Comparison]:
    folder = FOLDER / "commits"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = [
        compared(
            f"append {APPENDS} small files, one writer",
            lambda side, n: _appends(folder / f"one-{side}-{n}", side, 1),
            1.0,
        ),
        compared(
            "the same without forcing files to the disk",
            lambda side, n: _appends(folder / f"unsynced-{side}-{n}", side, 1, "append unsynced"),
            None,
        ),
        compared(
            f"{PROCESSES} processes append {APPENDS // 2} each",
            lambda side, n: _appends(folder / f"many-{side}-{n}", side, PROCESSES),
            1.0,
        ),
        *_long_log(folder),
        *_checkpoint(folder),
    ]
    shutil.rmtree(folder)
    return found


def compared(question: str, ask: object, goal: float | None, unit: str = "s", what: str = "") -> Comparison:
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(ROUNDS + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            taken = ask(side, number)  # type: ignore[operator]
            if number:
                times[side].append(taken)
    return Comparison(
        question=question, peer=PEER, ours=times["tahoe"], theirs=times["delta-rs"], unit=unit, goal=goal, what=what
    )


def _start(side: str, job: str, path: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.commits_worker", side, job, str(path), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _answer(process: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = process.communicate()
    assert process.returncode == 0, f"a process ended with {process.returncode}"
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def _appends(path: Path, side: str, processes: int, job: str = "append") -> float:
    """Seconds from the first commit to the end of the last process; all processes start together."""
    _answer(_start(side, "create", path))
    count = APPENDS if processes == 1 else APPENDS // 2
    workers = [_start(side, job, path, count) for _ in range(processes)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == "ready"
    began = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _answer(worker)
    taken = time.perf_counter() - began
    commits = len([f for f in (path / "_delta_log").glob("0*.json") if f.name.count(".") == 1])
    assert commits == processes * count + 1, f"{commits} commits of {processes * count + 1} are there"
    return taken


def _long_log(folder: Path) -> list[Comparison]:
    table = folder / "long"
    write_commits(table, COMMITS)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(ROUNDS + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            answer = _answer(_start(side, "open", table))
            if number:
                found[side].append(answer)
    what = "Warm: a commit is added to the log, and an open table is asked for its newest version"
    return [
        Comparison(
            question=question,
            peer=PEER,
            ours=[f[key] for f in found["tahoe"]],
            theirs=[f[key] for f in found["delta-rs"]],
            goal=1.0,
            what=what,
        )
        for question, key in (
            (f"open after {COMMITS:,} commits", "cold"),
            ("a new commit on an open table of these", "warm"),
        )
    ]


def _checkpoint(folder: Path) -> list[Comparison]:
    source = FOLDER / f"files-{FILES}"
    if not (source / "done").exists():
        shutil.rmtree(source, ignore_errors=True)
        write_checkpointed_table(source, FILES)
        (source / "done").touch()
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(min(ROUNDS, 3) + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            table = folder / f"checkpoint-{side}"
            shutil.rmtree(table, ignore_errors=True)
            shutil.copytree(source, table)
            add_commit(table, 11)  # the version before has a checkpoint already
            answer = _answer(_start(side, "checkpoint", table))
            if number:
                found[side].append(answer)
    return [
        Comparison(
            question=f"checkpoint of {FILES:,} files: {key}",
            peer=PEER,
            ours=[f[key] for f in found["tahoe"]],
            theirs=[f[key] for f in found["delta-rs"]],
            unit=unit,
            goal=1.0,
            what=(
                "Checkpoint: the table is open already; time is that of the checkpoint alone, memory that of the "
                "process at its peak"
            ),
        )
        for key, unit in (("time", "s"), ("memory", "MB"))
    ]


if __name__ == "__main__":
    report(*run())
