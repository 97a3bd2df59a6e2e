"""Iceberg's readers see the same rows at the same versions, and a conversion does no more than it must."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DecimalType, DoubleType

import tahoe
from tahoe.errors import UnsupportedOperationError
from tahoe.iceberg import conversion, manifests
from tahoe.iceberg.conversion import convert, converted, sync
from tahoe.iceberg.verification import verify
from tahoe.storage.background import finish_background
from tahoe.table.transactions.alter import set_properties
from tests.iceberg.tables import TABLES, UNIFORM, iceberg, nested, plain, rows, same
from tests.table.builders import memory_env


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def files(table: tahoe.Table) -> set[str]:
    finish_background()
    return set(os.listdir(f"{table.url.removeprefix('file://')}/metadata"))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("is_whole", [False, True])
def test_every_version_has_the_same_rows(name: str, path: str, is_whole: bool) -> None:
    table = TABLES[name](path)
    finish_background()
    if is_whole:
        assert sync(table.snapshot(), whole=True).is_whole
    found = iceberg(table)
    assert same(found.scan().to_arrow(), table.to_arrow())
    assert found.properties["delta-version"] == str(table.version)
    assert [f.name for f in found.schema().fields] == list(table.schema.names)
    versions = []
    for snapshot in found.metadata.snapshots:
        versions.append(int(snapshot.summary["delta-version"]))
        then = table.snapshot(versions[-1])
        assert same(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow(), then.to_arrow())
        assert snapshot.summary["total-data-files"] == str(len(then.live))
    assert versions == sorted(set(versions)) or is_whole


@pytest.mark.parametrize(
    "condition",
    [
        "id = 11",
        "tiny > 10",
        "whole <= 1000",
        "half = 1.0",
        "real = 0.0",
        "real > 0",
        "money = 0.10",
        "day > '2026-02-01'",
        "text is null",
        "moment = '2026-01-31T23:59:59.999999+00:00'",
        "local = '2026-01-31T23:59:59.999999'",
        "flag = true",
        "text > 'é'",
    ],
)
def test_bounds_and_counts_lose_no_row(path: str, condition: str) -> None:
    table = plain(path)
    found = iceberg(table)
    mine = table.to_arrow(filter=condition)
    assert mine.num_rows
    assert same(found.scan(row_filter=condition).to_arrow(), mine)


def test_partition_values_are_written_as_they_are(path: str) -> None:
    table = TABLES["partitioned_by_numbers"](path)
    table.append(table.to_arrow())
    table.delete("id = 2")
    found = iceberg(table)
    large, real = zip(*(m.partitions for m in found.current_snapshot().manifests(found.io)), strict=True)
    assert {from_bytes(DoubleType(), values.lower_bound) for values in real} == {0.1}
    assert {from_bytes(DecimalType(38, 0), values.upper_bound) for values in large} == {Decimal(10) ** 37 + 1}
    assert not verify(table.snapshot()).differences


def test_a_field_of_a_struct_that_is_null_is_null(path: str) -> None:
    point = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    table = tahoe.Table(path)
    table.append(pa.table({"point": pa.array([{"x": 1}, None], point)}), properties=UNIFORM)
    assert iceberg(table).scan(row_filter="point.x is null").to_arrow().to_pylist() == [{"point": None}]


def test_names_that_are_the_same_with_dots_are_refused(path: str) -> None:
    table = tahoe.Table(path)
    table.append(pa.table({"a.b": [1], "a": [{"b": 2}]}), properties=UNIFORM)
    finish_background()
    with pytest.raises(UnsupportedOperationError, match="Rename a column"):
        convert(table.snapshot())


def test_a_copy_of_a_table_has_metadata_of_its_own_files(path: str) -> None:
    plain(path)
    finish_background()
    copytree(path, f"{path}-copy")
    copy = tahoe.Table(f"{path}-copy")
    with pytest.raises(UnsupportedOperationError, match="is that of"):
        verify(copy.snapshot())
    sync(copy.snapshot())
    rmtree(path)
    assert same(iceberg(copy).scan().to_arrow(), copy.to_arrow())
    assert len(iceberg(copy).metadata.snapshots) == 1


def test_bounds_skip_files(path: str) -> None:
    found = iceberg(plain(path))
    assert len(list(found.scan(row_filter="id > 5").plan_files())) == 1
    assert len(list(found.scan(row_filter="text is null and id > 5").plan_files())) == 1
    partitioned = iceberg(TABLES["partitioned"](f"{path}-p"))
    assert len(list(partitioned.scan(row_filter="tiny = 2").plan_files())) == 1


def test_a_commit_writes_a_manifest_and_takes_over_the_others(path: str) -> None:
    table = plain(path)
    before = files(table)
    table.append(rows(20))
    assert len(files(table) - before) == 3  # a manifest, a list, a metadata file
    found = iceberg(table)
    lists = [{m.manifest_path for m in s.manifests(found.io)} for s in found.metadata.snapshots]
    assert lists[0] < lists[1] < lists[2]


def test_many_small_manifests_are_merged(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_MERGED_MIN", 4)
    table = tahoe.Table(path)
    for number in range(10):
        table.append(rows(number), properties=UNIFORM)
    table.delete("id = 3")
    table.append(rows(50))
    found = iceberg(table)
    assert len(found.current_snapshot().manifests(found.io)) <= 5
    assert same(found.scan().to_arrow(), table.to_arrow())
    entries = [e for m in found.current_snapshot().manifests(found.io) for e in m.fetch_manifest_entry(found.io)]
    assert len({entry.sequence_number for entry in entries}) > 5  # each file keeps the number of its commit
    assert all(entry.sequence_number > 0 for entry in entries)


def test_merged_manifests_stay_small(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is written again when one of its files is removed; its bytes do not tell how long that takes."""
    monkeypatch.setattr(manifests, "_MERGED_MIN", 4)
    monkeypatch.setattr(manifests, "_MERGED_FILES", 3)
    table = tahoe.Table(path)
    for number in range(24):
        table.append(rows(number), properties=UNIFORM)
        finish_background()
    found = iceberg(table)
    counts = [m.added_files_count + m.existing_files_count for m in found.current_snapshot().manifests(found.io)]
    assert sum(counts) == 24
    assert max(counts) < 3 + 3
    assert len(counts) <= 24 // 3 + 4


def test_who_commits_next_does_what_was_left(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = plain(path)
    finish_background()
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "convert", lambda _: (_ for _ in ()).throw(OSError("killed")))
        table.append(rows(20))
        finish_background()
    assert converted(table.snapshot()) == (1, table.snapshot(1).timestamp_ms)
    table.append(rows(30))
    found = iceberg(table)
    assert [s.summary["delta-version"] for s in found.metadata.snapshots] == ["0", "1", "2", "3"]


def test_two_converters_do_no_harm(path: str) -> None:
    table = plain(path)
    finish_background()
    base = table.version
    for file in Path(path, "metadata").glob(f"v{base}.*"):
        file.unlink()
    slow, fast = table.snapshot(), tahoe.Table(path)
    fast.append(rows(20))
    finish_background()
    report = convert(slow)  # behind the other: it has this version too
    assert report.version == base + 1
    assert report.snapshots == 0
    assert same(iceberg(table).scan().to_arrow(), fast.to_arrow())


def test_a_converter_that_loses_leaves_no_files(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = plain(path)
    before = files(table)
    newest, state = table.version, conversion.TableState
    put = state.put

    def beaten(self: conversion.TableState, snapshot: tahoe.Snapshot, *, replaces: bool) -> bool:
        monkeypatch.setattr(state, "put", put)
        convert(snapshot)
        return put(self, snapshot, replaces=replaces)

    monkeypatch.setattr(conversion, "after_commit", lambda _: None)
    table.append(rows(20))
    finish_background()
    monkeypatch.setattr(state, "put", beaten)
    report = convert(table.snapshot())
    assert report.version == newest + 1
    assert len(files(table) - before) == 3


def test_a_table_in_the_place_of_another_begins_anew(path: str) -> None:
    for file in sorted(Path(plain(path).url.removeprefix("file://"), "_delta_log").iterdir()):
        finish_background()
        file.unlink()
    table = tahoe.Table(path)
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    table = tahoe.Table(path)
    table.overwrite(nested(0), properties=UNIFORM)
    found = iceberg(table)
    assert len(found.metadata.snapshots) == 1
    assert same(found.scan().to_arrow(), table.to_arrow())
    assert [name for name in files(table) if name.startswith("v") and name.endswith("json")] == ["v0.metadata.json"]


def test_an_iceberg_table_in_the_folder_stays(path: str) -> None:
    table = plain(path)
    finish_background()
    file = Path(path, "metadata", f"v{table.version}.metadata.json")
    file.write_text(file.read_text().replace('"delta-version"', '"other"'))
    with pytest.raises(UnsupportedOperationError, match="Iceberg table"):
        convert(table.snapshot())


def test_commits_that_are_gone_or_too_many_are_not_missed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = plain(path)
    finish_background()
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "after_commit", lambda _: None)
        for number in range(3):
            table.append(rows(100 * number + 100))
        table.delete("id = 1")
        finish_background()
    monkeypatch.setattr(conversion, "COMMITS_MAX", 2)
    assert sync(table.snapshot()).is_whole
    found = iceberg(table)
    assert same(found.scan().to_arrow(), table.to_arrow())
    assert found.current_snapshot().summary.operation.value == "overwrite"


def test_a_manifest_that_is_lost_is_written_anew(path: str) -> None:
    table = plain(path)
    for name in files(table):
        if name.endswith(".avro"):
            Path(path, "metadata", name).unlink()
    table.delete("id = 1")
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())


def test_snapshots_expire_with_the_log(path: str) -> None:
    table = tahoe.Table(path)
    for number in range(14):
        table.append(rows(number), properties=UNIFORM)
    table.overwrite(rows(0))
    finish_background()
    before = files(table)
    day_ms = 86_400_000
    later = tahoe.Table(path, env=replace(table.env, clock_ms=lambda: table.snapshot().timestamp_ms + 40 * day_ms))
    later.append(rows(50))
    found = iceberg(table)
    assert [s.summary["delta-version"] for s in found.metadata.snapshots] == ["15"]
    assert same(found.scan().to_arrow(), table.to_arrow())
    (kept,) = found.metadata.snapshots
    needed = {kept.manifest_list, *(manifest.manifest_path for manifest in kept.manifests(found.io))}
    left = {name for name in files(table) if name.endswith(".avro")}
    assert left == {location.rpartition("/")[2] for location in needed}
    assert len(before - left) > 30


def test_vacuum_keeps_the_metadata(path: str) -> None:
    table = plain(path)
    before = files(table)
    future = replace(table.env, clock_ms=lambda: 4_000_000_000_000)
    tahoe.Table(path, env=future).vacuum()
    assert files(table) >= before


def test_what_changes_no_file_makes_no_snapshot(path: str) -> None:
    table = plain(path)
    set_properties(table, {"mine": "1"})
    table.compute_statistics()
    found = iceberg(table)
    assert found.properties["delta-version"] == str(table.version)
    assert found.properties["mine"] == "1"
    assert not any(name.startswith("delta.") for name in found.properties)
    assert len(found.metadata.snapshots) == 2


@pytest.mark.parametrize("shallow", [True, False])
def test_clones_have_metadata_of_their_own(path: str, shallow: bool) -> None:
    source = TABLES["changed"](path)
    source.clone(f"{path}-clone", shallow=shallow)
    clone = tahoe.Table(f"{path}-clone")
    assert same(iceberg(clone).scan().to_arrow(), source.to_arrow())
    clone.append(rows(90))
    found = iceberg(clone)
    assert same(found.scan().to_arrow(), clone.to_arrow())
    assert found.metadata.location == clone.url
    assert found.metadata.table_uuid != iceberg(source).metadata.table_uuid


def test_tables_of_a_catalog_have_metadata_once_they_cannot_be_undone(tmp_path: Path) -> None:
    catalog = tahoe.Catalog(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "lake"))
    catalog.create_schema("shop")
    table = catalog.create_table("shop.orders", rows(0).schema, properties=UNIFORM)
    table.append(rows(0))
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())
    with pytest.raises(RuntimeError, match="undone"), catalog.transaction() as transaction:
        transaction.table("shop.orders").append(rows(10))
        finish_background()
        raise RuntimeError("undone")
    assert iceberg(table).properties["delta-version"] == str(table.version)
    with catalog.transaction() as transaction:
        transaction.table("shop.orders").append(rows(20))
    assert same(iceberg(table).scan().to_arrow(), table.to_arrow())


def test_operations_are_told(path: str) -> None:
    found = iceberg(TABLES["compacted"](path))
    assert [s.summary.operation.value for s in found.metadata.snapshots] == ["append", "append", "replace", "append"]


def test_without_the_property_nothing_is_written() -> None:
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(pa.table({"id": [1]}), properties={"delta.enableIcebergCompatV2": "true"})
    assert converted(table.snapshot()) is None
    with pytest.raises(UnsupportedOperationError, match="enabledFormats"):
        sync(table.snapshot())
