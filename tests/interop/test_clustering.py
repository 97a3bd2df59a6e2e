"""ZORDER BY and clustered tables beside the reference and delta-rs: each reads, and goes on with, what the other has
laid out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pytest

import tahoe
from tests.interop.reference import Reference

PROPERTIES = {
    "plain": "'delta.checkpointInterval' = '5'",
    "everything": (
        "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = "
        "'name'"
    ),
}
COLUMNS = "id, p, x, n, t, d"
ROWS = (
    "SELECT CAST(id AS INT) id, CAST(id % 2 AS STRING) p, IF(id = 5, DOUBLE('NaN'), hash(id) / 7) x, "
    "named_struct('a', hash(id, 1), 'l', array(map('k', id))) n, TIMESTAMP_SECONDS(hash(id, 2)) t, CAST(id AS "
    "DECIMAL(20, 3)) d"
)


def rows_of(reference: Reference, path: str) -> list[str]:
    is_tracked = tahoe.Table(path).snapshot().row_tracking is not None
    more = ", _metadata.row_id, _metadata.row_commit_version" if is_tracked else ""
    return sorted(repr(row) for row in reference.sql(f"SELECT {COLUMNS}{more} FROM delta.`{path}`").to_pylist())


def last_parameters(reference: Reference, path: str) -> dict[str, Any]:
    return dict(reference.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").to_pylist()[0]["operationParameters"])


def metrics(reference: Reference, statement: str) -> dict[str, Any]:
    found: dict[str, Any] = reference.sql(statement).to_pylist()[0]["metrics"]
    return found


@pytest.mark.parametrize("properties", PROPERTIES)
def test_others_read_what_zorder_by_wrote(reference: Reference, tmp_path: Path, properties: str) -> None:
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (p) TBLPROPERTIES ({PROPERTIES[properties]}) AS "
        f"{ROWS} FROM range(500)",
        f"INSERT INTO delta.`{path}` {ROWS} FROM range(500, 800, 1, 3)",
        f"DELETE FROM delta.`{path}` WHERE id % 7 = 3",
    )
    before = rows_of(reference, path)
    size = sum(tahoe.Table(path).files()["size_bytes"].to_pylist())
    tahoe.Table(path).optimize(z_order_by=["x", "n.a"], max_file_bytes=size // 10)
    assert rows_of(reference, path) == before
    assert tahoe.Table(path).files().num_rows >= 6
    assert len(reference.sql(f"SELECT id FROM delta.`{path}` WHERE x > 1e300").to_pylist()) == 1, (
        "NaN is larger than all numbers"
    )
    if properties == "plain":
        assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == len(before)
    ours = last_parameters(reference, path)
    assert metrics(reference, f"OPTIMIZE delta.`{path}` ZORDER BY (x, n.a)")["numFilesAdded"] == 2
    assert last_parameters(reference, path) == ours
    assert tahoe.Table(path).optimize(z_order_by=["x", "n.a"]).version is not None, "the reference's files have no tags"
    assert rows_of(reference, path) == before


@pytest.mark.parametrize("properties", PROPERTIES)
def test_both_cluster_one_table(reference: Reference, tmp_path: Path, properties: str) -> None:
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` USING delta CLUSTER BY (x, n.a) TBLPROPERTIES ({PROPERTIES[properties]}) AS "
        f"{ROWS} FROM range(500)",
        f"INSERT INTO delta.`{path}` {ROWS} FROM range(500, 600)",
        f"DELETE FROM delta.`{path}` WHERE id % 7 = 3",
    )
    before = rows_of(reference, path)
    tahoe.Table(path).optimize(max_file_bytes=10_000)
    assert rows_of(reference, path) == before
    ours = last_parameters(reference, path)
    files = tahoe.Table(path).files().num_rows
    assert files >= 3
    assert metrics(reference, f"OPTIMIZE delta.`{path}`")["numFilesRemoved"] == 0, "it is one cube for the reference"

    reference.run(f"INSERT INTO delta.`{path}` {ROWS} FROM range(600, 700)")
    before = rows_of(reference, path)
    theirs = metrics(reference, f"OPTIMIZE delta.`{path}`")["clusteringStats"]
    assert (
        theirs["inputNumZCubes"],
        theirs["inputZCubeFiles"]["numFiles"],
        theirs["inputOtherFiles"]["numFiles"] > 0,
    ) == (1, files, True)
    assert last_parameters(reference, path) == ours
    assert tahoe.Table(path).optimize().version is None, "it is one cube for tahoe"
    assert tahoe.Table(path).optimize(full=True).version is None
    reference.run(f"INSERT INTO delta.`{path}` {ROWS} FROM range(700, 800)")
    before = rows_of(reference, path)
    assert tahoe.Table(path).optimize(full=True).cubes == 1
    assert rows_of(reference, path) == before
