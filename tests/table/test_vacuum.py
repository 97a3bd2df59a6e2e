"""VACUUM without Spark: what it deletes, what it leaves alone, and what it says."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    CannotVacuumLiteError,
    InvalidArgumentError,
    InvalidInventoryError,
    InvalidOptionError,
    StorageRefusedError,
    StorageUnavailableError,
    TableNotFoundError,
    UnsupportedWriterFeatureError,
    VacuumPartitionError,
    VacuumRetentionNegativeError,
    VacuumRetentionTooShortError,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Add, CommitInfo, DeletionVectorDescriptor, Protocol, Remove, encode_commit
from tahoe.protocol.log.deletion_vector import ABSOLUTE
from tahoe.protocol.log.log_files import LAST_VACUUM_INFO, commit_key
from tahoe.storage.env import Tree
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation
from tahoe.table.cleanup import vacuum as command
from tahoe.table.cleanup.dead_files import VacuumScope, dead_files, listing_of, nested_tables
from tahoe.table.cleanup.named_files import keys_of, named_by_actions
from tahoe.table.log import deletion_vectors
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Severity
from tahoe.testing.gated import Killed
from tests.table.builders import METADATA, add, make_log, memory_env, put_commit

URL = "file:///data/t"


# --- which files are dead: the pure functions


def tree(*keys: str, old: int = 10, folders: tuple[str, ...] = ()) -> Tree:
    found = Tree()
    for key in keys:
        found.add(key, 1, old)
    for folder in folders:
        found.add_folder(folder, old)
    return found


def dead(found: Tree, *actions: Any, cutoff_ms: int = 100, url: str = URL, **scope: Any) -> list[str]:
    listing = listing_of([found])
    protected = keys_of([named_by_actions(actions)], url)
    decided = dead_files(listing, protected, VacuumScope(tables=nested_tables(listing), **scope), cutoff_ms)
    return decided.files["key"].to_pylist()


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a.parquet", "a.parquet"),
        ("p=a%20b/x%25y", "p=a b/x%y"),
        ("p=a%2520b/x", "p=a%20b/x"),
        ("p=a%20b/x", "p=a%20b/x"),  # an early writer, which did not escape
        ("p=a b/x", "p=a b/x"),
        ("./p=1//x", "p=1/x"),
        ("p=1/../q/x", "q/x"),
        ("file:/data/t/x", "x"),
        ("file:///data/t/x%20y", "x y"),
        ("/data/t/p=1/x", "p=1/x"),
        ("file://localhost/data/t/x", "x"),
        ("file:/mnt/other/name/of/t/p=1/x", "p=1/x"),  # the same folder by another path
        ("s3a://bucket/t/é", "é"),
        ("p=a/x", "p=A/x"),  # on a disk that ignores case, as of macOS, in the folder of another partition
        ("p=%C3%A9/x", "p=e\u0301/x"),
        ("p=stra\u00dfe/x", "p=STRASSE/x"),
        ("p=\u03bf\u03b4\u03bf\u03c2/x", "p=\u039f\u0394\u039f\u03a3/x"),  # the last letter has two small forms
        ("file:/mnt/other/name/OF/T/X", "x"),
    ],
)
@pytest.mark.parametrize("kind", [Add, Remove])
def test_a_file_that_an_action_names_is_kept_however_it_is_spelled(path: str, key: str, kind: type[Any]) -> None:
    fields = {"size_bytes": 1, "modification_time_ms": 1} if kind is Add else {"deletion_timestamp_ms": 1}
    assert dead(tree(key, "dead"), kind(path=path, **fields)) == ["dead"]


@pytest.mark.parametrize("path", ["file:///data/t/v/a%20b.bin", "/data/t/v/a b.bin", "file:/elsewhere/v/a%20b.bin"])
def test_a_vector_with_an_absolute_path_is_kept(path: str) -> None:
    vector = DeletionVectorDescriptor(storage_type=ABSOLUTE, path_or_inline=path, offset=1, size_bytes=1, cardinality=1)
    assert dead(tree("v/a b.bin", "x", "dead"), add("x", deletion_vector=vector)) == ["dead"]


@pytest.mark.parametrize(
    ("key", "is_dead"),
    [
        ("x", True),
        ("p=1/x", True),
        ("_p=1/x", True),
        ("_p=1/_q=2/x", False),
        ("_px=1/x", False),
        ("_p/x", False),
        ("_change_data/x", True),
        ("_change_data/p=1/x", True),
        ("_delta_index/x", True),
        ("_change_data_of_mine/x", False),
        ("_delta_log/00000000000000000000.json", False),
        ("_symlink_format_manifest/manifest", False),
        (".hoodie/x", False),
        ("p=1/_temporary/0/x", False),
        ("_SUCCESS", False),
        ("p=1/.x.tmp", False),
        ("metadata/x", True),
    ],
)
def test_hidden_names_are_left_alone(key: str, is_dead: bool) -> None:
    assert dead(tree(key), partition_columns=frozenset({"_p", "p"})) == [key] * is_dead


@pytest.mark.parametrize(
    ("files", "named", "options", "keys"),
    [
        pytest.param(
            tree("p=A/x"),
            [add("p=a/x")],
            {"url": "s3a://bucket/t"},
            ["p=A/x"],
            id="storages other than disks tell names by their case",
        ),
        pytest.param(
            tree("metadata/v1.json", "p/metadata/x"),
            [],
            {"hidden_names": frozenset({"metadata"})},
            [],
            id="the metadata of Iceberg stays",
        ),
        pytest.param(
            tree(f"sub/{commit_key(0)}", "sub/x", "sub/p=1/x", "subx", "other/x", folders=("empty/_delta_log",)),
            [],
            {},
            ["subx", "other/x"],
            id="a table inside the table stays",
        ),
        pytest.param(
            tree("empty/x", folders=("empty", "empty/_delta_log")),
            [],
            {},
            [],
            id="a table inside with an empty log stays",
        ),
        pytest.param(tree("x", old=100), [], {}, [], id="young files stay"),
        pytest.param(tree("x", old=99), [], {}, ["x"], id="old files go"),
        pytest.param(tree(os.fsdecode(b"\xff"), "x"), [], {}, ["x"], id="names that are not text stay"),
    ],
)
def test_what_is_dead(files: Tree, named: list[Add], options: dict[str, Any], keys: list[str]) -> None:
    assert dead(files, *named, **options) == keys


def test_checksums_of_hadoop_go_with_their_files() -> None:
    listing = listing_of(
        [tree("p/x", "p/.x.crc", "y", ".y.crc", ".gone.crc", "_delta_log/.0.json.crc", "_SUCCESS", "._SUCCESS.crc")]
    )
    found = dead_files(listing, keys_of([named_by_actions([add("y")])], URL), VacuumScope(), 100)
    assert sorted(found.checksums) == [".gone.crc", "p/.x.crc"]


def test_folders_go_that_are_left_empty_or_were_empty_for_long() -> None:
    found = tree(
        "a/b/x",
        "a/c/kept",
        "d/e/y",
        folders=("a", "a/b", "a/c", "d", "d/e", "old", "old/inside", "_hidden", "h", "h/_hidden"),
    )
    found.add_folder("new", 1000)
    decided = dead_files(listing_of([found]), keys_of([named_by_actions([add("a/c/kept")])], URL), VacuumScope(), 100)
    assert sorted(decided.folders) == ["a/b", "d", "d/e", "old", "old/inside"]
    depth = [folder.count("/") for folder in decided.folders]
    assert depth == sorted(depth, reverse=True)


# --- the command


class Clock:
    """A table in memory whose clock and storage go by the same time."""

    def __init__(self, faults: FaultPlan | None = None) -> None:
        self.now_ms = 1_700_000_000_000
        self.env = replace(memory_env(), clock_ms=lambda: self.now_ms)
        self.store = MemoryStore(self.env.store.url, faults, clock_ms=lambda: self.now_ms)
        self.env = replace(
            self.env, store=self.store, store_at=lambda url: MemoryStore(url, clock_ms=lambda: self.now_ms)
        )
        self.table = tahoe.Table(self.store.url, env=self.env)

    def wait(self, hours: float) -> None:
        self.now_ms += int(hours * 3_600_000)

    def files(self) -> list[str]:
        return [info.key for info in self.store.walk() if not info.key.startswith("_delta_log")]


def replace_rows(table: tahoe.Table, *ids: int) -> None:
    with table.transaction() as changes:
        changes.delete("true")
        changes.append(pa.table({"id": list(ids)}))


@pytest.fixture
def world() -> Clock:
    """Version 1 replaced the file of version 0 a day later."""
    clock = Clock()
    clock.table.append(pa.table({"id": [1]}))
    clock.wait(24)
    replace_rows(clock.table, 2)
    return clock


def test_files_stay_for_the_retention_of_the_table(world: Clock) -> None:
    world.wait(24 * 7)
    assert world.table.vacuum().files == ()
    world.wait(1)
    old = world.table.snapshot(0).live.column("path").to_pylist()
    report = world.table.vacuum(dry_run=True)
    assert (list(report.files), report.is_dry_run) == (old, True)
    assert len(world.files()) == 2
    report = world.table.vacuum()
    assert list(report.files) == old
    assert report.size_bytes > 0
    assert report.paths == [f"{world.store.url}/{old[0]}"]
    assert world.table.vacuum().files == ()
    assert world.table.to_arrow().to_pylist() == [{"id": 2}]


@pytest.mark.parametrize("lite", [False, True])
def test_a_retention_longer_than_the_tables_keeps_more(world: Clock, lite: bool) -> None:
    """A checkpoint has only the tombstones of the table's own retention."""
    world.wait(24 * 20)
    world.table.create_checkpoint()
    assert world.table.vacuum(24 * 30, lite=lite).files == ()
    assert world.table.snapshot(0).to_arrow().to_pylist() == [{"id": 1}]
    assert len(world.table.vacuum(24 * 19, lite=lite).files) == 1


def test_a_version_that_was_replaced_by_a_slow_writer_stays() -> None:
    """Its tombstone is older than the commit that contains it: until then, readers read the version."""
    world = Clock()
    world.table.append(pa.table({"id": [1]}))
    world.wait(1)
    slow = tahoe.Table(world.store.url, env=replace(world.env, clock_ms=lambda: world.now_ms - 100 * 3_600_000))
    world.wait(100)
    replace_rows(slow, 2)
    world.wait(1)
    assert world.table.vacuum(24, retention_check=False).files == ()
    assert world.table.snapshot(0).to_arrow().to_pylist() == [{"id": 1}]
    world.wait(24)
    assert len(world.table.vacuum(24, retention_check=False).files) == 1


def test_a_file_that_only_a_compacted_file_says_is_removed_stays() -> None:
    """The commits that it replaces are gone, and a checkpoint takes the place of the commit that added the file."""
    world = Clock()
    world.table.append(pa.table({"id": [1]}))
    world.table.create_checkpoint()
    world.wait(24)
    replace_rows(world.table, 2)
    world.table.append(pa.table({"id": [3]}))
    actions = [
        action
        for version in (1, 2)
        for action in world.table.log.read_version(version)
        if not isinstance(action, CommitInfo)
    ]
    compacted = f"{log_files.LOG_FOLDER}/{log_files.compacted_name(1, 2)}"
    world.store.put(compacted, log_files.KEEPS_TOMBSTONES + encode_commit(actions))
    world.table.append(pa.table({"id": [4]}))
    for version in (0, 1, 2):
        world.store.delete(log_files.commit_key(version))
    world.wait(24 * 7 - 1)
    assert world.table.vacuum().files == ()
    assert world.table.snapshot(0).to_arrow().to_pylist() == [{"id": 1}]
    world.wait(24)
    assert len(world.table.vacuum().files) == 1


def test_files_that_are_not_committed_yet_stay(world: Clock) -> None:
    world.wait(1000)
    with world.table.transaction() as changes:
        changes.append(pa.table({"id": [3]}))
        world.wait(20)
        assert len(world.table.vacuum(24, retention_check=False).files) == 1
    assert sorted(row["id"] for row in world.table.to_arrow().to_pylist()) == [2, 3]


def test_a_file_that_was_removed_and_added_again_stays(world: Clock) -> None:
    file = next(iter(world.table.snapshot(0).live.adds()))
    put_commit(world.env, 2, [file.replace(data_change=True)])
    world.wait(1000)
    for lite in (True, False):
        assert world.table.vacuum(lite=lite).files == ()
    assert len(world.table.to_arrow()) == 2


def test_a_file_that_is_added_again_while_the_folder_is_listed_stays(world: Clock) -> None:
    """RESTORE brings files back that are older than any retention."""
    file = next(iter(world.table.snapshot(0).live.adds()))
    world.wait(1000)
    listed = world.store.tree

    def tree_and_commit() -> Tree:
        found = listed()
        put_commit(world.env, 2, [file.replace(data_change=True)])
        return found

    world.store.tree = tree_and_commit  # type: ignore[method-assign]
    assert world.table.vacuum().files == ()


def test_change_files_and_vectors_go_with_the_versions_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES_MAX", 0)
    world = Clock()
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    world.table.append(pa.table({"id": [1, 2, 3]}), properties=properties)
    for number in (1, 2):
        world.wait(10)
        with world.table.transaction() as changes:
            changes.delete(f"id = {number}")
    vectors = [key for key in world.files() if key.endswith(".bin")]
    assert len(vectors) == 2
    world.wait(5)
    assert world.table.vacuum(20, retention_check=False).files == ()
    world.wait(10)
    report = world.table.vacuum(4, retention_check=False)
    assert [key for key in report.files if key.endswith(".bin")] == vectors[:1] or len(report.files) >= 1
    assert world.table.to_arrow().to_pylist() == [{"id": 3}]
    assert len([key for key in world.files() if key.endswith(".bin")]) == 1


# --- LITE


def test_lite_finds_the_files_in_the_log(world: Clock) -> None:
    world.store.put("stray", b"x")
    world.wait(1000)
    listed = world.store.calls[Operation.TREE]
    assert len(world.table.vacuum(lite=True, dry_run=True).files) == 1
    assert len(world.table.vacuum(lite=True).files) == 1
    assert world.store.calls[Operation.TREE] == listed
    assert json.loads(world.store.get(LAST_VACUUM_INFO)) == {"latestCommitVersionOutsideOfRetentionWindow": 1}
    assert world.table.vacuum(lite=True).files == ()
    assert world.table.vacuum().files == ("stray",)


def test_lite_goes_on_after_full_though_the_first_commits_are_gone(world: Clock) -> None:
    """The reference writes an empty record after FULL, which makes LITE impossible as soon as the first commit is
    gone.
    """
    world.wait(24 * 8)
    world.table.vacuum()
    replace_rows(world.table, 3)
    world.table.create_checkpoint()
    for version in (0, 1):
        world.store.delete(f"_delta_log/{version:020d}.json")
    world.wait(24 * 8)
    assert len(world.table.vacuum(lite=True).files) == 1
    world.store.put(LAST_VACUUM_INFO, b"{}")
    with pytest.raises(CannotVacuumLiteError, match="version 2"):
        world.table.vacuum(lite=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"latestCommitVersionOutsideOfRetentionWindow":"x"}',
        b'{"a":1}',
        b"\xff",
        pytest.param(b'{"latestCommitVersionOutsideOfRetentionWindow":77}', id="of an earlier table"),
    ],
)
def test_a_broken_record_counts_as_missing(world: Clock, content: bytes) -> None:
    world.store.put(LAST_VACUUM_INFO, content)
    world.wait(1000)
    assert len(world.table.vacuum(lite=True).files) == 1


def test_lite_touches_nothing_but_files_of_the_table() -> None:
    """Whoever can write a log must not get other files deleted."""
    paths = ["_delta_log/00000000000000000000.json", "memory://other/x", "/x", "_hidden/x", "ok"]
    log = make_log([[], [Remove(path=path, deletion_timestamp_ms=1, data_change=True) for path in paths]])
    found = tahoe.Table(log.url, env=log.env).vacuum(0, lite=True, retention_check=False, dry_run=True).files
    assert set(found) == {"ok", "x"}


# --- inventory

ENTRY = {"path": "", "length": 1, "isDir": False, "modificationTime": 0}


def test_an_inventory_takes_the_place_of_a_listing(world: Clock) -> None:
    world.wait(1000)
    old = world.table.snapshot(0).live.column("path")[0].as_py()
    url = world.store.url
    paths = [
        f"{url}/{old}",
        f"{url}/_delta_log/00000000000000000000.json",
        f"{url}/../x",
        f"{url}//x",
        "/elsewhere/x",
        f"{url}2/x",
        url,
        None,
    ]
    inventory = pa.Table.from_pylist([ENTRY | {"path": path, "more": 1} for path in paths])
    listed = world.store.calls[Operation.TREE]
    report = world.table.vacuum(inventory=inventory)
    assert report.files == (old,)
    assert world.store.calls[Operation.TREE] == listed


def test_the_newest_entry_of_an_inventory_counts(world: Clock) -> None:
    rows = [ENTRY | {"path": f"{world.store.url}/x", "modificationTime": time_ms} for time_ms in (0, world.now_ms)]
    assert world.table.vacuum(inventory=pa.Table.from_pylist(rows), dry_run=True).files == ()


@pytest.mark.parametrize("change", [{"length": "1"}, {"isDir": 1}, {"modificationTime": 1.5}, {"path": 1}, None])
def test_an_inventory_with_other_columns_is_refused(world: Clock, change: dict[str, Any] | None) -> None:
    row = {**ENTRY, **(change or {})}
    if change is None:
        del row["isDir"]
    with pytest.raises(InvalidInventoryError, match="modificationTime int64"):
        world.table.vacuum(inventory=pa.Table.from_pylist([row]))


# --- refusals


def test_a_retention_that_is_too_short_is_refused(world: Clock) -> None:
    with pytest.raises(VacuumRetentionTooShortError, match="168 h"):
        world.table.vacuum(167.9)
    with pytest.raises(VacuumRetentionNegativeError):
        world.table.vacuum(-1, retention_check=False)
    for wrong in (float("nan"), float("inf"), "7", True):
        with pytest.raises(InvalidArgumentError):
            world.table.vacuum(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError):
        world.table.vacuum(lite=True, inventory=pa.table({"path": []}))
    assert len(world.files()) == 2


def test_a_table_that_may_not_be_written_is_refused() -> None:
    log = make_log([])
    put_commit(
        log.env,
        0,
        [Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"fromTheFuture"})), METADATA],
    )
    put_commit(log.env, 1, [])
    table = tahoe.Table(log.url, env=log.env)
    for work in (table.vacuum, table.create_checkpoint, lambda: table.compact_logs(0, 1), table.cleanup_metadata):
        with pytest.raises(UnsupportedWriterFeatureError):
            work()
    assert [file.name for file in log.list_files()] == [log_files.commit_name(0), log_files.commit_name(1)]


def test_a_partition_is_refused_with_the_table_it_belongs_to(tmp_path: Path) -> None:
    tahoe.Table(tmp_path / "t").append(pa.table({"p": [1], "q": [2], "id": [3]}), partition_by=["p", "q"])
    for folder in ("p=1", "p=1/q=2"):
        with pytest.raises(VacuumPartitionError, match=str(tmp_path / "t")):
            tahoe.Table(tmp_path / "t" / folder).vacuum()
    with pytest.raises(TableNotFoundError):
        tahoe.Table(tmp_path / "x=1" / "y=2").vacuum()


# --- failures


def test_a_file_that_cannot_be_deleted_is_reported_and_the_others_go() -> None:
    refused = StorageRefusedError(table="t", operation="delete", detail="no permission")
    world = Clock(
        FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.DELETE, key="stray-3", error=refused))
    )
    world.table.append(pa.table({"id": [1]}))
    for number in range(6):
        world.store.put(f"stray-{number}", b"x")
    world.wait(1000)
    report = world.table.vacuum(log_history=True)
    assert report.files == tuple(f"stray-{number}" for number in range(6) if number != 3)
    assert list(report.failed) == ["stray-3"]
    assert "no permission" in report.failed["stray-3"]
    assert world.table.history()[0]["operationMetrics"]["numDeletedFiles"] == "5"
    assert world.store.head(LAST_VACUUM_INFO) is None  # so that LITE looks at its commit again
    assert world.table.vacuum().files == ("stray-3",)


def test_a_run_that_fails_says_so_in_the_history(monkeypatch: pytest.MonkeyPatch, world: Clock) -> None:
    world.wait(1000)

    def fail(_: object) -> None:
        raise StorageUnavailableError(table="t", operation="delete", detail="the network is gone")

    monkeypatch.setattr(world.store, "delete_many", fail)
    with pytest.raises(StorageUnavailableError):
        world.table.vacuum(log_history=True)
    end = world.table.history()[0]
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "FAILED", "startVersion": "2"})


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BATCH_FILES", 2)
    world = Clock()
    world.table.append(pa.table({"id": [1]}))
    for number in range(5):
        world.store.put(f"stray-{number}", b"x")
    world.wait(1000)
    told: list[tuple[int, int]] = []
    world.table.vacuum(progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 5), (4, 5), (5, 5)]


class Mortal:
    """A store whose process dies at a call."""

    def __init__(self, store: MemoryStore, calls: int) -> None:
        self._store, self._left = store, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            if name == "delete_many":
                for key in arguments[0]:
                    self._step()
                    self._store.delete(key)
                return {}
            self._step()
            return found(*arguments)

        return call

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


def lives(world_of: Callable[[], Clock], run: Callable[[tahoe.Table], Any]) -> Iterator[Clock]:
    """A run that is killed at its first call, one that is killed at its second, and so on; the last one comes to its
    end.
    """
    for calls in itertools.count():
        world = world_of()
        store: Any = Mortal(world.store, calls)
        try:
            run(tahoe.Table(world.store.url, env=replace(world.env, store=store, store_at=lambda _, s=store: s)))
        except Killed:
            yield world
        else:
            yield world
            return


@pytest.mark.parametrize("lite", [False, True])
def test_a_run_that_is_killed_leaves_a_whole_table_and_the_next_goes_on(lite: bool) -> None:
    first = Clock()
    first.table.append(pa.table({"id": [1]}), properties={"delta.checkpointInterval": "3"})
    for number in (2, 3):
        first.wait(1)
        replace_rows(first.table, number)
    first.wait(1000)

    def world_of() -> Clock:
        world = Clock()
        world.now_ms = first.now_ms
        world.store._content.files.update(first.store._content.files)
        return world

    def run(table: tahoe.Table) -> Any:
        return table.vacuum(lite=lite, log_history=True)

    runs = 0
    for world in lives(world_of, run):
        runs += 1
        assert [
            finding for finding in check_version(world.table.snapshot()) if finding.severity is Severity.ERROR
        ] == []
        run(world.table)
        assert len(world.files()) == 1
        assert world.table.to_arrow().to_pylist() == [{"id": 3}]
    assert runs > 10


# --- on a disk


def test_on_a_disk_emptied_folders_go_too(tmp_path: Path) -> None:
    table = tahoe.Table(tmp_path)
    table.append(pa.table({"p": ["a b", "ü%"], "id": [1, 2]}), partition_by=["p"])
    with table.transaction() as changes:
        changes.delete("p = 'a b'")
    (tmp_path / "_hidden" / "x").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    time.sleep(0.05)
    report = table.vacuum(0, retention_check=False)
    assert "p=a b" in report.folders
    assert not (tmp_path / "p=a b").exists()
    assert (tmp_path / "p=%C3%BC%25").exists()
    assert (tmp_path / "_hidden" / "x").exists()
    assert table.to_arrow().to_pylist() == [{"p": "ü%", "id": 2}]
    operations = {commit["operation"]: commit for commit in table.history()}
    assert operations["VACUUM END"]["operationMetrics"]["numDeletedFiles"] == str(
        len(report.files) + len(report.folders)
    )


def test_a_folder_without_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tahoe.Table(tmp_path)
    table.append(pa.table({"id": [1]}))
    for name in ("a", "b"):
        (tmp_path / f"{name}.parquet").write_bytes(b"x")
        os.utime(tmp_path / f"{name}.parquet", (1, 1))
    unlink = os.unlink

    def refuse(path: str, **kwargs: Any) -> None:
        if path.endswith("/a.parquet"):
            raise PermissionError(13, "Permission denied", path)
        unlink(path, **kwargs)

    monkeypatch.setattr(os, "unlink", refuse)
    report = table.vacuum()
    assert (report.files, list(report.failed)) == (("b.parquet",), ["a.parquet"])
