"""What does a one-row append cost compared with delta-rs, which starts no Spark job? And how many storage requests does
it make?
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import deltalake
import pyarrow as pa
from pyspark.sql import SparkSession

import tahoe
from benchmarks.measure import FOLDER, Comparison, compare, report, start_spark
from tahoe.spark.jvm.table_cache import open_table
from tahoe.storage.env import FileInfo, Store

APPENDS = 10


class CountingStore:
    """A store that counts requests, under the names that object stores use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url
        self.asked: Counter[str] = Counter()

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        self.asked["LIST"] += 1
        return self._store.list_from(prefix, start_after)

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        self.asked["LIST"] += 1
        return self._store.walk(prefix)

    def get(self, key: str) -> bytes:
        self.asked["GET"] += 1
        return self._store.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.asked["GET"] += 1
        return self._store.get_range(key, start, length)

    def head(self, key: str) -> FileInfo | None:
        self.asked["HEAD"] += 1
        return self._store.head(key)

    def open(self, key: str) -> BinaryIO:
        self.asked["GET"] += 1
        return self._store.open(key)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.asked["PUT"] += 1
        return self._store.put_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        self.asked["PUT"] += 1
        self._store.put(key, data)

    def delete(self, key: str) -> None:
        self.asked["DELETE"] += 1
        self._store.delete(key)


def counted(table: tahoe.Table) -> CountingStore:
    """Replace a table's store by one that counts from now on."""
    store = CountingStore(table.env.store)
    table.env = replace(table.env, store=store)
    table.log = replace(table.log, env=table.env)
    return store


def run() -> list[Comparison]:
    spark = start_spark()
    ours, theirs = (str(FOLDER / f"append-{side}") for side in ("tahoe", "delta-rs"))
    for path in (ours, theirs):
        shutil.rmtree(path, ignore_errors=True)
    row = pa.table({"id": [0]})

    def append() -> None:
        for _ in range(APPENDS):
            spark.range(1).write.format("delta").mode("append").save(ours)

    def append_there() -> None:
        for _ in range(APPENDS):
            deltalake.write_deltalake(theirs, row, mode="append")

    return [
        compare(
            f"append one row, {APPENDS} times",
            peer="delta-rs, without Spark",
            ours=append,
            theirs=append_there,
            what=requests(spark),
        )
    ]


def requests(spark: SparkSession) -> str:
    """The storage requests of a one-row append, and of opening the table afterwards."""
    path = str(FOLDER / "append-counted")
    shutil.rmtree(path, ignore_errors=True)
    table = open_table(spark, path)
    store = counted(table)
    counts = []
    for what in ("the first append", "a later append"):
        store.asked.clear()
        spark.range(1).write.format("delta").mode("append").save(path)
        counts.append(f"{what} {_text(store.asked)}, and one PUT of Spark's for the data file")
    fresh = tahoe.Table(path)
    store = counted(fresh)
    fresh.snapshot()
    counts.append(f"opening the two versions {_text(store.asked)}")
    return f"Storage requests: {'; '.join(counts)}"


def _text(asked: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(asked.items()) if number)


if __name__ == "__main__":
    report(*run())
