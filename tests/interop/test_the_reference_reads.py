"""What tahoe writes, in every mode, type and partitioning, the reference reads equal; and each goes on where the other
stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tests.interop.builders import save
from tests.interop.reference import Reference
from tests.interop.rows import assert_same, spark_rows
from tests.interop.tables import ALL_TYPES, NESTED, NUMBERED, SPECIAL_TEXTS

Write = Callable[[SparkSession, str], DataFrame]
WRITES: dict[str, Write] = {}


def write(make: Write) -> Write:
    """Register a way to write. It returns the rows that the table must have."""
    WRITES[make.__name__] = make
    return make


# --- types and partitions


@write
def all_types(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(ALL_TYPES)
    save(rows, path)
    return rows


@write
def all_types_without_statistics(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(ALL_TYPES)
    save(rows, path, **{"delta.dataSkippingNumIndexedCols": "0"})
    return rows


@write
def nested(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NESTED)
    save(rows, path)
    return rows


@write
def variant(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql("SELECT id, if(id = 3, null, parse_json(concat('{\"a\": ', id, '}'))) AS v FROM range(5)")
    save(rows, path)
    return rows


@write
def no_rows(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(f"SELECT * FROM ({NUMBERED}) WHERE false")
    save(rows, path)
    return rows


@write
def partitioned_by_every_type(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(
        f"SELECT * EXCEPT (bin), monotonically_increasing_id() AS id FROM ({ALL_TYPES}) WHERE text IS NULL OR "
        f"text <> ''"
    )
    save(rows, path, by="b, s, i, l, f, d, dec9, dec38, flag, text, day, ts, ntz")
    return rows


@write
def partitioned_by_special_texts(spark: SparkSession, path: str) -> DataFrame:
    texts = [text.replace("''", "'").replace("\\\\", "\\") for text in SPECIAL_TEXTS]
    rows = spark.createDataFrame([*enumerate(texts), (100, None)], "id INT, text STRING")
    save(rows, path, by="text")
    return rows


@write
def partitioned_by_an_empty_text(spark: SparkSession, path: str) -> DataFrame:
    save(spark.sql("SELECT 1 AS id, '' AS text UNION ALL SELECT 2, 'x'"), path, by="text")
    return spark.sql("SELECT 1 AS id, CAST(null AS STRING) AS text UNION ALL SELECT 2, 'x'")


@write
def long_texts(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(
        "SELECT id, repeat(char(65 + id), 100) AS text, repeat('\\ud83d\\ude00', 40) AS wide FROM range(26)"
    )
    save(rows, path)
    return rows


@write
def timestamps_written_in_another_zone(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql("SELECT TIMESTAMP'2024-03-10 02:30:00Z' AS ts, TIMESTAMP'2024-11-03 01:30:00.000001Z' AS at")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        save(rows, path, by="at")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    return rows


# --- modes and options


@write
def append(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part")
    save(rows, path)
    return rows.union(rows)


@write
def overwrite(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part")
    save(rows.where("id < 10"), path, "overwrite")
    return rows.where("id < 10")


@write
def ignore(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, "ignore")
    save(rows, path, "ignore")
    return rows


@write
def merge_schema(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql("SELECT id, named_struct('x', id) AS s FROM range(3)")
    more = spark.sql("SELECT id, named_struct('x', id, 'y', 'new') AS s, 1.5D AS extra FROM range(10, 12)")
    save(rows, path)
    save(more, path, mergeSchema="true")
    return spark.sql(
        "SELECT id, named_struct('x', id, 'y', CAST(null AS STRING)) AS s, CAST(null AS DOUBLE) AS extra FROM range(3)"
    ).union(more)


@write
def overwrite_schema(spark: SparkSession, path: str) -> DataFrame:
    save(spark.sql(NUMBERED), path, by="part")
    rows = spark.sql("SELECT DATE'2024-01-01' AS day, 'only' AS text")
    save(rows, path, "overwrite", by="day", overwriteSchema="true")
    return rows


@write
def replace_where(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part")
    new = spark.sql("SELECT id, 'replaced' AS name, 1L AS part, 0.0D AS score FROM range(200, 205)")
    save(new, path, "overwrite", replaceWhere="part = 1")
    return rows.where("part <> 1").union(new)


@write
def dynamic_partition_overwrite(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part")
    new = spark.sql("SELECT id, 'replaced' AS name, 2L AS part, 0.0D AS score FROM range(200, 205)")
    save(new, path, "overwrite", partitionOverwriteMode="dynamic")
    return rows.where("part <> 2").union(new)


@write
def small_files(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, maxRecordsPerFile="7", userMetadata="why", txnAppId="app", txnVersion="1")
    save(rows, path, txnAppId="app", txnVersion="1")
    return rows


@write
def sql_statements(spark: SparkSession, path: str) -> DataFrame:
    spark.sql(f"CREATE TABLE delta.`{path}` (id LONG, name STRING, part INT) USING delta PARTITIONED BY (part)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', 1), (2, 'b', null)")
    spark.sql(f"INSERT INTO delta.`{path}` (part, id) VALUES (3, 3)")
    spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT id, name, part FROM delta.`{path}` WHERE id > 1")
    return spark.sql("SELECT 2L AS id, 'b' AS name, CAST(null AS INT) AS part UNION ALL SELECT 3L, null, 3")


@write
def table_builder(spark: SparkSession, path: str) -> DataFrame:
    table = (
        tahoe.DeltaTable.create(spark)
        .location(path)
        .addColumn("id", "LONG", nullable=False)
        .addColumn("name", "STRING", comment="who")
    )
    table.partitionedBy("name").property("delta.appendOnly", "true").execute()
    rows = spark.sql("SELECT 1L AS id, 'x' AS name")
    save(rows, path)
    return rows


# --- table features


@write
def column_mapping_name(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql("SELECT id, id AS `a b, (odd)`, named_struct('x y', id) AS s, id % 2 AS `p=q` FROM range(10)")
    save(rows, path, by="p=q", **{"delta.columnMapping.mode": "name"})
    save(rows, path)
    return rows.union(rows)


@write
def column_mapping_id(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NESTED)
    save(rows, path, **{"delta.columnMapping.mode": "id"})
    return rows


@write
def deletion_vectors_allowed(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, **{"delta.enableDeletionVectors": "true"})
    return rows


@write
def partitions_in_files(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part", **{"delta.feature.materializePartitionColumns": "supported"})
    return rows


@write
def for_iceberg(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part", **{"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"})
    return rows


@write
def for_iceberg_with_nested_columns(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql("SELECT id, array(array(id)) l, map(id, named_struct('a', array(id))) m FROM range(10)")
    save(rows, path, **{"delta.enableIcebergCompatV2": "true"})
    return rows


@write
def for_iceberg_3(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part", **{"delta.enableIcebergCompatV3": "true"})
    return rows


@write
def change_data_feed(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, **{"delta.enableChangeDataFeed": "true"})
    return rows


@write
def v2_checkpoints_asked_for(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, **{"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})
    for _ in range(3):
        save(rows, path)
    return rows.union(rows).union(rows).union(rows)


@write
def type_widening_allowed(spark: SparkSession, path: str) -> DataFrame:
    rows = spark.sql(NUMBERED)
    save(rows, path, **{"delta.enableTypeWidening": "true"})
    return rows


@pytest.mark.parametrize("name", WRITES)
def test_rows(name: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """The reference reads other rows than were written, or other types."""
    path = str(tmp_path / name)
    expected = spark_rows(WRITES[name](spark, path))
    assert_same(reference.read(path), expected)
    assert_same(spark_rows(spark.read.format("delta").load(path)), expected)
    assert_same(tahoe.Table(path).to_arrow(), expected)


@pytest.mark.parametrize("name", ["all_types", "nested", "append", "merge_schema", "column_mapping_name"])
def test_the_reference_goes_on(name: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """The reference cannot delete, rewrite, checkpoint or describe what tahoe wrote, or tahoe then reads it
    differently.
    """
    path = str(tmp_path / name)
    rows = spark_rows(WRITES[name](spark, path))
    key = rows.column_names[0]
    first, second, *_ = sorted(set(rows[key].drop_null().to_pylist()))
    reference.run(
        f"DELETE FROM delta.`{path}` WHERE `{key}` = {first}",
        f"OPTIMIZE delta.`{path}`",
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        f"'delta.checkpointInterval' = '1')",
        f"DELETE FROM delta.`{path}` WHERE `{key}` = {second}",
    )
    expected = reference.read(path)
    assert expected.num_rows <= rows.num_rows - 2
    assert_same(tahoe.Table(path).to_arrow(), expected)
    assert_same(spark_rows(spark.read.format("delta").load(path)), expected)
    history = reference.sql(f"DESCRIBE HISTORY delta.`{path}`").to_pylist()
    assert [commit["version"] for commit in history] == [commit["version"] for commit in tahoe.Table(path).history()]


@pytest.mark.parametrize(
    "name", ["all_types", "partitioned_by_every_type", "long_texts", "append", "column_mapping_name"]
)
def test_the_reference_skips_by_our_statistics(
    name: str, spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    """A statistic or partition value is wrong: the reference leaves out a file that has the row."""
    path = str(tmp_path / name)
    rows = WRITES[name](spark, path)
    for field in rows.schema.fields:
        kind = field.dataType.simpleString()
        if kind in ("boolean", "binary") or kind.startswith("struct"):
            continue
        column = f"`{field.name}`"
        bounds = rows.selectExpr(
            f"CAST(min({column}) AS STRING) AS least", f"CAST(max({column}) AS STRING) AS most"
        ).collect()[0]
        for bound in bounds:
            text = bound.replace("\\", "\\\\").replace("'", "\\'")
            condition = f"{column} = CAST('{text}' AS {kind})"
            found = reference.sql(f"SELECT count(*) AS n FROM delta.`{path}` WHERE {condition}").to_pylist()
            assert found == [{"n": rows.where(condition).count()}], condition
            assert found != [{"n": 0}], condition


def test_history_is_told_alike(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """What tahoe says of its commits is not what the reference expects: operation, parameters, metrics, user
    metadata.
    """
    path = str(tmp_path / "history")
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part", userMetadata="the first")
    save(rows.where("part = 1"), path, "overwrite", replaceWhere="part = 1")
    told = {commit["version"]: commit for commit in reference.sql(f"DESCRIBE HISTORY delta.`{path}`").to_pylist()}
    assert told[0]["userMetadata"] == "the first"
    assert dict(told[0]["operationParameters"])["partitionBy"] == '["part"]'
    assert dict(told[0]["operationMetrics"])["numOutputRows"] == "100"
    assert [told[version]["operation"] for version in (0, 1)] == ["WRITE", "WRITE"]
    assert [told[version]["readVersion"] for version in (0, 1)] == [None, 0]
    assert all(commit["engineInfo"].startswith("tahoe") or "tahoe" in commit["engineInfo"] for commit in told.values())


@pytest.mark.parametrize("by", [None, "part"])
def test_what_the_small_writer_appends(by: str | None, reference: Reference, tmp_path: Path) -> None:
    """Table.append writes files, statistics or a schema that the reference reads differently."""
    path = str(tmp_path / "appended")
    rows = reference.sql(ALL_TYPES).append_column("part", pa.array(["x", "y", None, "x"]))
    table = tahoe.Table(path)
    table.append(rows, partition_by=[by] if by else None)
    table.append(rows)
    assert_same(reference.read(path), pa.concat_tables([rows, rows]))
    nested = reference.sql(NESTED)
    tahoe.Table(path + " nested").append(nested)
    assert_same(reference.read(path + " nested"), nested)


def test_one_after_the_other(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """Two writers that take turns lose a commit of the other, past checkpoints of both."""
    path = str(tmp_path / "turns")
    rows = spark.sql("SELECT id, id % 3 AS part FROM range(5)")
    save(rows, path, by="part", **{"delta.checkpointInterval": "3"})
    for _ in range(3):
        save(rows, path)
        reference.run(f"INSERT INTO delta.`{path}` SELECT id, id % 3 FROM range(5)")
        tahoe.Table(path).append(spark_rows(rows))
    expected = pa.concat_tables([spark_rows(rows)] * 10)
    assert_same(reference.read(path), expected)
    assert_same(tahoe.Table(path).to_arrow(), expected)
    assert_same(spark_rows(spark.read.format("delta").load(path)), expected)
