"""OPTIMIZE beside the reference: each compacts the tables of the other, and reads what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tahoe
from tests.interop.reference import Reference

PROPERTIES = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "everything": (
        "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = "
        "'name'"
    ),
}


@pytest.fixture(params=PROPERTIES)
def table(request: pytest.FixtureRequest, reference: Reference, tmp_path: Path) -> str:
    """A table of the reference's in many files, in two partitions, with deleted rows, nested types and NaN."""
    path = str(tmp_path / "t")
    rows = (
        "SELECT CAST(id AS INT) id, CAST(id % 2 AS STRING) p, IF(id = 5, DOUBLE('NaN'), id / 7) x, "
        "named_struct('a', id, 'l', array(map('k', id))) n, TIMESTAMP_SECONDS(id) t, CAST(id AS DECIMAL(20, 3)) d"
    )
    reference.run(
        f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (p) TBLPROPERTIES ({PROPERTIES[request.param]}) AS "
        f"{rows} FROM range(0, 20, 1, 5)",
        f"INSERT INTO delta.`{path}` {rows} FROM range(20, 30, 1, 3)",
        f"DELETE FROM delta.`{path}` WHERE id IN (3, 4, 25)",
    )
    return path


def rows_of(reference: Reference, path: str, *columns: str) -> list[str]:
    names = ", ".join(("id", "p", "x", "n", "t", "d", *columns))
    return sorted(repr(row) for row in reference.sql(f"SELECT {names} FROM delta.`{path}` ORDER BY id").to_pylist())


def tracked(path: str) -> tuple[str, ...]:
    is_tracked = tahoe.Table(path).snapshot().row_tracking is not None
    return ("_metadata.row_id", "_metadata.row_commit_version") if is_tracked else ()


def test_the_reference_reads_what_tahoe_compacted(reference: Reference, table: str) -> None:
    before = rows_of(reference, table, *tracked(table))
    report = tahoe.Table(table).optimize()
    assert len(report.added_bytes) == 2
    assert rows_of(reference, table, *tracked(table)) == before
    assert len(reference.sql(f"SELECT id FROM delta.`{table}` WHERE x > 1e300").to_pylist()) == 1, (
        "NaN is larger than all numbers"
    )
    history = reference.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").to_pylist()[0]
    assert (history["operation"], dict(history["operationParameters"])["predicate"]) == ("OPTIMIZE", "[]")
    metrics = reference.sql(f"OPTIMIZE delta.`{table}`").to_pylist()[0]["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (0, 0), "nothing is left to do"


def test_tahoe_reads_what_the_reference_compacted(reference: Reference, table: str) -> None:
    def rows() -> list[str]:
        return sorted(repr(row) for row in tahoe.Table(table).to_arrow().to_pylist())

    before = rows()
    reference.run(f"OPTIMIZE delta.`{table}`")
    assert rows() == before
    assert tahoe.Table(table).optimize().version is None
