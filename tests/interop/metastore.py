"""Programs that run with a Hive metastore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark

from tests.interop.reference import JARS, PYTHON, ROOT

PROGRAM = Path(__file__).with_name("with_metastore.py")

HIVE = list((Path(pyspark.__file__).parent / "jars").glob("spark-hive_*.jar"))


def run(folder: Path, statements: list[str], *, by_reference: bool = False) -> list[list[list[Any]]]:
    """What the queries among some statements answer, in a session of its own."""
    python = str(PYTHON) if by_reference else sys.executable
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{ROOT}/src:{ROOT}",
    }
    if by_reference:
        environment["PYTHONPATH"] = ""
    command = [python, str(PROGRAM), str(folder), json.dumps(statements), *([str(JARS)] if by_reference else [])]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    answers: list[list[list[Any]]] = json.loads(line.removeprefix("ANSWERS "))
    return answers
