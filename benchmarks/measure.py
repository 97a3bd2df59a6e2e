"""How the benchmarks measure: both sides in one run, taking turns, after a warm-up. They report medians and their
ratio.

A machine varies from run to run, so only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

import tahoe

CACHE = Path(__file__).resolve().parents[1] / ".cache"
FOLDER = CACHE / "bench"
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SCALE_FACTOR = os.environ.get("SCALE_FACTOR", "1")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One question with the measurements of two sides.

    Attributes:
        ours, theirs: one number per round, in `unit`.
        goal: the largest acceptable ratio of the medians; None without a goal.
        what: what each side does, if it is not obvious.
    """

    question: str
    peer: str
    ours: Sequence[float]
    theirs: Sequence[float]
    unit: str = "s"
    goal: float | None = None
    what: str = ""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.theirs)


def link_data_files(table: Path, plain: Path) -> None:
    """Link a table's data files into a folder without a log, with the checksums that Spark verifies when it reads
    them.
    """
    for file in table.rglob("*.parquet*"):
        key = file.relative_to(table)
        if not key.parts[0].startswith("_"):
            (plain / key).parent.mkdir(parents=True, exist_ok=True)
            (plain / key).hardlink_to(file)


def compare(
    question: str,
    *,
    peer: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    before: Callable[[], object] = lambda: None,
    goal: float | None = None,
    what: str = "",
) -> Comparison:
    """Time two functions in turns, alternating which goes first. The first round is a warm-up and is discarded.

    Args:
        before: runs before each call, untimed.
    """
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(ROUNDS + 1):
        sides = [("ours", ours), ("theirs", theirs)]
        for name, side in sides if number % 2 else sides[::-1]:
            before()
            began = time.perf_counter()
            side()
            if number > 0:
                times[name].append(time.perf_counter() - began)
    return Comparison(question=question, peer=peer, ours=times["ours"], theirs=times["theirs"], goal=goal, what=what)


def report(*comparisons: Comparison) -> None:
    """Print a script's results; with `--out FILE`, also write them as JSON for run.py."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    if out is not None:
        out.write_text(json.dumps([asdict(comparison) for comparison in comparisons]))
    screen().print(grid(comparisons))


def screen() -> Console:
    """The console for tables. It is wide enough for them when there is no terminal to ask for the width."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=140)


def grid(comparisons: Sequence[Comparison]) -> Grid:
    found = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for name in HEADINGS:
        found.add_column(name)
    for comparison in comparisons:
        found.add_row(*cells(comparison))
    return found


HEADINGS = ("question", "tahoe", "compared with", "", "ratio", "goal")


def cells(comparison: Comparison) -> tuple[str, ...]:
    goal = (
        ""
        if comparison.goal is None
        else f"≤ {comparison.goal:g}" + ("" if comparison.ratio <= comparison.goal else ", missed")
    )
    return (
        comparison.question,
        _range(comparison.ours, comparison.unit),
        _range(comparison.theirs, comparison.unit),
        comparison.peer,
        f"{comparison.ratio:.2f}",
        goal,
    )


def _range(numbers: Sequence[float], unit: str) -> str:
    digits = 0 if unit == "MB" else 2
    return f"{statistics.median(numbers):.{digits}f} {unit} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"


# --- data and sessions


def start_spark() -> SparkSession:
    """The Spark session that both sides use."""
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("benchmark")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.warehouse.dir", str(FOLDER / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    tahoe.enable(spark)
    return spark


def tpch(*tables: str) -> Path:
    """The folder with the TPC-H tables, each a folder of Parquet files; generated once."""
    folder = CACHE / "tpch" / f"sf{SCALE_FACTOR}"
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        done = folder / f"{table}.done"
        if not done.exists():
            generator = Path(sys.executable).with_name("tpchgen-cli")
            arguments = [
                "parquet",
                "--scale-factor",
                SCALE_FACTOR,
                "--tables",
                table,
                "--parts",
                "8",
                "--output-dir",
                str(folder),
            ]
            subprocess.run([str(generator), *arguments, "--overwrite", "--quiet"], check=True)
            done.touch()
    return folder


def lineitem() -> str:
    """TPC-H's lineitem as Parquet files."""
    return str(tpch("lineitem") / "lineitem")
