"""Writing files again without the rows that their deletion vectors mark, and what the protocol is raised to."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import InvalidOptionError, InvalidPropertyError
from tahoe.table.layout import optimize
from tahoe.table.verify.check import check_version
from tests.spark.builders import VECTORS, ids, make


def with_vectors(spark: SparkSession, path: str, *partitions: str) -> DeltaTable:
    """Twenty rows in files of five; of the first file one row is deleted, of the second four."""
    rows = spark.range(0, 20, 1, 4).selectExpr("id", "id div 10 as half")
    table = make(rows, path, {**VECTORS, "delta.enableRowTracking": "true"}, *partitions)
    table.delete("id = 2 or id in (5, 6, 7, 8)")
    return table


def test_purge_leaves_no_vector_and_changes_no_row(spark: SparkSession, path: str) -> None:
    table = with_vectors(spark, path)
    before = {r.id: r.row_id for r in table.toDF().selectExpr("id", "_metadata.row_id").collect()}
    done = table.reorg(purge=True).collect()[0]
    assert done.numFilesRemoved == 2
    assert not Table(path).snapshot().has_deletion_vectors
    assert {r.id: r.row_id for r in table.toDF().selectExpr("id", "_metadata.row_id").collect()} == before
    assert {r.version for r in table.toDF().selectExpr("_metadata.row_commit_version as version").collect()} == {0}
    assert table.history(1).collect()[0].operation == "REORG"
    assert list(check_version(Table(path).snapshot())) == []


def test_purge_of_files_with_many_deleted_rows(spark: SparkSession, path: str) -> None:
    table = with_vectors(spark, path)
    assert table.reorg(deletedShare=0.5).collect()[0].numFilesRemoved == 1
    assert table.reorg(deletedShare=0.5).collect()[0].numFilesRemoved == 0
    assert Table(path).snapshot().has_deletion_vectors
    assert ids(path) == [0, 1, 3, 4, *range(9, 20)]


def test_purge_of_some_partitions(spark: SparkSession, path: str) -> None:
    table = with_vectors(spark, path, "half")
    assert table.reorg("half = 1").collect()[0].numFilesRemoved == 0
    assert table.reorg("half = 0").collect()[0].numFilesRemoved == 2
    with pytest.raises(InvalidOptionError, match="only partition columns"):
        table.reorg("id = 1")
    with pytest.raises(InvalidOptionError, match="from 0 to 1"):
        table.reorg(deletedShare=5)


def test_rows_that_others_append_meanwhile_are_no_conflict(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, commit = with_vectors(spark, path), optimize._commit

    def after_an_append(*arguments: Any) -> int | None:
        monkeypatch.setattr(optimize, "_commit", commit)
        spark.range(100, 101).selectExpr("id", "0L as half").write.format("delta").mode("append").save(path)
        with Table(path).transaction() as changes:
            changes.delete("id = 15")
        return commit(*arguments)

    monkeypatch.setattr(optimize, "_commit", after_an_append)
    table.reorg()
    assert ids(path) == [0, 1, 3, 4, *range(9, 15), *range(16, 20), 100]


def test_protocol_upgrades(spark: SparkSession, path: str) -> None:
    table = make(spark.range(10), path, {})
    table.upgradeTableProtocol(1, 3)
    assert (Table(path).protocol.reader_version, Table(path).protocol.writer_version) == (1, 3)
    table.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in (Table(path).protocol.reader_features or ())
    with pytest.raises(InvalidPropertyError, match="nope"):
        table.addFeatureSupport("nope")
    with pytest.raises(ValueError, match="readerVersion needs to be an integer"):
        table.upgradeTableProtocol("1", 3)  # type: ignore[arg-type]
