"""Whoever copies a page's blocks of Python in their order has every name that they use. `tests/spark/test_pages.py`
runs the blocks.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PAGES = {
    page.relative_to(ROOT).as_posix(): blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if (blocks := [textwrap.dedent(block) for block in BLOCK.findall(page.read_text(encoding="utf-8"))])
}
GIVEN = {*dir(builtins), "spark"}  # `spark` is the session of the reader's notebook or program


def bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=module, asname=name):
                yield name or module.split(".")[0]


def used(tree: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def is_endless(block: str) -> bool:
    """Whether a block starts a query that does not end by itself."""
    return bool(re.search(r"\.(start|toTable)\(", block)) and "availableNow" not in block


@pytest.mark.parametrize("page", PAGES)
def test_a_page_imports_what_its_blocks_use(page: str) -> None:
    """A reader would meet a NameError: the test that runs the page may have had the name from an invisible block."""
    names = set(GIVEN)
    for block in PAGES[page]:
        tree = ast.parse(block)
        names |= set(bound(tree))
        assert set(used(tree)) <= names, block


@pytest.mark.parametrize("page", PAGES)
def test_a_page_ends_the_queries_that_it_starts(page: str) -> None:
    """A reader's session would go on with a query that the page has forgotten."""
    for number, block in enumerate(PAGES[page]):
        following = "".join(PAGES[page][number:])
        assert not is_endless(block) or ".stop()" in following or ".awaitTermination()" in following, block


FENCED = re.compile(
    r"^(?:```(?:python|sql|sh)|<!-- invisible-code-block: python)\n(.*?)^(?:```|-->)", re.MULTILINE | re.DOTALL
)
INVISIBLE = re.compile(r"^<!-- invisible-code-block: python\n(.*?)^-->", re.MULTILINE | re.DOTALL)
TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md"))
}


def folders(text: str) -> set[str]:
    """The folders of the reader that a page's blocks name; the checkpoints of all streams are in one, each in its
    own.
    """
    return set(re.findall(r"/data/((?:checkpoints/)?\w+)", "\n".join(FENCED.findall(text))))


def test_no_two_pages_write_to_one_folder() -> None:
    """A reader who follows one page and then another would meet the first one's table, with other columns."""
    pages: dict[str, list[str]] = {}
    for page, text in TEXTS.items():
        for folder in folders(text):
            pages.setdefault(folder, []).append(page)
    assert {folder: several for folder, several in pages.items() if len(several) > 1} == {}


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if INVISIBLE.search(text)])
def test_a_page_shows_what_makes_its_tables(page: str) -> None:
    """The blocks that a page shows would fail for a reader, who does not have the tables."""
    hidden = "\n".join(INVISIBLE.findall(TEXTS[page]))
    assert re.findall(r"CREATE TABLE|INSERT INTO|\.append\(|\.write\b|\.save\(|\.create\(", hidden) == []


OPTIONAL = {  # what tahoe does not install, and how a page uses it
    "pandas": re.compile(r"\bto_pandas\(|\btoPandas\(|import pandas"),
    "polars": re.compile(r"\bto_polars\(|import polars"),
    "duckdb": re.compile(r"import duckdb"),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_the_package_that_its_blocks_need(page: str) -> None:
    """A bare environment has what tahoe depends on: a reader would meet an error of a missing package."""
    text, code = (ROOT / page).read_text(encoding="utf-8"), "\n".join(PAGES[page])
    missing = [
        name
        for name, use in OPTIONAL.items()
        if use.search(code) and not re.search(rf"pip install[^`\n]*\b{name}\b", text)
    ]
    assert missing == []


def test_every_variable_of_the_suites_is_listed() -> None:
    files = [ROOT / "Makefile", ROOT / ".ci/run", *(ROOT / "scripts").iterdir(), *(ROOT / "tests").rglob("*.py")]
    used_names = {
        name
        for file in files
        if file.is_file()
        for name in re.findall(r"(?<![A-Z_])TAHOE_[A-Z0-9_]+", file.read_text(encoding="utf-8"))
    }
    page = (ROOT / "docs" / "TESTING.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(TAHOE_[A-Z0-9_]+)`", "\n".join(re.findall(r"^\| `TAHOE.*?\|", page, re.MULTILINE))))
    for_users = {"TAHOE_FULL_TRACEBACKS", "TAHOE_CACHE", "TAHOE_CACHE_SIZE", "TAHOE_OPENTELEMETRY"}
    assert used_names - for_users - {"TAHOE_"} == listed
