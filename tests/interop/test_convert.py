"""CONVERT TO DELTA and manifests beside the reference: equal tables, equal manifests, equal refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import tahoe
from tahoe.errors import DeltaError
from tahoe.protocol.types.schema import INTEGER, STRING, Field, Struct
from tests.interop.metastore import HIVE, run
from tests.interop.reference import Reference, ReferenceFailure

FOLDER = """
    SELECT id, IF(id % 4 = 0, NULL, concat('n', id)) AS name, IF(id = 3, DOUBLE('NaN'), id / 3) AS f, CAST(id AS DECIMAL(9, 2)) AS d,
        named_struct('x', id) AS s, timestamp_micros(id * 1000001) AS t, IF(id % 3 = 2, NULL, concat('a/b %', id % 3)) AS p,
        CAST(id % 2 AS INT) AS q
    FROM range(0, 12, 1, 2)"""
PARTITION = Struct((Field(name="p", type=STRING), Field(name="q", type=INTEGER)))


@pytest.fixture
def folders(reference: Reference, tmp_path: Path) -> tuple[Path, Path]:
    """The same folder of Spark's Parquet files twice."""
    one, two = tmp_path / "ours", tmp_path / "theirs"
    reference.run(
        f"CREATE TABLE folder USING parquet PARTITIONED BY (p, q) LOCATION '{one}' AS {FOLDER}", "DROP TABLE folder"
    )
    shutil.copytree(one, two)
    return one, two


def commit(path: Path) -> dict[str, list[Any]]:
    lines = [json.loads(line) for line in (path / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    found: dict[str, list[Any]] = {}
    for line in lines:
        ((kind, value),) = line.items()
        found.setdefault(kind, []).append(value)
    return found


def by_path(adds: list[Any]) -> dict[str, tuple[Any, ...]]:
    return {
        add["path"]: (add["partitionValues"], add["size"], add["modificationTime"], add["dataChange"]) for add in adds
    }


def test_both_make_the_same_table_of_a_folder(reference: Reference, folders: tuple[Path, Path]) -> None:
    ours, theirs = folders
    tahoe.Table(str(ours)).convert(PARTITION)
    reference.run(f"CONVERT TO DELTA parquet.`{theirs}` PARTITIONED BY (p STRING, q INT)")
    one, two = commit(ours), commit(theirs)
    assert by_path(one["add"]) == by_path(two["add"])
    for name in ("schemaString", "partitionColumns", "configuration"):
        assert one["metaData"][0][name] == two["metaData"][0][name]
    assert one["protocol"] == two["protocol"]
    mine, yours = one["commitInfo"][0], two["commitInfo"][0]
    assert (mine["operation"], mine["operationMetrics"], mine["isBlindAppend"]) == (
        "CONVERT",
        {"numConvertedFiles": "12"},
        False,
    )
    for name in ("operation", "operationMetrics", "isBlindAppend"):
        assert mine[name] == yours[name]
    assert {k: str(v).lower() for k, v in mine["operationParameters"].items()} == {
        k: str(v).lower() for k, v in yours["operationParameters"].items()
    }
    for add, other in zip(
        sorted(one["add"], key=lambda a: a["path"]), sorted(two["add"], key=lambda a: a["path"]), strict=True
    ):
        found, expected = json.loads(add["stats"]), json.loads(other["stats"])
        assert found["numRecords"] == expected["numRecords"]
        assert {k: v for k, v in expected["nullCount"].items() if k in found["nullCount"]} == found["nullCount"]
    order = "SELECT * FROM delta.`{}` ORDER BY id"
    assert str(reference.sql(order.format(ours)).to_pylist()) == str(
        reference.sql(order.format(theirs)).to_pylist()
    )  # with a NaN
    for condition in ("f > 2", "name IS NULL", "s.x = 7", "t < TIMESTAMP_MICROS(5000000)", "p = 'a/b %1'", "isnan(f)"):
        count = "SELECT count(*) AS n FROM delta.`{}` WHERE " + condition
        assert reference.sql(count.format(ours)).equals(reference.sql(count.format(theirs)))
    assert DeltaTable(str(ours)).to_pyarrow_table(columns=["id"]).num_rows == 12


def test_both_refuse_the_same_folders(reference: Reference, folders: tuple[Path, Path], tmp_path: Path) -> None:
    ours, _ = folders
    tahoe_table = tahoe.Table(str(ours))
    refused = {
        "PARTITIONED BY (p STRING)": Struct(PARTITION.fields[:1]),
        "PARTITIONED BY (p STRING, r INT)": Struct((PARTITION.fields[0], Field(name="r", type=INTEGER))),
        "PARTITIONED BY (p INT, q INT)": Struct((Field(name="p", type=INTEGER), PARTITION.fields[1])),
    }
    for clause, schema in refused.items():
        with pytest.raises(ReferenceFailure) as theirs:
            reference.run(f"CONVERT TO DELTA parquet.`{ours}` {clause}")
        with pytest.raises(DeltaError) as mine:
            tahoe_table.convert(schema)
        assert mine.value.condition in str(theirs.value)
        shutil.rmtree(ours / "_delta_log", ignore_errors=True)  # the reference leaves an empty one
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReferenceFailure) as theirs:
        reference.run(f"CONVERT TO DELTA parquet.`{tmp_path}/empty`")
    with pytest.raises(DeltaError) as mine:
        tahoe.Table(str(tmp_path / "empty")).convert()
    assert mine.value.condition in str(theirs.value)


def manifests(path: Path) -> dict[str, str]:
    root = path / "_symlink_format_manifest"
    return {
        str(file.relative_to(root)): "\n".join(sorted(file.read_text().split("\n"))) for file in root.rglob("manifest")
    }


@pytest.mark.parametrize("partition", ["", "PARTITIONED BY (p, q)"])
def test_manifests_are_those_of_the_reference(reference: Reference, tmp_path: Path, partition: str) -> None:
    path = tmp_path / "a table"
    reference.run(
        f"CREATE TABLE delta.`{path}` USING delta {partition} AS {FOLDER}", f"INSERT INTO delta.`{path}` {FOLDER}"
    )
    for condition in ("id = -1", "p = 'a/b %1'", "true"):
        reference.run(f"DELETE FROM delta.`{path}` WHERE {condition}")
        tahoe.Table(str(path)).generate()
        found = manifests(path)
        shutil.rmtree(path / "_symlink_format_manifest", ignore_errors=True)
        reference.run(f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`")
        assert found == manifests(path)


def test_both_keep_the_manifests_of_one_table_current(reference: Reference, tmp_path: Path) -> None:
    path = tmp_path / "t"
    on = "TBLPROPERTIES ('delta.compatibility.symlinkFormatManifest.enabled' = 'true')"
    reference.run(f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (p, q) {on} AS {FOLDER}")
    table = tahoe.Table(str(path))
    with table.transaction() as changes:
        changes.delete("q = 1")
    reference.run(f"INSERT INTO delta.`{path}` {FOLDER}")
    table.append(table.to_arrow(filter="p IS NULL"))
    found = manifests(path)
    shutil.rmtree(path / "_symlink_format_manifest")
    reference.run(f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`")
    assert found == manifests(path)


def test_a_partitioned_table_of_hive_becomes_a_delta_table_for_both(tmp_path: Path) -> None:
    if not HIVE:
        pytest.skip("NOT RUN: this PySpark has no spark-hive among its jars, and so no metastore that lasts")
    made = [
        "CREATE DATABASE d",
        "CREATE TABLE d.serde (id INT, name STRING) PARTITIONED BY (p STRING) STORED AS PARQUET",
        "CREATE TABLE d.source (id INT, p STRING) USING parquet PARTITIONED BY (p)",
        "SET hive.exec.dynamic.partition.mode = nonstrict",
        "INSERT INTO d.serde VALUES (1, 'a', 'x/y'), (2, NULL, NULL)",
        "INSERT INTO d.source VALUES (1, 'x/y'), (2, NULL)",
    ]
    queries = [
        "SELECT * FROM d.serde ORDER BY id",
        "SELECT id FROM d.serde WHERE p = 'x/y'",
        "SELECT * FROM d.source WHERE p IS NULL",
        "SELECT count(*) FROM d.source",
    ]
    before = run(tmp_path, [*made, *queries])
    converted = run(tmp_path, ["CONVERT TO DELTA d.serde", "CONVERT TO DELTA d.source", *queries])
    assert converted == before == [[[1, "a", "x/y"], [2, None, None]], [[1]], [[2, None]], [[2]]]
    theirs = run(
        tmp_path,
        [*queries, "INSERT INTO d.serde VALUES (3, 'c', 'z')", "SELECT count(*) FROM d.serde"],
        by_reference=True,
    )
    assert theirs == [*before, [[3]]]
