"""ANALYZE without Spark: statistics that are missing or wide become those of the live rows, and nothing else
changes.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import ColumnNotFoundError, DataFileMissingError, DeltaProtocolError, MetadataChangedException
from tahoe.protocol.log.actions import Action, Add, Protocol, Remove
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.layout import statistics as command
from tahoe.table.layout.statistics import AnalyzeReport, AnalyzeRequest, compute_statistics, measured_in_threads
from tahoe.table.verify.check import check_table
from tests.table.builders import METADATA, add, make_log, memory_env, put_commit
from tests.table.damage import lives, rewrite, with_statistics

VECTORS = {"delta.enableDeletionVectors": "true"}
NAN = float("nan")


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "s": pa.array([None if i == 3 else f"s{i}" for i in ids]),
            "x": pa.array([i / 2 for i in ids], pa.float64()),
            "n": pa.array([{"d": dt.date(2026, 1, i + 1), "l": [i]} for i in ids]),
        }
    )


def made(*commits: pa.Table, properties: dict[str, str] | None = None) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    for data in commits:
        table.append(data, properties=properties or {})
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table, as another process sees it."""
    return tahoe.Table(table.url, env=table.env)


def stats_of(table: tahoe.Table) -> list[Any]:
    """The statistics of the live files, in the order of their modification."""
    adds = sorted(table.snapshot().live.adds(), key=lambda add: add.modification_time_ms)
    return [None if add.stats is None else json.loads(add.stats) for add in adds]


# --- what is computed


def test_missing_statistics_are_those_that_the_writer_left_out() -> None:
    table = made(rows(1, 2, 3), rows(4, 5))
    expected, before = stats_of(table), table.to_arrow()
    for version in (0, 1):
        with_statistics(table.env, version, None)
    table = again(table)
    assert stats_of(table) == [None, None]
    report = table.compute_statistics()
    assert report == AnalyzeReport(version=2, files_considered=2, files_examined=2, files_updated=2)
    assert stats_of(table) == expected
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(before["id"].to_pylist())
    assert list(check_table(table.log)) == []


def test_wide_bounds_become_those_of_the_live_rows() -> None:
    table = made(rows(1, 2, 3, 4), properties=VECTORS)
    with table.transaction() as changes:
        changes.delete("id in (1, 3)")
    (wide,) = stats_of(table)
    assert (wide["tightBounds"], wide["minValues"]["id"], wide["nullCount"]["s"]) == (False, 1, 1)
    table.compute_statistics()
    (tight,) = stats_of(table)
    assert "tightBounds" not in tight
    assert tight["numRecords"] == 4, "deleted rows are counted"
    assert tight["minValues"] == {"id": 2, "s": "s2", "x": 1.0, "n": {"d": "2026-01-03"}}
    assert tight["maxValues"] == {"id": 4, "s": "s4", "x": 2.0, "n": {"d": "2026-01-05"}}
    assert tight["nullCount"] == {"id": 0, "s": 0, "x": 0, "n": {"d": 0}}
    assert table.files("id = 1").num_rows == table.files("s is null").num_rows == 0
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 4]
    assert list(check_table(table.log)) == []


def test_columns_that_the_properties_name_by_now_get_statistics() -> None:
    table = made(rows(1, 2), properties={"delta.dataSkippingNumIndexedCols": "1"})
    assert stats_of(table)[0]["nullCount"] == {"id": 0}
    with table.transaction() as changes:
        changes.set_properties({"delta.dataSkippingStatsColumns": "s,n"})
    table.compute_statistics()
    assert stats_of(table)[0]["minValues"] == {"s": "s1", "n": {"d": "2026-01-02"}}


def test_columns_have_their_physical_names_and_files_without_a_new_column_are_null_in_it() -> None:
    table = made(rows(1, 2), properties={"delta.columnMapping.mode": "name"})
    table.append(rows(3).append_column("new", pa.array(["n"])), merge_schema=True)
    with table.transaction() as changes:
        changes.rename_column(("s",), "renamed")
    table.compute_statistics()
    new = table.schema.find("new")
    assert new is not None
    first, second = stats_of(table)
    assert first["nullCount"][new.metadata["delta.columnMapping.physicalName"]] == 2
    assert second["nullCount"][new.metadata["delta.columnMapping.physicalName"]] == 0
    assert table.files("renamed = 's1'").num_rows == 1
    assert table.compute_statistics().files_examined == 0


def foreign(table: tahoe.Table, data: pa.Table, **options: Any) -> None:
    """Add a file of another writer, without statistics."""
    out = io.BytesIO()
    pq.write_table(data, out, **options)
    key = f"foreign-{table.version}.parquet"
    table.env.store.put(key, out.getvalue())
    put_commit(
        table.env,
        table.version + 1,
        [add(key, size_bytes=len(out.getvalue()), modification_time_ms=table.env.clock_ms())],
    )


def test_a_writer_that_leaves_nan_out_of_its_bounds_is_not_believed() -> None:
    """A reader that compares with the bounds would skip NaN, which is larger than all numbers."""
    table = made(pa.table({"id": [0], "x": [0.5]}))
    foreign(table, pa.table({"id": [1, 2], "x": [1.0, NAN]}))
    foreign(table, pa.table({"id": [3, 4], "x": [0.0, -1.0]}))
    table.compute_statistics()
    _, with_nan, without = stats_of(table)
    assert (with_nan["minValues"], with_nan["nullCount"]) == ({"id": 1}, {"id": 0, "x": 0})
    assert (without["minValues"]["x"], without["maxValues"]["x"]) == (-1.0, 0.0)
    assert table.to_arrow(filter="x > 1e300")["id"].to_pylist() == [2]
    assert table.compute_statistics().version is None, "the same again is not committed"


def test_a_file_in_another_type_is_measured_in_the_tables_type() -> None:
    table = made(pa.table({"t": pa.array([0], pa.timestamp("us", "UTC")), "n": [1]}))
    moments = pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("ns", "UTC"))
    foreign(table, pa.table({"t": moments, "n": pa.array([7, 8], pa.int32())}), use_deprecated_int96_timestamps=True)
    table.compute_statistics()
    assert stats_of(table)[1] == {
        "numRecords": 2,
        "minValues": {"t": "2026-01-01T00:00:00.000Z", "n": 7},
        "maxValues": {"t": "2026-01-01T00:00:00.000Z", "n": 8},
        "nullCount": {"t": 1, "n": 0},
    }


def test_texts_are_shortened_as_in_new_files() -> None:
    long = "a" * 40
    table = made(pa.table({"s": [long, long + "z"]}), properties={"delta.dataSkippingStringPrefixLength": "5"})
    expected = stats_of(table)
    with_statistics(table.env, 0, None)
    table = again(table)
    table.compute_statistics()
    (found,) = stats_of(table)
    assert [found] == expected
    assert (found["minValues"], found["maxValues"]) == ({"s": "aaaaa"}, {"s": "aaaaa\x7f"})


def test_only_files_that_may_match_the_filter_are_measured() -> None:
    table = made(rows(1, 2), rows(10, 11))
    for version in (0, 1):
        low, high = ((1, 2), (10, 11))[version]
        with_statistics(
            table.env, version, f'{{"numRecords":2,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}}}}'
        )
    table = again(table)
    report = table.compute_statistics("id > 5", user_metadata="nightly")
    assert (report.files_considered, report.files_updated) == (1, 1)
    assert ["nullCount" in stats for stats in stats_of(table)] == [False, True]
    with pytest.raises(ColumnNotFoundError):
        table.compute_statistics("unknown = 1")


def test_complete_statistics_stay_and_nothing_is_read() -> None:
    table = made(rows(1, 2), rows(3))
    for key in [file.key for file in table.env.store.walk() if file.key.endswith(".parquet")]:
        table.env.store.delete(key)
    assert table.compute_statistics() == AnalyzeReport(files_considered=2)
    assert table.version == 1


# --- the commit


def test_the_commit_changes_no_data_and_tells_the_history() -> None:
    table = made(rows(1, 2), properties={"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"})
    with_statistics(table.env, 0, '{"numRecords":2}')
    table = again(table)
    (before,) = table.snapshot().live.adds()
    table.compute_statistics(user_metadata="nightly")
    (after,) = table.snapshot().live.adds()
    assert after.replace(stats=None) == before.replace(stats=None)
    files = [a for a in table.log.read_version(1) if isinstance(a, Add | Remove)]
    assert [(type(a), a.data_change) for a in files] == [(Add, False)]
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationParameters"], entry["userMetadata"]) == (
        "COMPUTE STATS",
        {"predicate": "[]"},
        "nightly",
    )
    assert (entry["isolationLevel"], entry["isBlindAppend"]) == ("SnapshotIsolation", False)
    assert table.changes(start_version=1).num_rows == 0


def test_many_files_are_committed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(*(rows(number) for number in range(5)))
    expected = stats_of(table)
    for version in range(5):
        with_statistics(table.env, version, None)
    monkeypatch.setattr(command, "FILES_PER_COMMIT_MAX", 2)
    table = again(table)
    report = table.compute_statistics()
    assert (report.files_updated, report.version) == (5, 7)
    assert stats_of(table) == expected


def test_a_missing_file_fails_after_what_was_finished_is_committed() -> None:
    table = made(rows(1), rows(2))
    expected = stats_of(table)
    for version in (0, 1):
        with_statistics(table.env, version, None)
    lost = max(table.snapshot().live.adds(), key=lambda add: add.modification_time_ms).path
    table.env.store.delete(lost)
    table = again(table)
    with pytest.raises(DataFileMissingError, match=lost):
        table.compute_statistics()
    assert stats_of(table) == [expected[0], None]


def test_a_table_that_tahoe_must_not_write_is_refused() -> None:
    table = made(rows(1))
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"unheardOf"}))
    put_commit(table.env, 1, [protocol])
    with pytest.raises(DeltaProtocolError):
        table.compute_statistics()


# --- beside other writers


def beside(table: tahoe.Table, rival: Callable[[], object]) -> AnalyzeReport:
    """Run ANALYZE, with a rival that commits once the rows were measured."""

    def measurer(work: Any) -> Any:
        yield from list(measured_in_threads(work))
        rival()

    return compute_statistics(again(table), AnalyzeRequest(), measurer=measurer)


def two_wide_files() -> tahoe.Table:
    table = made(rows(1, 2, 3), rows(4, 5, 6), properties=VECTORS)
    with table.transaction() as changes:
        changes.delete("id in (1, 4)")
    return table


def test_a_file_with_more_deleted_rows_is_left_out_so_that_they_stay_deleted() -> None:
    table = two_wide_files()

    def rival() -> None:
        with table.transaction() as changes:
            changes.delete("id = 2")

    report = beside(table, rival)
    assert (report.version, report.files_updated, report.files_dropped) == (4, 1, 1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [3, 5, 6]
    assert [stats.get("tightBounds", True) for stats in stats_of(table)] == [False, True]
    assert list(check_table(table.log)) == []


@pytest.mark.parametrize("all_of_them", [True, False])
def test_a_file_that_was_removed_or_rewritten_stays_away(all_of_them: bool) -> None:
    table = two_wide_files()
    report = beside(table, lambda: table.optimize() if all_of_them else None)
    assert (report.files_updated, report.files_dropped) == ((0, 2) if all_of_them else (2, 0))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 5, 6]


def restating(table: tahoe.Table, change: Callable[[Add], Add]) -> None:
    """A rival that replaces the entries of all files, as other writers do to give them row ids or tags."""
    base = table.snapshot()
    with Draft(log=table.log, base=base, protocol=base.protocol, metadata=base.metadata, data_change=False) as draft:
        draft.restate(change(add) for add in base.live.adds())
        draft.commit(OperationInfo(operation="ROW TRACKING BACKFILL"))


def test_what_a_winner_adds_to_an_entry_is_not_lost() -> None:
    """A base row id that is given after the entry was read must not disappear with the entry's new statistics."""
    table = two_wide_files()
    report = beside(table, lambda: restating(table, lambda a: a.replace(tags={"k": "v"})))
    assert report.files_dropped == 2
    assert [add.tags for add in table.snapshot().live.adds()] == [{"k": "v"}] * 2


def test_the_conflict_check_sees_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, between the last look at the newest version and the put."""
    table, rivals = two_wide_files(), 0
    put = Draft.commit

    def late(draft: Draft, info: OperationInfo) -> Any:
        nonlocal rivals
        if info.operation == "COMPUTE STATS" and not rivals:
            rivals += 1
            restating(table, lambda a: a.replace(tags={"k": "v"}))
        return put(draft, info)

    monkeypatch.setattr(Draft, "commit", late)
    report = again(table).compute_statistics()
    assert (rivals, report.files_dropped, report.version) == (1, 2, None)
    assert [add.tags for add in table.snapshot().live.adds()] == [{"k": "v"}] * 2


def test_an_append_meanwhile_disturbs_nobody() -> None:
    table = two_wide_files()
    report = beside(table, lambda: table.append(rows(7)))
    assert (report.version, report.files_updated, report.files_dropped) == (4, 2, 0)


def test_other_indexed_columns_meanwhile_are_a_conflict() -> None:
    table = two_wide_files()

    def rival() -> None:
        with table.transaction() as changes:
            changes.set_properties({"delta.dataSkippingNumIndexedCols": "1"})

    with pytest.raises(MetadataChangedException):
        beside(table, rival)


def test_a_delete_that_loses_against_it_keeps_both() -> None:
    """Its deletion vector goes onto the entry with the new statistics, which are wide from then on."""
    table = two_wide_files()
    loser = again(table)
    with loser.transaction() as changes:
        changes.delete("id = 5")
        again(table).compute_statistics()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 6]
    first, second = stats_of(table)
    assert (first.get("tightBounds"), second["tightBounds"], second["minValues"]["id"]) == (None, False, 5)
    assert list(check_table(table.log)) == []


def test_killed_at_any_call_it_leaves_a_whole_table() -> None:
    runs = 0
    for table in lives(two_wide_files().env, lambda table: table.compute_statistics()):
        runs += 1
        assert list(check_table(table.log)) == []
        table.compute_statistics()
        assert [stats.get("tightBounds", True) for stats in stats_of(table)] == [True, True]
        assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 5, 6]
    assert runs > 10


# --- what OPTIMIZE does beside its own work, and what check says


def test_files_without_work_are_chosen_by_columns() -> None:
    schema = Struct((Field(name="id", type=LONG), Field(name="s", type=STRING)))
    whole = '{"numRecords":1,"minValues":{"id":1,"s":"a"},"maxValues":{"id":1,"s":"a"},"nullCount":{"id":0,"s":0}}'
    files: list[Action] = [
        METADATA.replace(schema_string=schema.to_json()),
        *(add(f"f{i}", stats=whole) for i in range(2000)),
    ]
    log = make_log([[], files])
    report = tahoe.Table(log.url, env=log.env).compute_statistics()
    assert report == AnalyzeReport(files_considered=2000)


def test_optimize_computes_statistics_of_files_that_have_none_and_leaves_wide_ones() -> None:
    table = made(rows(1, 2, 3), rows(4, 5, 6), rows(7, 8, 9), properties=VECTORS)
    whole = stats_of(table)
    with_statistics(table.env, 1, None)
    table = again(table)
    with table.transaction() as changes:
        changes.delete("id = 1")
    report = table.optimize(min_file_bytes=1, max_deleted_share=0.9, user_metadata="nightly")
    assert (report.version, report.added_bytes) == (4, ())
    found = stats_of(table)
    assert (found[0]["tightBounds"], found[2]) == (False, whole[2])
    for name in ("minValues", "maxValues"):
        assert found[1][name] == {column: bound for column, bound in whole[1][name].items() if column != "x"}
    assert found[1]["nullCount"] == whole[1]["nullCount"]
    assert (table.history(1)[0]["operation"], table.history(1)[0]["userMetadata"]) == ("COMPUTE STATS", "nightly")
    assert table.optimize(min_file_bytes=1, max_deleted_share=0.9).version is None
    table.compute_statistics()
    assert stats_of(table)[1] == whole[1], (
        "ANALYZE reads the rows for what a footer does not tell: whether there is a NaN"
    )


def test_optimize_does_not_fail_because_of_a_file_that_it_leaves_alone(caplog: pytest.LogCaptureFixture) -> None:
    table = made(rows(1), rows(2))
    with_statistics(table.env, 0, None)
    table = again(table)
    lost = next(add.path for add in table.snapshot().live.adds() if add.stats is None)
    table.env.store.delete(lost)
    assert table.optimize(min_file_bytes=1).version is None
    assert lost in caplog.text


def test_check_compares_tight_bounds_with_the_live_rows() -> None:
    """Bounds that are narrower than the footer's are right if the rows beyond them are deleted, and wrong otherwise."""
    table = made(rows(1, 2, 3, 4), properties=VECTORS)
    with table.transaction() as changes:
        changes.delete("id = 1")
    table.compute_statistics()
    assert list(check_table(table.log)) == []
    rewrite(
        table.env, 2, lambda a: a.replace(stats=str(a.stats).replace('"id":2', '"id":3')) if isinstance(a, Add) else a
    )
    (found,) = check_table(table.log)
    assert found.detail == "the log says that id is at least 3, but the file contains 2"
