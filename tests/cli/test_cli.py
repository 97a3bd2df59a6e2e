"""The command line says what the table ring says, to people and to programs."""

from __future__ import annotations

import datetime as dt
import decimal
import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.cli.commands import SUMMARIES, load_command
from tests.storage.servers import s3_server

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "day": pa.array([dt.date(2026, 1, 1), dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
        "x": [1.5, float("nan"), None],
    }
)
COMMANDS = ["show", "history", "files", "schema", "check"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of two versions, partitioned by day, with ids from 1 to 13."""
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(ROWS, partition_by=["day"])
    table.append(ROWS.set_column(0, "id", pa.array([11, 12, 13], pa.int64())))
    return str(tmp_path / "t")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)


def run_json(*arguments: str) -> Any:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_shows_every_word(name: str) -> None:
    """rich takes words in square brackets for markup and leaves them out."""
    command = load_command(name)
    texts = [command.help, *(parameter.help for parameter in command.params if getattr(parameter, "help", None))]
    shown = set(run(name, "--help").stdout.split())
    assert [word for text in texts for word in text.split() if word not in shown] == []


def test_help_lists_every_command_and_loads_none() -> None:
    """`tahoe --help` takes a second and more, or says something else than the command's own help."""
    for name, summary in SUMMARIES.items():
        assert " ".join(load_command(name).help.split()).startswith(summary), name
        assert name in run("--help").stdout
    code = (
        "import sys; from tahoe.cli import app; app(['--help'], standalone_mode=False); print('pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_show_tells_what_the_table_is(path: str) -> None:
    shown = run_json("show", path)
    assert shown["location"] == f"file://{path}"
    assert (shown["version"], shown["files"], shown["rows"], shown["columns"]) == (1, 4, 6, 3)
    assert (shown["partition_columns"], shown["protocol"]) == (["day"], {"reader": 1, "writer": 2})
    text = run("show", path).stdout
    assert "partition columns" in text
    assert shown["location"] in text


def test_an_older_version_is_told_of_by_every_command(path: str) -> None:
    assert run_json("show", path, "--version", "0")["files"] == 2
    assert len(run_json("files", path, "--version", "0")) == 2
    assert [c["version"] for c in run_json("history", path, "--version", "0")] == [0]
    assert len(run_json("schema", path, "--version", "0")["fields"]) == 3
    assert run("check", path, "--version", "0").exit_code == 0


def test_every_command_that_takes_a_version_takes_a_time(path: str) -> None:
    commits = run_json("history", path)
    for command in (["show"], ["history"], ["files"], ["schema"], ["check"], ["report"], ["inspect", "sizes"]):
        run_json(*command, path, "--timestamp", commits[1]["timestamp"])
        early = run(*command, path, "--timestamp", "2001-01-01", "--json")
        assert (early.exit_code, "DELTA_TIMESTAMP_OUT_OF_RANGE" in early.stderr) == (2, True), command
    assert [c["version"] for c in run_json("history", path, "--timestamp", commits[1]["timestamp"])] == [0]


def test_history_is_newest_first(path: str) -> None:
    commits = run_json("history", path)
    assert [c["version"] for c in commits] == [1, 0]
    assert commits[0]["operation"] == "WRITE"
    assert [c["version"] for c in run_json("history", path, "--limit", "1")] == [1]
    assert [c["version"] for c in run_json("history", path, "--limit", "1", "--version", "0")] == [0]
    assert "numOutputRows" not in run("history", path).stdout
    assert re.search(r"^operation metrics +numFiles = 2 *$", run("history", path, "--verbose").stdout, re.MULTILINE)


def test_a_commit_is_a_line_whatever_it_says(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tahoe.Table(path).transaction() as changes:
        changes.delete("id in (" + ", ".join(map(str, range(50))) + ") and day = '2026-01-01'")
    output = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    assert run_main(monkeypatch, output, "history", path) == 0
    lines = shown_on(output).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["2", "1", "0"]
    assert lines[2].endswith("…")
    assert max(map(len, lines)) == 80


def test_inspect_prints_what_the_table_tells_of_itself(path: str) -> None:
    rows = run_json("inspect", "sizes", path)
    assert [(row["version"], row["num_files"], row["num_records"]) for row in rows] == [(0, 2, 3), (1, 4, 6)]
    assert len(run_json("inspect", "sizes", path, "--version", "0")) == 1
    assert run_json("inspect", "row-groups", path) == run_json("inspect", "row_groups", path)
    partitions = run("inspect", "partitions", path).stdout
    assert re.search(r"day .* num files .* size .* num records", partitions)
    assert re.search(r"2026-01-02 .* 2 .* (bytes|kB) ", partitions)
    assert "base row id" not in run("inspect", "files", path).stdout  # no file has one
    refused = run("inspect", "everything", path)
    assert (refused.exit_code, "expected one of files, partitions" in refused.stderr) == (2, True)
    assert "DELTA_TIMESTAMP_OUT_OF_RANGE" in run("inspect", "files", path, "--timestamp", "2001-01-01").stderr


def test_a_version_in_a_path_is_told_where_it_belongs(path: str) -> None:
    told = "names a version, leave it out of the path: give version=... in Python, --version on the command line."
    assert f"If @v0 {told}" in run("show", f"{path}@v0").stderr
    assert "names a version" not in run("show", f"{path}/nothing").stderr


@pytest.fixture
def fed(path: str) -> str:
    """The same table with a change feed from version 2 on."""
    with tahoe.Table(path).transaction() as changes:
        changes.set_properties({"delta.enableChangeDataFeed": "true"})
    tahoe.Table(path).append(ROWS.slice(0, 2))
    return path


def test_changes_are_told_from_version_to_version(fed: str) -> None:
    rows = run_json("changes", fed, "--from", "2")
    assert [(row["id"], row["day"], row["_change_type"], row["_commit_version"]) for row in rows] == [
        (1, "2026-01-01", "insert", 3),
        (2, "2026-01-01", "insert", 3),
    ]
    assert run_json("changes", fed, "--from", "2", "--to", "2") == []
    assert [row["id"] for row in run_json("changes", fed, "--from", "2", "--where", "id = 2")] == [2]
    assert [row["id"] for row in run_json("changes", fed, "--from", "2", "--limit", "1")] == [1]
    text = run("changes", fed, "--from", "2").stdout
    assert re.search(r"1 .* insert .* 3 .*Z", text)
    refused = run("changes", fed, "--from", "0")
    assert (refused.exit_code, "DELTA_MISSING_CHANGE_DATA" in refused.stderr) == (2, True)


def test_schema_is_that_of_the_log(path: str) -> None:
    assert run_json("schema", path) == json.loads(tahoe.Table(path).snapshot().metadata.schema_string)
    lines = run("schema", path).stdout.splitlines()
    assert any("day" in line and "date" in line and "yes" in line for line in lines)


def test_files_shows_what_skipping_keeps(path: str) -> None:
    (file,) = run_json("files", path, "--where", "id > 10 and day = '2026-01-01'")
    assert (file["num_records"], file["partition_values"]) == (2, {"day": "2026-01-01"})
    assert file["statistics"] == {"id": {"min": 11, "max": 12}}
    assert file["size_bytes"] == Path(file["url"].removeprefix("file://")).stat().st_size
    text = run("files", path, "--where", "id > 10 and day = '2026-01-01'").stdout
    assert "1 of 4 files kept, 75.0 % skipped" in text
    assert "max id" in text
    assert file["path"] in text


def test_files_finds_the_statistics_of_mapped_and_nested_columns(tmp_path: Path) -> None:
    """Statistics are under physical names, people write logical ones, and the names' case does not matter."""
    data = pa.table({"Id": [5], "s": pa.array([{"Inner": 7}], pa.struct([("Inner", pa.int64())]))})
    tahoe.Table(str(tmp_path)).append(data, properties={"delta.columnMapping.mode": "name"})
    (file,) = run_json("files", str(tmp_path), "--where", "id = 5 and s.inner >= 7")
    assert file["statistics"] == {"Id": {"min": 5, "max": 5}, "s.Inner": {"min": 7, "max": 7}}


def test_a_filter_that_keeps_nothing_shows_nothing(path: str) -> None:
    assert run_json("files", path, "--where", "id > 99") == []
    assert "0 of 4 files kept, 100.0 % skipped" in run("files", path, "--where", "id > 99").stdout


def test_many_files_are_cut_short_for_people_and_not_for_programs(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("changes", "files"):
        monkeypatch.setattr(sys.modules[f"tahoe.cli.{module}"], "ROWS_SHOWN_MAX", 3)
    text = run("files", path).stdout
    assert text.count(".parquet") == 3
    assert "and 1 more" in text
    assert len(run_json("files", path)) == 4


def test_values_that_json_does_not_have_are_texts(tmp_path: Path) -> None:
    data = pa.table({"p": [float("nan")], "b": [b"\x01"], "id": [1]})
    tahoe.Table(str(tmp_path)).append(data, partition_by=["p"])
    assert run_json("files", str(tmp_path))[0]["partition_values"] == {"p": "NaN"}


FED = {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"}

ODD = pa.table(
    {
        "a b": [decimal.Decimal("1.10")],
        "[red]x[/]": [float("-inf")],
        "new\nline": ["\x1b[31mred\u202e"],
        "ü€": ["日本"],
        "b": [b"\x00\xff"],
        "map": pa.array([[("k", dt.date(2026, 1, 1))]], pa.map_(pa.string(), pa.date32())),
        "days": pa.array([[(dt.date(2026, 1, 1), [None])]], pa.map_(pa.date32(), pa.list_(pa.int8()))),
        "struct": [{"x": True, "y": None}],
        "at": [dt.datetime(2026, 1, 1, 12, 0, 0, 123456)],
        "far": pa.array([2**59], pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """A row of odd values under odd names."""
    tahoe.Table(tmp_path / "odd").append(ODD, properties=FED)
    return str(tmp_path / "odd")


def test_values_of_every_type_are_json(odd: str) -> None:
    """A map is an object, and a date beyond Python's calendar no traceback."""
    (row,) = run_json("changes", odd, "--from", "0")
    assert {name: row[name] for name in ODD.column_names} == {
        "a b": "1.10",
        "[red]x[/]": "-Infinity",
        "new\nline": "\x1b[31mred\u202e",
        "ü€": "日本",
        "b": "00ff",
        "map": {"k": "2026-01-01"},
        "days": {"2026-01-01": [None]},
        "struct": {"x": True, "y": None},
        "at": "2026-01-01T12:00:00.123456",
        "far": "+20237-04-25T10:45:03.423488Z",
    }


def test_values_are_shown_in_one_line_that_steers_no_terminal(odd: str) -> None:
    lines = run("changes", odd, "--from", "0").stdout.splitlines()
    assert len(lines) == 3
    for shown in (
        r"\x1b[31mred\u202e",
        '{"k": "2026-01-01"}',
        '{"2026-01-01": [null]}',
        '{"x": true, "y": null}',
        " 12:00:00.123456 ",
        " 00ff ",
    ):
        assert shown in lines[2] + " "
    assert r" new\nline " in lines[0]
    assert "[red]x[/]" in lines[0]
    assert "\x1b" not in "".join(lines)
    assert r"new\nline" in run("schema", odd).stdout


# --- terminals, pipes and disks


def run_main(
    monkeypatch: pytest.MonkeyPatch,
    output: io.TextIOWrapper | None,
    *arguments: str,
    errors: io.TextIOWrapper | None = None,
) -> int:
    """The entry point, with a standard output of its own; gives the exit code."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["tahoe", *arguments])
        patched.setattr(sys, "stdout", output)
        patched.setattr(sys, "stderr", errors if errors else io.StringIO())
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def shown_on(terminal: Terminal) -> str:
    terminal.flush()
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.buffer.getvalue().decode())  # type: ignore[attr-defined]


def test_a_pipe_gets_whole_lines_and_no_escapes(tmp_path: Path, path: str) -> None:
    wide = pa.table({f"column_{i}": ["x" * 50] for i in range(300)})
    tahoe.Table(tmp_path / "wide").append(wide, properties=FED)
    lines = run("changes", str(tmp_path / "wide"), "--from", "0").stdout.splitlines()
    assert len(lines) == 3
    assert lines[2].count("x" * 50) == 300
    refused = run("show", str(tmp_path / ("long" * 60)))
    assert refused.stderr.count("\n") == 1
    for arguments in (["show", path], ["files", path, "--where", "id = 1"], ["history", path], ["schema", path]):
        assert "\x1b" not in run(*arguments).stdout


def test_a_narrow_terminal_gets_row_below_row_and_nothing_cut(fed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of a letter or two cannot be read."""
    file = tahoe.Table(fed).files().column("path")[0].as_py()
    shown = {}
    for width, arguments in (
        (40, ["files", fed]),
        (40, ["show", fed]),
        (40, ["changes", fed, "--from", "2"]),
        (200, ["files", fed]),
    ):
        output = Terminal(io.BytesIO(), encoding="utf-8")
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        assert run_main(monkeypatch, output, *arguments) == 0
        text = shown_on(output)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        shown[width, arguments[0]] = text
    assert file in re.sub(r"\s", "", shown[40, "files"])
    assert re.search(r"^size +\d", shown[40, "files"], re.MULTILINE)
    assert re.search(r"^_change_type +insert", shown[40, "changes"], re.MULTILINE)
    assert re.search(r"^file +size +rows", shown[200, "files"], re.MULTILINE)


def test_a_terminal_that_lacks_characters_gets_their_numbers(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (
        ["changes", odd, "--from", "0"],
        ["schema", odd],
        ["schema", odd, "--json"],
        ["changes", odd, "--from", "0", "--json"],
    ):
        output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        assert run_main(monkeypatch, output, *arguments) == 0
        output.flush()
        text = output.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
        assert r"\u20ac" in text
        if "--json" in arguments:
            assert "ü€" in str(json.loads(text))


def test_an_output_that_takes_nothing_is_told_without_a_traceback(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    for arguments in (["files", path], ["files", path, "--json"]):
        errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        assert (
            run_main(
                monkeypatch, io.TextIOWrapper(Full(), encoding="utf-8", write_through=True), *arguments, errors=errors
            )
            == 2
        )
        errors.flush()
        assert errors.buffer.getvalue() == b"tahoe: [Errno 28] No space left on device\n"  # type: ignore[attr-defined]
    assert run_main(monkeypatch, None, "files", path) == 0


def test_a_pipe_that_is_closed_ends_it_quietly(path: str) -> None:
    program = "import sys; from tahoe.cli import main; main()"
    writer = subprocess.Popen(
        [sys.executable, "-c", program, "show", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    with writer.stderr:
        assert writer.stderr.read() == ""
    assert writer.wait(60) == 1


def test_check_ends_with_0_where_nothing_is_wrong(path: str) -> None:
    done = run("check", path)
    assert (done.exit_code, "No problems found" in done.stdout) == (0, True)
    assert run_json("check", path) == []


def test_check_ends_with_1_where_an_error_is_found(path: str) -> None:
    """A script that stops at a failing check is what the exit code is for."""
    gone = run_json("files", path)[0]
    Path(gone["url"].removeprefix("file://")).unlink()
    done = run("check", path)
    assert done.exit_code == 1
    assert gone["path"] in done.stdout
    assert "1 error, 0 warnings" in done.stdout
    (found,) = json.loads(run("check", path, "--json").stdout)
    assert (found["severity"], found["kind"], found["file"]) == ("error", "missing-data-file", gone["path"])
    assert found["next_step"]


@pytest.mark.parametrize(
    ("broken", "exit_code", "told"),
    [
        ("_last_checkpoint", 0, ["0 errors, 1 warning"]),
        ("00000000000000000001.json", 1, ["illegal-log-file", "unreadable-table"]),
    ],
    ids=["only a warning", "a table that cannot be read"],
)
def test_check_ends_with_1_where_there_are_errors(path: str, broken: str, exit_code: int, told: list[str]) -> None:
    (Path(path) / "_delta_log" / broken).write_text("{")
    done = run("check", path)
    assert done.exit_code == exit_code
    assert [text for text in told if text not in done.stdout] == []


def test_check_looks_at_declared_keys_if_asked(tmp_path: Path) -> None:
    table = tahoe.Table(tmp_path / "keyed")
    table.append(pa.table({"id": [1, 1, 2]}))
    with table.transaction() as changes:
        changes.add_key("pk", ["id"])
    path = str(tmp_path / "keyed")
    assert run_json("check", path) == []
    (found,) = json.loads(run("check", path, "--keys", "--json").stdout)
    assert (found["severity"], found["kind"]) == ("error", "violated-key")
    done = run("check", path, "--keys")
    assert (done.exit_code, "violated by 1 row, for example id = 1" in done.stdout) == (1, True)
    (tmp_path / "keyed" / "_delta_log" / "00000000000000000001.json").write_text("{")
    assert "unreadable-table" in run("check", path, "--keys").stdout


def test_optimize_says_what_it_did_and_would_do(path: str) -> None:
    planned = run("optimize", path, "--dry-run").stdout
    assert re.search(r"files to rewrite\s+4 \(", planned)
    assert tahoe.Table(path).version == 1
    done = run_json("optimize", path, "--where", "day = '2026-01-01'")
    assert (len(done["removed_bytes"]), len(done["added_bytes"]), done["version"], done["partitions"]) == (
        2,
        1,
        2,
        [{"day": "2026-01-01"}],
    )
    assert re.search(r"files rewritten\s+2 \(.*version\s+3", run("optimize", path).stdout, re.DOTALL)
    assert "nothing to do" in run("optimize", path).stdout
    refused = run("optimize", path, "--target-size", "big")
    assert (refused.exit_code, "--target-size" in refused.stderr) == (2, True)


def test_optimize_orders_rows(path: str) -> None:
    columns = [name for name in tahoe.Table(path).schema.names if name != "day"]
    planned = run("optimize", path, "--zorder-by", columns[0], "--dry-run").stdout
    assert re.search(rf"ordered by\s+{columns[0]}\b.*new files\s+those of \d partitions", planned, re.DOTALL)
    done = run_json("optimize", path, "--zorder-by", columns[0])
    assert (done["order"], done["version"]) == (columns[:1], 2)
    assert "nothing to do" in run("optimize", path, "--zorder-by", columns[0]).stdout
    refused = run("optimize", path, "--zorder-by", "day")
    assert (refused.exit_code > 0, "DELTA_ZORDERING_ON_PARTITION_COLUMN" in refused.stderr) == (True, True)
    assert "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED" in run("optimize", path, "--full").stderr


@pytest.fixture
def dead(path: str) -> str:
    """The table with an old file that no version names."""
    (Path(path) / "stray").write_bytes(b"x")
    os.utime(Path(path) / "stray", (1, 1))
    return path


def test_vacuum_says_what_it_deletes(dead: str) -> None:
    assert "stray" in run("vacuum", dead, "--dry-run").stdout
    assert run_json("vacuum", dead, "--dry-run")["files"] == ["stray"]
    done = run("vacuum", dead)
    assert (done.exit_code, done.stdout.split(";")[0]) == (0, "1 file (1 byte) and 0 folders deleted")
    assert not (Path(dead) / "stray").exists()
    assert run_json("vacuum", dead, "--lite", "--retain", "0", "--no-retention-check")["lite"] is True


def test_vacuum_ends_with_1_where_a_file_stays(dead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    done = run("vacuum", dead)
    assert done.exit_code == 1
    assert "not deleted stray" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_answered_is_said_on_standard_error_with_2(command: str, tmp_path: Path, path: str) -> None:
    """A message, with what to do, and no traceback; standard output stays empty for the program that reads it."""
    for arguments in ([str(tmp_path / "nothing")], [path, "--version", "7"], ["hdfs://x/y"]):
        done = run(command, *arguments, "--json")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "DELTA_" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "option", "value", "told"),
    [
        ("vacuum", "--retain", "1", "168 h"),
        ("files", "--where", "nothing = 1", "nothing"),
        ("show", "--option", "region", "KEY=VALUE"),
    ],
)
def test_a_value_that_cannot_be_is_refused(dead: str, command: str, option: str, value: str, told: str) -> None:
    done = run(command, dead, option, value)
    assert done.exit_code == 2
    assert told in done.stderr


def test_brackets_in_names_are_no_markup(tmp_path: Path) -> None:
    place = str(tmp_path / "[red]t[/]")
    tahoe.Table(place).append(pa.table({"id": [1]}))
    assert "[red]t[/]" in run("show", place).stdout


def test_a_shell_completes_commands_and_options() -> None:
    """bash, zsh and fish ask the program itself."""
    program = "import sys; from tahoe.cli import main; sys.argv = ['tahoe']; main()"
    for words, offered in (
        ("tahoe his", ["history"]),
        ("tahoe history --ver", ["--version", "--verbose"]),
        ("tahoe inspect st", ["statistics"]),
    ):
        asked = {"_TAHOE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, **asked}
        )
        assert done.stdout.split() == offered


def test_a_command_that_reads_imports_nothing_slow(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    tahoe.Table(place).append(pa.table({"id": [1]}))
    rows = {
        "pyarrow.parquet",  # the log has no checkpoint
        "pyarrow.fs",
    }
    slow = {
        "boto3",
        "duckdb",
        "obstore",
        "pandas",
        "polars",
        "pyarrow.acero",
        "pyarrow.dataset",
        "pyarrow.interchange",
        "sqlglot",
        "tahoe.protocol.changes.table_configuration",  # changes of tables
        "tahoe.storage.cache.block_cache",  # object stores
        "tahoe.storage.memory",
        "tahoe.table.table",
        "tahoe.table.versions.change_feed",
    }
    program = """
import atexit, sys
atexit.register(lambda: print("imported:", *sys.modules))
from tahoe.cli import main
main()
"""
    for command in ("show", "history", "schema", "files", "head"):
        done = subprocess.run(
            [sys.executable, "-c", program, command, place], capture_output=True, text=True, timeout=60
        )
        imported = {*done.stdout.splitlines()[-1].split()}
        assert imported & (slow if command == "head" else slow | rows) == set(), command


def test_a_command_does_not_look_for_garbage_among_what_it_has_imported(tmp_path: Path) -> None:
    """Python looks at it a hundred times while it grows, and once more at the end: a quarter of a short command."""
    place = str(tmp_path / "t")
    tahoe.Table(place).append(pa.table({"id": [1]}))
    program = """
import atexit, gc
from tahoe.cli import main
def count():
    return sum(generation["collections"] for generation in gc.get_stats())
atexit.register(lambda before=count(): print(count() - before, gc.get_freeze_count() > 0))
main()
"""
    done = subprocess.run([sys.executable, "-c", program, "show", place], capture_output=True, text=True, timeout=60)
    collections, is_frozen = done.stdout.splitlines()[-1].split()
    assert int(collections) < 10
    assert is_frozen == "True"


def test_the_entry_point_is_there() -> None:
    program = "import sys; from tahoe.cli import main; sys.argv = ['tahoe', '--version']; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"tahoe {tahoe.__version__}\n")
    as_module = [sys.executable, "-m", "tahoe", "--version"]
    assert subprocess.run(as_module, capture_output=True, text=True, timeout=60).stdout == done.stdout


@pytest.mark.server
def test_every_command_works_on_an_object_store() -> None:
    """Options go to the storage, and a value may hold an equals sign."""
    with s3_server() as server:
        url = f"{server.url}/a table/t=1"
        table = tahoe.Table(url, {**server.options, "aws_session_token": "a=b"})
        table.append(ROWS, partition_by=["day"])
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
        options = [
            word
            for key, value in {**server.options, "aws_session_token": "a=b"}.items()
            for word in ("--option", f"{key}={value}")
        ]
        assert {command: run(command, url, *options).exit_code for command in COMMANDS} == dict.fromkeys(COMMANDS, 0)
        assert run("check", url, *options).stdout == "No problems found\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["inspect", "/data/t"], "Write what to print before the path, for example: tahoe inspect files /data/t"),
        (["inspect", "/data/t", "files"], "Write: tahoe inspect files /data/t"),
        (["inspect", "partition", "/data/t"], "Did you mean partitions?"),
        (["inspect", "files"], "a path is missing: tahoe inspect files PATH"),
        (["/data/t"], "expected a command before the path, for example: tahoe show /data/t"),
        (["s3://bucket/t"], "expected a command before the path, for example: tahoe show s3://bucket/t"),
    ],
)
def test_a_path_in_the_place_of_something_else_is_told_with_the_command_that_is_meant(
    arguments: list[str], told: str
) -> None:
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2
    assert told in " ".join(done.output.replace("│", " ").split())
