"""ZORDER BY and clustered tables without Spark: the same rows in files that queries can tell apart, and no work without
new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import (
    ClusteringWithPredicateError,
    ClusteringWithZOrderError,
    ConcurrentDeleteDeleteException,
    DataFileMissingError,
    DeltaError,
    InvalidArgumentError,
    OptimizeFullNotSupportedError,
    ZOrderColumnNotFoundError,
    ZOrderPartitionColumnError,
    ZOrderStatisticsError,
)
from tahoe.protocol.log.actions import Add
from tahoe.table.layout import laying_out
from tahoe.table.layout.clustering import OrderRequest
from tahoe.table.layout.compaction import Bin, CompactionSettings
from tahoe.table.layout.laying_out import lay_out_in_threads
from tahoe.table.layout.optimize import OptimizeReport, OptimizeRequest, optimize
from tahoe.table.layout.rewriting import Rewritten
from tahoe.table.verify.check import check_table
from tahoe.table.writing.write_plan import WritePlan
from tests.table.builders import memory_env

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, units and pages of few rows, so that rows pass through the temporary file."""
    monkeypatch.setattr(laying_out, "_BATCH_BYTES", 20_000)
    monkeypatch.setattr(laying_out, "_UNIT_BYTES", 10_000)
    monkeypatch.setattr(laying_out, "_SPOOL_BYTES", 50_000)
    monkeypatch.setattr(laying_out, "_PART_ROWS", 50)


def numbers(seed: int, count: int = 300, first: int = 0) -> pa.Table:
    """Rows of many types, in no order: nulls, NaN, heavy duplicates and a correlated column among them."""
    random = np.random.default_rng(seed)
    x = random.random(count)
    number = random.integers(0, 1_000_000, count)
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "p": pa.array(random.integers(0, 2, count), pa.int32()),
            "number": pa.array(number, pa.int64(), mask=random.random(count) < 0.1),
            "near": pa.array(number + random.integers(0, 9, count), pa.int32()),
            "few": pa.array(np.minimum(random.zipf(1.5, count), 5), pa.int16()),
            "x": pa.array(np.where(x < 0.05, np.nan, x), pa.float64(), mask=x > 0.95),
            "s": pa.array([None if n % 13 == 0 else f"s{n:06d} é" for n in number.tolist()]),
            "d": pa.array([date(2020, 1, 1) + timedelta(days=int(n)) for n in random.integers(0, 3000, count)]),
            "t": pa.array(
                [datetime(2020, 1, 1) + timedelta(seconds=int(n)) for n in number], pa.timestamp("us", "UTC")
            ),
            "c": pa.array([Decimal(int(n)) / 100 for n in number], pa.decimal128(12, 2)),
            "flag": pa.array(random.random(count) < 0.2),
            "n": pa.array([None if n % 17 == 0 else {"a": n, "l": [{"k": n}]} for n in number.tolist()]),
            "m": pa.array([[("k", n)] for n in number.tolist()], pa.map_(pa.string(), pa.int64())),
        }
    )


def made(
    commits: Sequence[pa.Table], partition_by: Sequence[str] = (), properties: dict[str, str] | None = None
) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    for rows in commits:
        table.append(rows, partition_by=partition_by or None, properties=properties or {})
    return table


def clustered(
    commits: Sequence[pa.Table], columns: Sequence[str] = ("number",), properties: dict[str, str] | None = None
) -> tahoe.Table:
    table = made(commits, properties=properties)
    with table.transaction() as changes:
        changes.cluster_by([(column,) for column in columns])
    return table


def sorted_rows(table: tahoe.Table) -> str:
    """All rows with what row tracking knows of them. As text, because NaN is not equal to itself."""
    tracked = ["_metadata.row_id", "_metadata.row_commit_version"] if table.snapshot().row_tracking else []
    rows = table.to_arrow(columns=[*table.schema.names, *tracked]).to_pylist()
    return repr(sorted(rows, key=lambda row: row["id"]))


def adds(table: tahoe.Table) -> list[Add]:
    return list(table.snapshot().live.adds())


def read_by(table: tahoe.Table, column: str, values: Sequence[Any]) -> float:
    """The mean share of files that queries for one value read."""
    files = table.files().num_rows
    return float(np.mean([table.files(f"{column} = {value}").num_rows / files for value in values]))


# --- rows


LAYOUTS = [
    pytest.param((), {}, id="plain"),
    pytest.param(("p",), {}, id="partitions"),
    pytest.param((), VECTORS | MAPPED, id="vectors, mapped"),
    pytest.param(("p",), VECTORS | TRACKED | FEED | MAPPED, id="everything"),
    pytest.param((), TRACKED, id="tracked"),
]
COLUMNS = [["number", "s"], ["x"], ["n.a", "d", "flag"], ["few", "t"], ["c", "near", "number"], ["s"]]


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize(("partition_by", "properties"), LAYOUTS)
def test_the_rows_stay_the_same(partition_by: Sequence[str], properties: dict[str, str], turn: int) -> None:
    columns = COLUMNS[(len(properties) + 3 * turn + len(partition_by)) % len(COLUMNS)]
    table = made([numbers(seed, first=300 * seed) for seed in range(4)], partition_by, properties)
    with table.transaction() as changes:
        changes.delete("few = 2")
    before, version = sorted_rows(table), table.version
    size = sum(table.files()["size_bytes"].to_pylist())
    report = table.optimize(z_order_by=columns, max_file_bytes=size // 8)
    files = table.files()
    assert sorted_rows(table) == before
    assert table.version == report.version == version + 1
    assert 5 <= files.num_rows <= 10
    assert sum(files["deleted_records"].to_pylist()) == 0
    assert sum(files["num_records"].to_pylist()) == table.to_arrow().num_rows
    assert max(files["num_records"].to_pylist()) < 2.2 * min(files["num_records"].to_pylist())
    assert [*check_table(table.log)] == []
    if "delta.enableChangeDataFeed" in properties:
        assert table.changes(start_version=table.version).num_rows == 0
    if partition_by:
        assert len(report.partitions) == 2


def test_widened_types_and_added_columns() -> None:
    table = made([pa.table({"id": pa.array(range(100), pa.int32())})], properties={"delta.enableTypeWidening": "true"})
    table.append(pa.table({"id": pa.array([1 << 40, 5], pa.int64()), "more": [1, None]}), merge_schema=True)
    before = sorted_rows(table)
    table.optimize(z_order_by=["id", "more"])
    assert sorted_rows(table) == before
    assert table.files().num_rows == 1


@pytest.mark.parametrize("clusters", [False, True])
def test_tables_without_rows(clusters: bool) -> None:
    table = made([numbers(0)], properties=VECTORS)
    if clusters:
        with table.transaction() as changes:
            changes.cluster_by([("number",)])
    with table.transaction() as changes:
        changes.delete("id >= 0")
    report = table.optimize(z_order_by=[] if clusters else ["number"])
    assert (table.files().num_rows, report.added_bytes) == (0, ())
    assert table.optimize(z_order_by=[] if clusters else ["number"]).version is None


# --- what it is good for


def test_queries_skip_files_by_each_column() -> None:
    table = made([numbers(seed, 2000, 2000 * seed) for seed in range(2)])
    size = sum(table.files()["size_bytes"].to_pylist())
    table.optimize(z_order_by=["number", "d"], max_file_bytes=size // 16)
    rows = table.to_arrow().slice(0, 50)
    assert read_by(table, "number", [n for n in rows["number"].to_pylist() if n is not None]) < 0.35
    assert read_by(table, "d", [f"DATE'{day}'" for day in rows["d"].to_pylist()]) < 0.35


def column_of_file(table: tahoe.Table, path: str, column: str) -> list[Any]:
    with table.env.store.open(path) as file:
        return list(pq.read_table(file)[column].to_pylist())


@pytest.mark.parametrize("column", ["number", "s", "x", "c", "d", "flag"])
def test_one_column_is_a_sort(column: str) -> None:
    """Over all files: nulls first, NaN last."""
    table = made([numbers(seed, first=300 * seed) for seed in range(4)])
    table.optimize(z_order_by=[column], max_file_bytes=sum(table.files()["size_bytes"].to_pylist()) // 5)
    files = [column_of_file(table, path, column) for path in table.files()["path"].to_pylist()]

    def key(value: Any) -> tuple[int, Any]:
        return (0, 0) if value is None else (2, 0) if value != value else (1, value)

    assert all(values == sorted(values, key=key) for values in files)
    ordered = sorted(files, key=lambda values: key(values[0]))
    assert [v for values in ordered for v in map(key, values)] == sorted(key(v) for values in files for v in values)


def test_row_groups_and_pages_of_a_file_are_told_apart() -> None:
    table = made([numbers(0, 3000)])
    table.optimize(z_order_by=["near", "d"])
    (path,) = table.files()["path"].to_pylist()
    with table.env.store.open(path) as file:
        footer = pq.read_metadata(file)
    for name in ("near", "d"):
        place = footer.schema.names.index(name)
        bounds = [footer.row_group(n).column(place).statistics for n in range(footer.num_row_groups)]
        read = [sum(b.min <= b2.min <= b.max for b in bounds) / len(bounds) for b2 in bounds]
        assert len(bounds) > 10
        assert np.mean(read) < 0.6


def test_a_value_heavier_than_a_file_fills_several() -> None:
    table = made([pa.table({"a": [7] * 3000 + list(range(100)), "b": range(3100)})])
    size = sum(table.files()["size_bytes"].to_pylist())
    table.optimize(z_order_by=["a"], max_file_bytes=size // 6)
    records = table.files()["num_records"].to_pylist()
    assert (len(records), sum(records)) == (6, 3100)
    assert max(records) < 800


def test_nan_costs_only_the_files_that_have_it_their_bounds() -> None:
    table = made([numbers(seed, first=300 * seed) for seed in range(4)])
    table.optimize(z_order_by=["x"], max_file_bytes=sum(table.files()["size_bytes"].to_pylist()) // 6)
    stats = [add.stats or "" for add in adds(table)]
    bounded = sum('"x"' in text.partition('"maxValues"')[2].partition("}")[0] for text in stats)
    assert bounded == len(stats) - 1
    assert table.to_arrow(filter="x > 1e300").num_rows == sum(row != row for row in table.to_arrow()["x"].to_pylist())


def test_a_limit_of_rows_cuts_leaves_in_order() -> None:
    table = made([numbers(seed, first=300 * seed) for seed in range(4)])
    optimize(table, OptimizeRequest(order=OrderRequest(zorder_by=(("number",),), max_file_rows=100)))
    files = table.files()
    assert sorted(files["num_records"].to_pylist()) == [100] * 12
    assert read_by(table, "number", [n for n in table.to_arrow()["number"].to_pylist()[::20] if n is not None]) < 0.2


# --- a second run


def test_without_new_rows_nothing_is_done() -> None:
    table = made([numbers(seed, first=300 * seed) for seed in range(3)], ["p"])
    first = table.optimize(z_order_by=["number"])
    assert table.optimize(z_order_by=["NUMBER"]).version is None
    assert table.optimize(z_order_by=["number"], max_file_bytes=20_000).version is not None, (
        "files of another size are asked for"
    )
    assert table.optimize(z_order_by=["number", "s"]).version is not None
    assert first.order is not None
    assert (first.order.names, first.cube_bytes, first.cubes) == (["number"], (), 0)
    rows = numbers(9, 50, 900)
    table.append(rows.set_column(1, "p", pa.array([0] * 50, pa.int32())))
    assert len(table.optimize(z_order_by=["number", "s"]).partitions) == 1, "only the partition with new rows"


def test_many_deleted_rows_are_new_work() -> None:
    table = made([numbers(0)], properties=VECTORS)
    table.optimize(z_order_by=["number"])
    with table.transaction() as changes:
        changes.delete("id < 3")
    assert table.optimize(z_order_by=["number"]).version is None
    with table.transaction() as changes:
        changes.delete("id < 100")
    assert table.optimize(z_order_by=["number"]).rows_purged == 100


def test_the_filter_chooses_files() -> None:
    table = made([numbers(seed, first=300 * seed) for seed in range(3)], ["p"])
    report = table.optimize("p = 1", z_order_by=["number"])
    assert (len(report.partitions), len(report.removed_bytes), report.files_considered) == (1, 3, 3)
    assert table.history(1)[0]["operationParameters"] == {
        "predicate": '["p = 1"]',
        "zOrderBy": '["number"]',
        "clusterBy": "[]",
        "auto": "false",
    }


def test_a_dry_run_changes_nothing() -> None:
    table = made([numbers(0), numbers(1)])
    assert len(table.optimize(z_order_by=["number"], dry_run=True).removed_bytes) == 2
    assert table.version == 1


# --- what is refused, in the reference's order


def test_refusals() -> None:
    table = made([numbers(0)], ["p"], {"delta.dataSkippingNumIndexedCols": "2"})
    refused: list[tuple[type[DeltaError], list[str]]] = [
        (ZOrderPartitionColumnError, ["number", "P"]),
        (ZOrderPartitionColumnError, ["p", "nothing"]),
        (ZOrderColumnNotFoundError, ["near", "nothing"]),
        (ZOrderColumnNotFoundError, ["n.nothing"]),
        (ZOrderStatisticsError, ["near"]),
        (ZOrderStatisticsError, ["m"]),
        (ZOrderStatisticsError, ["n"]),
        (ZOrderStatisticsError, ["flag"]),
        (InvalidArgumentError, ["number,"]),
    ]
    for error, columns in refused:
        with pytest.raises(error, match="memory://"):
            table.optimize(z_order_by=columns)
    with pytest.raises(OptimizeFullNotSupportedError):
        table.optimize(full=True)
    assert table.version == 0
    request = OptimizeRequest(order=OrderRequest(zorder_by=(("near",),), checks_statistics=False))
    assert optimize(table, request).version == 1


def test_refusals_of_clustered_tables() -> None:
    table = clustered([numbers(0)])
    with pytest.raises(ClusteringWithPredicateError, match="id > 1"):
        table.optimize("id > 1")
    with pytest.raises(ClusteringWithZOrderError, match=r"CLUSTER BY \(s\)"):
        table.optimize(z_order_by=["s"])
    with table.transaction() as changes:
        changes.cluster_by([])
    with pytest.raises(OptimizeFullNotSupportedError):
        table.optimize(full=True)
    with pytest.raises(ClusteringWithZOrderError):
        table.optimize(z_order_by=["s"])
    table.append(numbers(1))
    report = table.optimize()
    assert (report.order, len(report.added_bytes)) == (None, 1), "CLUSTER BY NONE: files are compacted"


# --- clustered tables


@pytest.mark.parametrize("properties", [VECTORS | TRACKED | MAPPED, {}], ids=["everything", "plain"])
def test_a_clustered_table_is_clustered_as_it_grows(properties: dict[str, str]) -> None:
    table = clustered([numbers(0, 1500)], ["number", "d"], properties)
    before = sorted_rows(table)
    size = sum(table.files()["size_bytes"].to_pylist()) // 12
    first = table.optimize(max_file_bytes=size)
    assert (sorted_rows(table), first.cubes, first.bins) == (before, 0, 1)
    assert table.files().num_rows >= 12
    (cube,) = {(add.tags or {})["ZCUBE_ID"] for add in adds(table)}
    assert {(add.tags or {})["ZCUBE_ZORDER_BY"] for add in adds(table)} == {'["number","d"]'}
    assert {add.clustering_provider for add in adds(table)} == {"liquid"}
    assert table.optimize(max_file_bytes=size).version is None
    for seed in range(1, 4):
        table.append(numbers(seed, 75, 1500 * seed))
    before = sorted_rows(table)
    second = table.optimize(max_file_bytes=size)
    assert len(second.removed_bytes) == 3, "the large cube stays"
    assert sorted_rows(table) == before
    assert len({(add.tags or {})["ZCUBE_ID"] for add in adds(table)} - {cube}) == 1
    full = table.optimize(full=True, max_file_bytes=size)
    assert (full.cubes, len(full.cube_bytes)) == (2, len(full.removed_bytes))
    assert sorted_rows(table) == before
    assert table.optimize(full=True, max_file_bytes=size).version is None
    assert [*check_table(table.log)] == []
    assert table.history(1)[0]["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": '["number","d"]',
        "auto": "false",
        "isFull": "true",
    }


def test_auto_compaction_of_a_clustered_table_makes_no_cube() -> None:
    """Files that it compacts count as new for the next OPTIMIZE."""
    table = clustered([numbers(0), numbers(1)])
    report = optimize(table, OptimizeRequest(is_auto=True))
    assert (report.order, len(report.removed_bytes), adds(table)[0].tags) == (None, 2, None)
    assert table.optimize().order is not None


def test_files_of_other_clustering_columns_wait_for_full() -> None:
    table = clustered([numbers(0)])
    table.optimize()
    with table.transaction() as changes:
        changes.cluster_by([("s",), ("d",)])
    assert table.optimize().version is None
    report = table.optimize(full=True)
    assert (len(report.removed_bytes), report.cubes) == (1, 1)


def test_files_of_an_earlier_zorder_by_count_as_new() -> None:
    table = made([numbers(0), numbers(1)])
    table.optimize(z_order_by=["d"])
    with table.transaction() as changes:
        changes.cluster_by([("number",)])
    assert len(table.optimize().removed_bytes) == 1
    assert {add.clustering_provider for add in adds(table)} == {"liquid"}


def test_files_with_many_deleted_rows_leave_their_cube() -> None:
    table = clustered([numbers(0, 3000)], properties=VECTORS)
    table.optimize(max_file_bytes=sum(table.files()["size_bytes"].to_pylist()) // 10)
    with table.transaction() as changes:
        changes.delete("number < 60000")
    report = table.optimize()
    assert report.rows_purged > 0
    assert sum(table.files()["deleted_records"].to_pylist()) == 0


def test_columns_are_spelled_as_the_reference_spells_them() -> None:
    rows = pa.table({"a b": range(10), "x.y": range(10)})
    table = made([rows], properties=MAPPED)
    report = table.optimize(z_order_by=["`a b`", "`x.y`"])
    assert report.order is not None
    assert report.order.names == ["a b", "`x.y`"]
    with table.transaction() as changes:
        changes.cluster_by([("a b",), ("x.y",)])
    table.optimize()
    assert {(add.tags or {})["ZCUBE_ZORDER_BY"] for add in adds(table)} == {'["`a b`","`x.y`"]'}


# --- beside other writers, and failures


def beside(table: tahoe.Table, rival: Callable[[], object], request: OptimizeRequest) -> OptimizeReport:
    """Run OPTIMIZE, with a rival that commits after the files were written."""

    def rewriter(plan: WritePlan, bins: Sequence[Bin]) -> list[Rewritten | BaseException]:
        found = list(lay_out_in_threads(plan, bins))
        rival()
        return found

    return optimize(table, request, rewriter=rewriter)


ZORDER = OptimizeRequest(order=OrderRequest(zorder_by=(("number",),)))


def files_on_disk(table: tahoe.Table) -> set[str]:
    return {
        info.key
        for info in table.env.store.walk()
        if info.key.endswith(".parquet") and not info.key.startswith("_delta_log")
    }


def test_an_append_meanwhile_stays() -> None:
    table = made([numbers(0), numbers(1, first=300)])
    report = beside(table, lambda: table.append(numbers(2, first=600)), ZORDER)
    assert (report.version, table.files().num_rows) == (3, 2)
    assert table.optimize(z_order_by=["number"]).version == 4


def test_a_partition_that_changed_meanwhile_is_dropped() -> None:
    table = made([numbers(0), numbers(1, first=300)], ["p"], VECTORS)

    def rival() -> None:
        with table.transaction() as changes:
            changes.delete("p = 1 and number < 500000")

    report = beside(table, rival, ZORDER)
    assert (report.bins, report.bins_dropped, len(report.partitions)) == (2, 1, 1)
    expected = set(table.files()["path"].to_pylist())
    assert expected <= files_on_disk(table)
    assert len(files_on_disk(table)) == len(expected) + 2, "only the removed files of the other partition are left"
    assert [*check_table(table.log)] == []


def test_if_everything_changed_meanwhile_the_conflict_is_raised_and_the_new_files_are_deleted() -> None:
    table = made([numbers(0), numbers(1)])
    before = files_on_disk(table)
    with pytest.raises(ConcurrentDeleteDeleteException):
        beside(table, lambda: table.optimize(), ZORDER)
    assert len(files_on_disk(table) - before) == 1


def test_a_missing_file_fails_and_leaves_no_files() -> None:
    table = made([numbers(0), numbers(1)])
    path = table.files()["path"].to_pylist()[0]
    table.env.store.delete(path)
    before = files_on_disk(table)
    with pytest.raises(DataFileMissingError):
        table.optimize(z_order_by=["number"])
    assert files_on_disk(table) == before


def test_a_failure_while_files_are_written_deletes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made([numbers(seed) for seed in range(4)])
    before = files_on_disk(table)
    limited = laying_out._limited

    def failing(row_groups: Iterator[pa.Table], most: int) -> Iterator[tuple[int, pa.Table]]:
        if len(files_on_disk(table)) > len(before) + 2:
            raise OSError("disk full")
        yield from limited(row_groups, most)

    monkeypatch.setattr(laying_out, "_limited", failing)
    with pytest.raises(OSError, match="disk full"):
        table.optimize(z_order_by=["number"], max_file_bytes=sum(table.files()["size_bytes"].to_pylist()) // 8)
    assert files_on_disk(table) == before


def test_settings_of_the_target_size() -> None:
    table = made([numbers(0, 3000)], properties={"delta.targetFileSize": "10kb"})
    table.optimize(z_order_by=["number", "d"])
    assert table.files().num_rows > 5
    assert CompactionSettings().max_file_bytes == 1 << 30
