"""Tools that no one here wrote, in an environment of their own (`make tools`), on each Spark that tahoe supports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN = "4.3"
SPARKS = (OWN, "4.2", "4.1")
TAHOE = Path(sys.executable).with_name("tahoe")

Run = Callable[..., str]


@pytest.fixture(params=SPARKS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs `tahoe run ...` with one of the Sparks: older ones stand before that of the environment."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_HOME", "PYSPARK"))
    }
    variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    variables |= {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "GX_ANALYTICS_ENABLED": "false"}
    variables |= {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    if request.param != OWN:
        (packages,) = (ROOT / f".venv-{request.param}" / "lib").glob("python3*/site-packages")
        variables["PYTHONPATH"] = str(packages)

    def of(*words: str | Path, cwd: Path = tmp_path, **more: str) -> str:
        command = [str(TAHOE), "run", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=900, cwd=cwd, env={**variables, **more}, check=False
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]
        return done.stdout

    return of
