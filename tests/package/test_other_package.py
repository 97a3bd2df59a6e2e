"""The name under which the package is installed: one in all pages, and told apart from the other project's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import tahoe
from tahoe import errors
from tahoe._other_package import refuse_other_package
from tahoe._version import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A package of ours in a command: a name that begins with tahoe, with extras or without.
OURS = re.compile(r"pip3? install (?:-\S+ )*['\"]?(tahoe(?:-\w+)*)\b")


def test_the_project_has_the_name_that_errors_and_pages_give() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    named = {(page.name, name) for page in PAGES for name in OURS.findall(page.read_text(encoding="utf-8"))}
    assert {name for _, name in named} == {DISTRIBUTION}
    assert len(named) >= 3


@pytest.mark.parametrize("installed", ["tahoe-1.0.3.1.dist-info", "tahoe-0.9.dist-info"])
def test_the_other_project_beside_this_one_is_an_error(tmp_path: Path, installed: str) -> None:
    (tmp_path / installed).mkdir()
    with pytest.raises(errors.OtherPackageError, match=rf"pip uninstall tahoe {DISTRIBUTION}; pip install") as refused:
        refuse_other_package([str(tmp_path / "tahoe")])
    assert isinstance(refused.value, ImportError)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    "installed", ["tahoe_delta-0.1.0.dist-info", "tahoelake-1.dist-info", "tahoe_race-1.dist-info"]
)
def test_packages_of_other_names_are_none(tmp_path: Path, installed: str) -> None:
    (tmp_path / installed).mkdir()
    refuse_other_package([str(tmp_path / "tahoe")])


def test_this_one_is_not_taken_for_the_other() -> None:
    refuse_other_package(tahoe.__path__)
