"""Geometries and geographies without Spark: types in schemas, boxes from footers, values in Arrow."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import GeospatialUnsupportedError, MixedReferenceSystemsError, UnsupportedDataTypeError
from tahoe.protocol.statistics.stats import encode_statistics
from tahoe.protocol.types.schema import Field, Geospatial, Struct, parse_schema, parse_type
from tahoe.table.writing.footers import footer_statistics
from tests.table.geometries import WellKnownBinary, point

GEOMETRY = Geospatial("geometry", "OGC:CRS84")


EMPTY = point(float("nan"), float("nan"))


def write(file: Path, values: list[bytes | None], definition: str = "{}", rows: int | None = None) -> pq.FileMetaData:
    column = pa.ExtensionArray.from_storage(WellKnownBinary(definition), pa.array(values, pa.binary()))
    pq.write_table(pa.table({"g": column}), file, row_group_size=rows or len(values))
    return pq.read_metadata(file)


@pytest.mark.parametrize(
    ("text", "expected", "written"),
    [
        ("geometry", Geospatial("geometry", "OGC:CRS84"), "geometry(OGC:CRS84)"),
        ("geometry(EPSG:3857)", Geospatial("geometry", "EPSG:3857"), "geometry(EPSG:3857)"),
        ("geometry( SRID:0 )", Geospatial("geometry", "SRID:0"), "geometry(SRID:0)"),
        ("geography", Geospatial("geography", "OGC:CRS84", "SPHERICAL"), "geography(OGC:CRS84, SPHERICAL)"),
        ("geography(EPSG:4326)", Geospatial("geography", "EPSG:4326", "SPHERICAL"), "geography(EPSG:4326, SPHERICAL)"),
        ("geography(karney)", Geospatial("geography", "OGC:CRS84", "KARNEY"), "geography(OGC:CRS84, KARNEY)"),
        (
            "geography(OGC:CRS84,spherical)",
            Geospatial("geography", "OGC:CRS84", "SPHERICAL"),
            "geography(OGC:CRS84, SPHERICAL)",
        ),
    ],
)
def test_types_are_parsed_as_delta_kernel_does_and_written_as_spark_does(
    text: str, expected: Geospatial, written: str
) -> None:
    assert parse_type(text) == expected
    assert str(expected) == written
    assert parse_type(written) == expected
    nested = f'{{"type":"struct","fields":[{{"name":"a","type":{{"type":"array","elementType":"{text}"}}}}]}}'
    assert written in parse_schema(nested).to_json()


@pytest.mark.parametrize(
    "text",
    [
        *("geometry()", "geometry(", "geometry)", "geometry(4326)", "geometry(planar)", "geometry(A:B, spherical)"),
        *(
            "geography()",
            "geography(A:B, C:D)",
            "geography(flat)",
            "geography(A:B, spherical, x)",
            "geometryz",
            "Geometry",
        ),
        *("geography(spherical, spherical)", "geometry(A:B,)"),
    ],
)
def test_other_texts_are_no_types(text: str) -> None:
    with pytest.raises(UnsupportedDataTypeError):
        parse_type(text)


@pytest.mark.parametrize("text", ["geometry(SRID:ANY)", "geography(SRID:ANY, SPHERICAL)"])
def test_a_column_has_one_reference_system(text: str) -> None:
    with pytest.raises(MixedReferenceSystemsError, match="SRID:ANY"):
        parse_type(text)


@pytest.mark.parametrize(
    ("values", "rows", "low", "high"),
    [
        ([point(1, 2), None, point(-3, 5)], None, "POINT(-3.0 2.0)", "POINT(1.0 5.0)"),
        ([point(1, 2), point(-3, 5)], 1, "POINT(-3.0 2.0)", "POINT(1.0 5.0)"),
        ([point(1, 2), EMPTY], None, "POINT(1.0 2.0)", "POINT(1.0 2.0)"),
        (
            [point(1, 2, 3, kind=1001), point(0, 9, -3, kind=1001)],
            None,
            "POINT Z (0.0 2.0 -3.0)",
            "POINT Z (1.0 9.0 3.0)",
        ),
        ([point(1, 2, 3, kind=2001)], None, "POINT M (1.0 2.0 3.0)", "POINT M (1.0 2.0 3.0)"),
        ([point(1, 2, 3, 4, kind=3001)], None, "POINT ZM (1.0 2.0 3.0 4.0)", "POINT ZM (1.0 2.0 3.0 4.0)"),
    ],
)
def test_bounds_are_the_corners_of_the_box(
    tmp_path: Path, values: list[bytes | None], rows: int | None, low: str, high: str
) -> None:
    found = footer_statistics(write(tmp_path / "f", values, rows=rows), {("g",): GEOMETRY})
    assert (found.min_values, found.max_values) == ({("g",): low}, {("g",): high})
    text = encode_statistics(found, Struct((Field(name="g", type=GEOMETRY),)), prefix_length=4)
    assert json.loads(text)["minValues"] == {"g": low}


@pytest.mark.parametrize(
    ("values", "definition", "rows"),
    [
        ([EMPTY], "{}", None),
        ([None, None], "{}", None),
        ([b"no well-known binary"], "{}", None),
        ([point(1, 2), b"no well-known binary"], "{}", 1),
        ([point(float("inf"), 2)], "{}", None),
        ([point(1, 2)], '{"edges": "spherical"}', None),
    ],
)
def test_without_a_box_there_are_no_bounds(
    tmp_path: Path, values: list[bytes | None], definition: str, rows: int | None
) -> None:
    footer = write(tmp_path / "f", values, definition, rows)
    found = footer_statistics(footer, {("g",): GEOMETRY})
    assert (found.min_values, found.max_values) == ({}, {})
    assert found.num_records == len(values)


@pytest.mark.parametrize("definition", ["{}", '{"edges": "spherical"}'])
def test_parquet_files_with_geometries_do_not_become_tables(tmp_path: Path, definition: str) -> None:
    write(tmp_path / "f.parquet", [point(1, 2)], definition)
    with pytest.raises(GeospatialUnsupportedError, match="g Geo"):
        tahoe.Table(str(tmp_path)).convert()
