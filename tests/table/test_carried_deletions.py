"""Deletions of rows and compactions of the same files: both are committed, whichever is first, as if one had run after
the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import ConcurrentDeleteDeleteException
from tahoe.protocol.log.actions import Add, CommitInfo, Remove, remove_of
from tahoe.table.commit.transaction import Transaction
from tahoe.table.layout.compaction import Bin, CompactionSettings
from tahoe.table.layout.optimize import REORG, OptimizeReport, OptimizeRequest, optimize, rewritten_in_threads
from tahoe.table.layout.rewriting import Rewritten
from tahoe.table.verify.check import check_table
from tahoe.table.writing.write_plan import WritePlan
from tests.examples import fewer
from tests.table.builders import memory_env, put_commit

VECTORS = {"delta.enableDeletionVectors": "true"}
EVERYTHING = VECTORS | {
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.columnMapping.mode": "name",
}
_numbers = itertools.count()


def made(
    files: Sequence[Sequence[int]], partition_by: Sequence[str] | None = None, properties: dict[str, str] = VECTORS
) -> tahoe.Table:
    table = tahoe.Table(f"memory://carried-{next(_numbers)}", env=memory_env())
    for ids in files:
        rows = pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([i % 2 for i in ids], pa.int32())})
        table.append(rows, partition_by=partition_by, properties=properties)
    return table


def delete(table: tahoe.Table, *ids: int) -> None:
    if ids:
        with table.transaction() as changes:
            changes.delete(f"id in ({', '.join(map(str, ids))})")


def beside(table: tahoe.Table, rival: Callable[[], object], **request: Any) -> OptimizeReport:
    """Compact all files, with a rival that commits after the bins were rewritten, or at once if there are none."""
    waiting = [rival]

    def rewriter(plan: WritePlan, bins: Sequence[Bin]) -> list[Rewritten | BaseException]:
        done = list(rewritten_in_threads(plan, bins))
        waiting.pop()()
        return done

    report = optimize(table, OptimizeRequest(**request), rewriter=rewriter)
    for missed in waiting:
        missed()
    return report


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def rows(table: tahoe.Table) -> list[dict[str, Any]]:
    names = [
        "id",
        "p",
        *(["_metadata.row_id", "_metadata.row_commit_version"] if table.snapshot().row_tracking else []),
    ]
    return sorted(table.to_arrow(columns=names).to_pylist(), key=lambda row: row["id"])


def file_actions(table: tahoe.Table, version: int) -> list[Add | Remove]:
    return [a for a in table.log.read_version(version) if isinstance(a, Add | Remove)]


def test_a_compaction_carries_over_what_others_have_deleted() -> None:
    table = made([[0, 1, 2], [3, 4, 5], [6, 7]])
    delete(table, 4)

    def rivals() -> None:
        delete(table, 3, 0)
        delete(table, 6, 7)  # a whole file

    report = beside(table, rivals)
    assert (report.bins_dropped, ids(table)) == (0, [1, 2, 5])
    (file,) = table.files(columns=["num_records", "deleted_records", "stats"]).to_pylist()
    assert (file["num_records"], file["deleted_records"]) == (7, 4)
    assert '"tightBounds":false' in file["stats"]
    actions = file_actions(table, report.version or 0)
    assert not any(a.data_change for a in actions)
    assert len([a for a in actions if isinstance(a, Remove)]) == 2, (
        "the file that was removed before is not removed again"
    )
    assert table.history(1)[0]["operation"] == "OPTIMIZE"


def test_of_a_bin_whose_rows_are_all_deleted_nothing_stays() -> None:
    table = made([[0, 1], [2, 3]])
    report = beside(table, lambda: delete(table, 0, 1, 2, 3))
    assert (report.bins_dropped, ids(table), len(table.files())) == (0, [], 0)


@pytest.mark.parametrize("gone", [[1], [1, 4], [0, 1, 2], [0, 1, 2, 3, 4, 5]])
def test_a_deletion_is_carried_over_a_compaction(gone: list[int]) -> None:
    table = made([[0, 1, 2], [3, 4, 5]])
    with table.transaction() as changes:
        changes.delete(f"id in ({', '.join(map(str, gone))})")
        table.optimize()
    assert ids(table) == [i for i in range(6) if i not in gone]
    assert len(table.files()) == (1 if len(gone) < 6 else 0)


def test_a_deletion_is_carried_over_a_compaction_that_carried_another() -> None:
    """The compaction has read a file without the vector that it removes it with."""
    table = made([[0, 1, 2], [3, 4, 5]])
    delete(table, 1)
    with table.transaction() as changes:
        changes.delete("id in (2, 5)")
        beside(table, lambda: delete(table, 0, 3))
    assert ids(table) == [4]
    with table.transaction() as changes:
        changes.delete("id = 4")
        table.append(pa.table({"id": [6], "p": pa.array([0], pa.int32())}))
        table.optimize()
        table.append(pa.table({"id": [7], "p": pa.array([1], pa.int32())}))
        table.optimize()
    assert ids(table) == [6, 7]


@pytest.mark.parametrize(
    ("files", "mine", "rival", "left"),
    [
        pytest.param(
            [[0, 1, 2], [3, 4, 5]],
            lambda changes: changes.delete("id in (1, 2)"),
            lambda table: (delete(table, 1), table.optimize()),
            [0, 2, 3, 4, 5],
            id="rows that both delete",
        ),
        pytest.param(
            [[0, 1, 2], [3, 4, 5]],
            lambda changes: (changes.delete("id = 1"), changes.set_properties({"delta.enableChangeDataFeed": "true"})),
            lambda table: table.optimize(),
            [0, 1, 2, 3, 4, 5],
            id="a transaction that changes the metadata",
        ),
        pytest.param(
            [[0, 3, 2], [1, 5, 4]],
            lambda changes: changes.delete("id = 1"),
            lambda table: table.optimize(z_order_by=["id"]),
            [0, 1, 2, 3, 4, 5],
            id="a sort without row ids",
        ),
    ],
)
def test_what_cannot_be_carried_over_is_a_conflict_as_before(
    files: list[list[int]],
    mine: Callable[[Any], object],
    rival: Callable[[tahoe.Table], object],
    left: list[int],
) -> None:
    table = made(files)
    with pytest.raises(ConcurrentDeleteDeleteException), table.transaction() as changes:
        mine(changes)
        rival(table)
    assert ids(table) == left


def test_rows_that_were_restored_are_not_lost() -> None:
    """A vector that shrinks brings back rows which the compaction has not copied."""
    table = made([[0, 1, 2], [3, 4, 5]])
    delete(table, 1)
    (marked,) = [a for a in file_actions(table, table.version or 0) if isinstance(a, Add)]
    (whole,) = [a for a in file_actions(table, 0) if isinstance(a, Add)]

    def restore() -> None:
        Transaction(
            log=table.log, base=table.snapshot(), actions=[remove_of(marked, 1), whole], operation="RESTORE"
        ).commit()

    with pytest.raises(ConcurrentDeleteDeleteException):
        beside(table, restore)
    assert ids(table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("properties", "request_"),
    [
        ({}, {}),
        (VECTORS, {"operation": REORG, "settings": CompactionSettings(max_deleted_share=0.0, min_file_bytes=0)}),
    ],
    ids=["without vectors", "REORG"],
)
def test_where_nothing_can_be_carried_over_the_bin_is_dropped(
    properties: dict[str, str], request_: dict[str, Any]
) -> None:
    table = made([[0, 1, 2], [3, 4, 5]], properties=properties)
    delete(table, 0, 3)
    table.append(pa.table({"id": [6, 7], "p": pa.array([0, 1], pa.int32())}))
    with pytest.raises(ConcurrentDeleteDeleteException):
        beside(table, lambda: delete(table, 1, 4), **request_)
    assert ids(table) == [2, 5, 6, 7]


TRACKED = VECTORS | {"delta.enableRowTracking": "true"}


@pytest.mark.parametrize("gone", [[1], [1, 4], [0, 1, 2], [0, 1, 2, 3, 4, 5]])
def test_a_deletion_is_carried_over_a_sort_by_row_ids(gone: list[int]) -> None:
    table = made([[0, 3, 2], [1, 5, 4]], properties=TRACKED)
    known = {row["id"]: row for row in rows(table)}
    with table.transaction() as changes:
        changes.delete(f"id in ({', '.join(map(str, gone))})")
        table.optimize(z_order_by=["id"])
        table.optimize(z_order_by=["p"])
    assert rows(table) == [known[i] for i in range(6) if i not in gone]
    assert [*check_table(table.log)] == []
    assert table.log.commit_info(table.version or 0).fields["tags"] == {"delta.rowTracking.preserved": "true"}


def test_rows_that_have_lost_their_ids_are_not_followed() -> None:
    """Another writer moves rows, says that it has kept their ids, and has not."""
    table = made([[0, 3, 2], [1, 5, 4]], properties=TRACKED)
    with pytest.raises(ConcurrentDeleteDeleteException), table.transaction() as changes:
        changes.delete("id = 1")
        (version, adds) = (table.version or 0) + 1, list(table.snapshot().live.adds())
        copies = [
            a.replace(path=f"copy-{number}", base_row_id=100 * number + 100, data_change=False)
            for number, a in enumerate(adds)
        ]
        for a, copy in zip(adds, copies, strict=True):
            table.env.store.put(copy.path, table.env.store.get(a.path))
        info = CommitInfo({"tags": {"delta.rowTracking.preserved": "true"}})
        put_commit(table.env, version, [info, *(remove_of(a, 1, data_change=False) for a in adds), *copies])
    assert ids(table) == [0, 1, 2, 3, 4, 5]


def test_removes_have_the_row_ids_that_a_winner_gave_to_their_files() -> None:
    """Row tracking is enabled on a table with files: another writer adds them again with ids."""
    table = made(
        [[0, 1], [2, 3]], properties={"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": "true"}
    )

    def backfill() -> None:
        adds = [
            a.replace(base_row_id=10 * n, default_row_commit_version=2, data_change=False)
            for n, a in enumerate(table.snapshot().live.adds())
        ]
        put_commit(table.env, (table.version or 0) + 1, [CommitInfo({}), *adds])

    report = beside(table, backfill)
    removes = [a for a in file_actions(table, report.version or 0) if isinstance(a, Remove)]
    assert sorted((a.base_row_id, a.default_row_commit_version) for a in removes) == [(0, 2), (10, 2)]


@fewer(2)
@given(st.data(), st.sampled_from([(None, VECTORS), (["p"], VECTORS), (["p"], EVERYTHING), (None, EVERYTHING)]))
def test_it_is_as_if_one_had_run_after_the_other(
    data: st.DataObject, layout: tuple[Sequence[str] | None, dict[str, str]]
) -> None:
    """Rows, row ids and row commit versions, the feed, and `tahoe check`."""
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    bounds = [0, *itertools.accumulate(sizes)]
    files = [list(range(*pair)) for pair in itertools.pairwise(bounds)]
    some = st.sets(st.integers(0, bounds[-1] - 1), max_size=4)
    before, first, second, late = (data.draw(some) for _ in range(4))
    first, second, late = first - before, second - before - first, late - before - first - second
    tables = [made(files, *layout) for _ in range(2)]
    for table in tables:
        delete(table, *before)
    given_table, alone = tables
    known = {row["id"]: row for row in rows(given_table)}

    def rivals() -> None:
        delete(given_table, *first)
        delete(given_table, *second)

    start = given_table.version or 0
    if late:
        with given_table.transaction() as changes:
            changes.delete(f"id in ({', '.join(map(str, late))})")
            beside(given_table, rivals)
    else:
        beside(given_table, rivals)
    for ids_ in (first, second, late):
        delete(alone, *ids_)
    left = rows(given_table)
    assert [row["id"] for row in left] == ids(alone)
    assert left == [known[row["id"]] for row in left]
    assert [*check_table(given_table.log)] == []
    if "delta.enableChangeDataFeed" in layout[1] and (given_table.version or 0) > start:
        feed = given_table.changes(start_version=start + 1).to_pylist()
        assert sorted((row["id"], row["_change_type"]) for row in feed) == sorted(
            (i, "delete") for i in first | second | late
        )
