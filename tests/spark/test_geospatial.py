"""Tables with geometries and geographies, after the cases of the reference's own suite for them."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

import tahoe
from tahoe.errors import (
    DeltaError,
    FeatureInUseError,
    GeneratedColumnTypeError,
    GeospatialUnsupportedError,
    MixedReferenceSystemsError,
    UnsupportedOperationError,
)
from tahoe.iceberg.verification import verify
from tahoe.storage.background import finish_background
from tahoe.table.verify.check import check_version

# Spark 4.1 has the types, but cannot write them to Parquet files.
WRITES = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
needs_files = pytest.mark.skipif(not WRITES, reason="this Spark does not write geospatial types")


@pytest.fixture(autouse=True)
def _with_the_types(spark: SparkSession) -> Iterator[None]:
    """Spark 4.1 has them behind a setting."""
    if WRITES:
        yield
        return
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    yield
    spark.conf.unset("spark.sql.geospatial.enabled")


def wkb(x: float, y: float) -> bytes:
    return struct.pack("<BIdd", 1, 1, x, y)


ZERO, ONE, TWO = wkb(0, 0), wkb(1, 1), wkb(2, 2)
GEOMETRY, GEOGRAPHY = "geometry(4326)", "geography(4326)"
TYPES = pytest.mark.parametrize("kind", [GEOMETRY, GEOGRAPHY])


def value(kind: str, point: bytes) -> str:
    """A value in SQL."""
    text = f"X'{point.hex()}'"
    if kind.startswith("geography"):
        return f"st_geogfromwkb({text})"
    return f"st_geomfromwkb({text}, {re.sub('[^0-9]', '', kind)})"


def rows_of(frame: DataFrame) -> list[tuple[int, bytes | None]]:
    return [
        (row.id, None if row.wkb is None else bytes(row.wkb))
        for row in frame.selectExpr("id", "st_asbinary(g) wkb").orderBy("id", F.col("wkb").isNull()).collect()
    ]


def read(spark: SparkSession, path: str) -> list[tuple[int, bytes | None]]:
    return rows_of(spark.table(f"delta.`{path}`"))


def create(spark: SparkSession, path: str, kind: str, properties: str = "") -> None:
    """A table of three rows: two points and null."""
    spark.sql(f"create table delta.`{path}` (id int, g {kind}) using delta {properties}")
    spark.sql(f"insert into delta.`{path}` values (1, {value(kind, ZERO)}), (2, {value(kind, ONE)}), (3, null)")


def features(path: str) -> set[str]:
    protocol = tahoe.Table(path).snapshot().protocol
    return set(protocol.reader_features or ()) & set(protocol.writer_features or ())


# --- the feature


@pytest.mark.parametrize(
    "columns",
    [f"id int, g {GEOMETRY}", f"id int, g {GEOGRAPHY}", f"id int, s struct<g: array<map<string, {GEOMETRY}>>>"],
)
def test_a_column_of_the_type_brings_the_feature(spark: SparkSession, path: str, columns: str) -> None:
    spark.sql(f"create table delta.`{path}` ({columns}) using delta")
    assert "geospatial" in features(path)
    assert spark.table(f"delta.`{path}`").collect() == []


@TYPES
def test_so_does_a_column_that_is_added(spark: SparkSession, path: str, kind: str) -> None:
    spark.sql(f"create table delta.`{path}` (id int) using delta")
    assert "geospatial" not in features(path)
    spark.sql(f"insert into delta.`{path}` values (1)")
    spark.sql(f"alter table delta.`{path}` add column g {kind}")
    assert "geospatial" in features(path)
    if WRITES:
        assert read(spark, path) == [(1, None)]


def test_the_feature_cannot_be_dropped_before_its_columns(spark: SparkSession, path: str) -> None:
    named = "tblproperties ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"create table delta.`{path}` (id int, s struct<g: {GEOMETRY}>) using delta {named}")
    with pytest.raises(FeatureInUseError, match="geospatial"):
        spark.sql(f"alter table delta.`{path}` drop feature geospatial")
    spark.sql(f"alter table delta.`{path}` drop column s")
    spark.sql(f"alter table delta.`{path}` drop feature geospatial")
    assert "geospatial" not in features(path)


def test_the_schema_is_as_the_reference_writes_it(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (a geometry(3857), b geography(4326), c geometry(0)) using delta")
    commit = Path(path, "_delta_log", f"{0:020}.json").read_text()
    (schema,) = (
        json.loads(json.loads(line)["metaData"]["schemaString"]) for line in commit.splitlines() if "meta" in line
    )
    types = ["geometry(EPSG:3857)", "geography(OGC:CRS84, SPHERICAL)", "geometry(SRID:0)"]
    assert [field["type"] for field in schema["fields"]] == types
    assert [field.dataType.simpleString() for field in spark.table(f"delta.`{path}`").schema] == [
        "geometry(3857)",
        "geography(4326)",
        "geometry(0)",
    ]


@pytest.mark.parametrize("column", ["g geometry(any)", "s struct<g: geometry(any)>", "g geography(any)"])
def test_a_column_has_one_reference_system(spark: SparkSession, path: str, column: str) -> None:
    with pytest.raises(MixedReferenceSystemsError):
        spark.sql(f"create table delta.`{path}` (id int, {column}) using delta")


# --- rows


@needs_files
@TYPES
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_are_written_changed_and_read(spark: SparkSession, path: str, kind: str, vectors: str) -> None:
    create(spark, path, kind, f"tblproperties ('delta.enableDeletionVectors' = '{vectors}')")
    expected: dict[int, bytes | None] = {1: ZERO, 2: ONE, 3: None}
    assert read(spark, path) == sorted(expected.items())
    spark.sql(f"update delta.`{path}` set g = {value(kind, TWO)} where id = 1")
    spark.sql(f"delete from delta.`{path}` where id = 2")
    expected = {1: TWO, 3: None}
    assert read(spark, path) == sorted(expected.items())
    source = f"select 3 id, {value(kind, ONE)} g union all select 4, {value(kind, ZERO)}"
    spark.sql(
        f"merge into delta.`{path}` t using ({source}) s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    expected |= {3: ONE, 4: ZERO}
    assert read(spark, path) == sorted(expected.items())
    assert spark.sql(f"select count(*), count(g) from delta.`{path}` where g is not null").first() == (3, 3)
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert read(spark, path) == sorted(expected.items())
    assert len(tahoe.Table(path).snapshot().files()) == 1
    assert list(check_version(tahoe.Table(path).snapshot(), statistics=True)) == []


@needs_files
@TYPES
def test_a_merge_assigns_values_by_name(spark: SparkSession, path: str, kind: str) -> None:
    """Spark casts what a MERGE assigns, and there is no cast of a geometry to a text."""
    spark.sql(f"create table delta.`{path}` (id int, g {kind}, s struct<h: {kind}, n: int>) using delta")
    one, two = value(kind, ONE), value(kind, TWO)
    spark.sql(f"insert into delta.`{path}` values (1, {one}, named_struct('h', {one}, 'n', 1)), (2, null, null)")
    spark.sql(
        f"merge into delta.`{path}` t using (select 1 k, {two} p union all select 3, {one}) s on t.id = s.k "
        "when matched then update set t.g = s.p, s.h = s.p when not matched then insert (id, g) values (s.k, s.p) "
        f"when not matched by source then update set g = {two}"
    )
    assert read(spark, path) == [(1, TWO), (2, TWO), (3, ONE)]
    (nested,) = spark.sql(f"select st_asbinary(s.h) h, s.n from delta.`{path}` where id = 1").collect()
    assert (bytes(nested.h), nested.n) == (TWO, 1)
    spark.sql(
        f"merge with schema evolution into delta.`{path}` t using (select 3 id, {two} z) s on t.id = s.id "
        "when matched then update set z = s.z, g = null"
    )
    assert read(spark, path) == [(1, TWO), (2, TWO), (3, None)]
    assert spark.sql(f"select count(z) from delta.`{path}`").first() == (1,)
    for other in (f"X'{ONE.hex()}'", "'POINT(1 1)'", "1"):
        with pytest.raises(Exception, match=r"(?i)geometry|geography"):
            spark.sql(
                f"merge into delta.`{path}` t using (select 1 k) s on t.id = s.k when matched then update set g = {other}"
            )


@needs_files
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_parts_of_columns_are_written_and_read(spark: SparkSession, path: str, mode: str) -> None:
    columns = f"id int, s struct<g: {GEOMETRY}>, a array<{GEOMETRY}>, m map<string, {GEOGRAPHY}>"
    mapped = f"tblproperties ('delta.columnMapping.mode' = '{mode}')"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta {mapped}")
    point = value(GEOMETRY, ONE)
    values = f"1, named_struct('g', {point}), array({point}, null), map('k', {value(GEOGRAPHY, TWO)})"
    spark.sql(f"insert into delta.`{path}` values ({values})")
    spark.sql(f"insert into delta.`{path}` select * from delta.`{path}`")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    query = "st_asbinary(s.g) a", "transform(a, g -> st_asbinary(g)) b", "st_asbinary(m['k']) c"
    rows = spark.table(f"delta.`{path}`").selectExpr(*query).collect()
    assert [(bytes(row.a), [None if v is None else bytes(v) for v in row.b], bytes(row.c)) for row in rows] == [
        (ONE, [ONE, None], TWO)
    ] * 2


@needs_files
@TYPES
def test_data_frames_and_queries_make_tables(spark: SparkSession, path: str, tmp_path: Path, kind: str) -> None:
    create(spark, path, kind)
    frame = spark.read.format("delta").load(path)
    other, third = str(tmp_path / "other"), str(tmp_path / "third")
    frame.write.format("delta").save(other)
    spark.sql(f"create table delta.`{third}` using delta as select * from delta.`{path}`")
    for copy in (other, third):
        assert "geospatial" in features(copy)
        assert read(spark, copy) == [(1, ZERO), (2, ONE), (3, None)]


@needs_files
@TYPES
def test_schema_evolution_adds_columns(spark: SparkSession, path: str, tmp_path: Path, kind: str) -> None:
    create(spark, path, kind)
    merged, appended = str(tmp_path / "merged"), str(tmp_path / "appended")
    for target in (merged, appended):
        spark.sql(f"create table delta.`{target}` (id int) using delta")
        spark.sql(f"insert into delta.`{target}` values (1), (9)")
    spark.sql(
        f"merge with schema evolution into delta.`{merged}` t using delta.`{path}` s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    assert read(spark, merged) == [(1, ZERO), (2, ONE), (3, None), (9, None)]
    frame = spark.read.format("delta").load(path)
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(appended)
    assert read(spark, appended) == [(1, ZERO), (1, None), (2, ONE), (3, None), (9, None)]
    assert "geospatial" in features(merged) & features(appended)


@needs_files
def test_another_reference_system_is_refused(spark: SparkSession, path: str, tmp_path: Path) -> None:
    create(spark, path, GEOMETRY)
    other = str(tmp_path / "other")
    create(spark, other, "geometry(3857)")
    before = tahoe.Table(path).version
    frame = spark.read.format("delta").load(other)
    writes: list[Callable[[], Any]] = [
        lambda: frame.write.format("delta").mode("append").save(path),
        lambda: frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path),
        lambda: spark.sql(f"insert into delta.`{path}` select * from delta.`{other}`"),
        lambda: spark.sql(f"alter table delta.`{path}` alter column g type geometry(3857)"),
        lambda: spark.sql(
            f"merge with schema evolution into delta.`{path}` t using delta.`{other}` s on t.id = s.id "
            "when matched then update set *"
        ),
        lambda: spark.sql(f"update delta.`{path}` set g = {value('geometry(3857)', ONE)}"),
        lambda: spark.sql(f"insert into delta.`{path}` values (7, X'{ONE.hex()}')"),
    ]
    for write in writes:
        with pytest.raises(Exception, match=r"(?i)geometry"):
            write()
    assert tahoe.Table(path).version == before


@needs_files
def test_versions_of_such_tables(spark: SparkSession, path: str, tmp_path: Path) -> None:
    create(spark, path, GEOMETRY)
    before = read(spark, path)
    spark.sql(f"update delta.`{path}` set g = {value(GEOMETRY, TWO)}")
    assert rows_of(spark.sql(f"select * from delta.`{path}` version as of 1")) == before
    for kind in ("shallow", "deep"):
        clone = str(tmp_path / kind)
        spark.sql(f"create table delta.`{clone}` {kind} clone delta.`{path}` version as of 1")
        assert read(spark, clone) == before
        spark.sql(f"delete from delta.`{clone}` where id = 2")
        assert read(spark, clone) == [before[0], before[2]]
    spark.sql(f"restore table delta.`{path}` to version as of 1")
    assert read(spark, path) == before


@needs_files
@TYPES
def test_change_feeds_and_streams(spark: SparkSession, path: str, tmp_path: Path, kind: str) -> None:
    create(spark, path, kind, "tblproperties ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"update delta.`{path}` set g = {value(kind, TWO)} where id = 1")
    spark.sql(f"delete from delta.`{path}` where id = 2")
    feed = spark.sql(f"select *, _change_type c from table_changes_by_path('{path}', 2)")
    assert {(row.id, bytes(row.g), row.c) for row in feed.selectExpr("id", "st_asbinary(g) g", "c").collect()} == {
        (1, ZERO, "update_preimage"),
        (1, TWO, "update_postimage"),
        (2, ONE, "delete"),
    }
    target = str(tmp_path / "target")
    stream = spark.readStream.format("delta").option("readChangeFeed", "true").load(path)
    writer = stream.where("_change_type = 'insert'").select("id", "g").writeStream.format("delta")
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(target).awaitTermination()
    assert read(spark, target) == [(1, TWO), (3, None)]


@needs_files
def test_constraints_may_use_the_functions(spark: SparkSession, path: str) -> None:
    create(spark, path, GEOMETRY)
    spark.sql(f"alter table delta.`{path}` add constraint flat check (st_srid(g) = 4326 or g is null)")
    spark.sql(f"insert into delta.`{path}` values (4, {value(GEOMETRY, TWO)})")
    spark.sql(f"alter table delta.`{path}` add constraint small check (g is null or octet_length(st_asbinary(g)) < 30)")
    line = struct.pack("<BIIdddd", 1, 2, 2, 0, 0, 1, 1)
    with pytest.raises(DeltaError, match="small"):
        spark.sql(f"insert into delta.`{path}` values (5, {value(GEOMETRY, line)})")


@needs_files
def test_clustered_tables_keep_such_columns(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (id int, g {GEOMETRY}) using delta cluster by (id)")
    for _ in range(2):
        spark.sql(f"insert into delta.`{path}` select id, {value(GEOMETRY, ONE)} from range(100)")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert len(read(spark, path)) == 200
    spark.sql(f"OPTIMIZE delta.`{path}` FULL")
    assert {bytes(row.g) for row in spark.sql(f"select st_asbinary(g) g from delta.`{path}`").collect()} == {ONE}


# --- statistics


@needs_files
def test_statistics_have_the_box_around_the_geometries(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (id int, g {GEOMETRY}, s struct<h: {GEOGRAPHY}>) using delta")
    values = [
        f"({n}, {value(GEOMETRY, wkb(x, y))}, named_struct('h', {value(GEOGRAPHY, wkb(x, y))}))"
        for n, (x, y) in enumerate([(1.5, -2), (-3, 40), (2, 2)])
    ]
    spark.sql(
        f"insert into delta.`{path}` select /*+ coalesce(1) */ * from values {', '.join(values)}, (9, null, null)"
    )
    (stats,) = (json.loads(text) for text in tahoe.Table(path).snapshot().live.column("stats").to_pylist())
    assert stats["nullCount"] == {"id": 0, "g": 1, "s": {"h": 1}}
    assert stats["minValues"] == {"id": 0, "g": "POINT(-3.0 -2.0)"}
    assert stats["maxValues"] == {"id": 9, "g": "POINT(2.0 40.0)"}
    assert spark.sql(f"select count(*) from delta.`{path}` where g is null").first() == (1,)


# --- what is refused


@pytest.mark.parametrize("kind", [GEOMETRY, f"struct<g: {GEOGRAPHY}>"])
def test_such_columns_have_no_defaults(spark: SparkSession, path: str, kind: str) -> None:
    with pytest.raises(GeospatialUnsupportedError, match="DEFAULT"):
        spark.sql(
            f"create table delta.`{path}` (id int, g {kind} default null) using delta "
            "tblproperties ('delta.feature.allowColumnDefaults' = 'supported')"
        )
    spark.sql(
        f"create table delta.`{path}` (id int, g {kind}) using delta "
        "tblproperties ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    with pytest.raises(GeospatialUnsupportedError, match="DEFAULT"):
        spark.sql(f"alter table delta.`{path}` alter column g set default null")


def test_values_without_an_order_are_no_places_for_rows(spark: SparkSession, path: str) -> None:
    columns = f"(id int, g {GEOMETRY})"
    for clause in ("partitioned by (g)", "cluster by (g)"):
        with pytest.raises(Exception, match=r"(?i)geometry"):
            spark.sql(f"create table delta.`{path}` {columns} using delta {clause}")
    spark.sql(f"create table delta.`{path}` {columns} using delta")
    with pytest.raises(DeltaError, match=r"(?i)geometry"):
        spark.sql(f"OPTIMIZE delta.`{path}` zorder by (g)")
    with pytest.raises(DeltaError, match=r"(?i)geometry"):
        spark.sql(f"alter table delta.`{path}` cluster by (g)")


def test_a_geometry_is_not_generated(spark: SparkSession, path: str) -> None:
    builder = tahoe.DeltaTable.create(spark).location(path).addColumn("b", "binary")
    with pytest.raises(GeneratedColumnTypeError, match="geometry"):
        builder.addColumn("g", "geometry(0)", generatedAlwaysAs="st_geomfromwkb(b)").execute()


@pytest.mark.parametrize("compat", ["V1", "V2"])
@TYPES
def test_version_2_of_icebergs_format_has_no_such_columns(
    spark: SparkSession, path: str, compat: str, kind: str
) -> None:
    properties = f"'delta.enableIcebergCompat{compat}' = 'true', 'delta.columnMapping.mode' = 'name'"
    with pytest.raises(DeltaError, match="geometry or geography: g"):
        spark.sql(f"create table delta.`{path}` (id int, g {kind}) using delta tblproperties ({properties})")


@needs_files
@TYPES
def test_version_3_of_icebergs_format_has_them(spark: SparkSession, path: str, kind: str) -> None:
    properties = "'delta.enableIcebergCompatV3' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg'"
    spark.sql(f"create table delta.`{path}` (id int, g {kind}) using delta tblproperties ({properties})")
    spark.sql(f"insert into delta.`{path}` values (1, {value(kind, ONE)}), (2, null)")
    spark.sql(f"update delta.`{path}` set id = 3 where id = 2")
    finish_background()
    found = verify(tahoe.Table(path).snapshot())
    assert (found.rows, found.differences) == (2, ())


@needs_files
def test_parquet_files_with_geometries_are_not_converted(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "files")
    spark.sql(f"select 1 id, {value(GEOMETRY, ONE)} g").write.parquet(folder)
    with pytest.raises(GeospatialUnsupportedError, match="g Geometry"):
        spark.sql(f"convert to delta parquet.`{folder}`")


@needs_files
def test_without_spark_values_are_read_as_binary_and_not_written(spark: SparkSession, path: str) -> None:
    create(spark, path, GEOMETRY)
    table = tahoe.Table(path)
    rows = table.to_arrow()
    assert sorted(zip(rows["id"].to_pylist(), rows["g"].to_pylist(), strict=True)) == [(1, ZERO), (2, ONE), (3, None)]
    with pytest.raises(DeltaError, match="geometry"):
        table.append(rows)
    writes: list[Callable[[], Any]] = [
        lambda: table.append(rows.select(["id"])),
        lambda: table.update({"id": "9"}, "id = 1"),
        table.optimize,
    ]
    for write in writes:
        with pytest.raises(UnsupportedOperationError, match="geospatial columns: g"):
            write()
    assert table.delete("id = 1") is not None
    assert read(spark, path) == [(2, ONE), (3, None)]


@pytest.mark.skipif(WRITES, reason="this Spark writes geospatial types")
def test_a_spark_without_such_files_says_so(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (id int, g {GEOMETRY}) using delta")
    with pytest.raises(UnsupportedOperationError, match=r"Writing the columns g .* Spark 4\.2"):
        spark.sql(f"insert into delta.`{path}` values (1, null)")
    file = {"path": "f.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    Path(path, "_delta_log", f"{1:020}.json").write_text(json.dumps({"add": file}))
    with pytest.raises(UnsupportedOperationError, match=r"Reading the columns g .* Spark 4\.2"):
        spark.sql(f"select g from delta.`{path}`").collect()
