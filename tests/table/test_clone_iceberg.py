"""CLONE of Iceberg tables, without Spark. pyiceberg makes the tables."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType, TimeType

import tahoe
from tahoe.errors import (
    CloneFilesMissingError,
    CloneIncompatibleSourceError,
    CloneNestedError,
    CloneUnsupportedSourceError,
    DeltaError,
    InvalidTimeTravelError,
    PackageMissingError,
    UnsupportedDataTypeError,
)
from tahoe.protocol.configuration.column_mapping import column_id
from tahoe.table.verify.check import check_table

KINDS = pytest.mark.parametrize("shallow", [True, False], ids=["shallow", "deep"])

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "day": [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None],
        "at": pa.array([dt.datetime(2026, 1, 1, 10, 30, 0, 5, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "UTC")),
        "price": [Decimal("1.50"), Decimal("-2.25"), None],
        "s": [{"a": 1, "b": ["x"]}, {"a": 2, "b": []}, None],
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "raw": pa.array([b"\xff", b"", None], pa.binary()),  # pyiceberg stores it as a large type
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    (tmp_path / "iceberg").mkdir()
    made = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/iceberg")
    made.create_namespace("d")
    return made


def made(catalog: SqlCatalog, *partition: str, rows: pa.Table = ROWS, **properties: str) -> IcebergTable:
    table = catalog.create_table("d.t", schema=rows.schema, properties=properties)
    with table.update_spec() as spec:
        for column in partition:
            spec.add_identity(column)
    table.append(rows)
    return table


def clone(table: IcebergTable, target: Path, **how: Any) -> tahoe.Table:
    tahoe.Table(table.location()).clone(target, source_format="iceberg", **how)
    return tahoe.Table(target)


def rows_of(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row["id"])


@KINDS
@pytest.mark.parametrize("partition", [(), ("day",), ("day", "at"), ("price", "id")], ids=str)
def test_a_clone_has_the_rows_the_ids_and_the_partitions(
    catalog: SqlCatalog, tmp_path: Path, partition: Any, shallow: bool
) -> None:
    source = made(catalog, *partition)
    table = clone(source, tmp_path / "t", shallow=shallow)
    assert rows_of(table.to_arrow()) == rows_of(source.scan().to_arrow()) == rows_of(ROWS)
    snapshot = table.snapshot()
    assert snapshot.partition_columns == partition
    assert snapshot.column_mapping_mode == "id"
    assert [column_id(field) for field in snapshot.schema] == [field.field_id for field in source.schema().fields]
    assert int(snapshot.properties["delta.columnMapping.maxColumnId"]) >= source.schema().highest_field_id
    assert not list(check_table(table.log))
    assert table.history()[0]["operationParameters"] == {
        "source": f"iceberg.`{source.location()}`",
        "sourceVersion": "-1",
    }
    assert table.files("id > 3").num_rows == 0
    assert [row["id"] for row in table.to_arrow(filter="day = '2026-01-02'").to_pylist()] == [2]


@KINDS
def test_columns_are_found_by_their_ids_after_changes(catalog: SqlCatalog, tmp_path: Path, shallow: bool) -> None:
    """A column that was dropped and added again under its name has no old values, and names that were exchanged mean
    the others.
    """
    source = made(
        catalog, "day", rows=ROWS.select(["id", "day"]).append_column("a", [["a"] * 3]).append_column("b", [["b"] * 3])
    )
    table = clone(source, tmp_path / "t", shallow=shallow)
    with source.update_schema() as change:
        change.rename_column("a", "other").rename_column("day", "date")
    with source.update_schema() as change:
        change.rename_column("b", "a")
    with source.update_schema() as change:
        change.rename_column("other", "b")
    source.append(source.scan().to_arrow().slice(0, 1))
    clone(source, tmp_path / "t", shallow=shallow, replace=True)
    assert sorted(table.to_arrow().to_pylist(), key=str) == sorted(source.scan().to_arrow().to_pylist(), key=str)
    assert table.to_arrow(filter="a = 'a'").num_rows == 0
    assert table.to_arrow(filter="b = 'a'").num_rows == 4
    assert table.to_arrow(filter="date is not null").num_rows == 3
    with source.update_schema() as change:
        change.delete_column("a")
    with source.update_schema() as change:
        change.add_column("a", StringType(), doc="anew")
    clone(source, tmp_path / "t", shallow=shallow, replace=True)
    assert set(table.to_arrow()["a"].to_pylist()) == {None}
    assert not list(check_table(table.log))


@KINDS
def test_it_lives_on_by_itself(catalog: SqlCatalog, tmp_path: Path, shallow: bool) -> None:
    source = made(catalog, "day")
    table = clone(source, tmp_path / "t", shallow=shallow)
    files = sorted((tmp_path / "iceberg").rglob("*"))
    table.append(ROWS.slice(0, 1))
    with table.transaction() as changes:
        changes.delete("id = 1")
        changes.rename_column(("price",), "cost")
    table.vacuum(retention_hours=0, retention_check=False)
    assert rows_of(table.to_arrow(columns=["id", "cost"])) == [
        {"id": 2, "cost": Decimal("-2.25")},
        {"id": 3, "cost": None},
    ]
    assert sorted((tmp_path / "iceberg").rglob("*")) == files
    if not shallow:
        shutil.rmtree(tmp_path / "iceberg")
        assert table.to_arrow().num_rows == 2


def test_a_second_clone_takes_what_has_changed_and_a_metadata_file_names_a_snapshot(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    source = made(catalog)
    first = source.metadata_location
    source.overwrite(ROWS.slice(0, 2))
    table = clone(source, tmp_path / "t")
    source.append(ROWS.slice(2))
    report = tahoe.Table(source.location()).clone(tmp_path / "t", source_format="iceberg", replace=True)
    assert (report.copied_files, report.removed_files) == (1, 0)
    assert rows_of(table.to_arrow()) == rows_of(ROWS)
    tahoe.Table(first).clone(tmp_path / "u", source_format="iceberg")
    assert rows_of(tahoe.Table(tmp_path / "u").to_arrow()) == rows_of(ROWS)


def test_a_table_without_rows_or_without_snapshots(catalog: SqlCatalog, tmp_path: Path) -> None:
    source = catalog.create_table("d.t", schema=ROWS.schema)
    assert clone(source, tmp_path / "t").to_arrow().num_rows == 0
    source.append(ROWS)
    source.delete()
    assert clone(source, tmp_path / "t", replace=True).to_arrow().num_rows == 0


def other_partitions(source: IcebergTable, _: Path) -> None:
    with source.update_spec() as spec:
        spec.add_identity("day")
    source.append(ROWS)


def without_ids(source: IcebergTable, place: Path) -> None:
    pq.write_table(ROWS, place / "imported.parquet")
    source.add_files([f"file://{place}/imported.parquet"])


def promoted(source: IcebergTable, _: Path) -> None:
    with source.update_schema() as change:
        change.update_column("id", LongType())


def a_file_gone(source: IcebergTable, _: Path) -> None:
    next(Path(source.location().removeprefix("file://")).rglob("*.parquet")).unlink()


def no_parquet(source: IcebergTable, _: Path) -> None:
    next(Path(source.location().removeprefix("file://")).rglob("*.parquet")).write_text("text")


def a_manifest_gone(source: IcebergTable, _: Path) -> None:
    next(Path(source.location().removeprefix("file://")).rglob("snap-*.avro")).unlink()


def damaged(source: IcebergTable, _: Path) -> None:
    Path(source.metadata_location.removeprefix("file://")).write_text('{"format-version": 2}')


def two_newest(source: IcebergTable, _: Path) -> None:
    newest = Path(source.metadata_location.removeprefix("file://"))
    shutil.copy(newest, newest.with_name(newest.name.split("-")[0] + "-other.metadata.json"))


def no_metadata(source: IcebergTable, _: Path) -> None:
    shutil.rmtree(Path(source.location().removeprefix("file://"), "metadata"))


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[IcebergTable, Path], None]:
    def edit(source: IcebergTable, _: Path) -> None:
        file = Path(source.metadata_location.removeprefix("file://"))
        content = json.loads(file.read_text())
        change(content["schemas"][-1]["fields"][0])
        file.write_text(json.dumps(content))

    return edit


REFUSED: list[tuple[Callable[[IcebergTable, Path], None], type[DeltaError], str]] = [
    (other_partitions, CloneIncompatibleSourceError, "partitioned in different ways"),
    (without_ids, CloneIncompatibleSourceError, "no field ids"),
    (promoted, CloneIncompatibleSourceError, "the column id is int32, from before its type became long"),
    (a_file_gone, CloneFilesMissingError, "1 are missing: file:"),
    (no_parquet, CloneIncompatibleSourceError, "cannot be read as a Parquet file"),
    (a_manifest_gone, CloneIncompatibleSourceError, "a file of its metadata is gone"),
    (damaged, CloneIncompatibleSourceError, "cannot be read"),
    (two_newest, CloneIncompatibleSourceError, "several metadata files of the same number"),
    (no_metadata, CloneUnsupportedSourceError, "without Iceberg metadata"),
    (edited(lambda field: field.update(type="uuid")), UnsupportedDataTypeError, "uuid"),
]


@pytest.mark.parametrize(("change", "error", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", None))
def test_what_delta_readers_would_read_otherwise_is_refused(
    catalog: SqlCatalog,
    tmp_path: Path,
    change: Callable[[IcebergTable, Path], None],
    error: type[DeltaError],
    text: str,
) -> None:
    source = made(catalog)
    change(source, tmp_path)
    with pytest.raises(error, match=text):
        clone(source, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("transform", ["bucket[4]", "truncate[2]", "year", "month", "day", "hour", "unknown"])
def test_partitions_by_a_transform_are_refused_by_its_name_while_files_have_them(
    catalog: SqlCatalog, tmp_path: Path, transform: str
) -> None:
    """pyiceberg writes none of these files by itself, so the metadata says of others that they are."""
    source = made(catalog, "id")
    metadata = Path(source.metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"identity"', f'"{transform}"'))
    with pytest.raises(CloneIncompatibleSourceError, match=re.escape(f"is {transform} of the column with the id 1")):
        clone(source, tmp_path / "t")


def test_a_partitioning_that_no_file_has_is_no_obstacle(catalog: SqlCatalog, tmp_path: Path) -> None:
    source = made(catalog)
    with source.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "bucket")
    assert rows_of(clone(source, tmp_path / "t").to_arrow()) == rows_of(ROWS)


def test_a_partition_value_that_is_no_text_is_refused_by_its_column(catalog: SqlCatalog, tmp_path: Path) -> None:
    rows = ROWS.append_column("part", pa.array([b"a", b"\x00\xff", None]))
    with pytest.raises(
        CloneIncompatibleSourceError, match=r"part = X'00ff', which is not UTF-8.*CREATE TABLE ... AS SELECT"
    ):
        clone(made(catalog, "part", rows=rows), tmp_path / "t")


def test_delete_files_are_refused(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg writes none, so a manifest says of itself that it has them."""
    source = made(catalog)
    manifests = "pyiceberg.manifest.ManifestFile.content"
    monkeypatch.setattr(manifests, property(lambda _: 1))
    with pytest.raises(CloneIncompatibleSourceError, match="delete files"):
        clone(source, tmp_path / "t")


def test_other_wrong_requests(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = made(catalog)
    with pytest.raises(InvalidTimeTravelError, match="not a Delta table"):
        clone(source, tmp_path / "t", version=0)
    with pytest.raises(CloneNestedError):
        clone(source, Path(source.location().removeprefix("file://"), "inside"))
    catalog.create_table("d.times", schema=Schema())
    with catalog.load_table("d.times").update_schema() as change:
        change.add_column("at", TimeType())
    with pytest.raises(UnsupportedDataTypeError, match="time"):
        clone(catalog.load_table("d.times"), tmp_path / "t")
    monkeypatch.setitem(sys.modules, "pyiceberg.serializers", None)
    with pytest.raises(PackageMissingError, match="pip install pyiceberg"):
        clone(source, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@KINDS
def test_an_empty_text_as_partition_value_is_refused(catalog: SqlCatalog, tmp_path: Path, shallow: bool) -> None:
    """In a Delta table it would be NULL."""
    source = made(catalog, "p", rows=pa.table({"id": [1, 2], "p": ["", "x"]}))
    with pytest.raises(CloneIncompatibleSourceError, match="p = ''"):
        clone(source, tmp_path / "t", shallow=shallow)
