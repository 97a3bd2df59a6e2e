"""Real processes on one table, on a local disk and on S3: nobody fails, and who is killed loses nothing that was
acknowledged.

Of 80 such deletes by 8 threads the reference lands 10. The default is a smaller run; `make processes` is eight
processes of fifty commits.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.storage.background import finish_background
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Severity
from tests import sample
from tests.storage.servers import s3_server

EVERYTHING = sample.IS_PROOF
PROCESSES, COUNT = (8, 50) if EVERYTHING else (4, 8)


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if request.param == "local":
        yield str(tmp_path / "t"), {}
        return
    with s3_server() as server:
        yield f"{server.url}/{tmp_path.name}", server.options


def make(place: tuple[str, Mapping[str, str]]) -> tahoe.Table:
    """A table of one file, with a row for each delete."""
    table = tahoe.Table(*place)
    table.append(pa.table({"id": list(range(PROCESSES * COUNT))}), properties={"delta.enableDeletionVectors": "true"})
    finish_background()
    return table


@dataclass(frozen=True)
class Worker:
    """A process, and the file that it writes its commits to."""

    role: str
    process: subprocess.Popen[str]
    output: Path

    def acknowledged(self) -> list[tuple[int, str]]:
        """The commits that it has told of, but for a line that was cut off."""
        lines = [line.split(" ") for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(int(version), row.strip()) for version, row in lines]

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it had to complain of."""
        _, complaint = self.process.communicate()
        return self.process.returncode, complaint


def start(role: str, place: tuple[str, Mapping[str, str]], number: int, home: Path) -> Worker:
    command = [
        sys.executable,
        "-m",
        "tests.processes.worker",
        role,
        place[0],
        json.dumps(place[1]),
        str(number),
        str(COUNT),
    ]
    output = home / f"worker-{number}.txt"
    with output.open("w") as told:
        return Worker(role, subprocess.Popen(command, stdout=told, stderr=subprocess.PIPE, text=True), output)


def check_all(table: tahoe.Table, told: list[tuple[int, str]]) -> dict[int, str]:
    """Every acknowledged commit is there under its version, and nothing is broken. Returns what each version did."""
    made = {entry["version"]: entry.get("userMetadata") for entry in table.history()}
    assert [(version, row) for version, row in told if made[version] != row] == []
    assert [finding for finding in check_version(table.snapshot()) if finding.severity is Severity.ERROR] == []
    return {version: row for version, row in made.items() if row is not None}


@pytest.mark.parametrize("roles", [("append",), ("delete",), ("append", "delete")], ids="+".join)
def test_all_commits_of_all_processes_succeed(
    place: tuple[str, dict[str, str]], roles: tuple[str, ...], tmp_path: Path
) -> None:
    table = make(place)
    began = time.monotonic()
    workers = [start(roles[number % len(roles)], place, number, tmp_path) for number in range(PROCESSES)]
    assert [worker.end() for worker in workers] == [(0, "")] * PROCESSES
    seconds = time.monotonic() - began
    told = [commit for worker in workers for commit in worker.acknowledged()]
    assert len({version for version, _ in told}) == len(told) == PROCESSES * COUNT == table.version
    check_all(table, told)
    ids = set(table.to_arrow().column("id").to_pylist())
    for number, worker in enumerate(workers):
        appends, rows = worker.role == "append", range(number * COUNT, (number + 1) * COUNT)
        assert all((1_000_000 + row in ids) == appends and (row in ids) == appends for row in rows)
    print(
        f"{'S3' if place[1] else 'disk'}, {'+'.join(roles)}: {PROCESSES} processes x {COUNT} commits, "
        f"{seconds:.1f} s, none failed"
    )


@pytest.mark.parametrize("seed", range(4 if EVERYTHING else 1))
def test_who_is_killed_loses_nothing_that_was_acknowledged(
    place: tuple[str, dict[str, str]], seed: int, tmp_path: Path
) -> None:
    table = make(place)
    dice = random.Random(seed)
    roles = [dice.choice(["append", "delete"]) for _ in range(PROCESSES)]
    workers = [start(role, place, number, tmp_path) for number, role in enumerate(roles)]
    killed = dice.sample(workers, PROCESSES // 2)
    for worker in killed:
        while not worker.output.stat().st_size and worker.process.poll() is None:
            time.sleep(0.01)  # it has not begun to commit
        time.sleep(dice.uniform(0, COUNT * 0.01))
        worker.process.send_signal(signal.SIGKILL)
    ended = [worker.end() for worker in workers]
    assert [end for end, worker in zip(ended, workers, strict=True) if end[0] and worker not in killed] == []
    told = [commit for worker in workers for commit in worker.acknowledged()]
    made = check_all(table, told)
    done = {int(row) for row in made.values()}
    ids = set(table.to_arrow().column("id").to_pylist())
    appended = {
        row
        for number, role in enumerate(roles)
        if role == "append"
        for row in range(number * COUNT, (number + 1) * COUNT)
    }
    expected = {row for row in range(PROCESSES * COUNT) if row in appended or row not in done} | {
        1_000_000 + r for r in done & appended
    }
    assert ids == expected
    print(f"seed {seed}: {len(killed)} of {PROCESSES} killed, {len(told)} commits acknowledged, {len(done)} made")
