"""Early dates and timestamps keep their values when Spark reads them, whoever has written the files and whatever the
session's calendar.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import Row, SparkSession

from tahoe import Table

SETTING = "spark.sql.parquet.datetimeRebaseModeInRead"


@pytest.fixture(params=["LEGACY", "EXCEPTION"])
def calendar(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.conf.set(SETTING, request.param)
    yield request.param
    spark.conf.unset(SETTING)


@pytest.mark.every_case
@pytest.mark.usefixtures("calendar")
def test_maintenance_keeps_early_dates(spark: SparkSession, path: str) -> None:
    for _ in range(2):
        rows = spark.sql(
            "select 1 as id, date'0001-01-01' as d, timestamp'1500-01-01' as t, timestamp_ntz'1500-01-01' as n"
        )
        rows.write.format("delta").mode("append").save(path)

    def read() -> list[Row]:
        return spark.read.format("delta").load(path).selectExpr("id", "string(d)", "string(t)", "string(n)").collect()

    before = read()
    assert before == [(1, "0001-01-01", "1500-01-01 00:00:00", "1500-01-01 00:00:00")] * 2
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert read() == before
    spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (id)")
    assert read() == before
    Table(path).append(Table(path).to_arrow())
    assert read() == before * 2
