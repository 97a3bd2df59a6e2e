"""How fast are Delta tables in a session with Comet, beside Spark's own engine, Comet on Parquet files, and the
reference with Comet?

Sessions of the same Spark take turns, each in its own process. `PARTS="shapes tpch"` selects some parts; TPC-DS
(`PARTS=tpcds`) takes hours and runs only if it is selected. `QUERIES="q3 q14a"` selects queries of TPC-DS.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import tpcds_data
from benchmarks.beside_reference import Side, compared, turns
from benchmarks.measure import CACHE, FOLDER, Comparison, lineitem, link_data_files, report, tpch
from benchmarks.tpcds import LOADED
from benchmarks.tpch_queries import QUERIES, TABLES

SPARK = "stock Spark on Parquet"
COMET = "Comet on Parquet"
REFERENCE = "the reference with Comet"
WITHOUT = "the same without Comet"
OF_REFERENCE = CACHE / "reference-4.1-jars"

# Each with its goal beside stock Spark on Parquet.
SHAPES = {
    "q1": (
        0.35,
        "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), count(*) from {} "
        "where l_shipdate <= date'1998-09-02' group by 1, 2 order by 1, 2",
    ),
    "top 5 of a group by": (
        0.3,
        "select l_partkey, sum(l_quantity) as q from {} group by 1 order by q desc, l_partkey limit 5",
    ),
    "q6": (
        0.7,
        "select sum(l_extendedprice * l_discount) from {} where l_shipdate >= date'1994-01-01' and l_shipdate < "
        "date'1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24",
    ),
}


def run() -> list[Comparison]:
    folder = FOLDER / "native"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (comet,) = (CACHE / "comet-jars").glob("comet-spark-*.jar")
    native = Side("native", jars=[comet])
    try:
        native.ask(
            "spark.read.parquet(source).write.format('delta').save(path)",
            source=lineitem(),
            path=str(folder / "lineitem"),
        )
        link_data_files(folder / "lineitem", folder / "parquet")
        found = []
        for part in PARTS:
            peer = Side("native-reference", jars=[OF_REFERENCE, comet]) if part == "reference" else Side("spark")
            try:
                found += _PARTS[part](native, peer, folder)
            finally:
                peer.stop()
    finally:
        native.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _shapes(native: Side, spark: Side, folder: Path) -> Iterator[Comparison]:
    table, files = f"delta.`{folder / 'lineitem'}`", f"parquet.`{folder / 'parquet'}`"
    for name, (goal, query) in SHAPES.items():
        times = turns((native, spark), lambda side, q=query: _rows(side, q.format(table if side is native else files)))
        assert native.rows == spark.rows, "both sides must answer alike"
        yield compared(name, times, goal, SPARK)
        yield compared(name, _in_turns(native, query.format(table), query.format(files)), 1.05, COMET)


def _vectors(native: Side, _: Side, folder: Path) -> Iterator[Comparison]:
    """A hundred files, of which ten have a vector; one row in a hundred of the table is deleted."""
    plain, marked = folder / "hundred", folder / "vectors"
    native.ask(
        f"spark.read.parquet(source).repartitionByRange(100, 'l_orderkey').write.format('delta').save('{plain}')",
        source=lineitem(),
    )
    shutil.copytree(plain, marked)
    native.ask(
        f"spark.sql(\"alter table delta.`{marked}` set tblproperties ('delta.enableDeletionVectors' = "
        f"'true')\").collect()"
    )
    native.ask(f"spark.sql('delete from delta.`{marked}` where l_orderkey < 600000 and l_orderkey % 10 = 1').collect()")
    for name, (_, query) in SHAPES.items():
        yield compared(
            f"{name}, 10 of 100 files with vectors",
            _in_turns(native, query.format(f"delta.`{marked}`"), query.format(f"delta.`{plain}`")),
            1.2,
            "the same table without vectors",
        )


def _tpch(native: Side, spark: Side, folder: Path) -> Iterator[Comparison]:
    _tables_of_tpch(native, folder)
    for table in TABLES:
        spark.ask(f"spark.read.parquet('{tpch(*TABLES) / table}').createOrReplaceTempView('{table}')")
    yield from _together(native, spark, "TPC-H", QUERIES, 0.5, SPARK)


def _tpch_beside_reference(native: Side, reference: Side, folder: Path) -> Iterator[Comparison]:
    _tables_of_tpch(native, folder)
    for table in TABLES:
        reference.ask(
            f"spark.read.format('delta').load('{folder / 'tpch' / table}').createOrReplaceTempView('{table}')"
        )
    yield from _together(native, reference, "TPC-H", QUERIES, 0.4, REFERENCE)


def _tables_of_tpch(native: Side, folder: Path) -> None:
    for table in TABLES:
        path = folder / "tpch" / table
        if not path.exists():
            native.ask(f"spark.read.parquet('{tpch(*TABLES) / table}').write.format('delta').save('{path}')")
        native.ask(f"spark.read.format('delta').load('{path}').createOrReplaceTempView('{table}')")


def _tpcds(native: Side, spark: Side, _: Path) -> Iterator[Comparison]:
    made = tpcds_data.make(
        lambda source, schema, by, path: native.ask(LOADED, source=source, schema=schema, by=by, path=path)
    )
    for side, kind in ((native, "delta"), (spark, "parquet")):
        for table in tpcds_data.schemas():
            side.ask(f"spark.read.format('{kind}').load('{made / kind / table}').createOrReplaceTempView('{table}')")
    yield from _together(native, spark, "TPC-DS", tpcds_data.only(os.environ.get("QUERIES", "")), 0.65, SPARK)


def _together(
    native: Side, peer: Side, name: str, queries: Mapping[str | int, str], goal: float, peer_name: str
) -> Iterator[Comparison]:
    """Queries on views that both sides have: their times in each round together, then each one's."""
    found = []
    for number, query in queries.items():
        answers: dict[str, list[list[str]]] = {}
        times = turns((native, peer), lambda side, q=query, a=answers: _answered(side, q, a))
        if answers[native.name] != answers[peer.name]:
            print(
                f"{name} {number}: the sides have other rows: {answers[native.name][:3]} and {answers[peer.name][:3]}"
            )
        print(name, number, *(f"{statistics.median(each):.2f}" for each in times), flush=True)
        found.append(compared(f"{name} {number}", times, None, peer_name))
    summed = [
        [sum(times) for times in zip(*(getattr(each, side) for each in found), strict=True)]
        for side in ("ours", "theirs")
    ]
    yield compared(f"{name}, all {len(found)} queries", summed, goal, peer_name)
    yield from found


def _answered(side: Side, query: str, answers: dict[str, list[list[str]]]) -> float:
    seconds = _rows(side, query)
    answers[side.name] = sorted(side.rows)
    return seconds


FILES = 1000


def _changes(native: Side, _: Side, folder: Path) -> Iterator[Comparison]:
    """Commands, with Comet and with it switched off in the same session."""
    path, small = folder / "changed", folder / "small"
    native.ask(
        f"spark.read.parquet(source).repartition({FILES}).write.format('delta').save('{small}')", source=lineitem()
    )
    merge = (
        "spark.sql('merge into delta.`{0}` t using (select * from delta.`{0}` where l_orderkey % 100 = 1) s on "
        "t.l_orderkey = s.l_orderkey and t.l_linenumber = s.l_linenumber when matched then update set l_quantity = "
        "s.l_quantity + 1').collect()"
    )
    for name, table, code in (
        ("MERGE of 1 %", folder / "lineitem", merge.format(path)),
        (
            "UPDATE of 1 %",
            folder / "lineitem",
            f"spark.sql('update delta.`{path}` set l_tax = 0 where l_orderkey % 100 = 1').collect()",
        ),
        (
            "DELETE of 1 %",
            folder / "lineitem",
            f"spark.sql('delete from delta.`{path}` where l_orderkey % 100 = 1').collect()",
        ),
        (f"OPTIMIZE of {FILES} files", small, f"spark.sql('optimize delta.`{path}`').collect()"),
        (
            "ZORDER",
            folder / "lineitem",
            f"spark.sql('optimize delta.`{path}` zorder by (l_partkey, l_shipdate)').collect()",
        ),
    ):
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(4):
            for is_on in (True, False) if number % 2 else (False, True):
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(table, path)
                native.ask("spark.conf.set('spark.comet.enabled', on)", on=str(is_on).lower())
                seconds = native.ask(code)
                if number:
                    times[is_on].append(seconds)
        native.ask("spark.conf.set('spark.comet.enabled', 'true')")
        yield compared(name, [times[True], times[False]], 1.0, WITHOUT)


def _rows(side: Side, query: str) -> float:
    return side.ask("spark.sql(query).collect()", query=query)


def _in_turns(side: Side, ours: str, theirs: str) -> list[list[float]]:
    """Two queries of one session, in turns."""
    times: list[list[float]] = [[], []]
    for number in range(6):
        for place, query in ((0, ours), (1, theirs)) if number % 2 else ((1, theirs), (0, ours)):
            seconds = _rows(side, query)
            if number:
                times[place].append(seconds)
    return times


_PARTS = {
    "shapes": _shapes,
    "vectors": _vectors,
    "tpch": _tpch,
    "reference": _tpch_beside_reference,
    "tpcds": _tpcds,
    "changes": _changes,
}
PARTS = os.environ.get("PARTS", "shapes vectors tpch reference changes").split()


if __name__ == "__main__":
    report(*run())
