"""What `import tahoe` shows to whoever asks it: tab completion, help(), `from tahoe import *`."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from importlib import import_module

import pytest

import tahoe

WITHOUT_SPARK = {"Catalog", "Snapshot", "Table", "__version__", "cache", "errors", "events", "exceptions", "on"}
WITH_SPARK = {
    "DeltaTable",
    "DeltaTableBuilder",
    "configure",
    "copy_into",
    "enable",
    "install_as_delta",
    "sql",
    "tables",
    "transaction",
}


@pytest.mark.parametrize("module", ["tahoe", "tahoe.errors", "tahoe.events", "tahoe.exceptions", "tahoe.tables"])
def test_a_public_module_shows_what_users_call_and_nothing_else(module: str) -> None:
    found = import_module(module)
    assert set(dir(found)) == set(found.__all__)
    for name in dir(found):
        value = getattr(found, name)
        assert name == "__version__" or (value.__name__ if hasattr(value, "__spec__") else value.__module__).startswith(
            "tahoe."
        )
    assert {"Any", "sys", "annotations", "TYPE_CHECKING"}.isdisjoint(dir(found))


def test_tahoe_shows_everything_that_the_readme_names() -> None:
    assert set(dir(tahoe)) == WITHOUT_SPARK | WITH_SPARK
    star: dict[str, object] = {}
    exec("from tahoe import *", star)
    assert star.keys() >= WITHOUT_SPARK | WITH_SPARK
    shown = pydoc.plain(pydoc.render_doc(tahoe))
    assert "enable(spark" in shown
    assert "class Table" in shown


def test_python_suggests_the_name_that_was_meant() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tahoe; tahoe.Tabel"], capture_output=True, text=True, check=False
    )
    assert done.stderr.endswith("AttributeError: module 'tahoe' has no attribute 'Tabel'. Did you mean: 'Table'?\n")


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "pyspark" else found(name, package)

import pydoc
import tahoe
from tahoe import *
pydoc.render_doc(tahoe)
print(sorted(dir(tahoe)))
for use in ("tahoe.enable", "tahoe.DeltaTable", "tahoe.tables", "tahoe.sql(None, 'x')", "__import__('tahoe.tables')"):
    try:
        eval(use)
    except tahoe.errors.DeltaError as error:
        print(error.condition, isinstance(error, ImportError))
"""


def test_without_pyspark_the_rest_works_and_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [str(sorted(WITHOUT_SPARK)), *["DELTA_PYSPARK_MISSING True"] * 5]
