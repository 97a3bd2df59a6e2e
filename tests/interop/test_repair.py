"""Statistics and repairs of tahoe's on tables of the reference's: it reads them, skips by them, and goes on writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tahoe
from tahoe.table.verify.check import Severity, check_table
from tests.interop.reference import Reference

ROWS = (
    "SELECT id, IF(id = 15, DOUBLE('NaN'), id / 4) x, CONCAT(REPEAT('long ', 10), id) s, CAST(id AS DECIMAL(20, 2)) d, "
    "DATE_ADD(DATE'1500-01-01', CAST(id AS INT)) day, TIMESTAMP_SECONDS(id) t, named_struct('a', IF(id > 3, id, "
    "NULL)) n"
)
PROPERTIES = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "mapped": "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'",
}


@pytest.fixture(params=PROPERTIES)
def table(request: pytest.FixtureRequest, reference: Reference, tmp_path: Path) -> str:
    """Three files, one of them without statistics, and deleted rows."""
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES ({PROPERTIES[request.param]}) AS {ROWS} FROM "
        f"range(0, 20, 1, 2)",
        "SET spark.databricks.delta.stats.collect = false",
        f"INSERT INTO delta.`{path}` {ROWS} FROM range(20, 30, 1, 1)",
        "RESET spark.databricks.delta.stats.collect",
        f"DELETE FROM delta.`{path}` WHERE id IN (0, 9, 15)",
    )
    return path


def statistics(path: str) -> list[Any]:
    found = [json.loads(text) for text in tahoe.Table(path).snapshot().live.column("stats").to_pylist()]
    return sorted(
        (json.dumps({k: v for k, v in entry.items() if k != "tightBounds"}, sort_keys=True) for entry in found), key=str
    )


def ids(reference: Reference, path: str, where: str = "true") -> list[int]:
    return sorted(row["id"] for row in reference.sql(f"SELECT id FROM delta.`{path}` WHERE {where}").to_pylist())


def test_the_reference_skips_by_the_statistics_of_tahoe_and_goes_on_writing(reference: Reference, table: str) -> None:
    before = ids(reference, table)
    report = tahoe.Table(table).compute_statistics()
    assert (report.files_updated, report.unread) == (3, {})
    assert ids(reference, table) == before
    for where in (
        "id = 1",
        "id = 9",
        "x > 1e300",
        "day < DATE'1500-01-03'",
        "n.a IS NULL",
        f"s = '{'long ' * 10}22'",
        "d = 8",
        "x = 3.5",
    ):
        assert ids(reference, table, where) == sorted(tahoe.Table(table).to_arrow(filter=where)["id"].to_pylist()), (
            where
        )
    history = reference.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").to_pylist()[0]
    assert (history["operation"], dict(history["operationParameters"])) == ("COMPUTE STATS", {"predicate": "[]"})
    reference.run(f"DELETE FROM delta.`{table}` WHERE id IN (1, 21)", f"OPTIMIZE delta.`{table}`")
    assert ids(reference, table) == [number for number in before if number not in (1, 21)]
    assert [found for found in check_table(tahoe.Table(table).log) if found.severity is Severity.ERROR] == []


@pytest.mark.parametrize("table", ["vectors"], indirect=True)
def test_the_statistics_are_those_that_the_reference_writes(reference: Reference, table: str, tmp_path: Path) -> None:
    """Of a file without NaN and deleted rows, in any order and apart from tightBounds."""
    tahoe.Table(table).compute_statistics()
    (mine,) = (text for text in statistics(table) if '"id": 29' in text)
    other = str(tmp_path / "other")
    reference.run(f"CREATE TABLE delta.`{other}` USING delta AS {ROWS} FROM range(20, 30, 1, 1)")
    assert [mine] == statistics(other)


def test_the_reference_reads_what_was_repaired(reference: Reference, table: str) -> None:
    before = ids(reference, table)
    lost = tahoe.Table(table).files("id = 12")["path"][0].as_py()
    (Path(table) / lost).unlink()
    assert tahoe.Table(table).repair(verify_all_files=True).removed_files == (lost,)
    left = ids(reference, table)
    assert set(before) - set(left) == {*range(10, 20)} - {15}
    reference.run(f"INSERT INTO delta.`{table}` {ROWS} FROM range(40, 41, 1, 1)")
    assert ids(reference, table) == [*left, 40]
    history = reference.sql(f"DESCRIBE HISTORY delta.`{table}`").to_pylist()[1]
    assert (history["operation"], dict(history["operationMetrics"])["numRemovedFiles"]) == ("FSCK", "1")
