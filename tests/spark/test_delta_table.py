"""`DeltaTable` and its builder: the reference's names, arguments and result columns."""

from __future__ import annotations

import datetime as dt
import inspect
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import tahoe
from tahoe import DeltaTable
from tahoe.errors import (
    AppendOnlyTableError,
    CalledOnClassError,
    ConcurrentAppendException,
    DeltaError,
    DuplicateColumnsError,
    IdentityColumnTypeError,
    InvalidArgumentError,
    InvalidOptionError,
    InvalidPropertyError,
    MissingVersionError,
    NotADeltaTableError,
    StatementSyntaxError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedDataTypeError,
)
from tahoe.spark.api.table_builder import IdentityGenerator
from tahoe.spark.ddl import creation, table_names
from tahoe.spark.jvm.failures import for_user
from tahoe.table.commit import transaction


def write(spark: SparkSession, path: str, **options: Any) -> None:
    spark.range(3).write.format("delta").mode("append").options(**options).save(path)


def test_a_method_that_is_called_on_the_class_says_what_to_write() -> None:
    with pytest.raises(CalledOnClassError, match=r'Write DeltaTable\.forPath\(spark, "/data/t"\)\.delete\(\)'):
        DeltaTable.delete("id = 1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Write DeltaTable\.forPath\(.*\)\.merge\(source, condition\)"):
        DeltaTable.merge("/data/t", "source", "id = id")  # type: ignore[arg-type]


# --- finding tables


def test_for_path(spark: SparkSession, path: str) -> None:
    write(spark, path)
    table = DeltaTable.forPath(spark, path)
    assert table.toDF().count() == 3
    write(spark, path)
    assert table.toDF().count() == 6


def test_for_path_takes_settings_of_the_storage_only(spark: SparkSession, path: str) -> None:
    write(spark, path)
    assert DeltaTable.forPath(spark, path, {"fs.s3a.access.key": "k"}).toDF().count() == 3
    with pytest.raises(InvalidOptionError):
        DeltaTable.forPath(spark, path, {"spark.sql.shuffle.partitions": "1"})


def test_what_is_no_table(spark: SparkSession, path: str) -> None:
    with pytest.raises(TableNotFoundError):
        DeltaTable.forPath(spark, path)
    spark.range(1).write.parquet(path)
    with pytest.raises(NotADeltaTableError):
        DeltaTable.forPath(spark, path)
    with pytest.raises(AnalysisException):
        DeltaTable.forPath(spark, path)


def test_for_name(spark: SparkSession, path: str, table_name: str) -> None:
    write(spark, path)
    assert DeltaTable.forName(spark, f"delta.`{path}`").toDF().count() == 3
    spark.sql(f"create table {table_name} using delta location '{path}'")
    table = DeltaTable.forName(spark, table_name)
    assert table.toDF().count() == 3
    assert DeltaTable.forName(spark, f"default.{table_name}").detail().collect()[0].location == f"file://{path}"


@pytest.mark.parametrize("qualifier", ["{t}", "default.{t}", "spark_catalog.default.{t}"])
def test_columns_go_by_all_parts_of_the_name(spark: SparkSession, path: str, table_name: str, qualifier: str) -> None:
    spark.sql(f"create table {table_name} using delta location '{path}' as select id, 0 as n from range(5)")
    name = qualifier.format(t=table_name)
    for given in (table_name, f"default.{table_name}"):
        table = DeltaTable.forName(spark, given)
        table.update(f"{name}.id = 3", {f"{name}.n": f"{name}.n + 1"})
        source = spark.range(3, 5).alias("s")
        table.merge(source, f"{name}.id = s.id").whenMatchedUpdate(
            f"{name}.n > 0", {f"{name}.n": f"{name}.n * 10"}
        ).execute()
    table.delete(f"{name}.id < 2 AND {name.upper()}.n = 0")
    assert sorted((row.id, row.n) for row in table.toDF().collect()) == [(2, 0), (3, 110), (4, 0)]


def test_for_name_of_other_things(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"create table {table_name} (a int) using parquet")
    with pytest.raises(NotADeltaTableError, match="of the format parquet"):
        DeltaTable.forName(spark, table_name)
    spark.range(1).createOrReplaceTempView(f"{table_name}_view")
    with pytest.raises(NotADeltaTableError, match="a temporary view"):
        DeltaTable.forName(spark, f"{table_name}_view")


@pytest.mark.parametrize("name", ["{t}x", "default.{t}x", "other_catalog.default.{t}"])
def test_for_name_of_nothing_shows_the_nearest_names(
    spark: SparkSession, path: str, table_name: str, name: str
) -> None:
    spark.sql(f"create table {table_name} (a int) using delta location '{path}'")
    where = "spark_catalog" if name.startswith("other_catalog") else "it"
    with pytest.raises(
        AnalysisException, match=f"cannot be found: the catalog has no table of that name; {where} has .*{table_name}"
    ):
        DeltaTable.forName(spark, name.format(t=table_name))
    with pytest.raises(AnalysisException, match="cannot be found"):
        DeltaTable.forName(spark, f"no_such_database.{table_name}")


# --- errors


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (TableNotFoundError, AnalysisException),
        (AppendOnlyTableError, UnsupportedOperationException),
        (IdentityColumnTypeError, UnsupportedOperationException),
        (InvalidOptionError, IllegalArgumentException),
        (StatementSyntaxError, ParseException),
        (ConcurrentAppendException, PySparkException),
        (MissingVersionError, PySparkException),
    ],
)
def test_errors_are_those_of_pyspark_too(kind: type[DeltaError], expected: type[Exception]) -> None:
    error = kind(**dict.fromkeys(kind.parameter_names(), "x"))
    both = for_user(error)
    assert isinstance(both, kind)
    assert isinstance(both, expected)
    assert isinstance(both, PySparkException)
    assert for_user(both) is both
    again = pickle.loads(pickle.dumps(both))
    assert type(again) is type(both)
    assert str(again) == str(both) == str(error)
    assert (both.getCondition(), both.getSqlState()) == (kind.condition, kind.sqlstate)


def test_suggestions_for_an_unknown_column_are_columns_of_the_table(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    with pytest.raises(AnalysisException) as found:
        DeltaTable.forPath(spark, path).delete("ID_ = 1")
    assert found.value.getMessageParameters() == {"objectName": "`ID_`", "proposal": "`id`"}


def test_is_delta_table(spark: SparkSession, path: str) -> None:
    assert not DeltaTable.isDeltaTable(spark, path)
    write(spark, path)
    assert DeltaTable.isDeltaTable(spark, path)
    assert DeltaTable.isDeltaTable(spark, f"delta.`{path}`")
    assert not DeltaTable.isDeltaTable(spark, path + "/_delta_log")


def test_alias(spark: SparkSession, path: str) -> None:
    write(spark, path)
    left, right = DeltaTable.forPath(spark, path).alias("l"), DeltaTable.forPath(spark, path).alias("r")
    assert left.toDF().join(right.toDF(), F.expr("l.id = r.id")).count() == 3


def test_a_table_and_its_builders_tell_what_they_are(spark: SparkSession, path: str, table_name: str) -> None:
    """A notebook shows the address of a Python object, or fails because the table was dropped; or a job runs for it."""
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"create table {table_name} using delta location '{path}'")
    named, table = DeltaTable.forName(spark, table_name), DeltaTable.forPath(spark, path)
    url = repr(f"file://{path}")
    assert [repr(named), repr(table.alias("t"))] == [f"DeltaTable('{table_name}')", f"DeltaTable({url}, alias='t')"]
    assert f">{table_name}<" in named._repr_html_()
    assert "<td>3</td>" in table._repr_html_()
    merge = (
        table.alias("t").merge(spark.range(1).alias("s"), "t.id = s.id").whenMatchedUpdate("s.id > 1", {"id": "s.id"})
    )
    assert repr(merge.whenNotMatchedInsertAll().whenNotMatchedBySourceDelete()) == (
        f"DeltaMergeBuilder({url}, WHEN MATCHED AND … THEN UPDATE SET …, WHEN NOT MATCHED THEN INSERT *, "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE)"
    )
    assert repr(table.optimize().where("id > 1")) == f"DeltaOptimizeBuilder({url}, WHERE …)"
    builder = DeltaTable.create(spark).tableName("t").addColumn("id", "long").addColumn("v", "string")
    assert repr(builder) == "DeltaTableBuilder(create, 't', columns=[id, v])"
    shutil.rmtree(path)
    assert "is not a Delta table" in named._repr_html_()
    assert repr(named) == f"DeltaTable('{table_name}')"


# --- describing tables

HISTORY_TYPES = {
    "version": "bigint",
    "timestamp": "timestamp",
    "userId": "string",
    "userName": "string",
    "operation": "string",
    "operationParameters": "map<string,string>",
    "job": "struct<jobId:string,jobName:string,jobRunId:string,runId:string,jobOwnerId:string,triggerType:string>",
    "notebook": "struct<notebookId:string>",
    "clusterId": "string",
    "readVersion": "bigint",
    "isolationLevel": "string",
    "isBlindAppend": "boolean",
    "operationMetrics": "map<string,string>",
    "userMetadata": "string",
    "engineInfo": "string",
}

DETAIL_TYPES = {
    "format": "string",
    "id": "string",
    "name": "string",
    "description": "string",
    "location": "string",
    "createdAt": "timestamp",
    "lastModified": "timestamp",
    "partitionColumns": "array<string>",
    "clusteringColumns": "array<string>",
    "numFiles": "bigint",
    "sizeInBytes": "bigint",
    "properties": "map<string,string>",
    "minReaderVersion": "int",
    "minWriterVersion": "int",
    "tableFeatures": "array<string>",
}


def test_history(spark: SparkSession, path: str) -> None:
    write(spark, path, userMetadata="first")
    write(spark, path)
    before = dt.datetime.now()
    history = DeltaTable.forPath(spark, path).history()
    assert dict(history.dtypes) == HISTORY_TYPES
    newest, oldest = history.collect()
    assert (newest.version, newest.readVersion, newest.operation, newest.isBlindAppend) == (1, 0, "WRITE", True)
    assert (oldest.version, oldest.readVersion, oldest.userMetadata) == (0, None, "first")
    assert newest.operationMetrics["numOutputRows"] == "3"
    assert newest.operationParameters == {"mode": "Append", "partitionBy": "[]"}
    assert abs(before - newest.timestamp) < dt.timedelta(minutes=5)
    assert [row.version for row in DeltaTable.forPath(spark, path).history(1).collect()] == [1]


def test_history_of_writers_that_say_other_things(spark: SparkSession, path: str) -> None:
    # parameters that are no texts and fields of other types must not make the history unreadable
    write(spark, path)
    commit = Path(path, "_delta_log", f"{1:020d}.json")
    commit.write_text(
        '{"commitInfo":{"timestamp":1,"operation":"ODD","operationParameters":{"n":1,"l":["a"],"t":"x","none":null},"readVersion":"0","job":{"jobId":5},"isBlindAppend":"yes","operationMetrics":{"m":7},"unknown":{}}}\n'
    )
    odd = DeltaTable.forPath(spark, path).history(1).collect()[0]
    assert odd.operationParameters == {"n": "1", "l": '["a"]', "t": "x", "none": None}
    assert (odd.readVersion, odd.isBlindAppend, odd.job.jobId, odd.operationMetrics) == (None, None, "5", {"m": "7"})


def test_detail(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("a", "long").addColumn("p", "string").partitionedBy("p")
    table = builder.comment("what it is").property("delta.checkpointInterval", "3").execute()
    spark.sql("select 1L a, 'x' p").write.format("delta").mode("append").save(path)
    detail = table.detail()
    assert dict(detail.dtypes) == DETAIL_TYPES
    row = detail.collect()[0]
    assert (row.format, row.name, row.description, row.location) == ("delta", None, "what it is", f"file://{path}")
    assert (row.partitionColumns, row.clusteringColumns, row.numFiles) == (["p"], [], 1)
    assert row.sizeInBytes == sum(file.stat().st_size for file in Path(path, "p=x").glob("*.parquet"))
    assert row.properties == {"delta.checkpointInterval": "3"}
    assert (row.minReaderVersion, row.minWriterVersion, row.tableFeatures) == (1, 2, ["appendOnly", "invariants"])
    assert row.id == tahoe.Table(path).snapshot().metadata.id
    assert row.createdAt <= row.lastModified


def test_detail_of_a_named_table_has_its_name(spark: SparkSession, table_name: str) -> None:
    spark.range(1).write.format("delta").saveAsTable(table_name)
    assert table_name in DeltaTable.forName(spark, table_name).detail().collect()[0].name


# --- the builder


def test_create(spark: SparkSession, path: str) -> None:
    table = (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("id", LongType(), nullable=False, comment="the key")
        .addColumn("name", "STRING")
        .addColumn("price", dataType="decimal(10,2)")
        .addColumns(StructType([StructField("n", IntegerType()), StructField("day", StringType(), False)]))
        .partitionedBy("day", "n")
        .execute()
    )
    assert isinstance(table, DeltaTable)
    snapshot = tahoe.Table(path).snapshot()
    assert [(f.name, str(f.type), f.nullable) for f in snapshot.schema] == [
        ("id", "long", False),
        ("name", "string", True),
        ("price", "decimal(10,2)", True),
        ("n", "integer", True),
        ("day", "string", False),
    ]
    assert snapshot.partition_columns == ("day", "n")
    assert snapshot.schema.fields[0].metadata == {"comment": "the key"}
    assert table.toDF().collect() == []
    assert [row.operation for row in table.history().collect()] == ["CREATE TABLE"]
    with pytest.raises(TableExistsError):
        DeltaTable.create(spark).location(path).addColumn("id", "int").execute()
    with pytest.raises(AnalysisException):
        DeltaTable.create(spark).location(path).addColumn("id", "int").execute()


def test_create_by_name(spark: SparkSession, table_name: str) -> None:
    table = DeltaTable.create(spark).tableName(table_name).addColumn("id", "long").execute()
    spark.sql(f"insert into {table_name} values (5)")
    assert [row.id for row in table.toDF().collect()] == [5]
    assert spark.catalog.tableExists(table_name)
    folder = Path(table.detail().collect()[0].location.removeprefix("file://"))
    with pytest.raises(TableExistsError):
        DeltaTable.create(spark).tableName(table_name).addColumn("id", "long").execute()
    spark.sql(f"drop table {table_name}")
    assert not folder.exists()


def test_create_by_name_in_a_place(spark: SparkSession, table_name: str, path: str) -> None:
    DeltaTable.create(spark).tableName(table_name).location(path).addColumn("id", "long").execute()
    spark.sql(f"insert into {table_name} values (5)")
    assert tahoe.Table(path).to_arrow().num_rows == 1
    spark.sql(f"drop table {table_name}")
    assert DeltaTable.isDeltaTable(spark, path)


def test_create_by_a_path_as_a_name(spark: SparkSession, path: str) -> None:
    DeltaTable.create(spark).tableName(f"delta.`{path}`").addColumn("id", "long").execute()
    assert DeltaTable.isDeltaTable(spark, path)


def test_create_if_not_exists(spark: SparkSession, path: str, table_name: str) -> None:
    DeltaTable.createIfNotExists(spark).location(path).addColumn("id", "long").execute()
    write(spark, path)
    again = DeltaTable.createIfNotExists(spark).location(path).addColumn("other", "int").execute()
    assert again.toDF().columns == ["id"]
    assert again.toDF().count() == 3
    for _ in range(2):
        DeltaTable.createIfNotExists(spark).tableName(table_name).addColumn("id", "long").execute()
    assert len(DeltaTable.forName(spark, table_name).history().collect()) == 1


def race(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, rival: Callable[[], object]) -> None:
    """Let another session do something before the first call of a function."""
    original = getattr(module, name)

    def first(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(module, name, original)
        rival()
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, first)


# From before the statement looks whether there is a table until it puts the first version.
MOMENTS = [(creation, "check_expressions"), (creation, "create_table"), (transaction, "put_commit")]
BY_BUILDER = "by the builder"
CREATIONS = [
    "CREATE TABLE IF NOT EXISTS {} (id INT) USING delta",
    "CREATE TABLE IF NOT EXISTS {} LIKE {like}",
    BY_BUILDER,
]


@pytest.mark.parametrize("named", [True, False], ids=["name", "path"])
@pytest.mark.parametrize("how", CREATIONS)
@pytest.mark.parametrize(("module", "function"), MOMENTS, ids=[name for _, name in MOMENTS])
def test_create_if_not_exists_beside_another_session(
    spark: SparkSession,
    path: str,
    table_name: str,
    tmp_path: Path,
    module: Any,
    function: str,
    how: str,
    named: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table that was created first stays, whatever its columns."""
    table = table_name if named else f"delta.`{path}`"
    like = f"delta.`{tmp_path / 'like'}`"
    spark.sql(f"CREATE TABLE {like} (id INT) USING delta")
    race(monkeypatch, module, function, lambda: spark.sql(f"CREATE TABLE {table} (rival INT) USING delta"))
    if how == BY_BUILDER:
        DeltaTable.createIfNotExists(spark).tableName(table).addColumn("id", "int").execute()
    else:
        spark.sql(how.format(table, like=like))
    assert spark.table(table).columns == ["rival"]


def test_create_if_not_exists_beside_another_session_that_adds_the_name(
    spark: SparkSession, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    race(monkeypatch, table_names, "new_entry", lambda: spark.sql(f"CREATE TABLE {table_name} USING delta"))
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table_name} (id INT) USING delta")
    assert spark.table(table_name).columns == ["id"]


@pytest.mark.parametrize("how", ["CREATE TABLE {} (id INT) USING delta", BY_BUILDER])
@pytest.mark.parametrize(("module", "function"), MOMENTS, ids=[name for _, name in MOMENTS])
def test_create_beside_another_session(
    spark: SparkSession, path: str, module: Any, function: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"delta.`{path}`"
    race(monkeypatch, module, function, lambda: spark.sql(f"CREATE TABLE {table} (rival INT) USING delta"))
    with pytest.raises(AnalysisException, match="already exists") as raised:
        if how == BY_BUILDER:
            DeltaTable.create(spark).tableName(table).addColumn("id", "int").execute()
        else:
            spark.sql(how.format(table))
    assert raised.value.getSqlState() == "42P07"


def test_a_name_for_a_table_that_is_there(spark: SparkSession, path: str, table_name: str) -> None:
    write(spark, path)
    DeltaTable.createIfNotExists(spark).tableName(table_name).location(path).addColumn("id", "long").execute()
    assert spark.table(table_name).count() == 3


def test_replace(spark: SparkSession, path: str, table_name: str) -> None:
    with pytest.raises(TableNotFoundError):
        DeltaTable.replace(spark).location(path).addColumn("a", "int").execute()
    with pytest.raises(TableNotFoundError, match="is not a Delta table: the folder"):
        DeltaTable.replace(spark).tableName(f"delta.`{path}`").addColumn("a", "int").execute()
    write(spark, path, **{"delta.checkpointInterval": "3"})
    table = (
        DeltaTable.replace(spark).location(path).addColumn("a", "int").property("delta.appendOnly", "false").execute()
    )
    assert table.toDF().columns == ["a"]
    assert table.toDF().collect() == []
    assert tahoe.Table(path).properties == {"delta.appendOnly": "false"}
    assert [row.version for row in table.history().collect()] == [1, 0]
    assert spark.read.format("delta").option("versionAsOf", 0).load(path).count() == 3
    with pytest.raises(TableNotFoundError):
        DeltaTable.replace(spark).tableName(table_name).addColumn("a", "int").execute()


def test_create_or_replace(spark: SparkSession, table_name: str) -> None:
    DeltaTable.createOrReplace(spark).tableName(table_name).addColumn("a", "int").execute()
    spark.sql(f"insert into {table_name} values (1)")
    table = (
        DeltaTable.createOrReplace(spark)
        .tableName(table_name)
        .addColumn("b", "string")
        .partitionedBy("b")
        .addColumn("c", "int")
        .execute()
    )
    assert spark.table(table_name).columns == ["b", "c"]
    assert table.toDF().count() == 0
    assert len(table.history().collect()) == 3


def test_the_active_session_is_used(spark: SparkSession, path: str) -> None:
    DeltaTable.create().location(path).addColumn("id", "int").execute()
    assert DeltaTable.forPath(spark, path).toDF().columns == ["id"]


def test_session_defaults_are_for_new_tables(spark: SparkSession, path: str) -> None:
    spark.conf.set("spark.databricks.delta.properties.defaults.logRetentionDuration", "interval 60 days")
    try:
        DeltaTable.create(spark).location(path).addColumn("id", "int").execute()
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.logRetentionDuration")
    assert tahoe.Table(path).properties == {"delta.logRetentionDuration": "interval 60 days"}


def test_column_mapping_by_property(spark: SparkSession, path: str) -> None:
    builder = (
        DeltaTable.create(spark).location(path).addColumn("a b", "int").property("delta.columnMapping.mode", "name")
    )
    builder.execute()
    spark.sql("select 1 as `a b`").write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).collect()[0]["a b"] == 1


def test_the_builder_makes_clustered_tables(spark: SparkSession, path: str) -> None:
    table = (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("a", "int")
        .addColumn("s", "struct<x: int>")
        .clusterBy("a", "s.x")
        .execute()
    )
    assert table.detail().collect()[0].clusteringColumns == ["a", "s.x"]


def test_bad_tables_are_refused(spark: SparkSession, path: str) -> None:
    create = DeltaTable.create
    with pytest.raises(InvalidOptionError, match="name or a location"):
        create(spark).addColumn("a", "int").execute()
    with pytest.raises(DuplicateColumnsError):
        create(spark).location(path).addColumn("a", "int").addColumn("A", "int").execute()
    with pytest.raises(UnsupportedDataTypeError):
        create(spark).location(path).addColumn("a", "interval day").execute()
    with pytest.raises(InvalidPropertyError):
        create(spark).location(path).addColumn("a", "int").property("delta.nonsense", "1").execute()
    with pytest.raises(tahoe.errors.ColumnNotFoundError):
        create(spark).location(path).addColumn("a", "int").partitionedBy("b").execute()


def test_arguments_are_checked_as_in_the_reference(spark: SparkSession) -> None:
    builder = DeltaTable.create(spark)
    wrong: list[Any] = [
        lambda: builder.tableName(1),
        lambda: builder.location(1),
        lambda: builder.comment(1),
        lambda: builder.addColumn(1, "int"),
        lambda: builder.addColumn("a", 1),
        lambda: builder.addColumn("a", "int", nullable="no"),
        lambda: builder.addColumn("a", "int", generatedAlwaysAs=1),
        lambda: builder.addColumn("a", "int", generatedByDefaultAs="x"),
        lambda: builder.addColumn("a", "int", comment=1),
        lambda: builder.addColumns(1),
        lambda: builder.addColumns([1]),
        lambda: builder.partitionedBy(1),
        lambda: builder.partitionedBy(["a", 1]),
        lambda: builder.clusterBy(1),
        lambda: builder.property("a", 1),
        lambda: builder.property(1, "a"),
    ]
    for call in wrong:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="non-zero"):
        builder.addColumn("a", "long", generatedAlwaysAs=IdentityGenerator(step=0))
    with pytest.raises(ValueError, match="cannot both be set"):
        builder.addColumn("a", "long", generatedAlwaysAs="1", generatedByDefaultAs=IdentityGenerator())


def test_names_of_arguments_are_the_references() -> None:
    # code that names its arguments must run unchanged
    assert list(inspect.signature(DeltaTable.forPath).parameters) == ["sparkSession", "path", "hadoopConf"]
    assert list(inspect.signature(DeltaTable.forName).parameters) == ["sparkSession", "tableOrViewName"]
    assert list(inspect.signature(DeltaTable.isDeltaTable).parameters) == ["sparkSession", "identifier"]
    assert list(inspect.signature(DeltaTable.alias).parameters) == ["self", "aliasName"]
    assert list(inspect.signature(tahoe.DeltaTableBuilder.addColumn).parameters) == [
        "self",
        "colName",
        "dataType",
        "nullable",
        "generatedAlwaysAs",
        "generatedByDefaultAs",
        "comment",
    ]


# --- columns of its DataFrames in conditions


def test_columns_of_its_dataframe_stand_in_conditions_and_values(spark, path):
    spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id long, v string").write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    rows = table.toDF()
    table.delete(rows.id == 3)
    table.update(rows.id == 1, {"v": F.concat(rows.v, rows["v"])})
    aliased = table.alias("t")
    aliased.update(aliased.toDF().id == 2, {"v": F.upper(aliased.toDF().v)})
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "aa"), (2, "B")]


def test_columns_of_its_dataframe_stand_in_a_merge(spark, path):
    """With an alias and without, though the source has a column of the same name."""
    spark.createDataFrame([(1, "a"), (2, "b")], "id long, v string").write.format("delta").save(path)
    source = spark.createDataFrame([(1, "x")], "id long, w string")
    for table in (DeltaTable.forPath(spark, path).alias("t"), DeltaTable.forPath(spark, path)):
        rows = table.toDF()
        table.merge(source, rows.id == source.id).whenMatchedUpdate(
            rows.v > "a", {"v": F.concat(rows.v, source.w)}
        ).execute()
        table.merge(source, rows.id == source.id).whenMatchedUpdate(
            rows.v == "a", {"v": F.concat(rows.v, source.w)}
        ).execute()
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "axx"), (2, "b")]


def test_columns_of_another_dataframe_do_not(spark, path):
    spark.createDataFrame([(1, "a")], "id long, v string").write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.toDF()
    other = spark.read.format("delta").load(path)
    with pytest.raises(AnalysisException):
        table.delete(other.id == 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.restoreToVersion("0"), "version needs to be an int but got '<class 'str'>'."),
        (lambda t: t.restoreToTimestamp(1), "timestamp needs to be a string but got '<class 'int'>'."),
        (lambda t: t.clone(1), "target needs to be a string but got '<class 'int'>'."),
        (lambda t: t.clone("/x", "yes"), "isShallow needs to be a boolean but got '<class 'str'>'."),
        (
            lambda t: t.clone("/x", True, properties={"a": 1}),
            "All property values including 1 needs to be a string but got '<class 'int'>'.",
        ),
    ],
)
def test_arguments_are_checked_as_the_reference_does(spark, path, call, message):
    spark.range(3).write.format("delta").save(path)
    with pytest.raises(ValueError) as raised:
        call(DeltaTable.forPath(spark, path))
    assert str(raised.value) == message


# What a method needs besides the argument that is wrong.
NEEDED: dict[str, dict[str, Any]] = {
    "forPath": {"path": "/nowhere"},
    "forName": {"tableOrViewName": "nowhere"},
    "isDeltaTable": {"identifier": "/nowhere"},
    "convertToDelta": {"identifier": "parquet.`/nowhere`"},
    "merge": {"condition": "true"},
    "upgradeTableProtocol": {"readerVersion": 1, "writerVersion": 2},
    "cloneAtVersion": {"version": 0, "target": "/nowhere"},
    "cloneAtTimestamp": {"timestamp": "2026-01-01", "target": "/nowhere"},
    "clone": {"target": "/nowhere"},
}
OF_THE_CLASS = {
    "create",
    "createIfNotExists",
    "createOrReplace",
    "replace",
    "forPath",
    "forName",
    "isDeltaTable",
    "convertToDelta",
}


def test_arguments_of_another_kind_raise_what_users_can_understand(spark, path):
    """The reference's own errors are ValueError and TypeError; what it hands to the JVM unseen is told here."""
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    methods = [(n, m) for n, m in inspect.getmembers(table, callable) if not n.startswith("_")]
    taken = []
    for name, method in methods:
        for argument in inspect.signature(method).parameters:
            for wrong in (object(), 5, [object()], {1: 2}):
                given = (
                    ({"sparkSession": spark} if name in OF_THE_CLASS else {}) | NEEDED.get(name, {}) | {argument: wrong}
                )
                if name == "merge" and argument != "source":
                    given["source"] = spark.range(1)
                try:
                    method(**given)
                    taken.append((name, argument, wrong))
                except (DeltaError, PySparkException, ValueError, TypeError):
                    pass
                except Exception as error:
                    pytest.fail(f"{name}({argument}={wrong!r}) raised {type(error).__name__}: {error}")
    assert taken == [
        ("history", "limit", 5),
        ("upgradeTableProtocol", "writerVersion", 5),
        ("vacuum", "retentionHours", 5),
    ]


@pytest.mark.parametrize("call", [DeltaTable.forPath, DeltaTable.forName, DeltaTable.isDeltaTable])
def test_a_session_is_needed(call):
    with pytest.raises(AssertionError, match="no active Spark session"):
        call(None, "/nowhere")


def test_wrong_arguments_are_told_in_our_words(spark, path):
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, Path(path))
    for call, message in (
        (lambda: table.history(-1), "limit must be .* not -1"),
        (lambda: table.history("1"), r"limit must be .* not '1' \(str\)"),
        (lambda: table.alias(1), "aliasName must be .* not 1"),
        (lambda: DeltaTable.forPath(spark, path, {"fs.s3a.connection.maximum": 5}), "'fs.s3a.connection.maximum' is 5"),
        (lambda: DeltaTable.forName(spark, 5), "tableOrViewName must be .* not 5"),
        (lambda: DeltaTable.forPath("spark", path), "must be a Spark session"),
    ):
        with pytest.raises(InvalidArgumentError, match=message) as raised:
            call()
        assert isinstance(raised.value, IllegalArgumentException)
