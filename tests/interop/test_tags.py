"""Tags in a table that the reference writes too: it keeps them, although it does not know them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import tahoe
from tests.interop.reference import Reference


def test_the_reference_keeps_tags_over_its_writes_and_checkpoints(reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}), properties={"delta.checkpointInterval": "2"})
    table.tag("first")
    assert reference.read(path).num_rows == 2
    reference.run(
        f"INSERT INTO delta.`{path}` VALUES (3)",
        f"DELETE FROM delta.`{path}` WHERE id = 1",
        f"OPTIMIZE delta.`{path}`",
        f"RESTORE delta.`{path}` TO VERSION AS OF 0",
        f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT 'x' AS other",
        f"INSERT INTO delta.`{path}` VALUES ('y')",
    )
    fresh = tahoe.Table(path)
    assert [(tag.name, tag.version) for tag in fresh.tags()] == [("first", 0)]
    assert any(file.is_checkpoint for file in fresh.log.list_files())
    assert sorted(fresh.snapshot("first").to_arrow()["id"].to_pylist()) == [1, 2]
    fresh.vacuum(0, retention_check=False)
    assert reference.read(path, versionAsOf="0").num_rows == 2
