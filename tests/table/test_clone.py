"""CLONE without Spark: the rows of one table in another, which lives on by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    AppendOnlyTableError,
    ClonedFileMissingError,
    CloneFilesMissingError,
    CloneNestedError,
    CloneOntoItselfError,
    DataFileMissingError,
    InvalidPropertyError,
    PathIsNotEmptyError,
    TableExistsError,
    UnsupportedOperationError,
    VectorsDisallowedError,
    VersionNotFoundError,
)
from tahoe.protocol.changes.column_changes import NewColumn
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.configuration.row_tracking import MATERIALISED
from tahoe.protocol.types.schema import LONG, Field
from tahoe.storage.env import Watch
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.log import deletion_vectors
from tahoe.table.verify.check import check_table

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
KINDS = pytest.mark.parametrize("shallow", [True, False], ids=["shallow", "deep"])
ROW_ID = "_metadata.row_id"


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"{i % 2} %" for i in ids])})


@pytest.fixture(autouse=True)
def stored_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES_MAX", 0)


def made(path: Path, *properties: dict[str, str], partitioned: bool = False) -> tahoe.Table:
    """Version 0 has the rows 0 to 3, and version 1 lacks row 1."""
    table = tahoe.Table(path / "source % 1")
    table.append(
        numbers(0, 1, 2, 3),
        partition_by=["p"] if partitioned else None,
        properties={k: v for p in properties for k, v in p.items()},
    )
    with table.transaction() as changes:
        changes.delete("id = 1")
    return table


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


def findings(table: tahoe.Table) -> list[str]:
    return [str(found) for found in check_table(table.log)]


def files(path: str | Path) -> dict[str, tuple[int, int]]:
    """Sizes and times of all files but the checksums, which are written in the background."""
    found = (
        (file, file.stat()) for file in Path(path).rglob("*") if file.is_file() and file.suffix not in (".crc", ".tmp")
    )
    return {str(file.relative_to(path)): (status.st_size, status.st_mtime_ns) for file, status in found}


# --- a table of its own


@KINDS
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(
    "properties", [{}, VECTORS, VECTORS | TRACKED | MAPPED], ids=["plain", "vectors", "everything"]
)
def test_a_clone_equals_its_source_and_lives_by_itself(
    tmp_path: Path, shallow: bool, partitioned: bool, properties: dict[str, str]
) -> None:
    source = made(tmp_path, properties, partitioned=partitioned)
    before = files(tmp_path / "source % 1")
    report = source.clone(tmp_path / "a clone", shallow=shallow)
    clone = tahoe.Table(tmp_path / "a clone")
    assert (ids(clone), clone.schema, clone.version, report.version) == ([0, 2, 3], source.schema, 0, 0)
    assert supported_features(clone.protocol) == supported_features(source.protocol)
    assert clone.snapshot().partition_columns == source.snapshot().partition_columns
    assert clone.snapshot().metadata.id != source.snapshot().metadata.id
    assert len(clone.snapshot().live) == len(source.snapshot().live) == report.source_files
    assert report.copied_files == (0 if shallow else report.source_files)
    assert findings(clone) == []
    clone.append(numbers(7))
    with clone.transaction() as changes:
        changes.delete("id = 0")
    assert ids(clone) == [2, 3, 7]
    clone.optimize()
    assert (ids(clone), ids(source)) == ([2, 3, 7], [0, 2, 3])
    clone.vacuum(0, retention_check=False)
    assert files(tmp_path / "source % 1") == before, "VACUUM of the clone touches the source"
    assert (ids(clone), ids(source)) == ([2, 3, 7], [0, 2, 3])
    assert findings(clone) == findings(source) == []


def test_a_deep_clone_does_not_need_its_source(tmp_path: Path) -> None:
    source = made(tmp_path, VECTORS, partitioned=True)
    source.clone(tmp_path / "one", shallow=True)
    tahoe.Table(tmp_path / "one").append(numbers(5))
    tahoe.Table(tmp_path / "one").clone(tmp_path / "two")
    shutil.rmtree(tmp_path / "source % 1", ignore_errors=True)
    shutil.rmtree(tmp_path / "one", ignore_errors=True)
    shutil.move(tmp_path / "two", tmp_path / "elsewhere")
    table = tahoe.Table(tmp_path / "elsewhere")
    assert (ids(table), findings(table)) == ([0, 2, 3, 5], [])
    assert all("://" not in path for path in table.files()["path"].to_pylist())


def test_a_clone_of_a_clone_names_the_first_sources_files(tmp_path: Path) -> None:
    source = made(tmp_path, VECTORS)
    source.clone(tmp_path / "one", shallow=True)
    tahoe.Table(tmp_path / "one").clone(tmp_path / "two", shallow=True)
    shutil.rmtree(tmp_path / "one", ignore_errors=True)
    assert ids(tahoe.Table(tmp_path / "two")) == [0, 2, 3]


@KINDS
def test_an_earlier_version_and_the_history(tmp_path: Path, shallow: bool) -> None:
    source = made(tmp_path)
    source.clone(tmp_path / "c", shallow=shallow, version=0, user_metadata="copy")
    (entry,) = tahoe.Table(tmp_path / "c").history()
    assert ids(tahoe.Table(tmp_path / "c")) == [0, 1, 2, 3]
    assert (entry["operation"], entry["userMetadata"], entry["isBlindAppend"]) == ("CLONE", "copy", False)
    assert entry["operationParameters"] == {"source": f"delta.`{source.url}`", "sourceVersion": "0"}
    size = str(source.snapshot(0).live.size_bytes)
    copied = (
        {"numCopiedFiles": "0", "copiedFilesSize": "0"} if shallow else {"numCopiedFiles": "1", "copiedFilesSize": size}
    )
    nothing = {"numRemovedFiles": "0", "removedFilesSize": "0"}
    assert entry["operationMetrics"] == {"sourceTableSize": size, "sourceNumOfFiles": "1", **nothing, **copied}
    moment = source.history()[-1]["timestamp"]
    source.clone(tmp_path / "d", shallow=shallow, timestamp=moment)
    assert ids(tahoe.Table(tmp_path / "d")) == [0, 1, 2, 3]


@KINDS
def test_row_ids_are_given_anew_under_other_names(tmp_path: Path, shallow: bool) -> None:
    source = made(tmp_path, TRACKED, VECTORS)
    source.append(numbers(8, 9))
    source.optimize()  # the ids of the moved rows are in the file now
    source.clone(tmp_path / "c", shallow=shallow)
    clone = tahoe.Table(tmp_path / "c")
    assert not {clone.properties[name] for name in MATERIALISED} & {source.properties[name] for name in MATERIALISED}
    clone.append(numbers(20, 21))
    clone.optimize()
    given = clone.to_arrow(columns=["id", ROW_ID]).to_pylist()
    assert len({row[ROW_ID] for row in given}) == len(given) == 7
    assert findings(clone) == []
    source.append(numbers(30))
    names = {name: clone.properties[name] for name in MATERIALISED}
    source.clone(tmp_path / "c", shallow=shallow, replace=True)
    assert {name: clone.properties[name] for name in MATERIALISED} == names
    given = clone.to_arrow(columns=["id", ROW_ID]).to_pylist()
    assert len({row[ROW_ID] for row in given}) == len(given) == 6
    assert findings(clone) == []


def test_row_ids_where_the_source_has_no_statistics(tmp_path: Path) -> None:
    """The reference refuses this: it does not read the footers."""
    source = made(tmp_path, {"delta.dataSkippingNumIndexedCols": "0"})
    actions = [add.replace(stats=None) for add in source.snapshot().live.adds()]
    snapshot = source.snapshot()
    with Draft(
        log=source.log, base=snapshot, protocol=snapshot.protocol, metadata=snapshot.metadata, data_change=False
    ) as draft:
        draft.restate(actions)
        draft.commit(OperationInfo(operation="TEST"))
    source.clone(tmp_path / "c", shallow=True, properties=TRACKED)
    clone = tahoe.Table(tmp_path / "c")
    assert sorted(clone.to_arrow(columns=[ROW_ID])[ROW_ID].to_pylist()) == [0, 1, 2]


def test_what_is_copied_and_what_is_not(tmp_path: Path) -> None:
    source = made(
        tmp_path, {"mine": "1", "delta.feature.clustering": "supported", "delta.enableInCommitTimestamps": "true"}
    )
    with source.transaction() as changes:
        changes.cluster_by([("id",)])
        changes.set_domain("app.progress", "42")
    source.append(numbers(5), txn=("app", 7))
    for name, shallow in (("s", True), ("d", False)):
        source.clone(tmp_path / name, shallow=shallow, properties={"mine": "2", "delta.enableChangeDataFeed": "true"})
        clone = tahoe.Table(tmp_path / name).snapshot()
        assert clone.properties["mine"] == "2"
        assert clone.clustering_columns == (("id",),)
        assert "app.progress" not in clone.domains
        assert clone.txn_version("app") == (None if shallow else 7)
        assert "changeDataFeed" in supported_features(clone.protocol) - supported_features(source.protocol)
        assert clone.timestamp_ms > 0


def test_change_files_are_not_copied(tmp_path: Path) -> None:
    source = made(tmp_path, {"delta.enableChangeDataFeed": "true"})
    assert any(key.startswith("_change_data") for key in files(tmp_path / "source % 1"))
    source.clone(tmp_path / "c")
    assert not any(key.startswith("_change_data") for key in files(tmp_path / "c"))


# --- again


@KINDS
def test_a_second_clone_takes_only_what_has_changed(tmp_path: Path, shallow: bool) -> None:
    source = made(tmp_path, VECTORS)
    for number in (10, 11, 12):
        source.append(numbers(number))
    source.clone(tmp_path / "c", shallow=shallow)
    clone = tahoe.Table(tmp_path / "c")
    clone.append(numbers(99))
    with source.transaction() as changes:
        changes.delete("id in (0, 10)")
    source.append(numbers(13))
    told: list[tuple[int, int]] = []
    with pytest.raises(TableExistsError):
        source.clone(tmp_path / "c", shallow=shallow)
    report = source.clone(
        tmp_path / "c", shallow=shallow, replace=True, progress=lambda done, total: told.append((done, total))
    )
    assert ids(clone) == ids(source) == [2, 3, 11, 12, 13]
    assert report.removed_files == 3  # of row 10, of row 99, and the first file with its old vector
    assert report.copied_files == (0 if shallow else 1)
    assert told == ([] if shallow else [(1, 2), (2, 2)])  # with the vector
    assert clone.history(1)[0]["operation"] == "CLONE"
    assert ids(tahoe.Table(tmp_path / "c")) == [2, 3, 11, 12, 13]
    assert sorted(clone.snapshot(1).to_arrow()["id"].to_pylist()) == [0, 2, 3, 10, 11, 12, 99]
    assert findings(clone) == []
    report = source.clone(tmp_path / "c", shallow=shallow, replace=True)
    assert (report.removed_files, report.copied_files) == (0, 0)


def test_a_deep_clone_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    source = made(tmp_path, VECTORS, partitioned=True)
    for number in range(10, 20):
        source.append(numbers(number))
    left = 5

    def stop(done: int, _: int) -> None:
        if done == left:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source.clone(tmp_path / "c", progress=stop)
    there = {key for key in files(tmp_path / "c") if not key.startswith("_")}
    assert len(there) >= left
    assert not tahoe.Table(tmp_path / "c").exists()
    report = source.clone(tmp_path / "c")
    assert report.copied_files <= report.source_files - left + 1
    assert ids(tahoe.Table(tmp_path / "c")) == ids(source)
    assert findings(tahoe.Table(tmp_path / "c")) == []


# --- beside others


def test_a_target_that_appears_meanwhile_is_left_alone(tmp_path: Path) -> None:
    source = made(tmp_path)
    target = tahoe.Table(tmp_path / "c")

    class Rival(Watch):
        def before_put(self) -> None:
            if not target.exists():
                target.append(numbers(9))

    with pytest.raises(TableExistsError):
        source.clone(tmp_path / "c", shallow=True, env=replace(target.env, watch=Rival()))
    assert ids(target) == [9]


def test_a_clone_that_replaces_goes_behind_another_writer(tmp_path: Path) -> None:
    source = made(tmp_path)
    target = tahoe.Table(tmp_path / "c")
    target.append(numbers(9))
    rows = [numbers(10)]

    class Rival(Watch):
        def before_put(self) -> None:
            if rows:
                target.append(rows.pop())

    source.clone(tmp_path / "c", shallow=True, replace=True, env=replace(target.env, watch=Rival()))
    assert (ids(target), target.version) == ([0, 2, 3], 2)


# --- refused before any work


def refused(path: Path, error: type[Exception], call: Callable[[], Any]) -> str:
    before = files(path)
    with pytest.raises(error) as raised:
        call()
    assert files(path) == before
    return str(raised.value)


@KINDS
def test_no_target_inside_a_table_or_around_one(tmp_path: Path, shallow: bool) -> None:
    source = made(tmp_path)
    inside = tmp_path / "source % 1" / "a" / "b"
    assert "it is inside" in refused(tmp_path, CloneNestedError, lambda: source.clone(inside, shallow=shallow))
    (tmp_path / "link").symlink_to(tmp_path / "source % 1")
    assert "it is inside" in refused(
        tmp_path, CloneNestedError, lambda: source.clone(tmp_path / "link" / "c", shallow=shallow)
    )
    around = tmp_path / "around"
    tahoe.Table(around / "x" / "t").append(numbers(1))
    for file in (around / "x" / "t").glob("*.parquet"):
        file.unlink()
    assert "around/x/t" in refused(tmp_path, CloneNestedError, lambda: source.clone(around, shallow=shallow))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.parquet").write_bytes(b"x")
    refused(tmp_path, PathIsNotEmptyError, lambda: source.clone(tmp_path / "other", shallow=shallow))


@KINDS
def test_onto_itself(tmp_path: Path, shallow: bool) -> None:
    source = made(tmp_path)
    assert source.clone(source.url, shallow=shallow, replace=True).version is None
    refused(tmp_path, CloneOntoItselfError, lambda: source.clone(source.url, shallow=shallow, replace=True, version=0))


@KINDS
def test_versions_that_are_gone(tmp_path: Path, shallow: bool) -> None:
    source = made(tmp_path)
    refused(tmp_path, VersionNotFoundError, lambda: source.clone(tmp_path / "c", shallow=shallow, version=7))
    source.vacuum(0, retention_check=False)
    text = refused(tmp_path, CloneFilesMissingError, lambda: source.clone(tmp_path / "c", shallow=shallow, version=0))
    assert "1 are missing" in text


def test_properties_that_do_not_fit_the_files(tmp_path: Path) -> None:
    source = made(tmp_path, VECTORS, partitioned=True)

    def cloned(properties: dict[str, str]) -> Callable[[], Any]:
        return lambda: source.clone(tmp_path / "c", shallow=True, properties=properties)

    refused(tmp_path, VectorsDisallowedError, cloned({"delta.enableDeletionVectors": "false"}))
    refused(tmp_path, InvalidPropertyError, cloned(MAPPED))
    refused(tmp_path, InvalidPropertyError, cloned({"delta.constraints.c": "id > 0"}))
    refused(tmp_path, InvalidPropertyError, cloned({"delta.nothing": "1"}))
    refused(tmp_path, UnsupportedOperationError, cloned({"delta.enableMaterializePartitionColumnsFeature": "true"}))


def test_an_append_only_target_loses_no_rows(tmp_path: Path) -> None:
    source = made(tmp_path)
    target = tahoe.Table(tmp_path / "c")
    target.append(numbers(9), properties={"delta.appendOnly": "true"})
    refused(tmp_path, AppendOnlyTableError, lambda: source.clone(tmp_path / "c", shallow=True, replace=True))


def test_a_replaced_target_never_reuses_column_ids(tmp_path: Path) -> None:
    source, target = made(tmp_path, MAPPED), tahoe.Table(tmp_path / "c")
    target.append(pa.table({f"c{n}": [n] for n in range(6)}), properties=MAPPED)
    source.clone(tmp_path / "c", shallow=True, replace=True)
    with target.transaction() as changes:
        changes.add_columns([NewColumn(field=Field(name="more", type=LONG))])
    assert target.schema.find("more").metadata["delta.columnMapping.id"] == 7  # type: ignore[union-attr]


def test_a_shallow_clone_says_so_if_its_source_was_vacuumed(tmp_path: Path) -> None:
    source = made(tmp_path)
    source.clone(tmp_path / "c", shallow=True)
    with source.transaction() as changes:
        changes.delete("true")
    source.vacuum(0, retention_check=False)
    with pytest.raises(DataFileMissingError, match="shallow clone"):
        ids(tahoe.Table(tmp_path / "c"))


def test_a_missing_file_of_the_table_itself_is_no_file_of_another() -> None:
    for file in (
        "part-0.parquet",
        "file:/t%20a/part-0.parquet",
        "file:///t%20a/x/part-0.parquet",
        "/t a/part-0.parquet",
    ):
        assert type(DataFileMissingError.of(table="file:///t a", file=file, version=0)) is DataFileMissingError
    for file in ("file:/t/part-0.parquet", "/t%20ab/part-0.parquet", "s3://bucket/part-0.parquet"):
        assert isinstance(DataFileMissingError.of(table="file:///t a", file=file, version=0), ClonedFileMissingError)
