"""Columns that data files know by other names or by ids: renamed, nested, filtered, and beside deletion vectors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import Row

import tahoe
from tahoe.protocol.types.schema import Array, Field, Map, Struct
from tests.spark.foreign import change_schema, mark


def renamed(data_type, names):
    """A schema after another writer's RENAME COLUMN at any depth: the metadata, and so the files, stay."""
    match data_type:
        case Struct(fields):
            return Struct(
                tuple(replace(f, name=names.get(f.name, f.name), type=renamed(f.type, names)) for f in fields)
            )
        case Array():
            return replace(data_type, element=renamed(data_type.element, names))
        case Map():
            return replace(data_type, key=renamed(data_type.key, names), value=renamed(data_type.value, names))
        case _:
            return data_type


NAMES = {"b": "bee", "s": "struct of ours", "x": "ex", "m": "em", "v": "vee", "p": "part"}


@pytest.fixture(scope="module", params=["name", "id"])
def table(request, spark, tmp_path_factory) -> str:
    """A table of two files whose columns were renamed after it was written, also as view `mapped`."""
    path = str(tmp_path_factory.mktemp("mapping") / "t")
    rows = spark.range(0, 100, 1, 1).selectExpr(
        "id",
        "id * 2 as b",
        "named_struct('x', id, 'y', named_struct('x', concat('n', id))) as s",
        "array(named_struct('v', id)) as l",
        "map('k', named_struct('v', id)) as m",
        "id % 2 as p",
    )
    rows.write.format("delta").partitionBy("p").option("delta.columnMapping.mode", request.param).save(path)
    snapshot = tahoe.Table(path).snapshot()
    assert snapshot.column_mapping_mode == request.param
    schema = renamed(snapshot.schema, NAMES)
    change_schema(path, schema, partition_columns=("part",))
    spark.read.format("delta").load(path).createOrReplaceTempView("mapped")
    yield path
    spark.catalog.dropTempView("mapped")


def test_columns_have_the_names_that_users_know(spark, table):
    frame = spark.read.format("delta").load(table)
    assert frame.columns == ["id", "bee", "struct of ours", "l", "em", "part"]
    assert frame.where("id = 7").collect() == [
        Row(
            **{
                "id": 7,
                "bee": 14,
                "struct of ours": Row(ex=7, y=Row(ex="n7")),
                "l": [Row(vee=7)],
                "em": {"k": Row(vee=7)},
                "part": 1,
            }
        )
    ]


def test_users_do_not_see_the_mapping(spark, table):
    frame = spark.read.format("delta").load(table)
    assert "delta.columnMapping" not in frame.schema.json()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select `struct of ours`.ex from mapped where `struct of ours`.y.ex = 'n5'", [(5,)]),
        ("select `struct of ours`.y.ex from mapped where id = 6", [("n6",)]),
        ("select sum(bee) from mapped where part = 0", [(4900,)]),
        ("select count(*) from mapped", [(100,)]),
        ("select l.vee, em['k'].vee from mapped where bee in (20, 22)", [([10], 10), ([11], 11)]),
        ("select max(a.bee) from mapped a join mapped b on a.id = b.bee where b.part = 1", [(196,)]),
        ("select count(*) from mapped where bee is null or `struct of ours`.ex < 3", [(3,)]),
    ],
)
@pytest.mark.usefixtures("table")
def test_queries(spark, query, expected):
    assert sorted(tuple(row) for row in spark.sql(query).collect()) == expected


def plan_of(frame) -> str:
    frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.usefixtures("table")
def test_only_what_is_used_is_read(spark):
    plan = plan_of(spark.sql("select `struct of ours`.y.ex from mapped where part = 0"))
    assert "ReadSchema: struct<struct of ours:struct<y:struct<ex:string>>>" in plan


def test_row_groups_are_skipped_by_the_files_names(spark, tmp_path):
    # the reader counts the rows that it reads: a filter that it understands leaves all row groups out
    path = str(tmp_path / "t")
    rows = spark.range(0, 100_000, 1, 1).selectExpr("id", "named_struct('x', id) as s")
    rows.write.format("delta").option("delta.columnMapping.mode", "name").option("parquet.block.size", "65536").save(
        path
    )
    change_schema(path, renamed(tahoe.Table(path).schema, {"id": "key", "s": "in it", "x": "ex"}))
    frame = spark.read.format("delta").load(path)
    assert rows_read(frame.where("key = 99999")) < 50_000
    assert rows_read(frame.where("`in it`.ex = 3")) < 50_000


def rows_read(frame) -> int:
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = (plan.executedPlan() if "Adaptive" in plan.nodeName() else plan).collectLeaves()
    return leaves.apply(0).metrics().apply("numOutputRows").value()


def test_columns_swapped_by_name_do_not_swap_values(spark, tmp_path):
    # a is now called b, and the other way round: matching by the visible name would be silently wrong
    path = str(tmp_path / "t")
    spark.sql("select 1 as a, 2 as b").write.format("delta").option("delta.columnMapping.mode", "name").save(path)
    change_schema(path, renamed(tahoe.Table(path).schema, {"a": "b", "b": "a"}))
    frame = spark.read.format("delta").load(path)
    assert frame.collect() == [Row(b=1, a=2)]
    assert frame.where("a = 2").collect() == [Row(b=1, a=2)]
    assert frame.where("a = 1").collect() == []


def test_a_dropped_and_added_column_is_not_the_old_one(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql("select 1 as a, 2 as b").write.format("delta").option("delta.columnMapping.mode", "name").save(path)
    schema = tahoe.Table(path).schema
    fresh = Field(
        name="b",
        type=schema.find("b").type,
        metadata={"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "col-new"},
    )
    change_schema(path, Struct((schema.find("a"), fresh)))
    assert spark.read.format("delta").load(path).collect() == [Row(a=1, b=None)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapping_and_vectors_together(spark, tmp_path, mode):
    path = str(tmp_path / "t")
    rows = spark.range(0, 20, 1, 1).selectExpr("id", "named_struct('x', id, 'y', -id) as s")
    rows.write.format("delta").option("delta.columnMapping.mode", mode).save(path)
    change_schema(path, renamed(tahoe.Table(path).schema, {"s": "str", "y": "why"}))
    mark(path, {0: range(10)})
    frame = spark.read.format("delta").load(path)
    assert frame.selectExpr("min(id)", "count(*)", "sum(str.why)", "max(_metadata.row_index)").collect()[0][:] == (
        10,
        10,
        -145,
        19,
    )
    assert frame.where("str.why = -12").select("id", "str").collect() == [Row(id=12, str=Row(x=12, why=-12))]
