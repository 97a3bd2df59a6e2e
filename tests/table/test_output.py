"""Rows leave a table as batches, data frames and Arrow streams: all of them, with deleted rows left out, and no file
read too early.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ColumnNotFoundError, DataFileMissingError, PackageMissingError, VersionNotFoundError
from tests.table.builders import memory_env

VECTORS = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}


@pytest.fixture
def table() -> tahoe.Table:
    """Ten rows and one more, partitioned, with renamed columns, of which three rows are deleted by vectors."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"n": list(range(10)), "p": ["a"] * 10}), partition_by=["p"], properties=VECTORS)
    table.append(pa.table({"n": [100], "p": ["b"]}))
    with table.transaction() as changes:
        changes.delete("n between 3 and 5")
        changes.rename_column(("n",), "number")
    return table


LIVE = [0, 1, 2, 6, 7, 8, 9, 100]


def test_every_way_out_gives_the_same_rows(table: tahoe.Table) -> None:
    assert sorted(table.to_arrow()["number"].to_pylist()) == LIVE
    assert sorted(table.to_pandas()["number"]) == LIVE
    assert sorted(table.to_polars()["number"]) == LIVE
    assert sorted(table.to_batches().read_all()["number"].to_pylist()) == LIVE
    assert sorted(pl.DataFrame(table)["number"]) == LIVE
    assert sorted(pa.table(table)["number"].to_pylist()) == LIVE
    assert (table.count(), table.count("p = 'a'"), table.count("number > 8")) == (8, 7, 2)


def test_duckdb_finds_a_table_by_its_variable(tmp_path: Path) -> None:
    t = tahoe.Table(tmp_path / "t")
    t.append(pa.table({"n": [1, 2]}))
    snapshot, scan = t.snapshot(), t.scan("n > 1")
    assert duckdb.sql("from t").fetchall() == [(1,), (2,)]
    assert duckdb.sql("select * from snapshot").fetchall() == [(1,), (2,)]
    assert duckdb.sql("select * from scan").fetchall() == [(2,)]
    assert (snapshot.version, scan.kept_files) == (0, 1)


def test_versions(table: tahoe.Table) -> None:
    assert (table.count(version=0), table.count(version=1), table.count()) == (10, 11, 8)
    assert table.to_polars(["n"], "n > 8", version=0).rows() == [(9,)]
    assert table.head(2, version=0).num_rows == 2
    with pytest.raises(VersionNotFoundError):
        table.to_batches(version=9)


def test_head_and_limit(table: tahoe.Table) -> None:
    assert [table.head(n).num_rows for n in (0, 3, 8, 99)] == [0, 3, 8, 8]
    assert sum(batch.num_rows for batch in table.to_batches(limit=4)) == 4
    assert table.head(4, []).num_rows == 4
    assert table.head(0).schema == table.to_arrow().schema


def test_columns_are_checked_before_a_batch_is_read(table: tahoe.Table) -> None:
    with pytest.raises(ColumnNotFoundError):
        table.to_batches(["none"])


def test_no_column(table: tahoe.Table) -> None:
    """The number of rows is lost where no column is read."""
    assert table.to_arrow([]).num_rows == 8
    assert sum(batch.num_rows for batch in table.to_batches([])) == 8


def test_partition_columns_alone(table: tahoe.Table) -> None:
    assert sorted(table.to_batches(["p"]).read_all()["p"].to_pylist()) == ["a"] * 7 + ["b"]


def test_an_empty_table(tmp_path: Path) -> None:
    t = tahoe.Table(tmp_path / "t")
    t.append(pa.table({"n": pa.array([], pa.int64())}))
    assert (t.count(), t.head().num_rows, t.to_pandas().shape, pl.DataFrame(t).shape) == (0, 0, (0, 1), (0, 1))
    assert duckdb.sql("from t").fetchall() == []


def test_files_are_read_when_their_rows_are_asked_for(table: tahoe.Table) -> None:
    """A large table does not fit into memory; and an error in a later file is told as it is."""
    batches = iter(table.to_batches())
    first, last = (path for path in table.files()["path"].to_pylist())
    assert next(batches).num_rows > 0
    for path in (first, last):
        table.env.store.delete(path)
    with pytest.raises(DataFileMissingError):
        list(batches)


def test_count_without_statistics(tmp_path: Path) -> None:
    """Rows are counted in the files where the log has no counts."""
    t = tahoe.Table(tmp_path / "t")
    t.append(pa.table({"n": [1, 2, 3]}))
    with t.transaction() as changes:
        changes._draft.restate(add.replace(stats=None) for add in t.snapshot().live.adds())
    assert t.snapshot().scan().num_records.null_count == 1
    assert t.count() == 3


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_not_installed(package: str, table: tahoe.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PackageMissingError, match=f"pip install {package}"):
        getattr(table, f"to_{package}")()


def test_a_table_shows_itself(table: tahoe.Table) -> None:
    """In a notebook a snapshot is a page of field values, or text of the table is taken for markup."""
    with table.transaction() as changes:
        changes.rename_column(("number",), "<b>&")
    snapshot = table.snapshot()
    assert repr(snapshot) == f"Snapshot({table.url!r}, version=3)"
    assert repr(table) == f"Table({table.url!r})"
    assert len(repr(snapshot.scan("p = 'a'"))) < 200
    html = table._repr_html_()
    assert html == snapshot._repr_html_()
    for part in (table.url, "&lt;b&gt;&amp;", "<td>8</td>", "<td>2</td>", "RENAME COLUMN", "WRITE", "partitioned by"):
        assert part in html
    assert ">name<" not in html
    assert "<td>main.sales</td>" in table._repr_html_("main.sales")


def test_a_table_that_cannot_be_read_shows_why(table: tahoe.Table) -> None:
    """A cell of a notebook that ends with a table fails, because the table was dropped or its log is damaged."""
    snapshot = table.snapshot()
    table.env.store.put("_delta_log/00000000000000000003.json", b"<no json>")
    table.env.store.delete("_delta_log/00000000000000000002.json")
    for shown in (table, tahoe.Table("/none", env=memory_env())):
        assert "[DELTA_" in shown._repr_html_()
        assert "<table>" not in shown._repr_html_()
    for info in list(table.env.store.walk()):
        table.env.store.delete(info.key)
    assert "is not a Delta table" in table._repr_html_()
    assert repr(table) == f"Table({table.url!r})"
    assert snapshot.url in snapshot._repr_html_()


def test_what_is_being_made_tells_what_it_has(table: tahoe.Table) -> None:
    """An unfinished MERGE or transaction shows the address of a Python object."""
    merge = (
        table.merge(pa.table({"number": [1], "p": ["a"]}), on="number")
        .when_matched_update_all("source.p = 'b'")
        .when_not_matched_insert_all()
    )
    assert repr(merge.when_matched_delete()) == (
        f"MergeBuilder({table.url!r}, on `target`.`number` = `source`.`number`, WHEN MATCHED AND … THEN UPDATE SET *, "
        "WHEN MATCHED THEN DELETE, WHEN NOT MATCHED THEN INSERT *)"
    )
    with table.transaction() as changes:
        changes.delete("number = 1")
        assert repr(changes) == f"Transaction({table.url!r}, open: DELETE)"
    assert repr(changes) == f"Transaction({table.url!r}, committed as version 3: DELETE)"


def test_reports_are_short(table: tahoe.Table) -> None:
    """A cell that ends with VACUUM prints a million paths."""
    optimized = table.optimize()
    assert repr(optimized) == (
        f"OptimizeReport(version=3, rewritten: 1 of 2 files ({optimized.removed_bytes[0]:,} bytes) "
        f"as 1 file ({optimized.added_bytes[0]:,} bytes))"
    )
    vacuumed = table.vacuum(0, retention_check=False, dry_run=True)
    assert repr(vacuumed) == f"VacuumReport({table.url!r}, would be deleted: 1 file of {vacuumed.size_bytes:,} bytes)"
    assert repr(table.report()) == f"TableReport({table.url!r}, version=3)"
