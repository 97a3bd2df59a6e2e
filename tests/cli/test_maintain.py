"""`tahoe maintain`: what it prints, and its exit code."""

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
def lake(tmp_path: Path) -> str:
    for name in ("sales/a", "sales/b", "c"):
        for number in range(11):
            tahoe.Table(tmp_path / name).append(pa.table({"id": [number]}))
    return str(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["maintain", *arguments], catch_exceptions=False)


def test_it_does_what_is_advised_and_nothing_is_left(lake: str) -> None:
    done = run(lake, "--dry-run", "--only", "sales/*")
    assert done.exit_code == 0
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["planned sales/a", "planned sales/b"]
    assert tahoe.Table(f"{lake}/sales/a").version == 10
    found = json.loads(run(lake, "--json").stdout)
    assert [(step["table"], step["kind"], step["outcome"]) for step in found] == [
        (name, "optimize", "done") for name in ("c", "sales/a", "sales/b")
    ]
    assert run(lake).stdout == "nothing to do\n"
    assert len(tahoe.Table(f"{lake}/c").files()) == 1


def test_a_table_that_cannot_be_read_fails_the_run(lake: str) -> None:
    tahoe.Table(f"{lake}/broken").append(pa.table({"id": [1]}))
    (Path(lake) / f"broken/_delta_log/{0:020}.json").write_text("damaged")
    done = run(lake)
    assert done.exit_code == 1
    assert "failed  broken: [DELTA_INVALID_LOG_FILE]" in done.stdout
    assert "done    sales/b: optimize: 11 files" in done.stdout


def test_after_the_time_nothing_begins(lake: str) -> None:
    done = run(lake, "--minutes", "0")
    assert done.exit_code == 0
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"left"}
    assert tahoe.Table(f"{lake}/c").version == 10


def test_tables_of_a_catalog(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    catalog = tahoe.Catalog(url, root=str(tmp_path / "tables"))
    catalog.create_schema("shop")
    catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    for number in range(12):
        catalog.table("shop.orders").append(pa.table({"id": [number]}))
    assert "done    shop.orders: optimize: 12 files" in run("--catalog", url, "--only", "shop.*").stdout
    assert len(catalog.table("shop.orders").files()) == 1


@pytest.mark.parametrize("arguments", [(), ("--only", "nothing")])
def test_what_is_wrong_is_told(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    if arguments:
        tahoe.Table(tmp_path / "t").append(pa.table({"id": [1]}))
    done = run(str(tmp_path), *arguments)
    assert done.exit_code == 2
    assert done.stderr.strip()
