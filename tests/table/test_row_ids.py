"""Row ids and row commit versions without Spark: what the log and the data files say of each row."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ColumnNotFoundError
from tahoe.table.verify.check import check_table
from tests.spark.foreign import adds_of, mark, track
from tests.table.damage import with_statistics

FIELDS = [
    "_metadata.row_id",
    "_metadata.base_row_id",
    "_metadata.default_row_commit_version",
    "_metadata.row_commit_version",
]
KEPT = [(7, None), (None, 3), (None, None), (9, 2)]
EXPECTED = [(7, 1000, 10, 10), (1001, 1000, 10, 3), (1002, 1000, 10, 10), (9, 1000, 10, 2)]


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "t")
    tahoe.Table(path).append(pa.table({"id": [0, 1, 2, 3], "p": ["a"] * 4}), partition_by=["p"])
    return path


def rows(path: str, filter: str | None = None) -> list[tuple[int | None, ...]]:
    found = tahoe.Table(path).to_arrow(columns=FIELDS, filter=filter)
    assert found.schema == pa.schema([(name, pa.int64()) for name in FIELDS])
    return [tuple(row.values()) for row in found.to_pylist()]


def test_what_rows_brought_with_them_comes_first(path):
    track(path, {0: KEPT})
    assert rows(path) == EXPECTED
    assert tahoe.Table(path).to_arrow(columns=["_metadata.row_id", "p", "id"]).column_names == [
        "_metadata.row_id",
        "p",
        "id",
    ]
    assert tahoe.Table(path).to_arrow(columns=["_metadata.row_id"] * 2).column_names == ["_metadata.row_id"] * 2
    assert tahoe.Table(path).to_arrow().column_names == ["id", "p"]


def test_files_that_keep_nothing(path):
    track(path)
    assert rows(path) == [(1000 + i, 1000, 10, 10) for i in range(4)]


def test_files_without_a_base_row_id(path):
    track(path, {0: KEPT}, without=[0])
    assert rows(path) == [(7, None, None, None), (None, None, None, 3), (None, None, None, None), (9, None, None, 2)]


def test_places_are_those_in_the_file(path):
    """Rows that a vector marks, or that a filter leaves out, have their places."""
    track(path, {0: KEPT})
    mark(path, {0: [0, 1]})
    assert rows(path) == EXPECTED[2:]
    assert rows(path, "id = 3") == EXPECTED[3:]


def test_without_row_tracking_there_is_no_such_column(path):
    with pytest.raises(ColumnNotFoundError, match=r"_metadata\.row_id"):
        tahoe.Table(path).to_arrow(columns=["_metadata.row_id"])
    assert tahoe.Table(path).files().select(["base_row_id", "default_row_commit_version"]).to_pylist() == [
        {"base_row_id": None, "default_row_commit_version": None}
    ]


def test_a_column_of_the_tables_own_by_that_name(tmp_path):
    path = str(tmp_path / "t")
    tahoe.Table(path).append(pa.table({"id": [1], "_metadata.row_id": [5]}))
    track(path)
    assert tahoe.Table(path).to_arrow(columns=["_metadata.row_id", "_metadata.base_row_id"]).to_pylist() == [
        {"_metadata.row_id": 5, "_metadata.base_row_id": 1000}
    ]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_with_such_a_column_are_changed_and_laid_out(tmp_path, vectors):
    """Changes of rows failed, or wrote row ids into the column."""
    table = tahoe.Table(tmp_path / "t")
    properties = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": vectors}
    data = pa.table(
        {"id": [1, 2, 3], "_metadata.row_id": [51, 52, 53], "_METADATA.row_commit_version": ["a", "b", "c"]}
    )
    table.append(data, properties=properties)
    table.update({"id": "id + 10"}, "id = 1")
    table.delete("`_metadata.row_id` = 53")
    source = pa.table({"_metadata.row_id": [52], "id": [20]})
    table.merge(source, on=["_metadata.row_id"]).when_matched_update({"id": "source.id"}).execute()
    table.optimize()
    table.optimize(z_order_by=["`_metadata.row_id`"])
    assert sorted(map(tuple, (row.values() for row in table.to_arrow().to_pylist()))) == [(11, 51, "a"), (20, 52, "b")]
    with table.transaction() as changes:
        changes.set_properties({"delta.columnMapping.mode": "name"})
        changes.rename_column("`_metadata.row_id`", "number")
    found = table.to_arrow(["id", "_metadata.row_id"]).to_pylist()
    assert sorted(map(tuple, (row.values() for row in found))) == [(11, 0), (20, 1)]


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_the_listing_has_what_files_have(path, from_checkpoint):
    track(path, {0: KEPT})
    if from_checkpoint:
        tahoe.Table(path).create_checkpoint()
    table = tahoe.Table(path)
    assert table.files().select(["base_row_id", "default_row_commit_version"]).to_pylist() == [
        {"base_row_id": 1000, "default_row_commit_version": 10}
    ]
    assert [(add.base_row_id, add.default_row_commit_version) for add in adds_of(table.snapshot())] == [(1000, 10)]
    assert rows(path) == EXPECTED


TRACKED = {"delta.enableRowTracking": "true"}


def enabled(table: tahoe.Table) -> tahoe.Table:
    with table.transaction() as changes:
        changes.set_properties(TRACKED)
    return table


def cloned(table: tahoe.Table) -> tahoe.Table:
    table.clone(f"{table.url}-copy", properties=TRACKED)
    return tahoe.Table(f"{table.url}-copy")


@pytest.mark.parametrize(
    "stats", ['{"numRecords":1}', '{"numRecords":9}', "{}", None, '{"numRecords":1,"maxValues":{"id":1}}']
)
@pytest.mark.parametrize("given", [enabled, cloned])
def test_an_id_is_given_once_whatever_statistics_say(tmp_path, given, stats) -> None:
    """Another writer's statistics tell fewer rows than a file has: the next file would get ids that rows of it have."""
    table = tahoe.Table(tmp_path / "t")
    for first in (0, 3):
        table.append(pa.table({"id": [first, first + 1, first + 2]}))
        with_statistics(table.env, table.snapshot().version, stats)
    changed = given(tahoe.Table(tmp_path / "t"))
    changed.append(pa.table({"id": [6]}))
    ids = changed.to_arrow(columns=["_metadata.row_id"]).column(0).to_pylist()
    assert len(set(ids)) == 7, ids
    assert list(check_table(changed.log)) == []
    assert changed.count("id >= 0") == 7


def test_a_file_that_is_gone_is_counted_by_its_statistics(tmp_path) -> None:
    """RESTORE with ignore_missing_files into a tracked table was refused: the file has no footer, and no rows that need
    ids.
    """
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table({"id": [1, 2]}))
    (gone,) = (tmp_path / "t").glob("*.parquet")
    table.overwrite(pa.table({"id": [3]}))
    with table.transaction() as changes:
        changes.set_properties({"delta.enableRowTracking": "true"})
    gone.unlink()
    restored = tahoe.Table(tmp_path / "t")
    restored.restore(0, ignore_missing_files=True)
    (add,) = restored.snapshot().live.adds()
    assert add.base_row_id is not None
