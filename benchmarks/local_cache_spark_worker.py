"""One side of local_cache.py in Spark: a new session reads three columns of a table once, and prints how long it took.

python -m benchmarks.local_cache_spark_worker URL ENDPOINT JARS [FOLDER]

The session has read another table before, so that the time is that of the query: loading Spark's classes, opening
Hadoop's client and compiling the cache's file system are not in it.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time

from pyspark.sql import SparkSession

import tahoe

COLUMNS = ("l_quantity", "l_extendedprice", "l_discount")


def session(endpoint: str, jars: str) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.extraClassPath", os.pathsep.join(sorted(glob.glob(f"{jars}/*.jar"))))
        .config("spark.log.level", "ERROR")
    )
    hadoop = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "access.key": "x",
        "secret.key": "y",
        "path.style.access": "true",
    }
    for name, value in hadoop.items():
        builder = builder.config(f"spark.hadoop.fs.s3a.{name}", value)
    return tahoe.enable(builder.getOrCreate())


def sums(spark: SparkSession, url: str) -> list[str]:
    sums = [f"sum({column})" for column in COLUMNS]
    (row,) = spark.read.format("delta").load(url).selectExpr(*sums).collect()
    return [str(value) for value in row]


if __name__ == "__main__":
    url, endpoint, jars, *folder = sys.argv[1:]
    spark = session(endpoint, jars)
    if folder:
        spark.conf.set("spark.tahoe.cache.folder", folder[0])
    sums(spark, url.rpartition("/")[0] + "/small")
    began = time.perf_counter()
    answer = sums(spark, url)
    print(json.dumps({"seconds": time.perf_counter() - began, "answer": answer}))
    spark.stop()
