"""What do small statements cost? A DELETE that finds nothing, compared with the reference; others, compared with a
session without tahoe.

If a session has run a statement before another session of the same process is enabled, it stays as Spark made it. So
both sides run in one JVM and take turns.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import tahoe
from benchmarks.beside_reference import Side, both, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

STATEMENTS = 200
DELETES = 10
ROWS = 1000

NOTHING = {
    "that statistics rule out": "id = -1",
    "that every file must be asked for": "id % 1000 = 1000",
}


def run() -> list[Comparison]:
    folder = FOLDER / "statements"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with both() as sides:
        found = _deletes(sides, folder)
    found += _resolving(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _deletes(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    """Each side deletes from a table that it created itself."""
    rows = f"spark.range({ROWS}).selectExpr('id', 'string(id) AS v')"
    code = f"{rows}.write.format('delta').option('delta.enableDeletionVectors', 'true').save(path)"
    for side in sides:
        side.ask(code, path=str(folder / side.name))
    found = []
    for what, condition in NOTHING.items():
        for name, one in (
            ("DELETE FROM", "spark.sql('DELETE FROM delta.`' + path + '` WHERE ' + condition).collect()"),
            ("DeltaTable.delete", "DeltaTable.forPath(spark, path).delete(condition)"),
        ):
            code = f"[{one} for _ in range({DELETES})] and []"

            def ask(side: Side, code: str = code, condition: str = condition) -> float:
                return side.ask(code, path=str(folder / side.name), condition=condition) / DELETES

            found.append(compared(f"{name}: a row {what}", turns(sides, ask), 0.5))
    return found


def _resolving(folder: Path) -> list[Comparison]:
    """The time that Spark takes to resolve a statement."""
    builder = (
        SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    )
    plain = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    plain.sql("SELECT 1").collect()
    ours = tahoe.enable(plain.newSession())
    for name in ("a", "b"):
        ours.range(ROWS).selectExpr("id", "id % 7 AS k").write.format("delta").saveAsTable(f"delta_{name}")
        plain.range(ROWS).selectExpr("id", "id % 7 AS k").write.format("parquet").saveAsTable(f"plain_{name}")
    query = "SELECT a.id, sum(b.id) FROM {kind}_a a JOIN {kind}_b b ON a.id = b.k WHERE a.id > 3 GROUP BY a.id"
    other = "SELECT id + 1 AS x FROM range(10) WHERE id > 3 ORDER BY x"
    found = [
        _added(
            "what tahoe adds to a statement that is not its",
            lambda: _plan(ours, other),
            lambda: _plan(plain, other),
            limit_ms=1,
        ),
        _added(
            "what a SELECT over two Delta tables takes more than over two of Parquet",
            lambda: _plan(ours, query.format(kind="delta")),
            lambda: _plan(plain, query.format(kind="plain")),
            limit_ms=30,
        ),
    ]
    plain.stop()
    return found


def _plan(spark: SparkSession, text: str) -> None:
    spark.sql(text)._jdf.queryExecution().executedPlan()


def _added(question: str, ours: Callable[[], None], theirs: Callable[[], None], *, limit_ms: float) -> Comparison:
    """The difference of the medians in each round, compared with its goal."""
    added = []
    for number in range(ROUNDS + 1):
        times: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(STATEMENTS):
            is_ours = turn % 2 == 0
            began = time.perf_counter()
            (ours if is_ours else theirs)()
            times[is_ours].append(time.perf_counter() - began)
        if number:
            added.append(1000 * (statistics.median(times[True]) - statistics.median(times[False])))
    return Comparison(question=question, peer="the limit", ours=added, theirs=[limit_ms], unit="ms", goal=1.0)


if __name__ == "__main__":
    report(*run())
