"""How fast are TPC-H's 22 queries on Delta tables, compared with plain Parquet on the same files and the same Spark?"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from pyspark.sql import Row, SparkSession

from benchmarks.measure import FOLDER, Comparison, compare, link_data_files, report, start_spark, tpch
from benchmarks.tpch_queries import QUERIES, TABLES

GOAL_EACH = 1.2
PEER = "Spark, the same files as Parquet"


def run() -> list[Comparison]:
    spark = start_spark()
    source = tpch(*TABLES)
    folder = FOLDER / f"tpch-{source.name}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for table in TABLES:
            spark.read.parquet(str(source / table)).write.format("delta").save(str(folder / "delta" / table))
            link_data_files(folder / "delta" / table, folder / "parquet" / table)
        (folder / "done").touch()
    databases = {kind: _database(spark, folder, kind) for kind in ("delta", "parquet")}
    found = []
    for number, query in QUERIES.items():

        def ask(source: str, text: str = query) -> list[Row]:
            spark.catalog.setCurrentDatabase(databases[source])
            return spark.sql(text).collect()

        assert _rounded(ask("delta")) == _rounded(ask("parquet")), f"both sides must answer query {number} alike"
        compared = compare(
            f"TPC-H {number}",
            peer=PEER,
            ours=lambda a=ask: a("delta"),
            theirs=lambda a=ask: a("parquet"),
            goal=GOAL_EACH,
        )
        found.append(compared)
    total = [
        [sum(times) for times in zip(*(getattr(c, side) for c in found), strict=True)] for side in ("ours", "theirs")
    ]
    return [replace(found[0], question="TPC-H, all 22 queries", ours=total[0], theirs=total[1], goal=1.05), *found]


def _database(spark: SparkSession, folder: Path, kind: str) -> str:
    database = f"tpch_{kind}"
    spark.sql(f"drop database if exists {database} cascade")
    spark.sql(f"create database {database}")
    for table in TABLES:
        spark.sql(f"create table {database}.{table} using {kind} location '{folder / kind / table}'")
    return database


def _rounded(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in rows]


if __name__ == "__main__":
    report(*run())
