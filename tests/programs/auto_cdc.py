"""The pipeline of `test_pipelines`: AutoCDC flows of each kind from one stream of changes, two flows that append to one
table, a materialised view and a sink.

`{root}` and `{columns}` stand for the folder of the changes and their schema.
"""

from __future__ import annotations

from typing import Any, Literal

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

spark = SparkSession.active()


@pipelines.table(format="delta")
def events() -> DataFrame:
    return spark.readStream.schema("{columns}").json("{root}/changes")


@pipelines.materialized_view(format="delta")
def by_city() -> DataFrame:
    return spark.read.table("current").groupBy("city").count()


def flow(target: str, kind: Literal[1, 2], **columns: Any) -> None:
    pipelines.create_auto_cdc_flow(
        target=target,
        source="events",
        keys=["id"],
        sequence_by=F.col("seq"),
        apply_as_deletes=F.expr("op = 'D'"),
        stored_as_scd_type=kind,
        **columns,
    )


for target in ("current", "named", "history", "moves", "halves"):
    pipelines.create_streaming_table(target, format="delta")
flow("current", 1, except_column_list=["op"])
flow("named", 1, column_list=["id", "name"])
flow("history", 2, except_column_list=["op", "seq"], track_history_column_list=["name", "city"])
flow("moves", 2, except_column_list=["op", "seq"], track_history_column_list=["city"])


@pipelines.append_flow(target="halves")
def even() -> DataFrame:
    return spark.readStream.table("events").where("id % 2 = 0")


@pipelines.append_flow(target="halves")
def odd() -> DataFrame:
    return spark.readStream.table("events").where("id % 2 = 1")


pipelines.create_sink("mirror", "delta", {"path": "{root}/mirror", "mergeSchema": "true"})


@pipelines.append_flow(target="mirror")
def mirrored() -> DataFrame:
    return spark.readStream.table("events")
