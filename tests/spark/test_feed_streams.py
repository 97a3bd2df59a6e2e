"""The change data feed as the source of a streaming query."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import ChangesNotRecordedError
from tests.spark.streams import rows_in, run

pytestmark = pytest.mark.every_spark

COLUMNS = ["id", "part", "s", "_change_type", "_commit_version", "_commit_timestamp"]


def table_at(spark: SparkSession, path: str, **properties: str) -> str:
    """A table of 40 rows in two files, partitioned by its middle column."""
    given = {"enableChangeDataFeed": "true", "enableDeletionVectors": "true", **properties}
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 as part", "cast(id as string) as s")
    writer = rows.repartition(2, "part").write.format("delta").partitionBy("part")
    writer.options(**{f"delta.{name.replace('__', '.')}": value for name, value in given.items()}).save(path)
    return path


def change(spark: SparkSession, path: str) -> None:
    """An update (version 1), a delete by vectors (2), of a whole partition (3), an insert (4), OPTIMIZE (5), and an
    overwrite (6).
    """
    spark.sql(f"UPDATE delta.`{path}` SET s = 'new' WHERE id < 4")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (10, 11)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE part = 1")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (100, 0, 'x'), (101, 1, 'y')")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT id, 7, s FROM VALUES (1, 'z') AS t(id, s)")


def feed(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.readStream.format("delta").options(**{"readChangeFeed": "true", **options}).load(path)


def batch_feed(spark: SparkSession, path: str, start: int) -> DataFrame:
    return spark.read.format("delta").options(readChangeFeed="true", startingVersion=start).load(path)


def storable(frame: DataFrame) -> DataFrame:
    """The feed with names that a table may have."""
    return frame.withColumnsRenamed({name: name[1:] for name in COLUMNS[3:]})


def normal(frame: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


def at(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("delta").load(path)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_the_feed_goes_through_a_stream_once(spark: SparkSession, path: str, tmp_path: Path, mode: str) -> None:
    source, sink = table_at(spark, path, columnMapping__mode=mode), str(tmp_path / "sink")
    stream = storable(feed(spark, source, maxFilesPerTrigger="1"))
    assert feed(spark, source).columns == COLUMNS
    assert rows_in(run(stream, sink)) == [20, 20]
    before = normal(storable(batch_feed(spark, source, 0)))
    assert normal(at(spark, sink)) == before
    change(spark, source)
    query = run(stream, sink)
    assert len(rows_in(query)) >= 5
    assert normal(at(spark, sink)) - before == normal(storable(batch_feed(spark, source, 1)))
    assert rows_in(run(stream, sink)) == []


def test_offsets_are_those_of_the_reference(spark: SparkSession, path: str, tmp_path: Path) -> None:
    """A batch that ends with change data files ends at the last of them, not at the end of the version."""
    source, sink = table_at(spark, path, enableDeletionVectors="false"), tmp_path / "sink"
    stream = storable(feed(spark, source, maxFilesPerTrigger="1"))
    writer = stream.writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint")
    query = writer.start(str(sink))
    query.processAllAvailable()
    spark.sql(f"UPDATE delta.`{source}` SET s = 'new' WHERE id < 4")
    query.processAllAvailable()
    query.stop()
    ends = [(Path(f"{sink}-checkpoint") / "offsets" / str(batch)).read_text().splitlines()[-1] for batch in range(3)]
    table = spark.sql(f"DESCRIBE DETAIL delta.`{source}`").collect()[0].id
    begin = f'{{"sourceVersion":1,"reservoirId":"{table}","reservoirVersion":'
    files = sum(
        line.startswith('{"cdc"') for line in Path(source, "_delta_log", f"{1:020}.json").read_text().splitlines()
    )
    assert files > 1
    places = ['0,"index":0,"isStartingVersion":true}', '1,"index":-1,"isStartingVersion":false}']
    assert ends == [begin + place for place in (*places, f'1,"index":{files - 1},"isStartingVersion":false}}')]


def test_state_is_kept_over_all_parts_of_a_feed(spark: SparkSession, path: str, tmp_path: Path) -> None:
    """A batch of change data files, whole files and vectors is one union, whose leaves must all belong to the
    stream.
    """
    source, counts, first = table_at(spark, path), str(tmp_path / "counts"), str(tmp_path / "first")
    change(spark, source)
    stream = storable(feed(spark, source, startingVersion="0"))
    query = run(stream.groupBy("change_type", "commit_version").count(), counts, "complete")
    wanted = storable(batch_feed(spark, source, 0)).groupBy("change_type", "commit_version").count()
    assert normal(at(spark, counts)) == normal(wanted)
    assert sum(rows_in(query)) >= storable(batch_feed(spark, source, 0)).count()
    run(stream.where("commit_version > 1").dropDuplicates(["change_type"]).select("change_type"), first)
    assert sorted(row.change_type for row in at(spark, first).collect()) == ["delete", "insert"]


def test_a_stream_starts_where_it_is_told(spark: SparkSession, path: str, table_name: str, tmp_path: Path) -> None:
    source = table_at(spark, path)
    change(spark, source)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{source}'")
    time = str(next(row.timestamp for row in DeltaTable.forPath(spark, source).history().collect() if row.version == 3))
    starts = [{"startingVersion": "3"}, {"startingTimestamp": time}]
    streams = [feed(spark, source, **start) for start in starts]
    streams.append(spark.readStream.options(readChangeData="true", startingVersion="3").table(table_name))
    for number, stream in enumerate(streams):
        sink = str(tmp_path / f"sink{number}")
        run(storable(stream), sink)
        assert normal(at(spark, sink)) == normal(storable(batch_feed(spark, source, 3)))
    excluded = str(tmp_path / "excluded")
    run(
        storable(feed(spark, source, startingVersion="1", excludeRegex="_change_data")).where("commit_version = 1"),
        excluded,
    )
    assert at(spark, excluded).count() == 0


def test_what_a_stream_cannot_read_is_named(spark: SparkSession, path: str, tmp_path: Path) -> None:
    source, sink = table_at(spark, path, enableChangeDataFeed="false"), str(tmp_path / "sink")
    with pytest.raises(ChangesNotRecordedError, match="not enabled at version 0"):
        feed(spark, source)
    spark.sql(f"ALTER TABLE delta.`{source}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    with pytest.raises(StreamingQueryException, match=r"DELTA_MISSING_CHANGE_DATA.*not enabled at version 0"):
        run(storable(feed(spark, source, startingVersion="0")), sink)
    writer = (
        storable(feed(spark, source)).writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint")
    )
    query = writer.start(sink)
    query.processAllAvailable()
    spark.sql(f"ALTER TABLE delta.`{source}` ADD COLUMN new INT")
    with pytest.raises(StreamingQueryException, match=r"DELTA_SCHEMA_CHANGED_WITH_VERSION.*version 2.*same checkpoint"):
        query.processAllAvailable()
    spark.sql(f"INSERT INTO delta.`{source}` VALUES (100, 0, 'x', 5)")
    run(storable(feed(spark, source)), sink, mergeSchema="true")
    assert at(spark, sink).where("new is not null").select("id", "new", "change_type").collect() == [(100, 5, "insert")]


def test_the_page_keeps_a_table_equal_to_another(spark: SparkSession, tmp_path: Path) -> None:
    """Its code runs as it is printed, after each kind of change, and again after a batch that the checkpoint has
    lost.
    """
    page = Path(__file__).resolve().parents[2].joinpath("docs", "howto", "equal-tables.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0].replace("/data/", f"{tmp_path}/")
    bronze, silver = table_at(spark, str(tmp_path / "bronze")), str(tmp_path / "silver")
    at(spark, bronze).limit(0).write.format("delta").save(silver)

    def follow() -> None:
        exec(code, {"spark": spark})
        assert normal(at(spark, silver)) == normal(at(spark, bronze))

    follow()
    change(spark, bronze)
    spark.sql(f"INSERT INTO delta.`{bronze}` SELECT id, 0, 'again' FROM range(2, 6)")
    spark.sql(f"DELETE FROM delta.`{bronze}` WHERE id = 4")
    follow()
    version, commits = Table(silver).version, tmp_path / "checkpoints" / "bronze-to-silver" / "commits"
    for file in ("1", ".1.crc"):
        (commits / file).unlink()
    follow()
    assert Table(silver).version == version
