"""Geometries and geographies: what one implementation wrote, the other reads and changes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import tahoe
from tests.interop.reference import Reference

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("4.1."), reason="this Spark does not write geospatial types"
)

KINDS = ("geometry(4326)", "geometry(3857)", "geography(4326)")
PREVIEW = "spark.databricks.delta.geo.preview.enabled"
VECTORS = "tblproperties ('delta.enableDeletionVectors' = 'true')"
QUERY = "select id, st_asbinary(g) wkb from delta.`{}` order by id"


def wkb(x: float, y: float) -> bytes:
    return struct.pack("<BIdd", 1, 1, x, y)


def value(kind: str, point: bytes) -> str:
    if kind.startswith("geography"):
        return f"st_geogfromwkb(X'{point.hex()}')"
    return f"st_geomfromwkb(X'{point.hex()}', {kind[9:13]})"


def creation(path: Path, kind: str) -> list[str]:
    rows = f"(1, {value(kind, wkb(1, 2))}), (2, {value(kind, wkb(3, 4))}), (3, null), (4, {value(kind, wkb(5, 6))})"
    return [
        f"create table delta.`{path}` (id int, g {kind}) using delta {VECTORS}",
        f"insert into delta.`{path}` values {rows}",
    ]


def changes(path: Path, kind: str) -> list[str]:
    return [
        f"update delta.`{path}` set g = {value(kind, wkb(7, 8))} where id = 1",
        f"delete from delta.`{path}` where id = 2",
        f"optimize delta.`{path}`",
    ]


BEFORE = [(1, wkb(1, 2)), (2, wkb(3, 4)), (3, None), (4, wkb(5, 6))]
AFTER = [(1, wkb(7, 8)), (3, None), (4, wkb(5, 6))]


@pytest.fixture
def previewing(reference: Reference) -> Iterator[Reference]:
    """The reference with the setting without which it refuses such tables."""
    with reference.settings({PREVIEW: "true"}):
        yield reference


def rows_of_reference(reference: Reference, path: Path) -> list[tuple[int, bytes | None]]:
    rows = reference.sql(QUERY.format(path)).to_pydict()
    return list(zip(rows["id"], rows["wkb"], strict=True))


def rows_of_tahoe(spark: SparkSession, path: Path) -> list[tuple[int, bytes | None]]:
    rows = spark.sql(QUERY.format(path)).collect()
    return [(row.id, None if row.wkb is None else bytes(row.wkb)) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_reads_and_changes_ours(
    previewing: Reference, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "t"
    for statement in creation(path, kind):
        spark.sql(statement)
    assert rows_of_reference(previewing, path) == BEFORE
    previewing.run(*changes(path, kind))
    assert rows_of_tahoe(spark, path) == AFTER


@pytest.mark.parametrize("kind", KINDS)
def test_we_read_and_change_the_references(
    previewing: Reference, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "t"
    previewing.run(*creation(path, kind))
    assert "geospatial" in (tahoe.Table(path).snapshot().protocol.reader_features or ())
    assert rows_of_tahoe(spark, path) == BEFORE
    assert sorted(tahoe.Table(path).to_arrow().column("g").drop_null().to_pylist()) == sorted(w for _, w in BEFORE if w)
    for statement in changes(path, kind):
        spark.sql(statement)
    assert rows_of_reference(previewing, path) == AFTER


def test_both_write_the_same_schema(previewing: Reference, spark: SparkSession, tmp_path: Path) -> None:
    for path, run in ((tmp_path / "ours", spark.sql), (tmp_path / "theirs", previewing.run)):
        run(f"create table delta.`{path}` (a geometry(4326), b geometry(0), c geography(4326)) using delta")
    ours, theirs = (tahoe.Table(tmp_path / name).snapshot() for name in ("ours", "theirs"))
    assert ours.metadata.schema_string == theirs.metadata.schema_string
    assert ours.protocol.reader_features == theirs.protocol.reader_features
