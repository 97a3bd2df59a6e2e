"""VACUUM without a retention beside writers: no commit that was acknowledged names a file that is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    ConcurrentWriteException,
    RestoreBesideVacuumError,
    RestoreFilesMissingError,
    TagBesideVacuumError,
    TagFilesMissingError,
)
from tahoe.protocol.log.actions import CommitInfo
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tests.table.between import Interleavings
from tests.table.builders import memory_env

ROWS = list(range(10))
SOURCE = "memory://source"


class World:
    """A table of three versions, of which the first one needs a file that the others do not. Its clock moves with every
    look.
    """

    def __init__(self, properties: dict[str, str]) -> None:
        self.done = False
        self._now_ms = 1_700_000_000_000
        env = replace(memory_env(), clock_ms=self._clock)
        self.env = replace(env, store=MemoryStore(env.store.url, clock_ms=lambda: self._now_ms))
        self.table().append(pa.table({"id": ROWS, "n": [0] * len(ROWS)}), properties=properties)
        self.table().update({"n": "1"}, "id < 3")
        self.table().append(pa.table({"id": [10], "n": [0]}))
        source_of(self.env).append(pa.table({"id": [20], "n": [0]}))
        self._now_ms += 10_000

    def _clock(self) -> int:
        self._now_ms += 1
        return self._now_ms

    def table(self, env: Env | None = None) -> tahoe.Table:
        return tahoe.Table(self.env.store.url, env=env or self.env)

    def rows(self) -> list[tuple[int, int]]:
        columns = self.table().to_arrow().to_pydict()
        return sorted(zip(columns["id"], columns["n"], strict=True))


def source_of(env: Env) -> tahoe.Table:
    return tahoe.Table(SOURCE, env=replace(env, store=env.store_at(SOURCE)))


def vacuum(table: tahoe.Table, *, lite: bool = False) -> None:
    table.vacuum(retention_hours=0, retention_check=False, lite=lite)


def in_transaction(table: tahoe.Table) -> None:
    with table.transaction() as changes:
        changes.append(pa.table({"id": [11], "n": [7]}))
        changes.delete("id = 4")


def merge(table: tahoe.Table) -> None:
    source = pa.table({"id": [1, 12], "n": [7, 7]})
    table.merge(source, "id").when_matched_update_all().when_not_matched_insert_all().execute()


WRITES: dict[str, Callable[[tahoe.Table], object]] = {
    "append": lambda table: table.append(pa.table({"id": [11], "n": [7]})),
    "overwrite": lambda table: table.overwrite(pa.table({"id": [5], "n": [7]}), filter="id = 5"),
    "delete": lambda table: table.delete("id = 5"),
    "update": lambda table: table.update({"n": "7"}, "id = 5"),
    "merge": merge,
    "optimize": lambda table: table.optimize(),
    "transaction": in_transaction,
    "restore": lambda table: table.restore(0),
    "clone": lambda table: source_of(table.env).clone(table.url, env=table.env, replace=True),
}
LAYOUTS: dict[str, dict[str, str]] = {
    "copies": {},
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
}
MAY_LOSE = {
    "optimize": ConcurrentWriteException,
    "transaction": ConcurrentWriteException,
    "restore": RestoreFilesMissingError,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("write", WRITES)
def test_a_vacuum_at_any_moment_of_a_write_leaves_a_table_that_can_be_read(write: str, layout: str) -> None:
    """The files of a write are on the storage before a commit names them: a VACUUM that deletes them makes the write
    begin anew.
    """

    def run(world: World, env: Env) -> None:
        world.done = True
        try:
            WRITES[write](world.table(env))
        except MAY_LOSE.get(write, ()):
            world.done = False

    alone = World(LAYOUTS[layout])
    before = alone.rows()
    WRITES[write](alone.table())
    ended = set()
    for world in Interleavings(lambda: World(LAYOUTS[layout]), lambda world: world.env).of(
        run, lambda world: vacuum(world.table())
    ):
        assert world.rows() == (alone.rows() if world.done else before)
        ended.add(world.done)
    assert True in ended


REPLACEMENTS: dict[str, Callable[[tahoe.Table], object]] = {
    "compacted": lambda table: table.optimize(),
    "changed": lambda table: table.delete("id = 8"),
    "overwritten": lambda table: table.overwrite(pa.table({"id": [5], "n": [1]})),
}


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("write", ["delete", "update", "merge", "overwrite"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_reads_files_that_are_replaced_and_deleted_meanwhile_is_run_again(
    write: str, replacement: str, layout: str
) -> None:
    """The newest version is whole: no statement ends with the error that a file of its own version is gone."""

    def act(world: World) -> None:
        REPLACEMENTS[replacement](world.table())
        vacuum(world.table())

    for world in Interleavings(lambda: World(LAYOUTS[layout]), lambda world: world.env).of(
        lambda world, env: WRITES[write](world.table(env)), act
    ):
        assert (8, 0) not in world.rows() or replacement == "compacted"


@pytest.mark.parametrize("lite", [False, True], ids=["full", "lite"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_at_any_moment_of_a_vacuum_keeps_its_files(
    write: str, lite: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """RESTORE brings back files that VACUUM is about to delete, or is refused: nothing is lost in the moments before a
    deletion.
    """
    caplog.set_level(logging.WARNING, "tahoe")
    ended = set()

    def act(world: World) -> None:
        try:
            WRITES[write](world.table())
            ended.add("done")
        except (RestoreFilesMissingError, RestoreBesideVacuumError) as error:
            assert write == "restore"
            ended.add(type(error).__name__)

    interleavings = Interleavings(lambda: World({}), lambda world: world.env)
    for world in interleavings.of(lambda world, env: vacuum(world.table(env), lite=lite), act):
        assert "that were deleted before" not in caplog.text
        caplog.clear()
        world.rows()
    assert ended == (
        {"done", "RestoreBesideVacuumError", "RestoreFilesMissingError"} if write == "restore" else {"done"}
    )


class _Paused(MemoryStore):
    """The storage of a VACUUM that has decided what to delete, and is killed, or goes on later."""

    def __init__(self, world: World) -> None:
        super().__init__(world.env.store.url, clock_ms=lambda: world._now_ms)
        self.dead: list[str] = []

    def delete_many(self, keys: Any) -> Any:
        self.dead = list(keys)
        raise KeyboardInterrupt

    def put_if_absent(self, key: str, data: bytes) -> Any:
        if self.dead:
            raise KeyboardInterrupt
        return super().put_if_absent(key, data)


def paused_vacuum(world: World) -> _Paused:
    store = _Paused(world)
    with suppress(KeyboardInterrupt):
        vacuum(world.table(replace(world.env, store=store)))
    return store


def test_a_restore_at_any_moment_beside_a_vacuum_that_is_about_to_delete_loses_nothing() -> None:
    """The RESTORE may have looked at its files before the VACUUM began."""
    paused: list[_Paused] = []

    def run(world: World, env: Env) -> None:
        world.done = True
        try:
            world.table(env).restore(0)
        except RestoreBesideVacuumError:
            world.done = False

    before, ended = World({}).rows(), set()
    for world in Interleavings(lambda: World({}), lambda world: world.env).of(
        run, lambda world: paused.append(paused_vacuum(world))
    ):
        world.env.store.delete_many(paused[-1].dead)
        assert world.rows() == ([(id, 0) for id in ROWS] if world.done else before)
        ended.add(world.done)
    assert ended == {True, False}


def tag(world: World, env: Env) -> None:
    world.done = True
    try:
        world.table(env).tag("first", 0)
    except (TagBesideVacuumError, TagFilesMissingError):
        world.done = False


def check_tag(world: World) -> None:
    assert [found.version for found in world.table().tags()] == [0] * world.done
    if world.done:
        assert world.table().to_arrow(version="first").num_rows == len(ROWS)


@pytest.mark.parametrize("lite", [False, True], ids=["full", "lite"])
def test_a_tag_at_any_moment_of_a_vacuum_holds_its_version_or_is_refused(lite: bool) -> None:
    """Also without a retention."""
    interleavings, ended = Interleavings(lambda: World({}), lambda world: world.env), set()
    for world in interleavings.of(
        lambda world, env: vacuum(world.table(env), lite=lite), lambda world: tag(world, world.env)
    ):
        check_tag(world)
        ended.add(world.done)
    assert ended == {True, False}


@pytest.mark.parametrize("is_paused", [False, True], ids=["whole", "paused"])
def test_a_tag_at_any_moment_beside_a_vacuum_holds_its_version_or_is_refused(is_paused: bool) -> None:
    """The tag may have looked at its files before the VACUUM began, which may go on behind it."""
    paused, ended = list[_Paused](), set()

    def act(world: World) -> None:
        if is_paused:
            paused.append(paused_vacuum(world))
        else:
            vacuum(world.table())

    for world in Interleavings(lambda: World({}), lambda world: world.env).of(tag, act):
        world.env.store.delete_many(paused[-1].dead if paused else [])
        check_tag(world)
        ended.add(world.done)
    assert ended == {True, False}


def test_a_version_is_restored_behind_a_vacuum_that_was_killed() -> None:
    world = World({})
    paused_vacuum(world)
    with pytest.raises(RestoreBesideVacuumError, match="VACUUM that began at version 3 has not ended"):
        world.table().restore(0)
    world.table().restore(0, retention_check=False)
    assert world.rows() == [(id, 0) for id in ROWS]


def test_a_vacuum_that_keeps_a_version_does_not_stop_its_restore() -> None:
    """Within the retention, and if a tag holds the version."""
    world = World({})
    world.table().tag("kept", 0)
    world._now_ms += 10
    paused_vacuum(world)
    world.table().restore("kept")
    assert world.rows() == [(id, 0) for id in ROWS]


def test_a_long_write_behind_a_vacuum_with_the_usual_retention_is_run_again_too() -> None:
    """A write that took longer than the retention has lost its files as well."""
    world = World({})
    changes = world.table().transaction()
    changes.append(pa.table({"id": [11], "n": [7]}))
    world._now_ms += 8 * 24 * 3_600_000
    world.table().vacuum(log_history=True)
    with pytest.raises(ConcurrentWriteException, match=r"VACUUM START.* files from before .* that no commit names"):
        changes.commit()
    world.rows()


def test_a_write_goes_on_behind_a_vacuum_that_keeps_its_files() -> None:
    world = World({})
    changes = world.table().transaction()
    changes.append(pa.table({"id": [11], "n": [7]}))
    world.table().vacuum(log_history=True)
    changes.commit()
    assert (11, 7) in world.rows()


def test_rows_of_a_stream_that_can_be_read_once_are_not_written_again() -> None:
    batch, written = pa.record_batch({"id": [11], "n": [7]}), list[bool]()

    def run(world: World, env: Env) -> None:
        try:
            world.table(env).append(pa.RecordBatchReader.from_batches(batch.schema, iter([batch])))
            written.append(True)
        except ConcurrentWriteException:
            written.append(False)

    for done in Interleavings(lambda: World({}), lambda world: world.env).of(run, lambda world: vacuum(world.table())):
        assert ((11, 7) in done.rows()) == written[-1]


@pytest.mark.parametrize(
    ("fields", "cutoff_ms"),
    [
        (
            {"operation": "VACUUM START", "timestamp": 100, "operationParameters": {"specifiedRetentionMillis": "30"}},
            70,
        ),
        ({"operation": "VACUUM START", "timestamp": 100, "operationParameters": {"defaultRetentionMillis": "40"}}, 60),
        ({"operation": "VACUUM START", "timestamp": 100, "operationParameters": {"specifiedRetentionMillis": 0}}, 100),
        (
            {"operation": "VACUUM START", "timestamp": 100, "operationParameters": {"specifiedRetentionMillis": "-1"}},
            None,
        ),
        ({"operation": "VACUUM START", "timestamp": 100, "operationParameters": {}}, None),
        ({"operation": "VACUUM START", "timestamp": 100}, None),
        ({"operation": "VACUUM START", "operationParameters": {"specifiedRetentionMillis": "30"}}, None),
        ({"operation": "VACUUM END", "timestamp": 100, "operationParameters": {"defaultRetentionMillis": "40"}}, None),
    ],
)
def test_the_commit_of_a_vacuum_tells_its_cutoff(fields: dict[str, object], cutoff_ms: int | None) -> None:
    assert CommitInfo(fields).vacuum_cutoff_ms == cutoff_ms


def test_a_short_retention_is_recorded_on_every_storage() -> None:
    """Otherwise writers could not know that their files may be gone."""
    world = World({})
    world.table().vacuum()
    assert "VACUUM START" not in [row["operation"] for row in world.table().history()]
    vacuum(world.table())
    assert "VACUUM START" in [row["operation"] for row in world.table().history()]
