"""What `Table.transaction` commits, the reference reads equal, and goes on from there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tests.interop.reference import Reference, ReferenceFailure
from tests.interop.rows import assert_same

WITH_VECTORS = {"delta.enableDeletionVectors": "true"}


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.mark.parametrize("rows", [100, 200_000], ids=["in the log", "in a file"])
def test_vectors_that_two_writers_made_of_one_file(rows: int, reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.append(numbers(*range(rows)), properties=WITH_VECTORS)
    (file,) = table.files().column("path").to_pylist()
    with table.transaction() as mine:
        mine.mark_deleted(file, range(0, rows, 3))
        with tahoe.Table(path).transaction() as theirs:
            theirs.mark_deleted(file, range(1, rows, 3))
    left = numbers(*range(2, rows, 3))
    assert_same(reference.read(path), left)
    reference.run(f"DELETE FROM delta.`{path}` WHERE id % 3 = 2 AND id < 50")
    assert_same(tahoe.Table(path).to_arrow(), numbers(*(n for n in range(2, rows, 3) if n >= 50)))


def test_row_ids_are_the_references(reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.append(numbers(*range(10)), properties={"delta.enableRowTracking": "true", **WITH_VECTORS})
    table.append(numbers(10, 11))
    with table.transaction() as changes:
        changes.delete("id = 3")
        changes.append(numbers(12))
    reference.run(f"INSERT INTO delta.`{path}` VALUES (13)", f"UPDATE delta.`{path}` SET id = 100 WHERE id = 5")
    table.append(numbers(14))
    found = reference.sql(
        f"SELECT id, _metadata.row_id AS row_id, _metadata.row_commit_version AS version FROM delta.`{path}`"
    )
    ours = table.to_arrow(columns=["id", "_metadata.row_id", "_metadata.row_commit_version"]).rename_columns(
        ["id", "row_id", "version"]
    )
    assert_same(ours, found)
    assert len(set(found.column("row_id").to_pylist())) == found.num_rows == 14


def test_row_tracking_that_begins_later(reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.append(numbers(1, 2))
    table.append(numbers(3))
    with table.transaction() as changes:
        changes.set_properties({"delta.enableRowTracking": "true"})
    reference.run(f"INSERT INTO delta.`{path}` VALUES (4)")
    found = reference.sql(f"SELECT _metadata.row_id AS row_id FROM delta.`{path}`").column("row_id").to_pylist()
    assert sorted(found) == [0, 1, 2, 3]


def test_constraints_domains_and_schemas(reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.append(numbers(1, 2), properties={"delta.columnMapping.mode": "name"})
    with table.transaction() as changes:
        changes.add_constraint("positive", "id > 0")
        changes.set_domain("mine", "text")
        changes.set_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]))
        changes.set_properties({"owner": "me", "comment": "why"})
    with pytest.raises(ReferenceFailure, match=r"CHECK constraint positive|DELTA_VIOLATE"):
        reference.run(f"INSERT INTO delta.`{path}` VALUES (-1, 'x')")
    reference.run(f"INSERT INTO delta.`{path}` VALUES (3, 'x')")
    assert_same(reference.read(path), pa.table({"id": [1, 2, 3], "name": [None, None, "x"]}))
    assert table.snapshot().domains["mine"].configuration == "text"
    reference.run(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT positive")
    table.append(pa.table({"id": [-1], "name": ["y"]}))
    told = reference.sql(f"DESCRIBE HISTORY delta.`{path}`").to_pylist()
    assert {entry["version"]: entry["operation"] for entry in told}[1] == "TRANSACTION"


@pytest.mark.parametrize("properties", [{}, WITH_VECTORS], ids=["copies", "vectors"])
def test_deletes_of_partitioned_and_mapped_tables(
    properties: dict[str, str], reference: Reference, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    rows = pa.table({"id": list(range(20)), "p": [f"p {n % 3}" for n in range(20)]})
    table.append(rows, partition_by=["p"], properties={"delta.columnMapping.mode": "name", **properties})
    with table.transaction() as changes:
        changes.delete("p = 'p 1' or id > 15")
    kept = [n for n in range(20) if n % 3 != 1 and n <= 15]
    assert_same(reference.read(path), pa.table({"id": kept, "p": [f"p {n % 3}" for n in kept]}))
