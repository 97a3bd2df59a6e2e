"""Keys of a table that the reference writes too: it keeps them, although it does not know them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import tahoe
from tests.interop.reference import Reference

PROPERTIES = {"delta.columnMapping.mode": "name", "delta.checkpointInterval": "2"}
KEYS = {"pk": ["id"], "uq": ["day", "id"], "fk": ["day"]}


def made(path: str) -> tahoe.Table:
    """Two rows in version 0, and their keys in version 1."""
    table = tahoe.Table(path)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["x", "y"], "note": ["a", "b"]})
    table.append(rows, properties=PROPERTIES)
    with table.transaction() as changes:
        changes.add_key("pk", KEYS["pk"], rely=True)
        changes.add_key("uq", KEYS["uq"], "UNIQUE")
        changes.add_key("fk", KEYS["fk"], "FOREIGN KEY", references="/data/days", referenced_columns=["day"])
    return table


def declared(path: str) -> dict[str, list[str]]:
    told = tahoe.Table(path).inspect.constraints().to_pylist()
    return {row["name"]: row["columns"] for row in told if row["type"] != "CHECK"}


def test_the_reference_keeps_keys_over_all_that_it_does(reference: Reference, tmp_path: Path) -> None:
    path, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    made(path)
    for statement in (
        "INSERT INTO {t} VALUES (3, 'z', 'c')",
        "UPDATE {t} SET note = 'd' WHERE id = 3",
        "DELETE FROM {t} WHERE id = 1",
        "MERGE INTO {t} USING (SELECT 9L AS id, 'q' AS day, 'e' AS note) AS s ON {t}.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} ADD COLUMN more INT",
        "ALTER TABLE {t} RENAME COLUMN note TO remark",
        "ALTER TABLE {t} DROP COLUMN remark",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
        "ALTER TABLE {t} DROP CONSTRAINT positive",
        "INSERT OVERWRITE {t} VALUES (4, 'z', 5)",
        "TRUNCATE TABLE {t}",
        "RESTORE {t} TO VERSION AS OF 1",
    ):
        reference.run(statement.replace("{t}", f"delta.`{path}`"))
        assert declared(path) == KEYS, statement
    reference.run(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{path}`")
    assert declared(clone) == KEYS
    reference.run(f"RESTORE delta.`{path}` TO VERSION AS OF 0")
    assert declared(path) == {}, "version 0 has none"
    assert sorted(tahoe.Table(clone).to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_key_whose_column_the_reference_renames_can_still_be_dropped(reference: Reference, tmp_path: Path) -> None:
    """Names that it does not follow stay in the key. The table is read and written as before."""
    path = str(tmp_path / "t")
    table = made(path)
    reference.run(f"ALTER TABLE delta.`{path}` RENAME COLUMN day TO date", f"ALTER TABLE delta.`{path}` DROP COLUMN id")
    table = tahoe.Table(path)
    assert declared(path) == KEYS
    table.append(pa.table({"date": ["z"], "note": ["c"]}))
    assert sorted(table.to_arrow()["date"].to_pylist()) == ["x", "y", "z"]
    with table.transaction() as changes:
        for name in KEYS:
            changes.drop_constraint(name)
    assert declared(path) == {}
    reference.run(f"INSERT INTO delta.`{path}` VALUES ('q', 'd')")
    assert table.snapshot().to_arrow().num_rows == 4


def test_the_reference_replaces_a_table_without_its_keys(reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    made(path)
    reference.run(f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT 'x' AS other")
    assert declared(path) == {}
