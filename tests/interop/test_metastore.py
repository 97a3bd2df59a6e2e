"""Names in a metastore outlive the session, and mean the same to the reference and to tahoe, whoever has entered
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.metastore import HIVE, run
from tests.interop.reference import check_installed


def test_names_outlive_a_session_and_are_shared(tmp_path: Path) -> None:
    if not HIVE:
        pytest.skip("NOT RUN: this PySpark has no spark-hive among its jars, and so no metastore that lasts")
    check_installed()
    ours = run(
        tmp_path,
        [
            "CREATE DATABASE d",
            "CREATE TABLE d.managed (id BIGINT, p INT) USING delta PARTITIONED BY (p) COMMENT 'ours'",
            "INSERT INTO d.managed VALUES (1, 1), (2, 2)",
            f"CREATE TABLE placed USING delta LOCATION '{tmp_path}/placed' AS SELECT 7 AS a",
            "CREATE VIEW seen AS SELECT sum(id) AS s FROM d.managed",
            "ALTER TABLE d.managed ADD COLUMN later STRING",
            "SELECT * FROM seen",
        ],
    )
    assert ours == [[[3]]]
    theirs = run(
        tmp_path,
        [
            "SELECT id, p, later FROM d.managed ORDER BY id",
            "SELECT a FROM placed",
            "SELECT s FROM seen",
            "INSERT INTO d.managed VALUES (3, 3, 'theirs')",
            "ALTER TABLE placed ADD COLUMN b INT",
            "CREATE TABLE d.of_theirs (x INT, y STRING) USING delta PARTITIONED BY (y) TBLPROPERTIES ('mine' = '1')",
            "INSERT INTO d.of_theirs VALUES (1, 'a')",
            f"CREATE TABLE placed_by_them USING delta LOCATION '{tmp_path}/theirs' AS SELECT 8 AS a",
        ],
        by_reference=True,
    )
    assert theirs == [[[1, 1, None], [2, 2, None]], [[7]], [[3]]]
    again = run(
        tmp_path,
        [
            "SELECT id, p, later FROM d.managed ORDER BY id",
            "SELECT * FROM placed",
            "SELECT * FROM seen",
            "SELECT * FROM d.of_theirs",
            "SELECT a FROM placed_by_them",
            "INSERT INTO d.of_theirs VALUES (2, 'b')",
            "ALTER TABLE d.of_theirs ADD COLUMN z INT",
            "SELECT * FROM d.of_theirs ORDER BY x",
            "SHOW TABLES IN d",
            "SHOW TBLPROPERTIES d.of_theirs ('mine')",
            "ALTER TABLE d.managed RENAME TO d.renamed",
            "SELECT count(*) FROM d.renamed",
            "DROP TABLE d.renamed",
            "DROP TABLE placed",
            "DROP TABLE d.of_theirs",
            "SHOW TABLES IN d",
        ],
    )
    assert again == [
        [[1, 1, None], [2, 2, None], [3, 3, "theirs"]],
        [[7, None]],
        [[6]],
        [[1, "a"]],
        [[8]],
        [[1, "a", None], [2, "b", None]],
        [["d", "managed", False], ["d", "of_theirs", False]],
        [["mine", "1"]],
        [[3]],
        [],
    ]
    left = {path.name for path in (tmp_path / "warehouse" / "d.db").iterdir()}
    assert not left & {"managed", "renamed", "of_theirs"}, "the files of managed tables go with their names"
    assert (tmp_path / "placed" / "_delta_log").exists(), "those of others stay"
