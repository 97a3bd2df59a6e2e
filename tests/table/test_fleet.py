"""The tables below a folder: each is found once, its bytes are its own, and a broken one does not stop the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.storage import open_store
from tahoe.table.fleet.fleet import FleetReport, fleet_report, tables_below
from tahoe.table.fleet.found_tables import stored_tables
from tahoe.table.fleet.page import page


def append(path: Path, number: int = 1, **properties: str) -> tahoe.Table:
    table = tahoe.Table(path)
    for at in range(number):
        table.append(pa.table({"id": [at], "p": ["x"]}), partition_by=["p"], properties=None if at else properties)
    return table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, one in a folder, one inside another table, a broken one, and a folder without a table."""
    append(tmp_path / "a", 12)
    append(tmp_path / "deep/er/b")
    append(tmp_path / "a/inside")
    append(tmp_path / "broken")
    (tmp_path / "broken/_delta_log/00000000000000000000.json").write_text("no json")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.parquet").write_bytes(b"12345")
    return tmp_path


def report(folder: Path) -> FleetReport:
    return fleet_report(str(folder), tables_below(tahoe.Table(folder), tahoe.Table))


def test_every_table_is_found_and_has_its_own_bytes(folder: Path) -> None:
    found = stored_tables(open_store(str(folder)))
    assert list(found) == ["a", "a/inside", "broken", "deep/er/b"]
    sizes = {
        key: sum(
            file.stat().st_size
            for file in (folder / key).rglob("*")
            if file.is_file() and "_delta_log" not in file.parts
        )
        for key in ("a", "a/inside", "broken")
    }
    assert found["a"].bytes == sizes["a"] - sizes["a/inside"]
    assert found["broken"].bytes == sizes["broken"]
    assert found["a"].log_files >= 12
    assert stored_tables(open_store(str(folder / "other"))) == {}
    assert list(stored_tables(open_store(str(folder / "a")))) == ["", "inside"]


def test_a_broken_table_is_a_row_with_its_error(folder: Path) -> None:
    found = report(folder)
    assert [row.name for row in found.tables] == ["a", "a/inside", "broken", "deep/er/b"]
    (broken,) = found.broken
    assert broken.name == "broken"
    assert "00000000000000000000.json" in str(broken.error)
    told = found.to_dict()
    assert [row["files"] for row in told["tables"] if row["error"] is None] == [12, 1, 1]


def test_what_to_do_first_saves_most(folder: Path) -> None:
    append(folder / "larger", 30)
    found = report(folder)
    assert [(task.table.name, task.advice.kind) for task in found.tasks] == [("larger", "optimize"), ("a", "optimize")]
    assert found.tasks[0].command == f"tahoe optimize {folder / 'larger'}"


def test_old_files_are_told_until_vacuum_deletes_them(folder: Path) -> None:
    table = tahoe.Table(folder / "a")
    size = table.snapshot().live.size_bytes
    table.optimize()
    (row,) = (row for row in report(folder).tables if row.name == "a")
    assert row.retained_bytes == size
    assert row.unneeded_bytes == 0


def test_a_log_without_checkpoints_is_advised(tmp_path: Path) -> None:
    """Writers that write none; the page tells it, too."""
    append(tmp_path / "t", 21, **{"delta.checkpointInterval": "10"})
    assert [task.advice.kind for task in report(tmp_path).tasks] == ["optimize"]
    for file in (tmp_path / "t/_delta_log").glob("*.checkpoint.parquet"):
        file.unlink()
    (tmp_path / "t/_delta_log/_last_checkpoint").unlink()
    (task,) = (task for task in report(tmp_path).tasks if task.advice.kind == "checkpoint")
    assert "21 commits" in task.advice.reason
    assert "Write a checkpoint" in tahoe.Table(tmp_path / "t").report().html


def test_the_page_has_every_table(folder: Path) -> None:
    html = page(report(folder))
    assert html.startswith("<!DOCTYPE html>")
    assert all(name in html for name in ("deep/er/b", "a/inside", "Cannot be read", "Combine small files"))
