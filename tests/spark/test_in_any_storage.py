"""What a table must do wherever its folder is. Here in a file system that only Hadoop has; `tests/hadoop` asks the same
of HDFS and S3.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe import DeltaTable
from tahoe.errors import TableNotFoundError, UnsupportedOperationError
from tahoe.spark.jvm import table_cache
from tahoe.spark.reading import deletion_vectors
from tahoe.storage.background import finish_background
from tests.golden import tables as golden
from tests.spark.any_storage import append, ids, load, without_spark
from tests.spark.hadoop_file_systems import install

_numbers = itertools.count()


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> str:
    """The url of a folder that is not there yet."""
    install(spark)
    return f"viewfs://tests/mounted{tmp_path}"


@pytest.fixture
def url(folder: str) -> str:
    """Where a table may be made; the name is odd, as every layer that handles it has an opinion on escapes."""
    return f"{folder}/t {next(_numbers)} ü%41+=&"


def test_what_is_written_is_read_and_every_version_stays(spark: SparkSession, url: str) -> None:
    with pytest.raises(TableNotFoundError):
        load(spark, url)
    append(spark.range(5), url)
    append(spark.range(5, 10), url)
    spark.range(3).write.format("delta").mode("overwrite").save(url)
    assert ids(load(spark, url)) == [0, 1, 2]
    assert ids(load(spark, url, versionAsOf=1)) == list(range(10))
    assert ids(load(spark, f"{url}@v0")) == list(range(5))
    moment = DeltaTable.forPath(spark, url).history().where("version = 1").select("timestamp").first()[0]
    assert ids(load(spark, url, timestampAsOf=moment.strftime("%Y-%m-%d %H:%M:%S.%f"))) == list(range(10))
    assert DeltaTable.isDeltaTable(spark, url)
    assert [row.version for row in DeltaTable.forPath(spark, url).history().collect()] == [2, 1, 0]
    assert sorted(without_spark(spark, url).to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_partitions_are_overwritten_alone_and_filters_leave_files_out(spark: SparkSession, url: str) -> None:
    """Partition values come back from folders whose names are escaped, on their way through the storage."""
    rows = spark.createDataFrame([(1, "a b"), (2, "c%d/e"), (3, "ü"), (4, None)], "id long, p string")
    rows.write.format("delta").partitionBy("p").save(url)
    (spark.createDataFrame([(9, "c%d/e")], "id long, p string").write.format("delta").mode("overwrite")
        .option("partitionOverwriteMode", "dynamic").save(url))  # fmt: skip
    (spark.createDataFrame([(7, "ü")], "id long, p string").write.format("delta").mode("overwrite")
        .option("replaceWhere", "p = 'ü'").save(url))  # fmt: skip
    found = {(row.id, row.p) for row in load(spark, url).collect()}
    assert found == {(1, "a b"), (9, "c%d/e"), (7, "ü"), (4, None)}
    filtered = load(spark, url).where("p = 'c%d/e'")
    assert ids(filtered) == [9]
    assert "1 of 4 files" in filtered._jdf.queryExecution().executedPlan().toString()
    assert ids(load(spark, url).where("id > 8")) == [9]


def test_sql_finds_it_by_its_path_and_by_a_name(spark: SparkSession, url: str, table_name: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{url}` (id long, v string) USING delta")
    spark.sql(f"INSERT INTO delta.`{url}` VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO delta.`{url}` VALUES (3, 'c')")
    assert ids(spark.sql(f"SELECT * FROM delta.`{url}` WHERE v >= 'b'")) == [2, 3]
    assert ids(spark.sql(f"SELECT * FROM delta.`{url}` VERSION AS OF 1")) == [1, 2]
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{url}'")
    spark.sql(f"INSERT INTO {table_name} VALUES (4, 'd')")
    assert ids(spark.table(table_name)) == ids(load(spark, url)) == [1, 2, 3, 4]
    spark.sql(f"TRUNCATE TABLE {table_name}")
    assert ids(load(spark, url)) == []
    assert DeltaTable.forName(spark, table_name).detail().first().location == url


def test_checkpoints_are_written_and_read(spark: SparkSession, url: str) -> None:
    spark.range(1).write.format("delta").option("delta.checkpointInterval", "2").save(url)
    for number in range(1, 6):
        append(spark.range(number, number + 1), url)
    finish_background()
    store = table_cache.open_table(spark, url).env.store
    names = [info.key.rpartition("/")[2] for info in store.list_from("_delta_log")]
    assert f"{4:020d}.checkpoint.parquet" in names
    assert f"{5:020d}.crc" in names
    assert b'"version":4' in store.get("_delta_log/_last_checkpoint").replace(b" ", b"")
    snapshot = without_spark(spark, url).snapshot()
    assert snapshot.version == 5
    assert sorted(snapshot.to_arrow()["id"].to_pylist()) == list(range(6))


def test_of_two_writers_each_version_has_one(spark: SparkSession, url: str) -> None:
    """Two winners of a version would lose the rows of one."""
    append(spark.range(0), url)
    barrier, failures, commits = threading.Barrier(2), [], 6

    def write(writer: int) -> None:
        try:
            for number in range(commits):
                barrier.wait(120)
                start = 1000 * writer + number
                append(spark.range(start, start + 1), url)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ids(load(spark, url)) == [1000 * writer + number for writer in range(2) for number in range(commits)]
    assert [commit["version"] for commit in without_spark(spark, url).history()] == list(range(2 * commits, -1, -1))


def run(frame: DataFrame, sink: str, mode: str = "append") -> None:
    """Run a query over what is there, with a checkpoint beside its sink."""
    writer = (
        frame.writeStream.format("delta")
        .option("checkpointLocation", f"{sink}-checkpoint")
        .option("mergeSchema", "true")
    )
    writer.outputMode(mode).trigger(availableNow=True).start(sink).awaitTermination()


def stream(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.readStream.format("delta").options(**options).load(url)


def test_a_stream_follows_it_with_its_checkpoint_beside_it(spark: SparkSession, url: str) -> None:
    """A batch that Spark has not noted is run again, and found in the sink. The place of `latest` is kept in the
    checkpoint.
    """
    append(spark.range(3), url)
    sink, after = f"{url}-sink", f"{url}-after"
    commits = table_cache.open_table(spark, url).env.store_at(f"{sink}-checkpoint/commits")
    for ids_wanted in (list(range(3)), [*range(3), *range(10, 12)]):
        run(stream(spark, url, maxFilesPerTrigger=1), sink)
        assert ids(load(spark, sink)) == ids_wanted
        run(stream(spark, url, startingVersion="latest"), after)
        append(spark.range(10, 12), url)
    assert ids(load(spark, after)) == [10, 11]
    version = without_spark(spark, sink).version
    commits.delete(max((info.key for info in commits.list_from("") if info.key.isdigit()), key=int))
    run(stream(spark, url), sink)
    assert without_spark(spark, sink).version == version + 1
    assert ids(load(spark, sink)) == [*range(3), *sorted([*range(10, 12)] * 2)]
    assert {row.operation for row in DeltaTable.forPath(spark, sink).history().collect()} == {"STREAMING UPDATE"}


def test_a_stream_keeps_its_state_there(spark: SparkSession, url: str) -> None:
    append(spark.range(0, 6, 1, 2), url)
    for rows in (6, 9):
        run(
            stream(spark, url, maxFilesPerTrigger=1).groupBy(F.expr("id % 2 as part")).count(),
            f"{url}-counts",
            "complete",
        )
        assert sorted(row["count"] for row in load(spark, f"{url}-counts").collect()) == [rows // 2, rows - rows // 2]
        append(spark.range(6, 9), url)


def test_a_change_data_feed_with_a_tracked_schema_is_followed(spark: SparkSession, url: str) -> None:
    """The log of the schema is in the checkpoint, and so in the same storage."""
    properties = {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"}
    spark.range(3).coalesce(1).write.format("delta").options(**properties).save(url)
    sink = f"{url}-changes"

    def follow(**options: str) -> None:
        feed = stream(spark, url, readChangeFeed="true", schemaTrackingLocation=f"{sink}-checkpoint/schema", **options)
        run(feed.withColumnsRenamed({feed.columns[0]: "id", "_change_type": "kind"}).select("id", "kind"), sink)

    follow()
    spark.sql(f"UPDATE delta.`{url}` SET id = 7 WHERE id = 2")
    spark.sql(f"ALTER TABLE delta.`{url}` RENAME COLUMN id TO number")
    spark.sql(f"DELETE FROM delta.`{url}` WHERE number = 7")
    with pytest.raises(StreamingQueryException, match="DELTA_STREAMING_METADATA_EVOLUTION"):
        follow()
    with pytest.raises(StreamingQueryException, match="allowSourceColumnRename"):
        follow()
    follow(allowSourceColumnRename="always")
    changes = [(2, "update_preimage"), (7, "update_postimage"), (7, "delete")]
    assert sorted(load(spark, sink).collect()) == sorted([*((id, "insert") for id in range(3)), *changes])


def test_sparks_own_writers_are_kept_out(spark: SparkSession, url: str) -> None:
    append(spark.range(3), url)
    with pytest.raises((UnsupportedOperationError, AnalysisException), match="belongs to a Delta table"):
        spark.range(3).write.mode("append").parquet(url)
    assert ids(load(spark, url)) == [0, 1, 2]


@pytest.mark.sparks_reader
@pytest.mark.golden
def test_another_writers_deletion_vectors_are_read(
    spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden.require_folder()
    name = "dv-partitioned-with-checkpoint"
    store, source = table_cache.open_table(spark, url).env.store, Path(golden.path(name))
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        store.put(file.relative_to(source).as_posix(), file.read_bytes())
    expected = golden.sortable(golden.expected_rows(name).to_pylist())
    assert golden.sortable([row.asDict() for row in load(spark, url).collect()]) == expected
    monkeypatch.setattr(
        deletion_vectors, "BROADCAST_BYTES_MAX", deletion_vectors.CHUNK_BYTES
    )  # as if they were too large for Spark to send
    monkeypatch.setattr(deletion_vectors, "_recent_bitmaps", deletion_vectors.Recent(1))
    frame = load(spark, url)
    assert "ArrowEval" in frame._jdf.queryExecution().executedPlan().toString()
    assert golden.sortable([row.asDict() for row in frame.collect()]) == expected
