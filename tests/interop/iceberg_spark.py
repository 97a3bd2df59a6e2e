"""A program of Spark with Iceberg's runtime: `iceberg_spark.py JARS [SETTING=VALUE...]`. Each line on its input is a JSON
object with `sql`, or with the `path` of a table, the `snapshot` to read, and `columns`; it writes the
rows of all of them, pickled. Runs in an environment with the Spark of the runtime, without tahoe.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    jars = ",".join(map(str, Path(sys.argv[1]).glob("*.jar")))
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "ERROR")
    for setting in sys.argv[2:]:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    found = []
    for line in sys.stdin:
        found.append(asked(spark, json.loads(line)).toArrow().to_pylist())
    spark.stop()
    sys.stdout.buffer.write(pickle.dumps(found))


def asked(spark: SparkSession, request: dict[str, Any]) -> DataFrame:
    if "sql" in request:
        return spark.sql(request["sql"])
    reader = spark.read.format("iceberg")
    if request["snapshot"] is not None:
        reader = reader.option("versionAsOf", request["snapshot"])
    return reader.load(request["path"]).selectExpr(*request["columns"])


main()
