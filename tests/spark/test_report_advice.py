"""The statements that a report advises run in Spark as they are, on a table with any name and any column, and do what
the report says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.table.report.advice import Advice, advice
from tahoe.table.report.figures import Figures, Unneeded

NAME = "a `b` 'c' <d>"


def filled(path: Path, *, partitioned: bool) -> tahoe.Table:
    """Twenty small files, of which half have no statistics, in one partition or in two."""
    table = tahoe.Table(str(path / NAME))
    properties = {"delta.columnMapping.mode": "name", "delta.dataSkippingNumIndexedCols": "2"}
    for number in range(20):
        rows = pa.table({NAME: [0, number, 100], "p " + NAME: ["x", "y", "y"]})
        table.append(
            rows, properties=properties if number == 0 else None, partition_by=["p " + NAME] if partitioned else None
        )
    return table


def told(figures: Figures, title: str) -> Advice:
    return next(found for found in advice(figures) if found.title == title)


def run(spark: SparkSession, found: Advice) -> None:
    for statement in found.sql.split(";\n"):
        spark.sql(statement)


def test_maintenance_does_what_was_told(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path, partitioned=False)
    figures = table.report().figures
    run(spark, told(replace(figures, files_without_statistics=1), "Compute missing statistics"))
    run(spark, told(figures, "Combine small files"))
    assert table.report().figures.files == 1
    assert figures.upkeep is not None
    freed = replace(figures.upkeep, unneeded=Unneeded(files=20, size_bytes=10**9, retention_hours=168))
    run(spark, told(replace(figures, upkeep=freed), "Delete files that nothing needs"))
    assert [entry["operation"] for entry in table.history()[:3]] == ["VACUUM END", "VACUUM START", "OPTIMIZE"]


def large(figures: Figures) -> Figures:
    """As of a table so large that ordering its rows pays, that OPTIMIZE leaves alone, and by whose columns little is
    skipped.
    """
    skips_little = [
        replace(column, range_skipped=0.1) for column in figures.skipping.columns if not column.is_partition
    ]
    figures = replace(figures, skipping=replace(figures.skipping, columns=skips_little))
    return replace(figures, files=10_000, upkeep=figures.upkeep and replace(figures.upkeep, compaction="not planned"))


@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_are_ordered_by_the_column_that_was_told(spark: SparkSession, tmp_path: Path, partitioned: bool) -> None:
    table = filled(tmp_path, partitioned=partitioned)
    run(spark, told(large(table.report().figures), "Order rows by the columns that queries filter by"))
    assert table.to_arrow().num_rows == 60
    last = next(entry for entry in table.history() if entry["operation"] == "OPTIMIZE")
    assert "d>" in last["operationParameters"]["zOrderBy" if partitioned else "clusterBy"]
    assert table.snapshot().clustering_columns == (() if partitioned else ((NAME,),))


def test_partitions_become_clustering_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path, partitioned=True)
    figures = table.report().figures
    assert figures.partitions is not None
    run(spark, told(replace(figures, partitions=replace(figures.partitions, count=1000)), "Use fewer partitions"))
    snapshot = table.snapshot()
    assert (snapshot.partition_columns, snapshot.clustering_columns) == ((), (("p " + NAME,),))
    assert snapshot.to_arrow().num_rows == 60
    assert snapshot.properties["delta.columnMapping.mode"] == "name"
