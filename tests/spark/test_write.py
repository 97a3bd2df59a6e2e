"""`df.write.format("delta")`: what is written is what every reader reads, and what does not fit is refused before any
work.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PythonException, SparkRuntimeException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.testing.objects import ExamplePoint

import tahoe
from tahoe.errors import (
    AppendOnlyTableError,
    CheckConstraintViolatedError,
    ColumnNotFoundError,
    ConcurrentAppendException,
    DuplicateColumnsError,
    FieldsNotMergedError,
    InvalidColumnNameError,
    InvalidOptionError,
    InvalidPropertyError,
    NotNullViolationError,
    PartitionMismatchError,
    PathIsNotEmptyError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedDataTypeError,
    UnsupportedOperationError,
    WriteFailedError,
)
from tahoe.protocol.log.actions import Add, CommitInfo, Txn, decode_commit
from tahoe.spark.dml import write
from tahoe.table.writing.write_plan import WritePlan

NAN = float("nan")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def append(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("append").options(**options).save(path)


def overwrite(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("overwrite").options(**options).save(path)


def rows(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    """The rows as Spark reads them, in order."""
    return sorted((tuple(row) for row in spark.read.format("delta").load(path).collect()), key=repr)


def actions(path: str, version: int) -> list[Any]:
    return list(decode_commit(Path(path, "_delta_log", f"{version:020d}.json").read_bytes(), table=path, file="commit"))


def adds(path: str, version: int) -> list[Add]:
    return [action for action in actions(path, version) if isinstance(action, Add)]


def info(path: str, version: int) -> dict[str, Any]:
    return dict(next(action for action in actions(path, version) if isinstance(action, CommitInfo)).fields)


def data_files(path: str) -> set[str]:
    return {str(file.relative_to(path)) for file in Path(path).rglob("*.parquet") if "_delta_log" not in file.parts}


def comparable(value: Any) -> Any:
    """A value as text that is equal for equal values of different readers."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    return repr(value)


def assert_same_everywhere(spark: SparkSession, path: str) -> None:
    """Spark, the small reader and delta-rs read the same rows with the same types."""
    ours = tahoe.Table(path).to_arrow()
    theirs = deltalake.DeltaTable(path).to_pyarrow_table()
    assert [str(f.type) for f in ours.schema] == [str(f.type) for f in theirs.schema]
    spark_rows = spark.read.format("delta").load(path).toArrow().to_pylist()
    for found in (ours.to_pylist(), theirs.to_pylist()):
        assert sorted(map(repr, map(comparable, found))) == sorted(map(repr, map(comparable, spark_rows)))


# --- modes


def test_the_four_modes(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    append(spark.range(3, 5), path)
    assert [row[0] for row in rows(spark, path)] == [0, 1, 2, 3, 4]
    overwrite(spark.range(7, 9), path)
    assert [row[0] for row in rows(spark, path)] == [7, 8]
    spark.range(100).write.format("delta").mode("ignore").save(path)
    assert tahoe.Table(path).version == 2
    with pytest.raises(TableExistsError):
        spark.range(100).write.format("delta").mode("error").save(path)
    assert_same_everywhere(spark, path)


def test_an_error_can_be_caught_as_sparks_own(spark: SparkSession, path: str) -> None:
    spark.range(1).write.format("delta").save(path)
    with pytest.raises(AnalysisException):
        spark.range(1).write.format("delta").save(path)


def test_a_folder_with_other_files_is_not_taken_over(spark: SparkSession, path: str) -> None:
    # the parquet rows would seem to be lost
    spark.range(1).write.parquet(path)
    with pytest.raises(PathIsNotEmptyError):
        append(spark.range(1), path)


def test_a_write_without_rows_makes_a_table_without_files(spark: SparkSession, path: str) -> None:
    append(spark.range(5).where("id < 0"), path)
    assert adds(path, 0) == []
    assert data_files(path) == set()
    assert rows(spark, path) == []
    append(spark.range(2), path)
    append(spark.range(0), path)
    assert len(rows(spark, path)) == 2


def test_overwriting_a_table_with_what_is_read_from_it(spark: SparkSession, path: str) -> None:
    # the query must see the version before the overwrite, and its files must still be there
    append(spark.range(10), path)
    overwrite(spark.read.format("delta").load(path).where("id > 5"), path)
    assert [row[0] for row in rows(spark, path)] == [6, 7, 8, 9]
    append(spark.read.format("delta").load(path), path)
    assert len(rows(spark, path)) == 8


def test_plain_parquet_is_written_as_before(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.mode("overwrite").parquet(str(tmp_path / "p"))
    assert spark.read.parquet(str(tmp_path / "p")).count() == 3


# --- types

EVERY_TYPE = """
    select cast(id as byte) b, cast(id as short) s, cast(id as int) i, id l, cast(id / 3 as float) f, id / 3 d,
      cast(id as decimal(5,2)) d5, cast(id as decimal(15,3)) d15, cast(-id as decimal(38,10)) d38, id % 2 = 0 bool,
      concat('é', id) t, cast(cast(id as string) as binary) bin, date_add(date'2024-02-28', cast(id as int)) day,
      timestamp'2024-07-01 12:34:56.123456' + make_dt_interval(0, cast(id as int)) ts, timestamp_ntz'1969-12-31 23:59:59.999999' ntz,
      named_struct('x', id, 'y', named_struct('z', concat('n', id))) st, array(id, null, id + 1) arr,
      map('k', id, concat('l', id), null) m, array(named_struct('q', id)) sarr, map(id, named_struct('r', array(id))) smap
    from range(4) union all select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
      null, null, null"""


def test_every_type_comes_back_the_same(spark: SparkSession, path: str) -> None:
    frame = spark.sql(EVERY_TYPE)
    append(frame, path)
    back = spark.read.format("delta").load(path)
    assert [(f.name, f.dataType.simpleString()) for f in back.schema] == [
        (f.name, f.dataType.simpleString()) for f in frame.schema
    ]
    assert sorted(map(repr, map(comparable, back.collect()))) == sorted(map(repr, map(comparable, frame.collect())))
    assert_same_everywhere(spark, path)


def test_numbers_that_are_none_and_numbers_without_end(spark: SparkSession, path: str) -> None:
    frame = spark.createDataFrame(
        [(1, 1.0), (2, NAN), (3, float("inf")), (4, -0.0), (5, None)], "id int, f double"
    ).coalesce(1)
    append(frame, path)
    assert_same_everywhere(spark, path)
    # a NaN is above every number: bounds without it would skip the file that holds it
    assert "f" not in json.loads(adds(path, 0)[0].stats or "")["maxValues"]
    found = spark.read.format("delta").load(path)
    assert sorted(row.id for row in found.where("f > 1e300").collect()) == [2, 3]
    assert [row.id for row in found.where("f = double('NaN')").collect()] == [2]


def test_a_variant_is_stored_in_one_piece(spark: SparkSession, path: str) -> None:
    # Spark shreds variants by default, which needs another table feature
    append(spark.sql("""select parse_json('{"a": 1}') v union all select null"""), path)
    assert tahoe.Table(path).protocol.reader_features == frozenset({"variantType"})
    found = spark.read.format("delta").load(path).selectExpr("variant_get(v, '$.a', 'int') a").collect()
    assert sorted(row.a or 0 for row in found) == [0, 1]
    assert sum(json.loads(add.stats or "")["nullCount"]["v"] for add in adds(path, 0)) == 1


def stats(path: str) -> list[dict[str, Any]]:
    return [json.loads(add.stats or "") for add in adds(path, 0)]


WRITES = {
    "TIMESTAMP_NTZ asks for its feature": (
        "select timestamp_ntz'2024-01-01 00:00:00' n",
        {},
        lambda path: tahoe.Table(path).protocol.reader_features,
        {"timestampNtz"},
    ),
    "timestamps have statistics whatever the session writes": (
        "select timestamp'2024-07-01 12:34:56.123456 UTC' t",
        {},
        lambda path: stats(path)[0]["maxValues"],
        {"t": "2024-07-01T12:34:56.123Z"},
    ),
    "columns of data frames are nullable": (
        "select id from range(1)",
        {},
        lambda path: [field.nullable for field in tahoe.Table(path).schema],
        [True],
    ),
    "maxRecordsPerFile": (
        "select id from range(0, 10, 1, 1)",
        {"maxRecordsPerFile": 4},
        lambda path: sorted(each["numRecords"] for each in stats(path)),
        [2, 4, 4],
    ),
}


@pytest.mark.every_case
@pytest.mark.parametrize(("query", "options", "fact", "value"), WRITES.values(), ids=WRITES)
def test_what_the_log_has_of_a_write(
    spark: SparkSession, path: str, query: str, options: dict[str, Any], fact: Callable[[str], object], value: object
) -> None:
    append(spark.sql(query), path, **options)
    assert fact(path) == value


def test_text_longer_than_a_footer_keeps_has_statistics(spark: SparkSession, path: str) -> None:
    append(spark.sql("select repeat('x', 5000) s"), path)
    stats = json.loads(adds(path, 0)[0].stats or "")
    assert stats["minValues"]["s"] == "x" * 32
    assert stats["maxValues"]["s"] > "x" * 5000
    assert stats["nullCount"]["s"] == 0


def test_data_without_columns_is_refused_before_any_work(spark: SparkSession, path: str, table_name: str) -> None:
    empty = spark.range(3).select()
    for save in (
        lambda: empty.write.format("delta").save(path),
        lambda: empty.write.format("delta").saveAsTable(table_name),
        lambda: empty.writeTo(table_name).using("delta").create(),
    ):
        with pytest.raises(AnalysisException, match="has no columns"):
            save()
    assert not Path(path).exists()
    assert not spark.catalog.tableExists(table_name)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("make_ym_interval(1, 2)", "interval"),
        ("make_interval(0, 0, 0, 1)", "interval"),
        ("array(null)", "void"),
        ("time'10:00:00'", "time"),
        ("named_struct('a', null)", "void"),
        ("'a' collate UNICODE", "collation"),
    ],
)
def test_a_type_that_delta_does_not_have_is_refused_before_any_work(
    spark: SparkSession, path: str, expression: str, named: str
) -> None:
    with pytest.raises(UnsupportedDataTypeError, match=named) as caught:
        append(spark.sql(f"select 1 as fine, {expression} as odd"), path)
    assert "odd" in caught.value.parameters["column"]
    assert not Path(path).exists()


def test_a_void_column_is_in_the_schema_only(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 a, null n, named_struct('x', 2, 'y', null) s"), path)
    assert rows(spark, path) == [(1, None, (2, None))]
    with pytest.raises(SchemaMismatchError, match=r"column n is void, but string in the data.*mergeSchema=true"):
        append(spark.sql("select 2 a, 'now text' n"), path)
    append(spark.sql("select 2 a, 'now text' n"), path, mergeSchema=True)
    assert sorted(row.n or "" for row in spark.read.format("delta").load(path).collect()) == ["", "now text"]


def test_a_user_defined_type_is_stored_as_what_it_is_made_of(spark: SparkSession, path: str) -> None:
    append(spark.createDataFrame([(ExamplePoint(1.0, 2.0),)], ["p"]), path)
    assert rows(spark, path) == [([1.0, 2.0],)]


# --- columns


def test_columns_go_by_name_without_regard_to_case(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 as Id, 'a' as Name"), path)
    append(spark.sql("select 'b' as NAME, 2 as iD"), path)
    assert rows(spark, path) == [(1, "a"), (2, "b")]
    assert spark.read.format("delta").load(path).columns == ["Id", "Name"]


def test_a_column_that_the_data_omits_is_null_by_name_and_refused_by_position(
    spark: SparkSession, table_name: str
) -> None:
    """docs/reference/writing.md says so."""
    spark.sql(f"CREATE TABLE {table_name} (a INT, b INT) USING delta")
    spark.sql("SELECT 0 AS a").write.format("delta").mode("append").saveAsTable(table_name)
    spark.sql("SELECT 1 AS a").writeTo(table_name).append()
    spark.sql(f"INSERT INTO {table_name} (a) VALUES (2)")
    spark.sql(f"INSERT INTO {table_name} BY NAME SELECT 3 AS a")
    spark.sql(f"MERGE INTO {table_name} USING (SELECT 4 AS a) s ON false WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a)")
    assert sorted(tuple(row) for row in spark.table(table_name).collect()) == [(n, None) for n in range(5)]
    for by_position in (
        lambda: spark.sql(f"INSERT INTO {table_name} VALUES (5)"),
        lambda: spark.sql("SELECT 5 AS a").write.insertInto(table_name),
    ):
        with pytest.raises(AnalysisException, match="DELTA_INSERT_COLUMN_ARITY_MISMATCH"):
            by_position()


def test_a_missing_column_is_null(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 a, named_struct('x', 1, 'y', 2) s"), path)
    append(spark.sql("select named_struct('y', 5) s"), path)
    assert rows(spark, path) == [(1, (1, 2)), (None, (None, 5))]


def test_names_that_need_quoting(spark: SparkSession, path: str) -> None:
    frame = spark.sql("select 1 as `a.b`, 2 as `ü`, named_struct('c.d', 3) as `e-f`, 5 as `x``y`")
    append(frame, path)
    by_name(frame.selectExpr("cast(`x``y` as long) as `x``y`", "named_struct('c.d', 4L) as `e-f`"), path)
    assert rows(spark, path) == [(1, 2, (3,), 5), (None, None, (4,), 5)]


ODD_NAMES = ["a b", "a,b", "a;b", "a{b", "a(b", "a\nb", "a=b"]
NO_TABLES = {
    **{f"the name {name!r}": (f"select 1 `{name}`", "", InvalidColumnNameError, None) for name in ODD_NAMES},
    "two names in another case": ("select 1 a, 2 A", "", DuplicateColumnsError, None),
    "two names in a struct": ("select named_struct('x', 1, 'X', 2) s", "", DuplicateColumnsError, None),
    "an array as a partition": ("select 1 a, array(1) p", "p", UnsupportedDataTypeError, None),
    "no column but partitions": ("select 1 a", "a", InvalidOptionError, "partition"),
    "the same partition twice": ("select 1 a, 2 b", "a A", DuplicateColumnsError, None),
    "a partition that is no column": ("select 1 a, 2 b", "c", ColumnNotFoundError, None),
    # Spark would write it as U+FFFD, and two values would become one
    "a partition of bytes that are no text": (
        "select 1 a, unhex('FFFE') p",
        "p",
        UnsupportedOperationError,
        "X'FFFE'",
    ),
}


@pytest.mark.every_case
@pytest.mark.parametrize(("query", "partitions", "error", "told"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_files_and_partitions_cannot_hold_is_refused(
    spark: SparkSession, path: str, query: str, partitions: str, error: type[Exception], told: str | None
) -> None:
    with pytest.raises(error, match=told):
        spark.sql(query).write.format("delta").partitionBy(*partitions.split()).save(path)
    assert not tahoe.Table(path).exists()


def test_a_new_column_needs_merge_schema(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 a, named_struct('x', 1) s"), path)
    more = spark.sql("select 2 a, named_struct('x', 2, 'y', 'new') s, 'b' b")
    with pytest.raises(SchemaMismatchError, match="mergeSchema") as caught:
        append(more, path)
    assert "b" in str(caught.value)
    assert "s.y" in str(caught.value)
    append(more, path, mergeSchema=True)
    assert rows(spark, path) == [(1, (1, None), None), (2, (2, "new"), "b")]
    assert_same_everywhere(spark, path)


def test_the_session_may_let_new_columns_in(spark: SparkSession, path: str) -> None:
    append(spark.range(1), path)
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        append(spark.sql("select 1L id, 2 b"), path)
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert rows(spark, path) == [(0, None), (1, 2)]


def test_overwrite_keeps_the_schema_unless_told(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 a, 'x' b"), path, **{"delta.appendOnly": "false"})
    with pytest.raises(SchemaMismatchError, match="overwriteSchema"):
        overwrite(spark.sql("select date'2024-01-01' a"), path)
    overwrite(spark.sql("select date'2024-01-01' a, 2 c"), path, overwriteSchema=True)
    assert rows(spark, path) == [(dt.date(2024, 1, 1), 2)]
    assert tahoe.Table(path).properties == {"delta.appendOnly": "false"}


# --- casts


def by_name(frame: DataFrame, path: str) -> None:
    """An append by a table's name, which casts."""
    frame.writeTo(f"delta.`{path}`").append()


# Values, and the types of columns that do not take them by path. tests/interop/test_writes.py asks the reference about
# every pair of types.
OTHER_TYPES = (
    *(
        ("7.9D", "bigint"),
        ("1e300D", "float"),
        ("'7'", "bigint"),
        ("true", "int"),
        ("array(1.5D)", "array<bigint>"),
        ("7", "bigint"),
    ),
    *(
        ("7", "string"),
        ("named_struct('x', 7L)", "struct<x: int>"),
        ("1.5BD", "decimal(5, 2)"),
        ("date'2024-01-31'", "timestamp"),
    ),
)


@pytest.mark.parametrize("merges", ["true", "false"])
def test_a_write_by_path_refuses_data_of_another_type(spark: SparkSession, path: str, merges: str) -> None:
    """A value is stored that is not the data's: 7.9 as 7."""
    columns = ", ".join(f"c{number} {kind}" for number, (_, kind) in enumerate(OTHER_TYPES))
    spark.sql(f"create table delta.`{path}` (id int, {columns}) using delta partitioned by (id)")
    for number, (value, _) in enumerate(OTHER_TYPES):
        frame = spark.sql(f"select 1 id, {value} c{number}")
        for mode, options in (("append", {}), ("overwrite", {}), ("overwrite", {"replaceWhere": "id = 1"})):
            with pytest.raises(FieldsNotMergedError, match=f"column c{number}.* is .*, but .* in the data"):
                frame.write.format("delta").mode(mode).options(mergeSchema=merges, **options).save(path)
    assert tahoe.Table(path).version == 0


def test_a_write_by_path_takes_what_parquet_stores_alike(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1S c, array(1Y) l, named_struct('x', 1S) s, 1 i"), path)
    append(spark.sql("select 2Y c, array(2Y) l, named_struct('x', 2Y) s, 2S i"), path)
    wider = spark.sql("select 70000 c, array(300S) l, named_struct('x', 70000) s, null i")
    with pytest.raises(
        SchemaMismatchError, match=r"column c is short, but integer.*l.element is byte, but short.*mergeSchema=true"
    ):
        append(wider, path)
    append(wider, path, mergeSchema=True)
    assert str(tahoe.Table(path).schema) == "struct<c:integer,l:array<short>,s:struct<x:integer>,i:integer>"
    assert rows(spark, path) == [(1, [1], (1,), 1), (2, [2], (2,), 2), (70000, [300], (70000,), None)]
    assert_same_everywhere(spark, path)
    assert spark.read.format("delta").load(path).where("c = 2 and s.x < 3").count() == 1


def test_an_overwrite_with_another_schema_is_told_how_to_replace_it(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 a, 2 b"), path)
    for data in ("select 1 a, 2 b, 3 c", "select 'x' a, 2 b"):
        with pytest.raises(SchemaMismatchError, match="replace the table's schema: option overwriteSchema=true"):
            overwrite(spark.sql(data), path)


def test_what_store_assignment_allows_is_cast(spark: SparkSession, path: str) -> None:
    append(
        spark.sql("select 1L l, 1.5D d, cast(1 as decimal(10,2)) c, 'x' t, date'2024-01-01' day, cast(1 as byte) b"),
        path,
    )
    by_name(spark.sql("select 2 l, 3 d, 2.345 c, 17 t, timestamp_ntz'2024-05-06 07:08:09' day, 5L b"), path)
    assert rows(spark, path)[1] == (2, 3.0, Decimal("2.35"), "17", dt.date(2024, 5, 6), 5)


def test_nested_values_are_cast_by_name(spark: SparkSession, path: str) -> None:
    append(spark.sql("select named_struct('a', 1L, 'b', array(named_struct('c', 1L))) s, map('k', 1.5D) m"), path)
    by_name(
        spark.sql("select map('j', 2) m, named_struct('b', array(named_struct('c', 7), null), 'a', cast(3 as byte)) s"),
        path,
    )
    assert rows(spark, path)[1] == ((3, [(7,), None]), {"j": 2.0})
    by_name(spark.sql("select cast(null as struct<a: int>) s, map('j', cast(null as int)) m"), path)
    assert (None, {"j": None}) in rows(spark, path)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_that_does_not_fit_is_refused_in_any_session(spark: SparkSession, path: str, ansi: str) -> None:
    # without ANSI mode, a plain cast would store another number
    append(spark.sql("select cast(1 as int) i, cast(1 as decimal(4,2)) d"), path)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises(WriteFailedError, match=r"3000000000 for column i .* does not fit in integer"):
            by_name(spark.sql("select 3000000000L i"), path)
        with pytest.raises(WriteFailedError, match="column d"):
            by_name(spark.sql("select 100.5D d"), path)
        with pytest.raises(WriteFailedError, match="NaN for column i"):
            by_name(spark.sql("select double('NaN') i"), path)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert tahoe.Table(path).version == 0


@pytest.mark.parametrize(
    ("table", "data"),
    [("date'2024-01-01'", "1"), ("1", "date'2024-01-01'"), ("true", "date'2024-01-01'"), ("array(1)", "1")],
)
def test_what_store_assignment_does_not_allow_is_refused(spark: SparkSession, path: str, table: str, data: str) -> None:
    append(spark.sql(f"select {table} a"), path)
    with pytest.raises(SchemaMismatchError) as caught:
        by_name(spark.sql(f"select {data} a"), path)
    ours, theirs = tahoe.Table(path).schema.fields[0].type, spark.sql(f"select {data} a").schema[0].dataType
    assert f"column a is {ours}" in str(caught.value)
    assert theirs.typeName() in str(caught.value)


def test_every_column_that_does_not_fit_is_named(spark: SparkSession, path: str) -> None:
    append(spark.sql("select 1 a, 2 b, 3 c"), path)
    with pytest.raises(SchemaMismatchError, match=r"column a is integer.*column c is integer"):
        append(spark.sql("select date'2024-01-01' a, 2 b, array(1) c"), path)


# --- NOT NULL, char and varchar


def create(spark: SparkSession, path: str, *columns: tuple[str, str, bool]) -> None:
    builder = tahoe.DeltaTable.create(spark).location(path)
    for name, kind, nullable in columns:
        builder = builder.addColumn(name, kind, nullable=nullable)
    builder.execute()


def test_a_null_in_a_not_null_column_is_refused_while_writing(spark: SparkSession, path: str) -> None:
    create(spark, path, ("a", "int", False), ("b", "string", True))
    append(spark.sql("select 1 a, null b"), path)
    with pytest.raises(NotNullViolationError) as caught:
        append(spark.sql("select if(id = 3, null, cast(id as int)) a, 'x' b from range(5)").coalesce(1), path)
    assert caught.value.parameters["column"] == "a"
    assert rows(spark, path) == [(1, None)]
    assert len(data_files(path)) == 1


def test_a_missing_not_null_column_is_refused_before_any_work(spark: SparkSession, path: str) -> None:
    create(spark, path, ("a", "int", False), ("b", "string", True))
    with pytest.raises(SchemaMismatchError, match="column a is NOT NULL"):
        append(spark.sql("select 'x' b"), path)


def test_not_null_inside_structs_arrays_and_maps(spark: SparkSession, path: str) -> None:
    create(spark, path, ("s", "struct<x: int not null, y: int>", True))
    append(spark.sql("select named_struct('x', 1, 'y', null) s"), path)
    append(spark.sql("select cast(null as struct<x: int, y: int>) s"), path)
    with pytest.raises(NotNullViolationError, match=r"s\.x"):
        append(spark.sql("select named_struct('x', if(id = 0, null, 1), 'y', 1) s from range(2)"), path)


def test_char_and_varchar(spark: SparkSession, path: str) -> None:
    create(spark, path, ("c", "char(4)", True), ("v", "varchar(3)", True), ("n", "struct<x: varchar(2)>", True))
    append(spark.sql("select 'ab' c, 'abc  ' v, named_struct('x', 'zz ') n"), path)
    assert rows(spark, path) == [("ab  ", "abc", ("zz",))]
    with pytest.raises(WriteFailedError, match=r"abcd for column v .* does not fit in varchar\(3\)"):
        append(spark.sql("select 'abcd' v"), path)
    with pytest.raises(WriteFailedError, match=r"char\(4\)"):
        append(spark.sql("select 'abcde' c"), path)
    with pytest.raises(WriteFailedError, match=r"n\.x"):
        append(spark.sql("select named_struct('x', 'zzz') n"), path)


# --- partitions


def test_partition_values_of_every_kind(spark: SparkSession, path: str) -> None:
    odd = [
        "a/b",
        "c=d",
        "e%20f",
        "g h",
        "é",
        "x:y",
        "#?*\"'",
        "{[]}^\\",
        "tab\there",
        "\U0001f600",
        "100%",
        ".",
        "..",
        " ",
    ]
    frame = spark.createDataFrame([(i, p) for i, p in enumerate([*odd, None, ""])], "id int, p string")
    frame.repartition(1).write.format("delta").partitionBy("p").save(path)
    expected = dict(enumerate([*odd, None, None]))  # the empty text is null in a partition column: the protocol's rule
    assert dict(rows(spark, path)) == expected
    assert_same_everywhere(spark, path)
    assert all(spark.read.format("delta").load(path).where(F.col("p") == p).count() == 1 for p in odd)


def test_typed_partition_columns(spark: SparkSession, path: str) -> None:
    frame = spark.sql(
        """select id, cast(id as byte) b, cast(id as short) s, cast(id as int) i, id * 10000000000 l, cast(id / 4 as float) f, id / 3 d,
          cast(id as decimal(10,3)) c, id = 1 o, date_add(date'2024-02-28', cast(id as int)) day, binary(concat('bin', id)) x,
          timestamp'2024-03-10 01:59:59.000001' + make_dt_interval(0, cast(id as int)) ts,
          timestamp_ntz'2024-03-10 02:30:00' + make_dt_interval(cast(id as int)) n from range(3)"""
    )
    names = [name for name in frame.columns if name != "id"]
    frame.coalesce(1).write.format("delta").partitionBy(*names).save(path)
    assert sorted(map(repr, rows(spark, path))) == sorted(map(repr, map(tuple, frame.collect())))
    values = next(add for add in adds(path, 0) if add.partition_values["i"] == "1").partition_values
    # the session's zone is not UTC: a value in its text would be another moment for other readers
    assert (
        values["ts"]
        == frame.where("id = 1").selectExpr("to_utc_timestamp(ts, current_timezone()) u").collect()[0].u.isoformat()
        + "Z"
    )
    assert values["c"] == "1.000"
    assert values["o"] == "true"
    ours = tahoe.Table(path).to_arrow()
    theirs = deltalake.DeltaTable(path).to_pyarrow_table().select(ours.column_names)
    assert sorted(map(repr, map(comparable, ours.to_pylist()))) == sorted(
        map(repr, map(comparable, theirs.to_pylist()))
    )


def test_partitioning_must_be_the_tables(spark: SparkSession, path: str) -> None:
    frame = spark.sql("select 1 a, 2 p, 3 q")
    frame.write.format("delta").partitionBy("P").save(path)
    assert tahoe.Table(path).snapshot().partition_columns == ("p",)
    append(frame, path)
    frame.write.format("delta").mode("append").partitionBy("p").save(path)
    with pytest.raises(PartitionMismatchError):
        frame.write.format("delta").mode("append").partitionBy("q").save(path)
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", True).partitionBy("q").save(path)
    assert tahoe.Table(path).snapshot().partition_columns == ("q",)


# --- replaceWhere and dynamic partitions


@pytest.fixture
def partitioned(spark: SparkSession, path: str) -> str:
    spark.sql("select id, id % 3 as p from range(6)").coalesce(1).write.format("delta").partitionBy("p").save(path)
    return path


def test_replace_where_replaces_matching_partitions(spark: SparkSession, partitioned: str) -> None:
    overwrite(spark.sql("select 100L id, 1L p"), partitioned, replaceWhere="p >= 1")
    assert rows(spark, partitioned) == [(0, 0), (100, 1), (3, 0)]
    assert_same_everywhere(spark, partitioned)


def test_rows_outside_of_replace_where_are_refused(spark: SparkSession, partitioned: str) -> None:
    with pytest.raises(ReplaceWhereMismatchError) as caught:
        overwrite(spark.sql("select 100L id, 1L p union all select 5L, 0L"), partitioned, replaceWhere="p = 1")
    assert '"p":0' in str(caught.value)
    with pytest.raises(ReplaceWhereMismatchError, match="null"):
        overwrite(spark.sql("select 100L id, cast(null as long) p"), partitioned, replaceWhere="p = 1")
    assert tahoe.Table(partitioned).version == 0


def test_replace_where_does_not_judge_rows_that_the_query_leaves_out(spark: SparkSession, partitioned: str) -> None:
    # the check must not be pushed below the join, where there are rows with other partitions
    frame = spark.sql("select id, id % 3 as p from range(60)").join(spark.sql("select 4L id"), "id").where("p = 1")
    overwrite(frame, partitioned, replaceWhere="p = 1")
    assert (4, 1) in rows(spark, partitioned)


@pytest.mark.parametrize(
    ("kind", "value", "predicate"),
    [
        ("string", "'a'", "p in ('a', 'b')"),
        ("string", "'abc'", "p like 'ab%'"),
        ("date", "date'2024-01-02'", "p between '2024-01-01' and '2024-01-31'"),
        ("timestamp", "timestamp'2024-01-02 03:04:05.678'", "p > timestamp'2024-01-01 00:00:00'"),
        ("timestamp_ntz", "timestamp_ntz'2024-01-02 03:04:05'", "p >= '2024-01-02'"),
        ("decimal(10,2)", "1.50", "p = 1.5 or p is null"),
        ("double", "0.1D", "not p <> 0.1"),
        ("boolean", "true", "p"),
        ("int", "null", "p <=> null"),
    ],
)
def test_replace_where_of_every_type(spark: SparkSession, path: str, kind: str, value: str, predicate: str) -> None:
    # what the check lets in must be what the commit replaces, else rows are doubled
    frame = spark.sql(f"select 1 a, cast({value} as {kind}) p")
    frame.write.format("delta").partitionBy("p").save(path)
    overwrite(frame.withColumn("a", F.lit(2)), path, replaceWhere=predicate)
    assert [row[0] for row in rows(spark, path)] == [2]


def test_replace_where_is_for_overwrite(spark: SparkSession, partitioned: str) -> None:
    with pytest.raises(InvalidOptionError, match="overwrite"):
        append(spark.sql("select 100L id, 1L p"), partitioned, replaceWhere="p = 1")
    with pytest.raises(InvalidOptionError):
        overwrite(
            spark.sql("select 100L id, 1L p"), partitioned, replaceWhere="p = 1", partitionOverwriteMode="dynamic"
        )


def test_dynamic_partitions_replace_what_the_data_has(spark: SparkSession, partitioned: str) -> None:
    overwrite(
        spark.sql("select 100L id, 1L p union all select 200L, 7L"), partitioned, partitionOverwriteMode="dynamic"
    )
    assert rows(spark, partitioned) == [(0, 0), (100, 1), (2, 2), (200, 7), (3, 0), (5, 2)]
    overwrite(spark.sql("select 1L id, 1L p where false"), partitioned, partitionOverwriteMode="dynamic")
    assert len(rows(spark, partitioned)) == 6
    with pytest.raises(InvalidOptionError):
        overwrite(spark.sql("select 1L id, 1L p"), partitioned, partitionOverwriteMode="dynamic", overwriteSchema=True)


def test_dynamic_partitions_by_the_session(spark: SparkSession, partitioned: str) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        overwrite(spark.sql("select 100L id, 1L p"), partitioned)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert len(rows(spark, partitioned)) == 5


# --- what the log says


def test_history_tells_what_was_done(spark: SparkSession, partitioned: str) -> None:
    overwrite(spark.sql("select 100L id, 1L p"), partitioned, replaceWhere="p = 1", userMetadata="because")
    first, second = info(partitioned, 0), info(partitioned, 1)
    assert first["operation"] == "WRITE"
    assert first["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": '["p"]'}
    assert {name: first["operationMetrics"][name] for name in ("numFiles", "numOutputRows")} == {
        "numFiles": "3",
        "numOutputRows": "6",
    }
    assert int(first["operationMetrics"]["numOutputBytes"]) == sum(add.size_bytes for add in adds(partitioned, 0))
    assert second["operationParameters"]["mode"] == "Overwrite"
    assert second["operationParameters"]["predicate"] == "p = 1"
    assert second["operationMetrics"]["numRemovedFiles"] == "1"
    assert int(second["operationMetrics"]["numRemovedBytes"]) > 0
    assert second["userMetadata"] == "because"
    assert second["isBlindAppend"] is False
    assert first["engineInfo"].startswith(f"Apache-Spark/{spark.version} tahoe/")


def test_the_session_may_say_why(spark: SparkSession, path: str) -> None:
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", "nightly")
    try:
        append(spark.range(1), path)
    finally:
        spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    assert info(path, 0)["userMetadata"] == "nightly"


def test_a_write_with_an_identity_is_done_once(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path, txnAppId="job", txnVersion=1)
    append(spark.range(3), path, txnAppId="job", txnVersion=1)
    append(spark.range(3), path, txnAppId="job", txnVersion=0)
    append(spark.range(3), path, txnAppId="other", txnVersion=1)
    append(spark.range(3), path, txnAppId="job", txnVersion=2)
    assert tahoe.Table(path).version == 2
    assert [(a.app_id, a.version) for v in range(3) for a in actions(path, v) if isinstance(a, Txn)] == [
        ("job", 1),
        ("other", 1),
        ("job", 2),
    ]
    with pytest.raises(InvalidOptionError):
        append(spark.range(3), path, txnAppId="job")


def test_a_write_with_an_identity_that_another_does_meanwhile_is_done_once(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(spark.range(3), path)
    plan = write.plan_write

    def overtaken(*args: object) -> object:
        planned = plan(*args)
        monkeypatch.setattr(write, "plan_write", plan)
        append(spark.range(3), path, txnAppId="job", txnVersion=1)
        return planned

    monkeypatch.setattr(write, "plan_write", overtaken)
    append(spark.range(3), path, txnAppId="job", txnVersion=1)
    assert tahoe.Table(path).version == 1
    assert spark.read.format("delta").load(path).count() == 6
    assert sorted(f.name for f in Path(path).glob("*.parquet")) == sorted(
        a.path for v in range(2) for a in adds(path, v)
    )


def test_an_identity_of_the_session_may_count_for_one_write(spark: SparkSession, path: str) -> None:
    # else every later write of the session would silently be left out
    setting = "spark.databricks.delta.write."
    spark.conf.set(setting + "txnAppId", "job")
    spark.conf.set(setting + "txnVersion.autoReset.enabled", "true")
    try:
        for _ in range(2):
            spark.conf.set(setting + "txnVersion", "5")
            append(spark.range(1), path)
        spark.conf.set(setting + "txnVersion", "6")
        append(spark.range(1), path)
        assert spark.conf.get(setting + "txnVersion", None) is None
    finally:
        for name in ("txnAppId", "txnVersion", "txnVersion.autoReset.enabled"):
            spark.conf.unset(setting + name)
    assert tahoe.Table(path).version == 1


def test_data_change_false_marks_files_as_rearranged(spark: SparkSession, path: str) -> None:
    append(spark.range(10).repartition(4), path)
    overwrite(spark.read.format("delta").load(path).coalesce(1), path, dataChange=False)
    assert all(not action.data_change for action in actions(path, 1) if hasattr(action, "data_change"))
    assert len(rows(spark, path)) == 10


def test_properties_as_options_and_by_the_session(spark: SparkSession, path: str) -> None:
    spark.conf.set("spark.databricks.delta.properties.defaults.checkpointInterval", "7")
    try:
        append(spark.range(1), path, **{"delta.dataSkippingNumIndexedCols": "0"})
        append(spark.range(1), path)
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.checkpointInterval")
    assert tahoe.Table(path).properties == {"delta.checkpointInterval": "7", "delta.dataSkippingNumIndexedCols": "0"}
    assert json.loads(adds(path, 0)[0].stats or "") == {"numRecords": 1}
    with pytest.raises(InvalidPropertyError):
        append(spark.range(1), path + "2", **{"delta.noSuchProperty": "1"})


def test_constraints_hold_for_every_row_whatever_their_sql(spark: SparkSession, path: str) -> None:
    constraints = {
        "delta.constraints.loud": "upper(name) = name and size(split(name, ' ')) < 3",
        "delta.constraints.small": "id % 7 < 5",
    }
    good = spark.createDataFrame([(1, "A B"), (2, "C")], "id long, name string")
    append(good, path, **constraints)
    with pytest.raises(CheckConstraintViolatedError, match=r"loud \(upper.*small name"):
        append(spark.createDataFrame([(1, "small name")], "id long, name string"), path)
    with pytest.raises(CheckConstraintViolatedError, match="null"):
        append(spark.createDataFrame([(1, None)], "id long, name string"), path)
    with pytest.raises(CheckConstraintViolatedError, match=r'small .*"id":13'):
        spark.sql(f"insert into delta.`{path}` values (13, 'X')")
    with pytest.raises(CheckConstraintViolatedError):
        overwrite(spark.createDataFrame([(6, "X")], "id long, name string"), path)
    append(good.select("name", "id"), path)
    assert spark.read.format("delta").load(path).count() == 4
    assert tahoe.Table(path).version == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.feature.materializePartitionColumns": "supported"},
        {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"},
        {"delta.enableIcebergCompatV2": "true"},
    ],
)
def test_files_hold_the_partition_columns_where_the_table_says_so(
    spark: SparkSession, path: str, properties: dict[str, str]
) -> None:
    rows = spark.sql(
        "select id, concat('p', id % 2) p, date'2026-01-01' d, id * 2 v from range(6) union all select 9, null, null, 1"
    )
    rows.write.format("delta").partitionBy("p", "d").options(**properties).save(path)
    append(rows, path)
    names = {f.name: f.metadata.get("delta.columnMapping.physicalName", f.name) for f in tahoe.Table(path).schema}
    for add in tahoe.Table(path).snapshot().live.adds():
        held = pq.read_table(f"{path}/{unquote(add.path)}")
        assert set(held.column_names) == set(names.values())
        assert set(held.column(names["p"]).to_pylist()) == {add.partition_values[names["p"]]}
    found = spark.read.format("delta").load(path)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, rows.union(rows).collect()))
    assert found.where("p = 'p1'").count() == 6


def test_row_ids_are_given_to_every_file_that_spark_writes(spark: SparkSession, path: str) -> None:
    append(spark.range(10).repartition(3), path, **{"delta.enableRowTracking": "true"})
    append(spark.range(5), path)
    found = spark.read.format("delta").load(path).select("_metadata.row_id", "_metadata.row_commit_version").collect()
    assert sorted(row.row_id for row in found) == list(range(15))
    assert sorted(row.row_commit_version for row in found) == [0] * 10 + [1] * 5
    overwrite(spark.range(2), path)
    again = spark.read.format("delta").load(path).select("_metadata.row_id").collect()
    assert sorted(row.row_id for row in again) == [15, 16]


def test_an_append_only_table_takes_appends_only(spark: SparkSession, path: str) -> None:
    append(spark.range(1), path, **{"delta.appendOnly": "true"})
    append(spark.range(1), path)
    with pytest.raises(AppendOnlyTableError):
        overwrite(spark.range(1), path)


# --- files


def test_column_mapping(spark: SparkSession, path: str) -> None:
    for mode in ("name", "id"):
        here = f"{path}-{mode}"
        frame = spark.sql("select id, named_struct('a b', id) `s t`, concat('p', id) `p,q` from range(2)")
        frame.write.format("delta").option("delta.columnMapping.mode", mode).partitionBy("p,q").save(here)
        append(frame, here)
        assert rows(spark, here) == [(0, (0,), "p0"), (0, (0,), "p0"), (1, (1,), "p1"), (1, (1,), "p1")]
        assert all("s t" not in (add.stats or "") for add in adds(here, 0))
        assert sorted(map(repr, tahoe.Table(here).to_arrow().to_pylist())) == sorted(
            map(repr, [{"id": i, "s t": {"a b": i}, "p,q": f"p{i}"} for i in (0, 0, 1, 1)])
        )


def test_file_names_are_like_sparks(spark: SparkSession, path: str) -> None:
    append(spark.range(1).coalesce(1), path, compression="zstd")
    (name,) = data_files(path)
    assert name.startswith("part-00000-")
    assert name.endswith(".zstd.parquet")


def test_the_codec_of_the_option_then_of_the_table(spark: SparkSession, path: str) -> None:
    append(spark.range(1).coalesce(1), path, **{"delta.parquet.compression.codec": "GZIP"})
    append(spark.range(1).coalesce(1), path, compression="zstd")
    append(spark.range(1).coalesce(1), path)
    assert [adds(path, v)[0].path.split(".")[-2] for v in range(3)] == ["gz", "zstd", "gz"]


def test_a_path_with_odd_characters(spark: SparkSession, tmp_path: Path) -> None:
    odd = str(tmp_path / "a b#c é+&")
    spark.sql("select 1 a, 'x y' p").write.format("delta").partitionBy("p").save(odd)
    assert rows(spark, odd) == [(1, "x y")]
    assert_same_everywhere(spark, odd)


def test_observed_metrics_are_heard(spark: SparkSession, path: str) -> None:
    observed = Observation("n")
    append(spark.range(5).observe(observed, F.count("*").alias("n")), path)
    assert observed.get == {"n": 5}


# --- failures


@pytest.mark.sparks_reader
def test_a_job_that_fails_leaves_the_table_as_it_was(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path)
    before = data_files(path)

    def last_one_fails(x: int) -> int:
        time.sleep(0 if x < 2 else 1)
        return x if x < 2 else 1 // 0

    with pytest.raises(PythonException, match="ZeroDivisionError"):
        append(spark.range(0, 3, 1, 3).select(F.udf(last_one_fails, "long")("id").alias("id")), path)
    with pytest.raises(SparkRuntimeException, match="too bad"):
        append(spark.sql("select if(id = 7, raise_error('too bad'), id) id from range(10)").coalesce(1), path)
    assert data_files(path) == before
    assert tahoe.Table(path).version == 0
    assert "_tmp" not in str(list(Path(path).rglob("*")))


def test_a_commit_that_is_lost_takes_its_files_along(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path)
    before = data_files(path)
    held, release = threading.Event(), threading.Event()
    failure: list[BaseException] = []

    def late_overwrite() -> None:
        try:
            overwrite(spark.range(10, 12), path)
        except BaseException as error:
            failure.append(error)

    commit = WritePlan.commit

    def slow_commit(self: Any, *args: Any) -> int:
        if threading.current_thread() is thread:
            held.set()
            release.wait(60)
        return commit(self, *args)

    thread = threading.Thread(target=late_overwrite)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WritePlan, "commit", slow_commit)
        thread.start()
        assert held.wait(60)
        append(spark.range(3, 4), path)
        release.set()
        thread.join(60)
    assert type(failure[0]).__name__ == "ConcurrentAppendException"
    assert len(data_files(path)) == len(before) + 1
    assert len(rows(spark, path)) == 4


def test_appends_from_threads_all_arrive(spark: SparkSession, path: str) -> None:
    append(spark.range(1), path)
    threads = [threading.Thread(target=append, args=(spark.range(i, i + 1), path)) for i in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row[0] for row in rows(spark, path)] == [0, 1, 2, 3, 4, 5]


def test_unwritable_storage(spark: SparkSession) -> None:
    with pytest.raises(tahoe.errors.DeltaError):
        append(spark.range(1), "/proc/nowhere/t")


def test_save_without_a_path(spark: SparkSession) -> None:
    with pytest.raises(InvalidOptionError, match="path"):
        spark.range(1).write.format("delta").save()


# --- what comes from another table, and from the same


def test_a_write_that_reads_its_own_table_is_no_blind_append(spark: SparkSession, path: str, tmp_path: Path) -> None:
    # another writer's rows would have been read too, so that such a write must not slip behind them
    spark.range(3).write.format("delta").save(path)
    spark.range(1).write.format("delta").mode("append").save(path)
    assert tahoe.Table(path).history(1)[0]["isBlindAppend"] is True
    own = spark.read.format("delta").load(path)
    append(own.where("id > 1"), path)
    assert tahoe.Table(path).history(1)[0]["isBlindAppend"] is False
    own.createOrReplaceTempView("own")
    append(spark.sql("select id from range(9) where id > (select max(id) from own)"), path)
    assert tahoe.Table(path).history(1)[0]["isBlindAppend"] is False
    other = str(tmp_path / "other")
    append(own, other)
    append(own, other)
    assert tahoe.Table(other).history(1)[0]["isBlindAppend"] is True


def append_beside_another_writer(spark: SparkSession, path: str, frame: DataFrame) -> None:
    """Append a frame; another writer's row is committed after its files were written."""
    commit = WritePlan.commit

    def late_commit(self: Any, *args: Any) -> int:
        patch.undo()
        append(spark.range(100, 101), path)
        return commit(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WritePlan, "commit", late_commit)
        append(frame, path)


def test_a_write_that_reads_its_own_table_does_not_slip_behind_another(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    with pytest.raises(ConcurrentAppendException):
        append_beside_another_writer(spark, path, spark.read.format("delta").load(path).selectExpr("max(id) as id"))
    assert rows(spark, path) == [(0,), (1,), (100,), (2,)]


def test_a_past_version_is_the_same_whatever_others_write(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    append_beside_another_writer(
        spark, path, spark.read.format("delta").option("versionAsOf", 0).load(path).where("id = 2")
    )
    assert rows(spark, path) == [(0,), (1,), (100,), (2,), (2,)]
    assert tahoe.Table(path).history(1)[0]["isBlindAppend"] is True


def test_rules_of_the_table_that_rows_come_from_stay_there(spark: SparkSession, path: str) -> None:
    metadata = {
        "CURRENT_DEFAULT": "7",
        "EXISTS_DEFAULT": "7",
        "parquet.field.id": 3,
        "delta.generationExpression": "a + 1",
        "delta.columnMapping.id": 4,
        "comment": "kept",
        "unit": "mm",
    }
    schema = StructType([StructField("a", LongType(), True, metadata)])
    spark.createDataFrame([(1,)], schema).write.format("delta").save(path)
    (field,) = tahoe.Table(path).schema
    assert field.metadata == {"comment": "kept", "unit": "mm"}
    assert tahoe.Table(path).protocol.writer_version == 2


def test_a_declared_length_goes_with_the_text_and_not_with_what_it_was_cast_to(
    spark: SparkSession, path: str, table_name: str
) -> None:
    # a number that is declared as text could be written once, and never again
    spark.sql(f"create table {table_name} (a varchar(4), b array<struct<c:char(2), d:int>>) using delta")
    spark.sql(f"insert into {table_name} values ('12', array(named_struct('c', 'x', 'd', 1)))")
    given = spark.table(table_name)
    text, nested = given.schema["a"].metadata, given.schema["b"].metadata
    assert text
    assert nested
    number = F.col("a").cast("int").alias("n", metadata=text)
    inside = F.col("b.d").alias("d", metadata=nested)
    append(given.select("a", "b", number, inside), path)
    assert {field.name: field.metadata for field in tahoe.Table(path).schema} == {
        "a": text,
        "b": nested,
        "n": {},
        "d": {},
    }
    append(spark.read.format("delta").load(path), path)
    with pytest.raises(WriteFailedError, match=r"varchar\(4\)"):
        append(spark.sql("select '12345' a"), path)


def test_a_misspelt_option_is_told_at_the_line_of_the_caller(spark: SparkSession, path: str, table_name: str) -> None:
    """As in `save`. Spark hands the options of `insertInto` with a table's name to nobody."""
    rows = spark.range(1)
    for way in (
        lambda: rows.write.format("delta").option("mergeSchem", "true").saveAsTable(table_name),
        lambda: rows.write.format("delta").mode("append").option("mergeSchem", "true").saveAsTable(table_name),
        lambda: rows.writeTo(table_name).option("mergeSchem", "true").append(),
        lambda: rows.write.format("delta").option("mergeSchem", "true").save(path),
        lambda: rows.write.option("mergeSchem", "true").insertInto(f"delta.`{path}`"),
    ):
        with pytest.warns(
            UserWarning, match="mergeSchem has no effect on df.write; did you mean mergeSchema"
        ) as warned:
            way()
        assert {each.filename for each in warned} == {__file__}
