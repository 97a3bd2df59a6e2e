"""A text in a partition column stays what it is, whatever folder names Spark's writer makes of it; the empty text is null."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

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
    spark.createDataFrame([(n, value) for n, value in enumerate(VALUES)], "id int, p string").createOrReplaceTempView("texts")
    return sorted(VALUES, key=repr)


@pytest.mark.parametrize("in_files", ["false", "true"])
def test_every_writer_keeps_texts(spark: SparkSession, tmp_path: Path, texts: list[str | None], in_files: str) -> None:
    path, properties = str(tmp_path / "t"), {"delta.feature.materializePartitionColumns": "supported"} if in_files == "true" else {}
    listed = "".join(f", '{name}' = '{value}'" for name, value in properties.items())
    properties_text = f"'delta.enableChangeDataFeed' = 'true'{listed}"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties_text})")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM texts")
    assert values(path) == texts
    spark.table("texts").write.format("delta").mode("overwrite").save(path)
    assert values(path) == texts
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING texts s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT *"
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


def test_the_folder_of_a_binary_is_not_that_of_null(spark: SparkSession, path: str) -> None:
    spark.sql(f"SELECT 1 AS id, CAST('{NULL_FOLDER}' AS BINARY) AS p").write.format("delta").partitionBy("p").save(path)
    assert tahoe.Table(path).to_arrow()["p"].to_pylist() == [NULL_FOLDER.encode()]


def test_a_name_that_no_folder_can_have_is_refused_or_kept(spark: SparkSession, path: str) -> None:
    frame = spark.sql("SELECT 1 AS id, repeat('x', 300) AS p")
    with pytest.raises(tahoe.errors.DeltaError):
        frame.write.format("delta").partitionBy("p").save(path)
