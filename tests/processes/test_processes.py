"""Real processes on one table, on a local disk, on S3 and in a catalog: nobody fails, and who is killed loses nothing
that was acknowledged.

Of 80 such deletes by 8 threads the reference lands 10. The default is a smaller run; `make processes` is eight
processes of fifty commits.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sample
from tests.catalog.databases import postgresql, skip_without_programs
from tests.processes.workers import Place, check_all, make, start
from tests.storage.servers import s3_server

EVERYTHING = sample.IS_PROOF
PROCESSES, COUNT = (8, 50) if EVERYTHING else (4, 8)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.server), "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    root = {"root": str(tmp_path / "lake")}
    if request.param == "local":
        yield str(tmp_path / "t"), {}
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/lake.db", root
    elif request.param == "postgresql":
        skip_without_programs()
        with postgresql() as database:
            yield f"{database}postgres", root
    else:
        with s3_server() as server:
            yield f"{server.url}/{tmp_path.name}", server.options


@pytest.mark.parametrize("roles", [("append",), ("delete",), ("append", "delete")], ids="+".join)
def test_all_commits_of_all_processes_succeed(place: Place, roles: tuple[str, ...], tmp_path: Path) -> None:
    table = make(place, PROCESSES * COUNT)
    first, began = table.version, time.monotonic()
    workers = [start(roles[number % len(roles)], place, number, COUNT, tmp_path) for number in range(PROCESSES)]
    assert [worker.end() for worker in workers] == [(0, "")] * PROCESSES
    seconds = time.monotonic() - began
    told = [commit for worker in workers for commit in worker.acknowledged()]
    assert len({version for version, _ in told}) == len(told) == PROCESSES * COUNT == table.version - first
    check_all(table, told)
    ids = set(table.to_arrow().column("id").to_pylist())
    for number, worker in enumerate(workers):
        appends, rows = worker.role == "append", range(number * COUNT, (number + 1) * COUNT)
        assert all((1_000_000 + row in ids) == appends and (row in ids) == appends for row in rows)
    print(
        f"{place[0].partition(':')[0]}, {'+'.join(roles)}: {PROCESSES} processes x {COUNT} commits, "
        f"{seconds:.1f} s, none failed"
    )


@pytest.mark.parametrize("seed", range(4 if EVERYTHING else 1))
def test_who_is_killed_loses_nothing_that_was_acknowledged(place: Place, seed: int, tmp_path: Path) -> None:
    table = make(place, PROCESSES * COUNT)
    dice = random.Random(seed)
    roles = [dice.choice(["append", "delete"]) for _ in range(PROCESSES)]
    workers = [start(role, place, number, COUNT, tmp_path) for number, role in enumerate(roles)]
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
