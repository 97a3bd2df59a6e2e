"""Columns whose texts are compared by a collation: no file is left out wrongly, and every statement compares alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

import tahoe
from tahoe.errors import (
    CheckConstraintViolatedError,
    ConstraintDependsError,
    ReplaceWhereMismatchError,
    SchemaChangedError,
    UnsupportedDataTypeError,
    UnsupportedOperationError,
    UnsupportedWriterFeatureError,
)
from tahoe.spark.dml.row_changes import DmlTarget, RowChange
from tahoe.spark.dml.touched_rows import Search

VALUES = ["abc", "ABC", "xyz", "XYZ", "Abc", "mmm"]
CONDITIONS = [
    "s = 'ABC'",
    "s <=> 'abC'",
    "s in ('ABC', 'MMM')",
    "s >= 'ABC' and s < 'B'",
    "s > 'M' and s <= 'XYZ'",
    "s like 'AB%'",
    "startswith(s, 'AB')",
    "not s = 'abc'",
    "s <> 'ABC'",
    "s >= 'A' and s <= 'N'",
    "s collate utf8_binary = 'ABC'",
    "s is null",
]
LAYOUTS = {
    "plain": "",
    "partitioned": "partitioned by (s)",
    "clustered": "cluster by (s)",
    "mapped": "tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')",
}


def create(spark: SparkSession, path: str, layout: str = "plain") -> None:
    """A table with one file for each value."""
    spark.sql(f"create table delta.`{path}` (id int, s string collate utf8_lcase) using delta {LAYOUTS[layout]}")
    for number, value in enumerate(VALUES):
        spark.sql(f"insert into delta.`{path}` values ({number}, '{value}')")


def numbers(spark: SparkSession, query: str) -> list[int]:
    return sorted(row.id for row in spark.sql(query).collect())


def ids(spark: SparkSession, path: str, condition: str = "true") -> list[int]:
    return numbers(spark, f"select id from delta.`{path}` where {condition}")


def collations(path: str) -> Any:
    return json.loads(tahoe.Table(path).snapshot().metadata.schema_string)["fields"][1]["metadata"].get("__COLLATIONS")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_find_the_rows_that_spark_finds(spark: SparkSession, path: str, layout: str) -> None:
    create(spark, path, layout)
    rows = ", ".join(f"({number}, '{value}')" for number, value in enumerate(VALUES))
    given = f"(select id, s collate utf8_lcase as s from values {rows} as v(id, s))"
    for condition in CONDITIONS:
        expected = numbers(spark, f"select id from {given} where {condition}")
        assert ids(spark, path, condition) == expected, condition
    table = f"delta.`{path}`"
    first = spark.sql(f"select lower(min(s)), lower(max(s)), count(distinct s), count(s) from {table}").first()
    assert tuple(first or ()) == ("abc", "xyz", 3, 6)
    assert len(spark.sql(f"select s from {table} group by s").collect()) == 3
    assert {row.s.lower() for row in spark.sql(f"select s from {table} order by s limit 3").collect()} == {"abc"}
    keys = "(select collate(v, 'utf8_lcase') as v from values ('aBC'), ('XyZ') as k(v))"
    assert numbers(spark, f"select id from {table} join {keys} on s = v") == [0, 1, 2, 3, 4]
    assert numbers(spark, f"select id from {table} where s in (select v from {keys})") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_find_them_too(spark: SparkSession, path: str, layout: str) -> None:
    create(spark, path, layout)
    spark.sql(f"update delta.`{path}` set id = id + 100 where s = 'xYz'")
    assert ids(spark, path) == [0, 1, 4, 5, 102, 103]
    source = "(select 'aBc' collate utf8_lcase as s)"
    spark.sql(f"merge into delta.`{path}` t using {source} u on t.s = u.s when matched then update set id = id + 200")
    assert ids(spark, path) == [5, 102, 103, 200, 201, 204]
    spark.sql(f"delete from delta.`{path}` where s = 'ABc'")
    assert ids(spark, path) == [5, 102, 103]
    spark.sql(f"insert into delta.`{path}` replace where s = 'XYZ' values (7, 'xyZ')")
    assert ids(spark, path) == [5, 7]
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert ids(spark, path, "s = 'MMM'") == [5]


def test_conditions_of_writes_compare_by_the_collation(spark: SparkSession, path: str) -> None:
    create(spark, path)
    spark.sql(f"alter table delta.`{path}` add constraint c check (s <> 'QQQ')")
    frame = spark.createDataFrame([(9, "qqq")], "id int, s string")
    writes = [
        lambda: spark.sql(f"insert into delta.`{path}` values (9, 'qqq')"),
        lambda: spark.sql(f"update delta.`{path}` set s = 'qqq' where id = 1"),
        lambda: frame.write.format("delta").mode("append").save(path),
        lambda: spark.sql(
            f"merge into delta.`{path}` t using (select 9 id, 'qqq' s) u on t.id = u.id when not matched then insert *"
        ),
    ]
    for write in writes:
        with pytest.raises(CheckConstraintViolatedError, match="qqq"):
            write()
    replacing = frame.write.format("delta").mode("overwrite")
    with pytest.raises(ReplaceWhereMismatchError):
        replacing.option("replaceWhere", "s = 'abc'").save(path)
    with pytest.raises(UnsupportedOperationError, match="by a collation"):
        tahoe.Table(path).append(frame.toArrow())
    spark.sql(f"alter table delta.`{path}` drop constraint c")
    replacing.option("replaceWhere", "s = 'QQq'").save(path)
    assert ids(spark, path) == [0, 1, 2, 3, 4, 5, 9]


def test_a_column_keeps_its_collation_under_another_name(spark: SparkSession, path: str) -> None:
    create(spark, path, "mapped")
    spark.sql(f"alter table delta.`{path}` rename column s to t")
    assert collations(path) == {"t": "spark.UTF8_LCASE"}
    assert ids(spark, path, "t = 'ABC'") == [0, 1, 4]


def test_the_collation_of_a_column_can_change(spark: SparkSession, path: str) -> None:
    create(spark, path)
    spark.sql(f"alter table delta.`{path}` add constraint c check (s <> 'QQQ')")
    with pytest.raises(ConstraintDependsError):
        spark.sql(f"alter table delta.`{path}` alter column s type string collate unicode_ci")
    spark.sql(f"alter table delta.`{path}` drop constraint c")
    spark.sql(f"alter table delta.`{path}` alter column s type string collate unicode_ci")
    assert collations(path) == {"s": "icu.UNICODE_CI"}
    assert ids(spark, path, "s = 'ABC'") == [0, 1, 4]
    spark.sql(f"alter table delta.`{path}` alter column s type string collate utf8_binary")
    assert collations(path) is None
    assert ids(spark, path, "s = 'ABC'") == [1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_a_table_can_be_written_to_it(spark: SparkSession, path: str, layout: str) -> None:
    create(spark, path, layout)
    spark.sql(f"insert into delta.`{path}` select * from delta.`{path}` where id = 0")
    frame = spark.read.format("delta").load(path)
    frame.where("id = 1").write.format("delta").mode("append").save(path)
    assert ids(spark, path) == [0, 0, 1, 1, 2, 3, 4, 5]
    replacing = frame.where("id = 4").write.format("delta").mode("overwrite")
    replacing.option("replaceWhere", "s = 'ABC'").save(path)
    assert ids(spark, path) == [2, 3, 4, 5]
    frame.where("id > 3").write.format("delta").mode("overwrite").save(path)
    assert ids(spark, path) == [4, 5]
    assert collations(path) == {"s": "spark.UTF8_LCASE"}
    other = spark.sql("select 6 as id, 'x' collate unicode_ci as s")
    with pytest.raises(UnsupportedDataTypeError, match="UNICODE_CI"):
        other.write.format("delta").mode("append").save(path)


def test_the_conflict_check_compares_as_queries_do(spark: SparkSession, path: str) -> None:
    """A concurrent change of a row that the statement has read only by the collation was no conflict."""
    columns = "id int, s string collate utf8_lcase, st struct<c: string collate utf8_lcase>"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta")
    spark.sql(f"insert into delta.`{path}` values (1, 'abc', named_struct('c', 'abc'))")
    (file,) = tahoe.Table(path).snapshot().live.adds()
    for condition in (
        *("s = 'ABC'", "s in ('x', 'ABC')", "s like 'AB%'", "s >= 'ABC' and s <= 'B'"),
        *("st.c = 'ABC'", "st.c in ('x', 'ABC')", "startswith(st.c, 'AB')", "st.c >= 'ABC' and st.c <= 'B'"),
    ):
        with RowChange(DmlTarget(spark=spark, table=tahoe.Table(path))) as change:
            reads = Search(change, F.expr(condition)).reads
            assert reads.may_be_in(file), condition
            assert reads.are_in(file, None) is True, condition


@pytest.mark.parametrize(("before", "after"), [("utf8_lcase", "utf8_binary"), ("utf8_binary", "unicode_ci")])
@pytest.mark.parametrize("column", ["s", "st.c"])
def test_a_query_of_a_column_whose_collation_changed_must_be_made_again(
    spark: SparkSession, path: str, before: str, after: str, column: str
) -> None:
    """It left out files by the new collation, and compared rows by the old one."""
    columns = f"id int, s string collate {before}, st struct<c: string collate {before}>"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta")
    for number, value in enumerate(("abc", "ABC")):
        spark.sql(f"insert into delta.`{path}` values ({number}, '{value}', named_struct('c', '{value}'))")
    found = spark.table(f"delta.`{path}`").where(f"{column} = 'ABC'")
    spark.sql(f"alter table delta.`{path}` alter column {column} type string collate {after}")
    with pytest.raises(SchemaChangedError, match=f"{column} is different or missing"):
        found.collect()


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_partition_of_texts_that_are_equal_is_not_scattered_over_files(
    spark: SparkSession, path: str, vectors: str
) -> None:
    """Spark's writer sorts rows by the folders' values, and would begin a file wherever the spelling changes."""
    properties = f"tblproperties ('delta.enableDeletionVectors' = '{vectors}')"
    columns = "id int, s string collate utf8_lcase"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta partitioned by (s) {properties}")
    rows = "select cast(id as int) id, if(id % 2 = 0, 'a', 'A') collate utf8_lcase s from range(0, 40, 1, 1)"
    spark.sql(f"insert into delta.`{path}` {rows}")
    assert tahoe.Table(path).files().num_rows == 2
    spark.sql(f"update delta.`{path}` set id = id + 100 where s = 'a'")
    assert tahoe.Table(path).files().num_rows == 2
    assert ids(spark, path) == list(range(100, 140))
    assert ids(spark, path, "s collate utf8_binary = 'A'") == list(range(101, 140, 2))


def test_parts_of_a_column_get_another_collation(spark: SparkSession, path: str) -> None:
    """The statement was done, and changed nothing."""
    columns = "id int, m map<string, array<string>>, s struct<a: array<string collate unicode>>"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta")
    spark.sql(f"insert into delta.`{path}` values (1, map('K', array('V')), named_struct('a', array('X')))")
    keys, elements = "exists(map_keys(m), k -> k = 'k')", "exists(flatten(map_values(m)), v -> v = 'v')"
    parts = {"m.key": keys, "m.value.element": elements, "s.a.element": "exists(s.a, a -> a = 'x')"}
    for part, condition in parts.items():
        assert ids(spark, path, condition) == []
        spark.sql(f"alter table delta.`{path}` alter column {part} type string collate utf8_lcase")
        assert ids(spark, path, condition) == [1]
    assert collations(path) == {"m.key": "spark.UTF8_LCASE", "m.value.element": "spark.UTF8_LCASE"}
    spark.sql(f"alter table delta.`{path}` alter column m.key type string collate utf8_binary")
    assert collations(path) == {"m.value.element": "spark.UTF8_LCASE"}


def test_a_table_is_not_replaced_by_one_without_its_collations(spark: SparkSession, path: str) -> None:
    create(spark, path)
    with pytest.raises(UnsupportedDataTypeError, match="UTF8_LCASE"):
        spark.sql(f"create or replace table delta.`{path}` using delta as select * from delta.`{path}`")
    assert collations(path) == {"s": "spark.UTF8_LCASE"}


def test_a_stream_whose_columns_had_another_collation_reads_by_it(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    create(spark, path)
    rows = spark.readStream.format("delta").load(path).where("s = 'ABC'").select("id")
    spark.sql(f"alter table delta.`{path}` alter column s type string collate unicode")
    target = str(tmp_path / "target")
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "c"))
    writer.trigger(availableNow=True).start(target).awaitTermination()
    assert ids(spark, target) == [0, 1, 4]


def test_clones_have_it(spark: SparkSession, path: str, tmp_path: Path) -> None:
    create(spark, path)
    clone = str(tmp_path / "clone")
    spark.sql(f"create table delta.`{clone}` shallow clone delta.`{path}`")
    assert ids(spark, clone, "s = 'ABC'") == [0, 1, 4]


def test_generated_columns_do_not_use_such_columns(spark: SparkSession, path: str) -> None:
    generated = "k string generated always as (lower(s))"
    with pytest.raises(AnalysisException, match="collated"):
        spark.sql(f"create table delta.`{path}` (id int, s string collate utf8_lcase, {generated}) using delta")


def test_the_feature_of_other_writers_is_read_and_not_written(spark: SparkSession, path: str) -> None:
    create(spark, path)
    log = Path(path, "_delta_log")
    version = tahoe.Table(path).version
    features = ["appendOnly", "collations", "domainMetadata", "invariants"]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}
    domain = {"domain": "collations", "configuration": '{"writeVersions":{"icu.UNICODE":["75.1"]}}', "removed": False}
    lines = json.dumps(protocol), json.dumps({"domainMetadata": domain})
    Path(log, f"{version + 1:020}.json").write_text("\n".join(lines))
    assert ids(spark, path, "s = 'ABC'") == [0, 1, 4]
    with pytest.raises(UnsupportedWriterFeatureError, match="collations"):
        spark.sql(f"insert into delta.`{path}` values (9, 'abc')")
