"""A first table and a first COPY INTO, with the seconds of each. `scripts/first-day` runs it in a new environment.

Usage: python demo/first_day.py FOLDER
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import tahoe

FILES, ROWS = 3, 1000


def main(folder: Path) -> None:
    began = time.perf_counter()
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    tahoe.enable(spark)
    numbers = str(folder / "lake" / "numbers")
    spark.range(ROWS).withColumnRenamed("id", "n").write.format("delta").mode("overwrite").save(numbers)
    found = spark.read.format("delta").load(numbers).where("n > 990").count()
    began = told(f"the first table, with PySpark {pyspark.__version__}: {found} rows found", began)

    landing = folder / "landing"
    landing.mkdir()
    for file in range(FILES):
        with (landing / f"{file}.csv").open("w", newline="") as opened:
            csv.writer(opened).writerows([("id", "name"), *((file * ROWS + n, f"name {n}") for n in range(ROWS))])
    people = folder / "lake" / "people"
    spark.sql(f"CREATE TABLE delta.`{people}` (id BIGINT, name STRING)")
    copy = (
        f"COPY INTO delta.`{people}` FROM '{landing}' FILEFORMAT = CSV "
        "FORMAT_OPTIONS ('header' = 'true', 'inferSchema' = 'true')"
    )
    first, again = (spark.sql(copy).first()["num_inserted_rows"] for _ in range(2))
    told(f"the first COPY INTO: {first:,} rows, and {again} when it is repeated", began)


def told(what: str, began: float) -> float:
    now = time.perf_counter()
    print(f"{now - began:6.1f} s  {what}", flush=True)
    return now


if __name__ == "__main__":
    main(Path(sys.argv[1]))
