"""Spark computes the same leaf as Arrow, for columns of every type, whatever the session's time zone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tahoe.table.arrow.layout import Assigner, Layout, plan_layout
from tahoe.table.arrow.layout_sql import NESTED_LEVELS, leaf_steps

COLUMNS = {
    "number": "if(id % 7 = 0, null, cast(rand(1) * 1000 as int))",
    "tiny": "cast(rand(2) * 100 as tinyint)",
    "double": (
        "case when id % 50 = 0 then double('NaN') when id % 51 = 0 then null when id % 52 = 0 then -0.0D else "
        "randn(3) end"
    ),
    "float": "cast(rand(4) * 100 as float)",
    "short": "cast(rand(5) * 1000 as decimal(10,2))",
    "long": "cast(rand(6) * 1e12 as decimal(30,5))",
    "text": r"concat('it\'s \\ é ', cast(rand(7) * 100000 as int))",
    "bytes": "cast(concat('b', cast(rand(8) * 300 as int)) as binary)",
    "date": "date_add(date'2020-01-01', cast(rand(9) * 5000 - 2500 as int))",
    "moment": "timestamp_micros(cast(rand(10) * 1e15 as bigint))",
    "local": "cast(timestamp_micros(cast(rand(11) * 1e15 as bigint)) as timestamp_ntz)",
    "flag": "rand(12) < 0.3",
}
CHOICES = [
    ["number", "double", "short"],
    ["text", "bytes", "date"],
    ["moment", "local", "flag"],
    ["float", "tiny", "long"],
    ["flag", "number"],
]


def with_leaf(rows: DataFrame, layout: Layout, nested_levels: int) -> DataFrame:
    for step in leaf_steps(layout, layout.columns, "__leaf", "id", nested_levels=nested_levels):
        rows = rows.selectExpr(*(name for name in rows.columns if name != "__leaf"), f"{step} AS __leaf")
    return rows


@pytest.mark.parametrize("columns", CHOICES, ids="-".join)
def test_the_leaf_is_the_one_that_arrow_finds(spark: SparkSession, columns: Sequence[str]) -> None:
    rows = spark.range(3000).selectExpr("id", *(f"{COLUMNS[name]} AS {name}" for name in columns)).localCheckpoint()
    table = rows.orderBy("id").toArrow()
    for leaves, nested_levels in ((1, NESTED_LEVELS), (100, NESTED_LEVELS), (40, 2)):
        layout = plan_layout(pa.table(table.select(columns)).slice(0, 1000), leaves)
        assigner = Assigner(layout)
        found = np.asarray(with_leaf(rows, layout, nested_levels).orderBy("id").select("__leaf").toArrow()["__leaf"])
        assert found.tolist() == assigner.leaves(table).tolist()
