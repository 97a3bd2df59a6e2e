"""`tahoe report`: the file that it writes, and where it does not."""

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
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of twelve small files, and a working directory beside it."""
    table = tahoe.Table(str(tmp_path / "t"))
    for number in range(12):
        table.append(pa.table({"id": [number]}))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "t")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["report", *arguments], catch_exceptions=False)


def test_it_writes_the_page_and_prints_what_to_do(path: str, tmp_path: Path) -> None:
    done = run(path)
    assert done.exit_code == 0
    assert (tmp_path / "t-report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "Combine small files" in done.stdout
    assert f"tahoe optimize {path}" in done.stdout
    assert "t-report.html has the report" in done.stdout.splitlines()[-1]


def test_it_writes_where_it_is_told(path: str, tmp_path: Path) -> None:
    assert run(path, "--output", "page.html", "--version", "3").exit_code == 0
    assert "Version 3 of" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run(path, "--output", "-").stdout.startswith("<!DOCTYPE html>")


def test_programs_get_the_figures(path: str, tmp_path: Path) -> None:
    found = json.loads(run(path, "--json").stdout)
    assert (found["files"], found["rows"]["count"], found["commits"]["operations"]) == (12, 12, {"WRITE": 12})
    assert found["advice"][0]["command"] == f"tahoe optimize {path}"
    assert list(tmp_path.glob("*.html")) == []


@pytest.mark.parametrize(
    ("output", "told"), [("no/page.html", "there is no folder"), (".", "it is a folder"), ("t/page.html", "VACUUM")]
)
def test_a_place_that_is_wrong_is_refused_before_the_table_is_read(
    path: str, tmp_path: Path, output: str, told: str
) -> None:
    (Path(path) / "_delta_log" / f"{0:020}.json").write_text("damaged")
    done = run(path, "--output", output)
    assert done.exit_code == 2
    assert told in done.stderr
    assert list(tmp_path.glob("**/*.html")) == []


@pytest.mark.parametrize("output", ["t/page.html", "link/page.html", "page.html"])
def test_links_do_not_hide_the_tables_folder(path: str, tmp_path: Path, output: str) -> None:
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "page.html").symlink_to(tmp_path / "t" / "linked.html")
    assert run(str(tmp_path / "link"), "--output", output).exit_code == 2
    assert list(Path(path).glob("*.html")) == []


def test_the_default_place_is_not_in_the_table_either(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path)
    assert run(".").exit_code == 2
    assert run(".", "--output", "../page.html").exit_code == 0


@pytest.fixture
def lake(path: str, tmp_path: Path) -> str:
    """A folder with a table of small files, and one that cannot be read."""
    broken = tahoe.Table(tmp_path / "lake/broken")
    broken.append(pa.table({"id": [1]}))
    (tmp_path / f"lake/broken/_delta_log/{0:020}.json").write_text("[red]damaged")
    Path(path).rename(tmp_path / "lake/t")
    return str(tmp_path / "lake")


def test_of_a_folder_all_tables_are_told(lake: str, tmp_path: Path) -> None:
    done = run(lake)
    assert done.exit_code == 0
    assert "cannot be read broken: [DELTA_INVALID_LOG_FILE]" in done.stdout
    assert f"1. t: Combine small files\n     tahoe optimize {lake}/t" in done.stdout
    for arguments in (["--json"], ["--format", "json"]):
        found = json.loads(run(lake, *arguments).stdout)
        assert [(row["name"], row["error"] is None) for row in found["tables"]] == [("broken", False), ("t", True)]
    assert "has the report" in run(lake, "--output", "lake.html").stdout
    assert (tmp_path / "lake.html").read_text(encoding="utf-8") == run(lake, "--output", "-").stdout


def test_a_report_of_several_tables_is_about_their_newest_versions(lake: str) -> None:
    for option in ("--version", "--timestamp"):
        done = run(lake, option, "1")
        assert (done.exit_code, option in done.stderr) == (2, True)


def test_the_page_of_several_tables_is_in_no_tables_folder(lake: str) -> None:
    table = next(Path(lake).rglob("_delta_log")).parent
    done = run(lake, "--output", str(table / "page.html"))
    assert (done.exit_code, "VACUUM" in done.stderr) == (2, True)
    assert not (table / "page.html").exists()


def test_a_folder_without_a_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a")
    done = run(str(tmp_path))
    assert done.exit_code == 2
    assert "there is no Delta table in" in done.stderr
    assert run(str(tmp_path / "nothing")).exit_code == 2
    assert run().exit_code == 2


def test_a_catalog_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    done = run("--catalog", f"sqlite:///{tmp_path}/lake.db")
    assert (done.exit_code, list(tmp_path.glob("*.db"))) == (2, [])
    assert "there is no file" in done.stderr


def test_of_a_catalog_all_tables_are_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    catalog = tahoe.Catalog(url, root=str(tmp_path / "tables"))
    catalog.create_schema("shop")
    catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    for number in range(12):
        catalog.table("shop.orders").append(pa.table({"id": [number]}))
    found = json.loads(run("--catalog", url, "--json").stdout)
    assert [(row["name"], row["files"]) for row in found["tables"]] == [("shop.orders", 12)]
    assert found["first"][0]["command"] == f"tahoe maintain --catalog {url} --only shop.orders"
    assert run("--catalog", url, str(tmp_path)).exit_code == 2
