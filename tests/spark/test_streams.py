"""Tables as source and sink of Structured Streaming."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from tahoe import DeltaTable, Table, cli
from tahoe.errors import (
    DeltaError,
    InvalidOptionError,
    InvalidTimeTravelError,
    StreamOptionsConflictError,
    StreamOutputModeError,
    StreamTimeTravelError,
    TableExistsError,
)
from tahoe.spark.ddl import catalog, creation
from tahoe.spark.dml import write
from tahoe.table.verify.check import check_version
from tahoe.table.writing.planning import create_table, plan_write
from tests.spark.streams import append, ids, rows_in, run, source

pytestmark = pytest.mark.every_spark

__all__ = ["source"]


def test_a_table_goes_through_a_stream_once(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink, stream = (
        str(tmp_path / "sink"),
        spark.readStream.format("delta").option("maxFilesPerTrigger", "3").load(source),
    )
    assert rows_in(run(stream, sink)) == [30, 10]
    append(spark, source, 100, 101)
    append(spark, source, 102)
    spark.sql(f"OPTIMIZE delta.`{source}`")
    assert rows_in(run(stream, sink)) == [3]
    assert rows_in(run(stream, sink)) == []
    assert ids(spark, sink) == ids(spark, source) == [*range(40), 100, 101, 102]
    history = DeltaTable.forPath(spark, sink).history().collect()
    assert {row.operation for row in history} == {"STREAMING UPDATE"}
    assert history[-1].operationParameters["outputMode"] == "Append"
    assert history[-1].operationMetrics == {"numAddedFiles": "2", "numRemovedFiles": "0", "numOutputRows": "30"} | {
        "numOutputBytes": history[-1].operationMetrics["numOutputBytes"]
    }
    assert list(check_version(Table(sink).snapshot())) == []


def test_offsets_are_those_of_the_reference(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    run(spark.readStream.format("delta").option("maxFilesPerTrigger", "3").load(source), str(sink))
    table = spark.sql(f"DESCRIBE DETAIL delta.`{source}`").collect()[0].id
    offsets = [(Path(f"{sink}-checkpoint") / "offsets" / str(batch)).read_text().splitlines()[-1] for batch in (0, 1)]
    assert offsets == [
        f'{{"sourceVersion":1,"reservoirId":"{table}","reservoirVersion":0,"index":2,"isStartingVersion":true}}',
        f'{{"sourceVersion":1,"reservoirId":"{table}","reservoirVersion":1,"index":-1,"isStartingVersion":false}}',
    ]


def test_state_is_kept_over_deletion_vectors(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """Spark plans state after our rule of the optimizer: what replaces a streaming leaf must still be one."""
    spark.sql(f"DELETE FROM delta.`{source}` WHERE id % 5 = 0")
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(source)
    counts, first = str(tmp_path / "counts"), str(tmp_path / "first")
    query = run(stream.groupBy("part").count(), counts, "complete")
    assert len(rows_in(query)) == 4
    wanted = sorted(spark.read.format("delta").load(source).groupBy("part").count().collect())
    assert sorted(spark.read.format("delta").load(counts).collect()) == wanted
    run(stream.dropDuplicates(["part"]).select("part"), first)
    assert sorted(spark.read.format("delta").load(first).collect()) == [(0,), (1,), (2,)]


def test_a_file_may_be_read_with_two_vectors_in_one_batch(spark: SparkSession, source: str, tmp_path: Path) -> None:
    stream = (
        spark.readStream.format("delta").option("startingVersion", "0").option("ignoreChanges", "true").load(source)
    )
    for deleted in (1, 2):
        spark.sql(f"DELETE FROM delta.`{source}` WHERE id = {deleted}")
    run(stream, str(tmp_path / "sink"))
    assert ids(spark, str(tmp_path / "sink")) == sorted([*range(40), 0, *range(2, 10), 0, *range(3, 10)])


def test_filters_and_columns_leave_offsets_as_they_are(spark: SparkSession, source: str, tmp_path: Path) -> None:
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", "2").load(source)
    query = run(stream.where("id between 11 and 13").selectExpr("id"), str(tmp_path / "sink"))
    assert ids(spark, str(tmp_path / "sink")) == [11, 12, 13]
    ends = [json.loads(progress.json)["sources"][0]["endOffset"]["index"] for progress in query.recentProgress]
    assert ends[:2] == [1, -1]


def test_names_in_catalogs(spark: SparkSession, source: str, table_name: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{source}'")
    new = f"{table_name}_new"
    try:
        writer = (
            spark.readStream.table(table_name)
            .writeStream.format("delta")
            .option("checkpointLocation", str(tmp_path / "c"))
        )
        writer.trigger(availableNow=True).toTable(new).awaitTermination()
        assert spark.table(new).count() == 40
        assert spark.sql(f"SELECT * FROM STREAM {table_name}").isStreaming
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {new}")


def test_a_batch_that_is_tried_again_does_nothing(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink, stream = str(tmp_path / "sink"), spark.readStream.format("delta").load(source)
    run(stream, sink)
    (Path(f"{sink}-checkpoint") / "commits" / "0").unlink()
    (Path(f"{sink}-checkpoint") / "commits" / ".0.crc").unlink()
    run(stream, sink)
    assert ids(spark, sink) == list(range(40))
    assert Table(sink).version == 0


def test_queries_that_make_one_table_at_once_all_go_on(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a write beside them. Each has planned to make the table before one of them has."""
    sink, planned = str(tmp_path / "sink"), threading.Barrier(3, timeout=60)

    def planning(table: Any, request: Any) -> Any:
        plan = plan_write(table, request)
        if plan is not None and plan.snapshot is None:
            planned.wait()
        return plan

    monkeypatch.setattr(write, "plan_write", planning)
    stream = spark.readStream.format("delta").load(source)
    writers = [stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / name)) for name in "ab"]
    queries = [writer.trigger(availableNow=True).start(sink) for writer in writers]
    spark.read.format("delta").load(source).write.format("delta").mode("append").save(sink)
    for query in queries:
        query.awaitTermination()
    assert ids(spark, sink) == sorted([*range(40)] * 3)
    assert sorted(row.operation for row in DeltaTable.forPath(spark, sink).history().collect()) == [
        "STREAMING UPDATE",
        "STREAMING UPDATE",
        "WRITE",
    ]


def test_a_batch_function_that_dies_between_two_writes_is_idempotent(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """With txnAppId and txnVersion, the first write finds its batch when Spark runs the function again, and the second
    writes it.
    """
    sinks, dies = [str(tmp_path / name) for name in "ab"], [True]

    def write_both(batch: DataFrame, number: int) -> None:
        for sink in sinks:
            batch.write.format("delta").mode("append").option("txnAppId", "both").option("txnVersion", number).save(
                sink
            )
            if number == 1 and dies:
                raise ValueError(f"the function dies after {sink} {dies.pop()}")

    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(source)
    writer = (
        stream.writeStream.foreachBatch(write_both)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    with pytest.raises(StreamingQueryException, match=rf"dies after {sinks[0]}"):
        writer.start().awaitTermination()
    assert [len(ids(spark, sink)) for sink in sinks] == [20, 10]
    writer.start().awaitTermination()
    assert [ids(spark, sink) for sink in sinks] == [list(range(40))] * 2


def to_table(spark: SparkSession, source: str, name: str, checkpoint: Path) -> None:
    writer = (
        spark.readStream.format("delta")
        .load(source)
        .writeStream.format("delta")
        .option("checkpointLocation", str(checkpoint))
    )
    writer.trigger(availableNow=True).toTable(name).awaitTermination()


def test_queries_that_name_one_new_table_at_once_all_go_on(
    spark: SparkSession, source: str, table_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has found no table and is about to make it. Spark's CREATE TABLE would refuse all but one."""
    planned = threading.Barrier(3, timeout=60)

    def creating(*given: Any, **named: Any) -> None:
        planned.wait()
        create_table(*given, **named)

    def start(number: int) -> None:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(
            spark._jsparkSession
        )  # Spark looks for names in it
        to_table(spark, source, table_name, tmp_path / f"c{number}")

    monkeypatch.setattr(creation, "create_table", creating)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(start, range(3)))
    assert sorted(row.id for row in spark.table(table_name).select("id").collect()) == sorted([*range(40)] * 3)


def test_a_table_that_appears_while_a_query_starts_is_its_sink(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query has looked for it before, and its CREATE TABLE looks again. Other statements that make the table are
    refused.
    """
    sink = str(tmp_path / "sink")
    to_table(spark, source, f"delta.`{sink}`", tmp_path / "c0")
    answers = [False]
    exists = catalog.path_exists
    monkeypatch.setattr(catalog, "path_exists", lambda *given: answers.pop() if answers else exists(*given))
    to_table(spark, source, f"delta.`{sink}`", tmp_path / "c1")
    assert answers == []
    assert ids(spark, sink) == sorted([*range(40)] * 2)
    answers.append(False)
    with pytest.raises((TableExistsError, AnalysisException), match="exists"):
        spark.sql(f"CREATE TABLE delta.`{sink}` (id LONG) USING delta")


def test_a_sink_grows_and_is_partitioned(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink, stream = str(tmp_path / "sink"), spark.readStream.format("delta").load(source)
    query = (
        stream.select("id", "part")
        .writeStream.format("delta")
        .option("checkpointLocation", f"{sink}-checkpoint")
        .partitionBy("part")
    )
    query.option("userMetadata", "mine").trigger(availableNow=True).start(sink).awaitTermination()
    snapshot = Table(sink).snapshot()
    assert (snapshot.partition_columns, DeltaTable.forPath(spark, sink).history(1).collect()[0].userMetadata) == (
        ("part",),
        "mine",
    )
    append(spark, source, 100)
    other = stream.selectExpr("id", "part", "s").where("id = 100")
    run(other, sink, mergeSchema="true")
    assert spark.read.format("delta").load(sink).where("s is not null").collect() == [(100, 1, "100")]


def test_a_stream_starts_where_it_is_told(spark: SparkSession, source: str, tmp_path: Path) -> None:
    append(spark, source, 100)
    time = str(DeltaTable.forPath(spark, source).history(1).collect()[0].timestamp)
    for name, (option, value, wanted) in enumerate(
        [("startingVersion", "1", [100]), ("startingTimestamp", time, [100]), ("startingVersion", "latest", [])]
    ):
        stream, sink = (
            spark.readStream.format("delta").option(option, value).load(source),
            str(tmp_path / f"sink{name}"),
        )
        run(stream, sink)
        assert (ids(spark, sink) if Table(sink).exists() else []) == wanted
    append(spark, source, 200)
    sink = str(tmp_path / "sink2")
    run(spark.readStream.format("delta").option("startingVersion", "latest").load(source), sink)
    assert ids(spark, sink) == [200]


WRONG: list[tuple[dict[str, str], type[DeltaError], str]] = [
    ({"maxFilesPerTrigger": "0"}, InvalidOptionError, "positive integer"),
    ({"maxBytesPerTrigger": "big"}, InvalidOptionError, "10g"),
    ({"startingVersion": "-1"}, InvalidOptionError, "latest"),
    ({"ignoreDeletes": "yes"}, InvalidOptionError, "true or false"),
    ({"excludeRegex": "("}, InvalidOptionError, "regular expression"),
    ({"startingVersion": "0", "startingTimestamp": "2020-01-01"}, StreamOptionsConflictError, "two starts"),
    ({"startingTimestamp": "soon"}, InvalidTimeTravelError, "soon"),
    ({"versionAsOf": "0"}, StreamTimeTravelError, "startingVersion"),
]


@pytest.mark.parametrize(("options", "error", "match"), WRONG, ids=["-".join(options) for options, _, _ in WRONG])
def test_wrong_options_are_refused_when_the_table_is_loaded(
    spark: SparkSession, source: str, options: dict[str, str], error: type[DeltaError], match: str
) -> None:
    with pytest.raises(error, match=match):
        spark.readStream.format("delta").options(**options).load(source)


def test_a_stream_writes_no_void_column(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """At any depth: a void column has no type that a later batch could fill."""
    stream = spark.readStream.format("delta").load(source).selectExpr("id", "array(named_struct('inside', null)) as v")
    with pytest.raises(StreamingQueryException, match=r"DELTA_NULL_SCHEMA_IN_STREAMING_WRITE.*column v .*CAST\(NULL"):
        run(stream, str(tmp_path / "sink"))
    assert not Table(str(tmp_path / "sink")).exists()


def test_what_a_stream_cannot_follow_is_named(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink, stream = str(tmp_path / "sink"), spark.readStream.format("delta").load(source)
    run(stream, sink)
    spark.sql(f"UPDATE delta.`{source}` SET s = 'x' WHERE id = 3")
    with pytest.raises(
        StreamingQueryException, match=r"DELTA_SOURCE_TABLE_IGNORE_CHANGES.*Version 1.*skipChangeCommits"
    ):
        run(stream, sink)
    passing = spark.readStream.format("delta").option("skipChangeCommits", "true")
    writer = passing.load(source).writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint")
    query = writer.start(sink)
    query.processAllAvailable()
    spark.sql(f"ALTER TABLE delta.`{source}` ADD COLUMN new INT")
    with pytest.raises(StreamingQueryException, match=r"DELTA_SCHEMA_CHANGED_WITH_VERSION.*version 2.*same checkpoint"):
        query.processAllAvailable()
    run(passing.load(source), sink, mergeSchema="true")
    assert Table(sink).schema.names == ("id", "part", "s", "new")
    with pytest.raises(StreamOutputModeError, match="Update"):
        stream.writeStream.format("delta").outputMode("update").option("checkpointLocation", f"{sink}-c").start(sink)


def test_progress_says_what_is_left(spark: SparkSession, source: str, tmp_path: Path) -> None:
    query = run(spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(source), str(tmp_path / "sink"))
    told = [
        json.loads(progress.json)["sources"][0]["metrics"]
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]
    assert [metrics["numFilesOutstanding"] for metrics in told] == ["3", "2", "1", "0"]
    assert {metrics["latestVersion"] for metrics in told} == {"0"}


def test_the_static_side_of_a_join_is_the_newest_version_in_each_batch(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    names, sink = str(tmp_path / "names"), str(tmp_path / "sink")
    spark.sql("SELECT 100L AS id, 'old' AS name").write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).save(names)
    joined = (
        spark.readStream.format("delta")
        .load(source)
        .join(spark.read.format("delta").load(names), "id")
        .select("id", "name")
    )
    query = joined.writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint").start(sink)
    try:
        for name in ("old", "new"):
            spark.sql(f"UPDATE delta.`{names}` SET name = '{name}'")
            append(spark, source, 100)
            query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(spark.read.format("delta").load(sink).collect()) == [(100, "new"), (100, "old")]


def test_the_command_line_shows_how_far_queries_have_written(spark: SparkSession, source: str, tmp_path: Path) -> None:
    query = run(spark.readStream.format("delta").load(source), str(tmp_path / "sink"))
    shown = CliRunner().invoke(cli.app, ["show", str(tmp_path / "sink"), "--json"])
    assert json.loads(shown.stdout)["writers"] == {query.id: 0}


def test_a_batch_is_evaluated_once_also_for_a_clustered_sink(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """A sample of the rows would run stateful operators twice."""
    sink = str(tmp_path / "sink")
    spark.sql(f"CREATE TABLE delta.`{sink}` (part LONG, count LONG) USING delta CLUSTER BY (part)")
    spark.conf.set("spark.tahoe.clusterOnWrite.minSize", "1b")
    try:
        query = run(spark.readStream.format("delta").load(source).groupBy("part").count(), sink, "complete")
    finally:
        spark.conf.unset("spark.tahoe.clusterOnWrite.minSize")
    assert rows_in(query) == [40]
    assert sorted(spark.read.format("delta").load(sink).collect()) == [(0, 14), (1, 13), (2, 13)]
