"""The commands that maintain tables, besides OPTIMIZE and VACUUM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from typer.testing import CliRunner

import tahoe
from tahoe import cli


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files, one of them with deleted rows."""
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(pa.table({"id": [1, 2, 3]}), properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": [4, 5]}))
    with table.transaction() as changes:
        changes.delete("id = 1")
    return str(tmp_path / "t")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_analyze_makes_statistics_tight_and_says_how_many(path: str) -> None:
    assert run_json("analyze", path, "--where", "id > 3")["files_considered"] == 1
    done = run("analyze", path)
    assert done.exit_code == 0
    assert "files with new statistics" in done.stdout
    assert tahoe.Table(path).history(1)[0]["operation"] == "COMPUTE STATS"
    assert run_json("analyze", path)["version"] is None
    assert "none: nothing to do" in run("analyze", path).stdout
