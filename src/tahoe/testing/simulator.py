"""One seed, one life of a table: writers, readers and caretakers on a storage that fails, one call at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from tahoe.errors import (
    DeltaError,
)
from tahoe.protocol.log.actions import Add, CommitInfo
from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.storage.env import Store
from tahoe.storage.managed import ManagedStore
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.table import Table
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Finding, Severity
from tahoe.table.verify.findings import Kind as Wrong
from tahoe.testing.simulated_catalog import PROPERTIES, SimulatedCatalog, disagreements
from tahoe.testing.simulated_roles import ALWAYS, ROLES, SELDOM, make_anew, opening, work_of
from tahoe.testing.simulated_world import STEPS_MAX, Actor, Life, World, check_rows, plain_env


def live(
    seed: int,
    *,
    also: Collection[str] = (),
    has_catalog: bool = False,
    open_folder: Callable[[], Store] | None = None,
) -> Life:
    """Run one seed to its end, and check what it leaves.

    Args:
        also: roles that must be in it.
        has_catalog: a catalog ratifies the commits, which are published later.
        open_folder: opens the folder of the table, for each actor by a store of its own; None for one in memory.
    """
    world = World(seed, open_folder, catalog=SimulatedCatalog() if has_catalog else None)
    drawn = world.random
    world.properties = _properties(drawn, has_catalog=has_catalog)
    founder = Actor("founder", world, lambda _: None)
    Table(world.store.url, env=replace(plain_env(founder), background=lambda _: None)).append(
        opening(), properties=world.properties
    )
    names = [name for name in ROLES if name in (*ALWAYS, *also) or drawn.random() < (0.1 if name in SELDOM else 0.5)]
    if has_catalog:  # its tables are dropped by their names
        names = [name for name in names if ROLES[name].turn is not make_anew]
    world.is_cleaned = "cleaner" in names
    world.is_vacuumed = "vacuumer" in names
    if world.is_vacuumed:
        world.off.add("clock jumps")
    actors = world.actors = [Actor(name, world, work_of(ROLES[name])) for name in names]
    for actor in actors:
        actor.begin()
    while (going := [actor for actor in actors if not actor.done]) and not world.life.violations:
        world.steps += 1
        if world.steps > STEPS_MAX:
            world.life.violations.append(f"no end after {STEPS_MAX} calls")
            break
        chosen = drawn.choices(going, [ROLES[actor.name].pace for actor in going])[0]
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
    for info in list(world.files.walk()):
        world.files.delete(info.key)
    return world.life


def _properties(drawn: random.Random, *, has_catalog: bool) -> dict[str, str]:
    return {
        "delta.enableDeletionVectors": drawn.choice(["true", "true", "false"]),
        "delta.enableInCommitTimestamps": drawn.choice(["true", "false"]),
        "delta.checkpointInterval": drawn.choice(["2", "5", "10"]),
        "delta.isolationLevel": drawn.choice(["Serializable", "WriteSerializable"]),
        "delta.logRetentionDuration": "interval 1 days",
        "delta.feature.domainMetadata": "supported",
        **({"delta.checkpointPolicy": "v2"} if drawn.random() < 0.3 else {}),
        **({"delta.feature.rowTracking": "supported"} if drawn.random() < 0.3 else {}),
        **(PROPERTIES if has_catalog else {}),
    }


def _check_end(world: World, founder: Actor, actors: list[Actor]) -> None:
    life = world.life
    table = Table(world.store.url, env=plain_env(founder))
    if world.drops and (world.doubts or not any(file.kind is Kind.COMMIT for file in table.log.list_files())):
        # The table is gone, or may have got a commit of the one before, whose writer was told so, or died before it
        # could look.
        return
    newest = table.snapshot()
    check_rows(newest.to_arrow().to_pylist(), "at the end", life)
    if isinstance(world.store, ManagedStore) and world.catalog is not None:
        life.violations.extend(disagreements(world.files, world.store, world.catalog))
    check_rows(load_snapshot(table.log, by_checksum=False).to_arrow().to_pylist(), "at the end, from scratch", life)
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
    _check_told(world, newest, made)
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


def _check_told(world: World, newest: Snapshot, made: Mapping[int, CommitInfo]) -> None:
    """What actors were told that they have made is there."""
    life = world.life
    for info in made.values():
        name = info.fields.get("userMetadata")
        if world.begun.get(str(name), newest.metadata.id) != newest.metadata.id:
            life.violations.append(f"{name} was planned on the table before, and is in the log of this one")
    for actor in world.actors:
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


def _is_of_the_dead(world: World, finding: Finding) -> bool:
    """Whether a finding is a checkpoint of the table before, whose writer died before it could look. Readers refuse
    it.
    """
    return world.drops > 0 and finding.kind is Wrong.BROKEN_CHECKPOINT and "which was dropped" in finding.detail


def _row_ids(add: Add) -> range:
    assert add.base_row_id is not None
    return range(add.base_row_id, add.base_row_id + (num_records_of(add.stats) or 0))
