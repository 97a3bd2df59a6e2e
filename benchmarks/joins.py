"""How fast is lineitem, joined with the orders of one clerk and day? Only files with one of their keys need to be read.

Both tables are clustered by their key, in files of a few megabytes. Each side has a Spark session of the same version,
in its own process.
"""

from __future__ import annotations

import os
import shutil

from benchmarks.beside_reference import READ, Side, both, compared, turns
from benchmarks.measure import FOLDER, ROUNDS, SCALE_FACTOR, Comparison, report, tpch

FILES_OF_LINEITEM = int(os.environ.get("JOINED_FILES", str(100 * max(1, round(float(SCALE_FACTOR))))))

MADE = (
    "spark.read.parquet(source).repartitionByRange({files}, "
    "'{key}').sortWithinPartitions('{key}').write.format('delta').save(path)"
)

# A clerk who has an order of that day.
CLERK = f"{READ}.where(\"o_orderdate = date'1995-03-15'\").selectExpr('min(o_clerk)').collect()"
JOINED = (
    "[spark.conf.set('spark.tahoe.pruneJoins', pruned), "
    "spark.read.format('delta').load(lines).join(spark.read.format('delta').load(orders).where(\"o_orderdate = "
    "date'1995-03-15' and o_clerk = '\" + clerk + \"'\"), on=[F.col('l_orderkey') == "
    "F.col('o_orderkey')]).selectExpr('count(*)', 'sum(l_extendedprice)', 'max(o_totalprice)').collect()][1]"
)


def run() -> list[Comparison]:
    folder = FOLDER / "joins"
    shutil.rmtree(folder, ignore_errors=True)
    source = tpch("lineitem", "orders")
    lines, orders = str(folder / "lineitem"), str(folder / "orders")
    with both() as sides:
        for table, path, key, files in (
            ("lineitem", lines, "l_orderkey", FILES_OF_LINEITEM),
            ("orders", orders, "o_orderkey", 8),
        ):
            sides[0].ask(MADE.format(files=files, key=key), source=str(source / table), path=path)
        sides[0].ask(CLERK, path=orders)
        clerk = sides[0].rows[0][0]
        answers = []

        def join(side: Side, *, pruned: bool = True) -> float:
            seconds = side.ask(JOINED, lines=lines, orders=orders, clerk=clerk, pruned=str(pruned).lower())
            answers.append(side.rows)
            return seconds

        beside_reference = turns(sides, join)
        pairs = [(join(sides[0]), join(sides[0], pruned=False)) for _ in range(ROUNDS + 1)][1:]
    assert all(answer == answers[0] for answer in answers), "all must answer alike"
    shutil.rmtree(folder, ignore_errors=True)
    what = f"lineitem in {FILES_OF_LINEITEM} files by l_orderkey, joined with the orders of one clerk and day"
    return [
        compared(
            "join with the orders of a clerk and day",
            list(zip(*pairs, strict=True)),
            0.3,
            "the same without",
            what=what,
        ),
        compared("join with the orders of a clerk and day", beside_reference, 0.3, what=what),
    ]


if __name__ == "__main__":
    report(*run())
