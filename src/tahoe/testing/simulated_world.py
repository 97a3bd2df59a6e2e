"""The world of a simulated life: a table's storage, which fails, and who works on it, one storage call at a time.

The table is a bank. Transfers delete the rows of two accounts and add them again with other balances, so that the total
is the same in every version, whoever was first. One seed decides who goes next, what goes wrong, and what each actor
does: the same seed is the same life.
"""

from __future__ import annotations

import errno
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, NoReturn, TypeVar

import msgspec

from tahoe.errors import (
    DeltaStorageError,
    StorageUnavailableError,
)
from tahoe.protocol.log.log_files import LAST_CHECKPOINT, LOG_FOLDER, STAGED_FOLDER, Kind, commit_key, parse_name
from tahoe.storage.env import Env, FileInfo, FileReplacedError, Store, Tree, Watch, copy_through, tree_of
from tahoe.storage.managed import ManagedStore
from tahoe.storage.memory import MemoryStore
from tahoe.storage.ratified import Ratified, RatifiedCommit
from tahoe.table.table import Table
from tahoe.testing.gated import Gated, Killed
from tahoe.testing.simulated_catalog import SimulatedCatalog

T = TypeVar("T")

ACCOUNTS = 12
OPENING = 100
START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
STEP_MS = 60_000

# A listing that is stale does not show what was written in the last so many calls.
_FRESH_STEPS = 10

# How many turns somebody waits for the worst moment.
PATIENCE_STEPS = 50

# How many storage calls a life may take before something must be going round in circles.
STEPS_MAX = 5000


@dataclass
class Life:
    """What happened under one seed.

    Attributes:
        rebases_after_fault: commits that went behind a winner after something had gone wrong.
        violations: what must never be.
        trace: who made which call, with what went wrong; the same for the same seed.
    """

    seed: int
    steps: int = 0
    commits: int = 0
    conflicts: int = 0
    rebases_after_fault: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


class Actor(Gated):
    """Something that works on the table, held before each call of its store until it may go on.

    Attributes:
        puts_checkpoint: it stands before the put of a checkpoint.
        has_put_version: it has put a version, and does not know yet whether the version follows the one that it was
            planned on.
    """

    def __init__(self, name: str, world: World, work: Callable[[Actor], None]) -> None:
        super().__init__(name, lambda: work(self))
        self.world = world
        self.random = random.Random(f"{world.life.seed} {name}")
        self.clock_offset_ms = 0
        self.puts_checkpoint = self.has_put_version = False
        self.acknowledged: list[tuple[int, str]] = []
        self._ids = 0
        store = self._store(world)
        env = Env(
            store=store,
            clock_ms=self._clock_ms,
            new_id=self._new_id,
            sleep=lambda _: None,
            random=self.random.random,
            store_at=lambda _: store,
            background=self._hooks(self.random.random() < 0.5),
            watch=Watch() if world.catalog is None else Publishing(self),
        )
        self.table = Table(world.store.url, env=env)

    def _store(self, world: World) -> Store:
        files, catalog = FailingStore(world, self), world.catalog
        if catalog is None:
            return files
        return ManagedStore(files, FailingCommits(world, self, catalog), self._new_id, self._clock_ms)

    def _hooks(self, run: bool) -> Callable[[Callable[[], None]], None]:
        """What follows a commit, whose outcome is known by then."""

        def background(work: Callable[[], None]) -> None:
            self.has_put_version = False
            if run:
                work()

        return background

    def _clock_ms(self) -> int:
        return START_MS + self.world.steps * STEP_MS + self.clock_offset_ms

    def _new_id(self) -> str:
        self._ids += 1
        return f"{sum(map(ord, self.name)):08x}-0000-4000-8000-{self._ids:012x}"


class FailingStore:
    """One actor's view of the storage: calls of its own thread are steps, and may go wrong. Those of its pools of
    threads just happen.
    """

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor, self._store = world, actor, world.view()
        self.url = world.store.url

    def _call(self, name: str, *arguments: Any) -> Any:
        if threading.current_thread() is not self._actor:
            return getattr(self._store, name)(*arguments)
        self._actor.puts_checkpoint = name.startswith("put") and _is_checkpoint(str(arguments[0]))
        self._actor.wait()
        self._actor.puts_checkpoint = False
        fault = self._world.fault(self._actor, name, str(arguments[0]) if arguments else "")
        if fault == "unavailable":
            raise StorageUnavailableError(
                table=self.url, operation=f"{name} {arguments[0]}", detail="a fault of the simulation"
            )
        if fault == "hint is gone":
            raise FileNotFoundError(arguments[0])
        found = getattr(self._store, name)(*arguments)
        if name == "put_if_absent" and found and self._world.catalog is None:
            self._world.note_put(self._actor, *arguments)
        if fault == "crash after a checkpoint":
            self._world.crash(self._actor)
        if fault == "answer is lost":
            raise StorageUnavailableError(
                table=self.url, operation=f"{name} {arguments[0]}", detail="a fault of the simulation"
            )
        if fault == "stale list":
            fresh_ms = START_MS + (self._world.steps - _FRESH_STEPS) * STEP_MS
            return iter([info for info in found if info.modified_ms < max(fresh_ms, START_MS + 1)])
        return found

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        found: Iterator[FileInfo] = self._call("list_from", prefix, start_after)
        return found

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        found: Iterator[FileInfo] = self._call("walk", prefix)
        return found

    def get(self, key: str) -> bytes:
        found: bytes = self._call("get", key)
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        found: bytes = self._call("get_range", key, start, length)
        return found

    def head(self, key: str) -> FileInfo | None:
        found: FileInfo | None = self._call("head", key)
        return found

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        found: BinaryIO = self._call("open", key, known)
        return found

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return bool(self._call("put_if_absent", key, data))

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self._call("put", key, data)

    def copy_from(self, source: Store, key: str, to: str) -> None:
        copy_through(source, key, self, to)

    def delete(self, key: str) -> None:
        self._call("delete", key)

    def tree(self) -> Tree:
        found: Tree = self._call("tree")
        return found

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        """Each file is a step, so that others see half of the work, and a crash leaves half of it."""
        for key in keys:
            self._call("delete", key)
        return {}

    def remove_folders(self, _: Iterable[str]) -> list[str]:
        return []


@dataclass(frozen=True)
class FailingCommits:
    """One actor's view of the catalog: calls of its own thread are steps, and may go wrong."""

    world: World
    actor: Actor
    catalog: SimulatedCatalog

    def ratified(self) -> Ratified:
        return self._call("ratified", self.catalog.ratified)

    def ratify(self, commit: RatifiedCommit) -> bool:
        return self._call("ratify", partial(self._ratify, commit))

    def _ratify(self, commit: RatifiedCommit) -> bool:
        is_ratified = self.catalog.ratify(commit)
        if is_ratified:
            data = self.world.files.get(f"{STAGED_FOLDER}/{commit.file}")
            self.world.note_put(self.actor, commit_key(commit.version), data)
        return is_ratified

    def may_describe(self, version: int) -> bool:
        return self.catalog.may_describe(version)

    def published(self, version: int) -> None:
        self._call("published", partial(self.catalog.published, version))

    def _call(self, name: str, answer: Callable[[], T]) -> T:
        if threading.current_thread() is not self.actor:
            return answer()
        self.actor.wait()
        fault = self.world.fault(self.actor, name, "")
        if fault == "unavailable":
            raise self._unavailable(name)
        found = answer()
        if fault == "answer is lost":
            raise self._unavailable(name)
        return found

    def _unavailable(self, name: str) -> StorageUnavailableError:
        return StorageUnavailableError(table=self.world.store.url, operation=name, detail="a fault of the simulation")


class Publishing(Watch):
    """Publishes each commit as a catalog's tables do: later, or never if its process ends."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def committed(self, url: str, version: int) -> None:  # noqa: ARG002
        self._actor.table.env.background(partial(self._publish_behind, version))

    def _publish_behind(self, version: int) -> None:
        store = self._actor.table.env.store
        assert isinstance(store, ManagedStore)
        with suppress(DeltaStorageError):  # later commits publish it
            store.publish_behind(version)


def _is_checkpoint(key: str) -> bool:
    file = parse_name(key.rpartition("/")[2])
    return file is not None and file.is_checkpoint


# What can go wrong with a call, and how often, of a thousand. A life draws its own factor, and switches some of them
# off altogether.
_FAULTS: Mapping[str, tuple[frozenset[str], int]] = {
    "answer is lost": (frozenset({"put_if_absent", "put", "ratify", "ratified", "published"}), 60),
    "unavailable": (frozenset({"put_if_absent", "put", "list_from", "ratify", "ratified", "published"}), 15),
    "stale list": (frozenset({"list_from"}), 60),
    "hint is gone": (frozenset({"get"}), 300),
    "clock jumps": (frozenset({"put_if_absent", "list_from", "ratify"}), 40),
    "crash after a checkpoint": (frozenset({"put_if_absent", "put"}), 150),
    "crash": (
        frozenset({"put_if_absent", "put", "list_from", "get", "head", "delete", "tree", "ratify", "published"}),
        4,
    ),
}


class DatedStore:
    """A store whose files have the times of the simulation, by which retentions are measured."""

    def __init__(self, inner: Store, clock_ms: Callable[[], int], times_ms: dict[str, int]) -> None:
        self._inner, self._clock_ms, self._times_ms = inner, clock_ms, times_ms
        self.url = inner.url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _dated(self, info: FileInfo) -> FileInfo:
        return msgspec.structs.replace(info, modified_ms=self._times_ms.get(info.key, START_MS))

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        return map(self._dated, self._inner.list_from(prefix, start_after))

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        return map(self._dated, self._inner.walk(prefix))

    def tree(self) -> Tree:
        return tree_of(self.walk())

    def head(self, key: str) -> FileInfo | None:
        found = self._inner.head(key)
        return None if found is None else self._dated(found)

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        found = None if known is None else self._inner.head(key)
        if known is not None and (found is None or self._dated(found).identity != known.identity):
            raise FileReplacedError(errno.ESTALE, "the file was replaced", key)
        return self._inner.open(key, found)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        is_made = self._inner.put_if_absent(key, data)
        if is_made:
            self._times_ms[key] = self._clock_ms()
        return is_made

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self._inner.put(key, data)
        self._times_ms[key] = self._clock_ms()


class World:
    """The storage and the actors of one life.

    Attributes:
        files: the storage.
        catalog: who ratifies the commits of the table; None if the log itself has them.
        store: the table's store without faults: the storage, behind the catalog if there is one.
        drops: how often the table was dropped.
        doubts: how many writers were told that nobody knows whether they have committed, or died before they knew.
        is_cleaned: somebody deletes old commits as soon as may be.
        is_vacuumed: somebody deletes files as soon as nobody at work needs them. Clocks do not jump then: a retention
            is measured by them.
        at_work_since: when the turns began that are not at their end, by the actor.
        begun: the id of the table that a transfer was planned on, by the transfer's name.
        puts: who created a version, by the number of drops before and the key. Of several, all but the first created it
            in a gap.
    """

    def __init__(
        self,
        seed: int,
        open_folder: Callable[[], Store] | None = None,
        *,
        catalog: SimulatedCatalog | None = None,
    ) -> None:
        self.life = Life(seed)
        self.random = random.Random(seed)
        self.steps = 0
        self._open_folder, self._times_ms = open_folder, dict[str, int]()
        self.files, self.catalog = self.view(), catalog
        self.store = self.files
        if catalog is not None:
            ids = (f"00000000-0000-4000-8000-{number:012x}" for number in itertools.count())
            self.store = ManagedStore(self.files, catalog, partial(next, ids), self._clock_ms)
        self.properties: Mapping[str, str] = {}
        self.drops = 0
        self.doubts = 0
        self.is_cleaned = False
        self.actors: list[Actor] = []
        self.is_vacuumed = False
        self.at_work_since: dict[str, int] = {}
        self.begun: dict[str, str] = {}
        self.puts: dict[tuple[int, str], list[str]] = {}
        self.strength = self.random.choice([1, 2, 3])
        self.off = {name for name in _FAULTS if self.random.random() < 0.2}

    def view(self) -> Store:
        """The storage, as an actor opens it."""
        if self._open_folder is None:
            return MemoryStore(f"memory://life-{self.life.seed}", clock_ms=self._clock_ms)
        return DatedStore(self._open_folder(), self._clock_ms, self._times_ms)

    def _clock_ms(self) -> int:
        return START_MS + self.steps * STEP_MS

    def note_put(self, actor: Actor, key: str, data: bytes) -> None:
        """Somebody has created a version."""
        file = parse_name(key.rpartition("/")[2])
        if file is not None and file.kind is Kind.COMMIT:
            actor.has_put_version = True
            info = json.loads(data.split(b"\n")[0]).get("commitInfo", {})
            self.puts.setdefault((self.drops, key), []).append(info.get("userMetadata", ""))

    def fault(self, actor: Actor, call: str, key: str) -> str | None:
        """What goes wrong with a call; crashes and jumps of the clock happen here."""
        due = None
        for name, (calls, per_mille) in _FAULTS.items():
            if call in calls and name not in self.off and self.random.random() * 1000 < per_mille * self.strength:
                due = name
                break
        if due == "hint is gone" and key != LAST_CHECKPOINT:
            due = None
        if due == "stale list" and key != LOG_FOLDER:
            due = None
        if due == "crash after a checkpoint" and not _is_checkpoint(key):
            due = None
        self.life.trace.append(f"{actor.name} {call} {key.rpartition('/')[2]}{f' ({due})' if due else ''}")
        if due is not None:
            self.life.faults[due] += 1
        if due == "crash":
            self.crash(actor)
        if due == "clock jumps":
            actor.clock_offset_ms += self.random.randint(-48, 48) * HOUR_MS
        return due

    def crash(self, actor: Actor) -> NoReturn:
        self.doubts += actor.has_put_version
        actor.killed = True
        raise Killed


def plain_env(actor: Actor) -> Env:
    """The world without faults, for who looks at it from outside."""
    return replace(actor.table.env, store=actor.world.store, store_at=lambda _: actor.world.store)


def check_rows(rows: list[dict[str, Any]], where: str, life: Life) -> None:
    ids, total = sorted(row["id"] for row in rows), sum(row["balance"] for row in rows)
    if ids != list(range(ACCOUNTS)) or total != ACCOUNTS * OPENING:
        life.violations.append(f"{where}: accounts {ids}, in all {total} of {ACCOUNTS * OPENING}")
