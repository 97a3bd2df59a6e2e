"""A checkpoint that keeps sidecars of the one before says what a checkpoint says that is written as a whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, DeletionVectorDescriptor, Remove, Sidecar
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.log.checkpoint import read_checkpoint, read_other_actions, read_tombstones, sidecar_key
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot, refresh
from tahoe.table.verify.findings import Kind
from tahoe.table.verify.log import check_log
from tests.property.numbered_logs import PROTOCOL, small
from tests.table.builders import METADATA, add, memory_env, put_commit
from tests.table.dying import Died

DAY_MS = 24 * 3_600_000
STATS = '{{"numRecords":1,"minValues":{{"id":{0}}},"maxValues":{{"id":{0}}},"nullCount":{{"id":0}}}}'
VECTORS = [
    None,
    *(DeletionVectorDescriptor(storage_type="i", path_or_inline=f"v{n}", size_bytes=1, cardinality=1) for n in (1, 2)),
]
NAMES = [*(f"f{n:02}" for n in range(10)), "a%20b", "c%2Fd", "new1", "new2"]


@dataclass
class Life:
    """A table with V2 checkpoints, whose commits add, remove and mark files, and bring removed ones back."""

    log: Log = field(default_factory=lambda: Log(memory_env()))
    live: dict[str, Add] = field(default_factory=dict)
    version: int = -1

    def commit(self, names: list[str], vectors: list[DeletionVectorDescriptor | None]) -> None:
        actions: list[Action] = []
        for name, vector in zip(names, vectors, strict=True):
            known = self.live.pop(name, None)
            if known is not None:
                gone = Remove(path=name, deletion_vector=known.deletion_vector)
                actions.append(gone.replace(deletion_timestamp_ms=self.log.env.clock_ms()))
            if known is None or vector not in (None, known.deletion_vector):
                new = add(name, stats=STATS.format(len(name) + self.version), deletion_vector=vector)
                actions.append(new)
                self.live[name] = new
        self.put(actions)

    def put(self, actions: list[Action]) -> None:
        self.version += 1
        put_commit(self.log.env, self.version, actions)


def born(files: int = 10) -> Life:
    life = Life()
    metadata = METADATA.replace(configuration={"delta.checkpointPolicy": "v2"})
    life.live = {f"f{n:02}": add(f"f{n:02}", stats=STATS.format(n)) for n in range(files)}
    life.put([PROTOCOL, metadata, *life.live.values()])
    return life


def sidecars(log: Log) -> set[str]:
    """The sidecars of the newest checkpoint."""
    checkpoint = log.segment().checkpoint
    assert checkpoint is not None
    actions = [a for file in checkpoint.files for a in read_other_actions(log.env.store, file.key)]
    return {sidecar_key(a) for a in actions if isinstance(a, Sidecar)}


def content(log: Log) -> tuple[list[str], list[str]]:
    """The files and the tombstones of the newest checkpoint."""
    checkpoint = log.segment().checkpoint
    assert checkpoint is not None
    _, parts = read_checkpoint(log, checkpoint, whole=True)
    files = [row for part in parts for batch in part.batches() for row in batch.drop(["stats_parsed"]).to_pylist()]
    removes = [row for batch in read_tombstones(log.env.store, checkpoint) for row in batch.to_pylist()]
    return sorted(map(repr, files)), sorted(map(repr, removes))


def replayed(log: Log) -> Snapshot:
    """The newest version by its commits alone."""
    return load_snapshot(log, unusable=frozenset(f.name for f in log.list_files() if f.is_checkpoint))


COMMITS = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VECTORS)), max_size=3, unique_by=lambda pair: pair[0]),
    min_size=1,
    max_size=3,
)


@given(st.lists(COMMITS, min_size=1, max_size=2), st.integers(1, 2), st.booleans())
def test_a_checkpoint_with_kept_sidecars_is_the_whole_one(
    rounds: list[list[list[tuple[str, DeletionVectorDescriptor | None]]]], group_files: int, kept_open: bool
) -> None:
    life = born()
    with small(group_files):
        write_checkpoint(load_snapshot(life.log))
        snapshot = load_snapshot(life.log)
        for commits in rounds:
            for changes in commits:
                life.commit([name for name, _ in changes], [vector for _, vector in changes])
            snapshot = refresh(snapshot) if kept_open else load_snapshot(life.log)
            write_checkpoint(snapshot)
            assert [(f.severity, f.detail) for f in check_log(life.log)] == []
            assert {(a.path, a.deletion_vector) for a in load_snapshot(life.log).live.adds()} == {
                (a.path, a.deletion_vector) for a in life.live.values()
            }
            kept = content(life.log)
            for file in life.log.list_files(life.version):
                if file.is_checkpoint:
                    life.log.env.store.delete(file.key)
            write_checkpoint(replayed(life.log))
            assert content(life.log) == kept


def test_only_the_sidecars_of_removed_files_are_written_anew() -> None:
    """A checkpoint of forty files of which one was removed would else cost as much as the first one."""
    life = born(40)
    with small(2):
        write_checkpoint(load_snapshot(life.log))
        before = sidecars(life.log)
        life.commit(["f07", "new1"], [None, None])
        write_checkpoint(load_snapshot(life.log))
        after = sidecars(life.log)
        assert len(before - after) == 1
        assert len(after & before) == len(before) - 1
        life.commit(["new2"], [None])
        write_checkpoint(load_snapshot(life.log))
        assert len(sidecars(life.log) & before) == len(before) - 1


def test_a_handle_that_is_open_for_long_keeps_the_sidecars_of_the_newest_checkpoint() -> None:
    life = born(40)
    opened = load_snapshot(life.log)
    with small(2):
        write_checkpoint(opened)
        before = sidecars(life.log)
        for name in ("f07", "f21"):
            life.commit([name], [None])
            opened = refresh(opened)
            write_checkpoint(opened)
            assert len(before - sidecars(life.log)) <= 2
            assert len(list(load_snapshot(life.log).live.adds())) == len(life.live)


@pytest.mark.parametrize("setting", ["delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"])
def test_sidecars_with_other_columns_are_not_kept(setting: str) -> None:
    """Else some files would lack the statistics that the table asks for."""
    life = born(40)
    with small(2):
        write_checkpoint(load_snapshot(life.log))
        before = sidecars(life.log)
        metadata = load_snapshot(life.log).metadata
        life.put([metadata.replace(configuration={**metadata.configuration, setting: "false"})])
        write_checkpoint(load_snapshot(life.log))
        assert not sidecars(life.log) & before


@pytest.mark.parametrize("classic_name", [False, True])
def test_a_checkpoint_is_whole_if_the_one_before_is_deleted_meanwhile(classic_name: bool) -> None:
    """Whoever deletes it may take its sidecars for unused, because the new checkpoint does not yet name them."""
    life = born(40)
    with small(2):
        write_checkpoint(load_snapshot(life.log))
        before = sidecars(life.log)
        life.commit(["f07"], [None])
        store = _Deleting(
            life.log.env.store, lambda key: key.endswith("checkpoint.parquet" if classic_name else "json")
        )
        log = Log(replace(life.log.env, store=store))
        write_checkpoint(load_snapshot(log), classic_name=classic_name)
        assert store.is_done
        assert not sidecars(life.log) & before
        for key in before:
            life.log.env.store.delete(key)
        assert len(load_snapshot(life.log).live) == 39
        assert len(list(load_snapshot(life.log).live.adds())) == 39


class _Deleting:
    """A store in which the first checkpoint is deleted just before the next one is put."""

    def __init__(self, inner: object, is_next: Callable[[str], bool]) -> None:
        self._inner, self._is_next, self.is_done = inner, is_next, False

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put(self, key: str, data: object) -> None:
        self._look(key)
        self._inner.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._look(key)
        return self._inner.put_if_absent(key, data)

    def _look(self, key: str) -> None:
        if ".checkpoint." in key and self._is_next(key) and not self.is_done:
            self.is_done = True
            for info in list(self._inner.list_from(log_files.LOG_FOLDER)):
                if ".checkpoint." in info.key:
                    self._inner.delete(info.key)


class _Raced:
    """The store of a writer that dies as soon as its checkpoint is there. Before its n-th call somebody else has cleaned
    the log up: the checkpoint before is gone, and the sidecars that no other one refers to.
    """

    def __init__(self, inner: Any, n: int, gone: set[str]) -> None:
        self._inner, self._left, self._gone, self.url = inner, n, gone, inner.url
        self.is_over = False
        self.cleaned_before = ""  # the call, and its key

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if self.is_over:
                raise Died
            self._left -= 1
            if self._left == 0:
                self.cleaned_before = f"{name} {arguments[0] if arguments else ''}"
                for key in self._gone:
                    self._inner.delete(key)
            answer = getattr(self._inner, name)(*arguments, **named)
            if name in ("put", "put_if_absent") and ".checkpoint." in arguments[0]:
                self.is_over = True
                raise Died
            return answer

        return call if callable(getattr(self._inner, name)) else getattr(self._inner, name)


def test_a_writer_that_dies_leaves_no_checkpoint_without_sidecars_that_were_gone_before_it_was_put() -> None:
    """It looks before it puts the checkpoint, too: to find out only afterwards would be too late for the dead. What was
    deleted between this look and the put leaves a checkpoint over which tahoe reads on, until the next one.
    """
    broken, n, cleaned_before = list[str](), 0, "nothing yet"
    with small(2):
        while cleaned_before:
            n += 1
            life = born(40)
            write_checkpoint(load_snapshot(life.log))
            first = life.log.segment().checkpoint
            assert first is not None
            life.commit(["f07"], [None])
            store = _Raced(life.log.env.store, n, {*(file.key for file in first.files), *sidecars(life.log)})
            with suppress(Died):
                write_checkpoint(load_snapshot(Log(replace(life.log.env, store=store))))
            cleaned_before = store.cleaned_before
            assert len(list(load_snapshot(life.log).live.adds())) == 39
            if any(finding.kind is Kind.BROKEN_CHECKPOINT for finding in check_log(life.log)):
                broken.append(cleaned_before)
                life.commit(["f08"], [None])
                write_checkpoint(load_snapshot(life.log))
                newest = life.log.segment().checkpoint
                assert newest is not None
                assert len(read_checkpoint(life.log, newest, whole=True)[1]) > 1
    assert n > 10
    assert [call.split(" ")[0] for call in broken] == ["put"]


def test_cleanup_leaves_the_sidecars_that_a_newer_checkpoint_has_kept() -> None:
    life = born(40)
    env = life.log.env
    with small(2):
        write_checkpoint(load_snapshot(life.log))
        first = life.log.segment().checkpoint
        life.commit(["f07"], [None])
        write_checkpoint(load_snapshot(life.log))
        later = Log(replace(env, clock_ms=lambda: env.clock_ms() + 90 * DAY_MS))
        kept = sidecars(life.log)
        deleted = clean_log(load_snapshot(later), timedelta(0))
        assert first is not None
        assert {file.key for file in first.files} <= set(deleted)
        assert not kept & set(deleted)
        assert len(list(load_snapshot(life.log).live.adds())) == 39
