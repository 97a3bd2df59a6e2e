"""Numbers that are never assigned twice, with the reference beside tahoe: it goes on behind what tahoe has restored,
cloned or dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.table.verify.check import check_table
from tests.interop.reference import Reference
from tests.property.assigned_numbers import NumbersOfLog

MAPPED, TRACKED = "'delta.columnMapping.mode' = 'name'", "'delta.enableRowTracking' = 'true'"


def set_properties(reference: Reference, path: str, *properties: str) -> None:
    reference.run(*(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({each})" for each in properties))


def replaced_by_clone(path: str) -> None:
    """A clone of a table without column mapping, row tracking and identity columns; then that of the table that was
    there.
    """
    backup, other = (tahoe.Table(f"{path}-{name}") for name in ("backup", "other"))
    tahoe.Table(path).clone(backup.url)
    other.append(tahoe.Table(path).to_arrow(columns=["id"]))
    other.clone(path, replace=True)
    backup.clone(path, replace=True)


def dropped(path: str) -> None:
    tahoe.Table(path).drop_feature("rowTracking")


def dropped_with_domains(path: str) -> None:
    dropped(path)
    tahoe.Table(path).drop_feature("domainMetadata")
    with tahoe.Table(path).transaction() as changes:  # the mark is where every writer looks for it
        changes.set_properties({"delta.enableRowTracking": "true"})


CHANGES: Mapping[str, Callable[[str], object]] = {
    "restored to the begin": lambda path: tahoe.Table(path).restore(1),
    "restored one back": lambda path: tahoe.Table(path).restore((tahoe.Table(path).version or 1) - 1),
    "replaced by a clone": replaced_by_clone,
    "row tracking dropped": dropped,
    "row tracking dropped and restored": lambda path: (dropped(path), tahoe.Table(path).restore(1)),
    "domains dropped": dropped_with_domains,
}


def test_the_reference_maps_columns_again_behind_every_id(
    reference: Reference, spark: SparkSession, tmp_path: Path
) -> None:
    """The highest id stays as a property when column mapping ends."""
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING) USING delta TBLPROPERTIES ({MAPPED})",
        f"INSERT INTO delta.`{path}` VALUES (1, 'a')",
        f"ALTER TABLE delta.`{path}` ADD COLUMN more INT",
    )
    spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE columnMapping")
    reference.run(f"INSERT INTO delta.`{path}` VALUES (2, 'b', 2)")
    set_properties(reference, path, MAPPED)
    reference.run(
        f"ALTER TABLE delta.`{path}` ADD COLUMN last INT", f"INSERT INTO delta.`{path}` VALUES (3, 'c', 3, 3)"
    )
    table = tahoe.Table(path)
    assert [column.metadata["delta.columnMapping.id"] for column in table.schema] == [4, 5, 6, 7]
    table.restore(2)
    assert table.properties["delta.columnMapping.maxColumnId"] == "7"
    assert [row["id"] for row in reference.read(path).to_pylist()] == [1]


@pytest.mark.parametrize("change", CHANGES)
def test_the_reference_goes_on_behind_every_number(reference: Reference, tmp_path: Path, change: str) -> None:
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` (id BIGINT, k BIGINT GENERATED ALWAYS AS IDENTITY, p STRING) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        f"INSERT INTO delta.`{path}` (id, p) VALUES (1, 'a'), (2, 'b')",
    )
    set_properties(reference, path, TRACKED, MAPPED)
    for number in (3, 5):
        reference.run(f"INSERT INTO delta.`{path}` (id, p) VALUES ({number}, 'c'), ({number + 1}, 'd')")
    reference.run(f"ALTER TABLE delta.`{path}` ADD COLUMN more INT", f"DELETE FROM delta.`{path}` WHERE id = 3")
    CHANGES[change](path)
    reference.run(f"INSERT INTO delta.`{path}` (id, p) VALUES (11, 'e'), (12, 'f')")
    set_properties(reference, path, MAPPED, TRACKED)
    reference.run(
        f"ALTER TABLE delta.`{path}` ADD COLUMN last INT",
        f"INSERT INTO delta.`{path}` (id, p) VALUES (13, 'g'), (14, 'h')",
        f"UPDATE delta.`{path}` SET p = 'u' WHERE id = 1",
    )
    table = tahoe.Table(path)
    faults = NumbersOfLog().look(table.log, table.version or 0)
    assert not faults
    assert [str(found) for found in check_table(table.log)] == []
    mine = {
        row["id"]: (row["k"], row["_metadata.row_id"])
        for row in table.to_arrow(["id", "k", "_metadata.row_id"]).to_pylist()
    }
    theirs = reference.sql(f"SELECT id, k, _metadata.row_id AS row_id FROM delta.`{path}`").to_pylist()
    assert {row["id"]: (row["k"], row["row_id"]) for row in theirs} == mine
    for values in zip(*mine.values(), strict=True):
        assert len(set(values)) == len(values) >= 6
