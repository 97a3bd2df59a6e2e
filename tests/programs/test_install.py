"""The package, installed with what it declares and nothing else, does what the README says: on every Python that it
names.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
REQUIRED = "3.11"

# Nothing of this environment; and no time zones of the system, as in slim containers.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK"))} | {
    "PYTHONTZPATH": "",
    "PYTHONNOUSERSITE": "1",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=900, env=ENVIRONMENT, cwd=cwd, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def pip(*arguments: str | Path, cwd: Path) -> None:
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments, cwd=cwd)


def python_of(version: str) -> str | None:
    """A Python of a version, on the path or among pyenv's; the file may be there and not run."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (shutil.which(f"python{version}"), *(str(p) for p in sorted(pyenv.glob(f"{version}.*/bin/python")))):
        asked = found and subprocess.run(
            [found, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if found and asked and asked.stdout.strip() == version:
            return found
    return None


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The Python of an environment for each version that is here. The newest has PySpark too: that of this environment,
    and nothing else of it.
    """
    folder = tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, folder, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    found = {version: python for version in VERSIONS if (python := python_of(version)) is not None}

    def install(version: str) -> Path:
        environment = folder / version
        run(found[version], "-m", "venv", "--without-pip", environment, cwd=folder)
        with_spark = version == max(found, key=VERSIONS.index)
        if with_spark:
            lend(environment / "lib" / f"python{version}" / "site-packages", "pyspark", "py4j")
        python = environment / "bin" / "python"
        # pip may take this environment for another one by its links, so that what it lacks is told by what runs below
        pip("--python", python, "install", "--no-compile", f"{wheel}[spark]" if with_spark else wheel, cwd=folder)
        return python

    with ThreadPoolExecutor() as pool:
        return dict(zip(found, pool.map(install, found), strict=True))


def lend(packages: Path, *names: str) -> None:
    """Links to packages of this environment, which are large."""
    for name in names:
        there = Path(str(importlib.import_module(name).__file__)).parent
        for part in (there, *there.parent.glob(f"{name}-*.dist-info")):
            (packages / part.name).symlink_to(part)


WITHOUT_SPARK = """
import sys
import pyarrow as pa
import tahoe
from tahoe.cli import app

table = tahoe.Table(sys.argv[1])
table.append(pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]}), partition_by=["s"])
assert table.to_arrow(columns=["n"], filter="n > 1").num_rows == 2
assert len(table.history()) == 1
for command in ([], ["show"], ["history"], ["files"], ["schema"], ["changes"], ["check"]):
    assert app([*command, "--help"], standalone_mode=False) in (None, 0)
"""


@pytest.mark.every_case
@pytest.mark.parametrize("version", VERSIONS)
def test_without_spark(installed: Mapping[str, Path], version: str, tmp_path: Path) -> None:
    if version not in installed:
        told = (
            f"there is no Python {version} on the path or among pyenv's: the package is NOT installed and tried on it"
        )
        if version == REQUIRED and os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    python, table = installed[version], tmp_path / "t"
    helped = run(python, "-c", WITHOUT_SPARK, table, cwd=tmp_path)
    assert helped.count("Usage:") == 7
    assert "1 of 3 files kept" in run(python.parent / "tahoe", "files", table, "--where", "n = 1", cwd=tmp_path)
    assert "No problems found" in run(python.parent / "tahoe", "check", table, cwd=tmp_path)
    hooked = "import sys; print(hasattr(sys.meta_path[0], 'hooks_pyspark'), sys.argv[1:])"
    assert run(python.parent / "tahoe", "run", "-c", hooked, "a", cwd=tmp_path) == "True ['a']\n"


def test_the_readme_runs_as_it_stands_and_again(installed: Mapping[str, Path], tmp_path: Path) -> None:
    """With Spark, in one process."""
    newest = max(installed, key=VERSIONS.index)
    said = run(installed[newest], ROOT / "tests" / "programs" / "readme.py", ROOT / "README.md", tmp_path, cwd=tmp_path)
    assert said.count("|999|") == 2, "the five lines show the rows that they say, each time"
    assert said.count("|    1000|") == 2
    assert said.count("No problems found") == 4, "check and repair, each time"
    assert said.endswith("README 3 blocks\n")
