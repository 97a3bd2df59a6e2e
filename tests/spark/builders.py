"""Tables that tests of DELETE, UPDATE and MERGE change, with deletion vectors and without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from tahoe import DeltaTable, Table

VECTORS = {"delta.enableDeletionVectors": "true"}

COPIES: Mapping[str, str] = {}


def make(frame: DataFrame, path: str, properties: Mapping[str, str], *partitions: str) -> DeltaTable:
    frame.write.format("delta").options(**properties).partitionBy(*partitions).save(path)
    return DeltaTable.forPath(frame.sparkSession, path)


def ids(path: str) -> list[int]:
    return sorted(Table(path).to_arrow(["id"])["id"].to_pylist())


def data_files(path: str) -> set[str]:
    return {str(p.relative_to(path)) for p in Path(path).rglob("*.parquet") if "_delta_log" not in p.parts}
