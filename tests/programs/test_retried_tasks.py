"""Tasks of a stream that fail and are tried again leave neither rows nor files of their first attempts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tahoe

PROGRAM = Path(__file__).with_name("retried_tasks.py")


def test_what_a_failed_attempt_has_written_is_gone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    sink = tahoe.Table(str(tmp_path / "sink"))
    assert sorted(sink.to_arrow()["id"].to_pylist()) == list(range(4000))
    assert len(list(Path(tmp_path, "sink").glob("*.parquet"))) == len(sink.files()) > 1
