"""A table under a stream that is compacted, vacuumed, restored, cloned over, dropped and made again: the right rows, or
the right error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import (
    DataFileMissingError,
    DeltaError,
    NotADeltaTableError,
    OtherTableInStreamError,
    StreamSourceChangeError,
    StreamSourceDeleteError,
    StreamStartGoneError,
    TableNotFoundError,
)
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE
from tahoe.protocol.log import log_files
from tahoe.protocol.streams.stream_offset import StreamOffset, parse_offset
from tahoe.table.reading.rows import read_rows
from tahoe.table.streams.feed_stream import FeedStream
from tahoe.table.streams.stream import AdmissionLimit, Stream, StreamStart, TableStream
from tahoe.table.streams.stream_commits import ChangeTolerance
from tests.table.builders import memory_env

PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
KINDS: list[type[Stream[Any]]] = [TableStream, FeedStream]


class World:
    """A table, and another one that may take its place. Each row has a number of its own."""

    def __init__(self, *, has_vectors: bool = True) -> None:
        self.env, self.next = memory_env(), 0
        self.properties = PROPERTIES | {"delta.enableDeletionVectors": str(has_vectors).lower()}
        self.table = tahoe.Table("memory://source", env=self.env)
        self.append(3)
        self.append(2)

    def rows(self, count: int) -> pa.Table:
        first, self.next = self.next, self.next + count
        return pa.table({"id": pa.array(range(first, self.next), pa.int64())})

    def append(self, count: int) -> None:
        self.table.append(self.rows(count), properties=None if self.table.exists() else self.properties)

    def delete(self, remainder: int) -> None:
        """Delete every third row, or with 5 all rows of a file."""
        with self.table.transaction() as changes:
            if remainder < 5:
                there = sorted(self.table.to_arrow()["id"].to_pylist())[remainder % 3 :: 3]
                changes.delete(f"id IN ({', '.join(map(str, [-1, *there]))})")
            else:
                changes.remove(self.table.files().column("path").to_pylist()[:1])

    def restore(self, back: int) -> None:
        self.table.restore(max(self.table.version - back, 0))

    def replace(self, count: int) -> None:
        """Clone another table over this one."""
        other = tahoe.Table("memory://other", env=memory_env())
        other.append(self.rows(count), properties=self.properties)
        other.clone("memory://source", replace=True, env=self.env)

    def drop(self) -> None:
        for info in list(self.env.store.walk()):
            self.env.store.delete(info.key)

    def stream(self, kind: type[Stream[Any]], **start: Any) -> Stream[Any]:
        return kind(tahoe.Table("memory://source", env=self.env).snapshot(), StreamStart(**start))  # type: ignore[call-arg]


OPERATIONS: dict[str, Callable[[World, int], object]] = {
    "append": lambda world, number: world.append(number + 1),
    "delete": lambda world, number: world.delete(number),
    "optimize": lambda world, _: world.table.optimize(),
    "vacuum": lambda world, _: world.table.vacuum(),
    "checkpoint": lambda world, _: world.table.create_checkpoint(),
    "restore": lambda world, number: world.restore(number),
    "replace": lambda world, number: world.replace(number + 1),
}


def rows(stream: Stream[Any], start: StreamOffset | None, end: StreamOffset) -> Iterator[tuple[str, int]]:
    """The rows of a batch, with their change type."""
    is_feed = isinstance(stream, FeedStream)
    for portion in stream.portions(start, end):
        scan = portion.snapshot.scan()
        scan = scan if portion.numbers is None else scan.within(portion.numbers.tolist())
        found = read_rows(scan, ["id", CHANGE_TYPE] if is_feed else ["id"], marked=portion.marked)
        yield from ((row.get(CHANGE_TYPE, "insert"), row["id"]) for row in found.to_pylist())


class Query:
    """A query that reads a stream, and may be started again from the offset in its checkpoint."""

    def __init__(self, world: World, kind: type[Stream[Any]], **start: Any) -> None:
        self.world, self.kind, self.start = world, kind, start
        self.offset: StreamOffset | None = None
        self.read: list[tuple[str, int]] = []
        self.restart()

    def restart(self) -> None:
        self.stream = self.world.stream(self.kind, **self.start)
        if self.offset is not None:
            self.offset = parse_offset(self.offset.to_json(), self.stream.table_id, table="source")

    def batch(self, files: int | None) -> bool:
        limit = AdmissionLimit(files)
        end = self.stream.first_end(limit) if self.offset is None else self.stream.next_end(self.offset, limit)
        if end is None or end == self.offset:
            return False
        self.read += rows(self.stream, self.offset, end)
        self.offset = end
        return True


STEPS = st.lists(st.tuples(st.sampled_from([*OPERATIONS, *["read"] * 4, "restart"]), st.integers(0, 5)), max_size=12)


def run(world: World, query: Query, steps: list[tuple[str, int]]) -> None:
    for step, number in steps:
        if step == "read":
            query.batch(number or None)
        elif step == "restart":
            query.restart()
        else:
            OPERATIONS[step](world, number)
    while query.batch(None):
        pass


@given(STEPS, st.booleans())
def test_a_feed_makes_a_copy_of_the_table_whatever_is_done_to_it(
    steps: list[tuple[str, int]], has_vectors: bool
) -> None:
    world = World(has_vectors=has_vectors)
    query = Query(world, FeedStream)
    run(world, query, steps)
    copy: Counter[int] = Counter()
    for change, id in query.read:
        copy[id] += {"insert": 1, "update_postimage": 1}.get(change, -1)
    assert sorted(copy.elements()) == sorted(world.table.to_arrow()["id"].to_pylist())
    assert min(copy.values(), default=0) >= 0


def appended(world: World, version: int) -> list[int]:
    """The rows of files that a version has and the one before it has not, if it has removed none of the files of
    that.
    """

    def files(version: int) -> dict[tuple[str, str | None], int]:
        live = world.table.snapshot(version).live
        vectors = [vector and str(vector) for vector in live.column("deletion_vector").to_pylist()]
        return {
            (path, vector): number
            for number, (path, vector) in enumerate(zip(live.column("path").to_pylist(), vectors, strict=True))
        }

    before, after = files(version - 1), files(version)
    if before.keys() - after.keys():
        return []
    added = [number for file, number in after.items() if file not in before]
    return read_rows(world.table.snapshot(version).scan().within(added), ["id"])["id"].to_pylist()


@given(STEPS, st.booleans())
def test_a_stream_past_changes_has_what_was_appended(steps: list[tuple[str, int]], has_vectors: bool) -> None:
    """With skipChangeCommits. A RESTORE that only brings files back appends their rows, as in the reference."""
    world = World(has_vectors=has_vectors)
    query = Query(world, TableStream, tolerance=ChangeTolerance(skips_changes=True))
    run(world, query, [("read", 1), *steps])
    assert query.offset is not None
    wanted = world.table.snapshot(1).to_arrow()["id"].to_pylist()
    for version in range(2, world.table.version + 1):
        wanted += appended(world, version)
    assert sorted(id for _, id in query.read) == sorted(wanted)


CHANGES: dict[str, tuple[Callable[[World], object], type[DeltaError]]] = {
    "RESTORE": (lambda world: world.restore(1), StreamSourceDeleteError),
    "CLONE": (lambda world: world.replace(2), StreamSourceChangeError),
}


@pytest.mark.parametrize(("change", "error"), CHANGES.values(), ids=CHANGES)
def test_a_version_that_takes_rows_back_stops_the_stream(
    change: Callable[[World], object], error: type[DeltaError]
) -> None:
    world = World()
    query = Query(world, TableStream)
    while query.batch(None):
        pass
    change(world)
    with pytest.raises(error, match=rf"Version 2 of {world.table.url}.*skipChangeCommits"):
        query.batch(None)


GONE = (TableNotFoundError, NotADeltaTableError, OtherTableInStreamError, DataFileMissingError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("versions", [0, 1, 2, 5])
@pytest.mark.parametrize("seen", ["nothing", "an end", "a batch", "everything", "a commit", "a restart"])
@pytest.mark.parametrize("start", [None, 0, 1, 2])
def test_a_table_that_was_dropped_and_made_again_gives_no_rows(
    kind: type[Stream[Any]], versions: int, seen: str, start: int | None
) -> None:
    """Whatever the query has seen of the old one, and however many versions the new one has."""
    world = World()
    query = Query(world, kind, find_version=lambda: start)
    planned: StreamOffset | None = None
    if seen == "an end":
        planned = query.stream.first_end(AdmissionLimit(files=1))
    elif seen == "a batch":
        query.batch(1)
    elif seen in ("everything", "a commit", "a restart"):
        while query.batch(None):
            pass
    if seen == "a commit":
        world.append(1)
        query.batch(None)
    if seen == "a restart":
        query.restart()
    read = list(query.read)
    world.drop()
    for count in range(versions):
        world.append(count + 1)
    with pytest.raises(GONE):
        if planned is not None:
            query.read += rows(query.stream, None, planned)
        for _ in range(5):
            query.batch(1)
    assert query.read == read


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_vacuumed_under_a_stream_are_named(kind: type[Stream[Any]]) -> None:
    """A stream reads the files of the version with which it has begun, also after they were compacted, until VACUUM
    deletes them.
    """
    world = World()
    query = Query(world, kind)
    query.batch(1)
    world.table.optimize()
    assert Query(world, kind, find_version=lambda: 1).batch(None)
    world.table.vacuum(retention_hours=0, retention_check=False)
    with pytest.raises(DataFileMissingError, match=world.table.url):
        query.batch(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_version_whose_log_is_gone_is_read_to_its_end_unless_the_query_is_started_again(
    kind: type[Stream[Any]], is_restarted: bool
) -> None:
    world = World()
    query = Query(world, kind)
    query.batch(1)
    world.append(4)
    world.table.create_checkpoint()
    for version in (0, 1):
        world.env.store.delete(log_files.commit_key(version))
    if not is_restarted:
        assert query.batch(None)
        return
    query.restart()
    with pytest.raises(StreamStartGoneError, match=r"in version 1.*Begin with a new checkpoint"):
        query.batch(None)
