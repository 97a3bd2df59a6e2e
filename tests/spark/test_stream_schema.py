"""Streams of a table whose schema changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tahoe import DeltaTable
from tahoe.errors import InvalidOptionError
from tests.spark.tracked_streams import alter, append, rows, run, tracked

pytestmark = pytest.mark.every_spark


@pytest.fixture
def source(spark: SparkSession, path: str) -> str:
    """A table of three rows with column mapping."""
    rows = spark.range(3).selectExpr("id", "cast(id as string) as s").coalesce(1)
    rows.write.format("delta").option("delta.columnMapping.mode", "name").save(path)
    return path


def test_a_dataframe_from_before_a_change_is_read_up_to_the_change(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """Spark would die with an assertion if the source had other columns than its DataFrame."""
    sink, stream = (
        str(tmp_path / "sink"),
        spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(source),
    )
    run(stream, sink)
    append(spark, source, (3, "3"))
    alter(spark, source, "ADD COLUMN new INT")
    append(spark, source, (4, "4", 4))
    with pytest.raises(
        StreamingQueryException, match=r"DELTA_SCHEMA_CHANGED_WITH_VERSION.*version 3.*the column new.*new DataFrame"
    ):
        run(stream, str(tmp_path / "other"))
    writer = stream.writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint")
    query = writer.trigger(processingTime="0 seconds").start(sink)
    with pytest.raises(StreamingQueryException, match=r"DELTA_SCHEMA_CHANGED_WITH_VERSION.*version 2.*new DataFrame"):
        query.processAllAvailable()
    assert rows(spark, sink) == [(0, "0"), (1, "1"), (2, "2"), (3, "3")]
    with pytest.raises(StreamingQueryException, match=r"DELTA_SCHEMA_CHANGED_WITH_VERSION.*version 2.*new DataFrame"):
        run(stream, sink)
    run(spark.readStream.format("delta").load(source), sink)
    assert rows(spark, sink)[3:] == [(3, "3", None), (4, "4", 4)]


def test_a_renamed_column_needs_a_tracked_schema(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink = str(tmp_path / "sink")
    run(spark.readStream.format("delta").load(source), sink)
    alter(spark, source, "RENAME COLUMN s TO t")
    append(spark, source, (3, "3"))
    with pytest.raises(
        StreamingQueryException, match=r"USE_SCHEMA_LOG.*column s was renamed or dropped.*schemaTrackingLocation"
    ):
        run(spark.readStream.format("delta").load(source), sink)
    assert DeltaTable.forPath(spark, sink).history().count() == 1


def test_a_tracked_schema_follows_renamed_and_dropped_columns(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink = str(tmp_path / "sink")
    run(tracked(spark, source, sink), sink)
    append(spark, source, (3, "3"))
    alter(spark, source, "RENAME COLUMN s TO t")
    alter(spark, source, "ADD COLUMN u INT")
    append(spark, source, (4, "4", 4))
    frame = tracked(spark, source, sink)
    assert frame.columns == ["id", "s"]
    with pytest.raises(StreamingQueryException, match=r"DELTA_STREAMING_METADATA_EVOLUTION.*version 2"):
        run(frame, sink)
    assert rows(spark, sink) == [(0, "0"), (1, "1"), (2, "2"), (3, "3")]
    with pytest.raises(
        StreamingQueryException, match=r"RENAME COLUMN.*s was renamed to t.*allowSourceColumnRename.*\.ckpt_"
    ):
        run(tracked(spark, source, sink), sink)
    run(tracked(spark, source, sink, allowSourceColumnRename="3"), sink)
    with pytest.raises(StreamingQueryException, match=r"allowSourceColumnRename"):
        run(frame, sink)  # older than the change
    found = spark.read.format("delta").load(sink).orderBy("id").collect()
    assert [tuple(row) for row in found[3:]] == [(3, "3", None, None), (4, None, "4", 4)]


def test_where_a_schema_may_be_tracked(spark: SparkSession, source: str, tmp_path: Path) -> None:
    sink = str(tmp_path / "sink")
    outside = spark.readStream.format("delta").option("schemaLocation", f"{sink}-checkpoints").load(source)
    with pytest.raises(
        StreamingQueryException, match=r"SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT.*sink-checkpoints.*sink-checkpoint'"
    ):
        run(outside, sink)
    with pytest.raises(InvalidOptionError, match=r"failOnDataLoss.*schemaTrackingLocation"):
        tracked(spark, source, sink, failOnDataLoss="false")
    with pytest.raises(InvalidOptionError, match=r"allowSourceColumnDrop.*always"):
        tracked(spark, source, sink, allowSourceColumnDrop="yes")
    with pytest.raises(
        StreamingQueryException, match=r"DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT.*streamingSourceTrackingId"
    ):
        run(tracked(spark, source, sink).union(tracked(spark, source, sink)), sink)
    one, other = (tracked(spark, source, sink, streamingSourceTrackingId=number) for number in "12")
    run(one.union(other), str(tmp_path / "sink"))
    assert len(rows(spark, sink)) == 6
