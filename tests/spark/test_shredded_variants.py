"""Shredded variants: which tables have them in their files, and that every operation keeps their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaError, UnsupportedOperationError

ROWS = """select id, case id % 4
    when 0 then parse_json('{"a": ' || id || ', "b": "' || id || '", "c": [1, {"d": 2}]}')
    when 1 then parse_json('{"a": "text", "e": 1.5}')
    when 2 then parse_json('null') end as v from range(0, 40, 1, 1)"""
READ = "select id, to_json(v) t from delta.`{}` order by id"
SHREDDED = "tblproperties ('delta.enableVariantShredding' = 'true')"
SETTINGS = {
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.inferShreddingSchema": "true",
    "spark.sql.variant.forceShreddingSchemaForTest": "a int, b string",
}


@pytest.fixture
def forced(spark: SparkSession) -> Iterator[None]:
    """A session in which Spark is told to shred."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in SETTINGS:
        spark.conf.unset(name)


def shredded(path: str) -> set[bool]:
    """Whether the variants in the files of the newest version are shredded."""
    files = tahoe.Table(path).snapshot().files()
    names = [Path(path, str(file)) for file in files.column("path").to_pylist()]
    return {pq.read_schema(name).field("v").type.get_field_index("typed_value") >= 0 for name in names}


def create(spark: SparkSession, path: str, properties: str = "") -> list[tuple[int, str | None]]:
    spark.sql(f"create table delta.`{path}` (id bigint, v variant) using delta {properties}")
    spark.sql(f"insert into delta.`{path}` {ROWS}")
    return [tuple(row) for row in spark.sql(f"select id, to_json(v) from ({ROWS}) order by id").collect()]


def read(spark: SparkSession, path: str) -> list[tuple[int, str | None]]:
    return [tuple(row) for row in spark.sql(READ.format(path)).collect()]


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("properties", ["", SHREDDED.replace("true", "false")])
def test_a_table_without_the_property_has_whole_variants(spark: SparkSession, path: str, properties: str) -> None:
    expected = create(spark, path, properties)
    spark.sql(f"update delta.`{path}` set id = id where id = 3")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert shredded(path) == {False}
    assert read(spark, path) == expected


def test_a_table_with_the_property_has_shredded_variants(spark: SparkSession, path: str) -> None:
    expected = create(spark, path, SHREDDED)
    assert shredded(path) == {True}
    assert read(spark, path) == expected


def test_the_property_counts_only_as_long_as_it_is_true(spark: SparkSession, path: str) -> None:
    create(spark, path, SHREDDED)
    spark.sql(f"alter table delta.`{path}` set tblproperties ('delta.enableVariantShredding' = 'false')")
    spark.sql(f"insert into delta.`{path}` {ROWS}")
    assert shredded(path) == {True, False}
    assert len(read(spark, path)) == 80


def test_a_session_may_forbid_shredding(spark: SparkSession, path: str) -> None:
    spark.conf.set("spark.sql.variant.writeShredding.enabled", "false")
    try:
        create(spark, path, SHREDDED)
    finally:
        spark.conf.unset("spark.sql.variant.writeShredding.enabled")
    assert shredded(path) == {False}


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_changes_keep_the_rows_of_shredded_files(spark: SparkSession, path: str, vectors: str) -> None:
    before = create(spark, path, SHREDDED[:-1] + f", 'delta.enableDeletionVectors' = '{vectors}')")
    expected = dict(before)
    spark.sql(f"delete from delta.`{path}` where v:a::string = '4'")
    del expected[4]
    changed = """parse_json('{"a": [true]}')"""
    spark.sql(f"update delta.`{path}` set v = {changed} where id = 5")
    expected[5] = '{"a":[true]}'
    source = """select 6L id, parse_json('{"a": 7}') v union all select 99L, parse_json('{"b": "new"}')"""
    spark.sql(
        f"merge into delta.`{path}` t using ({source}) s on t.id = s.id "
        "when matched then update set v = s.v when not matched then insert *"
    )
    expected |= {6: '{"a":7}', 99: '{"b":"new"}'}
    assert read(spark, path) == sorted(expected.items())
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert read(spark, path) == sorted(expected.items())
    assert shredded(path) == {True}


def test_streams_and_clones_keep_the_rows(spark: SparkSession, path: str, tmp_path: Path) -> None:
    expected = create(spark, path, SHREDDED)
    target, clone = str(tmp_path / "target"), str(tmp_path / "clone")
    stream = spark.readStream.format("delta").load(path).writeStream.format("delta")
    stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(target).awaitTermination()
    assert read(spark, target) == expected
    assert shredded(target) == {False}, "the target has not the property"
    spark.sql(f"create table delta.`{clone}` shallow clone delta.`{path}`")
    assert read(spark, clone) == expected


def test_a_query_of_a_field_reads_its_column_alone(spark: SparkSession, path: str) -> None:
    create(spark, path, SHREDDED)
    query = spark.sql(f"select id from delta.`{path}` where try_variant_get(v, '$.a', 'bigint') = 8")
    plan = query._jdf.queryExecution().executedPlan().toString()
    assert "v:struct<0:bigint" in plan.replace("`", ""), plan
    assert [row.id for row in query.collect()] == [8]


def test_without_spark_rows_with_variants_are_deleted_and_not_written(spark: SparkSession, path: str) -> None:
    """The error told of a struct that nobody had written, and of a cast that there is not."""
    create(spark, path, "tblproperties ('delta.enableDeletionVectors' = 'true')")
    table = tahoe.Table(path)
    with pytest.raises(UnsupportedOperationError, match=r"Writing variants without Spark's engine .* values of v"):
        table.update({"id": "-1"}, "id = 4")
    table.append(pa.table({"id": [100]}))
    assert table.delete("id < 4").deleted == 4
    assert table.count() == 37


def test_without_spark_shredded_variants_are_refused_by_name(spark: SparkSession, path: str) -> None:
    create(spark, path, SHREDDED)
    with pytest.raises(DeltaError, match="column v has shredded variants"):
        tahoe.Table(path).to_arrow()
    assert tahoe.Table(path).to_arrow(columns=["id"]).num_rows == 40
