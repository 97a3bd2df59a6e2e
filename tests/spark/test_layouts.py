"""Every writer on every layout: after each, the rows are the model's, the table is sound, and its feed and row ids tell
what happened.

No sample of the cases leaves a layout out. In `make test` each layout meets a quarter of the writers, and each writer
two of the layouts; elsewhere each layout meets all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.table.verify.check import check_version
from tahoe.tables import DeltaTable
from tests import sample

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKING = {"delta.enableRowTracking": "true"}
MAPPING = {"delta.columnMapping.mode": "name"}
FEED = {"delta.enableChangeDataFeed": "true"}
LAYOUTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "plain": ((), {}),
    "partitioned": (("part",), {}),
    "vectors": ((), VECTORS),
    "row tracking": ((), TRACKING),
    "column mapping": ((), MAPPING),
    "feed": ((), FEED),
    "feed with vectors": (("part",), {**FEED, **VECTORS}),
    "everything": (("part",), {**FEED, **VECTORS, **TRACKING, **MAPPING}),
}

Row = tuple[int, str, str | None]


@dataclass
class Given:
    """A table, and the rows that it must have."""

    spark: SparkSession
    path: str
    rows: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"delta.`{self.path}`"

    def frame(self, *rows: Row) -> DataFrame:
        return self.spark.createDataFrame(list(rows), "id long, part string, name string")

    def keep(self, test: Callable[[Row], bool], *more: Row) -> None:
        self.rows = [*(row for row in self.rows if test(row)), *more]


def append(t: Given) -> None:
    t.frame((10, "a", "ten"), (11, "c", None)).write.format("delta").mode("append").save(t.path)
    t.keep(lambda _: True, (10, "a", "ten"), (11, "c", None))


def insert(t: Given) -> None:
    t.spark.sql(f"INSERT INTO {t.name} (name, id, part) VALUES ('twelve', 12, 'b')")
    t.keep(lambda _: True, (12, "b", "twelve"))


def update(t: Given) -> None:
    t.spark.sql(f"UPDATE {t.name} SET name = concat(name, '!'), part = 'd' WHERE id IN (1, 10)")
    t.rows = [(i, "d", name and name + "!") if i in (1, 10) else (i, part, name) for i, part, name in t.rows]


def delete(t: Given) -> None:
    t.spark.sql(f"DELETE FROM {t.name} WHERE id % 5 = 2")
    t.keep(lambda row: row[0] % 5 != 2)


def delete_partition(t: Given) -> None:
    t.spark.sql(f"DELETE FROM {t.name} WHERE part = 'c'")
    t.keep(lambda row: row[1] != "c")


def merge(t: Given) -> None:
    source = t.frame((3, "x", "three"), (4, "y", None), (20, "z", "twenty")).alias("s")
    found = DeltaTable.forPath(t.spark, t.path).alias("t").merge(source, "t.id = s.id")
    found = (
        found.whenMatchedDelete("s.name IS NULL").whenMatchedUpdate(set={"name": "s.name"}).whenNotMatchedInsertAll()
    )
    found.whenNotMatchedBySourceUpdate("t.id = 5", {"part": "'e'"}).execute()
    t.rows = [(i, "e" if i == 5 else part, "three" if i == 3 else name) for i, part, name in t.rows if i != 4]
    t.rows.append((20, "z", "twenty"))


def replace_where(t: Given) -> None:
    t.frame((30, "a", "thirty")).write.format("delta").mode("overwrite").option("replaceWhere", "part = 'a'").save(
        t.path
    )
    t.keep(lambda row: row[1] != "a", (30, "a", "thirty"))


def replace_rows(t: Given) -> None:
    t.frame((31, "b", "new")).write.format("delta").mode("overwrite").option("replaceWhere", "id > 19").save(t.path)
    t.keep(lambda row: row[0] <= 19, (31, "b", "new"))


def replace_using(t: Given) -> None:
    t.frame((31, "b", "newer")).write.format("delta").mode("overwrite").option("replaceUsing", "id").save(t.path)
    t.keep(lambda row: row[0] != 31, (31, "b", "newer"))


def transaction(t: Given) -> None:
    with tahoe.Table(t.path).transaction() as changes:
        assert changes.delete("id = 5") == sum(row[0] == 5 for row in t.rows)
        changes.append(pa.table({"id": [40, 41], "part": ["a", "b"], "name": ["forty", None]}))
    t.keep(lambda row: row[0] != 5, (40, "a", "forty"), (41, "b", None))


def purge(t: Given) -> None:
    t.spark.sql(f"REORG TABLE {t.name} APPLY (PURGE)")


def overwrite_partitions(t: Given) -> None:
    """Without partitions it replaces everything."""
    is_partitioned = bool(tahoe.Table(t.path).snapshot().partition_columns)
    t.frame((50, "b", "fifty")).write.format("delta").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).save(t.path)
    t.keep(lambda row: is_partitioned and row[1] != "b", (50, "b", "fifty"))


def overwrite(t: Given) -> None:
    t.frame((60, "a", "sixty"), (61, "b", None)).write.format("delta").mode("overwrite").save(t.path)
    t.rows = [(60, "a", "sixty"), (61, "b", None)]


def truncate(t: Given) -> None:
    t.spark.sql(f"TRUNCATE TABLE {t.name}")
    t.rows = []


WRITERS = (
    append,
    insert,
    update,
    delete,
    merge,
    delete_partition,
    replace_where,
    replace_rows,
    replace_using,
    transaction,
    purge,
    overwrite_partitions,
    overwrite,
    truncate,
)


def row_ids(t: Given) -> dict[int, int]:
    rows = t.spark.read.format("delta").load(t.path).select("id", "_metadata.row_id").collect()
    assert len({row.row_id for row in rows}) == len(rows), "two rows have one id"
    return {row.id: row.row_id for row in rows}


def changes_of(t: Given, version: int) -> tuple[Counter[Row], Counter[Row]]:
    """The rows that a version takes away, and those that it brings."""
    feed = t.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version).load(t.path)
    rows = [((row.id, row.part, row.name), row._change_type) for row in feed.collect()]
    gone, come = ({"delete", "update_preimage"}, {"insert", "update_postimage"})
    return Counter(row for row, kind in rows if kind in gone), Counter(row for row, kind in rows if kind in come)


@pytest.mark.every_case
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_writer_meets_every_layout(spark: SparkSession, path: str, layout: str) -> None:
    partition_by, properties = LAYOUTS[layout]
    t = Given(spark, path, [(i, "abc"[i % 3], f"row {i}") for i in range(10)])
    table = tahoe.Table(path)
    columns = pa.schema([("id", pa.int64()), ("part", pa.string()), ("name", pa.string())])
    first = [dict(zip(columns.names, row, strict=True)) for row in t.rows]
    table.append(pa.Table.from_pylist(first, columns), partition_by=partition_by or None, properties=properties)
    for writer in sample.part(WRITERS, 4, first=list(LAYOUTS).index(layout)):
        before, version, ids = (
            list(t.rows),
            table.version,
            row_ids(t) if layout in ("row tracking", "everything") else {},
        )
        writer(t)
        found = [(row.id, row.part, row.name) for row in spark.read.format("delta").load(path).collect()]
        assert Counter(found) == Counter(t.rows), f"the rows after {writer.__name__}"
        assert list(check_version(table.snapshot())) == [], f"the table after {writer.__name__}"
        if ids and writer is not replace_using:  # which writes a row anew
            kept = row_ids(t)
            assert {i: kept[i] for i in ids if i in kept} == {i: ids[i] for i in ids if i in kept}, (
                f"row ids after {writer.__name__}"
            )
        if "delta.enableChangeDataFeed" in properties and table.version > version and writer is not purge:
            gone, come = changes_of(t, version + 1)
            was, now = Counter(before), Counter(t.rows)
            assert gone - come == was - now, f"what {writer.__name__} took away"
            assert come - gone == now - was, f"what {writer.__name__} brought"
