"""Ctrl-C stops a command with KeyboardInterrupt: nothing is committed, Spark's jobs are cancelled, and the session goes
on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("handler", ["PySpark", "notebook"])
def test_ctrl_c(handler: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
    }
    command = [sys.executable, str(ROOT / "tests" / "programs" / "interrupted.py"), str(tmp_path), handler]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    stopped = ["KeyboardInterrupt", 0, 0, 2, 0]
    assert json.loads(line.removeprefix("FOUND ")) == {
        "DELETE": stopped,
        "append": stopped,
        "update": stopped,
        "merge": stopped,
        "while it is put": ["KeyboardInterrupt", 1, 1, 3, 0],  # which the note tells
        "afterwards": 59,
        "handler": True,
    }
