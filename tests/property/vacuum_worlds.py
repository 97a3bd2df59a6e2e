"""A table with writers whose clocks differ, and VACUUM runs on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import tahoe
from tahoe.errors import CannotVacuumLiteError, ConcurrentWriteException
from tahoe.protocol.log.actions import Cdc, Remove
from tahoe.protocol.log.deletion_vector import vector_location
from tahoe.protocol.log.log_files import Kind, readable_versions
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tahoe.table.commit.post_commit_hooks import clean_log

HOUR_MS = 3_600_000

START_MS = 1_700_000_000_000

_names = itertools.count()


@dataclass
class World:
    """One table, its clocks, and what a reader has seen of every version."""

    properties: dict[str, str]
    partitioned: bool
    now_ms: int = START_MS
    skew_ms: int = 0
    has_turned: bool = False
    hidden: int = 0
    cutoff_ms: int = 0
    url: str = ""
    rows: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    needed: dict[int, set[str]] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    removed: list[tuple[str, int]] = field(default_factory=list)
    changed: dict[int, set[str]] = field(default_factory=dict)
    open: list[tuple[Any, int]] = field(default_factory=list)
    written: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.url = f"memory://vacuum-{next(_names)}"
        ids = itertools.count()
        self.store = MemoryStore(self.url, clock_ms=lambda: self.now_ms)
        env = Env(
            store=self.store,
            clock_ms=lambda: self.now_ms,
            new_id=lambda: f"00000000-0000-4000-8000-{next(ids):012d}",
            sleep=lambda _: None,
            random=lambda: 0.5,
            store_at=lambda url: MemoryStore(url, clock_ms=lambda: self.now_ms),
            background=lambda work: work(),
        )
        self.caretaker = tahoe.Table(self.url, env=env)
        self.writer = tahoe.Table(self.url, env=replace(env, clock_ms=lambda: self.now_ms + self.skew_ms))
        self.writer.append(self.data(3), partition_by=["p"] if self.partitioned else [], properties=self.properties)
        self.look()

    def data(self, count: int) -> pa.Table:
        ids = [next(self.written) for _ in range(count)]
        return pa.table({"p": [f"{n % 2} %" for n in ids], "v": ids})

    def look(self) -> None:
        """Remember what every new version needs and shows."""
        log = self.caretaker.log
        for version in range(max(self.rows, default=-1) + 1, self.caretaker.version + 1):
            snapshot = self.caretaker.snapshot(version)
            self.rows[version] = rows_of(self.caretaker, version)
            self.times[version] = max(snapshot.timestamp_ms, self.times.get(version - 1, -1) + 1)
            self.needed[version], self.changed[version] = set(), set()
            for add in snapshot.live.adds():
                self.needed[version].add(log.canonical(add.path))
                if add.deletion_vector is not None and (place := vector_location(add.deletion_vector, self.url)):
                    self.needed[version].add(place[0].removeprefix(f"{self.url}/"))
            for action in log.read_version(version):
                if isinstance(action, Remove):
                    self.removed.append((log.canonical(action.path), action.deletion_timestamp_ms or 0))
                if isinstance(action, Cdc):
                    self.changed[version].add(log.canonical(action.path))

    def within(self, cutoff_ms: int) -> list[int]:
        """The versions that were the newest at some time from the cutoff on."""
        newest = max(self.rows)
        return [version for version in self.rows if version == newest or self.times[version + 1] > cutoff_ms]

    # --- what happens

    def append(self, count: int) -> None:
        self.writer.append(self.data(count))

    def delete(self, modulus: int) -> None:
        kept = {row[1] for row in self.rows[max(self.rows)]}
        if chosen := [v for v in kept if v % modulus == 0]:
            with self.writer.transaction() as changes:
                changes.delete(f"v in ({', '.join(map(str, chosen))})")

    def overwrite(self, _: int) -> None:
        with self.writer.transaction() as changes:
            changes.delete("true")
            changes.append(self.data(2))

    def begin(self, count: int) -> None:
        """A slow writer writes its files, and commits later."""
        changes = self.writer.transaction()
        changes.__enter__()
        changes.append(self.data(count))
        self.open.append((changes, self.now_ms))

    def finish(self, _: int) -> None:
        if self.open:
            changes, _ = self.open.pop()
            with suppress(
                ConcurrentWriteException
            ):  # the log no longer has the version that it read: nothing is committed
                changes.__exit__(None, None, None)

    def wait(self, hours: int) -> None:
        self.now_ms += hours * HOUR_MS

    def turn_clock(self, hours: int) -> None:
        self.skew_ms, self.has_turned = (hours - 3) * HOUR_MS, True

    def stray(self, number: int) -> None:
        """What failed writers and other programs leave."""
        self.store.put(f"{'p=0 %25/' * (number % 2)}stray-{next(self.written)}.parquet", b"x")
        self.store.put(f"_hidden/{next(self.written)}", b"x")
        self.hidden += 1

    def checkpoint(self, _: int) -> None:
        self.caretaker.create_checkpoint()

    def clean(self, _: int) -> None:
        clean_log(self.caretaker.snapshot())

    def vacuum(self, hours: int, *, lite: bool) -> None:
        cutoff_ms = self.now_ms - hours * HOUR_MS
        for changes, begun_ms in self.open:
            if begun_ms < cutoff_ms:  # slower than the retention allows
                changes.__exit__(RuntimeError, RuntimeError(), None)
        self.open = [(changes, begun_ms) for changes, begun_ms in self.open if begun_ms >= cutoff_ms]
        try:
            report = self.caretaker.vacuum(hours, lite=lite, retention_check=False, log_history=hours % 2 == 0)
        except CannotVacuumLiteError:
            return
        assert not report.failed
        self.cutoff_ms = max(self.cutoff_ms, cutoff_ms)  # an earlier run may have had a shorter retention
        self.check_readable(self.cutoff_ms)
        self.check_gone(cutoff_ms, lite=lite)

    # --- what must be

    def check_readable(self, cutoff_ms: int) -> None:
        files = self.caretaker.log.list_files()
        readable, commits = readable_versions(files), {file.version for file in files if file.kind is Kind.COMMIT}
        assert readable is not None
        for version in self.within(cutoff_ms):
            if version >= readable[0]:
                assert rows_of(self.caretaker, version) == self.rows[version]
            if version in commits:
                assert all(self.store.head(key) is not None for key in self.changed[version])

    def check_gone(self, cutoff_ms: int, *, lite: bool) -> None:
        needed = {key for version in self.within(cutoff_ms) for key in self.needed[version] | self.changed[version]}
        recent = {key for key, time_ms in self.removed if time_ms >= cutoff_ms}
        recent_vectors = any(time_ms >= cutoff_ms for _, time_ms in self.removed)
        for info in self.store.walk():
            is_table_file = not info.key.startswith(("_delta_log/", "_hidden/"))
            if not is_table_file or info.modified_ms >= cutoff_ms or info.key in needed or info.key in recent:
                continue
            if "deletion_vector" in info.key and recent_vectors:
                continue
            assert lite, info.key
            assert self.has_turned or info.key not in {key for key, _ in self.removed}, info.key
        assert len(list(self.store.walk("_hidden"))) == self.hidden


def rows_of(table: tahoe.Table, version: int) -> list[tuple[Any, ...]]:
    return sorted((row["p"], row["v"]) for row in table.snapshot(version).to_arrow().to_pylist())


def steps(*more: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    names = [
        *more,
        "append",
        "delete",
        "overwrite",
        "begin",
        "finish",
        "wait",
        "wait",
        "turn_clock",
        "stray",
        "checkpoint",
        "clean",
        "full",
        "lite",
    ]
    return st.lists(st.tuples(st.sampled_from(names), st.integers(1, 6)), min_size=4, max_size=25)
