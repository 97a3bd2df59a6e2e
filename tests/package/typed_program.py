"""A program as the documents teach it, with annotations: `make lint` checks it with mypy and pyright as a user's own.

It is never run; the blocks of the documents are.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code
from pyspark.sql.types import LongType, StructField, StructType

import tahoe
from tahoe import DeltaTable, Snapshot, Table
from tahoe.errors import DeltaError, TableNotFoundError
from tahoe.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException
from tahoe.tables import DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTableBuilder, IdentityGenerator


def session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[*]").config("spark.sql.warehouse.dir", str(folder))
    return tahoe.enable(tahoe.configure(builder).getOrCreate())


def changes(spark: SparkSession, source: DataFrame, values: dict[str, str], columns: dict[str, Column]) -> DataFrame:
    table: DeltaTable = DeltaTable.forPath(spark, "/data/flights")
    table.delete("day < '2026-01-01'").show()
    table.update(F.col("id") == 3, values)
    table.update(condition="id = 3", set=columns)
    table.update(set={"id": F.lit(1), "price": "price * 2"})
    merge: DeltaMergeBuilder = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    return (
        merge.whenMatchedDelete("s.gone")
        .whenMatchedUpdate(set=values)
        .whenMatchedUpdate("s.price > 3", columns)
        .whenMatchedUpdate(F.col("s.price") > 3, set={"price": "s.price", "checked": F.lit(True)})
        .whenNotMatchedInsert(values=values)
        .whenNotMatchedInsert("s.id > 0", columns)
        .whenNotMatchedBySourceUpdate(set=values)
        .whenNotMatchedBySourceDelete("t.id > 3")
        .withSchemaEvolution()
        .execute()
    )


def upkeep(spark: SparkSession) -> list[DataFrame]:
    table = DeltaTable.forName(spark, "flights")
    optimize: DeltaOptimizeBuilder = table.optimize().where("day = '2026-01-01'")
    optimize.executeCompaction()
    table.optimize().executeZOrderBy("id", "price")
    table.optimize().executeZOrderBy(["id", "price"])
    table.generate("symlink_format_manifest")
    copy: DeltaTable = table.clone("/data/copy", isShallow=True, properties={"a": "b"})
    return [
        table.history(3),
        copy.detail(),
        table.vacuum(168),
        table.restoreToVersion(1),
        tahoe.sql(spark, "DESCRIBE HISTORY flights"),
    ]


def new_table(spark: SparkSession) -> DeltaTable:
    builder: DeltaTableBuilder = DeltaTable.createIfNotExists(spark).tableName("people").comment("all of them")
    builder.addColumn("id", "bigint", generatedAlwaysAs=IdentityGenerator(start=1, step=1)).addColumns(
        [StructField("n", LongType())]
    )
    return (
        builder.addColumns(StructType())
        .partitionedBy("day")
        .clusterBy(["n"])
        .property("delta.appendOnly", "true")
        .execute()
    )


def without_spark(folder: Path) -> list[int]:
    table = Table(folder, {"aws_region": "eu-west-1"}, time_zone="Europe/Berlin")
    first: int | None = table.append(
        pa.table({"id": [1]}), partition_by=["id"], properties={"delta.appendOnly": "false"}
    )
    snapshot: Snapshot = table.snapshot(version=first)
    rows: pa.Table = snapshot.to_arrow(columns=["id"], filter=pc.field("id") > 3)
    table.delete("id = 1")
    table.update({"price": "price * 2"}, "id = 2")
    table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    with table.transaction(operation="WRITE", user_metadata="nightly") as transaction:
        transaction.delete("id = 3")
        transaction.append(rows)
    files: pa.Table = table.files("id > 3")
    return [
        table.count([("id", ">", 3)]),
        table.version,
        files.num_rows,
        len(table.history(limit=5)),
        table.optimize().bins,
    ]


def careful(folder: str) -> str | None:
    try:
        return str(Table(folder).schema)
    except TableNotFoundError as error:
        return error.next_step
    except (ConcurrentAppendException, DeltaConcurrentModificationException):
        return None
    except DeltaError as error:
        return f"{error.condition} {error.sqlstate}"
