"""RESTORE beside the reference: equal rows, results and history, and each goes on with what the other has restored."""

from __future__ import annotations

from pathlib import Path

import pytest

import tahoe
from tests.interop.builders import KINDS, ids, made
from tests.interop.reference import Reference


@pytest.mark.parametrize("kind", KINDS)
def test_both_restore_the_same(reference: Reference, tmp_path: Path, kind: str) -> None:
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    for path in (theirs, ours):
        made(reference, path, kind)
    (row,) = reference.sql(f"RESTORE TABLE delta.`{theirs}` TO VERSION AS OF 2").to_pylist()
    report = tahoe.Table(ours).restore(2)
    assert [value for name, value in row.items() if "size" not in name] == [
        report.files,
        report.removed_files,
        report.restored_files,
    ]
    found = []
    for path in (theirs, ours):
        (entry,) = reference.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").to_pylist()
        metrics = {name: value for name, value in dict(entry["operationMetrics"]).items() if "Size" not in name}
        found.append((entry["operation"], dict(entry["operationParameters"]), metrics, entry["isBlindAppend"]))
    assert found[0] == found[1]
    for path in (theirs, ours):
        assert (
            ids(reference, path)
            == [0, 1, 2, 4, 5, 6, 7, 8, 9]
            == sorted(tahoe.Table(path).to_arrow()["id"].to_pylist())
        )
        assert "mine" not in tahoe.Table(path).properties
        reference.run(
            f"INSERT INTO delta.`{path}` VALUES (30, 'c')", f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1"
        )
        assert ids(reference, path) == list(range(10))
        assert tahoe.Table(path).restore(3).version == 8
        assert ids(reference, path) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 20]
    assert tahoe.Table(ours).snapshot().clustering_columns == tahoe.Table(theirs).snapshot().clustering_columns


def test_the_reference_reads_a_table_that_went_back_to_before_column_mapping(
    reference: Reference, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    made(reference, path, "plain")
    reference.run(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO number",
        f"INSERT INTO delta.`{path}` VALUES (40, 'd')",
    )
    tahoe.Table(path).restore(1)
    assert ids(reference, path) == list(range(10))
    reference.run(f"INSERT INTO delta.`{path}` VALUES (50, 'e')", f"DELETE FROM delta.`{path}` WHERE id < 9")
    assert ids(reference, path) == [9, 50] == sorted(tahoe.Table(path).to_arrow()["id"].to_pylist())
    old = reference.sql(f"SELECT number FROM delta.`{path}` VERSION AS OF 7").to_pylist()
    assert sorted(row["number"] for row in old) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 20, 40]
