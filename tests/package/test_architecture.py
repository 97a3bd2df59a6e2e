"""docs/ARCHITECTURE.md names every module and every Java class, so that a reader finds each thing in it, and names no room that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "tahoe"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAMED = {name.rpartition("/")[2] for name in re.findall(r"`([^`\n]+)`", PAGE)}
MODULES = sorted(
    str(path.relative_to(SOURCES).with_suffix("")) for path in SOURCES.glob("*/**/*.py") if path.stem not in ("__init__", "__main__")
)
CLASSES = sorted(path.stem for path in (SOURCES / "spark" / "java" / "delta").glob("*.java"))


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("cli/")])
def test_a_module_is_named(module: str) -> None:
    assert Path(module).name in NAMED


@pytest.mark.parametrize("java_class", CLASSES)
def test_a_java_class_has_a_row(java_class: str) -> None:
    assert f"\n| `{java_class}` |" in PAGE


def test_no_row_is_about_a_java_class_that_is_gone() -> None:
    tables = PAGE[PAGE.index("## The Java classes") : PAGE.index("## How Spark reads")]
    assert set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)) == set(CLASSES)


@pytest.mark.parametrize("ring", ["table", "spark"])
def test_every_room_of_a_ring_has_a_row(ring: str) -> None:
    start = PAGE.index(f"### `{ring}/`")
    section = PAGE[start : PAGE.index("\n### ", start + 1)]
    rooms = {path.stem for path in (SOURCES / ring).iterdir() if path.name[0] not in "._" and path.stem != "java"}
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == rooms
