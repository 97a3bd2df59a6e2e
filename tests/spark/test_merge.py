"""MERGE by examples; `test_dml_model` has the random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe import DeltaTable, Table
from tahoe.errors import (
    ColumnNotFoundError,
    ConcurrentAppendException,
    DeltaConcurrentModificationException,
    FieldsNotMergedError,
    GeneratedValueMismatchError,
    IdentityUpdateError,
    InvalidMergeError,
    InvalidPredicateError,
    MultipleSourceRowsError,
    SchemaMismatchError,
)
from tahoe.spark.api.table_builder import IdentityGenerator
from tahoe.spark.dml import join_keys
from tahoe.spark.dml.row_changes import RowChange
from tahoe.table.verify.check import check_version
from tests.spark.builders import COPIES, VECTORS, data_files, ids, make


@pytest.fixture(params=["vectors", "copies"])
def mode(request: pytest.FixtureRequest) -> Mapping[str, str]:
    return VECTORS if request.param == "vectors" else COPIES


def accounts(spark: SparkSession, path: str, properties: Mapping[str, str] = VECTORS, *partitions: str) -> DeltaTable:
    """Ten accounts in two files, under the name t."""
    rows = spark.range(0, 10, 1, 2).selectExpr("id", "id * 10 as amount", "id % 2 as part")
    return make(rows, path, properties, *partitions).alias("t")


def rows(path: str) -> dict[int, int]:
    found = Table(path).to_arrow(["id", "amount"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["amount"] for row in found}


def source(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end).selectExpr("id", "1000 + id as amount", "id % 2 as part").alias("s")


# --- clauses


def test_upsert(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = accounts(spark, path, mode)
    counts = (
        table.merge(source(spark, 8, 12), "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
        .collect()
    )
    assert counts == [Row(num_affected_rows=4, num_updated_rows=2, num_deleted_rows=0, num_inserted_rows=2)]
    assert rows(path) == {**{n: n * 10 for n in range(8)}, **{n: 1000 + n for n in range(8, 12)}}
    assert list(check_version(Table(path).snapshot())) == []


def test_partition_columns_may_be_in_the_files(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = accounts(spark, path, {**mode, "delta.enableMaterializePartitionColumnsFeature": "true"}, "part")
    brought = spark.range(8, 12).selectExpr("id", "1 as amount", "id % 2 as part").alias("s")
    table.merge(brought, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted(map(tuple, table.toDF().where("id > 7").collect())) == [(8, 1, 0), (9, 1, 1), (10, 1, 0), (11, 1, 1)]
    assert list(check_version(Table(path).snapshot())) == []


def test_the_first_clause_that_holds_is_taken(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    merge = accounts(spark, path, mode).merge(source(spark, 5, 14), "t.id = s.id")
    merge = merge.whenMatchedDelete("t.id = 5").whenMatchedUpdate("t.id < 7", {"amount": "t.amount + s.amount"})
    merge = merge.whenMatchedUpdate("s.id = 8", {"amount": F.lit(-1)})
    merge = merge.whenNotMatchedInsert("s.id = 10", {"id": "s.id", "amount": "-s.id"}).whenNotMatchedInsertAll(
        "s.id = 11"
    )
    merge = merge.whenNotMatchedBySourceDelete("t.id = 0").whenNotMatchedBySourceUpdate(
        "t.id < 2", {"amount": "t.amount - 1"}
    )
    assert merge.execute().collect() == [
        Row(num_affected_rows=7, num_updated_rows=3, num_deleted_rows=2, num_inserted_rows=2)
    ]
    assert rows(path) == {1: 9, 2: 20, 3: 30, 4: 40, 6: 1066, 7: 70, 8: -1, 9: 90, 10: -10, 11: 1011}


def test_rows_that_no_clause_changes_are_not_written(spark: SparkSession, path: str) -> None:
    accounts(spark, path).merge(source(spark, 0, 10), "t.id = s.id").whenMatchedUpdateAll("s.id = 3").execute()
    last = DeltaTable.forPath(spark, path).history(1).collect()[0]
    assert last.operationMetrics["numOutputRows"] == "1"
    assert last.operationMetrics["numTargetRowsCopied"] == "0"
    assert last.operation == "MERGE"


def test_an_insert_only_merge_touches_no_file_that_is_there(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    table = accounts(spark, path, mode)
    before = set(Table(path).snapshot().live.column("path").to_pylist())
    twice = source(spark, 5, 15).unionAll(source(spark, 5, 8)).alias("s")  # to match twice changes nothing
    assert table.merge(twice, "t.id = s.id").whenNotMatchedInsertAll().execute().collect()[0].num_inserted_rows == 5
    assert before < set(Table(path).snapshot().live.column("path").to_pylist())
    assert rows(path)[5] == 50


def test_many_keys_are_found_by_their_hashes(
    spark: SparkSession, path: str, mode: Mapping[str, str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(join_keys, "LISTED_MAX", 3)
    table = make(spark.range(0, 5000, 1, 2).selectExpr("id", "string(id) as name", "0L as amount"), path, mode).alias(
        "t"
    )
    every_third = spark.range(0, 6000, 3).selectExpr("id", "string(id) as name", "id as amount").alias("s")
    merge = table.merge(every_third, "t.id = s.id and t.name = s.name").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert merge.execute().collect()[0].asDict() == {
        "num_affected_rows": 2000,
        "num_updated_rows": 1667,
        "num_deleted_rows": 0,
        "num_inserted_rows": 333,
    }
    assert rows(path) == {**dict.fromkeys(range(5000), 0), **{n: n for n in range(0, 6000, 3)}}


def test_the_sources_keys_leave_out_files(spark: SparkSession, path: str) -> None:
    table = make(spark.range(0, 1000, 1, 10).selectExpr("id", "id as amount"), path, VECTORS).alias("t")
    for file in Table(path).snapshot().files("id >= 200")["url"].to_pylist():  # whoever opened one would fail
        with open(file.removeprefix("file://"), "wb") as out:
            out.truncate()
    few = spark.range(150, 160).selectExpr("id", "0L as amount").alias("s")
    assert table.merge(few, "t.id = s.id").whenMatchedUpdateAll().execute().collect()[0].num_updated_rows == 10


# --- keys


@pytest.mark.parametrize(("operator", "updated"), [("=", 1), ("<=>", 2)])
def test_null_equals_null_only_where_it_is_asked_for(
    spark: SparkSession, path: str, mode: Mapping[str, str], operator: str, updated: int
) -> None:
    table = make(spark.sql("select * from values (1L, 0), (null, 0) as t(id, amount)"), path, mode).alias("t")
    new = spark.sql("select * from values (1L, 1), (null, 1) as t(id, amount)").alias("s")
    merged = (
        table.merge(new, f"t.id {operator} s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
        .collect()[0]
    )
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (updated, 2 - updated)


@pytest.mark.parametrize("listed", [300, 0])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", "double('NaN'), double('-0.0'), 1.5D"),
        ("decimal(20,4)", "1.5BD, -2BD, 99999999.1234BD"),
        ("string", "'a', 'ä', ''"),
        ("date", "date'2020-02-29', date'1500-01-01', date'9999-12-31'"),
        (
            "timestamp",
            "timestamp'2020-10-25 02:30:00', timestamp'1969-12-31 23:59:59.999999', timestamp'2021-01-01 00:00:00'",
        ),
        (
            "timestamp_ntz",
            "timestamp_ntz'2020-10-25 02:30:00', timestamp_ntz'1969-12-31 23:59:59', timestamp_ntz'2021-01-01 "
            "00:00:00'",
        ),
        ("int", "1, -5, 2147483647"),
    ],
)
def test_keys_of_each_type(
    spark: SparkSession, path: str, kind: str, values: str, listed: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(join_keys, "LISTED_MAX", listed)
    frame = spark.sql(f"select explode(array({values})) as k").selectExpr(f"cast(k as {kind}) k", "0 as v")
    table = make(frame, path, {**VECTORS}).alias("t")
    zeros = frame.selectExpr("if(string(k) = '-0.0', abs(k), k) as k" if kind == "double" else "k", "1 as v").alias("s")
    merged = table.merge(zeros, "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().collect()[0]
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (3, 0)


@pytest.mark.parametrize("listed", [300, 0])
def test_keys_of_different_types(spark: SparkSession, path: str, listed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(join_keys, "LISTED_MAX", listed)
    table = make(spark.range(10).selectExpr("int(id) as id", "0 as v"), path, VECTORS).alias("t")
    wider = spark.range(8, 12).selectExpr("id", "1 as v").alias("s")
    assert (
        table.merge(wider, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).execute().collect()[0].num_updated_rows
        == 2
    )
    as_text = spark.range(8, 12).selectExpr("string(id) as id", "1 as v").alias("s")
    merge = table.merge(as_text, "cast(t.id + 1 as string) = s.id and t.id > 7").whenMatchedDelete()
    assert merge.execute().collect()[0].num_deleted_rows == 2


def test_conditions_without_keys(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    ranges = spark.sql("select * from values (2, 4), (7, 8) as s(low, high)").alias("s")
    merge = accounts(spark, path, mode).merge(ranges, "t.id between s.low and s.high").whenMatchedDelete()
    assert merge.execute().collect()[0].num_deleted_rows == 5
    assert ids(path) == [0, 1, 5, 6, 9]
    overlapping = spark.sql("select * from values (0, 1), (1, 5) as s(low, high)").alias("s")
    with pytest.raises(MultipleSourceRowsError, match=r"for example: id = 1\."):
        merge_of_ranges = DeltaTable.forPath(spark, path).alias("t").merge(overlapping, "t.id between s.low and s.high")
        merge_of_ranges.whenMatchedUpdate(set={"id": "s.low"}).execute()


def test_several_rows_for_one_are_refused_and_shown(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = accounts(spark, path, mode)
    twice = source(spark, 2, 5).unionAll(source(spark, 3, 5)).alias("s")
    before = data_files(path)
    with pytest.raises(MultipleSourceRowsError, match=r"for example: id = 3; id = 4"):
        table.merge(twice, "t.id = s.id").whenMatchedUpdateAll().execute()
    assert (data_files(path), Table(path).version) == (before, 0)
    # where only one of them has a clause that holds, there is nothing to choose
    told_apart = (
        source(spark, 2, 5).withColumn("n", F.lit(0)).unionAll(source(spark, 3, 5).withColumn("n", F.lit(1))).alias("s")
    )
    merge = table.merge(told_apart, "t.id = s.id").whenMatchedUpdate("s.n = 0", {"amount": "s.amount"})
    assert merge.execute().collect()[0].num_updated_rows == 3
    more = twice.unionAll(source(spark, 20, 23)).alias("s")
    counts = table.merge(more, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute().collect()[0]
    assert (counts.num_deleted_rows, counts.num_inserted_rows) == (3, 3)
    assert ids(path) == [0, 1, 5, 6, 7, 8, 9, 20, 21, 22]


# --- sources


def test_a_source_that_changes_is_read_once(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = accounts(spark, path, mode)
    random = spark.range(5, 15).selectExpr("id", "cast(rand() * 1e15 as bigint) as amount", "id % 2 as part").alias("s")
    table.merge(random, "t.id = s.id").whenMatchedUpdateAll(
        "s.amount % 2 = 0"
    ).whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert all(amount % 2 == 0 for number, amount in rows(path).items() if 5 <= number < 10)
    assert set(rows(path)) >= set(range(10, 15))


def test_the_table_itself_may_be_the_source(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = accounts(spark, path, mode)
    own = DeltaTable.forPath(spark, path).toDF().where("id < 3").alias("s")
    merge = table.merge(own, "t.id = s.id + 1").whenMatchedUpdate(set={"amount": "s.amount + t.amount"})
    assert merge.execute().collect()[0].num_updated_rows == 3
    assert {n: v for n, v in rows(path).items() if n < 5} == {0: 0, 1: 10, 2: 30, 3: 50, 4: 40}


def test_rows_are_brought_back_from_an_older_version(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    # the paper's §4.1: fixing a table by merging its own past
    table = accounts(spark, path, mode)
    table.delete("id in (1, 2)")
    table.update("id = 3", {"amount": "-1"})
    old = spark.read.format("delta").option("versionAsOf", 0).load(path).alias("s")
    table.merge(old, "t.id = s.id").whenMatchedUpdateAll("t.amount <> s.amount").whenNotMatchedInsertAll().execute()
    assert rows(path) == {n: n * 10 for n in range(10)}


def test_columns_are_matched_without_regard_to_case_and_order(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    odd = spark.range(9, 11).selectExpr("id % 2 as PART", "7L as Amount", "id as ID", "'x' as more").alias("s")
    accounts(spark, path, mode).merge(odd, "t.id = s.ID").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(path)[9] == rows(path)[10] == 7


def test_columns_of_the_frames_themselves_may_stand_in_conditions(spark: SparkSession, path: str) -> None:
    new = source(spark, 9, 11)
    merge = (
        accounts(spark, path)
        .merge(new, F.col("t.id") == new["id"])
        .whenMatchedUpdate(set={"amount": new["amount"] + F.col("t.id")})
    )
    assert merge.execute().collect()[0].num_updated_rows == 1
    assert rows(path)[9] == 1018


def test_clause_conditions_may_hold_subqueries(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    spark.range(3).createOrReplaceTempView("other")
    merge = accounts(spark, path, mode).merge(source(spark, 0, 5), "t.id = s.id")
    merge.whenMatchedDelete("t.id in (select id from other)").whenMatchedUpdateAll(
        "s.id > (select max(id) from other)"
    ).execute()
    assert {n: v for n, v in rows(path).items() if n < 5} == {3: 1003, 4: 1004}


def test_a_subquery_on_the_table_counts_as_reading_it(spark: SparkSession, path: str, monkeypatch: Any) -> None:
    table, commit = accounts(spark, path), RowChange.commit
    DeltaTable.forPath(spark, path).toDF().createOrReplaceTempView("whole")

    def after_another(self: RowChange, *arguments: Any, **named: Any) -> bool:
        monkeypatch.setattr(RowChange, "commit", commit)
        spark.range(500, 501).selectExpr("id", "id as amount", "0L as part").write.format("delta").mode("append").save(
            path
        )
        return commit(self, *arguments, **named)

    monkeypatch.setattr(RowChange, "commit", after_another)
    with pytest.raises(ConcurrentAppendException):
        table.merge(source(spark, 3, 4), "t.id = s.id").whenMatchedUpdate(
            set={"amount": "(select max(id) from whole)"}
        ).execute()


def test_a_guarded_cast_is_not_asked_of_other_rows(spark: SparkSession, path: str) -> None:
    table = make(
        spark.sql("select * from values ('num', '1', 0), ('text', 'abc', 0) as t(kind, x, v)"), path, VECTORS
    ).alias("t")
    new = spark.sql("select 1 as id, 7 as v").alias("s")
    merge = table.merge(new, "t.kind = 'num' and cast(t.x as int) = s.id").whenMatchedUpdate(set={"v": "s.v"})
    assert merge.execute().collect()[0].num_updated_rows == 1


def test_a_source_with_two_columns_of_one_name_is_refused(spark: SparkSession, path: str) -> None:
    both = source(spark, 1, 3).join(spark.range(1, 3).selectExpr("id as k", "5L as amount"), F.expr("id = k"))
    with pytest.raises(InvalidMergeError, match="several columns named amount"):
        accounts(spark, path).merge(both, "t.id = k").whenMatchedUpdateAll().execute()


# --- schema evolution


def test_the_table_takes_in_columns_of_the_source(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = accounts(spark, path, mode)
    more = spark.range(9, 11).selectExpr("id", "0L as amount", "named_struct('x', id) as extra").alias("s")
    with pytest.raises(ColumnNotFoundError, match="part"):  # UPDATE * needs every column
        table.merge(more, "t.id = s.id").whenMatchedUpdateAll().execute()
    table.merge(more, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().withSchemaEvolution().execute()
    found = {row["id"]: row for row in Table(path).to_arrow().to_pylist()}
    assert found[9] == {"id": 9, "amount": 0, "part": 1, "extra": {"x": 9}}
    assert found[10] == {"id": 10, "amount": 0, "part": None, "extra": {"x": 10}}
    assert found[8]["extra"] is None


def test_fields_that_the_source_lacks_stay_where_the_schema_may_change(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    rows = "id", "named_struct('a', id, 'b', named_struct('c', 'old', 'd', 'kept')) as s", "id as other"
    table = make(spark.range(4).selectExpr(*rows), path, mode).alias("t")
    source = spark.range(2, 6).selectExpr(
        "id", "if(id = 3, null, named_struct('A', -id, 'b', named_struct('c', 'new', 'e', 'more'))) as s"
    )
    merge = table.merge(source.alias("s"), "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = {
        row.id: (row.s.a, row.s.b.c, row.s.b.d, row.s.b.e, row.other)
        for row in table.toDF().where("id between 1 and 4").collect()
    }
    assert found == {
        1: (1, "old", "kept", None, 1),
        2: (-2, "new", "kept", "more", 2),
        3: (None, None, "kept", None, 3),
        4: (-4, "new", None, "more", None),
    }


@pytest.mark.parametrize("value", ["named_struct('a', 1L)", "named_struct('a', 1L, 'b', 2L, 'c', 3L)"])
def test_a_struct_with_other_fields_is_refused(spark: SparkSession, path: str, value: str) -> None:
    table = make(spark.range(4).selectExpr("id", "named_struct('a', id, 'b', id) as s"), path, VECTORS).alias("t")
    source = spark.range(2, 6).selectExpr("id", f"{value} as s").alias("s")
    with pytest.raises(SchemaMismatchError, match=r"s\.b is missing|no s\.c"):
        table.update(set={"s": value})
    for clause in (
        lambda merge: merge.whenMatchedUpdateAll(),
        lambda merge: merge.whenMatchedUpdate(set={"s": "s.s"}),
        lambda merge: merge.whenNotMatchedInsertAll(),
    ):
        with pytest.raises(SchemaMismatchError, match=r"s\.b is missing|no s\.c"):
            clause(table.merge(source, "t.id = s.id")).execute()
    assert Table(path).version == 0


def test_a_column_of_the_source_that_a_clause_names_is_taken_in(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    table = accounts(spark, path, mode)
    more = spark.range(9, 11).selectExpr("id", "'n' as note", "'o' as other").alias("s")
    merge = table.merge(more, "t.id = s.id").whenMatchedUpdate(set={"note": "s.note"})
    with pytest.raises(ColumnNotFoundError, match="note"):
        merge.execute()
    merge.withSchemaEvolution().execute()
    assert Table(path).schema.names == ("id", "amount", "part", "note")
    assert Table(path).to_arrow(["note"], filter="id = 9")["note"].to_pylist() == ["n"]


def test_fields_that_a_clause_names_are_taken_in(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = make(spark.range(3).selectExpr("id", "named_struct('a', id) as s"), path, mode).alias("t")
    more = spark.range(2, 4).selectExpr("id", "named_struct('a', -id, 'z', 'new', 'unused', 0) as s").alias("n")
    merge = table.merge(more, "t.id = n.id").whenMatchedUpdate(set={"t.s.z": "n.s.z"})
    with pytest.raises(ColumnNotFoundError, match=r"s\.z"):
        merge.execute()
    merge.withSchemaEvolution().execute()
    assert spark.read.format("delta").load(path).orderBy("id").collect() == [
        Row(id=0, s=Row(a=0, z=None)),
        Row(id=1, s=Row(a=1, z=None)),
        Row(id=2, s=Row(a=2, z="new")),
    ]


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("7", True),
        ("7.9D", True),
        ("'7'", True),
        ("null", True),
        ("true", False),
        ("timestamp'2024-01-31 12:13:14'", False),
        ("array(7)", False),
    ],
)
def test_where_the_schema_may_change_only_what_spark_casts_unasked_is_taken(
    spark: SparkSession, path: str, value: str, is_taken: bool
) -> None:
    """A time becomes a number of seconds, or a program does not find the condition that it catches."""
    table = accounts(spark, path)
    more = spark.range(9, 11).selectExpr("id", f"{value} as amount", "array(true) as part").alias("s")
    for clause in (
        lambda merge: merge.whenMatchedUpdate(set={"amount": "s.amount"}),
        lambda merge: merge.whenNotMatchedInsert(values={"id": "s.id", "amount": "s.amount"}),
        lambda merge: merge.whenNotMatchedInsertAll(),
    ):
        merge = clause(table.merge(more.drop("part"), "t.id = s.id").withSchemaEvolution())
        if is_taken:
            merge.execute()
        else:
            with pytest.raises(FieldsNotMergedError, match="column amount is long"):
                merge.execute()
    assert Table(path).schema.names == ("id", "amount", "part")
    merge = table.merge(more, "t.id = s.id").withSchemaEvolution()
    with pytest.raises(FieldsNotMergedError, match=r"column (amount|part) is long"):
        merge.whenNotMatchedInsertAll().execute()


# --- what is refused, before any work


@pytest.mark.parametrize(
    ("build", "error", "told"),
    [
        (lambda m: m, InvalidMergeError, "no WHEN clause"),
        (lambda m: m.whenMatchedDelete().whenMatchedUpdateAll(), InvalidMergeError, "WHEN MATCHED"),
        (lambda m: m.whenMatchedUpdate("t.nope = 1", {"amount": "1"}), AnalysisException, "nope"),
        (lambda m: m.whenMatchedUpdate("id = 1", {"amount": "1"}), AnalysisException, "AMBIGUOUS"),
        (lambda m: m.whenMatchedUpdate("rand() > 0", {"amount": "1"}), InvalidPredicateError, "not deterministic"),
        (lambda m: m.whenMatchedUpdate("sum(t.id) > 0", {"amount": "1"}), AnalysisException, "sum"),
        (lambda m: m.whenMatchedUpdate(set={"amout": "1"}), ColumnNotFoundError, "it has amount"),
        (lambda m: m.whenMatchedUpdate(set={"amount": "array(1)"}), SchemaMismatchError, "column amount is long"),
        (lambda m: m.whenNotMatchedInsert("t.id = 1", {"id": "s.id"}), AnalysisException, "t"),
        (lambda m: m.whenNotMatchedInsert(values={"id": "t.id"}), AnalysisException, "t"),
        (lambda m: m.whenNotMatchedInsert(values={"id": "s.id", "ID": "s.id"}), Exception, "are both assigned"),
        (lambda m: m.whenNotMatchedBySourceUpdate(set={"amount": "s.amount"}), AnalysisException, "s"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession, path: str, build: Callable[[Any], Any], error: type[Exception], told: str
) -> None:
    merge = build(accounts(spark, path).merge(source(spark, 5, 15), "t.id = s.id"))
    before = data_files(path)
    with pytest.raises(error, match=told):
        merge.execute()
    assert (data_files(path), Table(path).version) == (before, 0)


# --- rows keep what they are


@pytest.mark.parametrize("partitions", [(), ("part",)])
def test_row_ids_stay_with_their_rows(
    spark: SparkSession, path: str, mode: Mapping[str, str], partitions: tuple[str, ...]
) -> None:
    table = accounts(spark, path, {**mode, "delta.enableRowTracking": "true"}, *partitions)
    given = {r.id: r.row_id for r in table.toDF().selectExpr("id", "_metadata.row_id").collect()}
    table.merge(
        source(spark, 8, 12), "t.id = s.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().whenNotMatchedBySourceDelete("t.id = 0").execute()
    found = table.toDF().selectExpr("id", "_metadata.row_id", "_metadata.row_commit_version as version").collect()
    assert {r.id: r.row_id for r in found if r.id < 10} == {n: number for n, number in given.items() if n}
    assert len({r.row_id for r in found}) == len(found) == 11
    assert {r.id for r in found if r.version == 1} == {8, 9, 10, 11}
    assert list(check_version(Table(path).snapshot())) == []


# --- rules on rows


def ruled(spark: SparkSession, path: str, mode: Mapping[str, str]) -> DeltaTable:
    """A number of its own for each row, a default, and a column that is computed of another."""
    builder = (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("id", "long", generatedByDefaultAs=IdentityGenerator(start=1, step=1))
    )
    builder = (
        builder.addColumn("key", "string")
        .addColumn("amount", "long")
        .addColumn("twice", "long", generatedAlwaysAs="amount * 2")
    )
    for name, value in mode.items():
        builder = builder.property(name, value)
    table = builder.execute()
    new = spark.sql("select * from values ('a', 1L), ('b', 2L), ('c', 3L) as t(key, amount)").coalesce(1)
    new.write.format("delta").mode("append").save(path)
    return table.alias("t")


def test_generated_columns_are_computed_anew(spark: SparkSession, path: str, mode: Mapping[str, str]) -> None:
    table = ruled(spark, path, mode)
    table.update("key = 'b'", {"amount": "amount + 10"})
    new = spark.sql("select * from values ('c', 30L), ('d', 40L) as s(key, amount)").alias("s")
    merge = table.merge(new, "t.key = s.key").whenMatchedUpdate(set={"amount": "s.amount"}).whenNotMatchedInsertAll()
    merge.execute()
    found = {row["key"]: (row["amount"], row["twice"]) for row in Table(path).to_arrow().to_pylist()}
    assert found == {"a": (1, 2), "b": (12, 24), "c": (30, 60), "d": (40, 80)}
    with pytest.raises(GeneratedValueMismatchError, match="twice"):
        table.update("key = 'a'", {"twice": "7"})


def test_rows_keep_their_numbers_and_new_ones_get_others(
    spark: SparkSession, path: str, mode: Mapping[str, str]
) -> None:
    table = ruled(spark, path, mode)
    before = {row["key"]: row["id"] for row in Table(path).to_arrow(["key", "id"]).to_pylist()}
    new = (
        spark.sql("select * from values ('a', 5L), ('d', 1L), ('e', 2L), ('f', 3L) as s(key, amount)")
        .repartition(3)
        .alias("s")
    )
    merge = table.merge(new, "t.key = s.key").whenMatchedUpdateAll()
    merge = merge.whenNotMatchedInsert("s.amount < 2", {"key": "s.key"}).whenNotMatchedInsert(
        values={"key": "s.key", "amount": "s.amount"}
    )
    merge.execute()
    table.update("key = 'b'", {"amount": "0"})
    rows = {row["key"]: row for row in Table(path).to_arrow().to_pylist()}
    assert {key: rows[key]["id"] for key in before} == before
    assert len({row["id"] for row in rows.values()}) == 6
    assert (rows["d"]["amount"], rows["e"]["amount"], rows["a"]["amount"]) == (None, 2, 5)
    with pytest.raises(IdentityUpdateError, match="id"):
        table.update("key = 'a'", {"id": "7"})
    spark.sql("select 'z' as key, 9L as amount").write.format("delta").mode("append").save(path)
    assert len(set(Table(path).to_arrow(["id"])["id"].to_pylist())) == 7


# --- beside other writers


@pytest.mark.parametrize("listed", [300, 0])
def test_merges_of_other_rows_of_the_same_file_both_succeed(
    spark: SparkSession, path: str, listed: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(join_keys, "LISTED_MAX", listed)
    table = make(spark.range(0, 100, 1, 1).selectExpr("id", "0L as amount"), path, VECTORS).alias("t")

    def upsert(first: int) -> None:
        new = spark.range(first, first + 120, 20).selectExpr("id", "1L as amount").alias("s")
        table.merge(new, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    commit = RowChange.commit

    def after_another(self: RowChange, *arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(RowChange, "commit", commit)
        upsert(7)
        commit(self, *arguments, **named)

    monkeypatch.setattr(RowChange, "commit", after_another)
    upsert(3)
    assert {n for n, amount in rows(path).items() if amount == 1} == {3, 23, 43, 63, 83, 103, 7, 27, 47, 67, 87, 107}
    assert Table(path).version == 2


@pytest.mark.parametrize("listed", [300, 0])
def test_a_row_that_another_merge_has_changed_is_a_conflict(
    spark: SparkSession, path: str, listed: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(join_keys, "LISTED_MAX", listed)
    table, commit = accounts(spark, path), RowChange.commit

    def after_another(self: RowChange, *arguments: Any, **named: Any) -> int | None:
        monkeypatch.setattr(RowChange, "commit", commit)
        table.merge(source(spark, 6, 9), "t.id = s.id").whenMatchedUpdateAll().execute()
        return commit(self, *arguments, **named)

    monkeypatch.setattr(RowChange, "commit", after_another)
    with pytest.raises(DeltaConcurrentModificationException):
        table.merge(source(spark, 8, 12), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


@pytest.mark.parametrize("rows", [4, 200])
def test_keys_that_are_turned_into_text_do_not_hinder_a_commit_behind_another(
    spark: SparkSession, path: str, rows: int, monkeypatch: Any
) -> None:
    # which rows such keys are those of only Spark can tell: another writer's rows are taken for read, and told as a
    # conflict
    table, commit = (
        make(spark.range(0, 300, 1, 1).selectExpr("id", "0L as amount"), path, VECTORS).alias("t"),
        RowChange.commit,
    )

    def after_another(self: RowChange, *arguments: Any, **named: Any) -> int | None:
        monkeypatch.setattr(RowChange, "commit", commit)
        spark.range(3, 4).selectExpr("id", "9L as amount").write.format("delta").mode("append").save(path)
        return commit(self, *arguments, **named)

    monkeypatch.setattr(RowChange, "commit", after_another)
    texts = spark.range(rows).selectExpr("string(id) as k", "1L as v").alias("s")
    before = data_files(path)
    with pytest.raises(ConcurrentAppendException):
        table.merge(texts, "t.id = s.k" if rows < 100 else "string(t.id) = s.k").whenMatchedUpdate(
            set={"amount": "s.v"}
        ).execute()
    assert len(data_files(path)) == len(before) + 1


def test_jobs_are_named_after_steps(spark: SparkSession, path: str) -> None:
    """Spark's UI shows ten jobs of one name; or the description of the user's own jobs is lost."""
    table = make(spark.range(10).selectExpr("id", "'a' v"), path, COPIES)
    context, before = spark.sparkContext, max(described_jobs(spark))
    context.setJobDescription("nightly")
    try:
        source = spark.range(2, 20).selectExpr("id", "'x' v").alias("s")
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).execute()
        table.delete("id % 7 = 3")
        assert context.getLocalProperty("spark.job.description") == "nightly"
    finally:
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    named = {description for number, description in described_jobs(spark).items() if number > before}
    steps = ("MERGE: find rows", "MERGE: write rows", "MERGE: copy rows", "DELETE: find rows", "DELETE: copy rows")
    assert {f"nightly: tahoe {step}" for step in steps} <= named


def described_jobs(spark: SparkSession) -> dict[int, str | None]:
    """The descriptions of the jobs so far, by their numbers; the oldest are let go."""
    core: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    core.listenerBus().waitUntilEmpty()
    jobs = core.statusStore().jobsList(spark.sparkContext._jvm.java.util.ArrayList())  # type: ignore[union-attr]
    found = [jobs.apply(number) for number in range(jobs.size())]
    return {int(job.jobId()): job.description().get() if job.description().isDefined() else None for job in found}
