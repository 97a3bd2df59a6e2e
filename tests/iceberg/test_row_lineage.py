"""Iceberg's metadata of format version 3: row ids and versions of rows are those of row tracking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent

import tahoe
from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tahoe.iceberg import manifests
from tahoe.iceberg.conversion import convert, sync
from tahoe.iceberg.manifest_files import field_of, read_entries, read_list
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.verification import verify
from tahoe.protocol.configuration.row_tracking import DOMAIN, high_water_mark
from tahoe.storage.background import finish_background
from tahoe.table.layout.optimize import optimize
from tahoe.table.layout.upgrade_uniform import upgrade_uniform
from tahoe.table.transactions.alter import set_properties, unset_properties
from tests.iceberg.tables import (
    FORMATS,
    UNIFORM,
    UNIFORM_V3,
    changed,
    compacted,
    iceberg,
    nested,
    plain,
    rows,
    same,
    variants,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def entries(table: tahoe.Table, snapshot: Any) -> Iterator[tuple[str, int, int]]:
    """The data files of a snapshot as readers of version 3 see them: name, first row id, data sequence number."""
    folder = MetadataFolder(table.log)
    for manifest in read_list(folder.input(folder.key(snapshot.manifest_list))):
        assert (manifest[15] is None) == (manifest.content == ManifestContent.DELETES)
        for entry in read_entries(manifest, folder.input(folder.key(manifest.manifest_path))):
            if manifest.content == ManifestContent.DATA:
                name = entry.data_file.file_path.rpartition("/")[2]
                yield name, field_of(entry.data_file, "first_row_id"), entry.sequence_number


@pytest.mark.parametrize("make", [plain, changed, compacted])
@pytest.mark.parametrize("is_whole", [False, True])
def test_files_have_the_row_ids_and_versions_of_row_tracking(path: str, make: Any, is_whole: bool) -> None:
    table = make(path, UNIFORM_V3)
    finish_background()
    if is_whole:
        sync(table.snapshot(), whole=True)
    metadata = iceberg(table).metadata
    assert metadata.format_version == 3
    for snapshot in metadata.snapshots:
        version = int(snapshot.summary["delta-version"])
        adds = table.snapshot(version).live.adds()
        wanted = {(add.path.rpartition("/")[2], add.base_row_id, add.default_row_commit_version) for add in adds}
        assert set(entries(table, snapshot)) == wanted
    assert metadata.next_row_id == high_water_mark(table.snapshot().domains[DOMAIN]) + 1


def test_sequence_numbers_are_versions_and_row_ids_go_on(path: str) -> None:
    table = plain(path, UNIFORM_V3)
    set_properties(table, {"mine": "1"})
    table.append(rows(20))
    found = iceberg(table).metadata
    assert [(s.sequence_number, s.first_row_id, s.added_rows) for s in found.snapshots] == [
        (0, 0, 4),
        (1, 4, 4),
        (3, 8, 4),
    ]
    assert (found.last_sequence_number, found.next_row_id) == (3, 12)


def test_a_merged_manifest_keeps_them(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_MERGED_MIN", 4)
    table = tahoe.Table(path)
    for number in range(10):
        table.append(rows(number * 10), properties=UNIFORM_V3)
    table.optimize()
    table.restore(7)
    sync(table.snapshot(), whole=True)
    for number in range(5):
        table.append(rows(number * 10))
        finish_background()
    assert verify(table.snapshot()).differences == ()


def test_a_table_of_version_2_goes_on_in_version_3(path: str) -> None:
    table = changed(path)
    before = iceberg(table).metadata
    set_properties(table, {"delta.enableRowTracking": "true"})
    set_properties(table, {"delta.enableIcebergCompatV2": "false", "delta.enableIcebergCompatV3": "true"})
    table.delete("id = 2")
    after = iceberg(table)
    assert verify(table.snapshot()).differences == ()
    assert after.metadata.format_version == 3
    kept = len(before.snapshots)
    assert after.metadata.snapshots[:kept] == before.snapshots
    assert after.metadata.snapshots[kept].first_row_id == 0
    for snapshot in after.metadata.snapshots:
        then = table.snapshot(int(snapshot.summary["delta-version"]))
        assert same(after.scan(snapshot_id=snapshot.snapshot_id).to_arrow(), then.to_arrow())


def test_none_leads_back_to_version_2(path: str) -> None:
    table = plain(path, UNIFORM_V3)
    finish_background()
    set_properties(table, {"delta.enableIcebergCompatV3": "false", "delta.enableIcebergCompatV2": "true"})
    table.append(rows(20))
    found = iceberg(table)
    assert (found.metadata.format_version, len(found.metadata.snapshots)) == (2, 2)
    assert same(found.scan().to_arrow(), table.to_arrow())


def test_other_row_ids_are_told(path: str) -> None:
    plain(path, UNIFORM_V3)
    finish_background()
    for file in Path(path, "_delta_log").glob("*[0-9].*"):
        file.write_text(file.read_text().replace('"baseRowId":4,', '"baseRowId":77,'))
    (difference,) = verify(tahoe.Table(path).snapshot()).differences
    assert difference.startswith("files whose rows have other ids or versions (1)")


def test_a_file_without_a_row_id_is_refused(path: str) -> None:
    plain(path, UNIFORM_V3)
    finish_background()
    for commit in Path(path, "_delta_log").glob("*1.*"):
        commit.write_text(commit.read_text().replace('"baseRowId":4,', ""))
    with pytest.raises(UnsupportedOperationError, match="no baseRowId"):
        convert(tahoe.Table(path).snapshot(), whole=True)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_files_that_keep_row_ids_without_icebergs_number_are_rewritten(path: str, mode: str) -> None:
    """Row tracking was there first: an update has written row ids into columns without a field id."""
    table = tahoe.Table(path)
    properties = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": mode}
    table.append(pa.table({"id": [1, 2, 3], "n": [0, 0, 0]}), properties=properties)
    table.update({"n": "1"}, "id = 2")
    ids = {"delta.enableIcebergCompatV3": "true", "delta.columnMapping.mode": "name", **FORMATS}
    with pytest.raises(UnsupportedOperationError, match="VERSION = 3"):
        set_properties(table, ids)
    before = table.version
    assert upgrade_uniform(table, 3, lambda request: optimize(table, request)) == table.version
    finish_background()
    assert verify(table.snapshot()).differences == ()
    assert table.version > before + 1
    version = table.version
    assert upgrade_uniform(table, 3, lambda request: optimize(table, request)) == version
    set_properties(table, {"mine": "1"})
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())


def test_upgrade_from_version_2_rewrites_what_lacks_ids(path: str) -> None:
    table = tahoe.Table(path)
    table.append(nested(0), properties={**UNIFORM, "delta.enableRowTracking": "true"})
    table.delete("id = 1")
    with pytest.raises(UnsupportedOperationError, match="VERSION = 3"):
        set_properties(table, {"delta.enableIcebergCompatV2": "false", "delta.enableIcebergCompatV3": "true"})
    upgrade_uniform(table, 3, lambda request: optimize(table, request))
    finish_background()
    assert verify(table.snapshot()).differences == ()
    assert iceberg(table).metadata.format_version == 3
    upgrade_uniform(table, 2, lambda request: optimize(table, request))
    finish_background()
    assert verify(table.snapshot()).differences == ()
    assert iceberg(table).metadata.format_version == 2


def test_variants_are_what_they_are_in_files(path: str) -> None:
    """PyIceberg, which does not know the type, is the one that writes and compares."""
    table = variants(path)
    set_properties(table, {"type": "unknown"})
    finish_background()
    text = Path(path, "metadata", f"v{table.version}.metadata.json").read_text()
    schemas = json.loads(text)["schemas"]
    assert [field["type"] for field in schemas[-1]["fields"]][1:2] == ["variant"]
    assert schemas[-1]["fields"][2]["type"]["element"] == "variant"
    assert json.loads(text)["properties"]["type"] == "unknown"
    assert verify(table.snapshot()).differences == ()
    unset_properties(table, ["delta.universalFormat.enabledFormats"])
    table.delete("id = 1")
    set_properties(table, FORMATS)  # a variant has no fields that lack ids
    finish_background()
    assert (verify(table.snapshot()).differences, verify(table.snapshot()).rows) == ((), 1)


def test_versions_without_row_ids_are_passed_over(path: str) -> None:
    """RESTORE leads to a version from before the compatibility, and back."""
    table = tahoe.Table(path)
    table.append(rows(0), properties={"delta.columnMapping.mode": "name"})
    set_properties(table, UNIFORM_V3)
    table.append(rows(10))
    table.restore(0)
    table.append(rows(20))
    finish_background()
    table.restore(2)
    found = iceberg(table)
    assert found.properties["delta-version"] == "5"
    assert same(found.scan().to_arrow(), table.to_arrow())
    assert verify(table.snapshot()).differences == ()
    assert found.metadata.next_row_id == high_water_mark(table.snapshot().domains[DOMAIN]) + 1


def test_other_versions_are_refused(path: str) -> None:
    table = plain(path)
    with pytest.raises(InvalidOptionError, match="must be 2 or 3"):
        upgrade_uniform(table, 1, lambda _: None)


def test_row_tracking_ends_with_the_metadata(path: str) -> None:
    table = plain(path, UNIFORM_V3)
    unset_properties(table, ["delta.enableIcebergCompatV3"])
    assert "delta.universalFormat.enabledFormats" not in table.properties
