"""The record of loaded files in a table that others write too: they keep it, although they do not know it."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import tahoe
from tests.interop.reference import Reference
from tests.table.copying import load, loaded


@pytest.fixture
def table(tmp_path: Path) -> tahoe.Table:
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}), properties={"delta.checkpointInterval": "2"})
    load(table, "a")
    load(table, "b")
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    return tahoe.Table(table.url)


def test_the_reference_keeps_the_record_over_its_writes_and_checkpoints(
    reference: Reference, table: tahoe.Table, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    reference.run(
        f"INSERT INTO delta.`{path}` VALUES (3)",
        f"DELETE FROM delta.`{path}` WHERE id = 1",
        f"OPTIMIZE delta.`{path}`",
        f"INSERT OVERWRITE delta.`{path}` VALUES (4)",
        f"INSERT INTO delta.`{path}` VALUES (5)",
    )
    fresh = again(table)
    assert any(file.is_checkpoint and file.version > 2 for file in fresh.log.list_files())
    assert load(fresh, "a", "b", "c") == ["c"]
    assert sorted(reference.read(path)["id"].to_pylist()) == [4, 5]
    reference.run(f"RESTORE delta.`{path}` TO VERSION AS OF 1")  # it leaves domains that it does not know as they are
    assert loaded(again(table)) == ["a", "b", "c"]
    reference.run("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    reference.run(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    assert loaded(again(table)) == ["a", "b", "c"]
    reference.run(f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT 1 AS id")
    assert loaded(again(table)) == []


def test_delta_rs_reads_the_table_and_does_not_write_it(table: tahoe.Table, tmp_path: Path) -> None:
    path, rows = str(tmp_path / "t"), pa.table({"id": pa.array([3], pa.int64())})
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 2
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="DomainMetadata"):
        deltalake.write_deltalake(path, rows, mode="append")
    assert load(again(table), "a", "b", "c") == ["c"]
