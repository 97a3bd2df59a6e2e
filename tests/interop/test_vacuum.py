"""VACUUM beside the reference: each vacuums the tables of the other, and reads what is left."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import tahoe
from tahoe.protocol.log.actions import VACUUM_STARTED
from tests.interop.reference import Reference

VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
CHECK = "SET spark.databricks.delta.retentionDurationCheck.enabled = false"


@pytest.fixture
def table(reference: Reference, tmp_path: Path) -> str:
    """A table of the reference's with dead files in two partitions, one of them with a name that is escaped, and with
    vectors.
    """
    path = str(tmp_path / "t")
    reference.run(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) {VECTORS}",
        f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ CAST(id AS INT), IF(id < 5, 'a b%', 'c') FROM range(10)",
        f"DELETE FROM delta.`{path}` WHERE id = 3",
        f"DELETE FROM delta.`{path}` WHERE p = 'c'",
        CHECK,
    )
    stray = Path(path) / "stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (1, 1))
    time.sleep(0.1)
    return path


def data_files(path: str) -> list[str]:
    found = (str(file.relative_to(path)) for file in Path(path).rglob("*") if file.is_file())
    return sorted(file for file in found if not file.startswith("_delta_log") and not file.endswith(".crc"))


def ids(reference: Reference, path: str) -> list[int]:
    return sorted(row["id"] for row in reference.sql(f"SELECT id FROM delta.`{path}`").to_pylist())


def test_a_dry_run_names_the_same_files(reference: Reference, table: str) -> None:
    theirs = {
        row["path"].removeprefix("file:")
        for row in reference.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS DRY RUN").to_pylist()
    }
    report = tahoe.Table(table).vacuum(0, retention_check=False, dry_run=True)
    assert {f"{table}/{key}" for key in report.files} == theirs


def test_the_reference_reads_and_vacuums_what_tahoe_has_vacuumed(reference: Reference, table: str) -> None:
    tahoe.Table(table).vacuum(0, retention_check=False)
    left = data_files(table)
    assert len(left) == 2  # a data file and its vector
    assert ids(reference, table) == [0, 1, 2, 4]
    history = reference.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 2").to_pylist()
    assert [row["operation"] for row in history] == ["VACUUM END", "VACUUM START"]
    for mode in ("LITE", "FULL"):
        reference.run(f"VACUUM delta.`{table}` {mode} RETAIN 0 HOURS")
        assert data_files(table) == left
    assert ids(reference, table) == [0, 1, 2, 4]


def test_tahoe_goes_on_where_the_references_lite_run_ended(reference: Reference, table: str) -> None:
    reference.run(f"VACUUM delta.`{table}` LITE RETAIN 0 HOURS")
    info = json.loads((Path(table) / "_delta_log" / "_last_vacuum_info").read_bytes())
    assert set(info) == {"latestCommitVersionOutsideOfRetentionWindow"}
    assert tahoe.Table(table).vacuum(0, retention_check=False, lite=True).files == ()
    assert tahoe.Table(table).vacuum(0, retention_check=False).files == ("stray.parquet",)
    assert ids(reference, table) == [0, 1, 2, 4]


def test_the_history_has_the_same_parameters_and_metrics(reference: Reference, table: str) -> None:
    """One more tells RESTORE which VACUUM has ended: there may be several at work."""
    tahoe.Table(table).vacuum(0, retention_check=False)
    reference.run(f"VACUUM delta.`{table}` RETAIN 0 HOURS")
    theirs, ours = [], []
    for row in reference.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 4").to_pylist():
        parameters, metrics = (
            sorted(name for name, _ in row[kind]) for kind in ("operationParameters", "operationMetrics")
        )
        (ours if "tahoe" in row["engineInfo"] else theirs).append((row["operation"], parameters, metrics))
    ours[0][1].remove(VACUUM_STARTED)
    assert ours == theirs
