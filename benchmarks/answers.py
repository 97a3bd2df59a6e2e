"""How fast are COUNT, MIN and MAX that the log answers? On 1,000,000 files, and between two days on 1,000 files of a
day each.

The files of the first table are not there: no side reads one. Each side has a Spark session of the same version, in its
own process.
"""

from __future__ import annotations

import os
import shutil
import statistics

from benchmarks.beside_reference import ENVIRONMENTS, FILES, READ, Side, both, checkpointed_table, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

DAYS = int(os.environ.get("DAYS", "1000"))
ROWS_PER_DAY = int(os.environ.get("ROWS_PER_DAY", "8640"))

OF_ALL = f"{READ}.selectExpr('count(*)', 'min(l_orderkey)', 'max(l_orderkey)').collect()"

# Rows in the order of their times, and one file for each day.
MADE = (
    "spark.range(0, {rows}, 1, {days}).selectExpr('id', 'timestamp_seconds({start} + id * {step}) as at', 'hash(id) "
    "as v').write.format('delta').save(path)"
)
BETWEEN = (
    f"{READ}.where('at >= timestamp_seconds({{least}}) and at < "
    "timestamp_seconds({end})').groupBy().count().collect()"
)

# The same, with answers from the log on or off.
SWITCHED = "[spark.conf.set('spark.databricks.delta.optimizeMetadataQuery.enabled', answers), {query}][1]"

DAY_S = 86_400
START_S = 20_000 * DAY_S


def run() -> list[Comparison]:
    return [*_of_all_files(), *_between_days()]


def _of_all_files() -> list[Comparison]:
    path = str(checkpointed_table(FILES))
    first: list[list[float]] = [[], []]
    later: list[list[float]] = [[], []]
    answers = []
    for _ in range(min(ROUNDS, 3)):
        for position, name in enumerate(ENVIRONMENTS):
            side = Side(name)
            side.ask("spark.range(10).where('id > 3').collect()")
            first[position].append(side.ask(OF_ALL, path=path))
            answers.append(side.rows)
            side.ask(OF_ALL, path=path)
            later[position].append(statistics.median(side.ask(OF_ALL, path=path) for _ in range(5)))
            side.stop()
    assert all(answer == answers[0] for answer in answers), "both sides must answer alike"
    what = (
        f"COUNT(*), MIN and MAX of a long on {FILES:,} files that are not there: the first query in a process opens "
        f"the table"
    )
    return [
        compared(f"count, min, max on {FILES:,} files, first", first, 0.3, what=what),
        compared(f"count, min, max on {FILES:,} files, later", later, 0.3, what=what),
    ]


def _between_days() -> list[Comparison]:
    """From noon of the first day to noon of the last: the files of both days must be read."""
    folder = FOLDER / "answers"
    shutil.rmtree(folder, ignore_errors=True)
    path = str(folder / "days")
    query = BETWEEN.format(least=START_S + DAY_S // 2, end=START_S + (DAYS - 1) * DAY_S + DAY_S // 2)
    wanted = [[str((DAYS - 1) * ROWS_PER_DAY)]]
    with both() as sides:
        made = MADE.format(rows=DAYS * ROWS_PER_DAY, days=DAYS, start=START_S, step=DAY_S // ROWS_PER_DAY)
        sides[0].ask(made, path=path)

        def count(side: Side, *, answers: bool = True) -> float:
            seconds = side.ask(SWITCHED.format(query=query), path=path, answers=str(answers).lower())
            assert side.rows == wanted, f"{side.name} counts {side.rows}"
            return seconds

        beside_reference = turns(sides, count)
        pairs = [(count(sides[0]), count(sides[0], answers=False)) for _ in range(ROUNDS + 1)][1:]
    shutil.rmtree(folder, ignore_errors=True)
    what = f"COUNT(*) between two noons, {DAYS:,} files with {ROWS_PER_DAY:,} rows of a day each"
    return [
        compared("count between two days", list(zip(*pairs, strict=True)), 0.1, "the same with answers off", what=what),
        compared("count between two days", beside_reference, 0.2, what=what),
    ]


if __name__ == "__main__":
    report(*run())
