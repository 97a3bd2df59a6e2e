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
    """One way to read and append.

    Attributes:
        cannot_read: tables that are refused, with what the error must say.
        cannot_append: tables whose rows cannot be appended by this way, with the reason.
    """

    name: str
    cannot_read: Mapping[str, str]
    cannot_append: Mapping[str, str]

    def read(self, path: Path, *, version: int | None = None, condition: str | None = None) -> pa.Table: ...

    def append_again(self, path: Path) -> None:
        """Append the rows that the table has."""


class WithoutSpark:
    name = "without Spark"
    cannot_read: Mapping[str, str] = {"variant_shredded": "shredded", "dates_of_the_julian_calendar": "Julian calendar"}
    cannot_append: Mapping[str, str] = {
        "variant": "an Arrow table does not say that a column is a variant",
        "generated_columns": "only Spark can evaluate their expressions",
        "void_column": "an Arrow table does not say that a column is void",
        **dict.fromkeys(cannot_read, "it cannot be read"),
    }

    def read(self, path: Path, *, version: int | None = None, condition: str | None = None) -> pa.Table:
        return tahoe.Table(str(path)).snapshot(version).to_arrow(filter=condition)

    def append_again(self, path: Path) -> None:
        tahoe.Table(str(path)).append(self.read(path))


class ThroughSpark:
    name = "through Spark"
    cannot_read: Mapping[str, str] = {}
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
