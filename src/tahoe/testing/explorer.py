"""Every order in which the storage calls of several writers can happen, over the code that commits in production.

Each writer is a thread that stands still before every call of its store until the explorer lets it do one. What a
writer does next depends on nothing but the answers that it got, so that a state is known by the storage's content and
by those answers: a state that was met before is not looked at again. A writer may also die before any of its calls.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, BinaryIO

from tahoe.errors import DeltaStorageError
from tahoe.protocol.log.log_files import LAST_CHECKPOINT, LOG_FOLDER, commit_name
from tahoe.storage.commit_service import CommitEntry, CommitService
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Env, FileInfo, Store, Tree, copy_through, tree_of
from tahoe.storage.memory import MemoryCommitService
from tahoe.testing.gated import Gated

Acknowledge = Callable[[int, str], None]
Program = Callable[[Env, Acknowledge], None]
"""What a writer does with its view of the world; it tells which commits it was told to have made, by version and
name.
"""

KILL = "dies"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the storage is.

    Attributes:
        atomic: it creates a file only where there is none.
        coordinated: a commit service decides who commits.
        checkpoints: somebody writes them.
    """

    atomic: bool = True
    coordinated: bool = False
    checkpoints: bool = False


class Writer(Gated):
    """A program that does one call of its store at a time."""

    def __init__(self, name: str, program: Program, store: Store, world: World, *, upkeep: bool) -> None:
        super().__init__(
            name, lambda: program(self._env, lambda version, told: self.acknowledged.append((version, told)))
        )
        self.acknowledged: list[tuple[int, str]] = []
        self.answers = hashlib.sha256()
        self._ids = 0
        view: Store = GatedStore(store, self, world)
        if world.coordinated:
            service = GatedService(MemoryCommitService(store.url), store, self)
            view = CoordinatedStore(inner=view, service=service, new_id=self._new_id)
        self._env = Env(
            store=view,
            clock_ms=lambda: 1_700_000_000_000,
            new_id=self._new_id,
            sleep=lambda _: None,
            random=lambda: 0.5,
            store_at=lambda _: view,
            background=(lambda work: work()) if upkeep else (lambda _: None),
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.name}-{self._ids}"


class GatedStore:
    """One writer's view of the storage. Without `atomic`, creating is a look and a write, between which others may do
    anything; where there is a commit service as well, it is a write, as in a storage that ignores the condition.

    A call whose answer no other writer can change, or which none can see, is done at once: that of a commit that is
    there, where creating is atomic or the service decides; of the hint, where nobody writes checkpoints; of a temporary
    file that no entry names.
    """

    def __init__(self, store: Store, writer: Writer, world: World) -> None:
        self._store, self._writer, self._world = store, writer, world
        self.url = store.url

    def _is_settled(self, name: str, key: str) -> bool:
        if "/.tmp/" in key:
            file = key.rpartition("/")[2].partition(".json.")[0] + ".json"
            entry = MemoryCommitService(self._store.url).find(self._store.url, file)
            return entry is None or f"{LOG_FOLDER}/{entry.temporary}" != key
        if name not in ("get", "head"):
            return False
        if key.endswith(LAST_CHECKPOINT):
            return not self._world.checkpoints
        return (
            (self._world.atomic or self._world.coordinated)
            and key.endswith(".json")
            and self._store.head(key) is not None
        )

    def _call(self, name: str, *arguments: Any) -> Any:
        if not self._is_settled(name, arguments[0]):
            self._writer.wait()
        found: Any
        try:
            found = getattr(self._store, name)(*arguments)
            found = list(found) if name in ("list_from", "walk") else found
        except FileNotFoundError:
            self._writer.answers.update(b"nothing")
            raise
        if name == "open":
            with found:
                found = BytesIO(found.read())
        shown = found.getvalue() if isinstance(found, BytesIO) else _timeless(found)
        self._writer.answers.update(repr((name, arguments[:1], shown)).encode())
        return found

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        return iter(self._call("list_from", prefix, start_after))

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        return iter(self._call("walk", prefix))

    def get(self, key: str) -> bytes:
        found: bytes = self._call("get", key)
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def head(self, key: str) -> FileInfo | None:
        found: FileInfo | None = self._call("head", key)
        return found

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        found: BinaryIO = self._call("open", key, known)
        return found

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self._world.atomic:
            return bool(self._call("put_if_absent", key, data))
        if not self._world.coordinated and self._call("head", key) is not None:
            return False
        self._call("put", key, data)
        return True

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self._call("put", key, data)

    def delete(self, key: str) -> None:
        self._call("delete", key)

    def tree(self) -> Tree:
        return tree_of(self.walk())

    def copy_from(self, source: Store, key: str, to: str) -> None:
        copy_through(source, key, self, to)

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        for key in keys:
            self.delete(key)
        return {}

    def remove_folders(self, _: Iterable[str]) -> list[str]:
        return []


def _timeless(answer: Any) -> Any:
    """An answer without what differs between two runs of the same schedule: times, and the tags of files."""
    if isinstance(answer, FileInfo):
        return answer.key, answer.size_bytes
    return [_timeless(info) for info in answer] if isinstance(answer, list) else answer


class GatedService:
    """One writer's view of the commit service. What it says of a commit that is complete, or was there before it, is
    said at once.
    """

    def __init__(self, service: CommitService, store: Store, writer: Writer) -> None:
        self._service, self._store, self._writer = service, store, writer

    def _is_settled(self, name: str, *arguments: Any) -> bool:
        if name == "complete":
            entry = self._service.find(arguments[0].table, arguments[0].file)
            return entry is not None and entry.is_complete
        if name != "find":
            return False
        entry = self._service.find(*arguments)
        return self._store.head(f"{LOG_FOLDER}/{arguments[1]}") is not None if entry is None else entry.is_complete

    def _call(self, name: str, *arguments: Any) -> Any:
        if not self._is_settled(name, *arguments):
            self._writer.wait()
        found = getattr(self._service, name)(*arguments)
        self._writer.answers.update(repr((name, arguments, found)).encode())
        return found

    def claim(self, entry: CommitEntry) -> bool:
        return bool(self._call("claim", entry))

    def find(self, table: str, file: str) -> CommitEntry | None:
        found: CommitEntry | None = self._call("find", table, file)
        return found

    def newest(self, table: str) -> CommitEntry | None:
        found: CommitEntry | None = self._call("newest", table)
        return found

    def complete(self, entry: CommitEntry) -> None:
        self._call("complete", entry)


@dataclass
class Explored:
    """What an exploration found.

    Attributes:
        violations: the first few, each with the schedule that leads to it.
        depth: of the longest schedule.
    """

    states: int = 0
    endings: int = 0
    depth: int = 0
    violations: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def end(self, wrong: str | None, schedule: tuple[str, ...]) -> None:
        """Note that a schedule came to its end, and what was wrong then."""
        self.endings += 1
        if wrong is not None:
            self.violations.append((wrong, schedule))


Check = Callable[[Store, Sequence[Writer]], str | None]
"""What is wrong with a storage when all writers have ended; None where nothing is."""

_VIOLATIONS_MAX = 1

# More than all programs of an exploration commit.
_VERSIONS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an exploration takes place.

    Attributes:
        new_store: opens a new folder.
        reopen: opens the same folder for another writer.
        seconds: ends the exploration when they are over. Orders are then drawn at random, so that all kinds of them are
            met.
    """

    new_store: Callable[[], Store]
    reopen: Callable[[Store], Store] = lambda store: store
    seconds: float | None = None


def explore(
    setup: Callable[[Store], None],
    programs: Sequence[Program],
    check: Check,
    *,
    atomic: bool = True,
    upkeep: int = 0,
    coordinated: bool = False,
    deaths: int = 0,
    place: Place,
) -> Explored:
    """Go through every order, depth first. Ends at the first violation, or when the time is over.

    Args:
        setup: puts there what was there before.
        atomic: whether the storage creates a file only where there is none.
        upkeep: of how many writers what follows a commit is done, each time before the writer goes on.
        coordinated: whether a commit service decides who commits. Its calls are steps like those of the storage.
        deaths: how many writers may die.
    """
    found = Explored()
    seen: set[bytes] = set()
    schedules: list[tuple[str, ...]] = [()]
    drawn, ends = random.Random(0), None if place.seconds is None else time.monotonic() + place.seconds
    while schedules and len(found.violations) < _VIOLATIONS_MAX and (ends is None or time.monotonic() < ends):
        schedule = schedules.pop(-1 if ends is None else drawn.randrange(len(schedules)))
        store = place.new_store()
        setup(store)
        world = World(atomic=atomic, coordinated=coordinated, checkpoints=upkeep > 0)
        views = [place.reopen(store) for _ in programs]
        writers = [Writer(f"w{n}", programs[n], view, world, upkeep=n < upkeep) for n, view in enumerate(views)]
        for writer in writers:
            writer.begin()
        for choice in schedule:
            _take(choice, writers)
        # the first way on is gone at once, the others are begun again from the start later: threads cannot be copied
        while (state := _state(store, writers)) not in seen:
            seen.add(state)
            found.states += 1
            found.depth = max(found.depth, len(schedule))
            going = [writer.name for writer in writers if not writer.done]
            if not going:
                reader = CoordinatedStore(inner=store, service=MemoryCommitService(store.url)) if coordinated else store
                found.end(check(reader, writers), schedule)
                break
            may_die = sum(choice.endswith(KILL) for choice in schedule) < deaths
            first, *others = [*going, *(f"{name} {KILL}" for name in going if may_die)]
            schedules.extend((*schedule, choice) for choice in others)
            schedule = (*schedule, first)
            _take(first, writers)
        for writer in writers:
            writer.kill()
        store.delete_many([info.key for info in store.walk()])
    return found


def _take(choice: str, writers: Sequence[Writer]) -> None:
    """One step of a schedule."""
    name, _, what = choice.partition(" ")
    writer = next(writer for writer in writers if writer.name == name)
    writer.kill() if what == KILL else writer.step()


def _state(store: Store, writers: Sequence[Writer]) -> bytes:
    content = hashlib.sha256()
    for info in store.walk():
        content.update(repr((info.key, store.get(info.key))).encode())
    entered = (MemoryCommitService(store.url).find(store.url, commit_name(version)) for version in range(_VERSIONS_MAX))
    content.update(repr(list(entered)).encode())
    for writer in writers:  # of one that has ended, only what it was told matters any more
        known = (writer.acknowledged, writer.failure) if writer.done else writer.answers.digest()
        content.update(repr((writer.done, writer.killed, known)).encode())
    return content.digest()
