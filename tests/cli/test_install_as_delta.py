"""`tahoe.install_as_delta()`: `import delta` finds tahoe, or an error says why not. Each case is a process, because
modules stay.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def ran(program: str, *paths: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT / "src", *paths]))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A folder with what looks like delta-spark's Python package."""
    package = tmp_path / "packages" / "delta"
    package.mkdir(parents=True)
    for module in ("__init__", "tables", "pip_utils"):
        (package / f"{module}.py").write_text("REFERENCE = True\n")
    return package.parent


EVERY_NAME = """
import tahoe
tahoe.install_as_delta()
tahoe.install_as_delta()
import delta.connect.exceptions, delta.connect.tables, delta.exceptions.base, delta.exceptions.captured, delta._typing
from delta import DeltaTable, configure_spark_with_delta_pip
from delta.exceptions import ConcurrentAppendException
from delta.pip_utils import configure_spark_with_delta_pip as same
from delta.tables import *
import delta
assert delta.tables.DeltaTable is DeltaTable is tahoe.DeltaTable is delta.connect.DeltaTable is delta.connect.tables.DeltaTable
assert configure_spark_with_delta_pip is same is tahoe.configure
assert ConcurrentAppendException is tahoe.exceptions.ConcurrentAppendException is delta.connect.exceptions.ConcurrentAppendException
assert {name for name in globals()} >= {"DeltaMergeBuilder", "IdentityGenerator", "SparkSession", "DataFrame", "functions", "List"}
tahoe.install_as_delta()
print(delta.__version__)
"""


def test_every_name_of_the_package(reference: Path) -> None:
    """Also where delta-spark's own package is installed."""
    (line,) = [
        line
        for line in (ROOT / "requirements" / "reference.txt").read_text().splitlines()
        if line.startswith("delta-spark")
    ]
    assert ran(EVERY_NAME) == ran(EVERY_NAME, reference) == line.partition("==")[2]


def test_after_another_delta_was_imported(reference: Path) -> None:
    said = ran("import delta, tahoe\ntahoe.install_as_delta()", reference)
    assert "[DELTA_ALREADY_IMPORTED]" in said
    assert f"{reference}/delta/__init__.py" in said


def test_a_module_of_the_program_with_this_name(tmp_path: Path) -> None:
    (tmp_path / "delta.py").write_text("MINE = 1\n")
    said = ran("import tahoe\ntahoe.install_as_delta()", tmp_path)
    assert "[DELTA_OWN_MODULE]" in said
    assert f"{tmp_path}/delta.py" in said


def test_nothing_changes_before_it_is_called(reference: Path) -> None:
    assert ran("import tahoe, delta; print(delta.REFERENCE)", reference) == "True"


def test_without_pyspark() -> None:
    said = ran(
        "import tahoe, tahoe.programs.delta_names as d\nd.find_spec = lambda name: None\ntahoe.install_as_delta()"
    )
    assert "[DELTA_PYSPARK_MISSING]" in said
