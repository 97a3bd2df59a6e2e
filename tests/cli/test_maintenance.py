"""The commands that maintain tables, besides OPTIMIZE and VACUUM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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


def damage(path: str) -> str:
    """Delete a data file. Returns its path in the log."""
    lost = str(tahoe.Table(path).files("id = 5")["path"][0])
    (Path(path) / lost).unlink()
    return lost


def test_repair_says_what_it_does_before_it_does_it(path: str) -> None:
    lost = damage(path)
    dry = run("repair", path, "--dry-run")
    assert (dry.exit_code, lost in dry.stdout, "1 would be repaired, 0 left" in dry.stdout) == (0, True, True)
    assert tahoe.Table(path).version == 2
    done = run("repair", path)
    assert done.exit_code == 0
    assert done.stdout.index(lost) < done.stdout.index("Repaired, version 3")
    assert tahoe.Table(path).to_arrow()["id"].to_pylist() == [2, 3]
    assert "No problems found" in run("repair", path, "--verify-all-files").stdout


def test_repair_tells_programs_what_is_left_and_fails_if_it_is_an_error(path: str) -> None:
    lost = damage(path)
    (other,) = (file for file in Path(path).glob("*.parquet") if file.name != lost)
    other.write_bytes(other.read_bytes()[:-1])
    done = run("repair", path, "--json", "--metadata-only")
    assert (done.exit_code, json.loads(done.stdout)["repairs"]) == (0, [])
    done = run("repair", path, "--json", "--unreadable-vectors", "remove-files")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["removed_files"], report["version"]) == (1, [lost], 3)
    ((left),) = report["left"]
    assert (left["kind"], left["file"]) == ("wrong-size", other.name)
    assert run("repair", path, "--unreadable-vectors", "guess").exit_code == 2


def test_a_dry_run_of_optimize_has_what_a_program_needs(path: str) -> None:
    planned = run_json("optimize", path, "--dry-run")
    assert (planned["table"], planned["dry_run"], planned["version"]) == (f"file://{path}", True, None)
    assert (len(planned["removed_bytes"]), planned["bins"], planned["batches"], planned["rows_purged"]) == (2, 1, 1, 1)
    assert planned["ended_ms"] >= planned["began_ms"] > 0
    assert run_json("optimize", path)["dry_run"] is False
    assert run_json("optimize", path, "--dry-run")["batches"] == 0
    assert "files to rewrite  none: nothing to do" in run("optimize", path, "--dry-run").stdout


def test_optimize_counts_parts_in_good_english(path: str) -> None:
    with tahoe.Table(path).transaction() as changes:
        changes.cluster_by([("id",)])
    shown = run("optimize", path, "--full", "--dry-run").stdout
    assert "those of 1 cube\n" in "\n".join(f"{line.rstrip()}\n" for line in shown.splitlines())
    assert run_json("show", path)["clustering_columns"] == ["id"]


def test_vacuum_tells_since_when_files_are_not_needed(path: str) -> None:
    assert (
        "0 files (0 bytes) and 0 folders would be deleted; what versions since 20"
        in run("vacuum", path, "--dry-run").stdout
    )
    refused = run("vacuum", path, "--retain", "0").stderr
    assert "retention of 0 h " in refused
    assert "--no-retention-check" in refused


def test_repair_names_each_repair_once(path: str, caplog: pytest.LogCaptureFixture) -> None:
    lost = damage(path)
    assert run("repair", path).stdout.count(f"repair missing-data-file {lost}") == 1
    assert caplog.messages == []


def test_repair_by_a_program_is_in_its_log(path: str, caplog: pytest.LogCaptureFixture) -> None:
    lost = damage(path)
    tahoe.Table(path).repair()
    assert [lost in message for message in caplog.messages] == [True]


def test_restore_makes_a_version_that_equals_an_earlier_one(path: str) -> None:
    planned = run_json("restore", path, "--version", "0", "--dry-run")
    assert (planned["dry_run"], planned["version"], tahoe.Table(path).version) == (True, None, 2)
    assert "files to bring back" in run("restore", path, "--version", "0", "--dry-run").stdout
    done = run_json("restore", path, "--version", "0")
    assert {**planned, "version": 3, "dry_run": False} == done
    assert (done["version"], done["restored_version"], done["removed_files"], done["restored_files"]) == (3, 0, 2, 1)
    assert sorted(tahoe.Table(path).to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert "it is the newest version" in run("restore", path, "--version", "3").stdout
    moment = tahoe.Table(path).history()[1]["timestamp"].isoformat()
    assert "files that are back" in run("restore", path, "--timestamp", moment).stdout
    assert sorted(tahoe.Table(path).to_arrow()["id"].to_pylist()) == [2, 3, 4, 5]
    wrong = run("restore", path)
    assert (wrong.exit_code, "neither a version nor a timestamp" in wrong.stderr) == (2, True)
    assert "--version or --timestamp" in " ".join(wrong.stderr.split())


def test_clone_makes_a_table_of_its_own(path: str, tmp_path: Path) -> None:
    target = str(tmp_path / "c")
    done = run_json("clone", path, target, "--version", "1", "--property", "mine=1")
    assert (done["version"], done["source_version"], done["copied_files"]) == (0, 1, 2)
    assert sorted(tahoe.Table(target).to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert tahoe.Table(target).properties["mine"] == "1"
    assert run("clone", path, target).exit_code == 2
    assert "files removed" in run("clone", path, target, "--replace", "--shallow").stdout
    assert sorted(tahoe.Table(target).to_arrow()["id"].to_pylist()) == [2, 3, 4, 5]
    assert "the table itself" in run("clone", path, path, "--replace").stdout
    assert run("clone", path, target, "--property", "mine").exit_code == 2


def test_convert_makes_a_folder_a_table_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    (folder / "day=2026-01-02").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "day=2026-01-02" / "f")
    assert "--partition" in run("convert", str(folder)).stderr
    assert run("convert", str(folder), "--partition", "day:nothing").exit_code == 2
    assert not tahoe.Table(str(folder)).exists()
    done = run("convert", str(folder), "--partition", "day:date")
    assert (done.exit_code, "1 file" in done.stdout) == (0, True)
    assert tahoe.Table(str(folder)).to_arrow(filter="day = '2026-01-02'").num_rows == 1
    assert run_json("convert", str(folder))["version"] is None
    assert "already" in run("convert", str(folder)).stdout


def test_generate_writes_manifests_and_says_how_many(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])
    assert run_json("generate", str(tmp_path / "t")) == {"table": table.url, "version": 0, "written": 1, "removed": 0}
    assert "1 manifest written, 0 removed" in run("generate", str(tmp_path / "t")).stdout
    assert (tmp_path / "t/_symlink_format_manifest/p=a/manifest").exists()


def test_erase_names_the_tags_that_hold_versions(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": [1]}))
    table.tag("q3")
    for more in ([], ["--dry-run"], ["--yes"]):
        done = CliRunner().invoke(cli.app, ["erase", str(tmp_path), "--where", "id = 2", *more])
        assert done.exit_code == 2
        assert "q3" in done.output


def test_erase_asks_tells_what_ends_and_proves_it(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": [1, 2], "name": ["Ada Lovelace", "Grace Hopper"]}))
    given = ["erase", str(tmp_path), "--where", "id = 2"]
    refused = CliRunner().invoke(cli.app, given, input="n\n")
    assert refused.exit_code == 1
    assert "version 0 can no longer be read" in refused.output
    assert table.count() == 2
    planned = run(*given, "--dry-run")
    assert "1 of version 0" in planned.output
    none = CliRunner().invoke(cli.app, ["erase", str(tmp_path), "--where", "id = 5"], input="n\n")
    assert "There is no text to search for" in none.output  # before anything ends, not behind it
    done = run(*given, "--yes")
    assert done.exit_code == 0, done.output
    assert "Erased: no file has any of the texts." in done.output
    assert "Grace" not in done.output
    assert json.loads(run(*given, "--yes", "--json").stdout)["is_proven"] is False  # there was nothing to search for
    found = run(*given, "--yes", "--search", "Ada Lovelace")
    assert found.exit_code == 1
    assert "column name" in found.output
