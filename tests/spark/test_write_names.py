"""`saveAsTable`, `insertInto`, `writeTo` and INSERT: what Spark's names and statements do to a Delta table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tahoe
from tahoe.errors import NotNullViolationError, PartitionMismatchError, SchemaMismatchError, WriteFailedError

pytestmark = pytest.mark.every_spark


def rows(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.table(name).collect()), key=repr)


def history(spark: SparkSession, name: str) -> list[Any]:
    return tahoe.DeltaTable.forName(spark, name).history().collect()


def location(spark: SparkSession, name: str) -> Path:
    return Path(tahoe.DeltaTable.forName(spark, name).detail().collect()[0].location.removeprefix("file://"))


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.sql("select id, concat('p', id % 2) p from range(4)")


@pytest.fixture
def table(frame: DataFrame, table_name: str) -> str:
    """A table partitioned by p, with four rows."""
    frame.write.format("delta").partitionBy("p").saveAsTable(table_name)
    return table_name


# --- saveAsTable


def test_save_as_table_makes_a_managed_table(spark: SparkSession, table: str) -> None:
    assert rows(spark, table) == [(0, "p0"), (1, "p1"), (2, "p0"), (3, "p1")]
    folder = location(spark, table)
    assert tahoe.Table(str(folder)).snapshot().partition_columns == ("p",)
    (created,) = history(spark, table)
    assert created.operation == "CREATE TABLE AS SELECT"
    assert created.operationParameters == {
        "isManaged": "true",
        "partitionBy": '["p"]',
        "clusterBy": "[]",
        "properties": "{}",
    }
    spark.sql(f"drop table {table}")
    assert not folder.exists()


def test_save_as_table_with_a_path_is_external(
    spark: SparkSession, frame: DataFrame, table_name: str, path: str
) -> None:
    frame.write.format("delta").option("path", path).saveAsTable(table_name)
    spark.sql(f"drop table {table_name}")
    assert tahoe.Table(path).to_arrow().num_rows == 4


def test_save_as_table_appends_by_name(spark: SparkSession, table: str) -> None:
    spark.sql("select 'p9' p, 9 id").write.format("delta").mode("append").saveAsTable(table)
    assert (9, "p9") in rows(spark, table)
    assert [row.version for row in history(spark, table)] == [1, 0]


def test_save_as_table_overwrites_and_keeps_the_history(spark: SparkSession, frame: DataFrame, table: str) -> None:
    # Spark's own way would drop the table first, its log included
    frame.where("id = 1").write.format("delta").mode("overwrite").saveAsTable(table)
    assert rows(spark, table) == [(1, "p1")]
    assert [row.version for row in history(spark, table)] == [1, 0]
    assert spark.sql(f"select count(*) from {table} version as of 0").collect()[0][0] == 4
    assert tahoe.Table(str(location(spark, table))).snapshot().partition_columns == ("p",)


def test_save_as_table_keeps_the_schema_unless_told(spark: SparkSession, table: str) -> None:
    other = spark.sql("select date'2024-01-01' day, 1 n")
    with pytest.raises(SchemaMismatchError):
        other.write.format("delta").mode("overwrite").saveAsTable(table)
    with pytest.raises(SchemaMismatchError, match="mergeSchema"):
        spark.sql("select 1L id, 'p1' p, 2 new").write.format("delta").mode("append").saveAsTable(table)
    spark.sql("select 5L id, 'p1' p, 2 new").write.format("delta").mode("append").option(
        "mergeSchema", True
    ).saveAsTable(table)
    assert (5, "p1", 2) in rows(spark, table)
    other.write.format("delta").mode("overwrite").option("overwriteSchema", True).partitionBy("n").saveAsTable(table)
    assert spark.table(table).columns == ["day", "n"]
    assert len(history(spark, table)) == 3


def test_save_as_table_with_replace_where(spark: SparkSession, table: str) -> None:
    new = spark.sql("select 100L id, 'p1' p")
    new.write.format("delta").mode("overwrite").option("replaceWhere", "p = 'p1'").saveAsTable(table)
    assert rows(spark, table) == [(0, "p0"), (100, "p1"), (2, "p0")]


def test_save_as_table_error_and_ignore(spark: SparkSession, frame: DataFrame, table: str) -> None:
    with pytest.raises(AnalysisException):
        frame.write.format("delta").saveAsTable(table)
    frame.write.format("delta").mode("ignore").saveAsTable(table)
    assert len(rows(spark, table)) == 4


def test_save_as_table_with_another_partitioning(frame: DataFrame, table: str) -> None:
    with pytest.raises(PartitionMismatchError):
        frame.write.format("delta").mode("overwrite").partitionBy("id").saveAsTable(table)


def test_a_table_that_fails_to_be_made_leaves_no_name(spark: SparkSession, table_name: str) -> None:
    with pytest.raises(SparkRuntimeException, match="no luck"):
        spark.sql("select int(raise_error('no luck')) x").write.format("delta").saveAsTable(table_name)
    assert not spark.catalog.tableExists(table_name)
    spark.range(1).write.format("delta").saveAsTable(table_name)


def test_other_formats_are_as_before(spark: SparkSession, frame: DataFrame, table_name: str) -> None:
    frame.write.format("parquet").saveAsTable(table_name)
    frame.write.format("parquet").mode("append").saveAsTable(table_name)
    frame.write.insertInto(table_name)
    assert spark.table(table_name).count() == 12
    frame.write.format("parquet").mode("overwrite").saveAsTable(table_name)
    assert spark.table(table_name).count() == 4


# --- insertInto and INSERT


def test_insert_into_goes_by_position(spark: SparkSession, table: str) -> None:
    spark.sql("select 8 a, 'p8' b").write.insertInto(table)
    assert (8, "p8") in rows(spark, table)
    spark.sql("select 7 a, 'p7' b").write.insertInto(table, overwrite=True)
    assert rows(spark, table) == [(7, "p7")]
    with pytest.raises((SchemaMismatchError, AnalysisException)):
        spark.sql("select 8 a").write.insertInto(table)


def test_insert_by_position_by_columns_by_name_and_into_a_partition(spark: SparkSession, table: str) -> None:
    spark.sql(f"insert into {table} values (10, 'x')")
    spark.sql(f"insert into {table} (p, id) values ('y', 11)")
    spark.sql(f"insert into {table} by name select 'z' as p, 12 as id")
    spark.sql(f"insert into {table} (id) values (13)")
    spark.sql(f"insert into {table} partition (p = 'new') select 20")
    spark.sql(f"insert into {table} partition (p) select 21, 'dyn'")
    new = {(10, "x"), (11, "y"), (12, "z"), (13, None), (20, "new"), (21, "dyn")}
    assert new < set(rows(spark, table))


def test_insert_into_a_path(spark: SparkSession, path: str) -> None:
    spark.range(2).write.format("delta").save(path)
    spark.sql(f"insert into delta.`{path}` values (5)")
    spark.sql(f"insert into delta.`{path}` select * from delta.`{path}`")
    assert len(tahoe.Table(path).to_arrow()) == 6


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("insert overwrite {t} select id + 10, p from {t} where id < 2", [(10, "p0"), (11, "p1")]),
        ("insert overwrite {t} partition (p = 'p1') select 30", [(0, "p0"), (2, "p0"), (30, "p1")]),
        ("insert into {t} replace where p = 'p0' values (50, 'p0')", [(1, "p1"), (3, "p1"), (50, "p0")]),
    ],
    ids=["all", "a partition", "where"],
)
def test_insert_replaces_what_it_says(
    spark: SparkSession, table: str, statement: str, left: list[tuple[int, str]]
) -> None:
    spark.sql(statement.format(t=table))
    assert rows(spark, table) == left
    assert len(history(spark, table)) == 2


@pytest.mark.parametrize("column", ["true", "null", "case", "current_date", "naïve", "a-b"])
def test_insert_overwrite_of_a_partition_of_any_name(spark: SparkSession, table_name: str, column: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, `{column}` BOOLEAN) USING delta PARTITIONED BY (`{column}`)")
    spark.sql(f"INSERT INTO {table_name} VALUES (1, true), (2, false), (3, null)")
    spark.sql(f"INSERT OVERWRITE {table_name} PARTITION (`{column}` = true) SELECT 9")
    assert sorted(rows(spark, table_name)) == [(2, False), (3, None), (9, True)]
    spark.sql(f"INSERT INTO {table_name} REPLACE WHERE `{column}` = false VALUES (8, false)")
    assert sorted(rows(spark, table_name)) == [(3, None), (8, False), (9, True)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "'2024-01-31'"),
        ("timestamp", "'2024-01-31 10:20:30.5'"),
        ("timestamp_ntz", "timestamp_ntz'2024-01-31 10:20:30'"),
        ("int", "7"),
        ("bigint", "7"),
        ("decimal(5,2)", "1.50"),
        ("boolean", "true"),
        ("string", "'it''s'"),
        ("double", "2.5"),
        ("string", "null"),
    ],
)
def test_insert_overwrite_of_a_partition_of_each_type(
    spark: SparkSession, table_name: str, kind: str, value: str
) -> None:
    before = f"select 1 a, cast({value} as {kind}) p union all select 2, null"
    spark.sql(f"create table {table_name} using delta partitioned by (p) as {before}")
    spark.sql(f"insert overwrite {table_name} partition (p = {value}) select 3")
    assert [row[0] for row in rows(spark, table_name)] == ([3] if value == "null" else [2, 3])


def test_insert_overwrite_of_the_partitions_in_the_data(spark: SparkSession, table: str) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"insert overwrite {table} values (40, 'p0')")
        spark.sql(f"insert overwrite {table} partition (p) values (41, 'p7')")
        spark.sql("select 43, 'p7'").write.insertInto(table, overwrite=True)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark, table) == [(1, "p1"), (3, "p1"), (40, "p0"), (43, "p7")]


def test_an_overwrite_that_says_what_goes_is_not_dynamic(spark: SparkSession, table: str) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("select 50 id, 'p0' p").writeTo(table).overwrite(F.lit(True))
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark, table) == [(50, "p0")]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("timestamp", "timestamp'2024-07-01 00:00:00'", "timestamp'2024-07-01 00:00:00'"),
        ("timestamp", "timestamp'2024-07-01 00:00:00'", "'2024-07-01 00:00:00'"),
        ("timestamp", "timestamp'2024-07-01 00:00:00'", "timestamp'2024-07-01 04:00:00Z'"),
        ("timestamp_ntz", "timestamp_ntz'2024-07-01 00:00:00'", "timestamp_ntz'2024-07-01 00:00:00'"),
        ("date", "date'2024-07-01'", "date'2024-07-01'"),
        ("string", "'2024-07-01 00:00:00'", "'2024-07-01 00:00:00'"),
    ],
)
@pytest.mark.parametrize("how", ["insert", "writeTo", "replaceWhere"])
def test_the_partition_that_is_replaced_is_found_in_the_sessions_zone(
    spark: SparkSession, table_name: str, kind: str, value: str, text: str, how: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        other = {"string": "'2024-07-02'"}.get(kind, f"cast({value} + interval 1 day as {kind})")
        spark.sql(
            f"create table {table_name} using delta partitioned by (p) as select 1 a, {value} p union all select "
            f"2, {other}"
        )
        if how == "insert":
            spark.sql(f"insert overwrite {table_name} partition (p = {text}) select 3")
        else:
            frame = spark.sql(f"select 3 a, {value} p")
            if how == "writeTo":
                frame.writeTo(table_name).overwrite(F.expr(f"p = {text}"))
            else:
                frame.write.format("delta").mode("overwrite").option("replaceWhere", f"p = {text}").saveAsTable(
                    table_name
                )
        assert [row[0] for row in rows(spark, table_name)] == [2, 3]
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("members", [1, 3])
def test_each_of_the_two_hours_when_summer_ends_is_replaced_alone(
    spark: SparkSession, table_name: str, members: int
) -> None:
    # without its offset, the text of either timestamp would be that of the other
    summer, winter = "timestamp'2020-11-01 01:30:00.000001-04:00'", "timestamp'2020-11-01 01:30:00.000001-05:00'"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.optimizer.inSetConversionThreshold", "2")
    try:
        spark.sql(
            f"create table {table_name} using delta partitioned by (p) as select 1 a, {summer} p union all select "
            f"2, {winter}"
        )
        replaced = [winter, "timestamp'1969-12-31 23:59:59.5Z'", "timestamp'1970-01-01 00:00:00Z'"][:members]
        spark.sql(f"select 3 a, {winter} p").writeTo(table_name).overwrite(
            F.col("p").isin([F.expr(value) for value in replaced])
        )
        assert [row[0] for row in rows(spark, table_name)] == [1, 3]
    finally:
        spark.conf.unset("spark.sql.optimizer.inSetConversionThreshold")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_list_of_timestamps_is_replaced_without_ansi(spark: SparkSession, table_name: str) -> None:
    """A mere text of a timestamp was compared as a text, so that no row was replaced."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        spark.sql(
            f"create table {table_name} using delta as select 1 a, timestamp'2024-01-01' t union all select 2, "
            f"timestamp'2024-01-02'"
        )
        listed = "t in (timestamp'2024-01-01', timestamp'2024-03-01')"
        spark.sql(f"insert into {table_name} replace where {listed} select 3, timestamp'2024-01-01'")
        assert [row[0] for row in rows(spark, table_name)] == [2, 3]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_insert_casts_as_spark_does_and_refuses_the_rest(spark: SparkSession, table: str) -> None:
    spark.sql(f"insert into {table} values (cast(60 as byte), 61)")
    assert (60, "61") in rows(spark, table)
    with pytest.raises(WriteFailedError, match=r"value sixty for column id.* does not fit in long"):
        spark.sql(f"insert into {table} values ('sixty', 'p')")
    with pytest.raises(SchemaMismatchError, match="column id is long, but date in the data"):
        spark.sql(f"insert into {table} values (date'2024-01-01', 'p')")
    with pytest.raises(WriteFailedError, match="column id"):
        spark.sql(f"insert into {table} values (1e30, 'p')")
    with pytest.raises((SchemaMismatchError, AnalysisException)):
        spark.sql(f"insert into {table} values (1, 'p', 3)")


def test_insert_may_bring_new_columns(spark: SparkSession, table: str) -> None:
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        spark.sql(f"insert into {table} by name select 70L id, 'p' p, 'more' note")
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert (70, "p", "more") in rows(spark, table)


def test_insert_checks_not_null(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"create table {table_name} (a int not null, b varchar(2)) using delta")
    spark.sql(f"insert into {table_name} values (1, 'ab')")
    with pytest.raises(NotNullViolationError):
        spark.sql(f"insert into {table_name} select if(id = 0, null, 1), 'x' from range(1)")
    with pytest.raises(WriteFailedError, match=r"varchar\(2\)"):
        spark.sql(f"insert into {table_name} values (2, 'abc')")
    assert rows(spark, table_name) == [(1, "ab")]


def test_insert_into_a_temporary_view_of_a_table(spark: SparkSession, path: str) -> None:
    spark.range(1).write.format("delta").save(path)
    spark.read.format("delta").load(path).createOrReplaceTempView("v_of_table")
    spark.sql("insert into v_of_table values (9)")
    assert sorted(tahoe.Table(path).to_arrow().column("id").to_pylist()) == [0, 9]


# --- writeTo


def test_write_to(spark: SparkSession, table: str) -> None:
    spark.sql("select 80L id, 'w' p").writeTo(table).append()
    spark.sql("select 'p0' p, 81L id").writeTo(table).overwrite(F.col("p") == "p0")
    spark.sql("select 'p1' p, 82L id").writeTo(table).overwritePartitions()
    assert rows(spark, table) == [(80, "w"), (81, "p0"), (82, "p1")]


def test_write_to_creates_and_replaces(spark: SparkSession, frame: DataFrame, table_name: str) -> None:
    frame.writeTo(table_name).using("delta").partitionedBy(F.col("p")).tableProperty(
        "delta.checkpointInterval", "5"
    ).create()
    assert tahoe.Table(str(location(spark, table_name))).properties == {"delta.checkpointInterval": "5"}
    spark.range(3).writeTo(table_name).using("delta").createOrReplace()
    assert rows(spark, table_name) == [(0,), (1,), (2,)]
    snapshot = tahoe.Table(str(location(spark, table_name))).snapshot()
    assert (snapshot.version, snapshot.partition_columns, snapshot.properties) == (1, (), {})


def test_a_cached_table_sees_what_was_written(spark: SparkSession, table: str) -> None:
    spark.sql(f"cache table {table}")
    try:
        spark.sql(f"insert into {table} values (90, 'p')")
        assert (90, "p") in rows(spark, table)
    finally:
        spark.sql(f"uncache table {table}")
