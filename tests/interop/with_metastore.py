"""A session with a metastore that lasts, of tahoe or of the reference: runs statements, and prints what the queries
among them answer.

    python with_metastore.py FOLDER STATEMENTS [JARS]

FOLDER holds the metastore and the warehouse, STATEMENTS is a JSON list, and JARS is where the reference's jars are, if
it is to run them.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession


def session(folder: str, jars: str | None) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[1]")
        .appName("metastore")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        )
        .config(
            "spark.driver.extraJavaOptions", f"-Dderby.system.home={folder} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        )
        .config("spark.log.level", "ERROR")
    )
    if jars is None:
        import tahoe  # noqa: PLC0415 - the reference's environment has none

        return tahoe.enable(builder.enableHiveSupport().getOrCreate())
    settings = {
        "spark.jars": ",".join(sorted(glob.glob(os.path.join(jars, "*.jar")))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.enableHiveSupport().getOrCreate()


def main(folder: str, statements: str, jars: str | None = None) -> None:
    spark = session(folder, jars)
    answers: list[list[Any]] = []
    for text in json.loads(statements):
        frame = spark.sql(text)
        if text.startswith(("SELECT", "SHOW")):
            answers.append([list(row) for row in frame.collect()])
    spark.stop()
    print("ANSWERS " + json.dumps(answers, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
