"""An error of tahoe in a notebook shows the user's own cell; all other errors look as they always do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")

class Foreign(Exception): pass
class Spark(Exception):
    def __init__(self, condition, text=""):
        super().__init__(text)
        self.getCondition = lambda: condition

def run(title, cell):
    print("=====", title)
    done = shell.run_cell(cell)
    print("failed:", type(done.error_in_exec).__name__)

shell.set_custom_exc((Foreign,), lambda self, kind, error, frames, tb_offset=None: print("shown by its owner"))

from py4j.protocol import Py4JJavaError

class Forgotten(Py4JJavaError):
    def __init__(self, text="[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure"):
        self.java_exception = text
    def __str__(self):
        return "An error of Java"

Forgotten.__name__ = "Py4JJavaError"
shell.push({"Foreign": Foreign, "Spark": Spark, "Forgotten": Forgotten})
run("import", "import tahoe, tahoe._notebook_errors as own")
"""

CELLS = """
known = shell.CustomTB
run("again", "own.shorten_errors()")
print("same handler:", shell.CustomTB is known)
run("spark", "own.shorten_errors(Spark)")
run("ours", "def look():\\n    return tahoe.Table('/no/such/table').snapshot()\\nlook()")
print("restored:", sys.last_value.__suppress_context__, sys.last_value.__cause__)
run("all of it", "%tb")
run("cause", "try:\\n    1 / 0\\nexcept ZeroDivisionError as error:\\n    raise tahoe.errors.TableNotFoundError(table='t') from error")
run("condition", "raise Spark('DELTA_X', 'a\\\\n\\\\nJVM stacktrace:')")
run("other condition", "raise Spark('DIVIDE_BY_ZERO')")
run("not enabled", "raise Forgotten()")
run("other of Java", "raise Forgotten('other')")
run("foreign", "raise Foreign")
run("python", "1 / 0")
"""


def shown(code: str, **environment: str) -> dict[str, str]:
    """What IPython prints for each cell, by its title."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Custom TB Handler failed" not in done.stderr
    return dict(part.split("\n", 1) for part in done.stdout.split("===== ") if "\n" in part)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return shown(BEGIN + CELLS, IPYTHONDIR=str(tmp_path_factory.mktemp("ipython")))


def test_an_error_of_ours_shows_the_users_frames(cells: dict[str, str]) -> None:
    text = cells["ours"]
    assert "[DELTA_TABLE_NOT_FOUND] file:///no/such/table is not a Delta table" in text
    assert "TableNotFoundError" in text
    assert "look()" in text
    assert "tahoe/table/" not in text.replace("such/table", "")
    assert "%tb shows them" in text
    assert "failed: TableNotFoundError" in text
    assert len(text.splitlines()) < 25


def test_a_forgotten_enable_is_told(cells: dict[str, str]) -> None:
    assert "Call tahoe.enable(spark) once" in cells["not enabled"]
    assert "An error of Java" in cells["other of Java"]
    assert "tahoe.enable" not in cells["other of Java"]


def test_tb_shows_everything(cells: dict[str, str]) -> None:
    assert "restored: False None" in cells["ours"]
    assert "delta_log.py" in cells["all of it"]


def test_a_cause_is_one_line(cells: dict[str, str]) -> None:
    assert "Caused by ZeroDivisionError: division by zero" in cells["cause"]
    assert "direct cause" not in cells["cause"]


def test_an_error_of_spark_is_ours_by_its_condition(cells: dict[str, str]) -> None:
    assert "%tb shows them" in cells["condition"]
    assert "Spark: a\n" in cells["condition"]
    assert "%tb" not in cells["other condition"]
    assert "failed: Spark" in cells["other condition"]


def test_errors_of_others_look_as_before(cells: dict[str, str]) -> None:
    assert cells["foreign"].startswith("shown by its owner")
    assert "----> 1 1 / 0" in cells["python"]
    assert "%tb" not in cells["python"]
    assert "same handler: True" in cells["again"]


def test_the_switch_leaves_ipython_as_it_is(tmp_path: Path) -> None:
    code = BEGIN + "print('classes:', shell.custom_exceptions == (Foreign,))"
    assert "classes: True" in shown(code, IPYTHONDIR=str(tmp_path), TAHOE_FULL_TRACEBACKS="1")["import"]
