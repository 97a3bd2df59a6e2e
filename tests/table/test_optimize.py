"""OPTIMIZE without Spark: the same rows in fewer files, whatever the table and whoever writes to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import (
    ColumnNotFoundError,
    ConcurrentDeleteDeleteException,
    DataFileMissingError,
    DeltaConcurrentModificationException,
)
from tahoe.protocol.log.actions import Protocol
from tahoe.table.arrow import row_stream
from tahoe.table.layout import optimize as command
from tahoe.table.layout import rewriting
from tahoe.table.layout.compaction import Bin, CompactionSettings, plan_bins
from tahoe.table.layout.optimize import OptimizeReport, OptimizeRequest, rewritten_in_threads
from tahoe.table.layout.rewriting import Rewritten
from tahoe.table.verify.check import check_table
from tahoe.table.writing.write_plan import WritePlan
from tests.table.builders import add, make_log, memory_env, put_commit

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


def numbers(*ids: int) -> pa.Table:
    """Rows of many types."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array([i % 2 for i in ids], pa.int32()),
            "x": pa.array([float("nan") if i % 3 == 0 else i / 7 for i in ids], pa.float64()),
            "s": pa.array([None if i % 5 == 0 else f"s{i}" for i in ids]),
            "n": pa.array([{"a": i, "l": [{"k": "v", "f": i / 2}]} for i in ids]),
            "m": pa.array([[("k", i)] for i in ids], pa.map_(pa.string(), pa.int64())),
            "t": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", "UTC")),
        }
    )


def made(
    commits: Sequence[pa.Table], partition_by: Sequence[str] = (), properties: dict[str, str] | None = None
) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    for rows in commits:
        table.append(rows, partition_by=partition_by or None, properties=properties or {})
    return table


def sorted_rows(table: tahoe.Table, *columns: str) -> list[dict[str, Any]]:
    names = [*table.schema.names, *columns]
    return sorted(table.to_arrow(columns=names).to_pylist(), key=lambda row: row["id"])


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    return repr(one) == repr(other)  # NaN is not equal to itself


LAYOUTS = [
    pytest.param((), {}, id="plain"),
    pytest.param(("p",), {}, id="partitions"),
    pytest.param((), VECTORS, id="vectors"),
    pytest.param(("p",), VECTORS | TRACKED | FEED | MAPPED, id="everything"),
    pytest.param((), TRACKED, id="tracked"),
    pytest.param((), MAPPED, id="mapped"),
]


@pytest.mark.parametrize(("partition_by", "properties"), LAYOUTS)
def test_the_rows_stay_the_same_in_fewer_files(partition_by: Sequence[str], properties: dict[str, str]) -> None:
    table = made([numbers(*range(start, start + 10)) for start in range(0, 60, 10)], partition_by, properties)
    with table.transaction() as changes:
        changes.delete("id in (3, 10, 17, 24, 31, 38, 45, 52, 59)")
    tracked = ["_metadata.row_id", "_metadata.row_commit_version"] if table.snapshot().row_tracking else []
    before, files, version = sorted_rows(table, *tracked), table.files().num_rows, table.version
    report = table.optimize()
    after = table.files()
    assert same(sorted_rows(table, *tracked), before)
    assert after.num_rows == (2 if partition_by else 1) < files
    assert table.version == report.version == version + 1
    assert sum(after["deleted_records"].to_pylist()) == 0
    assert sum(after["num_records"].to_pylist()) == len(before)
    assert len(report.removed_bytes) == files
    assert sorted(report.added_bytes) == sorted(after["size_bytes"].to_pylist())
    assert report.rows_purged == (9 if "delta.enableDeletionVectors" in properties else 0)
    assert [*check_table(table.log)] == []


def test_a_second_run_does_nothing() -> None:
    table = made([numbers(1, 2), numbers(3)])
    table.optimize()
    assert table.optimize().version is None
    assert table.version == 2


def test_rows_keep_their_order() -> None:
    table = made([numbers(*range(start, start + 3)) for start in (9, 3, 6, 0)])
    table.optimize()
    (path,) = table.files()["path"].to_pylist()
    with table.env.store.open(path) as file:
        assert pq.read_table(file)["id"].to_pylist() == [9, 10, 11, 3, 4, 5, 6, 7, 8, 0, 1, 2]


def test_the_commit_changes_no_data_and_tells_the_history() -> None:
    table = made([numbers(1), numbers(2)], properties=FEED)
    table.optimize("id > 0", user_metadata="nightly")
    actions = table.log.read_version(2)
    assert {a.data_change for a in actions if hasattr(a, "data_change")} == {False}
    entry = table.history(1)[0]
    assert (entry["operation"], entry["userMetadata"], entry["isolationLevel"]) == (
        "OPTIMIZE",
        "nightly",
        "SnapshotIsolation",
    )
    assert entry["operationParameters"] == {
        "predicate": '["id > 0"]',
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": "false",
    }
    assert {
        name: entry["operationMetrics"][name]
        for name in ("numAddedFiles", "numRemovedFiles", "numDeletionVectorsRemoved")
    } == {
        "numAddedFiles": "1",
        "numRemovedFiles": "2",
        "numDeletionVectorsRemoved": "0",
    }
    assert table.changes(start_version=2).num_rows == 0


def test_a_column_with_nan_has_no_bounds_in_the_new_file() -> None:
    """A reader that compares with the bounds would skip the rows with NaN, which is larger than all numbers."""
    nan = pa.table({"id": [1], "x": [float("nan")]})
    table = made([pa.table({"id": [0], "x": [0.5]}), nan])
    table.optimize()
    assert table.to_arrow(filter="x > 1e300")["id"].to_pylist() == [1]
    (path,) = table.files()["path"].to_pylist()
    with table.env.store.open(path) as file:
        footer = pq.read_metadata(file)
    assert [footer.row_group(0).column(i).is_stats_set for i in (0, 1)] == [True, False]


# --- which files


def sized(table: tahoe.Table, **settings: Any) -> OptimizeReport:
    return table.optimize(dry_run=True, **settings)


def test_bins_hold_live_bytes_up_to_the_target_and_no_partition_mixes() -> None:
    table = made([numbers(*range(10)) for _ in range(8)], ["p"])
    (size,) = {max(table.files()["size_bytes"].to_pylist())}
    report = sized(table, max_file_bytes=3 * size + 10)
    assert (report.bins, len(report.removed_bytes), len(report.partitions)) == (6, 16, 2)
    assert table.version == 7


def test_a_file_with_many_deleted_rows_is_rewritten_alone_and_one_without_rows_removed() -> None:
    table = made([numbers(*range(10)), numbers(*range(10, 20)), numbers(*range(20, 40))], properties=VECTORS)
    with table.transaction() as changes:
        changes.delete("id < 9 or (id >= 10 and id < 20)")
    report = table.optimize(max_file_bytes=1, min_file_bytes=1)
    assert (len(report.removed_bytes), len(report.added_bytes), report.rows_purged) == (1, 1, 9)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [9, *range(20, 40)]


def test_a_share_below_the_limit_stays() -> None:
    table = made([numbers(*range(100)), numbers(*range(100, 200))], properties=VECTORS)
    with table.transaction() as changes:
        changes.delete("id < 5")
    assert table.optimize(max_file_bytes=1, min_file_bytes=1).version is None
    assert table.optimize(max_file_bytes=1, min_file_bytes=1, max_deleted_share=0.04).rows_purged == 5


def test_the_filter_may_name_any_column() -> None:
    table = made([numbers(1, 2), numbers(3, 4), numbers(50, 51), numbers(52, 53)])
    assert len(table.optimize("id < 10").removed_bytes) == 2
    assert table.files().num_rows == 3
    with pytest.raises(ColumnNotFoundError):
        table.optimize("nothing = 1")


def test_the_tables_property_is_the_target() -> None:
    table = made([numbers(*range(10)) for _ in range(4)], properties={"delta.targetFileSize": "1kb"})
    assert table.optimize().version is None
    assert table.optimize(max_file_bytes=1 << 20).version == 4


def test_large_files_are_streamed_in_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "GROUP_BYTES", 4000)
    monkeypatch.setattr(rewriting, "_READ_AHEAD_BYTES_MAX", 0)
    table = made([numbers(*range(start, start + 100)) for start in (0, 100, 200)], properties=TRACKED)
    before = sorted_rows(table, "_metadata.row_id")
    table.optimize()
    assert same(sorted_rows(table, "_metadata.row_id"), before)
    (path,) = table.files()["path"].to_pylist()
    with table.env.store.open(path) as file:
        assert pq.read_metadata(file).num_row_groups > 5


# --- beside other writers


def beside(table: tahoe.Table, rival: Callable[[], object], **settings: Any) -> OptimizeReport:
    """Run OPTIMIZE, with a rival that commits after the bins were rewritten."""

    def rewriter(plan: WritePlan, bins: Sequence[Bin]) -> list[Rewritten | BaseException]:
        done = list(rewritten_in_threads(plan, bins))
        rival()
        return done

    return command.optimize(table, OptimizeRequest(**settings), rewriter=rewriter)


def data_files(table: tahoe.Table) -> set[str]:
    return {file.key for file in table.env.store.walk() if not file.key.startswith("_")}


def test_an_append_meanwhile_disturbs_nobody() -> None:
    table = made([numbers(1), numbers(2)])
    report = beside(table, lambda: table.append(numbers(3)))
    assert (report.version, report.bins_dropped) == (3, 0)
    assert table.to_arrow()["id"].to_pylist() in ([3, 1, 2], [1, 2, 3])


def test_a_new_column_meanwhile_disturbs_nobody() -> None:
    table = made([numbers(1), numbers(2)])
    report = beside(table, lambda: table.append(numbers(3).append_column("new", pa.array(["n"])), merge_schema=True))
    assert (report.version, report.bins_dropped) == (3, 0)
    assert sorted(table.to_arrow(columns=["id", "new"]).to_pylist(), key=lambda r: r["id"]) == [
        {"id": 1, "new": None},
        {"id": 2, "new": None},
        {"id": 3, "new": "n"},
    ]


def test_files_without_their_partition_columns_are_not_added_once_the_table_needs_these() -> None:
    table = made([numbers(1, 3), numbers(5)], ["p"])

    def rival() -> None:
        feature, before = "materializePartitionColumns", table.snapshot()
        protocol = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({feature}))
        metadata = before.metadata.replace(configuration={"delta.enableMaterializePartitionColumnsFeature": "true"})
        put_commit(table.env, before.version + 1, [protocol, metadata])

    with pytest.raises(DeltaConcurrentModificationException):
        beside(table, rival)
    assert len(data_files(table)) == 2


def test_a_bin_with_a_changed_file_is_dropped_and_the_others_committed() -> None:
    table = made([numbers(*range(start, start + 4)) for start in (0, 4, 8)], ["p"])

    def rival() -> None:
        with table.transaction() as changes:
            changes.delete("id = 5")

    report = beside(table, rival)
    assert (report.version, report.bins, report.bins_dropped) == (4, 2, 1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert len(table.files("p = 0")) == 1
    assert len(table.files("p = 1")) == 3
    assert len(data_files(table)) == 8, "the file of the dropped bin is left behind"


def test_if_all_bins_are_lost_the_conflict_is_told_and_no_file_stays() -> None:
    table = made([numbers(1, 2), numbers(3)])

    def rival() -> None:
        with table.transaction() as changes:
            changes.delete("id = 1")

    with pytest.raises(ConcurrentDeleteDeleteException):
        beside(table, rival)
    assert len(data_files(table)) == 3, "two of the start, and one that the rival wrote"


def test_what_was_finished_is_committed_though_another_bin_fails() -> None:
    table = made([numbers(1), numbers(2), numbers(3), numbers(5)], ["p"])
    lost = next(key for key in data_files(table) if "p=0" in key)
    table.append(numbers(4))
    table.env.store.delete(lost)
    with pytest.raises(DataFileMissingError):
        table.optimize()
    assert len(table.files("p = 1")) == 1
    assert table.history(1)[0]["operation"] == "OPTIMIZE"


def test_batches_are_commits_of_their_own() -> None:
    table = made([numbers(*range(10)) for _ in range(4)], ["p"])
    settings = replace(OptimizeRequest().settings, batch_bytes=1)
    report = command.optimize(table, OptimizeRequest(settings=settings))
    assert (report.batches, report.version, len(report.added_bytes)) == (2, 5, 2)


def test_files_without_work_are_planned_by_columns() -> None:
    """No object per file: a plan of many files, none of which needs work, is a few array operations."""
    log = make_log([[add(f"f{i}", size_bytes=2 << 30) for i in range(1000)]])
    snapshot = tahoe.Table(log.url, env=log.env).snapshot()
    assert plan_bins(snapshot.full_scan, CompactionSettings()) == []
    packed = plan_bins(snapshot.full_scan, CompactionSettings(max_file_bytes=10 << 30, min_file_bytes=3 << 30))
    assert sorted(np.concatenate([found.numbers for found in packed])) == list(range(1000))
    assert all(len(found.numbers) == 5 for found in packed)


def test_progress_is_told_in_files_over_all_commits() -> None:
    table = made([numbers(start, start + 1) for start in range(0, 8, 2)], ("p",))
    files, told = table.files().num_rows, list[tuple[int, int]]()
    table.optimize(progress=lambda done, total: told.append((done, total)))
    assert told == [(files // 2, files), (files, files)]


def test_the_report_of_a_dry_run_does_not_tell_of_files_that_were_written() -> None:
    table = made([numbers(1), numbers(2)])
    assert repr(table.optimize(dry_run=True)).startswith("OptimizeReport(dry run: rewrites 2 of 2 files (")
    assert repr(table.optimize()).startswith("OptimizeReport(version=2, rewritten: 2 of 2 files (")
    assert repr(table.optimize(dry_run=True)) == "OptimizeReport(dry run: nothing to do: 1 file considered)"
