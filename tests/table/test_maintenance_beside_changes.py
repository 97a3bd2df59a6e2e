"""Maintenance beside commands that replace the table, or change what may be written to it.

A command of maintenance works for long on one version and commits on a later one. What it checked at its beginning must
hold there too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import AppendOnlyTableError, MetadataChangedException, UnsupportedWriterFeatureError
from tahoe.protocol.log.actions import encode_commit
from tahoe.table.layout.optimize import OptimizeRequest, optimize
from tahoe.table.layout.statistics import AnalyzeReport, AnalyzeRequest, compute_statistics, measured_in_threads
from tahoe.table.reading.scan import Scan
from tahoe.table.verify.check import check_table
from tests.table.builders import memory_env, put_commit
from tests.table.damage import with_statistics

VECTORS = {"delta.enableDeletionVectors": "true"}

_names = itertools.count()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def made(*commits: Sequence[int], properties: dict[str, str] | None = None) -> tahoe.Table:
    table = tahoe.Table(f"memory://t{next(_names)}", env=memory_env())
    for ids in commits:
        table.append(rows(*ids), properties=properties or {})
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table, as another process sees it."""
    return tahoe.Table(table.url, env=table.env)


def ids(table: tahoe.Table) -> list[int]:
    return sorted(again(table).to_arrow()["id"].to_pylist())


def analyze_beside(table: tahoe.Table, rival: Callable[[], object]) -> AnalyzeReport:
    """ANALYZE, with a rival that acts once the rows were measured."""

    def measurer(work: Sequence[object]) -> list[object]:
        done = list(measured_in_threads(work))  # type: ignore[arg-type]
        rival()
        return done

    return compute_statistics(table, AnalyzeRequest(), measurer=measurer)  # type: ignore[arg-type]


def with_wide_bounds() -> tahoe.Table:
    """Version 2 of a table, with a file whose bounds are wider than its rows."""
    table = made([1, 2, 3], [4, 5], properties=VECTORS)
    with table.transaction() as changes:
        changes.delete("id = 2")
    return table


# --- another table in the same place


def recreate(table: tahoe.Table, version: int) -> None:
    """Drop the table, and create another one with as many versions."""
    drop(table)
    for number in range(version + 1):
        again(table).append(rows(100 + number), properties=VECTORS)


def drop(table: tahoe.Table) -> None:
    store = table.env.store
    for info in [*store.walk(), *store.list_from("_delta_log")]:
        store.delete(info.key)


def recreate_over_the_same_files(table: tahoe.Table) -> None:
    """Delete the log and write one of another table with the same files, as CONVERT TO DELTA does."""
    store = table.env.store
    before = again(table).snapshot()
    for info in list(store.list_from("_delta_log")):
        store.delete(info.key)
    metadata = before.metadata.replace(id="11111111-1111-4111-8111-111111111111")
    for version in range(before.version + 1):
        actions = [before.protocol, metadata, *before.live.adds()] if version == 0 else []
        assert store.put_if_absent(f"_delta_log/{version:020d}.json", encode_commit(actions))


def unharmed(table: tahoe.Table, version: int) -> bool:
    return again(table).version == version and list(check_table(again(table).log)) == []


@pytest.mark.parametrize("versions", [-1, 0, 1])
def test_analyze_commits_nothing_to_a_table_that_took_the_place_of_the_measured_one(versions: int) -> None:
    """Only the table's id tells, if both have the same number of versions."""
    table = with_wide_bounds()
    version = table.version + versions
    with pytest.raises(MetadataChangedException, match="planned on another table"):
        analyze_beside(table, lambda: recreate(table, version))
    assert unharmed(table, version)
    assert ids(table) == list(range(100, 101 + version))


def test_optimize_computes_no_statistics_of_a_table_that_took_the_place_of_its_own() -> None:
    table = made([1])

    def select(scan: Scan) -> Scan:
        recreate_over_the_same_files(table)
        with_statistics(table.env, 0, None)
        return scan

    assert optimize(table, OptimizeRequest(select=select)).version is None
    assert again(table).version == 0


def lose_a_file(table: tahoe.Table) -> None:
    table.env.store.delete(next(iter(table.snapshot().live.adds())).path)


def tell_wrong_statistics(table: tahoe.Table) -> None:
    with_statistics(table.env, 0, '{"numRecords":1,"minValues":{"id":7},"maxValues":{"id":8},"nullCount":{"id":0}}')


@pytest.mark.parametrize(
    ("damage", "verify_all_files"),
    [(lose_a_file, False), (tell_wrong_statistics, True)],
    ids=["removes nothing", "computes no statistics"],
)
def test_repair_leaves_a_table_alone_that_took_the_place_of_the_checked_one(
    damage: Callable[[tahoe.Table], None], verify_all_files: bool
) -> None:
    table = made([1], [2])
    damage(table)
    with pytest.raises(MetadataChangedException, match="planned on another table"):
        again(table).repair(verify_all_files=verify_all_files, announce=lambda _: recreate_over_the_same_files(table))
    assert again(table).version == 1


# --- other rules of the same table


FUTURE = "fromTheFuture"


def require(table: tahoe.Table, feature: str = FUTURE) -> None:
    """Another writer adds a writer feature that tahoe does not know."""
    before = again(table).snapshot()
    features = frozenset({*(before.protocol.writer_features or ()), feature})
    protocol = before.protocol.replace(
        reader_version=3, writer_version=7, reader_features=frozenset(), writer_features=features
    )
    put_commit(table.env, before.version + 1, [protocol])


def forbid_removal(table: tahoe.Table) -> None:
    with again(table).transaction() as changes:
        changes.set_properties({"delta.appendOnly": "true"})


def test_analyze_commits_nothing_once_the_table_needs_an_unknown_feature() -> None:
    table = with_wide_bounds()
    version = table.version
    with pytest.raises(UnsupportedWriterFeatureError, match=FUTURE):
        analyze_beside(table, lambda: require(table))
    assert again(table).version == version + 1


def test_optimize_does_not_fail_because_it_may_compute_no_statistics() -> None:
    table = made([1])
    with_statistics(table.env, 0, None)

    def select(scan: Scan) -> Scan:
        require(table)
        return scan

    assert optimize(again(table), OptimizeRequest(select=select)).version is None
    assert again(table).version == 1


@pytest.mark.parametrize(
    ("rival", "refusal"),
    [(require, UnsupportedWriterFeatureError), (forbid_removal, AppendOnlyTableError)],
    ids=["feature", "append-only"],
)
def test_repair_removes_nothing_that_the_table_no_longer_allows(
    rival: Callable[[tahoe.Table], None], refusal: type[Exception]
) -> None:
    table = made([1], [2])
    table.env.store.delete(next(iter(table.snapshot().live.adds())).path)
    with pytest.raises(refusal):
        again(table).repair(announce=lambda _: rival(table))
    assert again(table).version == 2


def test_repair_writes_no_checkpoint_once_the_table_needs_an_unknown_feature() -> None:
    table = made([1], [2])
    table.create_checkpoint()
    key = f"_delta_log/{1:020d}.checkpoint.parquet"
    table.env.store.put(key, b"no checkpoint")
    with pytest.raises(UnsupportedWriterFeatureError, match=FUTURE):
        again(table).repair(announce=lambda _: require(table))
    assert [info.key for info in table.env.store.list_from("_delta_log") if "checkpoint.parquet" in info.key] == [key]
