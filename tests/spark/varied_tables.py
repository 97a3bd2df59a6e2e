"""Tables for queries that read some of their files: files in an order, and files of several writers."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

import tahoe
from tests.spark.foreign import adds_of, commit, larger_files, mark


def explained(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().explainString(
        frame._sc._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


def thirty_days(spark: SparkSession, path: str) -> None:
    """Thirty files, each of ten rows with one id and another day for each; version 0."""
    rows = spark.range(300).selectExpr("id", "date_add(date'2026-01-01', cast(id div 10 as int)) as day", "id % 3 as p")
    rows.repartitionByRange(30, "day").sortWithinPartitions("id").write.format("delta").save(path)


def various(spark: SparkSession, path: str) -> str:
    """A table with files of several writers: vectors, statistics that are missing, wide or in part absent; nulls and
    NaN.
    """
    made = (
        "cast(id as int) as i",
        "if(id % 4 = 0, null, id * 1000) as l",
        "if(id % 7 = 0, null, date_add(date'2026-01-01', cast(id % 9 as int))) as d",
        "if(id % 5 = 0, null, concat('a long text to be cut after some letters ', id % 6)) as s",
        "case id % 6 when 0 then double('NaN') when 1 then null when 2 then -0.0D else id / 2 end as f",
        "timestamp_micros(id * 1001) as ts",
        "cast(id / 3 as decimal(20, 3)) as dec",
        "named_struct('n', if(id % 3 = 0, null, cast(id as short)), 'b', id % 2 = 0) as st",
        "array(id) as arr",
        "cast(null as int) as void_like",
        "case id % 3 when 0 then 'x' when 1 then 'y' else null end as p",
        "date_add(date'2026-02-01', cast(id % 2 as int)) as day",
        "float(id % 2) - 0.0F as weight",
    )
    for start in (0, 40, 80):
        rows = spark.range(start, start + 40, 1, 1).selectExpr(*made)
        rows.write.format("delta").mode("append").partitionBy("p", "day", "weight").save(path)
    big = larger_files(path, 5)
    mark(path, {big[0]: [0, 2], big[3]: [1]})
    mark(path, {big[5]: range(100)})
    bare, counted = [add for add in adds_of(tahoe.Table(path).snapshot()) if add.deletion_vector is None][:2]
    rows = json.loads(counted.stats)["numRecords"]
    commit(
        path,
        bare.replace(stats=None, data_change=False),
        counted.replace(stats=json.dumps({"numRecords": rows}), data_change=False),
    )
    return path


def mapped(spark: SparkSession, path: str) -> str:
    various(spark, path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for before, after in (("i", "old"), ("l", "i"), ("p", "q")):
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN {before} TO {after}")
    for before, after in (("i", "l"), ("old", "i"), ("q", "p")):
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN {before} TO {after}")
    return path
