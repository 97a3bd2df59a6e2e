"""VACUUM beside commands that replace the table, or change what it may delete: it decides again after the listing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import MetadataChangedException, UnsupportedWriterFeatureError, VacuumRetentionTooShortError
from tahoe.protocol.log.actions import encode_commit
from tahoe.protocol.log.log_files import LAST_VACUUM_INFO, commit_key
from tahoe.storage.env import Tree
from tahoe.storage.memory import MemoryStore
from tahoe.table.cleanup import vacuum as command
from tests.table.builders import memory_env, put_commit

HOUR_MS = 3_600_000
RETENTION = "delta.deletedFileRetentionDuration"


class World:
    """A table of one file, beside a file that no version has needed for ten hours. Its retention is an hour."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        env = replace(memory_env(), clock_ms=lambda: self.now_ms)
        self.env = replace(env, store=MemoryStore(env.store.url, clock_ms=lambda: self.now_ms))
        self.table.append(pa.table({"id": [1]}), properties={RETENTION: "interval 1 hour"})
        self.env.store.put("stray.parquet", b"x")
        self.now_ms += 10 * HOUR_MS

    @property
    def table(self) -> tahoe.Table:
        return tahoe.Table(self.env.store.url, env=self.env)

    @property
    def has_stray(self) -> bool:
        return self.env.store.head("stray.parquet") is not None

    def require(self) -> None:
        """Another writer adds a writer feature that tahoe does not know."""
        before = self.table.snapshot()
        protocol = before.protocol.replace(
            reader_version=3,
            writer_version=7,
            reader_features=frozenset(),
            writer_features=frozenset({"fromTheFuture"}),
        )
        put_commit(self.env, before.version + 1, [protocol])

    def retain(self, hours: int) -> None:
        with self.table.transaction() as changes:
            changes.set_properties({RETENTION: f"interval {hours} hours"})

    def replace_table(self) -> None:
        """Delete the log and write one of another table that needs every file of the folder, as CONVERT TO DELTA
        does.
        """
        before = self.table.snapshot()
        for info in list(self.env.store.list_from("_delta_log")):
            self.env.store.delete(info.key)
        file = next(iter(before.live.adds()))
        metadata = before.metadata.replace(id="11111111-1111-4111-8111-111111111111")
        data = encode_commit([before.protocol, metadata, file, file.replace(path="stray.parquet")])
        assert self.env.store.put_if_absent(commit_key(0), data)


def after_listing(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    listed = world.env.store.tree

    def tree() -> Tree:
        found = listed()
        act()
        return found

    monkeypatch.setattr(world.env.store, "tree", tree)


def once_found(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act when VACUUM knows which files it will delete."""
    known = command.dead_files

    def dead_files(*given: object) -> object:
        act()
        return known(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "dead_files", dead_files)


def while_deleting(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    deleted = world.env.store.delete_many

    def delete_many(keys: list[str]) -> object:
        act() if "stray.parquet" in keys else None
        return deleted(keys)

    monkeypatch.setattr(world.env.store, "delete_many", delete_many)


def test_nothing_is_deleted_once_the_table_needs_an_unknown_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    for when in (
        lambda world: after_listing(world, monkeypatch, world.require),
        lambda world: once_found(monkeypatch, world.require),
    ):
        world = World()
        when(world)
        with pytest.raises(UnsupportedWriterFeatureError, match="fromTheFuture"):
            world.table.vacuum(log_history=True)
        assert (world.has_stray, world.table.version) == (True, 1)
        monkeypatch.undo()


def test_the_end_is_not_recorded_once_the_table_needs_an_unknown_feature(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    while_deleting(world, monkeypatch, world.require)
    report = world.table.vacuum(log_history=True)
    assert (report.files, world.table.version) == (("stray.parquet",), 2)
    assert "its end could not be recorded in the history" in caplog.text
    assert world.env.store.head(LAST_VACUUM_INFO) is None


def test_the_longer_retention_counts_if_it_is_changed_during_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    after_listing(world, monkeypatch, lambda: world.retain(20))
    assert (world.table.vacuum().files, world.has_stray) == ((), True)
    monkeypatch.undo()
    after_listing(world, monkeypatch, lambda: world.retain(1))
    assert (world.table.vacuum().files, world.has_stray) == ((), True)
    monkeypatch.undo()
    assert world.table.vacuum().files == ("stray.parquet",)


def test_a_retention_that_was_given_is_compared_with_the_newest_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    after_listing(world, monkeypatch, lambda: world.retain(20))
    with pytest.raises(VacuumRetentionTooShortError, match="20 h"):
        world.table.vacuum(2)
    assert world.has_stray
    assert world.table.vacuum(2, retention_check=False).files == ("stray.parquet",)


def test_a_retention_that_is_raised_at_the_last_moment_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    once_found(monkeypatch, lambda: world.retain(20))
    with pytest.raises(
        MetadataChangedException, match=f"raised {RETENTION} from {HOUR_MS} to {20 * HOUR_MS} ms; no file was deleted"
    ):
        world.table.vacuum()
    assert world.has_stray


def test_files_of_a_table_that_took_the_place_of_the_listed_one_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    once_found(monkeypatch, world.replace_table)
    with pytest.raises(MetadataChangedException, match="planned on another table"):
        world.table.vacuum(log_history=True)
    assert (world.has_stray, world.table.version) == (True, 0)
