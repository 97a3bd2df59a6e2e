"""Bounds of values inside variants beside the reference: the same of the same file, and each reads those of the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import tahoe
from tahoe.protocol.log import log_files
from tahoe.protocol.statistics.variants import variant_bounds_of
from tahoe.storage import open_store
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.verify.check import check_table
from tahoe.table.writing.footers import read_statistics
from tests.interop.reference import Reference

SHREDDING = {
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.inferShreddingSchema": "true",
    "spark.databricks.delta.variantShredding.parseFooterForStats": "true",
    "spark.databricks.delta.stats.limitPerVariant": "32",
    "spark.sql.variant.pushVariantIntoScan": "false",  # with it, Spark 4.2.0 cannot cast a number to another type
}

ROWS = """SELECT id, to_variant_object(named_struct(
    'long', id, 'text', repeat('x', id::int + 20), 'name', 'u' || id, 'double', id / 8, 'float', (id / 8)::float,
    'money', id::decimal(9, 2), 'large', id::decimal(30, 4), 'day', date'2020-01-01' + id::int, 'flag', id > 3,
    'at', timestamp_micros(1234567 + id), 'local', timestamp_ntz'1970-01-01 00:00:00.123456', 'list', array(id),
    "it's \\\\ \\t ñ🌍", named_struct('', id, 'a.b', -id)
  )) AS v, parse_json('{"mixed": ' || if(id % 5 = 0, '"t"', string(id)) || ', "null": ' || if(id % 5 = 0, 'null', string(id)) || '}') AS w,
  named_struct('v', parse_json('{"n": ' || id || '}')) AS s, id::variant AS scalar
  FROM range(0, 40, 1, 4)"""


@pytest.fixture
def shredding(reference: Reference) -> Iterator[None]:
    with reference.settings(SHREDDING):
        yield


def make(run: Any, path: str, properties: str = "") -> None:
    run(
        f"CREATE TABLE delta.`{path}` (id LONG, v VARIANT, w VARIANT, s STRUCT<v: VARIANT>, scalar VARIANT) USING delta "
        f"TBLPROPERTIES ('delta.enableVariantShredding' = 'true'{properties})"
    )
    run(f"INSERT INTO delta.`{path}` {ROWS}")


def bounds(text: str) -> dict[str, Any]:
    """The statistics of a file with the bounds of variants as values."""
    found = json.loads(text)
    for name in ("minValues", "maxValues"):
        found[name] = {column: _decoded(value) for column, value in found[name].items()}
    return found


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    return dict(variant_bounds_of(value) or {}) if isinstance(value, str) else value


def live_bounds(path: str) -> list[dict[str, Any]]:
    snapshot = tahoe.Table(path).snapshot()
    found = map(bounds, snapshot.live.texts(snapshot.schema).to_pylist())
    return sorted(found, key=lambda each: each["minValues"]["id"])


@pytest.mark.usefixtures("shredding")
def test_the_same_file_has_the_same_bounds(reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(reference.run, path)
    snapshot = tahoe.Table(path).snapshot()
    files = snapshot.live
    texts = files.texts(snapshot.schema).to_pylist()
    theirs = dict(zip(files.column("path").to_pylist(), texts, strict=True))
    ours = read_statistics(open_store(path), list(theirs), snapshot.metadata, "none")
    for key, text in theirs.items():
        expected = bounds(text)
        assert len(expected["minValues"]["v"]) > 10
        assert bounds(ours[key].json) == expected
    assert list(check_table(tahoe.Table(path).log)) == []


ONLY_STRUCTS = ", 'delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpoint.writeStatsAsJson' = 'false'"


@pytest.mark.usefixtures("shredding")
@pytest.mark.parametrize("properties", [None, "", ONLY_STRUCTS])
def test_its_bounds_leave_out_files(
    spark: SparkSession, reference: Reference, tmp_path: Path, properties: str | None
) -> None:
    """In commits, and in checkpoints of its own."""
    path = str(tmp_path / "t")
    make(reference.run, path, properties or "")
    if properties is not None:
        reference.run(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
        reference.run(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mine' = '1')")
        _only_the_checkpoint(path)
    for condition, expected in (("v:long::int = 15", 1), ("s.v:n::int < 10", 1), ("scalar::int >= 30", 1)):
        found = spark.table(f"delta.`{path}`").where(condition).select("id")
        rows, files = read(found)
        assert files == expected
        theirs = reference.sql(f"SELECT id FROM delta.`{path}` WHERE {condition}").column("id").to_pylist()
        assert sorted(row.id for row in rows) == sorted(theirs)


def read(frame: DataFrame) -> tuple[list[Row], int]:
    """The rows of a query, and the number of files that it has read."""
    rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = (plan.executedPlan() if "Adaptive" in plan.nodeName() else plan).collectLeaves()
    return rows, int(leaves.apply(0).metrics().apply("numFiles").value())


@pytest.mark.usefixtures("shredding")
@pytest.mark.parametrize("properties", ["", ONLY_STRUCTS])
def test_checkpoints_of_both_keep_the_bounds(
    spark: SparkSession, reference: Reference, tmp_path: Path, properties: str
) -> None:
    path = str(tmp_path / "t")
    make(spark.sql, path, properties)
    before = live_bounds(path)
    assert len(before[0]["minValues"]["v"]) > 10
    write_checkpoint(tahoe.Table(path).snapshot())
    _only_the_checkpoint(path)
    assert live_bounds(path) == before
    count = f"SELECT count(*) AS n FROM delta.`{path}` WHERE v:long::int = 15 AND id < 20"
    assert reference.sql(count).to_pylist() == [{"n": 1}]
    if properties:  # it reads the rows, and takes over no bounds of variants that are columns of ours
        return
    reference.run(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    reference.run(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mine' = '1')")
    _only_the_checkpoint(path)
    assert live_bounds(path) == before
    found = spark.table(f"delta.`{path}`").where("v:long::int = 15")
    rows, files = read(found)
    assert (len(rows), files) == (1, 1)


def _only_the_checkpoint(path: str) -> None:
    """The log without the commits before its newest version, and without checksums."""
    folder = Path(path, log_files.LOG_FOLDER)
    for file in (*sorted(folder.glob("*.json"))[:-1], *folder.glob("*.crc")):
        file.unlink()
