"""The code of the site's pages does what they say: each block runs, in the order of its page, and prints the output
that is shown below it.

A page starts from nothing but `spark`; `/data` is a folder of the test. `<!-- invisible-code-block: python ... -->` is
a check or a clean-up that a page does not show. `<!-- not run here: WHY -->` before a block says what runs it instead.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sybil import Document, Example, Region, Sybil
from sybil.parsers.myst import CodeBlockParser
from typer.testing import CliRunner

from tahoe.cli import app
from tahoe.spark.jvm import attached_catalogs
from tests.sample import settings_of_spark

DOCS = Path(__file__).resolve().parents[2] / "docs"
CODE = re.compile(r"^```(python|sql|sh)$", re.MULTILINE)
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if CODE.search(page.read_text(encoding="utf-8"))]

_NOT_RUN = re.compile(r"<!-- not run here: .+? -->\n+```(?:python|sql|sh)\n.*?\n```$", re.DOTALL | re.MULTILINE)


def run_python(example: Example) -> str | None:
    output = io.StringIO()
    code = "\n" * (example.line - 1) + placed(example)
    with contextlib.redirect_stdout(output):
        exec(compile(code, example.path, "exec"), example.namespace)
    example.namespace["printed"] = output.getvalue() or None
    return None


def run_sql(example: Example) -> str | None:
    for statement in re.split(r";\s*(?:--[^\n]*)?$", placed(example), flags=re.MULTILINE):
        if statement.strip():
            example.namespace["spark"].sql(statement).collect()
    return None


def run_shell(example: Example) -> str | None:
    """The commands, which are those of tahoe."""
    for line in placed(example).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "tahoe", line
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, f"{line}\n{done.output}"
    return None


def compare_output(example: Example) -> str | None:
    """Output is shown below the block that prints it; blocks of text elsewhere are no output."""
    printed = example.namespace.pop("printed", None)
    shown = [line.rstrip() for line in str(example.parsed).strip().splitlines()]
    found = [line.rstrip() for line in (printed or "").strip().splitlines()]
    return None if printed is None or shown == found else "\n".join(["the page shows another output than", *found])


def placed(example: Example) -> str:
    return re.sub(r"/data(?=/)", str(example.namespace["folder"]), str(example.parsed))


def blocks(language: str, evaluator: object) -> object:
    parse = CodeBlockParser(language, evaluator)

    def outside_of_those_not_run(document: Document) -> Iterator[Region]:
        left_out = [(match.start(), match.end()) for match in _NOT_RUN.finditer(document.text)]
        for region in parse(document):
            if not any(start <= region.start < end for start, end in left_out):
                yield region

    return outside_of_those_not_run


SYBIL = Sybil(
    parsers=[
        blocks("python", run_python),
        blocks("sql", run_sql),
        blocks("sh", run_shell),
        blocks("text", compare_output),
    ],
)


@pytest.mark.every_case
@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(DOCS).as_posix() for page in PAGES])
def test_a_page_does_what_it_says(
    spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = spark.newSession()
    for setting, value in session.conf.getAll.items():
        if value == attached_catalogs.CLASS:  # of an earlier test: new sessions have what others have attached
            session.conf.unset(setting)
    for setting, value in settings_of_spark(page.stem).items():
        session.conf.set(setting, value)
    document = SYBIL.parse(page)
    document.namespace.update({"spark": session, "folder": tmp_path, "__name__": "page"})
    for example in document.examples():
        example.evaluate()
