"""What does each threshold of the joins that leave files out bring on TPC-DS?

`reading.joins` has six, chosen on lineitem and the orders of one clerk and day (`joins.py`). Here each is lifted,
alone, for the queries of TPC-DS. Those that are planned otherwise without it are timed with it and without it, in
turns. Where their times differ by less than the noise, the threshold brings nothing on this workload. Of many such
queries, `SAMPLE` are timed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from benchmarks.beside_reference import Side, compared
from benchmarks.measure import ROUNDS, Comparison, report
from benchmarks.tpcds import LOADED
from benchmarks.tpcds_data import make, only, schemas

SAMPLE = int(os.environ.get("SAMPLE", "8"))

# The value that lifts each threshold.
LIFTED = {
    "SHARE_MAX": 1.0,
    "SAVED_BYTES_MIN": 0,
    "SAVED_BY_QUERY_BYTES_MIN": 0,
    "QUERY_SHARE_MAX": 1.0,
    "UNFILTERED_BYTES_MAX": 1 << 60,
    "COLLECTED_BYTES_MAX": 1 << 60,
}
NONE = "none is lifted"
MODULE = "import_module('tahoe.spark.reading.joins')"
PLANNED = "[[spark.sql(query)._jdf.queryExecution().optimizedPlan().toString()]]"
QUERY = "spark.sql(query).collect()"


def run() -> list[Comparison]:
    side = Side("tahoe")
    try:
        folder = make(lambda source, schema, by, path: side.ask(LOADED, source=source, schema=schema, by=by, path=path))
        for table in schemas():
            path = folder / "delta" / table
            side.ask(f"spark.read.format('delta').load('{path}').createOrReplaceTempView('{table}')")
        chosen = only(os.environ.get("QUERIES", ""))
        found = [comparison for name in LIFTED for comparison in _threshold(side, name, chosen)]
    finally:
        side.stop()
    return found


def _threshold(side: Side, name: str, queries: Mapping[str, str]) -> Iterator[Comparison]:
    kept = f"getattr({MODULE}, '{name}')"
    side.ask(f"[[{kept}]]")
    value = side.rows[0][0]
    planned = {lifted: _plans(side, name, value, queries) for value, lifted in ((value, False), (LIFTED[name], True))}
    every_changed = [query for query in queries if planned[False][query] != planned[True][query]]
    print(name, f"plans {len(every_changed)} of {len(queries)} queries otherwise:", *every_changed, flush=True)
    changed = every_changed[:: -(-len(every_changed) // SAMPLE) or 1]
    every: list[list[list[float]]] = []
    for query in changed:
        times: list[list[float]] = [[], []]
        for number in range(ROUNDS + 1):
            for place, setting in ((0, value), (1, LIFTED[name]))[:: 1 if number % 2 else -1]:
                _set(side, name, setting)
                seconds = side.ask(QUERY, query=queries[query])
                if number:
                    times[place].append(seconds)
        _set(side, name, value)
        every.append(times)
        yield compared(f"{name}, {query}", times, None, "without this threshold")
    if every:
        summed = [[sum(of) for of in zip(*(times[place] for times in every), strict=True)] for place in (0, 1)]
        yield compared(f"{name}, {len(changed)} of {len(every_changed)} queries", summed, 1.0, "without this threshold")


def _plans(side: Side, name: str, value: object, queries: Mapping[str, str]) -> dict[str, str]:
    """The optimized plan of each query with a threshold, without the numbers that differ from plan to plan."""
    _set(side, name, value)
    found = {}
    for query, text in queries.items():
        side.ask(PLANNED, query=text)
        found[query] = re.sub(r"#\d+L?|\[id=[^]]*]|plan_id=\d+", "", side.rows[0][0])
    return found


def _set(side: Side, name: str, value: object) -> None:
    side.ask(f"setattr({MODULE}, '{name}', {value})")


if __name__ == "__main__":
    report(*run())
