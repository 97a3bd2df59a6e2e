"""What is asked about a table is shown as a table in a notebook; other Arrow tables look as they always do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import tahoe
from tahoe.table.reading.notebook import ShownRows, arrow_as_html

PROGRAM = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
formatter = shell.display_formatter.formatters["text/html"]
if "others" in sys.argv:
    formatter.for_type_by_name("pyarrow.lib", "Table", lambda table: "<p>theirs</p>")
import pyarrow as pa
import tahoe
import tahoe._notebook_tables
tahoe._notebook_tables.show_tables()
table = tahoe.Table(sys.argv[1])
print(formatter(table.inspect.files()))
print(formatter(table.history()))
print(formatter(pa.table({"a": [1]})))
"""


def shown(tmp_path: Path, *arguments: str) -> list[str]:
    place = str(tmp_path / "t")
    tahoe.Table(place).append(pa.table({"id": [1, 2], "<b>": ["x", "y"]}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, place, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_inspected_tables_and_the_history_are_shown(tmp_path: Path) -> None:
    files, history, plain = shown(tmp_path)
    assert files.startswith("<table><tr><th style='text-align:left'>path</th>")
    assert "deletion_vector" not in files  # it has no value
    assert "<td style='text-align:left'>WRITE</td>" in history
    assert history.count("<tr>") == 2
    assert plain == "None"


def test_what_another_library_shows_stays(tmp_path: Path) -> None:
    files, _, plain = shown(tmp_path, "others")
    assert files.startswith("<table>")
    assert plain == "<p>theirs</p>"


def test_a_long_answer_is_cut_and_says_so(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    for _ in range(3):
        table.append(pa.table({"<i>": [1]}))
    rows = table.history()
    rows *= 50
    text = rows._repr_html_()  # type: ignore[attr-defined]
    assert "… 50 more" in text
    assert "<i>" not in text


def test_what_is_made_of_an_answer_is_shown(tmp_path: Path) -> None:
    """Also with two columns of one name, without rows, and with a very long text."""
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(pa.table({"id": [1]}))
    files = table.inspect.files()
    assert arrow_as_html(files.append_column("path", pa.array(["another"]))).count("<th") == 1 + arrow_as_html(
        files
    ).count("<th")
    assert "<th style='text-align:left'>path</th>" in arrow_as_html(files.slice(0, 0))
    shown_html = ShownRows([{"userMetadata": "<" * 5_000_000}])._repr_html_()
    assert len(shown_html) < 10_000
    assert shown_html.endswith(" …</td></tr></table>")
