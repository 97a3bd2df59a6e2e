"""What a streaming query is told before it starts: options, triggers, and the columns of `_metadata`."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name
from pyspark.sql.streaming import DataStreamWriter

from tahoe import Table
from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tests.spark.streams import append, ids, run, source

pytestmark = pytest.mark.every_spark

__all__ = ["source"]


TRIGGERS = [given for given in ("continuous", "realTime") if given in signature(DataStreamWriter.trigger).parameters]


@pytest.mark.parametrize("trigger", [{name: "5 minutes"} for name in TRIGGERS], ids=TRIGGERS)
def test_only_batches_trigger_a_query(
    spark: SparkSession, source: str, tmp_path: Path, trigger: dict[str, str]
) -> None:
    """For the source as for the sink, whose real-time trigger Spark refuses before it asks anybody. Other sources are
    left to Spark.
    """
    name, sink = "A continuous trigger" if "continuous" in trigger else "A real-time trigger", str(tmp_path / "sink")
    refused = rf"{name} is not supported on {tmp_path}.*Spark {spark.version}.*processingTime"
    rows, rate = spark.readStream.format("delta").load(source), spark.readStream.format("rate").load()
    with pytest.raises(UnsupportedOperationError, match=refused):
        rows.writeStream.format("console").option("checkpointLocation", sink + "-c").trigger(**trigger).start()
    with pytest.raises(
        (UnsupportedOperationError, IllegalArgumentException), match=rf"{refused}|StreamSink.*Real-Time Mode"
    ) as caught:
        rate.writeStream.format("delta").option("checkpointLocation", sink + "-c").trigger(**trigger).start(sink)
    assert isinstance(caught.value, UnsupportedOperationError) or "whole commits" in caught.value.__notes__[0]
    assert not Table(sink).exists()


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"replaceWhere": "id = 1"}, "replaceWhere cannot be id = 1.*foreachBatch"),
    ({"partitionOverwriteMode": "dynamic"}, "partitionOverwriteMode cannot be dynamic"),
    ({"txnAppId": "a", "txnVersion": "1"}, "txnAppId cannot be a.*id of its query"),
    ({"dataChange": "false"}, "dataChange cannot be false"),
    ({"mergeSchema": "maybe"}, "mergeSchema cannot be maybe"),
]


def test_options_of_a_single_write_are_refused(spark: SparkSession, source: str, tmp_path: Path) -> None:
    for options, match in REFUSED:
        with pytest.raises(InvalidOptionError, match=match):
            run(spark.readStream.format("delta").load(source), str(tmp_path / "sink"), **options)
    assert not Table(str(tmp_path / "sink")).exists()


def test_options_without_effect_are_named(spark: SparkSession, source: str, table_name: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{source}'")
    with pytest.warns(
        UserWarning, match="maxFilePerTrigger has no effect on spark.readStream; did you mean maxFilesPerTrigger"
    ):
        stream = spark.readStream.format("delta").option("maxFilePerTrigger", "1").load(source)
    with pytest.warns(
        UserWarning, match="ignoreDeletes has no effect on df.writeStream; it is an option of spark.readStream"
    ):
        run(stream, str(tmp_path / "sink"), ignoreDeletes="true")
    with pytest.warns(
        UserWarning, match=r"versionsAsOf has no effect on spark.read; did you mean versionAsOf\?"
    ) as said:
        spark.read.option("versionsAsOf", "0").table(table_name)
    assert [told.filename for told in said if "versionsAsOf" in str(told.message)] == [
        __file__
    ]  # the caller's line, not ours
    with pytest.warns(UserWarning, match=r"mergeShema has no effect on df.write; did you mean mergeSchema\?"):
        spark.range(1).selectExpr("id", "id as part", "'' as s").write.format("delta").mode("append").option(
            "mergeShema", "true"
        ).save(source)


@pytest.mark.parametrize(
    "columns", [{"clusterBy": ["s"]}, {"partitionBy": ["part"]}, {}], ids=["clustered", "partitioned", "plain"]
)
def test_clustering_columns_of_a_table_that_exists_are_told(
    spark: SparkSession, source: str, tmp_path: Path, columns: dict[str, list[str]], recwarn: pytest.WarningsRecorder
) -> None:
    """They stay as they are: `clusterBy` has no effect then, in a batch and in a stream."""
    target, rows = str(tmp_path / "target"), spark.read.format("delta").load(source)

    def asked(column: str, number: int) -> list[str]:
        stream = spark.readStream.format("delta").load(source).writeStream.format("delta").clusterBy(column)
        stream = stream.option("checkpointLocation", str(tmp_path / f"c{number}")).trigger(availableNow=True)
        recwarn.clear()
        stream.start(target).awaitTermination()
        rows.write.format("delta").mode("append").clusterBy(column).save(target)
        return [str(told.message) for told in recwarn if "clusterBy" in str(told.message)]

    writer = rows.limit(0).write.format("delta")
    for method, names in columns.items():
        getattr(writer, method)(*names)
    writer.save(target)
    has = "is clustered by s;" if "clusterBy" in columns else "has no clustering columns;"
    said = asked("id", 1)
    assert len(said) == 2
    assert all(f"clusterBy(id) has no effect, because the table exists and {has}" in one for one in said)
    assert len(asked("S", 2)) == (0 if "clusterBy" in columns else 2)


def test_no_option_of_the_catalog_or_of_spark_is_named(
    spark: SparkSession, table_name: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    spark.sql(
        f"CREATE TABLE {table_name} (id LONG, x LONG) USING delta PARTITIONED BY (id) TBLPROPERTIES ('mine' = '1')"
    )
    spark.range(3).selectExpr("id", "id as x").write.format("delta").mode("append").partitionBy("id").saveAsTable(
        table_name
    )
    spark.sql(f"INSERT INTO {table_name} VALUES (4, 4)")
    writer = (
        spark.range(0).selectExpr("id", "id as x").write.format("delta").mode("append").option("mergeSchema", "true")
    )
    writer.option("txnAppId", "mine").option("txnVersion", "1").save(str(tmp_path / "by_path"))
    stream = spark.readStream.table(table_name).writeStream.queryName("named").partitionBy("id")
    stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).toTable(
        f"{table_name}_new"
    ).awaitTermination()
    assert spark.table(f"{table_name}_new").count() == 4
    spark.sql(f"DROP TABLE {table_name}_new")
    assert [str(told.message) for told in recwarn if told.category is UserWarning] == []


@pytest.mark.parametrize("reader", ["read", "readStream"])
def test_a_reader_takes_no_schema(spark: SparkSession, source: str, reader: str) -> None:
    """Spark refuses it, as it does for the reference; a note says what to do."""
    with pytest.raises(UnsupportedOperationException, match="user-specified schema") as caught:
        getattr(spark, reader).schema("id LONG, other STRING").format("delta").load(source)
    assert "Leave out schema" in caught.value.__notes__[0]


def test_metadata_columns(spark: SparkSession, source: str, table_name: str, tmp_path: Path) -> None:
    """Row ids and files are those of the table, over deletion vectors, in the initial snapshot and in commits."""
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{source}'")
    spark.sql(f"DELETE FROM {table_name} WHERE id % 5 = 0")
    told = ["id", "_metadata.row_id as r", "_metadata.row_commit_version as v", "_metadata.file_name as f"]
    by_path = spark.readStream.format("delta").option("maxFilesPerTrigger", "3").load(source).selectExpr(*told)
    by_name = (
        spark.readStream.table(table_name).where("part < 2").where(F.col("_metadata.row_id") >= 0).select("id", "s")
    )
    by_name = by_name.withColumn("r", F.col("_metadata.row_id")).where("id > 3")
    assert (by_path.columns, by_name.columns) == (["id", "r", "v", "f"], ["id", "s", "r"])
    for _ in range(2):
        run(by_path, str(tmp_path / "a"))
        run(by_name, str(tmp_path / "b"))
        append(spark, source, 100, 101)
    spark.sql(f"DELETE FROM {table_name} WHERE id = 0")
    run(by_path, str(tmp_path / "a"))
    rows = spark.read.format("delta").load(str(tmp_path / "a"))
    assert sorted(rows.collect()) == sorted(spark.table(table_name).selectExpr(*told).collect())
    named = spark.read.format("delta").load(str(tmp_path / "b"))
    wanted = (
        spark.table(table_name)
        .where("part < 2 and id > 3 and _metadata.row_id < 42")
        .selectExpr("id", "s", "_metadata.row_id")
    )
    assert sorted(named.collect()) == sorted(wanted.collect())


def test_metadata_columns_with_state(spark: SparkSession, source: str, tmp_path: Path) -> None:
    counted = (
        spark.readStream.format("delta")
        .option("maxFilesPerTrigger", "1")
        .load(source)
        .groupBy("_metadata.file_name")
        .count()
    )
    run(counted, str(tmp_path / "sink"), "complete")
    found = spark.read.format("delta").load(str(tmp_path / "sink"))
    assert sorted(found.collect()) == sorted(
        spark.read.format("delta").load(source).groupBy("_metadata.file_name").count().collect()
    )


def test_metadata_columns_on_both_sides_of_a_join(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """Of a stream and a table; a change data feed has no such column, and leaves that of the table alone."""
    static = spark.read.format("delta").load(source).alias("b")
    stream = spark.readStream.format("delta").load(source).alias("a")
    joined = stream.join(static, F.expr("a.id = b.id")).selectExpr("a._metadata.row_id as a", "b._metadata.row_id as b")
    run(joined, str(tmp_path / "sink"))
    assert sorted(spark.read.format("delta").load(str(tmp_path / "sink")).collect()) == [(i, i) for i in range(40)]
    spark.sql(f"ALTER TABLE delta.`{source}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").load(source).alias("a")
    assert feed.join(static, F.expr("a.id = b.id")).select("b._metadata.row_id").columns == ["row_id"]


def test_metadata_columns_that_a_stream_does_not_have(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    with pytest.raises(
        UnsupportedOperationError, match=rf"The column _metadata in a stream of the change data feed .*{path}"
    ):
        spark.readStream.format("delta").option("readChangeFeed", "true").load(path).select("_metadata.file_path")
    with pytest.raises(AnalysisException, match="row_id"):
        spark.readStream.format("delta").load(path).select("_metadata.row_id")
    assert json.loads(spark.readStream.format("delta").load(path).schema.json())["fields"][0]["name"] == "id"
    assert ids(spark, path) == [0, 1, 2]


def test_a_stream_in_a_session_made_from_another(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """It has settings, names and running queries of its own, and the rules of the session that it was made from."""
    other, sink = spark.newSession(), str(tmp_path / "sink")
    stream = (
        other.readStream.format("delta").option("maxFilesPerTrigger", "3").load(source).select("id", "_metadata.row_id")
    )
    run(stream, sink)
    append(spark, source, 100)
    run(stream, sink)
    assert sorted(other.read.format("delta").load(sink).collect()) == sorted(
        spark.read.format("delta").load(source).select("id", "_metadata.row_id").collect()
    )
