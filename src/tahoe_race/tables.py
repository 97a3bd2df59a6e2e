"""The tables that are raced on: generated once, written once as Delta, and copied where a statement changes one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from tahoe_race.engines import SIDES


def generated(benchmark: str, scale: str, folder: Path, python: str) -> Path:
    """The folder with `parquet/TABLE` and `queries.json` of a benchmark."""
    home = folder / f"{benchmark}-{scale}"
    if not (home / "queries.json").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        subprocess.run([python, str(SIDES / "data_side.py"), benchmark, scale, str(home)], check=True)
    return home


def queries(home: Path) -> dict[str, str]:
    """The queries of a benchmark by their numbers."""
    found: dict[str, str] = json.loads((home / "queries.json").read_text(encoding="utf-8"))
    return found


def copy_of(table: Path, into: Path) -> str:
    """A copy of a table: data files are links, since nobody changes them, and the log is a true copy."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(table, into, copy_function=os.link, ignore=shutil.ignore_patterns("_delta_log"))
    if (table / "_delta_log").exists():
        shutil.copytree(table / "_delta_log", into / "_delta_log")
    return str(into)


def without_log(table: Path, into: Path) -> str:
    """The same data files as a folder of Parquet."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(table, into, copy_function=os.link, ignore=shutil.ignore_patterns("_delta_log"))
    return str(into)
