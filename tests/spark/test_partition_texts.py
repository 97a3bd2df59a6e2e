"""A text in a partition column stays what it is, whatever folder names Spark's writer makes of it; the empty text is
null.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import tahoe

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
TEXTS = [
    *(NULL_FOLDER, f"{NULL_FOLDER}_", f"{NULL_FOLDER}__", f"x{NULL_FOLDER}"),
    *("%", "%41", "a/b", "a=b", "é\U0001f600", ".", "..", "dot.", " ", "a ", "\n\t\x01\x7f", "null", "\\"),
]
VALUES = [*TEXTS, None]


def values(path: str) -> list[str | None]:
    """As the log has them, and as Spark and Arrow read them."""
    table, spark = tahoe.Table(path), SparkSession.active()
    found = sorted(table.to_arrow(["p"])["p"].to_pylist(), key=repr)
    assert sorted((row.p for row in spark.read.format("delta").load(path).select("p").collect()), key=repr) == found
    return found


@pytest.fixture
def texts(spark: SparkSession) -> list[str | None]:
    spark.createDataFrame([(n, value) for n, value in enumerate(VALUES)], "id int, p string").createOrReplaceTempView(
        "texts"
    )
    return sorted(VALUES, key=repr)


@pytest.mark.every_case
@pytest.mark.parametrize("in_files", ["false", "true"])
def test_every_writer_keeps_texts(spark: SparkSession, tmp_path: Path, texts: list[str | None], in_files: str) -> None:
    path, properties = (
        str(tmp_path / "t"),
        {"delta.feature.materializePartitionColumns": "supported"} if in_files == "true" else {},
    )
    listed = "".join(f", '{name}' = '{value}'" for name, value in properties.items())
    properties_text = f"'delta.enableChangeDataFeed' = 'true'{listed}"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        f"({properties_text})"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM texts")
    assert values(path) == texts
    spark.table("texts").write.format("delta").mode("overwrite").save(path)
    assert values(path) == texts
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING texts s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT "
        f"MATCHED THEN INSERT *"
    )
    assert values(path) == texts
    spark.sql(f"UPDATE delta.`{path}` SET p = concat(p, '')")
    assert values(path) == texts
    assert spark.read.format("delta").load(path).where(f"p = '{NULL_FOLDER}'").count() == 1
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 4).load(path)
    assert sorted((row.p for row in feed.where("_change_type = 'update_postimage'").collect()), key=repr) == texts
    tahoe.Table(path).append(tahoe.Table(path).to_arrow())
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert values(path) == sorted(VALUES * 2, key=repr)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE p <=> '{NULL_FOLDER}' OR p = '{NULL_FOLDER}_'")
    assert tahoe.Table(path).count("p IS NULL") == 2
    assert NULL_FOLDER not in values(path)


# Names of 255 bytes, and others that normal forms and code pages would change.
LONG = ["x" * 253, "%" * 84, "\u00e9" * 42, "e\u0301", "\u00e9", "\u2028", "\ufeff", "\U0001f600" * 20]


def run(frame: DataFrame, target: str, by: str = "p", **options: str) -> None:
    writer = (
        frame.writeStream.format("delta").options(checkpointLocation=f"{target}-checkpoint", **options).partitionBy(by)
    )
    writer.trigger(availableNow=True).start(target).awaitTermination()


def test_streams_keep_texts(spark: SparkSession, tmp_path: Path) -> None:
    """As the source, as the sink, with the change data feed, in complete mode, and where the batches are filtered."""
    source, path = str(tmp_path / "source"), str(tmp_path)
    data = pa.table({"id": range(len(VALUES + LONG)), "p": [*VALUES, *LONG]})
    tahoe.Table(source).append(data, partition_by=["p"], properties={"delta.enableChangeDataFeed": "true"})
    expected, stream = values(source), spark.readStream.format("delta")
    run(stream.load(source), f"{path}/copy")
    assert values(f"{path}/copy") == expected
    run(stream.option("readChangeFeed", "true").load(source).select("id", "p"), f"{path}/feed")
    assert values(f"{path}/feed") == expected
    counted = spark.readStream.format("delta").load(source).groupBy("p").count()
    counted.writeStream.format("delta").outputMode("complete").partitionBy("p").option(
        "checkpointLocation", f"{path}/c"
    ).trigger(availableNow=True).start(f"{path}/complete").awaitTermination()
    assert values(f"{path}/complete") == expected
    for number, text in enumerate([NULL_FOLDER, "e\u0301", "\n\t\x01\x7f", "x" * 253]):
        run(spark.readStream.format("delta").load(source).where(col("p") == text), f"{path}/{number}")
        assert values(f"{path}/{number}") == [text]
    run(spark.readStream.format("delta").load(source).where("p IS NULL"), f"{path}/null")
    assert values(f"{path}/null") == [None]


def test_a_stream_does_not_lose_a_text_that_no_folder_can_have(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's writer names folders after values, so the batch ends with an error, and no row is written."""
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    tahoe.Table(source).append(pa.table({"id": [1, 2], "p": ["a", "x" * 300]}))
    with pytest.raises(StreamingQueryException):
        run(spark.readStream.format("delta").load(source), target)
    assert not tahoe.Table(target).exists() or tahoe.Table(target).count() == 0


def test_convert_reads_texts_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    """From the folders that Spark's own writer makes."""
    folder, frame = str(tmp_path / "t"), spark.createDataFrame(list(enumerate([*VALUES, *LONG])), "id int, p string")
    frame.write.partitionBy("p").parquet(folder)
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    try:
        expected = sorted((row.id, row.p) for row in spark.read.parquet(folder).collect())
    finally:
        spark.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")
    spark.sql(f"CONVERT TO DELTA parquet.`{folder}` PARTITIONED BY (p STRING)")
    rows = sorted((row["id"], row["p"]) for row in tahoe.Table(folder).to_arrow().to_pylist())
    assert rows == expected
    values(folder)
    assert [text for (_, text), given in zip(rows, [*VALUES, *LONG], strict=True) if text != given] == [
        None
    ] * 1  # NULL_FOLDER


def test_the_folder_of_a_binary_is_not_that_of_null(spark: SparkSession, path: str) -> None:
    spark.sql(f"SELECT 1 AS id, CAST('{NULL_FOLDER}' AS BINARY) AS p").write.format("delta").partitionBy("p").save(path)
    assert tahoe.Table(path).to_arrow()["p"].to_pylist() == [NULL_FOLDER.encode()]


def test_a_name_that_no_folder_can_have_is_refused_or_kept(spark: SparkSession, path: str) -> None:
    frame = spark.sql("SELECT 1 AS id, repeat('x', 300) AS p")
    with pytest.raises(tahoe.errors.DeltaError):
        frame.write.format("delta").partitionBy("p").save(path)
