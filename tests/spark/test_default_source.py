"""A session whose default source is delta: statements and writes that name no format make Delta tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

DEFAULT = "spark.sql.sources.default"


@pytest.fixture
def by_default(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(DEFAULT, "delta")
    yield spark
    spark.conf.unset(DEFAULT)
    spark.sql("DROP TABLE IF EXISTS by_default")


MAKES = {
    "create": [
        "CREATE TABLE by_default (id LONG NOT NULL, g LONG GENERATED ALWAYS AS (id + 1))",
        "INSERT INTO by_default (id) VALUES (1)",
    ],
    "create if it is not there": [
        "CREATE TABLE IF NOT EXISTS by_default (id LONG)",
        "INSERT INTO by_default (id) VALUES (1)",
    ],
    "create as select": ["CREATE TABLE by_default AS SELECT 1L AS id"],
    "create or replace": [
        "CREATE TABLE by_default (x STRING)",
        "CREATE OR REPLACE TABLE by_default AS SELECT 1L AS id",
    ],
    "replace": [
        "CREATE TABLE by_default (x STRING)",
        "REPLACE TABLE by_default (id LONG)",
        "INSERT INTO by_default VALUES (1)",
    ],
}


@pytest.mark.parametrize("statements", MAKES.values(), ids=MAKES)
def test_a_statement_without_using_makes_a_delta_table(by_default: SparkSession, statements: list[str]) -> None:
    for statement in statements:
        by_default.sql(statement)
    assert by_default.sql("DESCRIBE DETAIL by_default").head().format == "delta"
    assert [row.id for row in by_default.table("by_default").collect()] == [1]


def test_a_write_without_format_makes_a_delta_table(by_default: SparkSession) -> None:
    by_default.range(1, 2).writeTo("by_default").create()
    by_default.range(1, 2).writeTo("by_default").createOrReplace()
    assert by_default.sql("DESCRIBE DETAIL by_default").head().format == "delta"


def test_other_formats_stay_what_they_are(by_default: SparkSession) -> None:
    by_default.sql("CREATE TABLE by_default (id LONG) USING parquet")
    assert (
        by_default.sql("DESCRIBE TABLE EXTENDED by_default").where("col_name = 'Provider'").head().data_type
        == "parquet"
    )
