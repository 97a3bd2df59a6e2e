"""Bloom filters by SQL: which files have them, and that lookups read less, in whatever way a file was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

import tahoe
from tahoe.errors import BloomFilterColumnError, BloomFilterOptionError, NoBloomFilterError, StatementSyntaxError
from tahoe.protocol.configuration.bloom_filters import BloomFilter
from tahoe.spark.layout import optimize
from tahoe.spark.writing.bloom_filters import filter_settings

PROPERTY = "tahoe.bloomFilters"


def numbers(spark: SparkSession, start: int, count: int = 200) -> DataFrame:
    """Ids that lie all over the range, so that bounds leave out no file."""
    return spark.range(start, start + count).selectExpr(
        "cast(pmod(hash(id) * 7919L, 1000000007) as long) AS id",
        "uuid() AS random",
        "md5(cast(id AS string)) AS text",
        "cast(id AS decimal(20, 2)) AS price",
        "named_struct('x', md5(concat('x', id)), 'y', id) AS s",
        "timestamp_micros(hash(id)) AS at",
        "cast(id % 2 AS int) AS part",
    )


COLUMNS = "id, text (fpp = 0.001), price, s.x (numItems = 500), at"
IN_FILES = {"id", "text", "price", "s.x", "at"}


def filtered(path: Path) -> dict[str, set[str]]:
    """For each live file the columns of which every row group has a filter."""
    found = {}
    for file in tahoe.Table(str(path)).files()["path"].to_pylist():
        footer = pq.ParquetFile(path / file).metadata
        groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
        chunks = [
            {g.column(n).path_in_schema for n in range(g.num_columns) if g.column(n).bloom_filter_offset is not None}
            for g in groups
        ]
        found[file] = set.intersection(*chunks)
    return found


def rows_read(frame: DataFrame) -> int:
    """How many rows Spark's Parquet reader has produced, before Spark filters them."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    found, waiting = 0, [plan]
    while waiting:
        node = waiting.pop()
        if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            waiting.append(node.executedPlan())
            continue
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            found += node.metrics().apply("numOutputRows").value()
        children = node.children()
        waiting += [children.apply(n) for n in range(children.size())]
    return int(found)


@pytest.mark.sparks_reader
def test_spark_writes_filters_of_the_right_size_and_reads_by_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id long, text string, price decimal(20, 2), s struct<x: string, y: long>, "
        f"at timestamp) USING delta"
    )
    spark.sql(
        f"CREATE BLOOMFILTER INDEX ON TABLE delta.`{path}` FOR COLUMNS (id, text OPTIONS (fpp = 0.001), price, s.x "
        "OPTIONS (numItems = 500, fpp = 0.01), at) OPTIONS (fpp 0.01)"
    )
    assert spark.sql(f"SHOW TBLPROPERTIES delta.`{path}` ('{PROPERTY}')").collect()[0][1] == COLUMNS
    for start in (0, 1000, 2000):
        numbers(spark, start).drop("random", "part").coalesce(1).write.format("delta").mode("append").save(str(path))
    assert list(filtered(path).values()) == [IN_FILES] * 3
    footer = pq.ParquetFile(path / next(iter(filtered(path)))).metadata.row_group(0)
    sizes = {footer.column(n).path_in_schema: footer.column(n).bloom_filter_length for n in range(footer.num_columns)}
    assert all(sizes[name] < 5000 for name in IN_FILES), sizes
    spark.read.format("delta").load(str(path)).createOrReplaceTempView("filtered")
    wanted = spark.sql("SELECT * FROM filtered").orderBy("text").limit(3).collect()[1]
    moment = wanted["at"].strftime("%Y-%m-%d %H:%M:%S.%f")
    conditions = [
        f"id = {wanted['id']}",
        f"id IN ({wanted['id']}, 12345678901)",
        f"text = '{wanted['text']}'",
        f"price = {wanted['price']}",
        f"s.x = '{wanted['s']['x']}'",
        f"at = timestamp'{moment}'",
    ]
    for condition in conditions:
        found = spark.sql(f"SELECT * FROM filtered WHERE {condition}")
        assert found.count() == 1, condition
        assert rows_read(found) <= 200, condition
    assert rows_read(spark.sql("SELECT * FROM filtered WHERE text = 'none'")) == 0
    spark.conf.set("parquet.filter.bloom.enabled", "false")
    try:
        assert rows_read(spark.sql("SELECT id, at FROM filtered WHERE text = '8888'")) > 0
    finally:
        spark.conf.unset("parquet.filter.bloom.enabled")


def test_every_writer_writes_filters(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    numbers(spark, 0).write.format("delta").partitionBy("part").options(**options).save(str(path))
    table = f"delta.`{path}`"
    spark.sql(f"CREATE BLOOMFILTER INDEX ON {table} FOR COLUMNS (id, text)")
    physical = {
        tahoe.Table(str(path)).snapshot().schema.find(name).metadata["delta.columnMapping.physicalName"]
        for name in ("id", "text")
    }
    had = set(filtered(path))
    spark.sql(f"UPDATE {table} SET price = price + 1 WHERE price < 20")
    source = f"(SELECT * FROM {table}) s"
    spark.sql(
        f"MERGE INTO {table} t USING {source} ON t.id = s.id WHEN MATCHED AND s.price > 150 THEN UPDATE SET price = 1"
    )
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 10")
    tahoe.Table(str(path)).append(tahoe.Table(str(path)).to_arrow().slice(0, 5))
    written = {file: columns for file, columns in filtered(path).items() if file not in had}
    assert len(written) >= 4
    assert set(map(frozenset, written.values())) == {frozenset(physical)}
    change = next(path.glob("_change_data/**/*.parquet"))
    row_group = pq.ParquetFile(change).metadata.row_group(0)
    assert all(row_group.column(n).bloom_filter_offset is None for n in range(row_group.num_columns))


@pytest.mark.parametrize("by", ["arrow", "spark"])
def test_reorg_adds_filters_to_old_files(
    by: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    vectors = {"delta.enableDeletionVectors": "true"}
    for start in (0, 1000):
        rows = numbers(spark, start).coalesce(1)
        rows.write.format("delta").partitionBy("part").mode("append").options(**vectors).save(str(path))
        vectors = {}
    spark.sql(f"CREATE BLOOMFILTER INDEX ON {table} FOR COLUMNS (id)")
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    monkeypatch.setattr(optimize, "WRITES_BLOOM_FILTERS", by == "arrow")
    expected = spark.table(table).orderBy("random").collect()
    assert list(filtered(path).values()) == [set()] * 4
    removed = [
        spark.sql(f"REORG TABLE {table} {where} APPLY (BLOOMFILTER)").collect()[0]["metrics"]["numFilesRemoved"]
        for where in ("WHERE part = 0", "", "")
    ]
    assert removed == [2, 2, 0]
    assert list(filtered(path).values()) == [{"id"}] * 4
    assert spark.table(table).orderBy("random").collect() == expected


EVERY_TYPE = {
    "b": "cast(id - 50 AS tinyint)",
    "sh": "cast(id * 100 - 5000 AS smallint)",
    "i": "cast(hash(id) AS int)",
    "l": "xxhash64(id)",
    "d5": "cast(id - 50 AS decimal(5, 2))",
    "d15": "cast(id * 1000001 - 50000000 AS decimal(15, 3))",
    "d30": "cast((id - 50) * cast(1000000000000 AS decimal(20, 0)) AS decimal(30, 5))",
    "t": "concat('é', id)",
    "c": "concat('c', id)",
    "bin": "unhex(md5(cast(id AS string)))",
    "day": "date_add(date'1582-10-01', cast(id AS int))",
    "at": "timestamp_micros(hash(id))",
    "ntz": "cast(timestamp_micros(hash(id) * 7L) AS timestamp_ntz)",
}


@pytest.mark.parametrize("by", ["arrow", "spark"])
def test_filters_lose_no_row_of_any_type(by: str, spark: SparkSession, tmp_path: Path) -> None:
    """A filter without the bytes that a lookup computes would leave out rows that are there."""
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    rows = spark.range(100).selectExpr(*(f"{sql} AS {name}" for name, sql in EVERY_TYPE.items()))
    definition = {PROPERTY: ", ".join(EVERY_TYPE), "delta.enableTypeWidening": "true"}
    columns = ", ".join(f"{f.name} {'char(5)' if f.name == 'c' else f.dataType.simpleString()}" for f in rows.schema)
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in definition.items())
    spark.sql(f"CREATE TABLE {table} ({columns}) USING delta TBLPROPERTIES ({properties})")
    rows.coalesce(1).write.format("delta").mode("append").save(str(path))
    if by == "arrow":
        everything = tahoe.Table(str(path)).to_arrow()
        spark.sql(f"TRUNCATE TABLE {table}")
        tahoe.Table(str(path)).append(everything)
    (columns_with,) = filtered(path).values()
    assert columns_with >= set(EVERY_TYPE) - {"b"}
    for column, wider in (("b", "int"), ("i", "bigint"), ("d5", "decimal(9, 3)")):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {wider}")
    stored = spark.table(table)
    for name in EVERY_TYPE:
        kind = stored.schema[name].dataType
        for value in stored.select(name).limit(2).collect():
            assert stored.where(F.col(name) == F.lit(value[0]).cast(kind)).count() == 1, (name, value)


def test_definitions_are_dropped(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (id long, text string) USING delta TBLPROPERTIES ('{PROPERTY}' = 'id, text')")
    spark.sql(f"DROP BLOOMFILTER INDEX ON TABLE {table} FOR COLUMNS (ID)")
    assert tahoe.Table(str(tmp_path / "t")).snapshot().properties[PROPERTY] == "text"
    spark.sql(f"DROP BLOOMFILTER INDEX ON {table}")
    assert PROPERTY not in tahoe.Table(str(tmp_path / "t")).snapshot().properties


def test_wrong_statements_are_refused_in_the_callers_words(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (id long, `a.b` string, f double, part int) USING delta PARTITIONED BY (part)")
    for statement, error, told in [
        ("CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS (Idd)", BloomFilterColumnError, "Idd"),
        ("CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS (`A.b`)", BloomFilterColumnError, "`A.b`.* a dot"),
        ("CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS (f)", BloomFilterColumnError, "double"),
        ("CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS (part)", BloomFilterColumnError, "partitioned"),
        ("CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS (id OPTIONS (fpp = 1.5))", BloomFilterOptionError, "fpp = 1.5"),
        (
            "CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS (id) OPTIONS (maxExpectedFpp = 1)",
            BloomFilterOptionError,
            "maxExpectedFpp",
        ),
        ("CREATE BLOOMFILTER INDEX ON {t} FOR COLUMNS id", StatementSyntaxError, "id"),
        ("DROP BLOOMFILTER INDEX ON {t} FOR COLUMNS (id)", NoBloomFilterError, "id"),
        ("EXPLAIN DROP BLOOMFILTER ON {t}", StatementSyntaxError, "INDEX"),
    ]:
        with pytest.raises(error, match=told):
            spark.sql(statement.format(t=table))
    assert tahoe.Table(str(tmp_path / "t")).version == 0


def test_sparks_writer_is_told_the_size_of_filters() -> None:
    assert filter_settings({}) == {}
    sized = filter_settings({"a": BloomFilter(path=("a",), num_items=50_000_000, fpp=0.01)})
    assert sized["parquet.bloom.filter.expected.ndv#a"] == "50000000"
    assert int(sized["parquet.bloom.filter.max.bytes"]) == 64 << 20
    assert filter_settings({"a": BloomFilter(path=("a",), num_items=1 << 60)})["parquet.bloom.filter.max.bytes"] == str(
        128 << 20
    )
    unsized = filter_settings({"s.x": BloomFilter(path=("s", "x"))})
    assert unsized["parquet.bloom.filter.adaptive.enabled"] == "true"
    assert "parquet.bloom.filter.expected.ndv#s.x" not in unsized
