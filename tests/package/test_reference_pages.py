"""The generated pages of the reference have every option, setting, property, feature and error that the code knows."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tahoe import errors
from tahoe.errors import DeltaError, InvalidOptionError
from tahoe.protocol.configuration.clients import CLIENTS
from tahoe.protocol.configuration.features import FEATURES
from tahoe.protocol.configuration.properties import PROPERTIES
from tahoe.protocol.log.cubes import CLOSED_BYTES
from tahoe.protocol.streams.stream_schema import ACKNOWLEDGING
from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.option_names import OPTIONS
from tahoe.spark.configuration.setting_names import SETTINGS, Setting
from tahoe.spark.streams import options as stream_options
from tahoe.spark.writing import write_options
from tahoe.spark.writing.file_sizes import auto_compaction
from tahoe.table.layout.auto_compaction import AutoCompaction

ROOT = Path(__file__).resolve().parents[2]
SPARK = ROOT / "src" / "tahoe" / "spark"
TABLE_OF_SETTINGS = SPARK / "configuration" / "setting_names.py"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = {
    "options": [option.name for option in OPTIONS],
    "settings": [setting.name for setting in SETTINGS],
    "properties": [known.name for known in PROPERTIES],
    "features": [feature.name for feature in FEATURES],
}


def test_each_link_to_a_generated_page_has_its_page(generate: ModuleType, tmp_path: Path) -> None:
    """Such a page is in no checkout, so a wrong link would be seen only on the site."""
    generate.write_pages(tmp_path)
    texts_of_pages = [
        page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "generated"
    ]
    named = {name for text in texts_of_pages for name in re.findall(r"\bgenerated/([\w-]+)", text)}
    assert named == {page.stem for page in tmp_path.iterdir()}


def test_the_page_of_other_programs_has_each_feature_for_each_of_them(generate: ModuleType, tmp_path: Path) -> None:
    generate.write_pages(tmp_path)
    page = (tmp_path / "clients.md").read_text(encoding="utf-8")
    rows = {name: said.split(" | ") for name, said in re.findall(r"^\| `([^`]+)` \| (.+) \|$", page, re.MULTILINE)}
    assert rows.keys() == {*(client.name for client in CLIENTS), *(feature.name for feature in FEATURES)}
    assert all(len(rows[feature.name]) == len(CLIENTS) for feature in FEATURES)
    assert {cell for feature in FEATURES for cell in rows[feature.name]} == {"yes", "no", "reads", "wrong values"}


@pytest.mark.parametrize("page", NAMES)
def test_a_page_has_each_name_with_its_meaning(generate: ModuleType, tmp_path: Path, page: str) -> None:
    generate.write_pages(tmp_path)
    entries = re.findall(
        r"^(?:\| )?`([^`]+)`(?: \||\n:)(.+)$", (tmp_path / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {name for name, _ in entries} == set(NAMES[page])
    assert all(re.search(r"[a-z]{4}", said) for _, said in entries)


def test_each_error_is_on_its_page_with_its_remedy(generate: ModuleType, tmp_path: Path) -> None:
    generate.write_pages(tmp_path)
    text = (tmp_path / "errors.md").read_text(encoding="utf-8")
    public = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, DeltaError)]
    assert [kind.__name__ for kind in public if f"`tahoe.errors.{kind.__name__}`" not in text] == []
    assert [name for name in re.findall(r"\(#(error-\w+)\)", text) if f"({name})=" not in text] == []
    assert all(kind.todo for kind in public)


def texts(path: Path) -> Iterator[str]:
    """The string literals of a module that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from (
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in said
    )


def test_settings_are_named_in_their_table_alone() -> None:
    """A setting that is read under a name of its own would be missing on the page."""
    begins = ("spark.databricks.delta.", "spark.tahoe.")
    others = [path for path in SPARK.rglob("*.py") if path != TABLE_OF_SETTINGS]
    assert [(path.name, text) for path in others for text in texts(path) if text.startswith(begins)] == []


def test_each_setting_is_read() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SPARK.rglob("*.py") if path != TABLE_OF_SETTINGS)
    by_protocol = {
        f"spark.databricks.delta.streaming.{name}" for name in (*ACKNOWLEDGING, "allowSourceColumnRenameAndDrop")
    }
    constants = {name: known for name, known in vars(setting_names).items() if isinstance(known, Setting)}
    unread = {known.name for name, known in constants.items() if f"setting_names.{name}" not in code}
    assert unread == by_protocol


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_is_read_by_one_rule(setting: Setting[Any]) -> None:
    """The page would show another default than the one that applies, or a mistake in a value would count as the
    default.
    """
    assert setting.of({}) == setting.unset
    assert (
        " " in setting.default
        or setting.default == ""
        or setting.of({setting.name: f" {setting.default} "}) == setting.unset
    )
    if setting.kind.takes != "a text":
        with pytest.raises(
            InvalidOptionError, match=f"{re.escape(setting.name)} cannot be no such value for t: it must be"
        ):
            setting.of({setting.name: "no such value"}, table="t")


def test_defaults_of_settings_are_those_of_the_code() -> None:
    """A write without a session would do something else than one whose session sets nothing."""
    assert auto_compaction({}, table="t") == replace(AutoCompaction(), min_file_bytes=AutoCompaction().small_bytes)
    assert setting_names.CUBE_CLOSED.unset == CLOSED_BYTES


@pytest.mark.parametrize("parser", [write_options, stream_options], ids=["writers", "streams"])
def test_each_option_that_is_parsed_is_in_the_table(parser: ModuleType) -> None:
    code = inspect.getsource(parser)
    asked = set(re.findall(r"""(?:given|by_name|self)\.(?:text|flag|value|names)\(\s*"(\w+)\"""", code))
    assert len(asked) > 5
    assert asked <= {option.name for option in OPTIONS}
