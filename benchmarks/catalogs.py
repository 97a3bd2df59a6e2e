"""What a catalog in PostgreSQL costs and saves, on loopback: commits of one table and of eight processes, transactions
over three tables, opening by name, publication, and a catalog of 100,000 tables. Without Spark.

What has no peer is compared with the time that it may take.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pyarrow as pa
import sqlalchemy as sa

import tahoe
from benchmarks import slow_storage
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report
from tahoe.catalog.tables_of_database import SCHEMAS, TABLES
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.background import finish_background
from tests.catalog.databases import postgresql

PLACE = FOLDER / "catalogs"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
SECONDS_A_REQUEST = 0.05
APPENDS, PROCESSES, COMMITS, TABLES_COUNT = 20, 8, 50, 100_000


def main() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    slow_storage.SECONDS_A_REQUEST = SECONDS_A_REQUEST
    with postgresql() as server:
        report(*_on_s3(server), _processes(server), _transaction(server), *_alone(server), *_many_tables(server))
    shutil.rmtree(PLACE)


def _new(server: str, root: str, options: dict[str, str] | None = None) -> tahoe.Catalog:
    name = f"c{uuid.uuid4().hex}"
    engine = sa.create_engine(f"{server}postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    catalog = tahoe.Catalog(server + name, root=root, storage_options=options)
    catalog.create_schema("s")
    return catalog


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _turns(ours: Callable[[], object], theirs: Callable[[], object], count: int = APPENDS) -> tuple[list[float], ...]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(count + 1):
        for side, work in ((0, ours), (1, theirs)):
            taken = _seconds(work)
            if number:
                times[side].append(taken)
    return times


def _on_s3(server: str) -> Iterator[Comparison]:
    with slow_storage.slow_storage(PLACE / "s3") as storage:
        plain = tahoe.Table(f"s3://{slow_storage.BUCKET}/plain", storage_options=storage.options)
        plain.create(ROWS.schema)
        for question, root, options, goal in (
            ("append to a table of a catalog, files on a local disk", str(PLACE / "near"), None, 0.25),
            ("the same, files in the same S3", f"s3://{slow_storage.BUCKET}/lake", storage.options, None),
        ):
            table = _new(server, root, options).create_table("s.t", ROWS.schema)
            ours, theirs = _turns(lambda of=table: of.append(ROWS), lambda: plain.append(ROWS))
            finish_background()
            peer = f"append to S3, {SECONDS_A_REQUEST * 1000:g} ms a request"
            yield Comparison(question=question, peer=peer, ours=ours, theirs=theirs, goal=goal)


def _processes(server: str) -> Comparison:
    """Seconds of a commit, from the first process that begins to the last one that ends."""
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(min(ROUNDS, 3)):
        catalog = _new(server, str(PLACE / f"many-{number}"))
        catalog.create_table("s.t", ROWS.schema)
        plain = PLACE / f"plain-{number}"
        tahoe.Table(str(plain)).create(ROWS.schema)
        for side, place in (("ours", catalog.url), ("theirs", str(plain))):
            times[side].append(_appended(place) / (PROCESSES * COMMITS))
    return Comparison(
        question=f"{PROCESSES} processes append {COMMITS} each to one table: seconds a commit",
        peer="the same to a local log",
        ours=times["ours"],
        theirs=times["theirs"],
        goal=0.2,
    )


def _appended(place: str) -> float:
    command = [sys.executable, "-m", "benchmarks.catalogs", "append", place]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, **pipes) for _ in range(PROCESSES)]  # type: ignore[call-overload]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    began = time.perf_counter()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        assert worker.stdout.readline() == "done\n"
    taken = time.perf_counter() - began
    for worker in workers:
        worker.communicate()
    return taken


def append(place: str) -> None:
    """A worker of `_processes`."""
    table = tahoe.Catalog(place).table("s.t") if "://" in place else tahoe.Table(place)
    table.version  # noqa: B018 - opens it
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(COMMITS):
        table.append(ROWS)
    print("done", flush=True)
    finish_background()


def _transaction(server: str) -> Comparison:
    catalog = _new(server, str(PLACE / "three"))
    names = [f"s.t{number}" for number in range(3)]
    tables = [catalog.create_table(name, ROWS.schema) for name in names]

    def together() -> None:
        with catalog.transaction() as changes:
            for name in names:
                changes.table(name).append(ROWS)

    def one_by_one() -> None:
        for table in tables:
            table.append(ROWS)

    ours, theirs = _turns(together, one_by_one)
    finish_background()
    question = "a transaction over three tables"
    return Comparison(question=question, peer="three single commits", ours=ours, theirs=theirs, goal=1.2)


def _may_take(question: str, ours: list[float], seconds: float) -> Comparison:
    return Comparison(question=question, peer="what it may take", ours=ours, theirs=[seconds], goal=1)


def _alone(server: str) -> Iterator[Comparison]:
    catalog = _new(server, str(PLACE / "alone"))
    table = catalog.create_table("s.t", ROWS.schema)
    table.append(ROWS)
    finish_background()
    opened = [_seconds(lambda: catalog.table("s.t")) for _ in range(APPENDS)]
    yield _may_take("open a table by name", opened, 0.01)
    store, commit = table.env.store, table.env.store.get(commit_key(table.version))
    for version in range(table.version + 1, table.version + 1001):
        assert store.put_if_absent(commit_key(version), commit)
    writing = catalog.create_table("s.other", ROWS.schema)
    alone = [_seconds(lambda: writing.append(ROWS)) for _ in range(APPENDS)]
    finish_background()
    taken = list[float]()
    publisher = threading.Thread(target=lambda: taken.append(_seconds(lambda: catalog.publish("s.t"))))
    publisher.start()
    meanwhile = []
    while publisher.is_alive():
        meanwhile.append(_seconds(lambda: writing.append(ROWS)))
    yield _may_take("publish 1,000 commits, beside a writer", taken, 5)
    question, peer = "an append while 1,000 commits of another table are published", "while nothing is published"
    yield Comparison(question=question, peer=peer, ours=meanwhile, theirs=alone)


def _many_tables(server: str) -> Iterator[Comparison]:
    catalog = _new(server, str(PLACE / "names"))
    same = {"kind": "external", "created_ms": 0, "latest_version": -1}
    with catalog._begin() as connection:
        schema = connection.execute(sa.select(SCHEMAS.c.id)).scalar()
        rows = (
            {"id": str(uuid.uuid4()), "name": f"t{n:06}", "schema_id": schema, "url": f"file:///none/{n}", **same}
            for n in range(TABLES_COUNT)
        )
        connection.execute(sa.insert(TABLES), list(rows))
    found = [_seconds(lambda n=n: catalog.folder_of(f"s.t{n * 37 % TABLES_COUNT:06}")) for n in range(200)]
    yield _may_take("look up one of 100,000 tables", found, 0.005)
    with _served(catalog.url) as (address, process):
        page = f"{address}/tables?catalog_name=lake&schema_name=s&max_results=50"
        listed = [_seconds(lambda: _asked(page)) for _ in range(APPENDS)]
        yield _may_take("list a page of 50 of them, from the server", listed, 0.05)
        one = f"{address}/tables/lake.s.t050000"
        yield _may_take("one of them, from the server", [_seconds(lambda: _asked(one)) for _ in range(APPENDS)], 0.005)
        megabytes = psutil.Process(process.pid).memory_info().rss / 1e6
        yield Comparison(
            question="memory of the server", peer="what it may take", ours=[megabytes], theirs=[300], unit="MB", goal=1
        )


def _asked(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        told: dict[str, object] = json.load(answer)
    return told


@contextmanager
def _served(url: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", "from tahoe.cli import main; main()", "catalog", "serve", url]
    options = ["--name", "lake", "--port", "0", "--no-auth"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        address = next(word for word in line.replace(",", " ").split() if word.startswith("http")).rstrip("/.")
        yield f"{address}/api/2.1/unity-catalog", process
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["append"]:
        append(sys.argv[2])
    else:
        main()
