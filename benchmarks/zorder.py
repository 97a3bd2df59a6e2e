"""ZORDER BY: how long it takes and how much memory, compared with the reference and delta-rs; and which files queries
skip afterwards.

Each round orders a fresh copy of lineitem by two columns, in files of 32 MB. The data of the last question is that of
Figure 5 of the paper (Armbrust et al., VLDB 2020).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from benchmarks.beside_reference import PEER, Side, both
from benchmarks.layouts import GOALS, PAPER, SEEDS, uniform
from benchmarks.measure import CACHE, FOLDER, ROUNDS, SCALE_FACTOR, Comparison, lineitem, report

COLUMNS = ("l_shipdate", "l_partkey")
FILE_BYTES = 32 << 20
SIZE = "spark.databricks.delta.optimize.maxFileSize"

FIGURE_FILES = 100
QUERIES = 50


def base_table() -> Path:
    """lineitem as a Delta table of eight files; written once."""
    path = FOLDER / f"zorder-lineitem-{SCALE_FACTOR}"
    if not (path / "_delta_log").exists():
        table = tahoe.Table(str(path))
        for file in sorted(Path(lineitem()).glob("*.parquet")):
            table.append(pq.read_table(file))
    return path


def copied(base: Path, side: str) -> str:
    path = FOLDER / f"zorder-{side}"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(base, path)
    return str(path)


# --- in Spark, beside the reference


def beside_the_reference(base: Path) -> list[Comparison]:
    times: dict[str, list[float]] = {"tahoe": [], "reference": []}
    peaks: dict[str, list[float]] = {"tahoe": [], "reference": []}
    with both() as sides:
        named = dict(zip(("tahoe", "reference"), sides, strict=True))
        for number in range(ROUNDS + 1):
            for name, side in list(named.items())[:: 1 if number % 2 else -1]:
                seconds = ordered_by(side, copied(base, name))
                if number > 0:
                    times[name].append(seconds)
        for name, side in named.items():
            side.ask("[[peak_megabytes_of_all()]]")
            peaks[name].append(float(side.rows[0][0]))
    question = f"ZORDER BY two columns of lineitem, SF {SCALE_FACTOR}"
    return [
        Comparison(question=question, peer=PEER, ours=times["tahoe"], theirs=times["reference"], goal=0.5),
        Comparison(
            question=f"{question}: peak memory",
            peer=PEER,
            ours=peaks["tahoe"],
            theirs=peaks["reference"],
            unit="MB",
            goal=1.0,
        ),
    ]


def ordered_by(side: Side, path: str) -> float:
    side.ask(f"spark.conf.set('{SIZE}', '{FILE_BYTES}')")
    return side.ask(f"spark.sql('OPTIMIZE delta.`' + path + '` ZORDER BY ({', '.join(COLUMNS)})').collect()", path=path)


# --- without Spark, beside delta-rs


def beside_delta_rs(base: Path) -> list[Comparison]:
    found: dict[str, list[tuple[float, float]]] = {"tahoe": [], "delta-rs": []}
    for number in range(ROUNDS + 1):
        for name in list(found)[:: 1 if number % 2 else -1]:
            command = [
                sys.executable,
                "-m",
                "benchmarks.zorder_once",
                name,
                copied(base, name),
                ",".join(COLUMNS),
                str(FILE_BYTES),
            ]
            done = subprocess.run(command, cwd=CACHE.parent, check=True, capture_output=True, text=True)
            seconds, peak = map(float, done.stdout.split())
            if number > 0:
                found[name].append((seconds, peak))
    question = f"order lineitem by two columns without Spark, SF {SCALE_FACTOR}"
    (ours, our_peaks), (theirs, their_peaks) = (zip(*rounds, strict=True) for rounds in found.values())
    return [
        Comparison(question=question, peer="delta-rs", ours=ours, theirs=theirs, goal=1.2),
        Comparison(
            question=f"{question}: peak memory",
            peer="delta-rs",
            ours=our_peaks,
            theirs=their_peaks,
            unit="MB",
            goal=1.0,
        ),
    ]


# --- Figure 5


def figure_5() -> list[Comparison]:
    """The share of files that an equality on one of four uniform columns reads, through the command itself."""
    shares = np.array([files_read(seed) for seed in range(SEEDS)])
    found = []
    parts: dict[str, Sequence[float]] = {
        "average": shares.mean(axis=1).tolist(),
        "worst column": [float(shares.mean(axis=0).max())],
    }
    for (part, percent), paper, goal in zip(parts.items(), PAPER, GOALS, strict=True):
        limit = round((100 - goal) / (100 - paper), 2)
        question = f"Figure 5 through ZORDER BY, files read: {part}"
        found.append(
            Comparison(question=question, peer="the paper", ours=percent, theirs=[100 - paper], unit="%", goal=limit)
        )
    return found


def files_read(seed: int) -> npt.NDArray[np.float64]:
    """For each column the percentage of files that a query for the value of a random row reads."""
    path = FOLDER / "zorder-figure-5"
    shutil.rmtree(path, ignore_errors=True)
    random = np.random.default_rng(seed)
    table, rows = tahoe.Table(str(path)), pa.table(uniform(random))
    table.append(rows)
    table.optimize(z_order_by=rows.column_names, max_file_bytes=table.snapshot().scan().size_bytes // FIGURE_FILES)
    snapshot, asked = table.snapshot(), random.integers(0, rows.num_rows, QUERIES).tolist()
    read = [[snapshot.scan(f"{name} = {rows[name][row]}").kept_files for row in asked] for name in rows.column_names]
    found: npt.NDArray[np.float64] = 100 * np.mean(read, axis=1) / len(snapshot.live)
    return found


def main() -> None:
    base = base_table()
    report(*figure_5(), *beside_delta_rs(base), *beside_the_reference(base))


if __name__ == "__main__":
    main()
