"""Every public method is used in the code of a page, which `tests/spark/test_pages.py` runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import tahoe
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.spark.api.optimize_builder import DeltaOptimizeBuilder
from tahoe.table.inspection.inspector import Inspector
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.writing.merge_builder import MergeBuilder

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def code_of(*pages: str) -> str:
    return "\n".join(block for page in pages for block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")))


IN_SPARK = code_of("reference/deltatable.md", "howto/upsert.md")
WITHOUT_SPARK = code_of("reference/table.md")

# For the other rings: what users do not call. Only Spark makes identity columns.
NOT_FOR_USERS = {"knowing", "keeping_commits", "snapshot_if_exists", "forget", "log", "env", "sync_identity"}

# Of these classes the other rings use many more methods than docs/reference/api.md shows.
SHOWN = re.compile(r"^.. autoclass:: (tahoe\S*\.(?:Snapshot|Scan))\n +:members: (.+)$", re.MULTILINE)

OWNERS = {
    IN_SPARK: (tahoe.DeltaTable, tahoe.DeltaTableBuilder, DeltaMergeBuilder, DeltaOptimizeBuilder),
    WITHOUT_SPARK: (tahoe.Table, Inspector, MergeBuilder, TransactionBuilder),
}
METHODS = [
    pytest.param(name, code, id=f"{owner.__name__}.{name}")
    for code, owners in OWNERS.items()
    for owner in owners
    for name in sorted({name for name in dir(owner) if not name.startswith("_")} - NOT_FOR_USERS)
] + [
    pytest.param(name, WITHOUT_SPARK, id=f"{owner.rpartition('.')[2]}.{name}")
    for owner, names in SHOWN.findall((DOCS / "reference" / "api.md").read_text(encoding="utf-8"))
    for name in names.split(", ")
]


@pytest.mark.parametrize(("method", "code"), METHODS)
def test_a_method_has_an_example(method: str, code: str) -> None:
    assert re.search(rf"\.{method}\b", code), "add it to docs/reference/deltatable.md or table.md"


def test_the_page_of_the_api_shows_what_users_call_and_nothing_else() -> None:
    """Sphinx leaves out what has no docstring, and shows what other rings use."""
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    for owner in OWNERS[WITHOUT_SPARK]:
        (hidden,) = re.findall(
            rf"autoclass:: tahoe\S*\.{owner.__name__}\n(?: +:(?!exclude).*\n)*(?: +:exclude-members: (.+)\n)?", page
        )
        names = {name for name in dir(owner) if not name.startswith("_")}
        assert set(filter(None, hidden.split(", "))) == names & NOT_FOR_USERS
        assert [name for name in names - NOT_FOR_USERS if not inspect.getattr_static(owner, name).__doc__] == []


FOR_CONTRIBUTORS = {"ARCHITECTURE.md", "STYLE.md", "TESTING.md", "PROFILE.md"}
FOR_USERS = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.name not in FOR_CONTRIBUTORS and page.parent.name not in ("decisions", "generated")
]
FENCED = re.compile(r"^(?:`{3}|:{3}|<!--).*?^(?:`{3}|:{3}|.*?-->)$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^(?! *[-*] |\d\. )[^\s].*\n\n    \S|\A    \S", re.MULTILINE)
LANGUAGES = {"python", "sql", "sh", "jinja", "text", "toml", "yaml", "{toctree}", "{eval-rst}"}


@pytest.mark.parametrize("page", FOR_USERS, ids=[page.relative_to(DOCS).as_posix() for page in FOR_USERS])
def test_each_block_of_code_names_its_language(page: Path) -> None:
    """Code without a language, or indented, is run by nothing."""
    text = page.read_text(encoding="utf-8")
    opened = re.findall(r"^```(.*)$", text, re.MULTILINE)[::2]
    assert set(opened) <= LANGUAGES
    assert INDENTED.findall(FENCED.sub("", text)) == []
