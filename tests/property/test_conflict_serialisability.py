"""Law 5: where a write is let through behind a winner, the table is as if the winner had run first and the write after
it, alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.storage.memory import MemoryStore
from tahoe.table.arrow.types import delta_schema
from tahoe.table.table import Table
from tahoe.table.writing.arrow_writer import write_arrow
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

_numbers = itertools.count()


class Overtaken(MemoryStore):
    """A store on which somebody else commits right before our first commit."""

    winner: Callable[[], None] | None = None

    def put_if_absent(self, key: str, data: bytes) -> bool:
        winner, self.winner = self.winner, None
        if winner is not None:
            winner()
        return super().put_if_absent(key, data)


@st.composite
def operations(draw):
    rows = draw(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 99)), max_size=3))
    kind = draw(st.sampled_from(["append", "overwrite", "replaceWhere", "dynamic"]))
    if kind == "replaceWhere":
        rows = [(1, v) for _, v in rows]
    return kind, rows


def write(table: Table, operation: tuple[str, list[tuple[int, int]]]) -> None:
    kind, rows = operation
    data = pa.table({"p": pa.array([p for p, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.int64())})
    request = WriteRequest(
        mode="append" if kind == "append" else "overwrite",
        schema=delta_schema(data.schema, table=table.url),
        partition_by=("p",),
        replace_where="p = 1" if kind == "replaceWhere" else None,
        dynamic_partitions=kind == "dynamic",
    )
    write_arrow(table, data, request)


def contents(table: Table) -> list[tuple[int, int]]:
    return sorted((row["p"], row["v"]) for row in table.to_arrow().to_pylist())


START = ("append", [(1, 1), (2, 2)])


@given(operations(), operations())
def test_a_write_that_gets_through_is_as_if_it_had_run_after_the_winner(winner, mine):
    url = f"memory://race-{next(_numbers)}"
    env = memory_env()
    here = Table(url, env=replace(env, store=MemoryStore(url)))
    write(here, START)
    store = Overtaken(url)
    store.winner = lambda: write(Table(url, env=replace(env, store=MemoryStore(url))), winner)
    try:
        write(Table(url, env=replace(env, store=store)), mine)
    except DeltaConcurrentModificationException as error:
        event(type(error).__name__)
        expected = [START, winner]
    else:
        event("let through")
        expected = [START, winner, mine]
    alone = Table(f"{url}-serial", env=replace(env, store=MemoryStore(f"{url}-serial")))
    for operation in expected:
        write(alone, operation)
    assert contents(here) == contents(alone)
    assert here.version == len(expected) - 1


@given(operations(), operations())
def test_appends_are_never_stopped_by_appends(winner, mine):
    first, second = ("append", winner[1]), ("append", mine[1])
    url = f"memory://appends-{next(_numbers)}"
    env = memory_env()
    write(Table(url, env=replace(env, store=MemoryStore(url))), START)
    store = Overtaken(url)
    store.winner = lambda: write(Table(url, env=replace(env, store=MemoryStore(url))), first)
    table = Table(url, env=replace(env, store=store))
    write(table, second)
    assert contents(table) == sorted([*START[1], *first[1], *second[1]])
