"""One seed, one life of a table: writers, readers and caretakers on a storage that fails, one storage call at a time.

The table is a bank. Transfers delete the rows of two accounts and add them again with other balances, so that the total
is the same in every version, whoever was first. One seed decides who goes next, what goes wrong, and what each actor
does: the same seed is the same life.
"""

from __future__ import annotations

import io
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import (
    CannotVacuumLiteError,
    CommitOutcomeUnknownError,
    CorruptCheckpointError,
    DataFileMissingError,
    DeltaConcurrentModificationException,
    DeltaDataError,
    DeltaError,
    DeltaLogError,
    DeltaStorageError,
    MissingVersionError,
    NotADeltaTableError,
    PathIsNotEmptyError,
    RestoreFilesMissingError,
    StorageUnavailableError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.log_files import LAST_CHECKPOINT, LOG_FOLDER, Kind, parse_name
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.storage.env import Env, FileInfo, Tree
from tahoe.storage.memory import MemoryStore
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.layout.optimize import OptimizeRequest, optimize
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.table import Table
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Finding, Severity
from tahoe.table.verify.findings import Kind as Wrong
from tests.gated import Gated, Killed

ACCOUNTS = 12
OPENING = 100
START_MS = 1_700_000_000_000
_HOUR_MS = 3_600_000
_STEP_MS = 60_000

# A listing that is stale does not show what was written in the last so many calls.
_FRESH_STEPS = 10

# How many turns somebody waits for the worst moment.
_PATIENCE_STEPS = 50

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
        store = FailingStore(world, self)
        env = Env(
            store=store,
            clock_ms=self._clock_ms,
            new_id=self._new_id,
            sleep=lambda _: None,
            random=self.random.random,
            store_at=lambda _: store,
            background=self._hooks(self.random.random() < 0.5),
        )
        self.table = Table(world.store.url, env=env)

    def _hooks(self, run: bool) -> Callable[[Callable[[], None]], None]:
        """What follows a commit, whose outcome is known by then."""

        def background(work: Callable[[], None]) -> None:
            self.has_put_version = False
            if run:
                work()

        return background

    def _clock_ms(self) -> int:
        return START_MS + self.world.steps * _STEP_MS + self.clock_offset_ms

    def _new_id(self) -> str:
        self._ids += 1
        return f"{sum(map(ord, self.name)):08x}-0000-4000-8000-{self._ids:012x}"


class FailingStore:
    """One actor's view of the storage: calls of its own thread are steps, and may go wrong. Those of its pools of
    threads just happen.
    """

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor = world, actor
        self.url = world.store.url

    def _call(self, name: str, *arguments: Any) -> Any:
        if threading.current_thread() is not self._actor:
            return getattr(self._world.store, name)(*arguments)
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
        found = getattr(self._world.store, name)(*arguments)
        if name == "put_if_absent" and found:
            self._world.note_put(self._actor, *arguments)
        if fault == "crash after a checkpoint":
            self._world.crash(self._actor)
        if fault == "answer is lost":
            raise StorageUnavailableError(
                table=self.url, operation=f"{name} {arguments[0]}", detail="a fault of the simulation"
            )
        if fault == "stale list":
            fresh_ms = START_MS + (self._world.steps - _FRESH_STEPS) * _STEP_MS
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


def _is_checkpoint(key: str) -> bool:
    file = parse_name(key.rpartition("/")[2])
    return file is not None and file.is_checkpoint


# What can go wrong with a call, and how often, of a thousand. A life draws its own factor, and switches some of them
# off altogether.
_FAULTS: Mapping[str, tuple[frozenset[str], int]] = {
    "answer is lost": (frozenset({"put_if_absent", "put"}), 60),
    "unavailable": (frozenset({"put_if_absent", "put", "list_from"}), 15),
    "stale list": (frozenset({"list_from"}), 60),
    "hint is gone": (frozenset({"get"}), 300),
    "clock jumps": (frozenset({"put_if_absent", "list_from"}), 40),
    "crash after a checkpoint": (frozenset({"put_if_absent", "put"}), 150),
    "crash": (frozenset({"put_if_absent", "put", "list_from", "get", "head", "delete", "tree"}), 4),
}


class World:
    """The storage and the actors of one life.

    Attributes:
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

    def __init__(self, seed: int) -> None:
        self.life = Life(seed)
        self.random = random.Random(seed)
        self.steps = 0
        self.store = MemoryStore(f"memory://life-{seed}", clock_ms=lambda: START_MS + self.steps * _STEP_MS)
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
            actor.clock_offset_ms += self.random.randint(-48, 48) * _HOUR_MS
        return due

    def crash(self, actor: Actor) -> NoReturn:
        self.doubts += actor.has_put_version
        actor.killed = True
        raise Killed


# --- what actors do


def opening() -> pa.Table:
    """The rows of a new table."""
    return pa.table({"id": list(range(ACCOUNTS)), "balance": [OPENING] * ACCOUNTS})


def _tried(actor: Actor, what: Callable[[], int | None]) -> None:
    """Try a change once; conflicts and failures of the storage are the actor's daily bread."""
    actor.has_put_version = False
    life = actor.world.life
    faulty = sum(life.faults.values())
    try:
        version = what()
    except CommitOutcomeUnknownError:
        actor.world.doubts += 1
        return
    except DeltaConcurrentModificationException:
        life.conflicts += 1
        return
    except DeltaStorageError:
        return
    except _BY_STALE_LISTS:
        if not (life.faults["stale list"] or actor.world.is_cleaned or actor.world.drops):
            raise
        return
    except _BY_A_DROP:
        if not actor.world.drops:
            raise
        return
    if version is not None:
        life.commits += 1
        info = Table(actor.world.store.url, env=_plain(actor)).log.commit_info(version)
        if info is not None and faulty and info.fields.get("readVersion", version) < version - 1:
            life.rebases_after_fault += 1


# What a reader says to whom a listing does not show a version that it has seen before. It is an error, and never a
# wrong answer.
_BY_STALE_LISTS = (VersionNotFoundError, MissingVersionError)

# What those are told who work on a table while it is dropped.
_BY_A_DROP = (
    TableNotFoundError,
    NotADeltaTableError,
    PathIsNotEmptyError,
    DeltaDataError,
    DeltaLogError,
    RestoreFilesMissingError,
)


def _plain(actor: Actor) -> Env:
    """The world without faults, for who looks at it from outside."""
    return replace(actor.table.env, store=actor.world.store, store_at=lambda _: actor.world.store)


def transfer(actor: Actor) -> int | None:
    """Move money between two accounts: their rows are deleted, and added with other balances."""
    one, other = actor.random.sample(range(ACCOUNTS), 2)
    name = f"{actor.name}-{len(actor.acknowledged)}-{actor._ids}"
    with actor.table.transaction(user_metadata=name) as changes:
        actor.world.begun[name] = changes.snapshot.metadata.id
        found = changes.snapshot.to_arrow(filter=f"id in ({one}, {other})").to_pylist()
        balances = {row["id"]: row["balance"] for row in found}
        if len(found) != 2 or len(balances) != 2:
            raise AssertionError(f"accounts {one} and {other} are {found} in version {changes.snapshot.version}")
        changes.delete(f"id in ({one}, {other})")
        amount = actor.random.randint(1, 50)
        moved = {one: balances[one] - amount, other: balances[other] + amount}
        changes.append(pa.table({"id": list(moved), "balance": list(moved.values())}))
    if changes.version is not None:
        actor.acknowledged.append((changes.version, name))
    return changes.version


def audit(actor: Actor) -> None:
    """Whoever reads the table at any time sees all accounts once, and all of the money."""
    snapshot = actor.table.snapshot()
    version = actor.random.randint(0, snapshot.version) if actor.random.random() < 0.3 else None
    try:
        seen = snapshot if version is None else actor.table.snapshot(version)
        rows = seen.to_arrow().to_pylist()
    except DeltaStorageError:
        return
    except (VersionNotFoundError, MissingVersionError):
        if version is None and not (actor.world.is_cleaned or actor.world.drops):
            raise
        return  # an old version may have expired
    except DataFileMissingError:
        if version is None or not actor.world.is_vacuumed:
            raise
        return
    _check_rows(rows, f"{actor.name} at version {seen.version}", actor.world.life)


def _check_rows(rows: list[dict[str, Any]], where: str, life: Life) -> None:
    ids, total = sorted(row["id"] for row in rows), sum(row["balance"] for row in rows)
    if ids != list(range(ACCOUNTS)) or total != ACCOUNTS * OPENING:
        life.violations.append(f"{where}: accounts {ids}, in all {total} of {ACCOUNTS * OPENING}")


def compact(actor: Actor) -> int | None:
    """OPTIMIZE: no row changes, and where there are deletion vectors nobody is in its way."""
    return optimize(actor.table, OptimizeRequest()).version


def undo(actor: Actor) -> int | None:
    """RESTORE: transfers are undone, whoever commits meanwhile."""
    if actor.world.is_vacuumed:
        return None  # the files of an old version may be deleted after it has looked at them: that is what the retention is for
    newest = actor.table.version
    return actor.table.restore(actor.random.randint(max(newest - 4, 0), newest), retention_check=False).version


def note(actor: Actor) -> int | None:
    """A commit that touches no row: a domain gets another text."""
    with actor.table.transaction(user_metadata="note") as changes:
        changes.set_domain("note", str(actor.random.random()))
    return changes.version


def clean(actor: Actor) -> None:
    """Somebody keeps the log as short as can be: a slow writer's base is soon gone."""
    with suppress(MissingVersionError):  # another was faster
        actor.table.create_checkpoint()
        clean_log(actor.table.snapshot(), timedelta(minutes=actor.random.choice([0, 5, 30])))


def vacuum(actor: Actor) -> None:
    """Somebody deletes all files but those that somebody at work may need: what they write, and what they began to
    read.
    """
    world = actor.world
    oldest = min((step for name, step in world.at_work_since.items() if name != actor.name), default=world.steps)
    retention_ms = (world.steps - oldest + 1) * _STEP_MS
    lite = actor.random.random() < 0.5
    # a checkpoint that is cleaned up while it is read stops the run before anything is deleted
    with suppress(CannotVacuumLiteError, CorruptCheckpointError):
        actor.table.vacuum(
            retention_ms / _HOUR_MS, lite=lite, retention_check=False, log_history=actor.random.random() < 0.5
        )


def rewrite_checkpoint(actor: Actor) -> None:
    """Another writer puts a checkpoint in the place of one of the same name, with its rows in another order."""
    store = actor.table.env.store
    files = [f for f in actor.table.log.list_files() if f.kind is Kind.CLASSIC_CHECKPOINT]
    if not files:
        return
    try:
        there = pq.read_table(io.BytesIO(store.get(files[-1].key)))
    except FileNotFoundError:
        return
    out = io.BytesIO()
    pq.write_table(there.take(actor.random.sample(range(there.num_rows), there.num_rows)), out, row_group_size=3)
    if store.head(files[-1].key) is not None:
        store.put(files[-1].key, out.getvalue())


def make_anew(actor: Actor) -> int | None:
    """The table is dropped, in one step, and made anew: another table at the same place. Often somebody is about to put
    a checkpoint.
    """
    world = actor.world
    for _ in range(actor.random.choice([1, _PATIENCE_STEPS])):
        actor.wait()
        if any(other.puts_checkpoint for other in world.actors):
            break
    for info in list(world.store.walk()):
        world.store.delete(info.key)
    world.drops += 1
    return actor.table.append(opening(), properties=world.properties)


def save(actor: Actor) -> None:
    """Somebody who takes long for a checkpoint: meanwhile the table may be dropped and made anew."""
    with suppress(
        MissingVersionError, CorruptCheckpointError
    ):  # the version was cleaned up by another, with the checkpoint before it
        actor.table.create_checkpoint()


def look_after(actor: Actor) -> None:
    """What users do by hand to a log."""
    what = actor.random.choice([actor.table.create_checkpoint, actor.table.cleanup_metadata])
    with suppress(MissingVersionError):  # the version was cleaned up by another
        what()


@dataclass(frozen=True)
class Role:
    """What an actor does, how often, and how fast beside others. A turn gives the version that it made, or None."""

    turn: Callable[[Actor], int | None]
    turns: int
    pace: float = 1.0


_ROLES: Mapping[str, Role] = {
    "teller": Role(transfer, 4),
    "clerk": Role(transfer, 4),
    "optimiser": Role(compact, 2),
    "caretaker": Role(look_after, 2),
    "auditor": Role(audit, 3),
    "scribe": Role(note, 4),
    "straggler": Role(transfer, 2, pace=0.05),
    "cleaner": Role(clean, 4),
    "rewriter": Role(rewrite_checkpoint, 3),
    "archivist": Role(save, 4, pace=0.05),
    "vacuumer": Role(vacuum, 3),
    "demolisher": Role(make_anew, 1, pace=0.3),
    "restorer": Role(undo, 2),
}

# Who is in every life. What a demolisher does to a table is hard on the others, so that few lives have one.
_ALWAYS = ("teller", "clerk", "scribe")
_SELDOM = ("demolisher",)


def _work(role: Role) -> Callable[[Actor], None]:
    def work(actor: Actor) -> None:
        for _ in range(role.turns):
            actor.world.at_work_since[actor.name] = actor.world.steps
            try:
                _tried(actor, lambda: role.turn(actor))
            finally:
                del actor.world.at_work_since[actor.name]

    return work


# --- a life


def live(seed: int, *, also: Collection[str] = ()) -> Life:
    """Run one seed to its end, and check what it leaves.

    Args:
        also: roles that must be in it.
    """
    world = World(seed)
    drawn = world.random
    world.properties = {
        "delta.enableDeletionVectors": drawn.choice(["true", "true", "false"]),
        "delta.enableInCommitTimestamps": drawn.choice(["true", "false"]),
        "delta.checkpointInterval": drawn.choice(["2", "5", "10"]),
        "delta.isolationLevel": drawn.choice(["Serializable", "WriteSerializable"]),
        "delta.logRetentionDuration": "interval 1 days",
        "delta.feature.domainMetadata": "supported",
        **({"delta.checkpointPolicy": "v2"} if drawn.random() < 0.3 else {}),
        **({"delta.feature.rowTracking": "supported"} if drawn.random() < 0.3 else {}),
    }
    founder = Actor("founder", world, lambda _: None)
    Table(world.store.url, env=replace(_plain(founder), background=lambda _: None)).append(
        opening(), properties=world.properties
    )
    names = [name for name in _ROLES if name in (*_ALWAYS, *also) or drawn.random() < (0.1 if name in _SELDOM else 0.5)]
    world.is_cleaned = "cleaner" in names
    world.is_vacuumed = "vacuumer" in names
    if world.is_vacuumed:
        world.off.add("clock jumps")
    actors = world.actors = [Actor(name, world, _work(_ROLES[name])) for name in names]
    for actor in actors:
        actor.begin()
    while (going := [actor for actor in actors if not actor.done]) and not world.life.violations:
        world.steps += 1
        if world.steps > STEPS_MAX:
            world.life.violations.append(f"no end after {STEPS_MAX} calls")
            break
        chosen = drawn.choices(going, [_ROLES[actor.name].pace for actor in going])[0]
        chosen.step()
        if chosen.failure is not None:
            world.life.violations.append(f"{chosen.name} failed: {chosen.failure!r}")
    for actor in actors:
        actor.kill()
    world.life.steps = world.steps
    if not world.life.violations:  # else some were ended where they stood
        try:
            _check_end(world, founder, actors)
        except DeltaError as error:
            world.life.violations.append(f"at the end: {error}")
    for info in list(world.store.walk()):
        world.store.delete(info.key)
    return world.life


def _check_end(world: World, founder: Actor, actors: list[Actor]) -> None:
    life = world.life
    table = Table(world.store.url, env=_plain(founder))
    if world.drops and (world.doubts or not any(file.kind is Kind.COMMIT for file in table.log.list_files())):
        return  # the table is gone, or may have got a commit of the one before, whose writer was told so, or died before it could look
    newest = table.snapshot()
    _check_rows(newest.to_arrow().to_pylist(), "at the end", life)
    _check_rows(load_snapshot(table.log, by_checksum=False).to_arrow().to_pylist(), "at the end, from scratch", life)
    listed = {file.version for file in table.log.list_files() if file.kind is Kind.COMMIT}
    oldest = newest.version
    while oldest - 1 in listed:
        oldest -= 1
    # What stands before a gap was put where the log had been cleaned: nobody reads it, and its writer was told that it
    # is in doubt.
    made = {
        version: info
        for version in listed
        if version >= oldest and (info := table.log.commit_info(version)) is not None
    }
    for (drops, key), names in world.puts.items():
        if drops:  # the first may be of the table before, and was taken away before this one was made
            continue
        late = {name for actor in actors for _, name in actor.acknowledged} & set(names[1:])
        life.violations.extend(f"{name} was told that it made {key}, which {names[0]} had made before" for name in late)
    for info in made.values():
        name = info.fields.get("userMetadata")
        if world.begun.get(name, newest.metadata.id) != newest.metadata.id:
            life.violations.append(f"{name} was planned on the table before, and is in the log of this one")
    for actor in actors:
        for version, name in actor.acknowledged:
            if world.begun[name] != newest.metadata.id:
                continue
            if version in made and made[version].fields.get("userMetadata") != name:
                found = made[version].fields.get("userMetadata")
                life.violations.append(f"{name} was told that it made version {version}, which is {found}")
            if version > newest.version:
                life.violations.append(
                    f"{name} was told that it made version {version}, and the newest is {newest.version}"
                )
    stamps = [info.in_commit_timestamp_ms for _, info in sorted(made.items())]
    if None not in stamps and stamps != sorted(set(stamps), key=lambda stamp: stamp or 0):
        life.violations.append(f"in-commit timestamps are {stamps}")
    taken = [number for add in newest.live.adds() if add.base_row_id is not None for number in _row_ids(add)]
    if len(set(taken)) < len(taken):
        life.violations.append(f"row ids were given twice: {sorted(taken)}")
    wrong = [
        finding
        for finding in check_version(newest)
        if finding.severity is Severity.ERROR and not _is_of_the_dead(world, finding)
    ]
    life.violations.extend(f"tahoe check: {finding}" for finding in wrong)


def _is_of_the_dead(world: World, finding: Finding) -> bool:
    """Whether a finding is a checkpoint of the table before, whose writer died before it could look. Readers refuse
    it.
    """
    return world.drops > 0 and finding.kind is Wrong.BROKEN_CHECKPOINT and "which was dropped" in finding.detail


def _row_ids(add: Add) -> range:
    assert add.base_row_id is not None
    return range(add.base_row_id, add.base_row_id + (num_records_of(add.stats) or 0))
