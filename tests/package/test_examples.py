"""Every public method is used in the code of a page, which `tests/spark/test_pages.py` runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tahoe
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.spark.api.optimize_builder import DeltaOptimizeBuilder
from tahoe.table.inspection.inspector import Inspector

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = "\n".join(block for page in sorted(DOCS.rglob("*.md")) for block in BLOCK.findall(page.read_text(encoding="utf-8")))

# For the other rings: what users do not call.
NOT_FOR_USERS = {"knowing", "keeping_commits", "snapshot_if_exists", "forget", "log", "env"}

METHODS = [
    f"{owner.__name__}.{name}"
    for owner in (tahoe.DeltaTable, tahoe.DeltaTableBuilder, DeltaMergeBuilder, DeltaOptimizeBuilder, tahoe.Table, Inspector)
    for name in sorted({name for name in dir(owner) if not name.startswith("_")} - NOT_FOR_USERS)
]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_has_an_example(method: str) -> None:
    assert re.search(rf"\.{method.partition('.')[2]}\b", CODE), f"no page uses {method}: add it to docs/reference"
