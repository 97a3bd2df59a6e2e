"""Deletion vectors in Iceberg's metadata: in Puffin files, one for each data file, and gone when they are not needed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

import tahoe
from tahoe.errors import DeletionVectorMissingError
from tahoe.iceberg import conversion, manifests
from tahoe.iceberg.conversion import convert, sync
from tahoe.iceberg.manifest_files import field_of, read_entries, read_list
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.verification import verify
from tahoe.storage.background import finish_background
from tahoe.table.log.deletion_vectors import deleted_rows
from tests.iceberg.tables import MARKED, MARKED_V3, iceberg, many, marked, same

DAY_MS = 86_400_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def files(table: tahoe.Table) -> set[str]:
    finish_background()
    return set(os.listdir(f"{table.url.removeprefix('file://')}/metadata"))


def puffins(table: tahoe.Table) -> set[str]:
    return {name for name in files(table) if name.endswith(".puffin")}


def vectors(table: tahoe.Table, snapshot: Any) -> list[DataFile]:
    folder, found = MetadataFolder(table.log), list[DataFile]()
    for manifest in read_list(folder.input(folder.key(snapshot.manifest_list))):
        if manifest.content == ManifestContent.DELETES:
            entries = read_entries(manifest, folder.input(folder.key(manifest.manifest_path)))
            found += [entry.data_file for entry in entries]
    return found


def rows_of(vector: DataFile) -> BitMap64:
    """The rows of a vector as PyIceberg reads them from the whole file; at its place the blob says the same."""
    puffin = PuffinFile(Path(vector.file_path.removeprefix("file://")).read_bytes())
    location = field_of(vector, "referenced_data_file")
    (blob,) = [b for b in puffin.footer.blobs if b.properties["referenced-data-file"] == location]
    assert (blob.offset, blob.length) == tuple(
        field_of(vector, name) for name in ("content_offset", "content_size_in_bytes")
    )
    assert blob.properties["cardinality"] == str(vector.record_count)
    (found,) = [v for v in deletion_vectors_from_puffin_file(puffin) if v.referenced_data_file == location]
    return BitMap64(found.to_vector().to_pylist())


@pytest.mark.parametrize("name", MARKED)
def test_each_version_has_the_vectors_of_the_log(name: str, path: str) -> None:
    table = MARKED[name](path)
    seen = 0
    for snapshot in iceberg(table).metadata.snapshots:
        found = vectors(table, snapshot)
        then = table.snapshot(int(snapshot.summary["delta-version"]))
        adds = {f"{table.url}/{add.path}": add for add in then.live.adds() if add.deletion_vector is not None}
        assert len(found) == len(adds)
        assert {field_of(vector, "referenced_data_file"): rows_of(vector) for vector in found} == {
            location: deleted_rows(table.log, add) for location, add in adds.items()
        }
        assert snapshot.summary["total-delete-files"] == str(len(adds))
        assert snapshot.summary["total-position-deletes"] == str(sum(vector.record_count for vector in found))
        seen += len(found)
    assert seen or name == "marked_changed"
    assert verify(table.snapshot()).rows == table.to_arrow().num_rows


def test_a_large_position_is_read_where_it_is(path: str) -> None:
    table = tahoe.Table(path)
    table.append(pa.table({"id": range(200_000)}), properties=MARKED_V3)
    table.delete("id % 3 = 0 or id > 190000")
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())


def test_a_delete_writes_few_files_and_takes_over_the_data(path: str) -> None:
    table = tahoe.Table(path)
    table.append(many(0), properties=MARKED_V3)
    table.append(many(1000))
    table.delete("id = 1")
    before = files(table)
    table.delete("id = 2 or id = 1002")
    assert (
        len(files(table) - before) == 5
    )  # a Puffin file, a manifest, one that loses a vector, a list, a metadata file
    found = iceberg(table)
    data = [
        {m.manifest_path for m in s.manifests(found.io) if m.content == ManifestContent.DATA}
        for s in found.metadata.snapshots
    ]
    assert data[1] == data[2] == data[3]
    assert [s.summary.operation.value for s in found.metadata.snapshots] == ["append", "append", "delete", "delete"]
    last = found.metadata.snapshots[-1].summary
    assert (last["added-dvs"], last["removed-dvs"], last["added-position-deletes"]) == ("2", "1", "3")


def test_operations_are_told(path: str) -> None:
    table = MARKED["marked"](path)
    table.restore(2)
    told = [s.summary.operation.value for s in iceberg(table).metadata.snapshots]
    assert told == ["append", "append", "delete", "delete", *["overwrite"] * 2, "delete", "overwrite"]


def test_many_small_manifests_are_merged(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_MERGED_MIN", 4)
    table = tahoe.Table(path)
    for number in range(8):
        table.append(many(number * 1000), properties=MARKED_V3)
        finish_background()
    for number in range(8):
        table.delete(f"id = {number * 1000 + number}")
        finish_background()
    table.delete("id % 10 = 5")
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())
    newest = iceberg(table).current_snapshot()
    assert len(newest.manifests(iceberg(table).io)) < 8
    assert verify(table.snapshot()).differences == ()


def test_other_rows_are_told(path: str) -> None:
    table = marked(path)
    finish_background()
    assert verify(table.snapshot()).differences == ()
    for name in puffins(table):
        file = Path(path, "metadata", name)
        file.write_bytes(file.read_bytes()[::-1])
    (difference,) = verify(table.snapshot()).differences
    assert difference.startswith("files of which other rows are deleted (")
    sync(table.snapshot(), whole=True)
    assert verify(table.snapshot()).differences == ()


def test_a_vector_that_is_gone_is_not_missed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A converter that is behind needs the vectors of the newest version alone."""
    table = tahoe.Table(path)
    table.append(many(0, 20_000), properties=MARKED_V3)
    finish_background()
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "after_commit", lambda _: None)
        table.delete("id % 3 = 1")
        first = set(Path(path).glob("deletion_vector*"))
        table.delete("id % 3 = 2")
        finish_background()
    assert len(first) == 1
    first.pop().unlink()
    assert sync(table.snapshot()).is_whole
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())
    for file in Path(path).glob("deletion_vector*"):
        file.unlink()
    with pytest.raises(DeletionVectorMissingError):
        convert(table.snapshot(), whole=True)


def test_they_expire_with_their_snapshots(path: str) -> None:
    table = tahoe.Table(path)
    table.append(many(0), properties=MARKED_V3)
    table.append(many(1000))
    table.delete("id = 1001")
    for number in range(12):
        table.delete(f"id = {number}")
    finish_background()
    before = puffins(table)
    assert len(before) == 13
    now_ms = table.snapshot().timestamp_ms
    later = tahoe.Table(path, env=replace(table.env, clock_ms=lambda: now_ms + 40 * DAY_MS))
    later.append(many(5000))
    found = iceberg(table)
    kept = {
        name.rpartition("/")[2] for s in found.metadata.snapshots for name in [v.file_path for v in vectors(table, s)]
    }
    assert len(found.metadata.snapshots) == 1
    assert puffins(table) == kept
    assert len(kept) == 2
    assert same(found.scan().to_arrow(), table.to_arrow())
