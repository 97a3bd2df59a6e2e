"""Types of format version 3 in Iceberg's metadata, and what readers may take for the least and greatest values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import UnsupportedDataTypeError
from tahoe.iceberg import conversion
from tahoe.iceberg.conversion import sync
from tahoe.iceberg.manifest_files import read_entries, read_list
from tahoe.iceberg.manifests import manifests_of
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.verification import verify
from tahoe.protocol.types.schema import VARIANT, Array, Field, Geospatial, Struct
from tahoe.storage.background import finish_background
from tahoe.table.transactions.alter import set_properties
from tests.iceberg.tables import FORMATS, UNIFORM, UNIFORM_V3, geometries, iceberg, nested


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def test_geometries_have_the_names_of_icebergs_specification(path: str) -> None:
    """PyIceberg writes, and wants, quotes."""
    kinds = {
        "geometry": Geospatial("geometry"),
        "geometry(EPSG:3857)": Geospatial("geometry", "EPSG:3857"),
        "geography": Geospatial("geography", algorithm="SPHERICAL"),
        "geography(A:1)": Geospatial("geography", "A:1", "SPHERICAL"),
        "geography(OGC:CRS84, karney)": Geospatial("geography", algorithm="KARNEY"),
    }
    columns = [Field(name=f"g{place}", type=kind) for place, kind in enumerate(kinds.values())]
    elements = [Field(name=f"a{place}", type=Array(element=kind)) for place, kind in enumerate(kinds.values())]
    table = tahoe.Table(path)
    table.create(Struct((*columns, *elements)), properties=UNIFORM_V3)
    for version in range(2):
        finish_background()
        (schema,) = json.loads(Path(path, "metadata", f"v{version}.metadata.json").read_text())["schemas"]
        types = [field["type"] for field in schema["fields"]]
        assert types[:5] == [kind["element"] for kind in types[5:]] == list(kinds)
        assert verify(table.snapshot()).differences == ()
        set_properties(table, {"mine": "1"})


def test_boxes_of_geometries_are_no_bounds(path: str) -> None:
    table = geometries(path)
    finish_background()
    folder = MetadataFolder(table.log)
    newest = folder.newest()
    assert newest is not None
    (manifest,) = manifests_of(folder, newest.metadata.snapshots[-1])
    (entry,) = read_entries(manifest, folder.input(folder.key(manifest.manifest_path)))
    assert set(entry.data_file.lower_bounds) == set(entry.data_file.upper_bounds) == {1}
    assert entry.data_file.null_value_counts == {1: 0, 2: 1}


def test_a_snapshot_does_not_tell_what_earlier_ones_removed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several versions are converted at once."""
    table = tahoe.Table(path)
    table.append(pa.table({"id": [1]}), properties=UNIFORM)
    finish_background()
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "after_commit", lambda _: None)
        table.delete("id = 1")
        table.append(pa.table({"id": [2]}))
        finish_background()
    assert sync(table.snapshot()).snapshots == 2
    folder, (*_, last) = MetadataFolder(table.log), iceberg(table).metadata.snapshots
    listed = read_list(folder.input(folder.key(last.manifest_list)))
    assert [(m.added_files_count, m.deleted_files_count) for m in listed] == [(1, 0)]


def test_version_2_of_the_format_has_no_variants(path: str) -> None:
    """IcebergCompatV1 does not forbid them."""
    table = tahoe.Table(path)
    table.create(
        Struct((Field(name="v", type=VARIANT),)), properties={"delta.enableIcebergCompatV1": "true", **FORMATS}
    )
    with pytest.raises(UnsupportedDataTypeError, match="variant"):
        sync(table.snapshot())


def test_readers_are_told_which_bounds_are_rounded(path: str) -> None:
    """Spark with Iceberg's runtime answers max() from bounds, and those of timestamps are in milliseconds here."""
    table, at = tahoe.Table(path), datetime(2026, 1, 31, 12, 0, 0, 123_456)
    rows = {"id": [1], "at": [at.replace(tzinfo=UTC)], "s": [{"local": at, "n": 1}], "half": [1.5], "l": [[at]]}
    table.append(pa.table(rows), properties={**UNIFORM, "write.metadata.metrics.default": "full"})
    found = {name: value for name, value in iceberg(table).properties.items() if name.startswith("write.")}
    columns = {f"write.metadata.metrics.column.{name}": "counts" for name in ("at", "s.local", "half")}
    assert found == {"write.metadata.metrics.default": "full", **columns}
    table.overwrite(nested(0), overwrite_schema=True)
    assert "write.metadata.metrics.column.at" not in iceberg(table).properties
