"""Files that VACUUM must keep although no version of the table has them: those of tables below its folder, and change
files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.protocol.log.actions import CommitInfo
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.memory import MemoryStore
from tests.table.builders import memory_env, put_commit

RUNS: dict[str, Callable[[tahoe.Table], tahoe.VacuumReport]] = {
    "full": lambda table: table.vacuum(0, retention_check=False),
    "lite": lambda table: table.vacuum(0, retention_check=False, lite=True),
    "inventory without logs": lambda table: table.vacuum(0, retention_check=False, inventory=inventory_of(table)),
}


def inventory_of(table: tahoe.Table) -> pa.Table:
    """All data files below the table's folder."""
    infos = [info for info in table.env.store.walk() if "_delta_log" not in info.key]
    rows = [
        {"path": f"{table.url}/{info.key}", "length": info.size_bytes, "isDir": False, "modificationTime": 0}
        for info in infos
    ]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("folder", ["n", "_p=1/deep/n"])
def test_a_table_below_the_table_keeps_its_files_though_a_clone_has_removed_them(
    tmp_path: Path, folder: str, run: Callable[[tahoe.Table], tahoe.VacuumReport]
) -> None:
    """A shallow clone of a table in one of its own subfolders adds, and removes, the files of that table."""
    inner = tahoe.Table(tmp_path / folder)
    inner.append(pa.table({"_p": [1], "id": [1]}))
    cloned = inner.snapshot()
    adds = [file.replace(path=f"{inner.url}/{file.path}", partition_values={"_p": "1"}) for file in inner.scan().adds()]
    metadata = cloned.metadata.replace(id="clone", partition_columns=("_p",))
    outer = tahoe.Table(tmp_path)
    put_commit(outer.env, 0, [CommitInfo({"timestamp": 1, "operation": "CLONE"}), cloned.protocol, metadata, *adds])
    outer.append(pa.table({"_p": [1], "id": [2]}))
    own = next(file.path for file in outer.scan().adds() if not file.path.startswith("file:"))
    assert outer.to_arrow().num_rows == 2
    with outer.transaction() as changes:
        changes.delete("true")
    clock_ms = outer.env.clock_ms() + 60_000
    late = tahoe.Table(outer.url, env=replace(outer.env, clock_ms=lambda: clock_ms))
    assert run(late).files == (own,)
    assert inner.to_arrow().num_rows == 1


DAY_MS = 86_400_000


class Changed:
    """A table on which a row was deleted on day 1, and rows are appended on day 11: version 1 was the newest
    between.
    """

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        env = memory_env()
        self.store = MemoryStore(env.store.url, clock_ms=lambda: self.now_ms)
        self.table = tahoe.Table(self.store.url, env=replace(env, store=self.store, clock_ms=lambda: self.now_ms))
        self.table.append(pa.table({"id": [1, 2]}), properties={"delta.enableChangeDataFeed": "true"})
        self.now_ms += DAY_MS
        with self.table.transaction() as changes:
            changes.delete("id = 1")
        self.now_ms += 10 * DAY_MS

    def changes(self) -> list[int]:
        return self.table.changes(start_version=1, end_version=1)["id"].to_pylist()

    def change_files(self) -> list[str]:
        return [info.key for info in self.store.walk("_change_data")]


@pytest.mark.parametrize("lite", [False, True])
def test_the_change_files_of_the_version_at_the_cutoff_stay_and_the_next_run_deletes_them(lite: bool) -> None:
    """The version was the newest at some time within the retention, and LITE does not forget the files that it has
    left.
    """
    world = Changed()
    for _ in range(2):
        world.table.vacuum(lite=lite)
        assert world.changes() == [1], "nothing has replaced the version"
    world.table.append(pa.table({"id": [3]}))
    world.now_ms += 2 * DAY_MS
    for _ in range(2):
        world.table.vacuum(lite=lite)
        assert world.changes() == [1]
    gone = world.change_files()
    world.now_ms += 6 * DAY_MS
    assert [key for key in world.table.vacuum(lite=lite).files if "_change_data" in key] == gone
    assert world.change_files() == []
    assert world.table.vacuum(lite=lite).files == ()


def test_lite_goes_on_though_the_last_commit_that_it_has_read_is_gone() -> None:
    """Metadata cleanup may delete a commit while its change files are left; FULL finds these."""
    world = Changed()
    world.table.vacuum(lite=True)
    world.table.append(pa.table({"id": [3]}))
    world.table.create_checkpoint()
    for version in (0, 1):
        world.store.delete(commit_key(version))
    world.now_ms += 8 * DAY_MS
    assert world.table.vacuum(lite=True).files == ()
    assert world.table.vacuum().files
    assert world.change_files() == []
