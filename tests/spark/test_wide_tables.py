"""Statements on tables of many columns: the number of messages between Python and the JVM does not depend on the
columns.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

_FEED = "delta.enableChangeDataFeed = true"
_VECTORS = "delta.enableDeletionVectors = true"
_MERGE = "INTO {t} t USING {s} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize("properties", [f"{_VECTORS}", f"{_FEED}"])
@pytest.mark.parametrize(
    "statement",
    [
        f"MERGE {_MERGE}",
        f"MERGE WITH SCHEMA EVOLUTION {_MERGE}",
        "UPDATE {t} SET c1 = 7 WHERE id < 3",
        "DELETE FROM {t} WHERE id = 3",
        "INSERT INTO {t} SELECT * FROM {s}",
    ],
)
def test_a_statement_takes_as_many_messages_for_many_columns(
    spark: SparkSession, path: str, messages: list[str], statement: str, properties: str
) -> None:
    """With 150 messages for each column, a MERGE into a table of 2,000 columns took four times as long as the
    reference's.
    """
    sent = []
    for columns in (4, 5, 45):  # the first time, more is asked
        rows = spark.range(6).selectExpr("id", *[f"id c{number}" for number in range(columns)]).coalesce(1)
        table, source = (f"delta.`{path}/{name}-{columns}`" for name in ("table", "source"))
        rows.where("id < 4").createOrReplaceTempView("first_rows")
        spark.sql(f"CREATE TABLE {table} USING delta TBLPROPERTIES ({properties}) AS SELECT * FROM first_rows")
        rows.where("id > 1").write.format("delta").save(f"{path}/source-{columns}")
        messages.clear()
        spark.sql(statement.format(t=table, s=source))
        sent.append(len(messages))
    assert abs(sent[2] - sent[1]) < 40
