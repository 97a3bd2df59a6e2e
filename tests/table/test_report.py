"""`Table.report`: its figures are the table's, its advice follows from them, and odd tables have a page too."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tahoe.errors import CommitGoneError
from tahoe.protocol.configuration.properties import DELETED_FILE_RETENTION
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import CommitInfo, Metadata
from tahoe.table.report import commit_figures, skipping_figures, upkeep
from tahoe.table.report.advice import Advice, advice
from tahoe.table.report.figures import Compaction, Figures, Unneeded, Upkeep
from tahoe.table.table import Table
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env, put_commit

# Those that a page is made of.
ELEMENTS = """
html head meta title style body header main section footer nav h1 h2 h3 p dl dt dd div span small code pre ul li a
figure figcaption table thead tbody tr th td details summary svg rect path text
"""
VECTORS = {"delta.enableDeletionVectors": "true"}


def made() -> Table:
    env = memory_env()
    return Table(env.store.url, env=env)


@pytest.fixture
def table() -> Table:
    """Ten files in two partitions: `n` tells the files apart, and `m` does not. A tenth of the rows is deleted in the
    first file.
    """
    table = made()
    for number in range(5):
        rows = {"n": range(number * 20, number * 20 + 20), "m": [*range(10)] * 2, "p": ["a"] * 10 + ["b"] * 10}
        table.append(pa.table(rows), partition_by=["p"], properties=VECTORS if number == 0 else None)
    with table.transaction() as changes:
        changes.delete("n = 3")
    return table


def test_the_figures_are_those_of_the_table(table: Table) -> None:
    figures, listing = table.report().figures, table.files()
    assert (figures.version, figures.files, figures.size_bytes) == (5, 10, sum(listing["size_bytes"].to_pylist()))
    assert (figures.rows.count, figures.rows.deleted, figures.rows.files_with_deleted) == (
        table.to_arrow().num_rows,
        1,
        1,
    )
    assert figures.rows.deleted_share == 0.01
    assert [(bar.low, bar.high) for bar in figures.rows.deleted_shares.bars if bar.count] == [(1000, 2500)]
    assert "10 to 25\u00a0%" in table.report().html
    assert (figures.file_sizes.count, figures.file_rows.count, figures.file_rows.median) == (10, 10, 10)
    assert figures.file_sizes.largest == max(listing["size_bytes"].to_pylist())
    assert (figures.files_without_statistics, figures.files_with_wide_bounds) == (0, 1)
    assert figures.partitions is not None
    assert {(found.values, found.files, found.rows) for found in figures.partitions.largest} == {
        (("p=a",), 5, 49),
        (("p=b",), 5, 50),
    }
    assert sum(found.size_bytes for found in figures.partitions.largest) == figures.size_bytes


def test_growth_and_commits_are_those_of_the_log(table: Table) -> None:
    figures = table.report().figures
    assert [(entry.version, entry.files) for entry in figures.growth] == [
        (0, 2),
        (1, 4),
        (2, 6),
        (3, 8),
        (4, 10),
        (5, 10),
    ]
    assert figures.growth[-1].size_bytes == figures.size_bytes
    assert figures.commits is not None
    assert (figures.commits.count, figures.commits.read, dict(figures.commits.operations)) == (
        6,
        6,
        {"WRITE": 5, "DELETE": 1},
    )
    times = [entry["timestamp"].timestamp() * 1000 for entry in table.history()]
    periods = figures.commits.periods
    assert periods[0].start_ms <= min(times) <= max(times) < periods[-1].end_ms
    assert sum(sum(period.operations.values()) for period in periods) == 6


def test_the_report_of_an_older_version_is_about_that_version_and_has_no_advice(table: Table) -> None:
    made = table.report(version=1)
    assert (made.figures.version, made.figures.files, made.figures.rows.deleted) == (1, 4, 0)
    assert [entry.version for entry in made.figures.growth] == [0, 1]
    assert made.figures.commits is not None
    assert made.figures.commits.last_version == 1
    assert (made.figures.upkeep, made.advice) == (None, [])
    assert "What to do" not in made.html


def skipped(table: Table) -> dict[str, tuple[float, float]]:
    return {
        ".".join(found.column): (found.equality_skipped, found.range_skipped)
        for found in table.report().figures.skipping.columns
    }


def test_a_column_that_tells_files_apart_skips_all_but_one_and_another_skips_none(table: Table) -> None:
    found = skipped(table)
    assert found["n"] == (0.9, 0.9)
    assert found["m"] == (0.0, 0.0)
    assert found["p"] == (0.5, 0.5)


def test_the_share_that_is_skipped_is_what_queries_of_the_rows_see() -> None:
    """Files of different sizes whose ranges overlap: a query for the value of a row skips as many files as the report
    says, on average.
    """
    table = made()
    for number in range(24):
        start, rows = number * 50 % 700, 20 + number % 7 * 30
        table.append(pa.table({"n": range(start, start + rows), "s": [f"{start + at:05}" for at in range(rows)]}))
    snapshot, found = table.snapshot(), skipped(table)
    values = table.to_arrow()["n"].to_pylist()[::7]
    truth = sum(24 - snapshot.scan(f"n = {value}").kept_files for value in values) / (24 * len(values))
    assert found["n"][0] == pytest.approx(truth, abs=0.02)
    assert found["s"][0] == pytest.approx(truth, abs=0.04)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("decimal", pa.array([1, 2, 3], pa.decimal128(38, 10))),
        ("date", pa.array([dt.date(1, 1, 1), dt.date(2026, 1, 1), dt.date(9999, 12, 31)])),
        ("timestamp", pa.array([0, 10**15, 10**16], pa.timestamp("us", "UTC"))),
        ("timestamp_ntz", pa.array([0, 10**15, 10**16], pa.timestamp("us"))),
        ("double", pa.array([-1.7e308, 0.0, 1.7e308])),
        ("float", pa.array([-1, 0, 1], pa.float32())),
        ("byte", pa.array([-128, 0, 127], pa.int8())),
        ("string", pa.array(["", "m", "\U0010ffff"])),
    ],
)
def test_every_type_with_bounds_has_figures(name: str, values: pa.Array) -> None:
    table = made()
    for value in values:
        table.append(pa.table({"a.`b": pa.array([value] * 4, values.type)}))
    assert str(table.schema.fields[0].type).startswith(name)
    assert skipped(table) == {"a.`b": (pytest.approx(2 / 3), pytest.approx(2 / 3))}


def test_columns_without_bounds_are_told_apart_from_columns_that_skip_nothing() -> None:
    table = made()
    table.append(
        pa.table(
            {
                "n": [1],
                "b": [True],
                "raw": [b"x"],
                "nan": [float("nan")],
                "list": [[1]],
                "nothing": pa.nulls(1, pa.int64()),
            }
        )
    )
    skipping = table.report().figures.skipping
    assert [found.column for found in skipping.columns] == [("n",)]
    assert skipping.unbounded_columns == 5


def test_of_many_files_a_sample_is_looked_at_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    env = memory_env()
    stats = '{"numRecords":10,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'
    log = make_log([[add(f"f{n}", stats=stats % (n * 10, n * 10 + 9)) for n in range(400)]], env)
    table = Table(log.url, env=env)
    table.create_checkpoint()
    monkeypatch.setattr(skipping_figures, "FILES_MAX", 200)
    again = Table(log.url, env=env).report()
    assert (again.figures.files, again.figures.skipping.files) == (400, 200)
    assert again.figures.skipping.columns[0].equality_skipped == pytest.approx(0.995)
    assert "200 of the 400 files, chosen at random" in again.html


def test_of_a_long_log_some_commits_are_read_and_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    for number in range(60):
        table.append(pa.table({"id": [number]}))
    monkeypatch.setattr(commit_figures, "COMMITS_MAX", 20)
    report = table.report()
    commits, growth = report.figures.commits, report.figures.growth
    assert commits is not None
    assert (commits.count, commits.read, dict(commits.operations)) == (60, 20, {"WRITE": 60})
    assert sum(sum(period.operations.values()) for period in commits.periods) == 60
    assert all(entry.files == entry.version + 1 for entry in growth)  # from version checksums
    assert 20 <= len(growth) <= 21
    assert growth[-1].version == 59
    assert "20 of 60 commits were read" in report.html


def test_growth_is_that_of_checksums_if_metadata_cleanup_deletes_the_first_versions_meanwhile(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: object) -> None:
        raise CommitGoneError(table=table.url, version=0, detail="it was deleted")

    whole = table.report().figures.growth
    monkeypatch.setattr(commit_figures, "_from_commits", gone)
    assert table.report().figures.growth == whole


def test_rare_operations_are_counted_together_over_time_but_not_in_total() -> None:
    commits = [[CommitInfo({"operation": f"OPERATION {min(number, 8)}"})] for number in range(20)]
    log = make_log(commits)
    report = Table(log.url, env=log.env).report()
    assert report.figures.commits is not None
    assert len(report.figures.commits.operations) == 9
    assert {name for period in report.figures.commits.periods for name in period.operations} >= {
        "OPERATION 8",
        "others",
    }
    assert "<code>OPERATION 3</code>" in report.html


# --- odd tables


def test_an_empty_table_has_a_page() -> None:
    table = made()
    table.append(pa.table({"id": pa.array([], pa.int64())}))
    report = table.report()
    assert (report.figures.files, report.figures.rows.count, report.advice) == (0, 0, [])
    assert "it is empty" in report.html


def test_a_table_without_statistics_has_a_page_and_is_told_to_compute_them() -> None:
    log = make_log([[add("f1", size_bytes=10), add("f2", size_bytes=30)]])
    report = Table(log.url, env=log.env).report()
    assert (report.figures.rows.count, report.figures.files_without_statistics, report.figures.file_rows.unknown) == (
        None,
        2,
        2,
    )
    assert report.figures.skipping.columns == []
    assert "Compute missing statistics" in [found.title for found in report.advice]
    assert "No file has statistics" in report.html


def test_a_log_of_which_the_beginning_is_gone_says_so(table: Table) -> None:
    table.create_checkpoint()
    for version in range(5):
        table.env.store.delete(log_files.commit_key(version))
    report = Table(table.url, env=table.env).report()
    assert [entry.version for entry in report.figures.growth] == [5]
    assert "The log begins with version 5" in report.html
    table.env.store.delete(log_files.commit_key(5))
    report = Table(table.url, env=table.env).report()
    assert (report.figures.commits, report.figures.files) == (None, 10)
    assert "only checkpoints" in report.html


def test_a_log_with_any_times_and_sizes_has_a_page() -> None:
    """A wrong writer leaves the last time of the calendar, sizes that no file has, and operations that are no text."""
    metadata = Metadata(
        id="t", schema_string=METADATA.schema_string, configuration={"delta.enableInCommitTimestamps": "true"}
    )
    protocol = PROTOCOL.replace(writer_version=7, writer_features=frozenset({"inCommitTimestamp"}))
    env = memory_env()
    put_commit(
        env,
        0,
        [CommitInfo({"inCommitTimestamp": 1, "operation": "<b>"}), protocol, metadata, add("f", size_bytes=2**62)],
    )
    put_commit(
        env, 1, [CommitInfo({"inCommitTimestamp": 253_402_300_799_999, "operation": ["x"]}), add("g", size_bytes=0)]
    )
    report = Table(env.store.url, env=env).report()
    assert report.figures.commits is not None
    assert report.figures.commits.count == 2
    assert "9999-12-31" in report.html
    assert "<b>" not in report.html


def test_names_and_values_of_a_table_are_text_on_its_page() -> None:
    table = made()
    hostile = "<script>alert(1)</script>\u202e\"'&`"
    rows = pa.table({hostile: [1, 2], "p" + hostile: [hostile, None], "s": [{hostile: 1}] * 2})
    table.append(rows, partition_by=["p" + hostile], properties={"delta.columnMapping.mode": "name"})
    with table.transaction(operation=hostile) as changes:
        changes.append(rows)
    html = table.report().html
    assert "<script" not in html
    assert "\u202e" not in html
    assert set(re.findall(r"<([a-z0-9]+)", html)) <= set(ELEMENTS.split())
    assert re.findall(r'(?:src|href)="(?!#)', html) == []


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(table: Table) -> None:
    report = table.report()
    assert report._repr_html_().startswith("<iframe srcdoc=")
    assert "<!DOCTYPE" not in report._repr_html_()


# --- what maintenance would do


def test_what_optimize_would_do_is_what_it_does(table: Table) -> None:
    found = table.report().figures.upkeep
    assert found is not None
    assert isinstance(found.compaction, Compaction)
    done = table.optimize()
    assert (found.compaction.files, found.compaction.size_bytes) == (len(done.removed_bytes), sum(done.removed_bytes))
    assert (found.compaction.new_files, found.compaction.worn_files) == (len(done.added_bytes), 1)
    after = table.report().figures.upkeep
    assert after is not None
    assert isinstance(after.compaction, Compaction)
    assert after.compaction.files == 0


def test_what_vacuum_would_free_is_what_it_frees(table: Table) -> None:
    table.optimize()
    with table.transaction() as changes:
        changes.set_properties({DELETED_FILE_RETENTION.name: "interval 0 seconds"})
    found = table.report()
    assert found.figures.upkeep is not None
    unneeded = found.figures.upkeep.unneeded
    assert isinstance(unneeded, Unneeded)
    assert "VACUUM" in found.advice[-1].sql
    done = table.vacuum()
    assert (unneeded.files, unneeded.size_bytes) == (len(done.files), done.size_bytes)
    assert unneeded.files >= 10


def test_what_tags_hold_back_is_told(table: Table) -> None:
    table.tag("kept", version=2)
    table.optimize()
    with table.transaction() as changes:
        changes.set_properties({DELETED_FILE_RETENTION.name: "interval 0 seconds"})
    report = table.report()
    assert report.figures.upkeep is not None
    unneeded = report.figures.upkeep.unneeded
    assert isinstance(unneeded, Unneeded)
    assert unneeded.held_files == 6
    assert "Tags hold back 6 files" in report.html


def test_what_a_clustered_table_would_do_is_planned_by_its_columns() -> None:
    table = made()
    table.append(pa.table({"n": [1], "m": [1]}), properties={"delta.targetFileSize": "2kb"})
    with table.transaction() as changes:
        changes.cluster_by([("n",)])
    for number in range(12):
        table.append(pa.table({"n": [number], "m": [1]}))
    found = table.report()
    assert found.figures.upkeep is not None
    assert isinstance(found.figures.upkeep.compaction, Compaction)
    assert (found.figures.upkeep.compaction.files, found.figures.upkeep.compaction.order) == (13, ("n",))
    assert found.figures.upkeep.compaction.new_files == 4  # 6 KB in files of 2 KB, or a little more
    assert [column.is_clustering for column in found.figures.skipping.columns] == [True, False]
    assert "ordered by n" in found.advice[0].reason


@pytest.mark.parametrize(
    ("limit", "told"), [("LISTED_FILES_MAX", "more than a report lists"), ("COMMITS_MAX", "more than a report reads")]
)
def test_what_would_take_too_long_is_left_out_with_the_reason(
    table: Table, monkeypatch: pytest.MonkeyPatch, limit: str, told: str
) -> None:
    monkeypatch.setattr(upkeep, limit, 3)
    report = table.report()
    assert report.figures.upkeep is not None
    assert told in str(report.figures.upkeep.unneeded)
    assert told in report.html


def test_a_table_that_tahoe_cannot_write_has_a_report_with_the_reason() -> None:
    protocol = PROTOCOL.replace(writer_version=7, writer_features=frozenset({"fromTheFuture"}))
    log = make_log([[], [protocol, add("f")]])
    report = Table(log.url, env=log.env).report()
    assert report.figures.upkeep is not None
    assert "fromTheFuture" in str(report.figures.upkeep.compaction)
    assert "was not planned" in report.html


def test_a_property_with_an_invalid_value_is_the_reason_for_a_figure_that_is_missing() -> None:
    metadata = METADATA.replace(
        configuration={"delta.targetFileSize": "large", "delta.deletedFileRetentionDuration": "long"}
    )
    log = make_log([[], [metadata, add("f")]])
    found = Table(log.url, env=log.env).report().figures.upkeep
    assert found is not None
    assert "delta.targetFileSize" in str(found.compaction)
    assert "delta.deletedFileRetentionDuration" in str(found.unneeded)


# --- advice


@pytest.fixture
def figures(table: Table) -> Figures:
    """Those of a table with nothing to do."""
    found = table.report().figures
    idle = Upkeep(
        compaction=Compaction(files=0, size_bytes=0, new_files=0, small_files=0, worn_files=0, target_bytes=1 << 30),
        unneeded=Unneeded(files=0, size_bytes=0, retention_hours=168),
    )
    return replace(found, upkeep=idle, partitions=None, partition_columns=(), files=1000, size_bytes=10**12)


def changed(figures: Figures, **compaction: Any) -> Figures:
    assert figures.upkeep is not None
    assert isinstance(figures.upkeep.compaction, Compaction)
    return replace(figures, upkeep=replace(figures.upkeep, compaction=replace(figures.upkeep.compaction, **compaction)))


def titles(found: list[Advice]) -> list[str]:
    return [each.title for each in found]


def test_a_table_in_good_order_gets_no_advice_but_about_the_order_of_its_rows(figures: Figures) -> None:
    apart = [replace(column, range_skipped=0.99) for column in figures.skipping.columns]
    assert advice(replace(figures, skipping=replace(figures.skipping, columns=apart))) == []


def test_small_files_are_combined_only_if_few_are_left(figures: Figures) -> None:
    assert titles(advice(changed(figures, files=900, size_bytes=5 * 10**9, new_files=5)))[0] == "Combine small files"
    assert "Combine small files" not in titles(advice(changed(figures, files=900, new_files=800)))
    assert "Combine small files" not in titles(advice(changed(figures, files=4, new_files=1)))
    (found, *_) = advice(changed(figures, files=900, size_bytes=5 * 10**9, new_files=5))
    assert (
        "rewrite 900 files (5.0 GB) as about 5 files of up to 1.1 GB, which leaves 105 files instead of 1,000"
        in found.reason
    )


def test_deleted_rows_are_removed_where_they_are_many(figures: Figures) -> None:
    (found, *_) = advice(changed(figures, files=2, new_files=2, worn_files=1))
    assert found.title == "Remove deleted rows from files"
    assert "mark 1 row in 1 file, 1\u00a0% of the rows in files" in found.reason


def test_vacuum_is_worth_a_word_from_a_hundredth_of_the_table_on(figures: Figures) -> None:
    assert figures.upkeep is not None
    much, little = (
        replace(figures.upkeep, unneeded=Unneeded(files=7, size_bytes=size, retention_hours=168))
        for size in (10**11, 10**9)
    )
    (found, *_) = advice(replace(figures, upkeep=much))
    assert (
        "delete 7 files and free 100.0 GB, 10\u00a0% of the table's size. No version of the last 7 days and no tagged"
        in found.reason
    )
    assert "VACUUM" not in str(advice(replace(figures, upkeep=little)))


def test_rows_are_ordered_by_columns_that_skip_little(figures: Figures) -> None:
    figures = replace(figures, skipping=replace(figures.skipping, files=1000))
    (found,) = advice(figures)
    name = f"delta.`{figures.table}`"
    assert found.sql == f"ALTER TABLE {name} CLUSTER BY (`m`);\nOPTIMIZE {name} FULL"
    assert "by m reads 100\u00a0% of the files" in found.reason
    assert "about 11 of 1,000" in found.reason
    partitioned = replace(figures, partition_columns=("p",))
    (found,) = advice(partitioned)
    assert (found.sql, found.command) == (
        f"OPTIMIZE {name} ZORDER BY (`m`)",
        f"tahoe optimize {figures.table} --zorder-by '`m`'",
    )
    assert advice(replace(figures, clustering_columns=("n",))) == []
    assert advice(replace(figures, files=8)) == []


def test_many_small_partitions_become_clustering_columns(table: Table, figures: Figures) -> None:
    found = table.report().figures.partitions
    assert found is not None
    many = replace(
        figures, partitions=replace(found, count=2000), partition_columns=("p",), files=2000, size_bytes=10**9
    )
    (told,) = advice(many)
    name = f"delta.`{figures.table}`"
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    assert told.sql == f"REPLACE TABLE {name} USING delta CLUSTER BY (`p`) {properties} AS SELECT * FROM {name}"
    assert "2,000 partitions with 500.0 kB on average" in told.reason
    assert advice(replace(many, size_bytes=10**13)) == []


def test_a_table_is_named_so_that_statements_and_shells_take_it(figures: Figures) -> None:
    odd = replace(changed(figures, files=100, new_files=1), table="file:///a b/it's `x`")
    found = advice(odd)[0]
    assert found.sql == "OPTIMIZE delta.`/a b/it's ``x```"
    assert found.command == """tahoe optimize '/a b/it'"'"'s `x`'"""
