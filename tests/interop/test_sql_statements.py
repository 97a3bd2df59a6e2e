"""Delta's own SQL statements beside the reference: the same columns, and the same values for the same table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tests.interop.reference import Reference, ReferenceFailure

PROPERTIES = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"


@pytest.fixture
def table(reference: Reference, tmp_path: Path) -> str:
    """A table of the reference's with a history: rows in two partitions, and one that a vector marks."""
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) COMMENT 'about it' "
        f"{PROPERTIES}",
        f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ CAST(id AS INT), IF(id < 5, 'a', 'b') FROM range(10)",
        f"DELETE FROM delta.`{path}` WHERE id = 3",
    )
    return path


def ours(spark: SparkSession, text: str) -> pa.Table:
    """The rows of a statement, as the reference's server makes them."""
    batches = spark.sql(text)._collect_as_arrow(empty_list_if_zero_records=False)
    return pa.Table.from_batches(batches)


def both(spark: SparkSession, reference: Reference, text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of ours and theirs, whose columns are the same."""
    mine, theirs = ours(spark, text), reference.sql(text)
    assert [(f.name, str(f.type)) for f in mine.schema] == [(f.name, str(f.type)) for f in theirs.schema]
    return mine.to_pylist(), theirs.to_pylist()


@pytest.mark.parametrize("text", ["DESCRIBE HISTORY delta.`{t}`", "DESC HISTORY '{t}' LIMIT 2"])
def test_the_history_is_the_same(spark: SparkSession, reference: Reference, table: str, text: str) -> None:
    mine, theirs = both(spark, reference, text.format(t=table))
    for rows in (mine, theirs):
        for row in rows:
            row["operationParameters"], row["operationMetrics"] = (
                sorted(row["operationParameters"]),
                sorted(row["operationMetrics"] or []),
            )
    assert mine == theirs


@pytest.mark.parametrize("text", ["DESCRIBE DETAIL delta.`{t}`", "DESC DETAIL '{t}'"])
def test_the_detail_is_the_same(spark: SparkSession, reference: Reference, table: str, text: str) -> None:
    mine, theirs = (rows[0] for rows in both(spark, reference, text.format(t=table)))
    assert mine.pop("location").replace("file://", "file:") == theirs.pop("location")
    for row in (mine, theirs):
        row["properties"] = sorted(row["properties"])
    assert mine == theirs


def test_a_table_of_the_catalog_goes_by_the_same_name(spark: SparkSession, reference: Reference) -> None:
    named = "CREATE TABLE sql_named (id INT) USING delta"
    reference.run(named)
    spark.sql(named)
    try:
        mine, theirs = (rows[0] for rows in both(spark, reference, "DESCRIBE DETAIL sql_named"))
        assert mine["name"] == theirs["name"]
    finally:
        reference.run("DROP TABLE sql_named")
        spark.sql("DROP TABLE sql_named")


@pytest.mark.parametrize("where", ["", "WHERE p = 'a' ", "WHERE p = 'b' "])
def test_purge_answers_the_same(spark: SparkSession, reference: Reference, table: str, where: str) -> None:
    copy = table + "-copy"
    shutil.copytree(table, copy)
    mine = ours(spark, f"REORG TABLE delta.`{copy}` {where}APPLY (PURGE)")
    theirs = reference.sql(f"REORG TABLE delta.`{table}` {where}APPLY (PURGE)")
    assert mine.schema.equals(theirs.schema)
    [[found], [expected]] = (rows.column("metrics").to_pylist() for rows in (mine, theirs))
    for metrics in (found, expected):
        # the reference has no end, no tasks and no order of rows to tell
        for name in (
            "startTimeMs",
            "endTimeMs",
            "totalClusterParallelism",
            "totalScheduledTasks",
            "numBins",
            "preserveInsertionOrder",
        ):
            metrics.pop(name)
        added = metrics.pop("filesAdded")
        metrics["filesAdded"] = (added["totalFiles"], added["min"] is None)  # another writer's files have other sizes
    assert found == expected
    assert reference.sql(f"SELECT count(*) AS n FROM delta.`{copy}`").to_pylist() == [{"n": 9}]


def test_a_purge_by_another_column_is_refused_by_both(spark: SparkSession, reference: Reference, table: str) -> None:
    text = f"REORG TABLE delta.`{table}` WHERE id = 1 APPLY (PURGE)"
    with pytest.raises(ReferenceFailure):
        reference.sql(text)
    with pytest.raises(tahoe.errors.InvalidOptionError):
        spark.sql(text)


@pytest.mark.parametrize(
    "call",
    [
        "table_changes('delta.`{t}`', 0)",
        "table_changes_by_path('{t}', 1, 1)",
        "table_changes_by_path('{t}', 2)",
        "table_changes_by_path('{t}', '2020-01-01')",
        "table_changes_by_path('{t}', TIMESTAMP'2020-01-01', 2)",
    ],
)
def test_table_changes_are_the_same(spark: SparkSession, reference: Reference, table: str, call: str) -> None:
    text = f"SELECT * FROM {call.format(t=table)} ORDER BY _commit_version, id"
    mine, theirs = both(spark, reference, text)
    assert mine == theirs
    assert mine


@pytest.mark.parametrize(
    ("start", "step", "given"), [(1, 1, [10, 4]), (5, 3, [12, 13]), (0, -2, [-7, 8]), (10, 1, [3])]
)
def test_identity_columns_count_on_from_the_same_value(
    spark: SparkSession, reference: Reference, tmp_path: Path, start: int, step: int, given: list[int]
) -> None:
    path, copy = str(tmp_path / "t"), str(tmp_path / "copy")
    columns = [{"name": "v", "type": "int"}, {"name": "k", "type": "long", "identity": {"start": start, "step": step}}]
    reference.create(path, columns)
    reference.run(f"INSERT INTO delta.`{path}` VALUES {', '.join(f'(0, {k})' for k in given)}")
    shutil.copytree(path, copy)
    reference.run(f"ALTER TABLE delta.`{path}` ALTER COLUMN k SYNC IDENTITY")
    spark.sql(f"ALTER TABLE delta.`{copy}` ALTER COLUMN k SYNC IDENTITY")
    marks = [
        tahoe.Table(p).snapshot().schema.find("k").metadata.get("delta.identity.highWaterMark") for p in (path, copy)
    ]  # type: ignore[union-attr]
    assert marks[0] == marks[1]


def test_the_reference_reads_a_feature_that_was_added(spark: SparkSession, reference: Reference, table: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{table}` ADD FEATURE domainMetadata")
    [detail] = reference.sql(f"DESCRIBE DETAIL delta.`{table}`").to_pylist()
    assert "domainMetadata" in detail["tableFeatures"]


def test_the_reference_goes_on_after_vectors_were_dropped(
    spark: SparkSession, reference: Reference, table: str
) -> None:
    spark.sql(f"ALTER TABLE delta.`{table}` DROP FEATURE deletionVectors")
    reference.run(f"INSERT INTO delta.`{table}` VALUES (100, 'c')")
    assert reference.sql(f"SELECT count(*) AS n FROM delta.`{table}`").to_pylist() == [{"n": 10}]
