"""The two ways in which tahoe reads and appends: through Spark, and without it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

import tahoe
from tests.interop.rows import spark_rows


class Reader(Protocol):
    name: str
    cannot_append: Mapping[str, str]

    def read(self, path: Path, *, version: int | None = None, condition: str | None = None) -> pa.Table: ...

    def append_again(self, path: Path) -> None:
        """Append the rows that the table has."""


class WithoutSpark:
    name = "without Spark"
    cannot_append: Mapping[str, str] = {
        name: f"an Arrow table does not say that a column is {what}"
        for name, what in {"variant": "a variant", "variant_shredded": "a variant", "void_column": "void"}.items()
    }

    def read(self, path: Path, *, version: int | None = None, condition: str | None = None) -> pa.Table:
        return tahoe.Table(str(path)).snapshot(version).to_arrow(filter=condition)

    def append_again(self, path: Path) -> None:
        tahoe.Table(str(path)).append(self.read(path))


class ThroughSpark:
    name = "through Spark"
    cannot_append: Mapping[str, str] = {}

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def read(self, path: Path, *, version: int | None = None, condition: str | None = None) -> pa.Table:
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        frame = reader.load(str(path))
        return spark_rows(frame if condition is None else frame.where(condition))

    def append_again(self, path: Path) -> None:
        self.spark.read.format("delta").load(str(path)).write.format("delta").mode("append").save(str(path))
