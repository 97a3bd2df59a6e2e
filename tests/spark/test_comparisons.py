"""Every comparison with NaN, zeros, infinities and NULL is to a table what it is to Spark: reading, DELETE,
replaceWhere, data skipping.

The table of conditions is that of `tests/property/test_comparisons_law.py`, which has the same without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tests.property.comparisons import SCHEMA, conditions, rows

ROWS = rows()
TEXTS = [each.text for each in conditions()]
DATA = pa.Table.from_pylist(ROWS, schema=SCHEMA)
NEGATED_BETWEEN = "NOT (st.d BETWEEN 0.0D AND CAST('NaN' AS DOUBLE))"


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> Mapping[str, list[bool | None]]:
    """What Spark says of each condition for each row of a frame in memory, by the rows' keys."""
    spark.createDataFrame(ROWS, "k long, d double, e double, st struct<d: double>").createOrReplaceTempView("compared")
    found: dict[str, list[bool | None]] = {}
    for start in range(0, len(TEXTS), 500):
        part = TEXTS[start : start + 500]
        listed = (
            spark.table("compared")
            .selectExpr("k", f"array({', '.join(f'({text})' for text in part)}) AS a")
            .sort("k")
            .collect()
        )
        found |= {text: [row.a[n] for row in listed] for n, text in enumerate(part)}
    return found


@pytest.fixture(scope="module")
def url(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with a file for each row."""
    assert spark
    table = tahoe.Table(str(tmp_path_factory.mktemp("compared") / "t"))
    table.create(SCHEMA)
    with table.transaction() as transaction:
        for number in range(len(ROWS)):
            transaction.append(DATA.slice(number, 1))
    return table.url


def test_the_definition_is_that_of_spark(answers: Mapping[str, list[bool | None]]) -> None:
    wrong = [each.text for each in conditions() if answers[each.text] != [each.truth(row) for row in ROWS]]
    assert not wrong, (len(wrong), wrong[:5])


def test_queries_of_spark_find_the_rows_that_it_finds_in_memory(
    spark: SparkSession, url: str, answers: Mapping[str, list]
) -> None:
    """Spark optimises a condition before tahoe is asked which files may have rows for it."""
    chosen = [NEGATED_BETWEEN, *TEXTS[::61]]
    for text in chosen:
        found = sorted(row.k for row in spark.read.format("delta").load(url).where(text).select("k").collect())
        assert found == [k for k, answer in enumerate(answers[text]) if answer], text


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_delete_and_replace_where_of_spark_take_the_rows_that_it_finds(
    spark: SparkSession, tmp_path: Path, answers: Mapping[str, list], vectors: str
) -> None:
    for number, text in enumerate([NEGATED_BETWEEN, *TEXTS[::499]]):
        path = str(tmp_path / f"{number}")
        table = tahoe.Table(path)
        table.create(SCHEMA, properties={"delta.enableDeletionVectors": vectors})
        table.append(DATA)
        taken = [k for k, answer in enumerate(answers[text]) if answer]
        left = [k for k, answer in enumerate(answers[text]) if not answer]
        source = spark.read.format("delta").load(path).where(f"k IN ({', '.join(map(str, [*taken, -1]))})")
        source.write.format("delta").mode("overwrite").option("replaceWhere", text).save(path)
        assert sorted(tahoe.Table(path).to_arrow()["k"].to_pylist()) == sorted(taken + left), text
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {text}")
        assert sorted(tahoe.Table(path).to_arrow()["k"].to_pylist()) == left, text
