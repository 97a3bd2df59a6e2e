"""Files that VACUUM must keep although no version of the table has them: those of tables below its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.protocol.actions import CommitInfo
from tests.table.builders import put_commit

RUNS: dict[str, Callable[[tahoe.Table], tahoe.VacuumReport]] = {
    "full": lambda table: table.vacuum(0, retention_check=False),
    "lite": lambda table: table.vacuum(0, retention_check=False, lite=True),
    "inventory without logs": lambda table: table.vacuum(0, retention_check=False, inventory=inventory_of(table)),
}


def inventory_of(table: tahoe.Table) -> pa.Table:
    """All data files below the table's folder."""
    infos = [info for info in table.env.store.walk() if "_delta_log" not in info.key]
    rows = [{"path": f"{table.url}/{info.key}", "length": info.size_bytes, "isDir": False, "modificationTime": 0} for info in infos]
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
    adds = [replace(file, path=f"{inner.url}/{file.path}", partition_values={"_p": "1"}) for file in inner.scan().adds()]
    metadata = replace(cloned.metadata, id="clone", partition_columns=("_p",))
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
