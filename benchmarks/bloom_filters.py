"""How much do Bloom filters save in a lookup of ten ids that have no order?

Both tables have the same rows in files of the same size; the files of one carry filters for `id`. Every file's range
has every id.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from itertools import count

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from benchmarks.measure import FOLDER, Comparison, compare, report, start_spark

FILES = int(os.environ.get("FILES", "1000"))
ROWS_PER_FILE = int(os.environ.get("ROWS_PER_FILE", "100000"))
IDS = 10


def make_table(spark: SparkSession, name: str, properties: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{FOLDER / name}` (id string, value double, text string) USING delta {properties}")
    rows = spark.range(0, FILES * ROWS_PER_FILE, 1, FILES).select(
        F.md5(F.col("id").cast("string")).alias("id"),
        F.rand(1).alias("value"),
        F.md5(F.rand(2).cast("string")).alias("text"),
    )
    rows.write.format("delta").mode("append").save(str(FOLDER / name))


def run() -> list[Comparison]:
    spark = start_spark()
    size = f"{FILES}-{ROWS_PER_FILE}"
    tables = {f"filters-{size}": "TBLPROPERTIES ('tahoe.bloomFilters' = 'id')", f"no-filters-{size}": ""}
    for name, properties in tables.items():
        if not (FOLDER / name / "done").exists():
            shutil.rmtree(FOLDER / name, ignore_errors=True)
            make_table(spark, name, properties)
            (FOLDER / name / "done").touch()
    turns = {name: count(1) for name in tables}

    def find(name: str) -> None:
        turn = next(turns[name])
        numbers = [(turn * 104_729 + n * 7_919_113) % (FILES * ROWS_PER_FILE) for n in range(IDS)]
        ids = [hashlib.md5(str(number).encode()).hexdigest() for number in numbers]
        found = spark.read.format("delta").load(str(FOLDER / name)).where(F.col("id").isin(ids)).collect()
        assert sorted(row["id"] for row in found) == sorted(set(ids))

    ours, theirs = tables
    return [
        compare(
            f"{IDS} ids in {FILES:,} files of {ROWS_PER_FILE:,} rows",
            peer="the same without filters",
            ours=lambda: find(ours),
            theirs=lambda: find(theirs),
            goal=0.3,
        )
    ]


if __name__ == "__main__":
    report(*run())
