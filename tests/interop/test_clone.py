"""CLONE beside the reference: it reads and writes what tahoe has cloned, and tahoe what it has cloned."""

from __future__ import annotations

from pathlib import Path

import pytest

import tahoe
from tahoe.table.verify.check import check_table
from tests.interop.reference import Reference
from tests.interop.test_restore import KINDS, ids, made

ROWS = [0, 1, 2, 4, 5, 6, 7, 8, 9, 20]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_lives_on_with_clones(reference: Reference, tmp_path: Path, kind: str) -> None:
    source = str(tmp_path / "a source %41")
    made(reference, source, kind)
    tahoe.Table(source).clone(tmp_path / "shallow", shallow=True)
    tahoe.Table(source).clone(tmp_path / "deep")
    theirs = str(tmp_path / "theirs")
    reference.run(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{source}`")
    found = []
    for path in (str(tmp_path / "shallow"), theirs, str(tmp_path / "deep")):
        assert ids(reference, path) == sorted(tahoe.Table(path).to_arrow()["id"].to_pylist()) == ROWS
        (entry,) = reference.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").to_pylist()
        found.append((entry["operation"], sorted(dict(entry["operationParameters"])), dict(entry["operationMetrics"]).keys()))
        reference.run(f"UPDATE delta.`{path}` SET id = 30 WHERE id = 20", f"INSERT INTO delta.`{path}` VALUES (40, 'd')")
        with tahoe.Table(path).transaction() as changes:
            changes.delete("id < 5")
        reference.run(f"OPTIMIZE delta.`{path}`")
        assert ids(reference, path) == sorted(tahoe.Table(path).to_arrow()["id"].to_pylist()) == [5, 6, 7, 8, 9, 30, 40]
        assert [str(finding) for finding in check_table(tahoe.Table(path).log)] == []
    assert found[0] == found[1] == found[2]
    assert ids(reference, source) == ROWS


def test_tahoe_replaces_a_clone_of_the_references(reference: Reference, tmp_path: Path) -> None:
    """With row tracking, whose hidden columns must not have the source's names."""
    source, clone = str(tmp_path / "source"), str(tmp_path / "clone")
    made(reference, source, "tracked")
    reference.run(f"OPTIMIZE delta.`{source}`", f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
    reference.run(f"INSERT INTO delta.`{clone}` VALUES (50, 'e')", f"OPTIMIZE delta.`{clone}`")
    report = tahoe.Table(source).clone(clone, replace=True)
    assert report.removed_files > 0
    rows = reference.sql(f"SELECT id, _metadata.row_id AS r FROM delta.`{clone}`").to_pylist()
    assert sorted(row["id"] for row in rows) == ROWS
    assert len({row["r"] for row in rows}) == len(ROWS)
    assert {row["id"]: row["r"] for row in rows} == {
        row["id"]: row["_metadata.row_id"] for row in tahoe.Table(clone).to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    }
