"""A Spark Connect session, which has no JVM at hand, reads, writes and travels in time through Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("connect_port")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("connect")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{ROOT}/src:{ROOT}",
    }
    command = [sys.executable, "-m", "tests.programs.with_connect", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    answers: dict[str, object] = json.loads(line.removeprefix("FOUND "))
    return answers


def test_the_warning_says_what_is_slower(found):
    (text,) = found["warning"]
    assert "through Python" in text


def test_rows_come_back(found):
    assert found["count"] == 103
    assert found["filtered"] == [97, 99, 100, 101, 102]
    assert found["types"] == [["id", "bigint"], ["p", "bigint"], ["s", "string"], ["ts", "timestamp"]]
    assert found["ts"] == "2026-01-01 00:00:00"
    assert found["same"], "the other reader of ours reads other rows"


def test_time_travel(found):
    assert (found["first"], found["suffix"], found["at"]) == (100, 100, 103)


def test_writes_are_commits_with_partitions(found):
    assert found["history"] == [["WRITE", None], ["WRITE", "from afar"]]
    assert set(found["partitions"]) == {"0", "1"}
    assert found["overwritten"] == [5, 103]


def test_a_write_with_an_identity_is_done_once(found):
    assert found["once"] == found["left"] == 6


def test_deletion_vectors_are_applied(found):
    assert found["marked"] == 101
    assert found["files that a filter leaves"] == 1


def test_every_mode_writes_what_it_should(found):
    made, exists, ignored, mismatch, replaced, dynamic = found["writes"]
    assert (made, ignored, replaced, dynamic) == ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 3], [0, 1])
    assert "DELTA_TABLE_ALREADY_EXISTS" in exists
    assert "DELTA_REPLACE_WHERE_MISMATCH" in mismatch


def test_what_cannot_work_is_refused_before_a_name_is_made(found):
    *named, of_path, made = found["names"]
    assert all("no statement could use the table's name" in error for error in named)
    assert "its own JVM" in of_path
    assert made == 0


def test_a_change_feed_is_read(found):
    images = [[3, "update_preimage", 3], [4, "update_postimage", 3]]
    assert found["feed"] == [[1, "insert", 1], [2, "delete", 2], [2, "insert", 1], [3, "insert", 1], *images]
    assert found["feed of the last version"] == [3, 4]


def test_statements_of_deltas_own_run_through_tahoe_sql(found):
    assert found["statements"] == [[3, 2], [3], "delta", 1]
    mistake, unsupported, missing = found["refused statements"]
    assert "PARSE_SYNTAX_ERROR" in mistake
    assert "Spark Connect" in unsupported
    assert "DELTA_TABLE_NOT_FOUND" in missing


def test_errors_say_what_is_wrong(found):
    missing, version, column, start = found["errors"]
    assert "DELTA_NO_START_FOR_CDC_READ" in start
    assert "DELTA_TABLE_NOT_FOUND" in missing
    assert "99" in version
    assert "mergeSchema" in column
