"""How fast is LIMIT? Any 10 rows of a table of 10,000 files, and the newest 100 rows of one with 1,000 files in the
order of their times.

Beside the reference, each side has a Spark session of the same version, in its own process. Parquet is read by the
session of tahoe's side.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.beside_reference import READ, Side, both, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, Comparison, link_data_files, report

MANY_FILES = int(os.environ.get("LIMITED_FILES", "10000"))
DAYS = int(os.environ.get("DAYS", "1000"))
ROWS_PER_FILE = 1000

MADE = (
    "spark.range(0, {rows}, 1, {files}).selectExpr('id', 'timestamp_seconds(1700000000 + id * 10) as at', 'hash(id) "
    "as v', 'uuid() as name').write.format('delta').save(path)"
)
PARQUET = "spark.read.parquet(path + '-files')"
ANY = ".limit(10).collect()"
NEWEST = ".orderBy(F.desc('at')).limit(100).select('id', 'at', 'v').collect()"

AS_PARQUET = "Spark, the same files as Parquet"


def run() -> list[Comparison]:
    folder = FOLDER / "limits"
    shutil.rmtree(folder, ignore_errors=True)
    with both() as sides:
        found = _compared(
            sides, str(folder / "many"), MANY_FILES, f"LIMIT 10 on {MANY_FILES:,} files", ANY, goals=(0.3, 0.1)
        )
        found += _compared(
            sides, str(folder / "days"), DAYS, f"newest 100 rows of {DAYS:,} files", NEWEST, goals=(0.3, 0.1)
        )
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _compared(
    sides: tuple[Side, Side], path: str, files: int, question: str, asked: str, *, goals: tuple[float, float]
) -> list[Comparison]:
    """The question beside Parquet and beside the reference."""
    sides[0].ask(MADE.format(rows=files * ROWS_PER_FILE, files=files), path=path)
    link_data_files(Path(path), Path(f"{path}-files"))
    answers = []

    def ask(side: Side, read: str = READ) -> float:
        seconds = side.ask(read + asked, path=path)
        answers.append(side.rows)
        return seconds

    beside_reference = turns(sides, ask)
    pairs = [(ask(sides[0]), ask(sides[0], PARQUET)) for _ in range(ROUNDS + 1)][1:]
    if asked == NEWEST:
        assert all(answer == answers[0] for answer in answers), "all must answer alike"
    assert {len(answer or ()) for answer in answers} == {len(answers[0] or ())}, "all must find as many rows"
    what = f"{files:,} files with {ROWS_PER_FILE:,} rows each, in the order of their times"
    return [
        compared(question, list(zip(*pairs, strict=True)), goals[0], AS_PARQUET, what),
        compared(question, beside_reference, goals[1], what=what),
    ]


if __name__ == "__main__":
    report(*run())
