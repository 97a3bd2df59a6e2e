"""`tahoe head` and `tahoe sql` print rows of the table: no deleted ones, under the names that people see."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.table.reading.scan import Scan

PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files; a row of the first is deleted by a vector."""
    table = tahoe.Table(tmp_path / "a table")
    table.append(
        pa.table({"id": [1, 2, 3], "p": ["x", "x", "x"], "v": [1.5, None, 3.5]}),
        partition_by=["p"],
        properties=PROPERTIES,
    )
    table.append(pa.table({"id": [11, 12], "p": ["y", "y"], "v": [11.5, float("nan")]}))
    with table.transaction() as changes:
        changes.delete("id = 1")
    return str(tmp_path / "a table")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)


def rows(*arguments: str) -> list[dict[str, Any]]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_head_prints_first_rows(path: str) -> None:
    assert len(rows("head", path)) == 4
    assert len(rows("head", path, "-n", "3")) == 3
    assert rows("head", path, "--where", "id < 10", "--column", "v", "--column", "id", "-n", "1") == [
        {"v": None, "id": 2}
    ]
    assert len(rows("head", path, "--version", "0")) == 3
    assert re.search(r"^id +p +v$", run("head", path).stdout.splitlines()[0])
    assert "DELTA_COLUMN_NOT_FOUND" in run("head", path, "--column", "w").stderr


def test_head_reads_no_more_files_than_it_must(path: str) -> None:
    last = tahoe.Table(path).files()["path"].to_pylist()[-1]
    (Path(path) / last).unlink()
    assert rows("head", path, "-n", "1")
    assert run("head", path).exit_code == 2


def test_sql_reads_a_path_in_quotes_and_a_name(path: str) -> None:
    assert rows("sql", f"select count(*) n, sum(id) s from '{path}'") == [{"n": 4, "s": 28}]
    query = (
        f"with big as (select * from t where id > 2) select big.id from big join '{path}' o using (id, p) order by 1 "
        f"desc"
    )
    assert rows("sql", query, "--table", f"t={path}") == [{"id": 12}, {"id": 11}, {"id": 3}]
    assert rows("sql", "select id from t where p = 'x' and v is null", "--table", f"t={path}") == [{"id": 2}]
    assert rows("sql", f"select min(id) from '{path}'", "--version", "0") == [{"min(id)": 1}]
    assert run("sql", f"select id from '{path}' order by id").stdout.split() == ["id", "──", "2", "3", "11", "12"]


@pytest.mark.parametrize(
    "condition",
    [
        "id in (2, 11)",
        "id between 3 and 11",
        "v > 3",
        "v is not null",
        "not (id = 3)",
        "p = 'y' or id < 3",
        "p like 'x%'",
        "v <> 1",
        "1 = 0",
    ],
)
def test_a_condition_that_duckdb_leaves_to_the_reader_is_exact(path: str, condition: str) -> None:
    """The same as over a table of DuckDB's own, NaN and null included."""
    plain = pa.table({"id": [2, 3, 11, 12], "p": ["x", "x", "y", "y"], "v": [None, 3.5, 11.5, float("nan")]})
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("given", plain)
        connection.execute("create table plain as select * from given")
        expected = [row[0] for row in connection.sql(f"select id from plain where {condition} order by id").fetchall()]
    assert [row["id"] for row in rows("sql", f"select id from '{path}' where {condition} order by id")] == expected


def test_sql_reads_the_columns_that_the_query_needs(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []
    original = Scan.to_batches

    def to_batches(
        self: Scan, columns: Sequence[str] | None = None, *rest: Any, **options: Any
    ) -> pa.RecordBatchReader:
        asked.extend([] if options.get("limit") == 0 or columns is None else [columns])
        return original(self, columns, *rest, **options)

    monkeypatch.setattr(Scan, "to_batches", to_batches)
    assert rows("sql", f"select p from '{path}' where id = 11") == [{"p": "y"}]
    assert asked == [["p"]]


@pytest.mark.parametrize("condition", ["p = 'x'", "id < 10", "p = 'x' and id > 1"])
def test_sql_reads_no_file_that_statistics_exclude(path: str, condition: str) -> None:
    (gone,) = tahoe.Table(path).files("p = 'y'")["path"].to_pylist()
    (Path(path) / gone).unlink()
    assert rows("sql", f"select count(*) n from '{path}' where {condition}") == [{"n": 2}]


def test_many_rows_are_cut_short_for_people(tmp_path: Path) -> None:
    tahoe.Table(tmp_path / "t").append(pa.table({"id": range(500)}))
    lines = run("sql", f"select * from '{tmp_path}/t'").stdout.splitlines()
    assert (len(lines), lines[-1]) == (103, "and more; --format csv or --json prints all")
    assert len(rows("sql", f"select * from '{tmp_path}/t'")) == 500


def test_a_query_that_is_wrong_is_refused(path: str) -> None:
    for query in ("selec 1", f"select w from '{path}'", "select * from nowhere"):
        refused = run("sql", query)
        assert (refused.exit_code, "DELTA_QUERY_FAILED" in refused.stderr) == (2, True)
    refused = run("sql", "select * from 't'")
    assert ("found in it: none" in refused.stderr, "a path with a slash" in refused.stderr) == (True, True)
    refused = run("sql", f"select * from '{path}' a, t b", "--table", f"t={path}", "--version", "0")
    assert (refused.exit_code, "found 2" in refused.stderr) == (2, True)


def test_without_duckdb_the_message_says_how_to_install_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules["tahoe.cli.sql"], "find_spec", lambda name: None if name == "duckdb" else find_spec(name)
    )
    refused = run("sql", f"select * from '{path}'")
    assert (refused.exit_code, "pip install duckdb" in refused.stderr) == (2, True)


FORMATS: dict[str, Callable[[bytes], list[dict[str, Any]]]] = {
    "csv": lambda data: list(csv.DictReader(io.StringIO(data.decode()))),
    "jsonl": lambda data: [json.loads(line) for line in data.splitlines()],
    "parquet": lambda data: pq.read_table(pa.BufferReader(data)).to_pylist(),
    "arrow": lambda data: pa.ipc.open_stream(data).read_all().to_pylist(),
}


@pytest.mark.parametrize("form", FORMATS)
def test_rows_are_written_in_other_formats(form: str, path: str, tmp_path: Path) -> None:
    expected = [{"id": 2, "v": None}, {"id": 3, "v": 3.5}]
    if form == "csv":
        expected = [{name: "" if value is None else str(value) for name, value in row.items()} for row in expected]
    asked = ["head", path, "--column", "id", "--column", "v", "--where", "id < 10"]
    piped = run(*asked, "--format", form)
    assert (piped.exit_code, FORMATS[form](piped.stdout_bytes)) == (0, expected)
    file = tmp_path / f"rows.{form}"
    assert run(*asked, "--output", str(file)).exit_code == 0
    assert FORMATS[form](file.read_bytes()) == expected
    query = f"select id, v from '{path}' where id < 10 order by id"
    assert run("sql", query, "--format", form, "--output", str(file)).exit_code == 0
    assert FORMATS[form](file.read_bytes()) == expected
    assert list(tmp_path.glob(".rows*")) == []


def test_nested_values_are_json_in_csv(tmp_path: Path) -> None:
    rows = pa.table({"a": [[1, None], []], "b": [{"x": "y, z"}, None], "c": [True, None], "d": [b"\x00", b"\xff"]})
    tahoe.Table(tmp_path / "t").append(rows)
    found = run("head", str(tmp_path / "t"), "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(found)))[1][:3] == ["[1, null]", '{"x": "y, z"}', "true"]


def test_columns_of_one_name_stay_apart_in_csv() -> None:
    assert run("sql", "select 1 as a, 2 as a", "--format", "csv").stdout == "a,a\n1,2\n"


def test_a_query_that_fails_leaves_no_file(path: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("before")
    query = f"select case when id > 2 then error('no') end as e from '{path}'"
    assert run("sql", query, "--output", str(file)).exit_code != 0
    assert file.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["a table", "rows.csv"]


@pytest.mark.parametrize(
    "arguments", [["--output", "rows.txt"], ["--json", "--format", "csv"], ["--format", "excel"]], ids=" ".join
)
def test_a_format_that_is_none_is_refused(arguments: list[str], path: str) -> None:
    assert run("head", path, *arguments).exit_code == 2
