"""Files written without Spark tell Spark's readers that their dates and timestamps are Gregorian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tests.table.builders import memory_env

WRITES: dict[str, Callable[[tahoe.Table], Any]] = {
    "append": lambda table: None,
    "compaction": lambda table: table.optimize(),
    "order": lambda table: table.optimize(z_order_by=["id"]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_files_name_a_version_of_spark_that_writes_gregorian_dates(write: Callable[[tahoe.Table], Any]) -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    for number in range(2):
        table.append(pa.table({"id": [number]}))
    write(table)
    for path in table.files().column("path").to_pylist():
        footer = pq.read_metadata(pa.BufferReader(table.snapshot().log.env.store.get(path)))
        assert footer.metadata[b"org.apache.spark.version"] >= b"3.1.0"
        assert not [key for key in footer.metadata if key.startswith(b"org.apache.spark.legacy")]
