"""An S3 server that is killed under its writers: nobody fails, and no commit is lost or made twice.

Needs a server that keeps its objects on a disk: `make interop-s3-servers`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from botocore.exceptions import BotoCoreError, ClientError

import tahoe
from tahoe.storage.background import finish_background
from tests import sample
from tests.processes.workers import Worker, check_all, make, start
from tests.storage.servers import (
    BUCKET,
    S3_SERVER,
    START_SECONDS_MAX,
    Server,
    ServerProcess,
    s3_client,
    s3_server_to_kill,
)

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(S3_SERVER == "moto", reason="moto keeps its objects in memory: make interop-s3-servers"),
]

WRITERS, COUNT = 4, 12
AWAY_SECONDS = 30
KILLS = 3
SEEDS = range(3 if sample.MODE == "full" else 1)


def kill(server: Server, process: ServerProcess) -> None:
    """Kill the server, and start it again until it takes an object. SeaweedFS takes half a minute for that."""
    process.kill()
    process.start()
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            s3_client(server).put_object(Bucket=BUCKET, Key="started", Body=b"")
        except (BotoCoreError, ClientError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def server() -> Iterator[tuple[Server, ServerProcess]]:
    with s3_server_to_kill() as found:
        yield found


def check_commits(table: tahoe.Table, workers: list[Worker]) -> None:
    """Every writer finished, and each of its commits is one version."""
    assert [worker.end() for worker in workers] == [(0, "")] * WRITERS
    told = [commit for worker in workers for commit in worker.acknowledged()]
    assert len({version for version, _ in told}) == len({row for _, row in told}) == WRITERS * COUNT == table.version
    check_all(table, told)
    ids = table.to_arrow().column("id").to_pylist()
    appended = {n for n, worker in enumerate(workers) if worker.role == "append"}
    expected = [1_000_000 + row if row // COUNT in appended else row for row in range(WRITERS * COUNT)]
    there = [row for row in range(WRITERS * COUNT) if row // COUNT in appended]
    assert sorted(ids) == sorted([*there, *(id for id in expected if id >= 1_000_000)])


def begun(table: tahoe.Table, home: Path) -> list[Worker]:
    """Writers that have made a commit each."""
    place = (table.url, table.env.store.options)  # type: ignore[attr-defined]
    workers = [start(("append", "delete")[number % 2], place, number, COUNT, home) for number in range(WRITERS)]
    while not all(worker.output.stat().st_size or worker.process.poll() is not None for worker in workers):
        time.sleep(0.01)
    return workers


@pytest.mark.parametrize("seed", SEEDS)
def test_writers_survive_a_server_that_is_killed_under_them(
    server: tuple[Server, ServerProcess], seed: int, tmp_path: Path
) -> None:
    (place, process), dice = server, random.Random(seed)
    table = make((f"{place.url}/killed {seed}", place.options), WRITERS * COUNT)
    workers = begun(table, tmp_path)
    for _ in range(KILLS):
        kill(place, process)
        time.sleep(dice.uniform(0, 1))
    check_commits(table, workers)


def test_writers_survive_a_server_that_is_away(server: tuple[Server, ServerProcess], tmp_path: Path) -> None:
    place, process = server
    table = make((f"{place.url}/away", place.options), WRITERS * COUNT)
    workers = begun(table, tmp_path)
    process.kill()
    time.sleep(AWAY_SECONDS)
    process.start()
    check_commits(table, workers)


@contextmanager
def killed_now_and_then(server: Server, process: ServerProcess, seed: int) -> Iterator[list[float]]:
    """The server is killed again and again, and started again at once. The moments of the kills."""
    ended, moments, dice, began = threading.Event(), [], random.Random(seed), time.monotonic()

    def kill_again() -> None:
        while not ended.wait(dice.uniform(0.1, 1.5)):
            moments.append(time.monotonic() - began)
            kill(server, process)

    thread = threading.Thread(target=kill_again)
    thread.start()
    try:
        yield moments
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_on_a_server_that_is_killed_again_and_again(server: tuple[Server, ServerProcess], seed: int) -> None:
    """Every kind of request: large files in parts, ranges, listings, copies and deletes of many files."""
    place, process = server
    url, options = f"{place.url}/life {seed}", place.options
    with killed_now_and_then(place, process, seed) as moments:
        table = tahoe.Table(url, options)
        blob = random.Random(seed).randbytes(12 << 20)
        table.append(
            pa.table({"id": range(1000), "v": [0] * 1000, "p": [n % 3 for n in range(1000)]}),
            partition_by=["p"],
            properties={"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "5"},
        )
        table.append(pa.table({"id": [1000], "v": [0], "p": [0], "blob": [blob]}), merge_schema=True)
        for number in range(1001, 1013):
            table.append(pa.table({"id": [number], "v": [0], "p": [number % 3]}))
        table.delete("id % 10 = 0 AND id < 1000")
        table.update({"v": "1"}, "id % 10 = 1")
        table.optimize()
        table.create_checkpoint()
        copy = tahoe.Table(f"{url} copy", options)
        copy.append(table.to_arrow())
        finish_background()
        table.vacuum(0, retention_check=False)
        version = table.version
        table.delete("id < 500")
        table.restore(version=version)
        rows = tahoe.Table(url, options).to_arrow().to_pylist()
        assert {row["id"]: row["v"] for row in rows} == {
            id: int(id % 10 == 1) for id in range(1013) if id % 10 or id >= 1000
        }
        assert [row["blob"] for row in rows if row["id"] == 1000] == [blob]
        finish_background()
    assert moments
    check_all(table, [])
    assert copy.count() == table.count() == 913
    assert [entry["version"] for entry in table.history()] == list(range(table.version, -1, -1))
