"""A user's program in a Spark Connect session, whose answers it prints as JSON."""

from __future__ import annotations

import json
import sys
import warnings

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.storage import system_env
from tests.spark.foreign import larger_files, mark
from tests.table.feeds import Fed, gone, metadata


def main(folder: str) -> None:
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tahoe.enable(spark)
    path = f"{folder}/t"
    rows = spark.range(0, 100, 1, 2).selectExpr(
        "id", "id % 2 as p", "concat('s', id) as s", "timestamp'2026-01-01 00:00:00' as ts"
    )
    rows.write.format("delta").partitionBy("p").option("userMetadata", "from afar").save(path)
    spark.range(100, 103).selectExpr("id", "0L as p", "'x' as s", "cast(null as timestamp) as ts").write.format(
        "delta"
    ).mode("append").save(path)

    def load(**options: str) -> DataFrame:
        return spark.read.format("delta").options(**options).load(path)

    table = tahoe.Table(path)
    found: dict[str, object] = {
        "warning": [str(w.message) for w in said],
        "count": load().count(),
        "first": load(versionAsOf="0").count(),
        "suffix": spark.read.format("delta").load(path + "@v0").count(),
        "at": load(timestampAsOf=str(table.history()[0]["timestamp"].replace(tzinfo=None))).count(),
        "filtered": sorted(row.id for row in load().where("p = 1 and id > 95 or s = 'x'").collect()),
        "types": load().dtypes,
        "ts": str(load().where("id = 1").head().ts),
        "same": sorted(map(str, load().toArrow().to_pylist())) == sorted(map(str, table.to_arrow().to_pylist())),
        "history": [(c["operation"], c.get("userMetadata")) for c in table.history()],
        "partitions": sorted(str(f["p"]) for f in table.files().column("partition_values").to_pylist()),
    }
    mark(path, {larger_files(path, 25)[0]: [0, 1]})
    found["marked"] = load().count()
    found["files that a filter leaves"] = load().where("id = 101").count()
    spark.range(5).selectExpr("id", "7L as p", "'y' as s", "cast(null as timestamp) as ts").write.format("delta").mode(
        "overwrite"
    ).save(path)
    found["overwritten"] = [load().count(), load(versionAsOf="1").count()]
    for _ in range(2):
        once = (
            spark.range(1)
            .selectExpr("id", "7L as p", "'y' as s", "cast(null as timestamp) as ts")
            .write.format("delta")
            .mode("append")
        )
        once.option("txnAppId", "app").option("txnVersion", "1").save(path)
    found["once"] = load().count()
    found["errors"] = [
        _error(lambda: spark.read.format("delta").load(f"{folder}/none").count()),
        _error(lambda: load(versionAsOf="99").count()),
        _error(lambda: spark.range(1).selectExpr("id", "1 as other").write.format("delta").mode("append").save(path)),
    ]
    fed = f"{folder}/fed"
    f = Fed(system_env(fed), metadata(Struct((Field(name="id", type=LONG),))))
    file = f.add("f", {"id": [1, 2, 3]})
    f.commit(file)
    f.commit(gone(file), file.replace(deletion_vector=inline_descriptor([1])))
    f.commit(f.cdc("_change_data/c", {"id": [3, 4], "_change_type": ["update_preimage", "update_postimage"]}))
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "1").load(fed)
    found["feed"] = sorted([row.id, row["_change_type"], row["_commit_version"]] for row in feed.collect())
    found["feed of the last version"] = sorted(row.id for row in feed.where("_commit_version = 3").collect())
    found["errors"].append(
        _error(lambda: spark.read.format("delta").option("readChangeFeed", "true").load(fed).count())
    )
    found["statements"] = [
        [row.version for row in tahoe.sql(spark, f"DESCRIBE HISTORY delta.`{fed}` LIMIT :n", args={"n": 2}).collect()],
        [
            row.version
            for row in tahoe.sql(spark, "DESC HISTORY IDENTIFIER(?) LIMIT 0 + ?", args=[f"delta.`{fed}`", 1]).collect()
        ],
        tahoe.sql(spark, f"DESCRIBE DETAIL '{fed}'").head().format,
        tahoe.sql(spark, "SELECT :x AS x", args={"x": 1}).head().x,
    ]
    found["refused statements"] = [
        _error(lambda: tahoe.sql(spark, "DESCRIBE HISTORY t LIMT 1")),
        _error(lambda: tahoe.sql(spark, f"REORG TABLE delta.`{fed}` APPLY (PURGE)")),
        _error(lambda: tahoe.sql(spark, f"DESCRIBE HISTORY '{folder}/none'")),
    ]
    found["writes"] = _writes(spark, f"{folder}/written")
    found["names"] = _names(spark, path)
    found["left"] = pa.table(table.to_arrow()).num_rows
    print("FOUND " + json.dumps(found))
    spark.stop()


def _writes(spark: SparkSession, path: str) -> list[object]:
    """By every mode and option that says which rows go: what is there afterwards, or what is refused."""
    rows = spark.range(4).selectExpr("id", "id % 2 AS p").coalesce(1)

    def write(mode: str, kept: str, **options: str) -> object:
        refused = _error(lambda: rows.where(kept).write.format("delta").mode(mode).options(**options).save(path))
        return refused or sorted(row.id for row in spark.read.format("delta").load(path).collect())

    found = [
        write("error", "true", partitionBy="p"),
        write("error", "true"),
        write("ignore", "true"),
        write("overwrite", "id < 2", replaceWhere="p = 0"),
        write("overwrite", "id = 0", replaceWhere="p = 0"),
    ]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    found.append(write("overwrite", "id = 1"))
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    return found


def _names(spark: SparkSession, path: str) -> list[object]:
    """What makes names is refused, and none is there."""
    return [
        _error(lambda: spark.sql("CREATE TABLE made (id BIGINT) USING delta")),
        _error(lambda: spark.range(1).write.format("delta").saveAsTable("made")),
        _error(lambda: spark.catalog.createTable("made", source="delta", path=path)),
        _error(lambda: tahoe.DeltaTable.forPath(spark, path).toDF()),
        spark.sql("SHOW TABLES").count(),
    ]


def _error(action: object) -> str:
    try:
        action()  # type: ignore[operator]
    except Exception as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
