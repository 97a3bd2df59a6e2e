"""A program that was written for the reference, and has never heard of tahoe. It prints what it finds as JSON, and
exits with 7.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from typing import Any

import delta
import delta.exceptions
from delta import configure_spark_with_delta_pip
from delta.tables import *  # noqa: F403  as programs do
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

REFERENCE = {
    "spark.jars.packages": "io.delta:delta-spark_2.13:0.0.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(map=REFERENCE)
    return configure_spark_with_delta_pip(builder).getOrCreate()


def in_a_child(path: str) -> int:
    return DeltaTable.forPath(session(), path).toDF().count()


@udf
def imported(_: int) -> str:
    return ",".join(sorted(name for name in sys.modules if name.split(".")[0] in ("tahoe", "delta")))


def main(path: str) -> dict[str, Any]:
    spark = session()
    spark.range(10).write.format("delta").save(path)
    DeltaTable.forPath(spark, path).delete("id < 3")
    spark.sql(f"CREATE TABLE named USING delta LOCATION '{path}'")
    again = SparkSession.builder.config(map=REFERENCE).getOrCreate()
    count = f"SELECT count(*) FROM delta.`{path}`"
    found = {
        "version": delta.__version__,
        "history": [row.operation for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()],
        "same session": again is spark,
        "by name": again.table("named").count(),
        "new session": spark.newSession().sql(count).head()[0],
        "cloned by name": spark.newSession().table("named").count(),
        "settings": [spark.conf.get(name, None) for name in REFERENCE],
        "in a worker": spark.range(1, numPartitions=1).select(imported("id")).head()[0],
    }
    if not spark.version.startswith("4.1"):  # which cannot make one
        found["another session"] = SparkSession.builder.create().sql(count).head()[0]
    spark.stop()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found["in a child"] = pool.apply(in_a_child, (path,))
    found["after stop"] = session().sql(count).head()[0]
    return found


if __name__ == "__main__":
    print("FOUND " + json.dumps(main(sys.argv[1])))
    sys.exit(7)
