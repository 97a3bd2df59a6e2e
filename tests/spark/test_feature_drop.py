"""Giving table features up whose traces are in data files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRs
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import DeltaAnalysisError, FeatureInUseError, FeatureNotPresentError, InvalidColumnNameError
from tahoe.protocol.configuration.features import supported_features
from tahoe.spark.dml.row_changes import RowChange
from tahoe.table.verify.check import check_version
from tests.spark.builders import VECTORS, make


def features(path: str) -> frozenset[str]:
    return supported_features(Table(path).protocol)


def test_a_table_without_the_feature_is_read_by_old_readers(spark: SparkSession, path: str) -> None:
    make(spark.range(10), path, VECTORS).delete("id < 5")
    table = DeltaTable.forPath(spark, path)
    table.dropFeatureSupport("deletionVectors")
    protocol = Table(path).protocol
    assert protocol.reader_version == 1
    assert protocol.writer_features == {"appendOnly", "invariants", "checkpointProtection"}
    version = int(Table(path).properties["delta.requireCheckpointProtectionBeforeVersion"])
    assert version == Table(path).version
    assert Path(path, "_delta_log", f"{version:020}.checkpoint.parquet").exists()
    assert sorted(DeltaRs(path).to_pyarrow_table()["id"].to_pylist()) == [5, 6, 7, 8, 9]
    table.delete("id = 5")  # without vectors now
    assert not Table(path).snapshot().has_deletion_vectors
    assert list(check_version(Table(path).snapshot())) == []


def test_files_get_the_names_of_their_columns(spark: SparkSession, path: str) -> None:
    rows = spark.range(6).selectExpr(
        "id", "named_struct('x', id, 'l', array(named_struct('y', id))) as s", "id % 2 as p"
    )
    table = make(rows, path, {**VECTORS, "delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"}, "p")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO key")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN s.x TO z")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN p TO part")
    table.delete("key = 3")
    before = {
        row.key: row
        for row in spark.read.format("delta")
        .load(path)
        .selectExpr("*", "_metadata.row_id", "_metadata.row_commit_version")
        .collect()
    }
    spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE columnMapping")
    after = {
        row.key: row
        for row in spark.read.format("delta")
        .load(path)
        .selectExpr("*", "_metadata.row_id", "_metadata.row_commit_version")
        .collect()
    }
    assert after == before
    assert {"columnMapping", "checkpointProtection"} & features(path) == {"checkpointProtection"}
    left = [name for name in Table(path).properties if name.startswith("delta.columnMapping")]
    assert left == ["delta.columnMapping.maxColumnId"]  # no id is assigned twice
    assert all(not field.metadata for field in Table(path).schema)
    for add in Table(path).snapshot().live.adds():
        assert {"key", "s"} <= set(pq.read_schema(Path(path) / add.path).names)
        assert "/" not in add.path or add.path.startswith("part=")
    assert list(check_version(Table(path).snapshot())) == []
    assert spark.read.format("delta").option("versionAsOf", 1).load(path).count() == 6


def test_names_that_files_cannot_have_are_refused_first(spark: SparkSession, path: str) -> None:
    table = make(spark.range(6).withColumnRenamed("id", "a b"), path, {"delta.columnMapping.mode": "name"})
    with pytest.raises(InvalidColumnNameError, match="a b"):
        table.dropFeatureSupport("columnMapping")
    assert Table(path).version == 0


def test_a_clustered_table_keeps_its_column_mapping(spark: SparkSession, path: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id LONG) USING delta CLUSTER BY (id) TBLPROPERTIES "
        f"('delta.columnMapping.mode' = 'name')"
    )
    with pytest.raises(FeatureInUseError, match="CLUSTER BY NONE"):
        DeltaTable.forPath(spark, path).dropFeatureSupport("columnMapping")


def test_rows_that_come_while_files_are_renamed_are_a_conflict(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, commit = make(spark.range(6), path, {"delta.columnMapping.mode": "name"}), RowChange.commit

    def after_an_append(self: RowChange, *arguments: object, **named: object) -> None:
        monkeypatch.setattr(RowChange, "commit", commit)
        spark.range(100, 101).write.format("delta").mode("append").save(path)
        commit(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(RowChange, "commit", after_an_append)
    with pytest.raises(Exception, match="added"):
        table.dropFeatureSupport("columnMapping")
    table.dropFeatureSupport("columnMapping")
    assert sorted(row.id for row in spark.read.format("delta").load(path).collect()) == [0, 1, 2, 3, 4, 5, 100]


def test_only_files_of_other_types_are_written_again(spark: SparkSession, path: str) -> None:
    table = make(
        spark.range(3).selectExpr("int(id) as a", "array(int(id)) as l", "id % 2 as p"),
        path,
        {"delta.enableTypeWidening": "true"},
        "p",
    )
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN a TYPE BIGINT")
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN l.element TYPE BIGINT")
    spark.range(5_000_000_000, 5_000_000_002).selectExpr("id as a", "array(id) as l", "9L as p").write.format(
        "delta"
    ).mode("append").save(path)
    kept = {add.path for add in Table(path).snapshot().live.adds() if "p=9" in add.path}
    rows = sorted(table.toDF().collect())
    table.dropFeatureSupport("typeWidening")
    assert sorted(spark.read.format("delta").load(path).collect()) == rows
    assert kept <= {add.path for add in Table(path).snapshot().live.adds()}
    assert all(not field.metadata for field in Table(path).schema)
    assert not {"typeWidening", "typeWidening-preview"} & features(path)
    assert sorted(DeltaRs(path).to_pyarrow_table()["a"].to_pylist()) == [0, 1, 2, 5_000_000_000, 5_000_000_001]
    assert {
        str(pq.read_schema(Path(path) / add.path).field("a").type) for add in Table(path).snapshot().live.adds()
    } == {"int64"}


def test_a_widened_column_may_have_a_dot_in_its_name(spark: SparkSession, path: str) -> None:
    table = make(spark.range(3).selectExpr("int(id) as `a.b`", "id as a"), path, {"delta.enableTypeWidening": "true"})
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN `a.b` TYPE BIGINT")
    table.dropFeatureSupport("typeWidening")
    assert {
        str(pq.read_schema(Path(path) / add.path).field("a.b").type) for add in Table(path).snapshot().live.adds()
    } == {"int64"}
    assert sorted(row["a.b"] for row in spark.read.format("delta").load(path).collect()) == [0, 1, 2]


def test_errors_reach_the_user_of_spark_as_such(spark: SparkSession, path: str) -> None:
    table = make(spark.range(10), path, VECTORS)
    with pytest.raises(FeatureNotPresentError, match="does not support it"):
        table.dropFeatureSupport("columnMapping")
    with pytest.raises(DeltaAnalysisError, match="DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"):
        spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE deletionVectors TRUNCATE HISTORY")
    with pytest.raises(DeltaAnalysisError, match="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"):
        spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE nope")
