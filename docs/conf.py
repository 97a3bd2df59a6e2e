"""The site that `make docs` builds: Sphinx with MyST over the pages of this folder. It loads nothing from outside."""

from __future__ import annotations

import builtins
import json
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

import pyspark.errors.exceptions.captured  # noqa: E402
from generate import write_pages  # noqa: E402  the module beside this file
from sphinx.errors import ExtensionError  # noqa: E402
from sphinx.util.nodes import make_refnode  # noqa: E402

from tahoe import __version__, errors  # noqa: E402
from tahoe_race.page import page as race_page  # noqa: E402

project, author, release = "tahoe", "the tahoe project", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["build"]
# A reference without a target is an error, but for types outside of this site and what a `Scan` keeps for itself.
nitpicky = True
nitpick_ignore = [
    ("py:class", "pyarrow.lib.Array"),
    ("py:class", "tahoe.table.reading.scan.PrunedFiles"),
    ("py:class", "collections.abc.Mapping"),
]
default_role = "literal"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
# A diagram in a block without a language is no code.
highlight_language = "none"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = f"tahoe {release}"
html_static_path = ["static"]
html_css_files = ["tahoe.css"]
html_extra_path = ["race"]
html_show_sphinx = html_show_copyright = html_copy_source = html_show_sourcelink = False
# Pages that are alone in their part have no navigation of the part.
html_sidebars = {"tutorial": [], "explanation": [], "how-fast": [], "search": [], "genindex": []}
html_theme_options = {
    "logo": {"text": "tahoe"},
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": [],
    # A list of all errors beside the list of all errors helps nobody, and a wide table needs the room.
    "secondary_sidebar_items": {"**": ["page-toc"], "generated/errors": [], "generated/features": []},
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([^)]*)\)")
_OTHERS = "% other pages"
_PLACED = {
    "index",
    "tutorial",
    "what-works",
    "support",
    "explanation",
    "how-fast",
    "contributing",
    "inspect",
    "report",
    "migrating",
    "consistency",
} | {
    "ARCHITECTURE",
    "STYLE",
    "TESTING",
    "PROFILE",
}


# What people search for, by the page that answers, where the page uses other words.
_ALSO_CALLED = {
    "howto/erase": ("GDPR", "CCPA", "right to be forgotten", "personal data", "PII"),
    "howto/retention": ("time to live", "TTL", "expire", "GDPR"),
    "howto/several-writers": ("concurrent", "ConcurrentAppendException", "lock", "race condition", "parallel jobs"),
    "howto/undo-a-mistake": ("rollback", "accidental delete", "recover", "backup"),
    "howto/sizing": ("file size", "how many partitions", "partition or cluster", "number of files"),
    "how-fast": ("benchmark", "how fast", "TPC-H", "comparison"),
    "howto/small-files": ("compaction", "too many files", "auto optimize", "bin packing"),
    "howto/slow-queries": ("performance", "tuning", "data skipping", "slow"),
    "howto/upsert": ("deduplicate", "insert or update"),
    "howto/slowly-changing-dimension": ("SCD", "SCD2", "history table", "late data"),
    "howto/audit": ("who changed", "lineage"),
    "howto/equal-tables": ("compare", "regression test"),
    "howto/other-programs": ("Trino", "Athena", "Snowflake", "BigQuery", "Polars", "compatibility"),
    "howto/iceberg": ("UniForm", "Snowflake", "BigQuery", "Athena"),
    "howto/catalog": ("Unity Catalog", "permissions", "multi-table transaction", "grant"),
    "reference/writing": ("schema mismatch", "schema enforcement", "mergeSchema", "schema evolution"),
    "reference/reading": ("time travel", "as of", "snapshot"),
    "reference/layout": ("liquid clustering", "partition or cluster", "z-order"),
    "reference/tags": ("branch", "bookmark", "savepoint"),
    "consistency": ("ACID", "isolation", "concurrent", "serializable"),
    "migrating": ("upgrade", "delta-spark 3", "delta-spark 4"),
}


def _prepared(app: Any, page: str, source: list[str]) -> None:
    """Links to files outside of this folder become their names, pages that no list names join the how-tos, and a page
    is found by what it is also called.
    """
    text = _OUTSIDE.sub(lambda link: link[0] if _is_page(page, link[0]) else f"{link[1]} (`{link[2]}`)", source[0])
    others = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in _PLACED)
    text = text.replace(_OTHERS, "\n".join(f"../{name}" for name in others))
    names = "".join(f"```{{index}} {name}\n```\n" for name in _ALSO_CALLED.get(page, ()))
    source[0] = re.sub(r"\A(# .*\n)", rf"\1\n{names}", text) if names else text


def _is_page(page: str, link: str) -> bool:
    """Whether a link leads to a page of the site."""
    target = link.rpartition("(")[2].rstrip(")").partition("#")[0]
    place = (DOCS / page).parent.joinpath(target).resolve()
    return place.is_relative_to(DOCS) and place.is_file()


def _as_restructured_text(app: Any, what: str, name: str, about: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write code that has backticks as Markdown does, with a space inside the double ones."""
    lines[:] = [re.sub(r"``(\S[^`]*`[^`]*`) ``", r"``\1``", line) for line in lines]


_ELSEWHERE = r"""["'(]?(?:https?:)?//"""
_LOADED = re.compile(
    rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={_ELSEWHERE}|<link\b[^>]*\bhref={_ELSEWHERE}|@import\s+(?:url)?{_ELSEWHERE}|\burl{_ELSEWHERE}"
)


def _write_race(app: Any, error: Exception | None) -> None:
    """The page of the race, from its numbers."""
    if error is None:
        race = json.loads((DOCS / "race" / "race.json").read_text(encoding="utf-8"))
        Path(app.outdir, "race.html").write_text(race_page(race), encoding="utf-8")


def _loads_nothing(app: Any, error: Exception | None) -> None:
    """Fail if a page would load something from outside."""
    for file in () if error else [file for kind in ("html", "css") for file in Path(app.outdir).rglob(f"*.{kind}")]:
        if found := _LOADED.search(file.read_text(encoding="utf-8")):
            raise ExtensionError(f"{file} loads something from outside: {found[0]}")


def _to_an_error(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """What a docstring says under Raises: our errors are links to their page; those of Python and PySpark are text."""
    name = node.get("reftarget", "")
    if node.get("reftype") != "exc":
        return None
    if isinstance(getattr(errors, name, None), type):
        return make_refnode(app.builder, node["refdoc"], "generated/errors", f"error-{name}".lower(), shown, name)
    is_elsewhere = any(hasattr(place, name) for place in (builtins, pyspark.errors, pyspark.errors.exceptions.captured))
    return shown if is_elsewhere or " " in name else None


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: write_pages(DOCS / "generated"))
    app.connect("env-get-outdated", lambda app, env, added, changed, removed: ["howto/index"])  # a page may be new
    app.connect("source-read", _prepared)
    app.connect("autodoc-process-docstring", _as_restructured_text)
    app.connect("missing-reference", _to_an_error)
    app.connect("build-finished", _write_race)
    app.connect("build-finished", _loads_nothing)
