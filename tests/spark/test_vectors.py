"""Rows that deletion vectors mark are gone from every query, and everything else stays as on plain Parquet."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import tahoe
from tahoe.errors import DeletionVectorError, SessionNotEnabledError, TableReplacedError
from tahoe.spark.jvm import table_cache
from tahoe.spark.reading import deletion_vectors, metadata_columns
from tahoe.table.log import live_files
from tests.spark.foreign import mark

pytestmark = [pytest.mark.usefixtures("tables", "scans"), pytest.mark.every_spark]

ROWS = 200


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """A table with marked rows in two of its four files, and its living rows as plain Parquet; both also as views `t`
    and `plain`.
    """
    folder = tmp_path_factory.mktemp("vectors")
    table, plain = str(folder / "t"), str(folder / "plain")
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        "id",
        "id % 2 as part",
        "named_struct('x', id, 'y', id * 100, 'z', named_struct('w', concat('w', id))) as a",
        "array(named_struct('e', id), named_struct('e', -id)) as l",
        "concat('s', id % 10) as s",
        "cast(id as double) / 7 as d",
    )
    for low in range(0, ROWS, ROWS // 2):
        rows.where(f"id >= {low} and id < {low + ROWS // 2}").write.format("delta").mode("append").partitionBy(
            "part"
        ).save(table)
    files = sorted(Path(table).rglob("*.parquet"))
    assert len(files) == 4
    mark(table, {0: [0, 3, 49], 2: range(40)}, stored=True)
    by_file = [
        sorted(r.id for r in spark.read.parquet(str(f)).select("id").collect())
        for f in sorted(files, key=lambda f: str(f))
    ]
    gone = {by_file[0][i] for i in (0, 3, 49)} | set(by_file[2][:40])
    rows.where(~rows.id.isin(list(gone))).write.partitionBy("part").parquet(plain)
    spark.read.format("delta").load(table).createOrReplaceTempView("t")
    spark.read.parquet(plain).select(spark.table("t").columns).createOrReplaceTempView("plain")
    yield table, plain
    for view in ("t", "plain"):
        spark.catalog.dropTempView(view)


def normal(frame: DataFrame) -> list[str]:
    return sorted(repr(row) for row in frame.collect())


def same(spark, query: str) -> None:
    assert normal(spark.sql(query.format(t="t"))) == normal(spark.sql(query.format(t="plain")))


def test_udfs_and_samples(spark):
    spark.udf.register("plus_one", lambda x: x + 1, "long")
    same(spark, "select plus_one(id) from {t} where plus_one(id) > 50 and part = 1")
    same(spark, "select count(*) from {t} tablesample (100 percent)")


def test_runtime_bloom_filters_read_the_marked_table(spark):
    # they are subqueries that Spark adds after subqueries were optimised
    names = [
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold",
        "spark.sql.adaptive.enabled",
    ]
    for name, value in zip(names, ("-1", "0", "false"), strict=True):
        spark.conf.set(name, value)
    try:
        query = "select count(*) from {t} x join (select id, s from {t} where s = 's3') y on x.id = y.id"
        plan = spark.sql(query.format(t="t"))._jdf.queryExecution().optimizedPlan().toString()
        assert "bloom" in plan.lower()
        same(spark, query)
    finally:
        for name in names:
            spark.conf.unset(name)


# --- _metadata


def test_metadata_of_marked_and_unmarked_files(spark, tables):
    table, _ = tables
    wanted = [
        "id",
        "_metadata.row_index as r",
        "_metadata.file_name as f",
        "_metadata.file_size as z",
        "_metadata as m",
    ]
    found = {row.id: row for row in spark.read.format("delta").load(table).selectExpr(*wanted).collect()}
    files = spark.read.parquet(*map(str, Path(table).rglob("*.parquet"))).selectExpr(*wanted)
    expected = {row.id: row for row in files.collect() if row.id in found}
    assert {i: (r.r, r.f, r.z, r.m.row_index) for i, r in found.items()} == {
        i: (r.r, r.f, r.z, r.m.row_index) for i, r in expected.items()
    }


def test_a_filter_on_metadata(spark, tables):
    table, _ = tables
    frame = spark.read.format("delta").load(table)
    name = Path(tahoe.Table(table).files()["url"].to_pylist()[0]).name
    assert (
        frame.where(f"_metadata.file_name = '{name}'").count()
        == spark.sql("select * from t").where(f"input_file_name() like '%{name}'").count()
    )


# --- what is read


def executed(frame: DataFrame) -> str:
    frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString()


def test_count_reads_no_column(spark):
    schemas = set(re.findall(r"ReadSchema: struct<(.*?)>", executed(spark.sql("select count(*) from t"))))
    assert schemas <= {"", "_tmp_metadata_row_index:bigint"}


def test_nested_columns_are_pruned(spark):
    assert "ReadSchema: struct<a:struct<y:bigint>" in executed(spark.sql("select a.y from t"))


@pytest.mark.sparks_reader  # a native scan that counts its rows takes no condition
def test_filters_reach_the_scan(spark):
    spark.conf.set("spark.sql.maxMetadataStringLength", "1000")
    plan = executed(spark.sql("select s from t where id > 150 and a.x < 180"))
    spark.conf.unset("spark.sql.maxMetadataStringLength")
    assert "GreaterThan(id,150)" in plan
    assert "LessThan(a.x,180)" in plan


def test_files_are_skipped_before_their_vectors_are_loaded(spark, monkeypatch):
    loaded = []
    load = deletion_vectors.load_deletion_vector
    monkeypatch.setattr(deletion_vectors, "load_deletion_vector", lambda *args: loaded.append(args) or load(*args))
    monkeypatch.setattr(deletion_vectors, "_recent_bitmaps", deletion_vectors.Recent(1))
    monkeypatch.setattr(deletion_vectors, "_recent_marks", deletion_vectors.Recent(1))
    assert spark.sql("select count(*) from t where part = 0").collect()[0][0] == 97
    assert len(loaded) == 1


def test_dynamic_partition_pruning_reaches_the_scan(spark):
    plan = executed(
        spark.sql("select count(*) from t f join (select distinct part from plain where id = 3) p on f.part = p.part")
    )
    assert "dynamicpruning" in plan


@pytest.fixture
def unadapted(spark):
    """Plans as they are before they run."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.sparks_reader
@pytest.mark.usefixtures("unadapted")
@pytest.mark.parametrize(("kept_in", "reused"), [("array", "ReusedSubquery"), ("bitmaps", "ReusedExchange")])
def test_what_is_sent_is_reused(spark, monkeypatch, kept_in, reused):
    if kept_in == "bitmaps":
        monkeypatch.setattr(deletion_vectors, "ARRAY_BYTES_MAX", 0)
        monkeypatch.setattr(deletion_vectors, "_recent_bitmaps", deletion_vectors.Recent(1))
    assert reused in executed(
        spark.sql("select s, sum(id) from t group by s union all select s, sum(d) from t group by s")
    )


@pytest.mark.sparks_reader
@pytest.mark.usefixtures("unadapted")
def test_files_without_a_vector_take_a_branch_of_their_own(spark):
    assert executed(spark.sql("select sum(id) from t")).count("FileScan parquet") == 2
    assert executed(spark.sql("select sum(id) from t where id > 190 and part = 1")).count("FileScan parquet") == 1


# --- larger and stranger vectors


def test_vectors_across_bitmaps_of_65536_rows(spark, path):
    rows = 200_000
    spark.range(0, rows, 1, 1).write.format("delta").save(path)
    gone = [0, 63, 64, 65_535, 65_536, 131_071, 131_072, rows - 1]
    mark(path, {0: gone})
    frame = spark.read.format("delta").load(path)
    assert frame.count() == rows - len(gone)
    assert frame.where(frame.id.isin(gone)).count() == 0
    assert frame.where(frame.id.isin([1, 62, 65, 65_534, 65_537, 131_070, 131_073])).count() == 7


def test_a_file_of_which_all_rows_are_marked(spark, path):
    spark.range(0, 10, 1, 1).write.format("delta").save(path)
    mark(path, {0: range(10)})
    assert spark.read.format("delta").load(path).count() == 0


def test_a_newer_vector_is_seen_and_an_older_version_has_its_own(spark, path):
    spark.range(0, 10, 1, 1).write.format("delta").save(path)
    frame = spark.read.format("delta").load(path)
    assert frame.count() == 10
    mark(path, {0: [1]})
    assert frame.count() == 9
    mark(path, {0: [1, 2]}, stored=True)
    assert frame.count() == 8
    counts = [spark.read.format("delta").option("versionAsOf", v).load(path).count() for v in range(3)]
    assert counts == [10, 9, 8]


def test_a_cached_dataframe_is_not_taken_for_a_version_with_a_newer_vector(spark, path):
    spark.range(0, 10, 1, 1).write.format("delta").save(path)
    cached = spark.read.format("delta").load(path).cache()
    assert cached.count() == 10
    mark(path, {0: [1]})
    assert spark.read.format("delta").load(path).count() == 9
    cached.unpersist()


def test_a_damaged_vector_is_an_error_and_brings_no_row_back(spark, path):
    spark.range(0, 10, 1, 1).write.format("delta").save(path)
    mark(path, {0: [1]}, stored=True)
    (file,) = Path(path).glob("deletion_vector_*.bin")
    data = bytearray(file.read_bytes())
    data[-1] ^= 255
    file.write_bytes(data)
    with pytest.raises(DeletionVectorError):
        spark.read.format("delta").load(path).count()


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("limit", "size_bytes", "operator"),
    [
        ("ARRAY_BYTES_MAX", 0, "BroadcastHashJoin"),
        pytest.param("BROADCAST_BYTES_MAX", deletion_vectors.CHUNK_BYTES, "ArrowEval", marks=pytest.mark.sparks_reader),
    ],
    ids=["past the array they are joined", "past the broadcast a function in the executors answers"],
)
def test_larger_bitmaps_reach_the_rows_otherwise(spark, tables, monkeypatch, limit, size_bytes, operator):
    monkeypatch.setattr(deletion_vectors, limit, size_bytes)
    monkeypatch.setattr(deletion_vectors, "_recent_bitmaps", deletion_vectors.Recent(1))
    frame = spark.read.format("delta").load(tables[0]).selectExpr("sum(a.y)", "count(*)", "max(_metadata.row_index)")
    assert operator in executed(frame)
    same(spark, "select sum(a.y), count(*) from {t} where part = 0")
    same(spark, "select * from {t} x join {t} y using (id)")


def test_without_the_rule_a_table_with_vectors_is_refused(spark, tables):
    # deleted rows must not come back where Spark asks for files without having asked for a plan
    files = spark.read.format("delta").load(tables[0])._jdf.queryExecution().analyzed().relation().location()
    nothing = spark._jvm.PythonUtils.toSeq([])
    with pytest.raises(SessionNotEnabledError):
        files.listFiles(nothing, nothing)


# --- the bitmaps themselves


def test_bitmaps_hold_exactly_the_rows():
    rows = np.array([0, 1, 63, 64, 65_535, 65_536, 5 * 65_536 + 7, (1 << 40) + 3], dtype=np.int64)
    chunks, words = deletion_vectors.bitmaps(rows)
    assert chunks.tolist() == [0, 1, 5, 1 << 24]
    found = [
        (int(chunk) << 16) | (word << 6) | bit
        for (chunk, line), word in itertools.product(
            zip(chunks, words, strict=True), range(deletion_vectors.CHUNK_WORDS)
        )
        for bit in range(64)
        if int(line[word]) >> bit & 1
    ]
    assert sorted(found) == rows.tolist()


def test_an_array_has_as_many_words_for_each_file_and_a_last_one_that_marks_nothing(monkeypatch):
    marked = [np.array([3, 70_000]), np.array([], dtype=np.int64), np.array([64])]
    found = [deletion_vectors.bitmaps(rows) for rows in marked]
    keys = np.concatenate(
        [(number << metadata_columns.ROW_BITS - 16) | chunks for number, (chunks, _) in enumerate(found)]
    )
    chunks = deletion_vectors.Chunks(keys, np.concatenate([words for _, words in found]).view(np.int64))
    lines = chunks.flat(len(marked))
    assert lines.shape == (3, 70_000 // 64 + 2)
    assert [np.flatnonzero(np.unpackbits(line.view(np.uint8), bitorder="little")).tolist() for line in lines] == [
        [3, 70_000],
        [],
        [64],
    ]
    monkeypatch.setattr(deletion_vectors, "ARRAY_BYTES_MAX", lines.nbytes - 1)
    assert chunks.flat(len(marked)) is None


@pytest.mark.parametrize("feed", [False, True], ids=["rows", "changes"])
def test_a_plan_that_runs_after_its_snapshot_was_evicted_reads_the_same_rows(spark, path, feed, monkeypatch):
    """Another snapshot of the version may list its files in another order."""
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    for start in range(0, 40, 10):
        tahoe.Table(path).append(spark.range(start, start + 10, 1, 1).toArrow(), properties=properties)
    mark(path, {0: [0], 1: [1, 2], 2: [3, 4, 5], 3: [6, 7, 8, 9]})
    listed = tahoe.Table(path).snapshot().live.column("path").to_pylist()
    options = {"readChangeFeed": "true", "startingVersion": "0"} if feed else {}
    expected, frame = (
        spark.read.format("delta").options(**options).load(path).drop("_commit_timestamp") for _ in range(2)
    )
    rows = normal(expected)
    frame._jdf.queryExecution().optimizedPlan()
    real = live_files.LiveFiles.column
    order = pa.array([2, 0, 3, 1])

    def in_another_order(self, name):
        column = real(self, name)
        return column.take(order) if len(column) == len(order) else column

    for cache in ("_tables", "_snapshots", "_feeds", "_scans"):
        monkeypatch.setattr(table_cache, cache, table_cache.Recent(16))
    monkeypatch.setattr(live_files.LiveFiles, "column", in_another_order)
    assert tahoe.Table(path).snapshot().live.column("path").to_pylist() == [
        listed[place] for place in order.to_pylist()
    ]
    assert normal(frame) == rows


def test_a_plan_does_not_run_on_the_table_that_replaced_its_own(spark, path, monkeypatch):
    tahoe.Table(path).append(spark.range(10).toArrow())
    frame = spark.read.format("delta").load(path)
    frame._jdf.queryExecution().optimizedPlan()
    shutil.rmtree(path)
    tahoe.Table(path).append(spark.range(10, 20).toArrow())
    monkeypatch.setattr(table_cache, "_snapshots", table_cache.Recent(16))
    with pytest.raises(TableReplacedError, match="the table was replaced after this query was planned: version 0 "):
        frame.collect()
    assert spark.read.format("delta").load(path).count() == 10
