"""`tahoe iceberg` shows, writes and verifies, and the comparison finds what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tahoe
from tahoe.cli.app import app
from tahoe.iceberg import conversion
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.verification import verify
from tahoe.storage.background import finish_background
from tests.iceberg.tables import TABLES, UNIFORM, iceberg, many, nested, plain, rows, same


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["iceberg", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_show_sync_and_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    table = plain(path)
    finish_background()
    monkeypatch.setattr(conversion, "after_commit", lambda _: None)
    table.append(rows(20))
    finish_background()
    told = json.loads(run("show", path, "--json"))
    assert (told["version"], told["converted_delta_version"], told["snapshots"]) == (2, 1, 2)
    assert told["format_version"] == 2
    assert "the newest version is 2" in run("verify", path)
    assert json.loads(run("sync", path, "--json"))["snapshots"] == 1
    assert json.loads(run("show", path, "--json"))["converted_delta_version"] == 2
    assert "No differences" in run("verify", path)
    assert "listed anew" in run("sync", path, "--whole")
    assert json.loads(run("verify", path, "--json"))["files"] == 3


def test_a_table_that_does_not_ask_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tahoe.Table(path).append(rows(0))
    assert "enabledFormats" in run("sync", path, code=2)
    assert "tahoe iceberg PATH sync" in " ".join(run("verify", path, code=2).split())
    assert json.loads(run("show", path, "--json"))["converted_delta_version"] is None


def test_enable_rewrites_what_iceberg_cannot_read(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(nested(0), properties={"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"})
    table.append(nested(10))
    table.delete("id = 1")
    version = json.loads(run("enable", table.url, "--json"))["version"]
    assert json.loads(run("show", table.url, "--json"))["format_version"] == 2
    assert version == table.version
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())
    assert json.loads(run("enable", table.url, "--json"))["version"] == version
    assert "No differences" in run("verify", table.url)


def test_enable_with_deletion_vectors_and_row_ids(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(many(0), properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 1")
    assert "must be 2 or 3" in run("enable", table.url, "--compat", "4", code=2)
    run("enable", table.url, "--compat", "3")
    assert table.snapshot().has_deletion_vectors
    assert json.loads(run("show", table.url, "--json"))["format_version"] == 3
    assert json.loads(run("verify", table.url, "--json"))["rows"] == 399
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())


@pytest.mark.parametrize("name", TABLES)
def test_nothing_differs_after_a_conversion(name: str, tmp_path: Path) -> None:
    table = TABLES[name](str(tmp_path / "t"))
    finish_background()
    found = verify(table.snapshot())
    assert found.differences == ()
    assert found.version == found.newest == table.version
    assert found.files == len(table.snapshot().live)


def test_what_differs_is_told(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(rows(0), properties=UNIFORM)
    table.append(rows(10))
    finish_background()
    folder = MetadataFolder(table.log)
    known = folder.newest()
    assert known is not None
    older = known.metadata.snapshots[0]
    file = tmp_path / "t" / "metadata" / "v1.metadata.json"
    content = json.loads(file.read_text())
    content["current-snapshot-id"] = content["refs"]["main"]["snapshot-id"] = older.snapshot_id
    file.write_text(json.dumps(content))
    (difference,) = verify(table.snapshot()).differences
    assert difference.startswith("files of the table that are missing (1)")
    content["schemas"][0]["fields"][0]["type"] = "string"
    file.write_text(json.dumps(content))
    assert "the schema is" in run("verify", table.url, code=1)
