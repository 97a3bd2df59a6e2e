"""The package as it would be uploaded: twine accepts wheel and sdist, and the sdist has all that the wheel is made
of.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (
    "import sys; from setuptools import build_meta as b; target = sys.argv[1]; b.build_sdist(target); "
    "b.build_wheel(target)"
)


def build(source: Path, target: Path) -> Path:
    """The folder with both."""
    target.mkdir()
    subprocess.run([sys.executable, "-c", BUILD, target], cwd=source, check=True, capture_output=True, timeout=300)
    return target


def files_of(folder: Path) -> set[str]:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return folder


def test_what_would_be_uploaded(source: Path, tmp_path: Path) -> None:
    built = build(source, tmp_path / "built")
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built.iterdir()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("PASSED") == 2
    of_tree = files_of(built)
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "tahoe").rglob("*")
        if path.suffix in (".py", ".java", ".typed")
    }
    assert sources <= of_tree, "a module or a Java class that the wheel lacks"
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert files_of(build(unpacked, tmp_path / "again")) == of_tree
