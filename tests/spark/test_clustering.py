"""ZORDER BY and OPTIMIZE of clustered tables in Spark: statements, builder, settings, result rows, and both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import (
    ClusteringWithPredicateError,
    ClusteringWithZOrderError,
    InvalidOptionError,
    OptimizeFullNotSupportedError,
    UnsupportedOperationError,
    ZOrderColumnNotFoundError,
    ZOrderPartitionColumnError,
    ZOrderStatisticsError,
)
from tahoe.spark.layout import optimize
from tahoe.table.verify.check import check_version

PREFIX = "spark.databricks.delta.optimize."


@pytest.fixture
def table(spark: SparkSession, path: str) -> str:
    """Rows of many types in two partitions, with deletion vectors, row ids and mapped columns."""
    rows = spark.range(3000).selectExpr(
        "id",
        "cast(id % 2 as int) as p",
        "cast(hash(id) % 1000 as decimal(9,2)) as a",
        "if(id % 11 = 0, null, named_struct('b', concat('s', hash(id, 1)), 'l', array(map('k', id)))) as `n.s`",
        "timestamp_seconds(hash(id, 2)) as t",
        "if(id % 50 = 0, double('nan'), hash(id, 3) / 7) as x",
        "parse_json(concat('{\"a\":', id, '}')) as v",
        "id * 3 as __tahoe_part",  # a name that the layout uses
    )
    writer = rows.repartition(3).write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true")
    writer.option("delta.enableRowTracking", "true").option("delta.columnMapping.mode", "name").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 17 = 4")
    return path


def rows(spark: SparkSession, path: str) -> list[Row]:
    columns = (
        "id, p, a, to_json(`n.s`), t, to_json(v), cast(x as string), __tahoe_part, _metadata.row_id, "
        "_metadata.row_commit_version"
    )
    return sorted(spark.sql(f"SELECT {columns} FROM delta.`{path}`").collect())


@pytest.fixture
def settings(spark: SparkSession) -> Any:
    changed: list[str] = []

    def change(name: str, value: str) -> None:
        changed.append(name)
        spark.conf.set(name, value)

    yield change
    for name in changed:
        spark.conf.unset(name)


def test_the_statement_orders_rows_once(spark: SparkSession, table: str, settings: Any) -> None:
    settings(PREFIX + "maxFileSize", "20kb")
    before, files = rows(spark, table), Table(table).files().num_rows
    (row,) = spark.sql(f"OPTIMIZE delta.`{table}` WHERE p = 1 ZORDER BY (a, `n.s`.b)").collect()
    assert rows(spark, table) == before
    metrics = row.metrics.asDict(recursive=True)
    removed = {"num": metrics["numFilesRemoved"], "size": metrics["filesRemoved"]["totalSize"]}
    assert (metrics["partitionsOptimized"], metrics["totalConsideredFiles"], removed["num"]) == (
        1,
        files // 2,
        files // 2,
    )
    assert metrics["zOrderStats"] == {
        "strategyName": "all",
        "inputCubeFiles": {"num": 0, "size": 0},
        "inputOtherFiles": removed,
        "inputNumCubes": 0,
        "mergedFiles": removed,
        "numOutputCubes": 1,
        "mergedNumCubes": None,
    }
    assert (metrics["clusteringStats"], metrics["filesAdded"]["totalFiles"] > 1) == (None, True)
    history = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert (history.operation, history.operationParameters["zOrderBy"]) == ("OPTIMIZE", '["a","`n.s`.b"]')
    again = (
        DeltaTable.forPath(spark, table)
        .optimize()
        .where("p = 1")
        .executeZOrderBy(["a", "`n.s`.b"])
        .collect()[0]
        .metrics
    )
    assert (again.numFilesRemoved, again.zOrderStats) == (0, None)
    assert list(check_version(Table(table).snapshot())) == []


@pytest.mark.parametrize("columns", [["a", "x"], ["t"]], ids="-".join)
@pytest.mark.parametrize("reason", ["far", "unreadable"])
def test_sparks_engine_does_the_same(
    spark: SparkSession, table: str, columns: list[str], reason: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "far":
        monkeypatch.setattr(optimize, "DRIVER_BYTES_MAX", -1)
        monkeypatch.setattr(optimize, "is_local", lambda spark: False)
    else:
        refused = UnsupportedOperationError(operation="Reading", table="t", detail="shredded", remedy="Use Spark.")
        monkeypatch.setattr(optimize, "lay_out_in_threads", lambda plan, bins: [refused] * len(bins))
    settings(PREFIX + "maxFileSize", "15kb")
    if reason == "unreadable":
        settings("spark.sql.files.maxRecordsPerFile", "100")
    before = rows(spark, table)
    DeltaTable.forPath(spark, table).optimize().executeZOrderBy(*columns)
    assert rows(spark, table) == before
    files = Table(table).files()
    assert files.num_rows > 6
    if reason == "unreadable":
        assert max(files["num_records"].to_pylist()) == 100
    ordered = Table(table).snapshot()
    assert {(add.tags or {}).get("ZCUBE_ZORDER_BY") for add in ordered.live.adds()} == {
        str(columns).replace("'", '"').replace(" ", "")
    }
    assert list(check_version(ordered)) == []
    column = columns[0]
    values = [
        row[0] for row in spark.sql(f"SELECT cast({column} as string) FROM delta.`{table}` WHERE id % 60 = 1").collect()
    ]
    kind = "timestamp" if column == "t" else "decimal(9,2)"
    read = [
        Table(table).files(f"{column} = cast('{value}' as {kind})").num_rows / files.num_rows
        for value in values
        if column == "a"
    ]
    assert not read or np.mean(read) < 0.5
    if len(columns) == 1:
        file = Path(table, files["path"].to_pylist()[0].replace("%20", " "))
        name = Table(table).schema.find("t").metadata["delta.columnMapping.physicalName"]  # type: ignore[union-attr]
        moments = [row[0] for row in spark.read.parquet(str(file)).select(f"`{name}`").collect()]
        assert moments == sorted(moments)


def test_refusals_name_the_reason(spark: SparkSession, table: str, settings: Any) -> None:
    optimizing = DeltaTable.forPath(spark, table).optimize
    for error, columns in [
        (ZOrderPartitionColumnError, "p"),
        (ZOrderColumnNotFoundError, "nothing"),
        (ZOrderColumnNotFoundError, "n.s.b"),
        (ZOrderStatisticsError, "v"),
    ]:
        with pytest.raises(error):
            optimizing().executeZOrderBy(columns)
    with pytest.raises(OptimizeFullNotSupportedError):
        spark.sql(f"OPTIMIZE delta.`{table}` FULL")
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id')")
    with pytest.raises(ZOrderStatisticsError, match="checkStatsCollection"):
        spark.sql(f"OPTIMIZE delta.`{table}` ZORDER BY a")
    settings(PREFIX + "zorder.checkStatsCollection.enabled", "false")
    assert spark.sql(f"OPTIMIZE delta.`{table}` ZORDER BY a").collect()[0].metrics.numFilesAdded == 2


def test_a_clustered_table(spark: SparkSession, path: str, settings: Any) -> None:
    spark.sql(f"CREATE TABLE delta.`{path}` (id LONG, s STRUCT<f: STRING>) USING delta CLUSTER BY (s.f, id)")
    insert = f"INSERT INTO delta.`{path}` SELECT id, named_struct('f', cast(hash(id) AS STRING)) FROM range({{}}, {{}})"
    spark.sql(insert.format(0, 5000))
    settings(PREFIX + "maxFileSize", "20kb")
    first = spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0].metrics.asDict(recursive=True)
    removed = {"numFiles": first["numFilesRemoved"], "size": first["filesRemoved"]["totalSize"]}
    assert (first["zOrderStats"], first["numFilesAdded"] > 2) == (None, True)
    assert first["clusteringStats"] == {
        "inputZCubeFiles": {"numFiles": 0, "size": 0},
        "inputOtherFiles": removed,
        "inputNumZCubes": 0,
        "mergedFiles": removed,
        "numOutputZCubes": 1,
    }
    tagged = list(Table(path).snapshot().live.adds())
    assert {(add.tags or {})["ZCUBE_ZORDER_BY"] for add in tagged} == {'["s.f","id"]'}
    for start in (5000, 5100):
        spark.sql(insert.format(start, start + 100))
    second = spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0].metrics.clusteringStats
    assert (second.inputNumZCubes, second.inputZCubeFiles.numFiles, second.inputOtherFiles.numFiles > 1) == (0, 0, True)
    full = spark.sql(f"OPTIMIZE delta.`{path}` FULL").collect()[0].metrics.clusteringStats
    assert (full.inputNumZCubes, full.inputOtherFiles.numFiles, full.numOutputZCubes) == (2, 0, 1)
    history = DeltaTable.forPath(spark, path).history(1).collect()[0].operationParameters
    assert (history["clusterBy"], history["zOrderBy"], history["isFull"]) == ('["s.f","id"]', "[]", "true")
    assert spark.read.format("delta").load(path).selectExpr("sum(id)", "count(1)").collect() == [
        (sum(range(5200)), 5200)
    ]
    with pytest.raises(ClusteringWithPredicateError, match="id"):
        spark.sql(f"OPTIMIZE delta.`{path}` WHERE id = 1")
    with pytest.raises(ClusteringWithZOrderError):
        spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (id)")
    settings(PREFIX + "clustering.mergeStrategy.minCubeSize.threshold", "big")
    with pytest.raises(InvalidOptionError, match="minCubeSize"):
        spark.sql(f"OPTIMIZE delta.`{path}`")


def test_a_partitioned_table_becomes_a_clustered_one(spark: SparkSession, path: str) -> None:
    spark.range(1000).selectExpr("id", "id % 4 as p").write.format("delta").partitionBy("p").save(path)
    source = f"{path}-source"
    spark.read.format("delta").load(path).write.format("delta").save(source)
    spark.sql(f"REPLACE TABLE delta.`{path}` USING delta CLUSTER BY (p, id) AS SELECT * FROM delta.`{source}`")
    files = Table(path).files().num_rows
    assert spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0].metrics.clusteringStats.mergedFiles.numFiles == files
    snapshot = Table(path).snapshot()
    assert (snapshot.partition_columns, {add.clustering_provider for add in snapshot.live.adds()}) == ((), {"liquid"})
    assert spark.read.format("delta").load(path).selectExpr("sum(id)", "sum(p)").collect() == [(499500, 1500)]
