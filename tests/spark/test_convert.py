"""CONVERT TO DELTA and GENERATE in Spark: rows stay the same, and catalog entries become those of Delta tables."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import IntegerType, StructField, StructType

import tahoe
from tahoe import DeltaTable
from tahoe.errors import (
    CatalogPropertiesMismatchError,
    EmptyFolderError,
    ManifestModeError,
    NoCatalogPartitionError,
    NoProviderToConvertError,
    NotADeltaTableError,
    NotParquetTableError,
    OperationNotAllowedError,
    PartitionSchemaOfCatalogError,
    TableNotFoundError,
    UnexpectedPartitionCountError,
)
from tahoe.spark.ddl import conversion

ROWS = """
    SELECT id, IF(id % 4 = 0, NULL, concat('n', id)) AS name, CAST(id AS FLOAT) / 3 AS f, CAST(id % 2 AS DECIMAL(9, 2)) AS d,
        named_struct('x', id, 'l', array(id)) AS s, timestamp_micros(id * 1000001) AS t, CAST(id % 3 AS SMALLINT) AS n,
        IF(id % 3 = 2, NULL, concat('a/b %', id % 3)) AS p, date_add(DATE'2026-01-01', CAST(id % 2 AS INT)) AS day
    FROM range(0, 12, 1, 2)"""


def rows(frame):
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("codec", ["INT96", "TIMESTAMP_MICROS"])
def test_a_path_has_the_same_rows_afterwards(spark, path, codec, setting):
    with setting("spark.sql.parquet.outputTimestampType", codec):
        spark.sql(ROWS).write.partitionBy("p", "day").parquet(path)
    plain = spark.read.parquet(path)
    before, schema = rows(plain), plain.schema
    assert spark.sql(f"CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (p STRING, day DATE)").collect() == []
    found = spark.read.format("delta").load(path)
    assert rows(found.select(*schema.names)) == before
    assert {f.name: f.dataType for f in found.schema} == {f.name: f.dataType for f in schema}
    for condition in (
        "name IS NULL",
        "f > 2",
        "p = 'a/b %1'",
        "p IS NULL AND d = 1",
        "s.x < 3",
        "t > TIMESTAMP_MICROS(5000000)",
        "n = 2",
    ):
        assert rows(found.where(condition).select(*schema.names)) == rows(plain.where(condition))
    spark.sql(ROWS).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 24
    again = spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    assert (again.collect(), tahoe.Table(path).version) == ([], 1)


@pytest.fixture
def setting(spark):
    """A context in which a setting of the session has a value."""

    @contextmanager
    def having(name, value):
        spark.conf.set(name, value)
        try:
            yield
        finally:
            spark.conf.unset(name)

    return having


@pytest.mark.parametrize("columns", ["p STRING", StructType([StructField("p", IntegerType())]), None])
def test_the_method_returns_the_table(spark, path, columns):
    spark.range(3).selectExpr("id", "1 AS p").write.partitionBy(*["p"] if columns else []).parquet(path)
    table = DeltaTable.convertToDelta(spark, f"parquet.`{path}`", columns)
    assert table.toDF().where("p = 1").count() == 3
    assert table.history().head().operation == "CONVERT"


def test_a_table_of_the_catalog_becomes_a_delta_table(spark, table_name, path):
    spark.sql(
        f"CREATE TABLE {table_name} USING parquet PARTITIONED BY (p, day) LOCATION '{path}' TBLPROPERTIES ('mine' "
        f"= '1') AS {ROWS}"
    )
    before = rows(spark.table(table_name))
    Path(path, "p=unknown").mkdir()  # no partition of the catalog: INSERT OVERWRITE may leave one behind
    Path(path, "p=unknown", "f.parquet").write_bytes(next(Path(path).rglob("*.parquet")).read_bytes())
    with pytest.raises(PartitionSchemaOfCatalogError):
        spark.sql(f"CONVERT TO DELTA {table_name} PARTITIONED BY (p INT)")
    spark.sql(f"CONVERT TO DELTA {table_name}")
    assert rows(spark.table(table_name)) == before
    detail = spark.sql(f"DESCRIBE DETAIL {table_name}").head()
    assert (detail.partitionColumns, detail.properties["mine"]) == (["p", "day"], "1")
    spark.sql(f"DELETE FROM {table_name} WHERE id < 6")
    assert spark.table(table_name).count() == 6
    assert "catalogTable" in spark.sql(f"DESCRIBE HISTORY {table_name}").where("version = 0").head().operationParameters
    assert DeltaTable.convertToDelta(spark, table_name).toDF().count() == 6


def test_a_conversion_that_was_cut_off_before_the_catalog_is_finished(spark, table_name, path):
    spark.sql(f"CREATE TABLE {table_name} USING parquet LOCATION '{path}' AS SELECT 1 AS id")
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    spark.sql(f"CONVERT TO DELTA {table_name}")
    assert spark.table(table_name).count() == 1
    assert tahoe.Table(path).version == 0
    spark.sql(f"INSERT INTO {table_name} VALUES (2)")
    assert tahoe.Table(path).version == 1


def test_properties_of_the_catalog_and_of_the_table_must_agree(spark, table_name, path, setting):
    spark.sql(f"CREATE TABLE {table_name} USING parquet LOCATION '{path}' TBLPROPERTIES ('a' = '1') AS SELECT 1 AS id")
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    with tahoe.Table(path).transaction() as changes:
        changes.set_properties({"a": "2"})
    with pytest.raises(CatalogPropertiesMismatchError):
        spark.sql(f"CONVERT TO DELTA {table_name}")
    with setting("spark.databricks.delta.convert.metadataCheck.enabled", "false"):
        spark.sql(f"CONVERT TO DELTA {table_name}")
    assert tahoe.Table(path).properties["a"] == "1"
    assert spark.sql(f"DESCRIBE HISTORY {table_name}").head().operation == "CONVERT"


def test_the_result_of_a_stream_is_what_its_log_says(spark, path, tmp_path):
    source = str(tmp_path / "source")
    spark.range(4).write.parquet(source)
    frame = spark.readStream.schema("id LONG").parquet(source)
    frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c")).trigger(
        availableNow=True
    ).start(path).awaitTermination()
    spark.range(9, 10).write.parquet(f"{path}-failed")
    failed = next(Path(f"{path}-failed").glob("*.parquet"))
    failed.rename(Path(path, failed.name))
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    assert sorted(row.id for row in spark.read.format("delta").load(path).collect()) == [0, 1, 2, 3]


def test_what_cannot_be_converted_says_why(spark, path, table_name):
    spark.range(1).write.parquet(path)
    spark.sql("CREATE OR REPLACE TEMP VIEW a_view AS SELECT 1")
    spark.sql(f"CREATE TABLE {table_name} (id INT, p INT) USING parquet PARTITIONED BY (p)")
    for text, error in {
        f"`{path}`": NoProviderToConvertError,
        f"csv.`{path}`": NotParquetTableError,
        f"iceberg.`{path}`": NotParquetTableError,
        f"delta.`{path}`": (NotADeltaTableError, TableNotFoundError),
        f"parquet.`{path}` PARTITIONED BY (p INT)": UnexpectedPartitionCountError,
        f"parquet.`{path}-nowhere`": EmptyFolderError,
        "a_view": OperationNotAllowedError,
        table_name: NoCatalogPartitionError,
        "no_such_table": AnalysisException,
    }.items():
        with pytest.raises(error):
            spark.sql(f"CONVERT TO DELTA {text}")
    assert not tahoe.Table(path).exists()


def test_many_footers_are_read_by_workers(spark, path, monkeypatch):
    spark.range(0, 6, 1, 6).write.parquet(path)
    monkeypatch.setattr(conversion, "DRIVER_FILES_MAX", 2)
    monkeypatch.setattr(conversion, "is_local", lambda _: False)
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    assert [add.stats is not None for add in tahoe.Table(path).snapshot().live.adds()] == [True] * 6
    assert spark.read.format("delta").load(path).where("id = 3").count() == 1


def test_generate_writes_manifests_that_list_the_rows(spark, path):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a b'), (2, NULL)")
    assert spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`").collect() == []
    for key, ids in {"p=a b": [1], "p=__HIVE_DEFAULT_PARTITION__": [2]}.items():
        files = [row.value for row in spark.read.text(f"{path}/_symlink_format_manifest/{key}/manifest").collect()]
        assert [row.id for row in spark.read.parquet(*files).collect()] == ids
    with pytest.raises(ManifestModeError):
        DeltaTable.forPath(spark, path).generate("hive")


def test_statements_keep_manifests_current(spark, path):
    on = "TBLPROPERTIES ('delta.compatibility.symlinkFormatManifest.enabled' = 'true')"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) {on}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE delta.`{path}` SET id = 3 WHERE p = 'a'")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE p = 'b'")
    files = [row.value for row in spark.read.text(f"{path}/_symlink_format_manifest/p=a/manifest").collect()]
    assert [row.id for row in spark.read.parquet(*files).collect()] == [3]
    assert not Path(path, "_symlink_format_manifest", "p=b").exists()
