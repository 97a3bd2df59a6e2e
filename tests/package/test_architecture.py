"""docs/ARCHITECTURE.md names every module and every Java class, so that a reader finds each thing in it, and names no
room that is gone.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "tahoe"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
RINGS_WITH_ROOMS = ("protocol", "table", "spark")
ROOM_MODULES_MAX = 20
NAMED = {name.rpartition("/")[2] for name in re.findall(r"`([^`\n]+)`", PAGE)}
MODULES = sorted(
    str(path.relative_to(SOURCES).with_suffix(""))
    for path in SOURCES.glob("*/**/*.py")
    if path.stem not in ("__init__", "__main__")
)
JAVA_FOLDERS = (
    "java/delta",
    "java_connect/delta/connect",
    "java_views/delta",
    *(f"java_executors/delta/{package}" for package in ("cache", "shared", "write")),
)
CLASSES = sorted({path.stem for folder in JAVA_FOLDERS for path in (SOURCES / "spark" / folder).glob("*.java")})


def section(ring: str) -> str:
    start = PAGE.index(f"### `{ring}/`")
    return PAGE[start : PAGE.index("\n##", start + 1)]


def named_in(ring: str) -> set[str]:
    """The modules of a ring, as the rows of its rooms name them: `room/module`. A row without a room belongs to the
    room above it.
    """
    room, named = "", set[str]()
    for first, second in re.findall(r"^\| ([^|]*) \| ([^|]*) \|", section(ring).replace("| |", "|  |"), re.MULTILINE):
        room = next(iter(re.findall(r"^`([\w/]+)`", first)), room)
        named |= {f"{room}/{name}" for name in re.findall(r"`(\w+)`", second)}
    return named


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_named(module: str) -> None:
    """In the rows of its own room, if its ring has rooms. A module of the command line that is one of its commands is
    named after it.
    """
    ring, *path = module.split("/")
    if ring in RINGS_WITH_ROOMS and len(path) > 1:
        assert "/".join(path) in named_in(ring)
    else:
        is_command = ring == "cli" and (SOURCES / f"{module}.py").read_text(encoding="utf-8").startswith('"""`tahoe ')
        assert is_command or path[-1] in NAMED


@pytest.mark.parametrize("java_class", CLASSES)
def test_a_java_class_has_a_row(java_class: str) -> None:
    assert f"\n| `{java_class}` |" in PAGE


def test_no_row_is_about_a_java_class_that_is_gone() -> None:
    tables = PAGE[PAGE.index("## The Java classes") : PAGE.index("## How Spark reads")]
    assert set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)) == set(CLASSES)


@pytest.mark.parametrize("ring", RINGS_WITH_ROOMS)
def test_every_room_of_a_ring_has_a_row(ring: str) -> None:
    folder = SOURCES / ring
    rooms = {str(path.parent.relative_to(folder)) for path in folder.rglob("*.py")} - {"."}
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"^\| `([\w/]+)`", section(ring), re.MULTILINE)) == rooms | modules


@pytest.mark.parametrize("ring", RINGS_WITH_ROOMS)
def test_a_room_can_be_surveyed(ring: str) -> None:
    rooms = Counter(
        str(path.parent.relative_to(SOURCES)) for path in (SOURCES / ring).rglob("*.py") if path.stem != "__init__"
    )
    assert rooms
    assert {room: count for room, count in rooms.items() if count > ROOM_MODULES_MAX} == {}


def asked_of_python(java_class: str) -> list[str]:
    """The methods of `delta.Python` that a class calls, in any version of it."""
    folders = (SOURCES / "spark" / folder for folder in JAVA_FOLDERS)
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.glob(f"{java_class}.java")]
    return sorted({name for text in texts for name in re.findall(r"\bAsk\.python\.(\w+)\(", text)})


@pytest.mark.parametrize("java_class", [name for name in CLASSES if name not in ("Python", "Changes")])
def test_the_last_column_has_what_a_java_class_asks_python(java_class: str) -> None:
    """`Python` is what they ask, and `Changes` is asked about by another class."""
    (row,) = re.findall(rf"^\| `{java_class}` \|.*\| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", row)) == asked_of_python(java_class)


@pytest.mark.parametrize("ring", ["protocol", "storage", "table", "sql"])
def test_an_inner_ring_names_no_setting_of_delta_in_spark(ring: str) -> None:
    """It gets values. What a caller can change is called by the caller's own name, which it hands in."""
    for path in (SOURCES / ring).rglob("*.py"):
        assert not re.search(r"spark\.(databricks|tahoe)\.\w", path.read_text(encoding="utf-8")), path
