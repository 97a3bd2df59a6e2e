"""Tables in a store: one life, writers that race, and writers that are killed."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import pyarrow as pa
import pytest

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.storage import open_store
from tahoe.storage.background import finish_background
from tahoe.table.table import Table
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Severity

_WRITERS = 6
_ACCOUNTS, _OPENING = 8, 100
_KILLED = 4
_RACING, _RACES = 3, 40
_PATIENCE_SECONDS = 60


@pytest.fixture
def open_table(folder_url: str, storage_options: Mapping[str, str]) -> Callable[[], Table]:
    """Opens the table of a test, each time as a program of its own would."""
    return lambda: Table(folder_url, storage_options)


def rows_of(table: Table, version: int | None = None) -> Counter[int]:
    return Counter(table.to_arrow(version=version)["id"].to_pylist())


def defects(table: Table) -> list[str]:
    finish_background()
    return [str(finding) for finding in check_version(table.snapshot()) if finding.severity is Severity.ERROR]


def test_a_life(open_table: Callable[[], Table]) -> None:
    table = open_table()
    table.create(pa.schema([("id", pa.int64())]), properties={"delta.enableDeletionVectors": "true"})
    states = {0: Counter[int]()}

    def expect(rows: list[int]) -> None:
        now = open_table()
        states[now.snapshot().version] = Counter(rows)
        for version, expected in states.items():
            assert rows_of(now, version) == expected

    table.append(pa.table({"id": range(100)}))
    expect([*range(100)])
    table.delete("id % 3 = 0")
    expect([n for n in range(100) if n % 3])
    for number in range(100, 112):
        table.append(pa.table({"id": [number]}))
    expect([n for n in range(112) if n >= 100 or n % 3])
    table.optimize()
    table.create_checkpoint()
    expect([n for n in range(112) if n >= 100 or n % 3])
    table.restore(version=1)
    expect([*range(100)])
    assert defects(open_table()) == []


def test_versions_of_writers_that_race(open_table: Callable[[], Table]) -> None:
    """Each append is a version of its own: none is lost, none is there twice."""
    open_table().create(pa.schema([("id", pa.int64())]))

    def append(writer: int) -> list[int | None]:
        table = open_table()
        return [table.append(pa.table({"id": [100 * writer + n]})) for n in range(5)]

    with ThreadPoolExecutor(_WRITERS) as pool:
        versions = sorted(itertools.chain.from_iterable(map(list, pool.map(append, range(_WRITERS)))), key=str)
    assert Counter(versions) == Counter(range(1, 5 * _WRITERS + 1))
    assert rows_of(open_table()) == Counter(100 * writer + n for writer in range(_WRITERS) for n in range(5))
    assert defects(open_table()) == []


def test_money_is_neither_made_nor_lost(open_table: Callable[[], Table]) -> None:
    """Transfers between accounts, which conflict: in each version the sum is that of the beginning."""
    opening = pa.table({"id": range(_ACCOUNTS), "balance": [_OPENING] * _ACCOUNTS})
    open_table().append(opening)

    def transfer(writer: int) -> int:
        table, draw, done = open_table(), random.Random(writer), 0
        for _ in range(4):
            giver, taker = draw.sample(range(_ACCOUNTS), 2)
            try:
                changed = table.update(
                    {"balance": f"balance + CASE WHEN id = {giver} THEN -7 ELSE 7 END"}, f"id IN ({giver}, {taker})"
                )
            except DeltaConcurrentModificationException:
                continue
            done += changed.updated > 0
        return done

    with ThreadPoolExecutor(_WRITERS) as pool:
        done = sum(pool.map(transfer, range(_WRITERS)))
    table = open_table()
    assert done > 0
    assert table.snapshot().version == done
    for version in range(done + 1):
        assert sum(table.to_arrow(version=version)["balance"].to_pylist()) == _ACCOUNTS * _OPENING
    assert defects(table) == []


def test_one_of_racing_processes_wins_each_key(
    folder_url: str, storage_options: Mapping[str, str], store_module: str | None
) -> None:
    """A store that looks before it writes, under a lock of its process, lets one writer of each process win."""
    if folder_url.startswith("memory:"):
        pytest.skip("a store in the memory of one process has no writers in others")
    context = multiprocessing.get_context("spawn")
    together, children = context.Barrier(_RACING), []
    for writer in range(_RACING):
        ours, theirs = context.Pipe()
        arguments = (folder_url, dict(storage_options), store_module, writer, together, theirs)
        children.append((ours, context.Process(target=_put_racing, args=arguments)))
        children[-1][1].start()
        theirs.close()
    wins = [ours.recv() for ours, _ in children]
    for _, child in children:
        child.join()
    assert Counter(itertools.chain.from_iterable(wins)) == Counter(range(_RACES)), "a key has two winners, or none"
    store = open_store(folder_url, storage_options)
    for writer, won in enumerate(wins):
        assert {store.get(f"_delta_log/{number:020d}.json") for number in won} <= {str(writer).encode()}


def test_writers_that_are_killed(
    open_table: Callable[[], Table], folder_url: str, storage_options: Mapping[str, str], store_module: str | None
) -> None:
    """What a writer was told to have committed is there once, whatever happens to it then; the rest is there or not."""
    if folder_url.startswith("memory:"):
        pytest.skip("a store in the memory of one process has no writers in others")
    open_table().create(pa.schema([("id", pa.int64())]))
    context, told = multiprocessing.get_context("spawn"), set[int]()
    for turn in range(_KILLED):
        writers = []
        for writer in range(2):  # in processes of their own, which share no lock
            ours, theirs = context.Pipe()
            start = 10_000 * (2 * turn + writer)
            arguments = (folder_url, dict(storage_options), store_module, start, theirs)
            writers.append((ours, context.Process(target=_append_until_killed, args=arguments)))
            writers[-1][1].start()
            theirs.close()
        for ours, _ in writers:
            told.add(ours.recv())
        time.sleep(random.Random(turn).random() / 2)
        for ours, child in writers:
            child.kill()
            child.join()
            with suppress(EOFError):
                while True:
                    told.add(ours.recv())
    rows = rows_of(open_table())
    assert set(rows) >= told
    assert set(rows.values()) == {1}
    open_table().append(pa.table({"id": [-1]}))
    assert defects(open_table()) == []


def _put_racing(
    url: str, options: Mapping[str, str], module: str | None, writer: int, together: Barrier, told: Connection
) -> None:
    """Put each of some keys at the same time as the others; tell which of them were won."""
    if module is not None:
        import_module(module)
    store, won = open_store(url, options), []
    for number in range(_RACES):
        together.wait(_PATIENCE_SECONDS)
        if store.put_if_absent(f"_delta_log/{number:020d}.json", str(writer).encode()):
            won.append(number)
    told.send(won)


def _append_until_killed(
    url: str, options: Mapping[str, str], module: str | None, start: int, told: Connection
) -> None:
    if module is not None:
        import_module(module)
    table = Table(url, options)
    for number in itertools.count(start):
        table.append(pa.table({"id": [number]}))
        told.send(number)
