"""`delta.dataSkippingStatsColumns` in Spark's statements; tests/table/test_listed_columns.py has the rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tahoe import Table
from tahoe.errors import DuplicateStatisticsColumnsError, StatisticsColumnError, StatisticsColumnNotFoundError
from tests.spark.builders import make

NAME = "delta.dataSkippingStatsColumns"


def test_the_list_follows_an_overwritten_schema(spark: SparkSession, tmp_path: Path) -> None:
    """A list of columns that are gone would leave new files without statistics."""
    path = str(tmp_path / "t")
    make(spark.range(3).selectExpr("id", "id AS k"), path, {NAME: "k,id"})
    assert Table(path).properties[NAME] == "k,id"
    spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert Table(path).properties[NAME] == "id"
    with pytest.raises(StatisticsColumnNotFoundError):  # it is given, not kept
        spark.sql(f"CREATE OR REPLACE TABLE delta.`{path}` (c INT) USING delta TBLPROPERTIES ('{NAME}' = 'id')")
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{path}` (c INT) USING delta")
    assert NAME not in Table(path).properties


@pytest.mark.parametrize(
    ("text", "error"), [("nope", StatisticsColumnNotFoundError), ("id,ID", DuplicateStatisticsColumnsError)]
)
def test_illegal_lists_are_refused(
    spark: SparkSession, tmp_path: Path, text: str, error: type[StatisticsColumnError]
) -> None:
    path, listed = str(tmp_path / "t"), f"TBLPROPERTIES ('{NAME}' = '{text}')"
    make(spark.range(3), path, {})
    for statement in (
        f"ALTER TABLE delta.`{path}` SET {listed}",
        f"CREATE OR REPLACE TABLE delta.`{path}` (id BIGINT) USING delta {listed}",
        f"CREATE TABLE delta.`{path}2` (id BIGINT) USING delta {listed}",
    ):
        with pytest.raises(error):
            spark.sql(statement)
    assert Table(path).version == 0
