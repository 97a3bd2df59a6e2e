"""The condition of each refusal under Spark: those of tests/conditions.py, which hold without Spark too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tahoe import DeltaTable
from tests.conditions import ASSIGNED, WRITTEN, Written, table
from tests.expression_faults import FAULTS, FAULTY
from tests.sample import part


def condition(call: Callable[[], Any]) -> str | None:
    with pytest.raises(PySparkException) as raised:
        call()
    return raised.value.getCondition()


@pytest.mark.parametrize("fault", part(WRITTEN, 4), ids=lambda fault: fault.name)
def test_rows_are_refused_by_every_way_to_write(spark: SparkSession, path: str, fault: Written) -> None:
    made = table(path)
    data = spark.createDataFrame(fault.data)

    def save(mode: str, **options: str) -> Callable[[], Any]:
        return lambda: data.write.format("delta").mode(mode).options(**options).save(made.url)

    def merge(on: str) -> Any:
        return DeltaTable.forPath(spark, made.url).alias("t").merge(data.alias("s"), on)

    assert condition(save("append")) == fault.saved
    assert condition(save("append", mergeSchema="true")) == fault.saved
    assert condition(save("overwrite")) == fault.saved
    assert condition(save("overwrite", replaceWhere="tiny = 1")) == fault.saved
    assert condition(merge("false").whenNotMatchedInsertAll().execute) == fault.merged
    assert condition(merge("true").whenMatchedUpdateAll().execute) == fault.merged
    assert condition(merge("false").withSchemaEvolution().whenNotMatchedInsertAll().execute) == fault.evolved


@pytest.mark.parametrize(("assigned", "expected"), part(ASSIGNED, 4), ids=lambda case: str(case))
def test_assignments_are_refused_by_update_and_merge(
    spark: SparkSession, path: str, assigned: Mapping[str, str], expected: str
) -> None:
    made = DeltaTable.forPath(spark, table(path).url)
    assert condition(lambda: made.update(set=dict(assigned))) == expected.split(", ")[0]
    merge = made.alias("t").merge(spark.range(1).toDF("k").alias("s"), "true").whenMatchedUpdate(set=dict(assigned))
    assert condition(merge.execute) == expected.split(", ")[-1]


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_in_a_row_has_the_condition_that_it_has_without_spark(spark: SparkSession, text: str) -> None:
    assert condition(spark.createDataFrame(FAULTY).selectExpr(text).collect) == FAULTS[text]
