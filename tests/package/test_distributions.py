"""The wheel and the source distribution have all of the package, and say what an index of packages checks before it
takes them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.metadata import Metadata

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import setuptools.build_meta as b, sys; into = sys.argv[1]; b.build_sdist(into); b.build_wheel(into)"


def built(source: Path, into: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel of a source tree."""
    into.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(into)], cwd=source, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The two, and the wheel that is built from the source distribution alone."""
    folder = tmp_path_factory.mktemp("distributions")
    (folder / "tree").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "tree")
    shutil.copytree(ROOT / "src", folder / "tree" / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    sdist, wheel = built(folder / "tree", folder / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    _, again = built(folder / sdist.name.removesuffix(".tar.gz"), folder / "again")
    return {"sdist": sdist, "wheel": wheel, "wheel of the sdist": again}


def files_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_the_wheel_has_every_file_of_the_package(distributions: Mapping[str, Path]) -> None:
    """A file that is missing is noticed only where the package is installed."""
    source = ROOT / "src"
    packages = (source / "tahoe", source / "tahoe_race")
    every = (path for package in packages for path in package.rglob("*"))
    files = (path for path in every if path.is_file() and "__pycache__" not in path.parts)
    wanted = {path.relative_to(source).as_posix(): path.read_bytes() for path in files}
    found = {name: text for name, text in files_of(distributions["wheel"]).items() if ".dist-info/" not in name}
    assert found == wanted


def test_the_sdist_builds_the_same_wheel(distributions: Mapping[str, Path]) -> None:
    assert files_of(distributions["wheel of the sdist"]) == files_of(distributions["wheel"])


def test_an_index_takes_the_metadata(distributions: Mapping[str, Path]) -> None:
    """What `twine check` looks at: all fields are valid, and the long description says that it is Markdown."""
    said = files_of(distributions["wheel"])
    (text,) = (content for name, content in said.items() if name.endswith(".dist-info/METADATA"))
    metadata = Metadata.from_email(text, validate=True)
    assert metadata.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
