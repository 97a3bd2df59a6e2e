"""Literals at and beyond the ends of types: tahoe finds the rows that Spark finds, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaError
from tests.property.ends_of_types import BEYOND_SPARK, COLUMNS, DATA, INTEGERS, literals

FORMS = ["{c} = {v}", "{c} < {v}", "{c} >= {v}", "{c} <=> {v}", "{c} IN ({v})", "{c} NOT BETWEEN {v} AND {v}"]


@pytest.fixture(scope="module")
def ends(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tahoe.Table:
    table = tahoe.Table(str(tmp_path_factory.mktemp("ends") / "t"))
    table.append(DATA)
    spark.read.format("delta").load(table.url).cache().createOrReplaceTempView("ends")
    return table


def understood(spark: SparkSession, column: str) -> list[str]:
    """The conditions that Spark accepts."""
    accepted = []
    for literal in literals(column):
        if literal in BEYOND_SPARK:
            continue
        try:
            spark.table("ends").selectExpr(f"{column} = {literal}")
        except PySparkException:
            continue
        accepted += [form.format(c=column, v=literal) for form in FORMS]
    return accepted


def answers(spark: SparkSession, conditions: list[str]) -> Mapping[str, list[bool | None]]:
    """What Spark finds; without the conditions that fail when they are computed."""
    try:
        rows = (
            spark.table("ends")
            .selectExpr("k", f"array({', '.join(f'({each})' for each in conditions)}) AS a")
            .sort("k")
            .collect()
        )
        return {each: [row.a[number] for row in rows] for number, each in enumerate(conditions)}
    except PySparkException:
        middle = len(conditions) // 2
        return {} if not middle else {**answers(spark, conditions[:middle]), **answers(spark, conditions[middle:])}


@pytest.mark.parametrize("column", COLUMNS)
def test_the_same_rows_are_found(spark: SparkSession, ends: tahoe.Table, column: str) -> None:
    expected, wrong, refused = answers(spark, understood(spark, column)), {}, []
    # Spark replaces a comparison of an integer with a decimal beyond BIGINT by true, also where the integer is NULL.
    known = range(3) if column in INTEGERS else range(4)
    for condition, truths in expected.items():
        try:
            found = ends.to_arrow(["k"], filter=condition)["k"].to_pylist()
        except DeltaError:
            refused.append(condition)
            continue
        if [k for k in found if k in known] != [k for k in known if truths[k]]:
            wrong[condition] = (found, truths)
    assert expected
    assert not wrong
    assert all(" X'" in each or "(X'" in each for each in refused), refused  # a binary compared with a text


def test_deletions_in_spark_and_without_leave_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    for number, condition in enumerate(
        ["d10 < 9999999999999999999999999999BD", "dt < DATE'+10000-01-01'", "NOT (x < CAST('NaN' AS DOUBLE))"]
    ):
        left = []
        for name in ("with", "without"):
            table = tahoe.Table(str(tmp_path / f"{name}-{number}"))
            table.append(DATA)
            if name == "with":
                spark.sql(f"DELETE FROM delta.`{table.url}` WHERE {condition}")
            else:
                table.delete(condition)
            left.append(tahoe.Table(table.url).to_arrow(["k"])["k"].to_pylist())
        assert left[0] == left[1], condition
