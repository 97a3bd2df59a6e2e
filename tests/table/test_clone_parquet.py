"""CLONE of folders of Parquet files, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.errors import (
    CloneIncompatibleSourceError,
    CloneNestedError,
    DeltaError,
    EmptyFolderError,
    FilesChangedError,
    FileSchemaMismatchError,
    InvalidArgumentError,
    InvalidPropertyError,
    InvalidTimeTravelError,
    PartitionCastFailedError,
    TableExistsError,
    UnexpectedPartitionCountError,
)
from tahoe.storage.background import finish_background
from tahoe.table.adoption import clone as clone_module
from tahoe.table.adoption.clone import CloneReport
from tahoe.table.adoption.clone_files import DeepFiles
from tahoe.table.verify.check import check_table

KINDS = pytest.mark.parametrize("shallow", [True, False], ids=["shallow", "deep"])
DAYS = pa.schema([("day", pa.date32())])


def put(folder: Path, key: str, **columns: list[object]) -> None:
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two partitions, of which one has a column more; and files that do not count."""
    folder = tmp_path / "files % 1"
    put(folder, "day=2026-01-01/a.parquet", id=[1, 2])
    put(folder, "day=2026-01-02/a b.parquet", id=[3], name=["c"])
    (folder / "_SUCCESS").touch()
    return folder


def rows(table: tahoe.Table) -> list[tuple[int, str, str | None]]:
    found = table.to_arrow(columns=["id", "day", "name"]).sort_by("id").to_pylist()
    return [(row["id"], str(row["day"]), row["name"]) for row in found]


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.rglob("*")}


EXPECTED = [(1, "2026-01-01", None), (2, "2026-01-01", None), (3, "2026-01-02", "c")]


@KINDS
def test_a_clone_has_the_rows_and_leaves_the_folder_as_it_is(folder: Path, tmp_path: Path, shallow: bool) -> None:
    before = state(folder)
    report = tahoe.Table(folder).clone(tmp_path / "t", shallow=shallow, source_format="parquet", partition_schema=DAYS)
    table = tahoe.Table(tmp_path / "t")
    assert rows(table) == EXPECTED
    assert (report.source_version, report.source_files, report.copied_files) == (-1, 2, 0 if shallow else 2)
    assert state(folder) == before
    assert not list(check_table(table.log))
    assert table.files("day = '2026-01-02' and id > 2").num_rows == 1
    assert table.files("id > 3").num_rows == 0  # by the statistics of the footers
    (commit,) = table.history()
    assert (commit["operation"], commit["operationParameters"]["sourceVersion"]) == ("CLONE", "-1")
    assert commit["operationParameters"]["source"] == f"parquet.`file://{folder}`"


@KINDS
def test_it_lives_on_by_itself(folder: Path, tmp_path: Path, shallow: bool) -> None:
    tahoe.Table(folder).clone(tmp_path / "t", shallow=shallow, source_format="parquet", partition_schema=DAYS)
    table, before = tahoe.Table(tmp_path / "t"), state(folder)
    with table.transaction() as changes:
        changes.delete("day = '2026-01-01'")
    table.vacuum(retention_hours=0, retention_check=False)
    assert rows(table) == EXPECTED[2:]
    assert state(folder) == before


@KINDS
def test_a_second_clone_takes_what_has_changed(folder: Path, tmp_path: Path, shallow: bool) -> None:
    """Also a file that was replaced under its name, which no Delta writer does."""

    def clone() -> CloneReport:
        return tahoe.Table(folder).clone(
            tmp_path / "t", shallow=shallow, replace=True, source_format="parquet", partition_schema=DAYS
        )

    clone()
    put(folder, "day=2026-01-01/a.parquet", id=[7, 8, 9])
    put(folder, "day=2026-01-03/new.parquet", id=[4])
    (folder / "day=2026-01-02" / "a b.parquet").unlink()
    put(folder, "day=2026-01-02/other.parquet", id=[3], name=["c"])
    report, table = clone(), tahoe.Table(tmp_path / "t")
    assert [row[0] for row in rows(table)] == [3, 4, 7, 8, 9]
    assert table.files("id = 9").num_rows == 1
    assert table.files("id = 1").num_rows == 0
    assert report.removed_files == (1 if shallow else 2)
    assert report.copied_files == (0 if shallow else 3)
    assert not list(check_table(table.log))
    assert clone().copied_files == 0


def refused(folder: Path, error: type[DeltaError], clone: Callable[[], object]) -> str:
    before = sorted(str(file) for file in folder.parent.rglob("*"))
    with pytest.raises(error) as raised:
        clone()
    assert sorted(str(file) for file in folder.parent.rglob("*")) == before
    return str(raised.value)


def test_what_is_wrong_is_told_before_any_work(folder: Path, tmp_path: Path) -> None:
    source, target = tahoe.Table(folder), tmp_path / "t"
    days = {"source_format": "parquet", "partition_schema": DAYS}
    refused(folder, UnexpectedPartitionCountError, lambda: source.clone(target, source_format="parquet"))
    hours = pa.schema([("day", pa.int32())])
    refused(
        folder, PartitionCastFailedError, lambda: source.clone(target, source_format="parquet", partition_schema=hours)
    )
    refused(folder, InvalidTimeTravelError, lambda: source.clone(target, version=0, **days))
    refused(folder, InvalidArgumentError, lambda: source.clone(target, source_format="orc"))
    refused(
        folder, InvalidArgumentError, lambda: source.clone(target, partition_schema=DAYS)
    )  # a Delta table has its own
    refused(folder, EmptyFolderError, lambda: tahoe.Table(tmp_path / "no").clone(target, source_format="parquet"))
    refused(
        folder,
        InvalidPropertyError,
        lambda: source.clone(target, properties={"delta.columnMapping.mode": "name"}, **days),
    )
    for place in (folder, folder / "inside", tmp_path):
        refused(folder, CloneNestedError, lambda place=place: source.clone(place, **days))
    put(folder, "day=2026-01-01/z.parquet", id=["text"])
    refused(folder, FileSchemaMismatchError, lambda: source.clone(target, **days))


def test_a_target_that_exists_is_refused_and_a_delta_table_is_no_folder_of_files(folder: Path, tmp_path: Path) -> None:
    tahoe.Table(tmp_path / "t").append(pa.table({"id": [1]}))
    finish_background()
    days = {"source_format": "parquet", "partition_schema": DAYS}
    refused(folder, TableExistsError, lambda: tahoe.Table(folder).clone(tmp_path / "t", **days))
    told = refused(
        folder,
        CloneIncompatibleSourceError,
        lambda: tahoe.Table(tmp_path / "t").clone(tmp_path / "u", source_format="parquet"),
    )
    assert "it is a Delta table" in told


def test_a_deep_clone_that_was_interrupted_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = {"source_format": "parquet", "partition_schema": DAYS}
    with monkeypatch.context() as broken:
        broken.setattr(clone_module, "Adoption", lambda **_: 1 / 0)  # all files are copied, and nothing is committed
        with pytest.raises(ZeroDivisionError):
            tahoe.Table(folder).clone(tmp_path / "t", **days)
    copies = list((tmp_path / "t").rglob("*.parquet"))
    assert len(copies) == 2
    assert tahoe.Table(folder).clone(tmp_path / "t", **days).copied_files == 0
    assert rows(tahoe.Table(tmp_path / "t")) == EXPECTED
    assert sorted((tmp_path / "t").rglob("*.parquet")) == sorted(copies)


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    arguments = [
        os.fspath(folder),
        os.fspath(tmp_path / "t"),
        "--shallow",
        "--source-format",
        "parquet",
        "--partition",
        "day:date",
    ]
    done = CliRunner().invoke(cli.app, ["clone", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "cloned version" not in done.stdout
    assert rows(tahoe.Table(tmp_path / "t")) == EXPECTED


def test_a_file_that_is_replaced_while_it_is_copied(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = DeepFiles._copied

    def replaced(self: DeepFiles, copy: Any) -> Any:
        put(folder, "day=2026-01-01/a.parquet", id=list(range(1000)))
        return copied(self, copy)

    with monkeypatch.context() as patched, pytest.raises(FilesChangedError, match=r"a\.parquet"):
        patched.setattr(DeepFiles, "_copied", replaced)
        tahoe.Table(folder).clone(tmp_path / "t", source_format="parquet", partition_schema=DAYS)
    assert not tahoe.Table(tmp_path / "t").exists()
    tahoe.Table(folder).clone(tmp_path / "t", source_format="parquet", partition_schema=DAYS)
    assert len(tahoe.Table(tmp_path / "t").to_arrow(filter="id = 999")) == 1
