"""Tags: names of versions, what they hold, and what other writers and maintenance do meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    ConcurrentTransactionException,
    DeltaError,
    FeatureDropWaitsError,
    FeatureInHistoryError,
    FeatureInUseError,
    InvalidActionError,
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTagNameError,
    InvalidTimeTravelError,
    ProtocolChangedException,
    RestoreRetentionError,
    TagExistsError,
    TagExpiryError,
    TagFilesMissingError,
    TagLostError,
    TagNotFoundError,
    TagRetentionError,
    VersionNotFoundError,
)
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import DomainMetadata
from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.log.tags import PREFIX
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tahoe.table.cleanup import vacuum as vacuum_module
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.verify.check import check_table
from tests.table.between import Interleavings
from tests.table.builders import memory_env, put_commit
from tests.table.dying import deaths

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
VECTORS = {"delta.enableDeletionVectors": "true"}
KEPT_FOR_HOURS = {
    "delta.deletedFileRetentionDuration": "interval 2 hours",
    "delta.logRetentionDuration": "interval 2 hours",
}


@dataclass
class World:
    """A table whose clock stands still until it is set, and the rows of each of its versions."""

    properties: dict[str, str] = field(default_factory=dict)
    now_ms: int = 1_700_000_000_000
    rows: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        env = memory_env()
        self.store = MemoryStore(env.store.url, clock_ms=lambda: self.now_ms)
        self.env = replace(env, store=self.store, clock_ms=lambda: self.now_ms)

    @property
    def table(self) -> tahoe.Table:
        return tahoe.Table(self.env.store.url, env=self.env)

    def copy(self) -> World:
        """Another world in which the same has happened."""
        again = World(rows=dict(self.rows))
        for info in self.store.walk():
            again.now_ms = info.modified_ms
            again.store.put(info.key, self.store.get(info.key))
        again.now_ms = self.now_ms
        return again

    def wait(self, hours: float) -> None:
        self.now_ms += int(hours * HOUR_MS)

    def put(self, *ids: int) -> None:
        """A version with these rows and no others."""
        with suppress(DeltaError), self.table.transaction() as changes:
            changes.delete("true")
            changes.append(pa.table({"id": ids}))
        if not self.table.exists():
            self.table.append(pa.table({"id": ids}), properties=self.properties)
        self.rows[self.table.version] = sorted(ids)

    def ids(self, version: int | str | None = None) -> list[int]:
        return sorted(self.table.snapshot(version).to_arrow()["id"].to_pylist())

    def versions(self) -> list[int]:
        return [file.version for file in self.table.log.list_files() if file.kind is Kind.COMMIT]


@pytest.fixture
def world() -> World:
    """Three versions, an hour apart."""
    world = World(properties={"delta.enableChangeDataFeed": "true"})
    for number in range(3):
        world.put(number)
        world.wait(1)
    return world


# --- names


def test_a_name_stands_for_its_version_wherever_a_version_is_asked_for(world: World) -> None:
    table = world.table
    report = table.tag("2026-q3", 1)
    assert (report.tag.version, report.version, report.added_features) == (1, 3, ("domainMetadata",))
    assert table.tag("again", "2026-q3").tag.version == 1
    assert table.tag("newest").tag.version == 4
    assert (
        table.tag("then", timestamp=datetime.fromtimestamp((world.now_ms - 2.5 * HOUR_MS) / 1000, UTC)).tag.version == 0
    )
    assert table.inspect.tags()["name"].to_pylist() == [tag.name for tag in table.tags()]
    assert table.inspect.files("2026-q3").equals(table.inspect.files(1))
    assert [(tag.name, tag.version) for tag in table.tags()] == [
        ("then", 0),
        ("2026-q3", 1),
        ("again", 1),
        ("newest", 4),
    ]
    assert world.ids("2026-q3") == world.ids(1) == world.ids("1") == [1]
    changes = table.changes(start_version="2026-q3", end_version="again")
    assert changes.equals(table.changes(start_version=1, end_version=1))
    assert changes.num_rows == 2
    other = memory_env()
    assert table.clone(other.store.url, version="2026-q3", env=other).source_version == 1
    assert table.restore("2026-q3").restored_version == 1
    assert world.ids() == [1]
    assert table.history(1)[0]["operationParameters"]["version"] == "1"
    assert [str(found) for found in check_table(table.log)] == []


def test_only_the_first_tag_changes_the_protocol_and_it_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    table, before = world.table, world.table.protocol
    table.tag("a")
    assert "adds the writer feature domainMetadata" in caplog.text
    after = table.protocol
    assert after.reader_version == before.reader_version
    assert supported_features(after) == supported_features(before) | {"domainMetadata"}
    assert table.history(1)[0]["operationParameters"]["addedFeatures"] == '["domainMetadata"]'
    caplog.clear()
    assert table.tag("b").added_features == ()
    assert caplog.text == ""
    assert table.protocol == after


@pytest.mark.parametrize(
    "name", ["", "3", "20260131120000000", "v3", "V17", "a b", "a/b", "a@b", "-a", ".a", "é", "x" * 129, "a\n"]
)
def test_what_may_be_a_version_a_timestamp_or_a_mistake_is_no_name(world: World, name: str) -> None:
    with pytest.raises(InvalidTagNameError):
        world.table.tag(name)
    assert world.table.version == 2


def test_names_differ_by_case_and_may_look_like_dates(world: World) -> None:
    for number, name in enumerate(["2026-01-31", "q3", "Q3", "v3.1", "_x", "1e5", "x" * 128]):
        world.table.tag(name)
        assert world.table.snapshot(name).version == 2 + number


def test_bad_requests_are_refused_before_any_work(world: World) -> None:
    table = world.table
    table.tag("taken", 0)
    for error, ask in {
        TagExistsError: lambda: table.tag("taken"),
        VersionNotFoundError: lambda: table.tag("x", 9),
        TagNotFoundError: lambda: table.tag("x", "nothing"),
        InvalidTimeTravelError: lambda: table.tag("x", 1, "2026-01-01"),
        TagExpiryError: lambda: table.tag("x", expires="1999-01-31"),
        InvalidArgumentError: lambda: table.tag("x", expires="soon"),
        InvalidOptionError: lambda: table.transaction().set_domain(f"{PREFIX}x", "{}"),
    }.items():
        with pytest.raises(error):
            ask()
    with pytest.raises(TagNotFoundError, match="has no tag Taken; it has taken"):
        table.untag("Taken")
    assert table.untag("Taken", if_exists=True) is None
    assert table.version == 3


def test_a_tag_can_be_moved_and_dropped(world: World) -> None:
    world.table.tag("good", 1)
    world.table.tag("good", replace=True)
    assert world.table.snapshot("good").version == 3
    world.table.untag("good")
    with pytest.raises(TagNotFoundError, match=r"it has none\. Give the name of a tag that exists"):
        world.table.snapshot("good")
    assert world.table.tag("good", 0).tag.version == 0


def test_a_malformed_tag_is_told_and_can_be_dropped(world: World) -> None:
    table = world.table
    table.tag("good")
    domain = DomainMetadata(domain=f"{PREFIX}bad", configuration='{"version":"one"}')
    put_commit(world.env, table.version + 1, [domain])
    for ask in (table.tags, lambda: table.snapshot("bad"), lambda: table.vacuum(0, retention_check=False)):
        with pytest.raises(InvalidActionError, match=r"io\.tahoe\.tag\.bad"):
            ask()
    assert table.snapshot("good").version == 2
    table.untag("bad")
    assert [tag.name for tag in table.tags()] == ["good"]


# --- what keeps tags


def test_restore_keeps_tags_and_clones_have_their_own(world: World) -> None:
    table = world.table
    table.tag("a", 1)
    table.restore(0)
    assert [tag.name for tag in table.tags()] == ["a"]
    clone_env = memory_env()
    table.clone(clone_env.store.url, env=clone_env)
    assert tahoe.Table(clone_env.store.url, env=clone_env).tags() == []
    tahoe.Table(clone_env.store.url, env=clone_env).tag("mine")
    table.clone(clone_env.store.url, env=clone_env, replace=True)
    assert [tag.name for tag in tahoe.Table(clone_env.store.url, env=clone_env).tags()] == ["mine"]


def test_checkpoints_and_checksums_keep_tags(world: World) -> None:
    for number in range(12):
        world.table.tag(f"t{number}")
    world.table.create_checkpoint()
    assert len(world.table.tags()) == 12


def test_the_feature_of_tags_cannot_be_dropped_while_there_are_any(world: World) -> None:
    world.table.tag("a")
    with pytest.raises(FeatureInUseError, match="the table has the tags a"):
        world.table.drop_feature("domainMetadata")
    world.table.untag("a")
    world.table.drop_feature("domainMetadata")
    assert "domainMetadata" not in (world.table.protocol.writer_features or ())


def test_history_that_a_tag_holds_is_not_truncated() -> None:
    world = World(properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})
    for number in range(4):
        world.put(number)
    world.table.tag("a", 1)
    with pytest.raises(FeatureDropWaitsError, match="Drop the tags a, which hold earlier versions"):
        world.table.drop_feature("v2Checkpoint", truncate_history=True)
    world.wait(25)
    with pytest.raises(FeatureInHistoryError, match="Drop the tags a, which hold earlier versions"):
        world.table.drop_feature("v2Checkpoint", truncate_history=True)
    assert world.ids("a") == [1]
    world.table.untag("a")
    world.table.drop_feature("v2Checkpoint", truncate_history=True)
    assert "v2Checkpoint" not in (world.table.protocol.writer_features or ())


# --- what tags hold


def aged(properties: dict[str, str]) -> World:
    """Versions 0 to 5 with a row each, then a tag of 1, all of them older than the retentions."""
    world = World(properties=properties)
    for number in range(3):
        world.put(number)
    world.table.tag("held", 1)
    for number in range(3):
        world.put(10 + number)
    world.wait(2 * 24 * 40)
    return world


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_vacuum_keeps_what_a_tag_needs_and_says_what_it_holds_back(lite: bool, properties: dict[str, str]) -> None:
    world = aged(properties)
    dry = world.table.vacuum(lite=lite, dry_run=True)
    report = world.table.vacuum(lite=lite, log_history=True)
    assert (len(dry.files), dry.holds) == (len(report.files), report.holds)
    (hold,) = report.holds
    assert (hold.tag, hold.version, hold.files) == ("held", 1, report.held_files)
    assert report.held_files == len(list(world.table.snapshot("held").live.adds())) == 1
    assert hold.size_bytes == report.held_bytes == world.table.snapshot("held").live.size_bytes
    start = next(commit for commit in world.table.history() if commit["operation"] == "VACUUM START")
    assert start["operationMetrics"]["numFilesHeldByTags"] == "1"
    assert world.ids("held") == [1]
    (held,) = world.table.snapshot("held").live.column("path").to_pylist()
    world.table.untag("held")
    after = world.table.vacuum(lite=lite)
    assert (after.holds, after.held_files) == ((), 0)
    assert world.store.head(held) is None


def test_a_tag_holds_nothing_back_after_its_end_of_life() -> None:
    world = World()
    world.put(0)
    world.table.tag("short", expires=datetime.fromtimestamp(world.now_ms / 1000, UTC) + timedelta(days=20))
    world.put(1)
    world.wait(24 * 19)
    assert world.table.vacuum().held_files == 1
    world.wait(24 * 2)
    report = world.table.vacuum()
    assert (report.held_files, len(report.files)) == (0, 1)
    assert [tag.name for tag in world.table.tags()] == ["short"]


def test_log_cleanup_stops_at_the_oldest_tag_and_leaves_no_hole() -> None:
    world = World(properties={"delta.checkpointInterval": "3"})
    for number in range(7):
        world.put(number)
    world.table.tag("old", 4)
    world.table.tag("short", 1, expires=datetime.fromtimestamp(world.now_ms / 1000, UTC) + timedelta(days=1))
    for number in range(6):
        world.put(20 + number)
    world.wait(24 * 40)
    world.put(99)  # version 15, so a checkpoint and a cleanup follow
    assert world.versions() == list(range(3, 16))
    assert world.ids("old") == world.rows[4]
    with pytest.raises(TagLostError, match="version 1, which cannot be read any more"):
        world.table.snapshot("short")
    world.table.untag("old")
    world.table.cleanup_metadata()
    assert world.versions()[0] > 9


def test_a_tag_that_was_lost_does_not_stop_cleanup_but_vacuum() -> None:
    """The cleanup of another writer does not know tags."""
    world = World(properties={"delta.checkpointInterval": "3"})
    for number in range(7):
        world.put(number)
    world.table.tag("lost", 1)
    for file in world.table.log.list_files():
        if file.version < 3:
            world.store.delete(file.key)
    world.wait(24 * 40)
    world.put(99)
    with pytest.raises(TagLostError, match="the tag lost names version 1"):
        world.table.vacuum()
    world.table.create_checkpoint()
    assert world.table.cleanup_metadata() > 0
    world.table.untag("lost")
    assert world.table.vacuum().files


def test_an_old_version_can_be_restored_if_a_tag_holds_it() -> None:
    world = aged({})
    with pytest.raises(RestoreRetentionError):
        world.table.restore(2)
    world.table.vacuum()
    world.table.restore("held")
    assert world.ids() == [1]


# --- versions that have expired


def test_an_expired_version_is_refused_unless_a_tag_holds_it() -> None:
    world = aged({})
    version = world.table.version
    with pytest.raises(TagRetentionError, match="more than 168 h ago"):
        world.table.tag("x", 2)
    assert world.table.version == version
    assert world.table.tag("same", 1).tag.version == 1
    assert world.table.tag("moved", 2, retention_check=False).tag.version == 2
    world.table.untag("moved")
    world.table.vacuum()
    with pytest.raises(TagFilesMissingError, match="1 of its files do not exist"):
        world.table.tag("x", 2, retention_check=False)
    assert [tag.name for tag in world.table.tags()] == ["held", "same"]


def test_the_newest_version_can_be_tagged_however_old_it_is() -> None:
    world = World(properties={"delta.deletedFileRetentionDuration": "interval 0 hours"})
    world.put(1)
    world.wait(24 * 400)
    world.table.tag("still")
    world.table.vacuum(0)
    assert world.ids("still") == [1]


# --- other writers


def delete(table: tahoe.Table) -> Any:
    changes = table.transaction()
    changes.delete("id = 1")
    return changes


def append(table: tahoe.Table) -> Any:
    changes = table.transaction()
    changes.append(pa.table({"id": [7]}))
    return changes


@pytest.mark.parametrize("properties", [{}, VECTORS, {"delta.enableRowTracking": "true"}])
@pytest.mark.parametrize("begun", [delete, append])
def test_a_tag_makes_no_other_writer_fail_not_even_the_first_one(
    properties: dict[str, str], begun: Callable[[tahoe.Table], Any]
) -> None:
    world = World(properties=properties)
    world.put(1, 2)
    for name in ("first", "second"):
        open_write = begun(world.table)
        world.table.tag(name)
        open_write.commit()
        assert "domainMetadata" in (world.table.protocol.writer_features or ())
    assert world.ids("first") == [1, 2]
    assert [tag.name for tag in world.table.tags()] == ["first", "second"]
    assert [str(found) for found in check_table(world.table.log)] == []


def test_a_change_of_the_table_still_conflicts_with_the_first_tag(world: World) -> None:
    changes = world.table.transaction()
    changes.set_properties({"delta.appendOnly": "true"})
    world.table.tag("a")
    with pytest.raises(ProtocolChangedException):
        changes.commit()


def test_a_domain_that_is_set_by_hand_conflicts_only_with_itself(world: World) -> None:
    world.table.tag("a")
    changes, other = world.table.transaction(), world.table.transaction()
    changes.set_domain("mine", "1")
    other.set_domain("mine", "2")
    world.table.tag("b")
    changes.commit()
    with pytest.raises(ConcurrentTransactionException):
        other.commit()


def test_of_two_writers_that_make_one_tag_one_is_told_that_it_is_taken() -> None:
    """Before each storage call of one writer the other one makes the tag."""

    start = World()
    start.put(1)
    start.put(2)

    def work(world: World, env: Env) -> None:
        try:
            tahoe.Table(env.store.url, env=env).tag("same", 0)
        except TagExistsError:
            assert world.table.snapshot("same").version == 1

    def other(world: World) -> None:
        with suppress(TagExistsError):
            world.table.tag("same", 1)

    for world in Interleavings(start.copy, lambda world: world.env).of(work, other):
        created = [commit for commit in world.table.history() if commit["operation"] == "CREATE TAG"]
        assert len(created) == 1
        assert world.table.tags()[0].version == int(created[0]["operationParameters"]["version"])


def test_other_commits_do_not_stop_a_tag(world: World) -> None:
    def work(_: World, env: Env) -> None:
        tahoe.Table(env.store.url, env=env).tag("a", 1)

    acts: list[Callable[[World], object]] = [
        lambda world: world.put(5),
        lambda world: world.table.optimize(),
        lambda world: set_comment(world),
        lambda world: world.table.tag("b"),
    ]
    for act in acts:
        for found in Interleavings(world.copy, lambda world: world.env).of(work, act):
            assert found.ids("a") == [1]


def set_comment(world: World) -> None:
    with world.table.transaction() as changes:
        changes.set_properties({"comment": "x"})


# --- maintenance beside a tag


@pytest.fixture(scope="module")
def in_between() -> World:
    """Four versions. The second one is within the retention of two hours, for some minutes yet; the first is not."""
    world = World(properties={**KEPT_FOR_HOURS, "delta.checkpointInterval": "2"})
    world.put(1)
    world.put(2)
    world.wait(1)
    world.put(3)
    world.wait(1.9)
    world.put(4)
    return world


def maintain(table: tahoe.Table) -> None:
    table.vacuum()
    clean_log(table.snapshot(), timedelta(hours=2))  # the table's own is moved back to midnight


def check_tags(world: World) -> None:
    """Whatever is tagged can be read."""
    for tag in world.table.tags():
        assert world.ids(tag.name) == world.rows[tag.version]


@pytest.mark.parametrize(("version", "late"), [(1, 0), (1, 0.2), (2, 2)])
def test_a_tag_that_is_made_at_any_call_of_vacuum_and_cleanup_is_kept_or_refused(
    in_between: World, version: int, late: float
) -> None:
    made = set()

    def tag(world: World) -> None:
        world.wait(late)
        try:
            world.table.tag("a", version)
            made.add(True)
        except (TagRetentionError, VersionNotFoundError):
            made.add(False)
            assert world.table.tags() == []

    for world in Interleavings(in_between.copy, lambda world: world.env).of(
        lambda world, env: maintain(tahoe.Table(world.store.url, env=env)), tag
    ):
        check_tags(world)
        maintain(world.table)
        check_tags(world)
    assert made == {version == 1 and late == 0}


@pytest.mark.parametrize(("version", "late"), [(1, 0), (1, 0.2), (2, 2)])
def test_vacuum_and_cleanup_at_any_call_of_a_tag_keep_it_or_it_is_refused(
    in_between: World, version: int, late: float
) -> None:
    made = set()

    def tag(world: World, env: Env) -> None:
        try:
            tahoe.Table(world.store.url, env=env).tag("a", version)
            made.add(True)
        except (TagRetentionError, VersionNotFoundError, TagFilesMissingError):
            made.add(False)
            assert world.table.tags() == []

    def act(world: World) -> None:
        world.wait(late)
        maintain(world.table)

    for world in Interleavings(in_between.copy, lambda world: world.env).of(tag, act):
        check_tags(world)
    assert (True in made) == (version > 0)


def test_cleanup_knows_a_tag_that_is_newer_than_its_snapshot(in_between: World) -> None:
    """A writer cleans up behind its own commit, which may be long ago."""
    world = in_between.copy()
    before = world.table.snapshot()
    world.table.tag("a", 1)
    world.wait(3)
    clean_log(before, timedelta(hours=2))
    check_tags(world)


def test_a_tag_that_is_moved_and_cannot_be_held_is_moved_back(in_between: World) -> None:
    """The version expires while the tag is made."""
    backs = 0
    for calls_late in range(1, 12):
        world = in_between.copy()
        world.table.tag("a", 2)
        steps = iter(range(1000))

        def clock(world: World = world, steps: Any = steps, calls_late: int = calls_late) -> int:
            if next(steps) == calls_late:
                world.wait(0.2)
            return world.now_ms

        env = replace(world.env, clock_ms=clock)
        try:
            tahoe.Table(world.store.url, env=env).tag("a", 1, replace=True)
            assert world.table.snapshot("a").version == 1
        except TagRetentionError:
            assert world.table.snapshot("a").version == 2
            backs += world.table.history(1)[0]["operation"] == "DROP TAG"
    assert backs


def test_a_writer_that_dies_while_it_makes_a_tag_leaves_it_or_not() -> None:
    for env in deaths(lambda env: tahoe.Table(env.store.url, env=env).tag("a", 0), dying_table):
        table = tahoe.Table(env.store.url, env=env)
        assert [tag.version for tag in table.tags()] in ([], [0])
        assert table.to_arrow().num_rows == 2
        assert [str(found) for found in check_table(table.log)] == []


def dying_table() -> Env:
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    return env


def test_vacuum_spares_what_a_late_tag_needs_and_says_if_it_was_too_late(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the check of the retention, a tag may come between two batches of files."""
    monkeypatch.setattr(vacuum_module, "BATCH_FILES", 1)
    outcomes = set()
    for turn in (0, 1, 2):
        world = World(properties=KEPT_FOR_HOURS)
        for number in range(4):
            world.put(number)
        world.wait(3)
        world.put(9)
        deleted = world.store.delete_many
        turns = iter(range(100))

        def delete_many(
            keys: Any, world: World = world, turn: int = turn, turns: Any = turns, deleted: Any = deleted
        ) -> Any:
            done = deleted(keys)
            if next(turns) == turn:
                world.wait(3)
                for version in range(4):
                    with suppress(DeltaError):
                        world.table.tag(f"t{version}", version, retention_check=False)
            return done

        monkeypatch.setattr(world.store, "delete_many", delete_many)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "tahoe"):
            world.table.vacuum(0, retention_check=False)
        outcomes.add(len(world.table.tags()))
        check_tags(world)
    assert len(outcomes) > 1
