"""`tahoe diff`: as a table, as JSON, and as a page."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result
from typer.testing import CliRunner

import tahoe
from tahoe import cli


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table({"id": range(40), "name": ["[red]x"] * 40}))
    table.update({"name": "'y'"}, "id = 7")
    table.delete("id < 5")
    table.append(pa.table({"id": range(100, 130), "name": ["z"] * 30}))
    return str(tmp_path / "t")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["diff", *arguments], catch_exceptions=False)


def test_it_prints_exact_numbers_and_some_rows(path: str) -> None:
    done = run(path, "--from", "0", "--key", "id", "--limit", "3")
    assert done.exit_code == 0
    assert "version 0 to 3, rows by id" in done.stdout
    assert "30 inserted, 5 deleted, 1 updated" in done.stdout
    assert "updated columns: name in 1" in done.stdout
    assert "[red]x → y" in done.stdout
    assert "and 27 more; --limit shows more" in done.stdout
    assert "updated rows" not in run(path, "--from", "0", "--to", "1").stdout


def test_programs_get_json(path: str, tmp_path: Path) -> None:
    found = json.loads(run(path, "--from", "0", "--key", "id", "--format", "json").stdout)
    assert found["rows"]["counts"] == {"inserted": 30, "deleted": 5, "updated": 1}
    assert found["rows"]["updated"] == [{"before": {"id": 7, "name": "[red]x"}, "after": {"id": 7, "name": "y"}}]
    assert found == json.loads(run(path, "--from", "0", "--key", "id", "--json").stdout)
    run(path, "--from", "0", "--key", "id", "--output", str(tmp_path / "d.json"))
    assert found == json.loads((tmp_path / "d.json").read_text())


def test_it_writes_a_page(path: str, tmp_path: Path) -> None:
    done = run(path, "--from", "0", "--output", str(tmp_path / "d.html"))
    assert "has the difference" in done.stdout
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page == run(path, "--from", "0", "--format", "html").stdout


@pytest.mark.parametrize("arguments", [("--from", "9"), ("--from", "0", "--key", "nope")])
def test_what_is_wrong_is_told(path: str, arguments: tuple[str, ...]) -> None:
    done = run(path, *arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
