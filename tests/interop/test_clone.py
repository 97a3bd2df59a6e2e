"""CLONE beside the reference: it reads and writes what tahoe has cloned, and tahoe what it has cloned."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import tahoe
from tahoe.table.verify.check import check_table
from tests.interop.builders import KINDS, ids, made
from tests.interop.reference import Reference

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
        found.append(
            (entry["operation"], sorted(dict(entry["operationParameters"])), dict(entry["operationMetrics"]).keys())
        )
        reference.run(
            f"UPDATE delta.`{path}` SET id = 30 WHERE id = 20", f"INSERT INTO delta.`{path}` VALUES (40, 'd')"
        )
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
        row["id"]: row["_metadata.row_id"]
        for row in tahoe.Table(clone).to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    }


@pytest.mark.parametrize("shallow", [True, False], ids=["shallow", "deep"])
def test_the_reference_lives_on_with_clones_of_other_formats(
    reference: Reference, tmp_path: Path, shallow: bool
) -> None:
    """Of an Iceberg table after its columns were renamed, and of a folder of Parquet files, which the reference clones
    as well.
    """
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["x", None], "name": ["a", "b"]})
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("d")
    source = catalog.create_table("d.t", schema=rows.schema)
    with source.update_spec() as spec:
        spec.add_identity("p")
    source.append(rows)
    with source.update_schema() as change:
        change.rename_column("name", "title")
    iceberg, ours, theirs = (str(tmp_path / name) for name in ("iceberg", "ours", "theirs"))
    tahoe.Table(source.location()).clone(iceberg, shallow=shallow, source_format="iceberg")
    pq.write_to_dataset(rows.slice(0, 1), str(tmp_path / "files"))
    tahoe.Table(tmp_path / "files").clone(ours, shallow=shallow, source_format="parquet")
    reference.run(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE parquet.`{tmp_path}/files`")
    assert (
        reference.sql(f"SELECT * FROM delta.`{iceberg}` ORDER BY id").to_pylist()
        == source.scan().to_arrow().to_pylist()
    )
    reference.run(
        f"INSERT INTO delta.`{iceberg}` VALUES (3, 'y', 'c')", f"DELETE FROM delta.`{iceberg}` WHERE title = 'a'"
    )
    assert sorted(tahoe.Table(iceberg).to_arrow()["title"].to_pylist()) == ["b", "c"]
    told = []
    for path in (ours, theirs):
        assert ids(reference, path) == [1]
        (entry,) = reference.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").to_pylist()
        parameters = dict(entry["operationParameters"])
        told.append(
            (
                entry["operation"],
                parameters["sourceVersion"],
                sorted(parameters),
                sorted(dict(entry["operationMetrics"])),
            )
        )
        reference.run(f"INSERT INTO delta.`{path}` VALUES (9, 'z', 'z')")
        assert sorted(tahoe.Table(path).to_arrow()["id"].to_pylist()) == [1, 9]
    assert told[0] == told[1]
    assert tahoe.Table(ours).snapshot(0).schema == tahoe.Table(theirs).snapshot(0).schema
