"""How fast is tahoe compared with the reference implementation?

Each side has a Spark session of the same version, in its own process. The sides take turns.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.logs import write_checkpointed_table
from benchmarks.measure import CACHE, FOLDER, ROUNDS, SCALE_FACTOR, Comparison, lineitem, report

ROOT = CACHE.parent
JARS = CACHE / "reference-jars"
ENVIRONMENTS = {"tahoe": ROOT / ".venv-4.2", "reference": ROOT / ".venv-reference"}
OF_COMET = ROOT / ".venv-4.1"
PEER = "the reference, same Spark"
APPENDS = 50
FILES = int(os.environ.get("FILES", "1000000"))

READ = "spark.read.format('delta').load(path)"
SUMS = f"{READ}.selectExpr('sum(l_quantity)', 'sum(l_extendedprice)', 'sum(l_discount)').collect()"


class Side:
    """A worker process.

    Args:
        name: of the session that it has, see `worker.session`.
        driver_memory: of its session, in Spark's notation.
        jars: folders of the reference's JARs, and Comet's JAR.
    """

    def __init__(self, name: str, driver_memory: str = "4g", jars: Sequence[Path] = (JARS,)) -> None:
        self.name = name
        home = ENVIRONMENTS.get(name, OF_COMET)
        places = [ROOT] if name == "reference" else [ROOT / "src", ROOT]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": str(home / "bin" / "python"),
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "DRIVER_MEMORY": driver_memory,
        }
        command = [str(home / "bin" / "python"), "-m", "benchmarks.worker", name, str(FOLDER), ",".join(map(str, jars))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        self._answer()

    def ask(self, code: str, **names: str) -> float:
        """Time an expression, in seconds; `rows` keeps its result."""
        assert self._process.stdin is not None
        print(json.dumps({"code": code, "names": names}), file=self._process.stdin, flush=True)
        answer = self._answer()
        self.rows = answer["rows"]
        return float(answer["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} has ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        self._process.communicate()


@contextmanager
def both() -> Iterator[tuple[Side, Side]]:
    sides = [Side(name) for name in ENVIRONMENTS]
    try:
        yield sides[0], sides[1]
    finally:
        for side in sides:
            side.stop()


def turns(
    sides: tuple[Side, Side], ask: Callable[[Side], float], rounds: int = ROUNDS, warm_up: int = 1
) -> list[list[float]]:
    """The time of each side. The sides take turns, also in who goes first in a round."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(rounds + warm_up):
        for side in sides if number % 2 else sides[::-1]:
            seconds = ask(side)
            if number >= warm_up:
                times[side.name].append(seconds)
    return list(times.values())


def compared(
    question: str, times: Sequence[Sequence[float]], goal: float | None, peer: str = PEER, what: str = ""
) -> Comparison:
    return Comparison(question=question, peer=peer, ours=times[0], theirs=times[1], goal=goal, what=what)


def run() -> list[Comparison]:
    folder = FOLDER / "beside-reference"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with both() as sides:
        found = [*_scans(sides, folder), *_loads(sides, folder), *_small(sides, folder), *_vectors(sides, folder)]
    found += _a_million_files()
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _scans(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    path = str(folder / "scan")
    sides[0].ask("spark.read.parquet(source).write.format('delta').save(path)", source=lineitem(), path=path)
    every = f"{READ}.selectExpr(*['max(' + c + ')' for c in {READ}.columns]).collect()"
    for code in (SUMS, every):
        answers = []
        for side in sides:
            side.ask(code, path=path)
            answers.append(side.rows)
        assert answers[0] == answers[1], "both sides must answer alike"
    return [
        compared("sum 3 columns of lineitem", turns(sides, lambda side: side.ask(SUMS, path=path)), 0.8),
        compared("max of all 16 columns of lineitem", turns(sides, lambda side: side.ask(every, path=path)), 0.8),
    ]


def _loads(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    def load(side: Side, by: str) -> float:
        path = folder / f"load-{side.name}"
        shutil.rmtree(path, ignore_errors=True)
        code = f"spark.read.parquet(source).write.format('delta'){by}.save(path)"
        return side.ask(code, source=lineitem(), path=str(path))

    plain = turns(sides, lambda side: load(side, ""))
    parted = turns(sides, lambda side: load(side, ".partitionBy('l_shipmode')"))
    return [compared("load lineitem", plain, 0.8), compared("load lineitem, partitioned by l_shipmode", parted, 0.8)]


def _small(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    """One-row appends to a table of each side's own, then a count on that table."""

    def append(side: Side) -> float:
        path = str(folder / f"small-{side.name}")
        return side.ask("spark.range(1).write.format('delta').mode('append').save(path)", path=path)

    def count(side: Side) -> float:
        return side.ask(f"{READ}.where('id >= 0').count()", path=str(folder / f"small-{side.name}"))

    appends = turns(sides, append, APPENDS, warm_up=3)
    worst = [[max(times)] for times in appends]
    counts = turns(sides, count, 10, warm_up=2)
    return [
        compared(f"append one row, median of {APPENDS}", appends, 0.8),
        compared(f"append one row, worst of {APPENDS}", worst, 0.3),
        compared("count with a filter on that small table", counts, 0.6),
    ]


def _vectors(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    """Reads of a table with deletion vectors by the reference: compared with the same table without vectors, and with
    the reference.
    """
    whole = str(folder / "scan")
    found = []
    for share, condition in (("0.01 %", "l_orderkey % 10000 = 7"), ("10 %", "l_orderkey % 10 = 7")):
        path = str(folder / f"deleted-{share.split()[0]}")
        reference = sides[1]
        reference.ask(
            "spark.read.parquet(source).write.format('delta').option('delta.enableDeletionVectors', 'true').save(path)",
            source=lineitem(),
            path=path,
        )
        reference.ask(
            "spark.sql(f'DELETE FROM delta.`{path}` WHERE {condition}').collect()", path=path, condition=condition
        )
        answers = []
        for side in sides:
            side.ask(SUMS, path=path)
            answers.append(side.rows)
        assert answers[0] == answers[1], "both sides must answer alike"
        marked, plain = [], []
        for number in range(ROUNDS + 1):
            pair = sides[0].ask(SUMS, path=path), sides[0].ask(SUMS, path=whole)
            if number:
                marked.append(pair[0])
                plain.append(pair[1])
        what = f"sum 3 columns, {share} of the rows deleted by vectors"
        found.append(compared(what, [marked, plain], 1.3, "the same table without vectors"))
        found.append(compared(what, turns(sides, lambda side, p=path: side.ask(SUMS, path=p)), 1.0))
    return found


def checkpointed_table(files: int) -> Path:
    """A log that names so many files, which do not exist; made once."""
    table = FOLDER / f"files-{files}"
    if not (table / "done").exists():
        shutil.rmtree(table, ignore_errors=True)
        write_checkpointed_table(table, files)
        (table / "done").touch()
    return table


def _a_million_files() -> list[Comparison]:
    table = checkpointed_table(FILES)
    point = f"{READ}.where('l_orderkey = -1').collect()"  # no file has it, and none is there
    first: list[list[float]] = [[], []]
    later: list[list[float]] = [[], []]
    for _ in range(min(ROUNDS, 3)):
        for position, name in enumerate(ENVIRONMENTS):
            side = Side(name)
            side.ask("spark.range(10).where('id > 3').collect()")
            first[position].append(side.ask(point, path=str(table)))
            side.ask(point, path=str(table))
            later[position].append(statistics.median(side.ask(point, path=str(table)) for _ in range(5)))
            side.stop()
    what = (
        f"Queries on {FILES:,} files: the first one in a process opens the table; the files are not there, and no "
        f"query reads one"
    )
    return [
        compared(f"first point query on {FILES:,} files", first, 0.1, what=what),
        compared(f"later point queries on {FILES:,} files", later, 0.2, what=what),
        compared(f"later point queries on {FILES:,} files, in seconds", [later[0], [1.0]], 0.3, "one second"),
        compared("plan a query of 100,000 files, in seconds", [_plan_many(), [1.0]], 3.0, "one second"),
    ]


def _plan_many() -> list[float]:
    table = checkpointed_table(100_000)
    side = Side("tahoe")
    code = f"{READ}.where('l_orderkey >= 0')._jdf.queryExecution().executedPlan().execute().getNumPartitions()"
    times = [side.ask(code, path=str(table)) for _ in range(ROUNDS + 1)]
    side.stop()
    return times[1:]


if __name__ == "__main__":
    print(f"lineitem at scale factor {SCALE_FACTOR}")
    report(*run())
