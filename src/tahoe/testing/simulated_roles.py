"""What the actors of a simulated life do, how often, and how fast."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import (
    CannotVacuumLiteError,
    CommitOutcomeUnknownError,
    CorruptCheckpointError,
    DataFileMissingError,
    DeltaConcurrentModificationException,
    DeltaDataError,
    DeltaLogError,
    DeltaStorageError,
    MissingVersionError,
    NotADeltaTableError,
    PathIsNotEmptyError,
    RestoreFilesMissingError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tahoe.protocol.log.log_files import Kind
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.layout.optimize import OptimizeRequest, optimize
from tahoe.table.table import Table
from tahoe.testing.simulated_world import (
    ACCOUNTS,
    HOUR_MS,
    OPENING,
    PATIENCE_STEPS,
    STEP_MS,
    Actor,
    check_rows,
    plain_env,
)

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
        info = Table(actor.world.store.url, env=plain_env(actor)).log.commit_info(version)
        if info is not None and faulty and info.fields.get("readVersion", version) < version - 1:
            life.rebases_after_fault += 1


# What a reader says to whom a listing does not show a version that it has seen before. It is an error, and never a
# wrong answer.
_BY_STALE_LISTS = (VersionNotFoundError, MissingVersionError, NotADeltaTableError)

# What those are told who work on a table while it is dropped.
_BY_A_DROP = (
    TableNotFoundError,
    NotADeltaTableError,
    PathIsNotEmptyError,
    DeltaDataError,
    DeltaLogError,
    RestoreFilesMissingError,
)


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
    check_rows(rows, f"{actor.name} at version {seen.version}", actor.world.life)


def compact(actor: Actor) -> int | None:
    """OPTIMIZE: no row changes, and where there are deletion vectors nobody is in its way."""
    return optimize(actor.table, OptimizeRequest()).version


def undo(actor: Actor) -> int | None:
    """RESTORE: transfers are undone, whoever commits meanwhile."""
    if actor.world.is_vacuumed:
        # The files of an old version may be deleted after it has looked at them: that is what the retention is for.
        return None
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
    retention_ms = (world.steps - oldest + 1) * STEP_MS
    lite = actor.random.random() < 0.5
    # a checkpoint that is cleaned up while it is read stops the run before anything is deleted
    with suppress(CannotVacuumLiteError, CorruptCheckpointError):
        actor.table.vacuum(
            retention_ms / HOUR_MS, lite=lite, retention_check=False, log_history=actor.random.random() < 0.5
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
    for _ in range(actor.random.choice([1, PATIENCE_STEPS])):
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


ROLES: Mapping[str, Role] = {
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
ALWAYS = ("teller", "clerk", "scribe")
SELDOM = ("demolisher",)


def work_of(role: Role) -> Callable[[Actor], None]:
    def work(actor: Actor) -> None:
        for _ in range(role.turns):
            actor.world.at_work_since[actor.name] = actor.world.steps
            try:
                _tried(actor, lambda: role.turn(actor))
            finally:
                del actor.world.at_work_since[actor.name]

    return work
