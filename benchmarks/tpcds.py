"""How fast are TPC-DS's queries on Delta tables, compared with plain Parquet in the same partitions, and with the
reference?

Parquet is asked in tahoe's session, the reference in one of its own, of the same Spark. Facts are partitioned by date,
dimensions are not partitioned. `QUERIES="q3 q14a"` selects some queries. `WARM_UP=0` counts the first time of each
query too, for scale factors at which a round takes hours: who goes first then alternates from query to query.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import replace

from benchmarks.beside_reference import PEER, Side, both, compared
from benchmarks.measure import ROUNDS, SCALE_FACTOR, Comparison, report
from benchmarks.tpcds_data import PARTITIONED_BY, make, only, schemas

GOAL_OF_PARQUET, GOAL_OF_REFERENCE = 0.9, 0.7
SLOWER_SECONDS, SLOWER_RATIO = 0.2, 1.15
WARM_UP = int(os.environ.get("WARM_UP", "1"))
PARQUET = "Spark, the same files as Parquet"

LOADED = (
    "(lambda rows: (rows.repartition(by).write.partitionBy(by) if by else "
    "rows.coalesce(2).write).format('delta').save(path))(spark.read.csv(source, sep='|', schema=schema))"
)
QUERY = "spark.sql(query).collect()"


def run() -> list[Comparison]:
    with both() as (ours, reference):
        folder = make(lambda source, schema, by, path: ours.ask(LOADED, source=source, schema=schema, by=by, path=path))
        tables = {table: PARTITIONED_BY.get(table, "") for table in schemas()}
        for side, kind in ((ours, "delta"), (ours, "parquet"), (reference, "delta")):
            side.ask(f"spark.sql('create database tpcds_{kind}')")
            for table, by in tables.items():
                _create(side, kind, table, by, str(folder / kind / table))
        chosen = only(os.environ.get("QUERIES", ""))
        found = [_query(ours, reference, number, *query) for number, query in enumerate(chosen.items())]
    beside_parquet, beside_reference = ([pair[n] for pair in found] for n in (0, 1))
    slower = [c.question for c in beside_parquet if _is_slower(c)]
    print(
        f"slower than Parquet by more than {SLOWER_SECONDS} s and {SLOWER_RATIO - 1:.0%}: "
        f"{', '.join(slower) or 'no query'}"
    )
    return [
        _total(beside_parquet, GOAL_OF_PARQUET),
        _total(beside_reference, GOAL_OF_REFERENCE),
        *beside_parquet,
        *beside_reference,
    ]


def _create(side: Side, kind: str, table: str, by: str, path: str) -> None:
    side.ask(f"spark.sql(\"create table tpcds_{kind}.{table} using {kind} location '{path}'\")")
    if by and kind == "parquet":
        side.ask(f"spark.catalog.recoverPartitions('tpcds_{kind}.{table}')")


def _query(ours: Side, reference: Side, turn: int, name: str, text: str) -> tuple[Comparison, Comparison]:
    """A query's times beside Parquet and beside the reference, asked in turns."""
    asked = [(ours, "delta"), (ours, "parquet"), (reference, "delta")]
    times: list[list[float]] = [[], [], []]
    answers: list[list[list[str]]] = [[], [], []]
    for number in range(WARM_UP + ROUNDS):
        for position in (0, 1, 2) if (turn + number) % 2 else (2, 1, 0):
            side, kind = asked[position]
            side.ask(f"spark.sql('use tpcds_{kind}')")
            seconds = side.ask(QUERY, query=text)
            answers[position] = sorted(side.rows)
            if number >= WARM_UP:
                times[position].append(seconds)
    for position, other in ((1, "Parquet"), (2, "the reference")):
        if answers[0] != answers[position]:
            print(f"{name}: tahoe and {other} have other rows: {len(answers[0])} and {len(answers[position])}")
    print(name, *(f"{statistics.median(t):.2f}" for t in times), flush=True)
    question = f"TPC-DS {name}"
    return (
        compared(question, (times[0], times[1]), None, PARQUET),
        compared(question, (times[0], times[2]), None, PEER),
    )


def _is_slower(beside: Comparison) -> bool:
    ours, theirs = statistics.median(beside.ours), statistics.median(beside.theirs)
    return ours > theirs + SLOWER_SECONDS and ours > theirs * SLOWER_RATIO


def _total(queries: list[Comparison], goal: float) -> Comparison:
    """The queries together: the sum of their times in each round."""
    ours, theirs = (
        [sum(times) for times in zip(*(getattr(q, side) for q in queries), strict=True)] for side in ("ours", "theirs")
    )
    return replace(queries[0], question=f"TPC-DS, all {len(queries)} queries", ours=ours, theirs=theirs, goal=goal)


if __name__ == "__main__":
    print(f"TPC-DS at scale factor {SCALE_FACTOR}")
    report(*run())
